"""Verdict of an episode, against a ground truth replayed once per task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from fctncalling.checkers import check
from fctncalling.checkers.clarify import ClarifyRecord, is_question
from fctncalling.data.agentic_tasks import is_memory_prerequisite
from fctncalling.data.categories import WITHOUT_ANSWER
from fctncalling.data.types import Message, StepRecord, Task, TurnResults, Verdict
from fctncalling.envs.episode.state import EpisodeState, reraise_as_infrastructure
from fctncalling.envs.judging.judge import judge_turns, replay_ground_truth
from fctncalling.envs.judging.strict import first_leniency_in_turn
from fctncalling.envs.rewards import StepOutcome, scored_turns

Kept = TypeVar("Kept")
# tasks of which an environment keeps truth and schemas; long-context truths take about 1 MB each
TASKS_KEPT = 64


class EpisodeJudge:
    """Judge of episodes from their records, without executing a call again.

    Raises InfrastructureError where it cannot.
    """

    def __init__(self, tools: Mapping[str, type]) -> None:
        self._tools = dict(tools)
        self._truths: dict[str, tuple[TurnResults, ...]] = {}

    def verdict(self, state: EpisodeState, record: Any) -> Verdict | None:
        """Return the verdict, official, on an ended episode; None for a task without answers.

        `record` is the last message as the single-turn checkers read it.
        """
        task = state.task
        if is_memory_prerequisite(task) or (
            task.ground_truth is None and task.category not in WITHOUT_ANSWER
        ):
            return None
        with reraise_as_infrastructure("checker"):
            if task.kind == "agentic":
                return check(task, state.last_message)
            if task.kind == "clarify":
                answers = answers_to_questions(state.steps, state.conversation)
                return check(task, ClarifyRecord(record, len(answers), answers))
            if task.is_multi_turn:
                return judge_turns(task, state.turns, self._truth(task))
            return check(task, record)

    def turn_passes(self, state: EpisodeState, turn: int) -> bool:
        """Whether a finished turn passes BFCL's check by itself, whatever came before."""
        if not any(scored_turns(state.task)[turn : turn + 1]):
            return False
        if not state.task.is_multi_turn:
            return state.verdict is not None and state.verdict.valid
        with reraise_as_infrastructure("checker"):
            return judge_turns(state.task, state.turns, self._truth(state.task)).per_turn[turn]

    def outcome(self, state: EpisodeState, step: StepRecord, *, turn_ends: bool) -> StepOutcome:
        """Return the outcome of a step, the input of rewards."""
        steps = (*state.steps, step)
        return StepOutcome(
            step,
            state.verdict,
            lambda: turn_ends and self.turn_passes(state, step.turn),
            lambda: first_leniency_in_turn(state.task, steps, step.turn) is None,
            state.strict_verdict,
            shares=max(1, sum(scored_turns(state.task))),
            paid=state.paid,
        )

    def _truth(self, task: Task) -> tuple[TurnResults, ...]:
        return bounded_memo(self._truths, task.id, lambda: replay_ground_truth(task, self._tools))


def answers_to_questions(steps: Sequence[StepRecord], conversation: Sequence[Message]) -> list[str]:
    """Return the answers to the questions of a turn, the user's."""
    said = [str(each.get("content")) for each in conversation if each["role"] == "user"]
    replies = said[len(said) - len(steps) :]  # one behind each step; the request comes before
    return [text for step, text in zip(steps, replies, strict=True) if is_question(step)]


def bounded_memo(memory: dict[str, Kept], key: str, make: Callable[[], Kept]) -> Kept:
    """Return a value from a bounded memo (FIFO), made on the first call of its key."""
    if key not in memory:
        while len(memory) >= TASKS_KEPT:
            del memory[next(iter(memory))]
        memory[key] = make()
    return memory[key]
