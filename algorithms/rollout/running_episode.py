"""One running episode: observations to prompt tokens, sampled tokens to actions."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fctncalling.algorithms.episodes import EpisodeRecord, Place, TokenRecord
from fctncalling.algorithms.generation.engine_api import Action, Engine, EngineError, Request
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.policy.message_renderer import TemplateRefusal
from fctncalling.algorithms.policy.template_messages import name_results, num_results
from fctncalling.algorithms.rollout.env_pool import (
    EnvRequest,
    InvalidEpisodeError,
    NoResponseError,
    TextEnv,
)
from fctncalling.data.errors import MAX_REWARD, RewardError
from fctncalling.data.types import Call, Episode, Message, StepRecord, Verdict

__all__ = ["RunningEpisode", "TextEnv"]

logger = logging.getLogger(__name__)


@dataclass
class RoleView:
    """View of one role: its growing conversation and its token rows.

    An episode has one for each `info["role"]`, or one alone where the environment names no roles.
    """

    template: ChatTemplate
    role: str = ""
    rows: list[TokenRecord] = field(default_factory=list)
    new_ids: list[int] = field(default_factory=list)  # context not yet sent to the engine
    history: list[Message] = field(default_factory=list)  # kept for templates that rewrite it
    # Indices of the history that the policy wrote.
    policy_messages: set[int] = field(default_factory=set)
    unfinished: str = ""  # an assistant message that the environment's text continues
    opening: tuple[Sequence[Any], str] = ((), "")  # tools, instructions
    last_action: TokenRecord | None = None  # row of the last action
    last_token: int = 0  # where in it that action ends
    num_calls: int = 0  # of the policy so far; calls have ids by their number

    def render_first_prompt(
        self, messages: Sequence[Message], tools: Sequence[Any], instructions: str
    ) -> None:
        """Render the first prompt."""
        self.opening = (tools, instructions)
        self.history = self.template.with_own_calls(messages)
        self.new_ids = self.template.render_prompt(self.history, *self.opening)
        self._begin_row()

    def _begin_row(self) -> None:
        self.rows.append(TokenRecord([], [], [], [], [], role=self.role))

    def append_action(self, action: Action) -> None:
        """Append an action that was sampled to the current row."""
        row = self.rows[-1]
        row.ids += action.ids
        row.acted += action.acted
        row.ends_action += [False] * (len(action.ids) - 1) + [True]
        row.rollout_logprobs += action.logprobs
        row.rewards += [0.0] * len(action.ids)
        self.last_action = row
        self.last_token = len(row.ids) - 1

    def add_reward(self, reward: float) -> None:
        """Add a reward to the last action; a role that has not acted yet earned none of it."""
        if self.last_action is not None:
            self.last_action.rewards[self.last_token] += reward

    def append_message(self, text: str, calls: Sequence[Call] = ()) -> None:
        """Append a message, the policy's finished one, with the calls in it, to the history."""
        self.policy_messages.add(len(self.history))
        message: Message = {"role": "assistant", "content": self.unfinished + text}
        if calls:
            listed = self.template.calls_message(calls, self.num_calls, text)["tool_calls"]
            message["tool_calls"] = listed
            self.num_calls += len(calls)
        self.history.append(message)
        self.unfinished = ""

    def append_observation(self, messages: Sequence[Message]) -> None:
        """Append the observation, the environment's new messages, and render the next context.

        In a row of its own where the template writes the history otherwise than it was played.
        """
        calls = self._answered_calls(num_results(messages))
        messages = name_results(messages, calls)
        self.history += messages
        if self.template.append_only:
            self.new_ids = self.template.render_delta(messages, self.rows[-1].ids[-1], calls)
            return
        whole = self.template.text_of_history(
            self.history, *self.opening, trusted=sorted(self.policy_messages)
        )
        with contextlib.suppress(TemplateRefusal):
            delta = self.template.render_delta(messages, self.rows[-1].ids[-1], calls)
            if self.template.spell([*self.rows[-1].ids, *delta]) == whole:
                self.new_ids = delta
                return
        self.new_ids = [*self.template.opening_ids, *self.template.encode(whole)]
        self._begin_row()

    def _answered_calls(self, num_results: int) -> Message | None:
        """Return the policy's last message, with its answered calls alone; None without any."""
        if not num_results or not self.history or not self.history[-1].get("tool_calls"):
            return None
        last = self.history[-1]
        self.history[-1] = {**last, "tool_calls": last["tool_calls"][:num_results]}
        return self.history[-1]

    def continue_message(self, text: str, observation: str, tags: Sequence[str]) -> None:
        """Continue the message, unfinished, of the policy with the environment's text."""
        self.unfinished += text + observation
        self.new_ids = self.template.encode_untrusted(observation, tags)

    def append_context(self, room: int | None = None) -> list[int]:
        """Append context, the new one, to the current row, at most `room` tokens; return it."""
        new_ids, self.new_ids = self.new_ids[:room], []
        row = self.rows[-1]
        row.ids += new_ids
        row.acted += [False] * len(new_ids)
        row.ends_action += [False] * len(new_ids)
        row.rollout_logprobs += [0.0] * len(new_ids)
        row.rewards += [0.0] * len(new_ids)
        return new_ids


