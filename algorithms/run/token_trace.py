"""TokenTrace: per-token numbers of one update, taken from its own passes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fctncalling.algorithms.batch import Experience, Minibatch
from fctncalling.algorithms.metrics import LossTerms
from fctncalling.algorithms.targets import Targets

PASS_TERMS = ("logprobs", "log_ratios", "token_entropies", "token_reference_kl")


class TokenTrace:
    """Targets of an update's N acted tokens, and the loss terms of each token's last pass.

    No pass is made for it. A token whose last pass belongs to an earlier epoch (--target_kl ended
    the last one early) keeps that one's terms.
    """

    def __init__(self) -> None:
        self.experience: Experience | None = None  # None: no pass was made
        self.targets: Targets | None = None
        self.terms: dict[str, Tensor] = {}  # (N,) each; NaN where no pass saw the token

    def add(
        self,
        experience: Experience,
        targets: Targets,
        minibatch: Minibatch,
        parts: Sequence[LossTerms],  # of the minibatch's microbatches, in their order
    ) -> None:
        """Take the loss terms of an optimiser step."""
        if self.targets is None:
            blank = torch.full_like(targets.advantages, torch.nan)
            self.terms = {name: blank.clone() for name in PASS_TERMS}
        self.experience = experience
        self.targets = targets
        for rows, terms in zip(minibatch, parts, strict=True):
            indices = experience.token_indices(rows)
            for name, latest in self.terms.items():
                latest[indices] = getattr(terms, name)
