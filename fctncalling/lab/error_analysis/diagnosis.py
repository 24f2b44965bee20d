"""Causes that a failed answer has to mend, each named and with its cure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from fctncalling.data.types import Verdict

_CURES: dict[str, dict[str, str]] = json.loads(
    Path(__file__).with_name("cures.json").read_text(encoding="utf-8")
)
FORM_CURES = _CURES["form"]
"""Causes in how an answer is written -> what to change."""

CURES = {**FORM_CURES, **_CURES["task"]}
"""Cause -> what to change, in one or two sentences."""


@dataclass(frozen=True)
class Diagnosis:
    """One judged answer: where it is wrong, all that has to be mended, what came near it."""

    verdict: Verdict
    causes: tuple[str, ...] = ()  # what has to be mended, the first thing first
    where: tuple[str, ...] = ()  # parameters, functions or attributes of the first cause
    complaint: str = ""  # the decoder's, the checker's or a tool's
    answer: str = ""  # as text, for the reader
    nearest: str | None = None  # an answer that passes, as near to it as was found
    turn: int | None = None  # the first that fails, from 0; None where there are no turns
    form_suffices: bool = False  # it passes once it is written as the decoder wants it
    types_suffice: bool = False  # it passes once its form and its argument types are mended

    @property
    def cause(self) -> str:
        """What to mend first; "" where the answer is right."""
        return self.causes[0] if self.causes else ""
