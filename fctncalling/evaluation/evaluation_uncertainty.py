"""95 % intervals of an evaluation's success rates, and pass@k of repeated samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.run.evaluation import Evaluation
from fctncalling.evaluation.pass_at_k import SampledTasks


def evaluation_uncertainty(evaluation: Evaluation) -> dict[str, Any]:
    """Return `intervals` by name of the rate, and `pass_at_k` (official, strict) of the samples.

    A rate that has no episode, or was judged by nobody, has no interval.
    """
    counted = {
        name: tasks
        for kind, records in (("greedy", evaluation.greedy), ("sampled", evaluation.sampled))
        for name, tasks in ((kind, _official(records)), (f"{kind}_strict", _strict(records)))
        if tasks.num_samples
    }
    fields: dict[str, Any] = {
        "intervals": {name: list(tasks.interval()) for name, tasks in counted.items()}
    }
    sampled = {
        name: report
        for name in ("sampled", "sampled_strict")
        if name in counted and (report := counted[name].report())
    }
    return {**fields, "pass_at_k": sampled} if sampled else fields


def _official(records: Sequence[EpisodeRecord]) -> SampledTasks:
    tasks = SampledTasks()
    for record in records:
        if not record.invalid:
            tasks.add(record.task_id, success=bool(record.success))
    return tasks


def _strict(records: Sequence[EpisodeRecord]) -> SampledTasks:
    tasks, judged = SampledTasks(), [record for record in records if not record.invalid]
    if all(record.strict_success is None for record in judged):
        return tasks
    for record in judged:
        tasks.add(record.task_id, success=bool(record.strict_success))
    return tasks
