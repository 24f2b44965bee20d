"""Dependencies among the calls of a task: each call is left out once, and all is replayed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fctncalling.data.types import Task
from fctncalling.envs.handlers.execution import ToolSession


class Dependencies(NamedTuple):
    """What leaving out each call changes. Calls are numbered through the task."""

    results: tuple[str, ...]  # of the whole truth
    later: tuple[tuple[int, ...], ...]  # per call: the later calls whose results change
    state: tuple[bool, ...]  # per call: whether the final public state changes

    def longest_chain(self) -> int:
        """Return the most calls in a row of which each changes a result of the next."""
        length = [1] * len(self.later)
        for call, changed in enumerate(self.later):
            for other in changed:
                length[other] = max(length[other], length[call] + 1)
        return max(length, default=0)


def dependencies(task: Task) -> Dependencies:
    """Return what each call of a task's ground truth does to the rest, by replay."""
    calls = [call for turn in task.ground_truth or () for call in turn]
    results, state = _replay(task, calls, None)
    later, changed = [], []
    for left_out in range(len(calls)):
        others, final = _replay(task, calls, left_out)
        pairs = zip(others, results, strict=True)
        differ = [n for n, (one, other) in enumerate(pairs) if one != other and n > left_out]
        later.append(tuple(differ))
        changed.append(final != state)
    return Dependencies(tuple(results), tuple(later), tuple(changed))


def _replay(
    task: Task, calls: Sequence[str], left_out: int | None
) -> tuple[list[str], dict[str, dict[str, Any]]]:
    session = ToolSession(
        task.involved_classes, task.initial_config, long_context=task.long_context
    )
    results = [
        "" if number == left_out else session.execute(call) for number, call in enumerate(calls)
    ]
    return results, session.public_state()
