"""Roles of a team: joint rows for a central critic, and a trajectory for each role."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.episodes import (
    EpisodeRecord,
    RowArrays,
    TokenRecord,
    lack_ground_truths,
)
from fctncalling.algorithms.policy.chat_template import ChatTemplate


def add_critic_rows(
    episodes: Sequence[EpisodeRecord], config: TrainConfig, template: ChatTemplate
) -> None:
    """Add to each row the critic's row, joint, that a central one or one with the truth reads.

    In place, with --team_critic central or --critic_sees truth.

    A role has one row.

    In front stands the state, what the environment says of the whole team at reset. Then, step by
    step, what the acting role read since it last acted, and what it said. So a value may depend on
    all that was known, read and said before its token, by whomever, and on nothing that came later:
    a baseline of the future would bias the policy's gradient.
    """
    truth = config.critic_sees == "truth"
    if truth and lack_ground_truths(episodes):
        raise SettingError(
            f"--critic_sees truth: the info of {len(episodes)} episodes has no ground_truth; "
            "leave it out, or give the environment an attribute ground_truth"
        )
    for episode in episodes if config.critic_has_own_rows else ():
        known = f"{episode.ground_truth or []}\n" if truth else ""
        state = template.encode_untrusted(episode.state + known)
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


def split_by_role(
    episodes: Sequence[EpisodeRecord], frozen: Collection[str] = ()
) -> list[EpisodeRecord]:
    """Split episodes by role into parts, without frozen roles.

    In order of episode and row. Episodes without roles are returned as they are.

    A role learns from its own tokens, and time passes between its own actions: what is earned from
    one of them until its next, by whomever, is the reward of that one. That is how PettingZoo
    accumulates rewards, and each role's Bellman backup is then that of an agent alone in a world of
    which the others are part. All else (targets, losses, groups) needs to know nothing of roles.
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