@dataclass
class RunningEpisode:
    """Running episode: its state, with the view of each role.

    Where `info["role"]` names who acts next, each role has rows of its own, in which only its own
    tokens are acted; else there is one view alone.
    """

    index: int
    task_id: str
    seed: int  # of the policy's sampling
    env_seed: int  # of the environment; members of a group share it
    template: ChatTemplate
    max_tokens: int
    slot: int = -1  # the environment it is played in
    views: dict[str, RoleView] = field(default_factory=dict)  # in order of the first turn
    role: str = ""  # who acts next
    in_slot: RoleView | None = None  # whose sequence the engine's slot holds
    steps: list[StepRecord] = field(default_factory=list)
    roles: list[str] = field(default_factory=list)  # who acted in each step; empty without roles
    role_rewards: list[dict[str, float]] = field(default_factory=list)  # of each step, if its own
    errors: list[str] = field(default_factory=list)
    info: dict[str, Any] = field(default_factory=dict)
    state: str = ""  # info["state"] of reset
    ground_truth: Any = None  # info["ground_truth"] of reset
    messages: list[list[Message]] = field(default_factory=list)  # for the episode log
    text: str = ""  # of the last action
    step_in_turn: int = 0
    state_hashes: list[str] = field(default_factory=list)  # info["state_hash"] before each action
    places: list[Place] = field(default_factory=list)  # info["place"] before each action
    cut_actions: list[int] = field(default_factory=list)  # numbers of the actions cut short
    overflow: int = 0  # tokens of the context for which the budget had no room
    terminated: bool = False
    truncated: bool = False
    invalid: bool = False
    invalid_reason: str = ""
    ended: bool = False
    cause: Exception | None = None  # that the environment raised, or its invalid_reason
    env_seconds: float = 0.0  # time spent in the environment

    @property
    def view(self) -> RoleView:
        """View of the current role, which acts next."""
        return self.views[self.role]

    @property
    def rows(self) -> list[TokenRecord]:
        """Token rows of all roles, one role after the other."""
        return [row for view in self.views.values() for row in view.rows]

    def reset_request(self) -> EnvRequest:
        """Return the request that resets the environment for this episode."""
        return EnvRequest(self.task_id, self.env_seed)

    def on_reset(self, engine: Engine, observation: Any, info: dict[str, Any]) -> None:
        """On reset, handle its result: render the first prompt."""
        self.info = info
        self.state = str(info.get("state") or "")
        self.ground_truth = info.get("ground_truth")
        engine.begin_sequence(self.slot, self.seed)
        messages = _messages(info, observation)
        self.messages = [list(messages)]
        if not self._show(messages):
            return
        if prompt := info.get("prompt_ids"):  # a branch begins with the tokens of its episode
            self.view.new_ids = list(prompt)
        self.in_slot = self.view
        self._check_budget()

    def next_request(self, engine: Engine) -> Request:
        """Return the next request to the engine, after appending the new context to the row."""
        view = self.view
        row, new_ids = view.rows[-1], view.append_context()
        if view is not self.in_slot:
            new_ids = list(row.ids)  # of another role: the slot reads it from its beginning
        if view is not self.in_slot or (len(new_ids) == len(row.ids) and len(view.rows) > 1):
            engine.restart_sequence(self.slot)
            self.in_slot = view
        return Request(
            self.slot,
            new_ids,
            max_new_tokens=self.max_tokens - len(row.ids),
            stop=tuple(self.info.get("stop") or ()),
            task_id=self.task_id,
            turn=int(self.info.get("turn", 0)),
            step_in_turn=self.step_in_turn,
            info=self.info,
        )

    def on_action(self, action: Action) -> EnvRequest:
        """On a sampled action: record it, and return the request of the step."""
        self.view.append_action(action)
        if "state_hash" in self.info:
            self.state_hashes.append(str(self.info["state_hash"]))
        self.places += _place(self.info)
        if action.truncated:
            self.cut_actions.append(len(self.steps))
        self.text = self.template.decode(action.ids)
        return EnvRequest(text=self.text)

    def on_step(
        self, observation: Any, reward: Any, terminated: bool, truncated: bool, info: dict[str, Any]
    ) -> None:
        """On a step, handle its result: record it, render the next context."""
        turn, acted = int(self.info.get("turn", 0)), self.view
        self.terminated = terminated
        self.info = info
        own = info.get("rewards") or {}
        for paid in (reward, *own.values()):
            if not abs(float(paid)) <= MAX_REWARD:  # NaN is not either
                raise RewardError(
                    f"reward of task {self.task_id}: its environment paid {paid!r:.60}, expected a "
                    f"finite number, from -{MAX_REWARD:g} to {MAX_REWARD:g}"
                )
        for view in self.views.values():
            view.add_reward(float(own.get(view.role, 0.0) if own else reward))
        self.truncated = bool(truncated) and not self.terminated
        self._append_step(turn, self.text, float(reward))
        continued = info.get("continuation") == "text"
        self.messages.append(_messages(info, "" if continued else observation))
        self.step_in_turn = self.step_in_turn + 1 if int(info.get("turn", 0)) == turn else 0
        self.ended = self.terminated or self.truncated
        if info.get("invalid"):
            self.fail(InvalidEpisodeError(str(info.get("invalid_reason", "no reason given"))))
        elif not self.terminated:
            if continued:
                acted.continue_message(self.text, str(observation), info.get("tags") or ())
            else:
                acted.append_message(self.text, _calls(info))
                self._show(_messages(info, observation))
            if not self.ended:
                self._check_budget()
            if self.ended and not self.invalid:
                self._append_bootstrap_context()

    def fail(self, error: Exception) -> None:
        """Fail: end the episode as invalid."""
        what = (
            str(error)
            if isinstance(error, NoResponseError | EngineError | InvalidEpisodeError)
            else f"the environment raised {type(error).__name__}: {error}"
        )
        logger.warning("task %s: %s; the episode is dropped as invalid", self.task_id, what)
        self.cause = error
        self.invalid_reason = what
        self.invalid = True
        self.ended = True

    def to_record(self) -> EpisodeRecord:
        """Convert the ended episode to its record, for training and the episode log."""
        episode_return = sum(step.reward for step in self.steps)
        verdict = self.info.get("verdict")
        strict = None if self.invalid else self.info.get("strict_verdict")
        category = str(self.info.get("category", ""))
        return EpisodeRecord(
            self.task_id,
            category,
            self.rows,
            terminated=self.terminated,
            truncated=self.truncated,
            invalid=self.invalid,
            invalid_reason=self.invalid_reason,
            success=not self.invalid
            and _succeeded(self.info, episode_return, was_cut=self.overflow > 0),
            strict_success=None if strict is None else bool(strict.valid),
            strict_error_type=None if strict is None else strict.error_type,
            strict_message="" if strict is None else strict.message,
            episode_return=episode_return,
            num_steps=len(self.steps),
            num_actions_truncated=len(self.cut_actions),
            cut_actions=self.cut_actions,
            num_words=[max(1, len(step.text.split())) for step in self.steps],
            errors=self.errors,
            messages=self.messages,
            roles=self.roles,
            role_rewards=self.role_rewards,
            state_hashes=self.state_hashes,
            places=self._all_places(),
            state=self.state,
            ground_truth=self.info.get("ground_truth", self.ground_truth),
            env_seed=self.env_seed,
            next_turn=int(self.info.get("turn", 0)),
            episode=Episode(
                self.task_id,
                category,
                tuple(self.steps),
                verdict if isinstance(verdict, Verdict) else None,
                terminated=self.terminated,
                truncated=self.truncated,
                invalid=self.invalid,
                seed=self.env_seed,
            ),
        )

    def _all_places(self) -> list[Place]:
        """Return the places before each action and after the last; none where one is missing."""
        if len(self.places) != len(self.steps):
            return []
        return [*self.places, *(() if self.terminated else _place(self.info))]

    def _show(self, messages: list[Message]) -> bool:
        """Show messages to the role that acts next, in its view.

        Returns false if the chat template refuses them: the episode is invalid then.
        """
        self.role = str(self.info.get("role") or "")
        try:
            if self.role in self.views:
                self.view.append_observation(messages)
            else:
                self.views[self.role] = RoleView(self.template, self.role)
                tools, text = self.info.get("tools") or (), self.info.get("instructions") or ""
                self.view.render_first_prompt(messages, tools, text)
        except TemplateRefusal as error:
            why = f"the chat template refuses the conversation ({error})"
            self.fail(InvalidEpisodeError(why))
        return not self.invalid

    def _check_budget(self) -> None:
        length = len(self.view.rows[-1].ids) + len(self.view.new_ids)
        if not self.ended and length >= self.max_tokens:
            self.overflow = length
            self.truncated = True
            self.ended = True
            if not self.steps:
                self.views = {}

    def _append_bootstrap_context(self) -> None:
        """Append the context the policy would have seen next, within the token budget.

        Its value is the bootstrap.
        """
        self.view.append_context(max(0, self.max_tokens - len(self.view.rows[-1].ids)))

    def _append_step(self, turn: int, text: str, reward: float) -> None:
        step = StepRecord.from_info(turn, text, reward, self.info)
        self.steps.append(step)
        if self.role:
            self.roles.append(self.role)
        if own := self.info.get("rewards"):
            self.role_rewards.append({role: float(paid) for role, paid in own.items()})
        if step.error:
            self.errors.append(str(step.error))


