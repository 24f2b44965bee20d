"""Engine of a team: one engine for each role samples its actions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from fctncalling.algorithms.config import SettingError
from fctncalling.algorithms.generation.engine import GenerationEngine
from fctncalling.algorithms.generation.engine_api import Action, Engine, Request, TokenCounts


@dataclass
class AdapterEngine:
    """Engine of a role, with the context of its passes (the role's adapter)."""

    engine: GenerationEngine
    active: Callable[[], contextlib.AbstractContextManager[None]]
    pending: set[int] = field(default_factory=set)  # slots with a request


class RoleEngine(Engine):
    """Role engine: samples each request with the engine of its role in a team.

    All share their slots' random streams, so that equal weights would sample what one engine does.

    `advance` runs the role with the most requests, whose passes are then the largest. Caches are of
    each role's own.
    """

    def __init__(self, samplers: Mapping[str, AdapterEngine]) -> None:
        self._samplers = dict(samplers)

    def allocate_slots(self, num_slots: int) -> None:
        """Allocate slots 0..num_slots-1, empty ones, in place of those before.

        Call it whenever the weights changed.
        """
        for sampler in self._samplers.values():
            sampler.engine.allocate_slots(num_slots)
            sampler.pending.clear()

    def begin_sequence(self, slot: int, seed: int | None = None) -> None:
        """Begin a sequence in a slot; with a seed it has a separate random stream."""
        stream = None if seed is None else torch.Generator().manual_seed(seed)
        for sampler in self._samplers.values():
            sampler.engine.begin_sequence(slot, stream=stream)
            sampler.pending.discard(slot)

    def restart_sequence(self, slot: int) -> None:
        """Restart the sequence of a slot: clear it but keep its random stream."""
        for sampler in self._samplers.values():
            sampler.engine.restart_sequence(slot)
            sampler.pending.discard(slot)

    def submit(self, request: Request) -> None:
        """Submit a request to its role's engine; SettingError for an unknown role."""
        role = str(request.info.get("role") or "")
        if role not in self._samplers:
            raise SettingError(
                f'--role_adapters: the environment\'s info["role"] is "{role}", expected one of '
                f"its attribute roles: {', '.join(self._samplers)}"
            )
        self._samplers[role].engine.submit(request)
        self._samplers[role].pending.add(request.slot)

    def advance(self) -> list[tuple[int, Action]]:
        """Advance the role with the most requests until some of them finished."""
        sampler = max(self._samplers.values(), key=lambda it: len(it.pending))
        sampler.engine.interrupted = self.interrupted
        with sampler.active():
            finished = sampler.engine.advance()
        sampler.pending -= {slot for slot, _ in finished}
        return finished

    @property
    def token_counts(self) -> TokenCounts:
        """Counts of tokens since construction, of all roles."""
        counts = (sampler.engine.token_counts for sampler in self._samplers.values())
        return TokenCounts(*map(sum, zip(*counts, strict=True)))
