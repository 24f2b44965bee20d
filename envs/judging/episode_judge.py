"""Verdict of an episode, against a ground truth replayed once per task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fctncalling.checkers import check
from fctncalling.data.agentic_tasks import is_prerequisite
from fctncalling.data.categories import WITHOUT_ANSWER
from fctncalling.data.types import StepRecord, Task, TurnRecord, Verdict
from fctncalling.envs.episode.state import EpisodeState, reraise_as_infrastructure
from fctncalling.envs.judging.judge import judge_turns, replay_ground_truth
from fctncalling.envs.judging.strict import forgiven_in_turn
from fctncalling.envs.rewards import Outcome, scored_turns

Kept = TypeVar("Kept")
# tasks of which an environment keeps truth and schemas; long-context truths take about 1 MB each
TASKS_KEPT = 64


class EpisodeJudge:
    """Checks plays without executing anything of theirs again; raises InfrastructureError where it
    cannot.
    """

    def __init__(self, tools: Mapping[str, type]) -> None:
        self._tools = dict(tools)
        self._truths: dict[str, tuple[TurnRecord, ...]] = {}

    def verdict(self, play: EpisodeState, record: Any) -> Verdict | None:
        """Return the official verdict on a play that ended; None for a task without answers.

        `record` is the last message as the single-turn checkers read it.
        """
        task = play.task
        if is_prerequisite(task) or (
            task.ground_truth is None and task.category not in WITHOUT_ANSWER
        ):
            return None
        with reraise_as_infrastructure("checker"):
            if task.kind == "agentic":
                return check(task, play.last_message)
            return (
                judge_turns(task, play.turns, self._truth(task))
                if task.is_multi_turn
                else check(task, record)
            )

    def passed(self, play: EpisodeState, turn: int) -> bool:
        """Whether a turn that ended is one BFCL checks, and passes by itself,
        whatever came before.
        """
        if not any(scored_turns(play.task)[turn : turn + 1]):
            return False
        if not play.task.is_multi_turn:
            return play.verdict is not None and play.verdict.valid
        with reraise_as_infrastructure("checker"):
            return judge_turns(play.task, play.turns, self._truth(play.task)).per_turn[turn]

    def outcome(self, play: EpisodeState, step: StepRecord, *, turn_ends: bool) -> Outcome:
        """Return what a reward may look at after a step that is not yet among those of the play."""
        steps = (*play.steps, step)
        return Outcome(
            step,
            play.verdict,
            lambda: turn_ends and self.passed(play, step.turn),
            lambda: forgiven_in_turn(play.task, steps, step.turn) is None,
            play.strict_verdict,
            shares=max(1, sum(scored_turns(play.task))),
            paid=play.paid,
        )

    def _truth(self, task: Task) -> tuple[TurnRecord, ...]:
        return bounded_memo(self._truths, task.id, lambda: replay_ground_truth(task, self._tools))


def bounded_memo(memory: dict[str, Kept], key: str, make: Callable[[], Kept]) -> Kept:
    """Return what is kept of a task, made where it is not;
    what was made first is forgotten first.
    """
    if key not in memory:
        while len(memory) >= TASKS_KEPT:
            del memory[next(iter(memory))]
        memory[key] = make()
    return memory[key]
