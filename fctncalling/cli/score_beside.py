"""What `score` tells beside the official accuracy: the share of turns that pass, and strict verdicts where asked."""

from __future__ import annotations

from typing import Any

from fctncalling.checkers import kind_of, language_of
from fctncalling.data.types import StepRecord, Task, Verdict
from fctncalling.envs.progress import progress_of


class Beside:
    """Sums over the answers of one category."""

    def __init__(self, *, strict: bool) -> None:
        self._count, self._progress, self._strict = 0, 0.0, 0
        self._is_strict = strict

    def add(self, task: Task, response: Any, form: str, verdict: Verdict) -> None:
        """Count one answer; only valid ones cost a strict look."""
        self._count += 1
        self._progress += progress_of(task, verdict)
        if self._is_strict and verdict.valid:
            from fctncalling.envs.strictness import strict_verdict

            self._strict += strict_verdict(task, steps_of(task, response, form), verdict).valid

    def rates(self) -> dict[str, float]:
        """Return shares, 0..1."""
        count = max(1, self._count)
        told = {"progress": self._progress / count}
        return {**told, "strict_accuracy": self._strict / count} if self._is_strict else told

    def columns(self) -> list[str]:
        """Return the heads of the columns this fills."""
        return [name.removesuffix("_accuracy") for name in self.rates()]

    def cells(self) -> list[str]:
        """Return the rates in percent."""
        return [f"{100 * rate:.2f}%" for rate in self.rates().values()]


def steps_of(task: Task, response: Any, form: str) -> list[StepRecord]:
    """Return an answer's messages as the steps they would have been."""
    from fctncalling.envs.answers import read_answer
    from fctncalling.envs.handlers import get_handler

    if form == "decoded_calls":
        return []
    variant = task.extra.get("prompt_variant")
    prompted = str(variant) if variant else f"{language_of(task.category)}_calls"
    handler = get_handler("tool_calls" if form == "tool_call" else prompted)
    executes = kind_of(task.category) in ("multi_turn", "agentic")
    turns = response if executes and isinstance(response, list) else [[response]]
    steps = []
    for turn, texts in enumerate(turns):
        for text in texts if isinstance(texts, list) else ():
            answer = read_answer(handler, text, executes=executes)
            steps.append(
                StepRecord(
                    turn,
                    text if isinstance(text, str) else "",
                    answer.calls,
                    answer.executed,
                    error=answer.error,
                )
            )
    return steps
