"""Runner of episodes: turns an assistant message into a step with results, verdict and reward."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from fctncalling.data.types import Message, StepRecord, Task
from fctncalling.data.unsafe_text import truncate_together
from fctncalling.envs.episode.parsing import (
    UNREAD,
    ParsedMessage,
    add_corrections,
    classify_error,
    parse_message,
)
from fctncalling.envs.episode.state import EpisodeState, reraise_as_infrastructure
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.handlers import Handler
from fctncalling.envs.handlers.registry import resolve_handler
from fctncalling.envs.judging.judge import EpisodeJudge, bounded_memo
from fctncalling.envs.judging.strict import strict_verdict
from fctncalling.envs.prompting import prompts
from fctncalling.envs.prompting.prompts import PROMPT_STYLES, TaskPrompt
from fctncalling.envs.rewards import Reward, is_strict_reward
from fctncalling.envs.state_hash import Place, place_on_path, state_hash
from fctncalling.envs.user_tools import UserTools
from fctncalling.envs.users.rule_user import RuleUser
from fctncalling.envs.users.user_names import User, make_user

MAX_STEP_OUTPUT = 500_000
"""Characters of a step's results in its messages; checkers read the whole results."""

RULE_USER = RuleUser()
"""The user of clarify tasks if no `user` is given."""


class StepResult(NamedTuple):
    """Result of a step: its record, and the observation and messages that follow."""

    step: StepRecord
    observation: str
    messages: list[Message]
    extra: dict[str, Any]  # what only this step's `info` has


