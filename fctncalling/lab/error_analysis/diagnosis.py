"""Causes that a failed answer has to mend, each named and with its cure."""

from __future__ import annotations

import json
import re
import textwrap
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    """One judged answer: its errors, everything to mend, and a near answer that passes."""

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
        """The first thing to mend; "" if the answer is right."""
        return self.causes[0] if self.causes else ""


MAX_TEXT_CHARS = 400
"""Of an answer in an example; the middle of a longer one is left out."""
_FUNCTION = re.compile(r"(?<=no call matches )[^:]+")
_NAMED = re.compile(
    r"'[^']*'|\"[^\"]*\"|\[(?:[^\[\]]|\[[^\]]*\])*\]|\b\d[\d.]*\b|\b(?:True|False|None)\b"
)
_CUT = re.compile(r"[\"'\[{].*$", re.DOTALL)  # a quotation that a message shortened
_DOTS = re.compile(r"\.{3}[.\])]+|\.{3}(?:, \.{3})+")
_MOST_COMMON = 5


class CategoryReport:
    """Counts of one model's diagnoses in a category; memory does not grow with their number."""

    def __init__(self, max_examples: int = 3) -> None:
        self._max_examples = max_examples
        self._counts: Counter[str] = Counter()
        self._rules: Counter[str] = Counter()
        self._complaints: Counter[str] = Counter()
        self._forgiven: Counter[str] = Counter()
        self._causes: dict[str, _CauseCount] = defaultdict(_CauseCount)
        self.faulty_truths: dict[str, str] = {}  # id of a failed task -> what is wrong with it
        self.num_inference_errors = 0  # answers, right ones too, in place of which a server failed
        self.not_judged = ""  # why the first answer that could not be judged could not

    @property
    def num_judged(self) -> int:
        """How many answers were judged."""
        return self._counts["answers"]

    def add(self, task_id: str, found: Diagnosis, strict_error_type: str | None = None) -> None:
        """Count one answer; `strict_error_type`: the strict rule that a right one breaks."""
        self._counts["answers"] += 1
        self._counts["valid"] += found.verdict.valid
        self._counts["lenient"] += found.verdict.valid or found.form_suffices
        self._counts["types_mended"] += found.verdict.valid or found.types_suffice
        if found.verdict.valid:
            self._counts["strict"] += strict_error_type is None
            self._forgiven.update([strict_error_type] if strict_error_type else ())
            return
        self._rules[str(found.verdict.error_type)] += 1
        self._complaints[_pattern(found.complaint)] += 1
        self._causes[found.cause].add(task_id, found, self._max_examples)

    def add_not_judged(self, reason: str) -> None:
        """Count an answer that no verdict is possible on."""
        self._counts["not_judged"] += 1
        self.not_judged = self.not_judged or reason

    def as_json(self) -> dict[str, Any]:
        """Return everything; shares are of the failures, rates of the answers, both 0..1."""
        answers, failed = self.num_judged, self.num_judged - self._counts["valid"]
        names = ("valid", "strict", "lenient", "types_mended")
        order = list(CURES)
        causes = sorted(
            self._causes.items(), key=lambda item: (-item[1].count, order.index(item[0]))
        )
        return {
            "answers": answers,
            "failed": failed,
            "not_judged": self._counts["not_judged"],
            "not_judged_reason": self.not_judged,
            "inference_errors": self.num_inference_errors,
            "rates": {name: self._counts[name] / max(1, answers) for name in names},
            "causes": [each.as_json(name, failed) for name, each in causes],
            "rules": _shares(self._rules, failed),
            "complaints": _shares(self._complaints, failed)[:_MOST_COMMON],
            "forgiven": dict(self._forgiven.most_common()),
        }


class _CauseCount:
    """Count of answers of which one cause comes first, with places and examples."""

    def __init__(self) -> None:
        self.count = 0
        self._form_suffices = 0
        self._types_suffice = 0
        self._where: Counter[str] = Counter()
        self._turns: Counter[int] = Counter()
        self._examples: list[dict[str, Any]] = []

    def add(self, task_id: str, found: Diagnosis, max_examples: int) -> None:
        self.count += 1
        self._form_suffices += found.form_suffices
        self._types_suffice += found.types_suffice
        if len(self._where) < 10_000:
            self._where.update(dict.fromkeys(found.where, 1))
        if found.turn is not None:
            self._turns[found.turn] += 1
        if len(self._examples) < max_examples:
            self._examples.append(_example(task_id, found))

    def as_json(self, cause: str, failed: int) -> dict[str, Any]:
        return {
            "cause": cause,
            "count": self.count,
            "share": self.count / failed,
            "cure": CURES[cause],
            "passes_with_form_mended": self._form_suffices,
            "passes_with_types_mended": self._types_suffice,
            "where": dict(self._where.most_common(_MOST_COMMON)),
            "turns": {str(turn): count for turn, count in sorted(self._turns.items())},
            "examples": self._examples,
        }


def _example(task_id: str, found: Diagnosis) -> dict[str, Any]:
    return {
        "id": task_id,
        "causes": list(found.causes),
        "where": list(found.where),
        "turn": found.turn,
        "error_type": found.verdict.error_type,
        "message": found.verdict.message,
        "complaint": found.complaint,
        "answer": _shortened(found.answer),
        "nearest": None if found.nearest is None else _shortened(found.nearest),
    }


def _shortened(text: str) -> str:
    half = MAX_TEXT_CHARS // 2
    return text if len(text) <= MAX_TEXT_CHARS else f"{text[:half]} [...] {text[-half:]}"


def _pattern(complaint: str) -> str:
    """Return a complaint, up to its first semicolon, with dots for the values in it."""
    text = _NAMED.sub("...", _FUNCTION.sub("...", complaint))
    text = _DOTS.sub("...", _CUT.sub("...", text).partition(";")[0])
    return textwrap.shorten(text, 120, placeholder=" ...")


def _shares(counts: Counter[str], total: int) -> list[dict[str, Any]]:
    return [
        {"name": name, "count": count, "share": count / total}
        for name, count in counts.most_common()
        if name
    ]
