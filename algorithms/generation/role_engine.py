"""Engine of a team: each role's actions are sampled by an engine of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from fctncalling.algorithms.config import SettingError
from fctncalling.algorithms.generation.engine import GenerationEngine
from fctncalling.algorithms.generation.engine_api import Action, Engine, Request, TokenCounts


@dataclass
class RoleSampler:
    """The engine of a role, and the context that its passes run in: the role's adapter."""

    engine: GenerationEngine
    active: Callable[[], contextlib.AbstractContextManager[None]]
    pending: set[int] = field(default_factory=set)  # slots with a request


class RoleEngine(Engine):
    """Engine that samples each request with that of `request.info["role"]`.

    All share their slots' random streams, so that equal weights would sample what one engine does.

    `advance` runs the role with the most requests, whose passes are then the largest. Caches are of
    each role's own.
    """

    def __init__(self, samplers: Mapping[str, RoleSampler]) -> None:
        self._samplers = dict(samplers)

    def start(self, num_slots: int) -> None:
        """Clear all slots and provide slots 0..num_slots-1.

        Call it whenever the weights changed.
        """
        for sampler in self._samplers.values():
            sampler.engine.start(num_slots)
            sampler.pending.clear()

    def begin(self, slot: int, seed: int | None = None) -> None:
        """Clear a slot for a new sequence; a seed gives it its own random stream."""
        stream = None if seed is None else torch.Generator().manual_seed(seed)
        for sampler in self._samplers.values():
            sampler.engine.begin(slot, stream=stream)
            sampler.pending.discard(slot)

    def restart(self, slot: int) -> None:
        """Clear a slot but keep its random stream; its next request may be another role's."""
        for sampler in self._samplers.values():
            sampler.engine.restart(slot)
            sampler.pending.discard(slot)

    def submit(self, request: Request) -> None:
        """Take a request; SettingError for a role that was unknown when the run started."""
        role = str(request.info.get("role") or "")
        if role not in self._samplers:
            raise SettingError(
                f'--role_adapters: the environment\'s info["role"] is "{role}", expected one of '
                f"its attribute roles: {', '.join(self._samplers)}"
            )
        self._samplers[role].engine.submit(request)
        self._samplers[role].pending.add(request.slot)

    def advance(self) -> list[tuple[int, Action]]:
        """Run the role with the most requests until some of them finished."""
        sampler = max(self._samplers.values(), key=lambda it: len(it.pending))
        sampler.engine.interrupted = self.interrupted
        with sampler.active():
            finished = sampler.engine.advance()
        sampler.pending -= {slot for slot, _ in finished}
        return finished

    @property
    def token_counts(self) -> TokenCounts:
        """Tokens since construction, of all roles."""
        counts = (sampler.engine.token_counts for sampler in self._samplers.values())
        return TokenCounts(*map(sum, zip(*counts, strict=True)))