@dataclass
class EpisodeRunner:
    """Runner of an episode's steps, by the rules that FunctionCallingEnv's keywords set."""

    handler: Handler
    reward: Reward
    tools: UserTools
    user: User | str | None  # a name is replaced by its user
    max_steps_per_turn: int
    strict: bool
    retry_malformed: bool
    corrective_feedback: bool
    prompt_style: str = "bfcl"

    def __post_init__(self) -> None:
        if self.prompt_style not in PROMPT_STYLES:
            raise ValueError(
                f"prompt_style={self.prompt_style!r}: expected one of {', '.join(PROMPT_STYLES)}."
            )
        if isinstance(self.user, str):
            self.user = make_user(self.user)
        most = self.max_steps_per_turn
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise ValueError(f"max_steps_per_turn={most!r}: expected a whole number of at least 1.")
        self._judge = EpisodeJudge(self.tools.classes)
        self._prompts: dict[str, TaskPrompt] = {}

    def task_prompt(self, task: Task) -> TaskPrompt:
        """Return the prompt of a task, cached."""
        return bounded_memo(
            self._prompts,
            task.id,
            lambda: TaskPrompt(task, resolve_handler(self.handler, task), self.prompt_style),
        )

    def play_message(self, state: EpisodeState, text: str) -> StepResult:
        """Play a message of the assistant: advance the episode and return the step's result.

        Raises InfrastructureError.
        """
        task = state.task
        handler = resolve_handler(self.handler, task)
        offered = self.task_prompt(task).functions(state.turn)
        parsed = parse_message(handler, text, executes=state.session is not None, functions=offered)
        step, displayed = self._execute(state, parsed, text)
        messages = prompts.tool_messages(displayed.executed, displayed.results)
        observation = prompts.results_message(displayed)
        turn_ends = not parsed.executed
        if turn_ends:
            state.last_message = text
        if not parsed.calls and (reply := self._reply(state, parsed)) is not None:
            messages = [{"role": "user", "content": reply}]
            observation = reply
            turn_ends = False
            # the user answered: a question, however it is spelled, but for a call's mark in it
            if not self.retry_malformed and parsed.error == "malformed":
                step = replace(step, error="no_call")
        if not turn_ends and state.count_step() > self.max_steps_per_turn:
            step = replace(step, error="step_limit")
            turn_ends = True
        if turn_ends:
            state.end_turn(last=state.in_last_turn or step.error == "step_limit")
            if state.terminated:
                state.verdict = self._judge.verdict(state, parsed.record)
            else:
                messages = self.task_prompt(task).messages(state.turn)
                observation = prompts.join_contents(messages)
        step = self._with_reward(state, step, turn_ends=turn_ends)
        extra = self._final_info(state) if state.terminated else {}
        if handler.is_lenient:
            extra["repairs"] = list(parsed.repairs)
        return StepResult(step, observation, messages, extra)

    def state_hash(self, state: EpisodeState, observation: str) -> str | None:
        """Hash all state that decides an episode's future; None if a tool's state is unreadable."""
        assert not isinstance(self.user, str)
        return state_hash(
            state,
            observation,
            steps_left=self.max_steps_per_turn - state.steps_in_turn,
            is_strict=is_strict_reward(self.reward),
            user=self.user,
            truth=lambda: self._judge.truth(state.task),
        )

    def episode_place(self, state: EpisodeState) -> Place | None:
        """Return the episode's place along the truth; None if no truth can be replayed."""
        task = state.task
        if not task.is_multi_turn or task.ground_truth is None or not state.hash_of_tools():
            return None
        try:
            with reraise_as_infrastructure("truth"):
                return place_on_path(state, self._judge.path(task))
        except InfrastructureError:  # told at the end
            return None

    def _execute(
        self, state: EpisodeState, parsed: ParsedMessage, text: str
    ) -> tuple[StepRecord, StepRecord]:
        """Execute a message's calls; return the step with full results, and as displayed."""
        results = state.execute(parsed.executed, self.tools)
        step = StepRecord(state.turn, text, parsed.calls, parsed.executed, results, parsed.error)
        if parsed.calls:
            step = replace(
                step, error=classify_error(step, state.task.functions, state.has_function)
            )
        if self.corrective_feedback:
            offered = self.task_prompt(state.task).functions(state.turn)
            results = add_corrections(step, offered, state.has_function)
        return step, replace(step, results=tuple(truncate_together(results, MAX_STEP_OUTPUT)))

    def _reply(self, state: EpisodeState, parsed: ParsedMessage) -> str | None:
        """Answer a message without calls within its turn; None if the turn ends instead."""
        if parsed.error in UNREAD and self.retry_malformed:
            return prompts.unreadable_message(parsed.complaint)
        task = state.task
        user = self.user or (RULE_USER if task.kind == "clarify" else None)
        if user is None:
            return None
        assert not isinstance(user, str)
        about = {"task_id": task.id, "category": task.category, "turn": state.turn, "task": task}
        with reraise_as_infrastructure("user"):
            reply = user(copy.deepcopy(state.conversation), about)
        if reply is not None and not isinstance(reply, str):
            raise InfrastructureError(
                f"user {user!r} returned {reply!r:.80}: expected a str, or None to end the turn."
            )
        return reply

    def _with_reward(self, state: EpisodeState, step: StepRecord, *, turn_ends: bool) -> StepRecord:
        """Pay the step its reward, and add it to the episode."""
        if self.strict and state.verdict is not None:
            steps: Sequence[StepRecord] = (*state.steps, step)
            state.strict_verdict = strict_verdict(state.task, steps, state.verdict)
        outcome = self._judge.outcome(state, step, turn_ends=turn_ends)
        step = replace(step, reward=self.reward(outcome))
        state.add_step(step)
        has_truth = not state.task.is_multi_turn or step.turn < len(state.task.ground_truth or ())
        if is_strict_reward(self.reward) and has_truth and not outcome.turn_is_strict():
            state.forgiven.add(step.turn)
        return step

    def _final_info(self, state: EpisodeState) -> dict[str, Any]:
        if state.task.is_memory_prerequisite:
            # the notes of the memory, which the questions' `snapshot` gets
            return {"verdict": None, "snapshot": copy.deepcopy(dict(state.turns[-1].states))}
        final = {"verdict": state.verdict, "ground_truth": copy.deepcopy(state.task.ground_truth)}
        if self.strict and state.verdict is not None:
            final["strict_verdict"] = state.strict_verdict
        return final
