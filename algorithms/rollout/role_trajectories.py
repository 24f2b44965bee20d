"""Role trajectories: an episode of several roles as one trajectory a role.

A role learns from its own tokens, and time passes between its own actions: what is earned from one
of them until its next, by whomever, is the reward of that one. That is how PettingZoo accumulates
rewards, and each role's Bellman backup is then that of an agent alone in a world of which the
others are part. All else (targets, losses, groups) needs to know nothing of roles.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from fctncalling.algorithms.episodes import EpisodeRecord


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
