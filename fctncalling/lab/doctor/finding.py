"""Findings of all checks: sound, worth a note, a fault, or not checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

SOUND, NOTE, FAULT, UNCHECKED = "sound", "note", "fault", "unchecked"
IMPOSSIBLE, BROKEN, SUSPICIOUS = "impossible", "broken", "suspicious"  # of a task
NOTHING = "Nothing to do"
EXIT_CODES: dict[str, int] = dict.fromkeys((SOUND, NOTE, SUSPICIOUS), 0)
EXIT_CODES |= {FAULT: 1, IMPOSSIBLE: 1, BROKEN: 1, UNCHECKED: 2}


@dataclass(frozen=True)
class HealthCheck:
    """Finding of a check: what it is, why it matters, and what to do about it."""

    check: str
    level: str  # a key of EXIT_CODES
    message: str
    cure: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)  # what was measured, for --json
    why: str = ""  # it matters to whoever trains the model

    @property
    def is_fault(self) -> bool:
        """Whether it spoils training."""
        return self.level == FAULT

    @property
    def line(self) -> str:
        """The finding in one line, why it matters and cure included."""
        return ". ".join(filter(None, (self.message, self.why, self.cure)))

    def as_json(self) -> dict[str, Any]:
        """Return the finding as JSON, with its measured figures, if any."""
        values = asdict(self)
        figures = values.pop("figures")
        return {**values, **({"figures": figures} if figures else {})}


def sound(check: str, message: str, **figures: Any) -> HealthCheck:
    """Return a finding that all is well."""
    return HealthCheck(check, SOUND, message, figures=figures)


def note(check: str, message: str, cure: str = "", *, why: str = "", **figures: Any) -> HealthCheck:
    """Return a finding that is worth knowing and harmless."""
    return HealthCheck(check, NOTE, message, cure, figures, why)


def fault(
    check: str, message: str, cure: str = "", *, why: str = "", **figures: Any
) -> HealthCheck:
    """Return a finding that spoils training."""
    return HealthCheck(check, FAULT, message, cure, figures, why)


def unchecked(check: str, message: str, cure: str = "") -> HealthCheck:
    """Return a finding that a check could not be made."""
    return HealthCheck(check, UNCHECKED, message, cure)


def exit_code(findings: Iterable[HealthCheck]) -> int:
    """Return 1 if something spoils training, 2 if something is unchecked, else 0."""
    codes = {EXIT_CODES[finding.level] for finding in findings}
    return 1 if 1 in codes else max(codes, default=0)
