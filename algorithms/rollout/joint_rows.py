"""Joint rows: what a central critic reads, the whole team's conversation in order of time.

In front stands the state, what the environment says of the whole team at reset. Then, step by step,
what the acting role read since it last acted, and what it said. So a value may depend on all that
was known, read and said before its token, by whomever, and on nothing that came later: a baseline
of the future would bias the policy's gradient.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord, RowArrays, TokenRecord
from fctncalling.algorithms.policy.chat_template import ChatTemplate


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
