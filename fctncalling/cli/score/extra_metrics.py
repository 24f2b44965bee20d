"""Extra score columns: progress, strict accuracy."""

from __future__ import annotations

from typing import Any

from fctncalling.cli.shared.text_table import interval_text
from fctncalling.data.types import StepRecord, Task, Verdict
from fctncalling.envs.rewards import progress_share
from fctncalling.evaluation.pass_at_k import TaskSampleCounts


class ExtraMetrics:
    """Extra metrics of one category, beside BFCL's: summed over its answers."""

    def __init__(self, *, strict: bool) -> None:
        self._count = 0
        self._progress = 0.0
        self._is_strict = strict
        self.samples = TaskSampleCounts()
        self.strict_samples = TaskSampleCounts()

    def add(
        self, task: Task, response: Any, form: str, verdict: Verdict, *, broke_off: bool = False
    ) -> None:
        """Add one answer to the metrics.

        Only valid ones are checked strictly; one that `broke_off` fails that check.
        """
        self._count += 1
        self._progress += 0.0 if broke_off else progress_share(task, verdict)
        self.samples.add(task.id, success=verdict.valid)
        if self._is_strict:
            passed = verdict.valid and not broke_off
            strict = passed and _is_strictly_valid(task, response, form, verdict)
            self.strict_samples.add(task.id, success=strict)

    def rates(self) -> dict[str, float]:
        """Return the metrics as rates, 0..1."""
        count = max(1, self._count)
        shares = {"progress": self._progress / count}
        strict = self.strict_samples.successes
        return {**shares, "strict_accuracy": strict / count} if self._is_strict else shares

    def intervals_and_pass_at_k(self) -> dict[str, Any]:
        """Return 95 % intervals, and pass@k (pass at k) and pass^k of repeated samples."""
        if not self._count:
            return {}
        fields: dict[str, Any] = {"accuracy_interval": list(self.samples.interval())}
        if self._is_strict:
            fields["strict_accuracy_interval"] = list(self.strict_samples.interval())
        if sampled := self.samples.report():
            fields["sampled"] = sampled
            if self._is_strict:
                fields["sampled_strict"] = self.strict_samples.report()
        return fields

    def columns(self) -> list[str]:
        """Return the columns of the table, by name."""
        return ["95 % interval", *(name.removesuffix("_accuracy") for name in self.rates())]

    def cells(self) -> list[str]:
        """Return the cells of the table's row: the interval and the rates in percent."""
        interval = self.samples.interval() if self._count else None
        return [interval_text(interval), *(f"{100 * rate:.2f}%" for rate in self.rates().values())]


def _is_strictly_valid(task: Task, response: Any, form: str, verdict: Verdict) -> bool:
    from fctncalling.envs.judging.strict import strict_verdict

    return strict_verdict(task, steps_of_messages(task, response, form), verdict).valid


def steps_of_messages(task: Task, response: Any, form: str) -> list[StepRecord]:
    """Return the steps of an answer's messages, as StepRecords of an episode."""
    from fctncalling.envs.episode.parsing import parse_message
    from fctncalling.envs.handlers.registry import handler_for

    if form == "decoded_calls":
        return []
    handler = handler_for(task, form)
    executes = task.executes_calls
    turns = response if executes and isinstance(response, list) else [[response]]
    steps = []
    for turn, texts in enumerate(turns):
        for text in texts if isinstance(texts, list) else ():
            answer = parse_message(handler, text, executes=executes)
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
