"""Roles of a team: what each reads, joint rows of a team, a trajectory for each."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord, RowArrays, TokenRecord
from fctncalling.algorithms.generation.engine_api import Action
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.data.types import Message


@dataclass
class RoleView:
    """A growing conversation and its token rows.

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

    def open(self, messages: Sequence[Message], tools: Sequence[Any], instructions: str) -> None:
        """Render the first prompt."""
        self.opening = (tools, instructions)
        self.history = list(messages)
        self.new_ids = self.template.render_prompt(self.history, *self.opening)
        self.rows.append(TokenRecord([], [], [], [], []))
        self.rows[-1].role = self.role

    def record(self, action: Action) -> None:
        """Append a sampled action to the current row."""
        row = self.rows[-1]
        row.ids += action.ids
        row.acted += action.acted
        row.ends_action += [False] * (len(action.ids) - 1) + [True]
        row.rollout_logprobs += action.logprobs
        row.rewards += [0.0] * len(action.ids)
        self.last_action = row
        self.last_token = len(row.ids) - 1

    def credit(self, reward: float) -> None:
        """Add a reward to the last action; a role that has not acted yet earned none of it."""
        if self.last_action is not None:
            self.last_action.rewards[self.last_token] += reward

    def speak(self, text: str) -> None:
        """Append the finished message of the policy to the history."""
        self.policy_messages.add(len(self.history))
        self.history.append({"role": "assistant", "content": self.unfinished + text})
        self.unfinished = ""

    def hear(self, messages: Sequence[Message]) -> None:
        """Append new messages to the history and render them as the next context."""
        self.history += messages
        if self.template.append_only:
            self.new_ids = self.template.render_delta(messages, self.rows[-1].ids[-1])
            return
        self.new_ids = self.template.render_full(
            self.history, *self.opening, trusted=sorted(self.policy_messages)
        )
        self.rows.append(TokenRecord([], [], [], [], []))
        self.rows[-1].role = self.role

    def go_on(self, text: str, observation: str, tags: Sequence[str]) -> None:
        """Let the environment's text continue the unfinished message of the policy."""
        self.unfinished += text + observation
        self.new_ids = self.template.encode_untrusted(observation, tags)

    def take_context(self, room: int | None = None) -> list[int]:
        """Move the new context to the current row, at most `room` tokens of it, and return it."""
        new_ids, self.new_ids = self.new_ids[:room], []
        row = self.rows[-1]
        row.ids += new_ids
        row.acted += [False] * len(new_ids)
        row.ends_action += [False] * len(new_ids)
        row.rollout_logprobs += [0.0] * len(new_ids)
        row.rewards += [0.0] * len(new_ids)
        return new_ids


# Joint rows: what a central critic reads, the whole team's conversation in order of time.
#
# In front stands the state, what the environment says of the whole team at reset. Then, step by
# step, what the acting role read since it last acted, and what it said. So a value may depend on
# all that was known, read and said before its token, by whomever, and on nothing that came later: a
# baseline of the future would bias the policy's gradient.


def add_joint_rows(
    episodes: Sequence[EpisodeRecord], config: TrainConfig, template: ChatTemplate
) -> None:
    """With --team_critic central, give each row its joint row, in place; a role has one row."""
    for episode in episodes if config.team_critic == "central" else ():
        state = template.encode_untrusted(episode.state)
        _add(episode, state[: config.max_episode_tokens])


def _add(episode: EpisodeRecord, state: list[int]) -> None:
    ids, places = list(state), dict[str, list[int]]()
    read = {row.role: 0 for row in episode.rows}  # tokens of each row that stand in `ids`
    ends = {row.role: _action_ends(row) for row in episode.rows}
    rows = {row.role: row for row in episode.rows}
    num_actions = sum(map(len, ends.values()))
    for role in episode.roles or [""] * num_actions:
        row, start, end = rows[role], read[role], ends[role].pop(0)
        places.setdefault(role, []).extend(
            len(ids) + at - start for at in range(start, end) if row.acted[at]
        )
        ids += row.ids[start:end]
        read[role] = end
    for row in episode.rows:  # what would have been read next, where the episode was cut
        ids += row.ids[read[row.role] :]
    whole = np.asarray(ids, dtype=np.int32)
    for row in episode.rows:
        acted = np.zeros(len(whole), dtype=np.bool_)
        acted[places.get(row.role, [])] = True
        row.joint = RowArrays(whole, acted)


def _action_ends(row: TokenRecord) -> list[int]:
    """Return the end of each action, the index of the token after it."""
    return [at + 1 for at, ends in enumerate(row.ends_action) if ends]


# Role trajectories: an episode of several roles as one trajectory a role.
#
# A role learns from its own tokens, and time passes between its own actions: what is earned from
# one of them until its next, by whomever, is the reward of that one. That is how PettingZoo
# accumulates rewards, and each role's Bellman backup is then that of an agent alone in a world of
# which the others are part. All else (targets, losses, groups) needs to know nothing of roles.


def role_trajectories(
    episodes: Sequence[EpisodeRecord], frozen: Collection[str] = ()
) -> list[EpisodeRecord]:
    """Return each role's part of each episode, without frozen roles.

    In order of episode and row. Episodes without roles are returned as they are.
    """
    return [part for episode in episodes for part in _parts(episode, frozen)]


def _parts(episode: EpisodeRecord, frozen: Collection[str]) -> list[EpisodeRecord]:
    if not episode.roles:
        return [episode]
    roles = dict.fromkeys(row.role for row in episode.rows if row.num_acted)
    return [_part(episode, role) for role in roles if role not in frozen]


def _part(episode: EpisodeRecord, role: str) -> EpisodeRecord:
    rows = [row for row in episode.rows if row.role == role]
    steps = [index for index, acted in enumerate(episode.roles) if acted == role]
    cut = [number for number, index in enumerate(steps) if index in episode.cut_actions]
    return replace(
        episode,
        rows=rows,
        role=role,
        roles=[],
        episode_return=sum(sum(row.rewards) for row in rows),
        num_steps=len(steps),
        cut_actions=cut,
        num_actions_truncated=len(cut),
        num_words=[episode.num_words[index] for index in steps] if episode.num_words else [],
    )
