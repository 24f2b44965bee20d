"""What a kind of weights has to do to be served: the adapter's versions, or the whole model's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from fctncalling.algorithms.vllm.client import Completion, VllmClient


class Publication(Protocol):
    """Versions of the policy's weights as servers hold them."""

    def prepare(self, client: VllmClient) -> None:
        """Bring a server up to the current version; RolloutError where it refuses that."""
        ...

    def complete(
        self, client: VllmClient, version: str, prompt: Sequence[int], **sampling: Any
    ) -> Completion:
        """Sample with a version; MissingModelError where the server does not hold it."""
        ...