def _messages(info: dict[str, Any], observation: Any) -> list[Message]:
    """Return info["messages"]; without them, the observation as a user message."""
    if "messages" in info:
        return list(info["messages"])
    return [{"role": "user", "content": str(observation)}]


def _place(info: dict[str, Any]) -> list[Place]:
    """Return info["place"], checked, as a list of one; [] where the environment names none."""
    if "place" not in info:
        return []
    try:
        turn, calls_left, on_path = info["place"]
        return [(int(turn), int(calls_left), bool(on_path))]
    except (TypeError, ValueError):
        raise ValueError(
            f'info["place"] is {info["place"]!r:.60}, expected (turn, calls of the truth still to '
            "come, whether the episode is on its path)"
        ) from None


def _calls(info: Mapping[str, Any]) -> list[Call]:
    """Return the calls of the last action; [] if the environment names none."""
    return [call for call in info.get("calls") or () if isinstance(call, Call)]


def _succeeded(info: dict[str, Any], episode_return: float, *, was_cut: bool) -> bool:
    """Whether the verdict is valid; without one info["is_success"], else a positive return.

    An episode that our own budget cut before its end has no verdict: what it earned is no success.
    """
    verdict = info.get("verdict")
    if verdict is not None:
        return bool(verdict.valid)
    return bool(info.get("is_success", episode_return > 0 and not was_cut))
