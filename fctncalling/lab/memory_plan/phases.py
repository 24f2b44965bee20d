"""Phases of a training run and what each holds in memory; the largest is the plan's peak."""

from __future__ import annotations

from typing import Any, NamedTuple

from fctncalling.lab.memory_plan.policy_sizes import PolicySizes


class Term(NamedTuple):
    """One thing that lies in memory during a phase."""

    name: str
    num_bytes: int
    set_by: str = ""  # the flags that decide it


class Phase(NamedTuple):
    """A part of a run, and what lies in memory at its highest."""

    name: str
    terms: tuple[Term, ...]

    @property
    def num_bytes(self) -> int:
        """Bytes of all terms."""
        return sum(term.num_bytes for term in self.terms)


class Microbatch(NamedTuple):
    """Tokens of the update's largest forward pass."""

    tokens: int
    row: int  # longest row
    shared: bool  # a prefix tree
    is_only_one: bool  # of its optimiser step


class MemoryPlan(NamedTuple):
    """What a run needs, and whether that is there."""

    sizes: PolicySizes
    device: str
    phases: tuple[Phase, ...]
    libraries: int  # bytes of the process before a model is loaded
    num_processes: int  # on this machine, sharing its memory
    available: int | None  # bytes; None: unknown
    microbatch: Microbatch
    largest_microbatch: int | None  # tokens that fit; None: unknown or none
    remedies: tuple[str, ...] = ()

    @property
    def peak(self) -> Phase:
        """The phase that holds most."""
        return max(self.phases, key=lambda phase: phase.num_bytes)

    @property
    def needed(self) -> int:
        """Bytes that all processes of this machine hold at their highest, libraries included."""
        return self.num_processes * (self.libraries + self.peak.num_bytes)

    @property
    def fits(self) -> bool:
        """Whether the memory suffices; where nothing is known of it, it is taken to."""
        return self.available is None or self.needed <= self.available

    def as_json(self) -> dict[str, Any]:
        """Return the plan as JSON has it; sizes in bytes."""
        return {
            "fits": self.fits,
            "device": self.device,
            "needed_bytes": self.needed,
            "available_bytes": self.available,
            "peak_bytes": self.peak.num_bytes,
            "peak_phase": self.peak.name,
            "libraries_bytes": self.libraries,
            "num_processes": self.num_processes,
            "num_weights": self.sizes.num_weights,
            "num_trained": self.sizes.num_trained,
            "microbatch_tokens": self.microbatch.tokens,
            "largest_microbatch_tokens": self.largest_microbatch,
            "phases": {
                phase.name: {term.name: term.num_bytes for term in phase.terms}
                for phase in self.phases
            },
            "remedies": list(self.remedies),
        }
