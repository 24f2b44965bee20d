"""Progress features: how far an episode is along its task's ground truth, for values alone.

With --critic_sees progress values read them beside the critic's, while the policy does not know the
truth (an asymmetric critic: Pinto et al., arXiv:1710.06542; SWEET-RL, arXiv:2503.15478). They
depend on the task and on what was done before an action, never on what comes after, so a value
stays a baseline that leaves the policy's gradient unbiased.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fctncalling.algorithms.episodes import EpisodeRecord, Place, lack_ground_truths

NUM_PROGRESS_FEATURES = 17
MOST_MISSING, MOST_OTHER = 4, 3  # calls that are told apart
CHARACTERS = 100.0  # of calls: the unit of their length


def progress_features(episode: EpisodeRecord) -> list[list[float]]:
    """Return the progress features before each action, and after the last, (actions + 1, 17).

    Twelve of the current turn: how many calls of the truth are missing (one-hot), other calls made,
    whether any was right, whether the last step had an error, whether the episode is on the truth's
    path and whether it is off it, whether nothing is to be called, the length of the truth; times
    the turn's share of all turns. Five of the later turns: one, on, off, calls and length a turn;
    times their share. What is right is `info["place"]`'s; without, calls are counted, and an
    episode is neither on the path nor off it.
    """
    turns = _turns(episode.ground_truth)
    steps = getattr(episode.episode, "steps", ())
    num_actions = sum(sum(row.ends_action) for row in episode.rows)
    made, turn, error, rows = 0, 0, False, list[list[float]]()
    for number in range(num_actions + 1):
        behind = turn if episode.next_turn is None else episode.next_turn
        now = min(steps[number].turn if number < len(steps) else behind, len(turns) - 1)
        if now != turn:
            made, turn, error = 0, now, False
        place = episode.places[number : number + 1]
        rows.append(_features(turns, turn, made, place, error))
        if number < len(steps):
            made += len(steps[number].calls)
            error = steps[number].error is not None
    return rows


def _features(
    turns: Sequence[Sequence[Any]], turn: int, made: int, place: Sequence[Place], error: bool
) -> list[float]:
    wanted, later = turns[turn], turns[turn + 1 :]
    missing, on, off = max(0, len(wanted) - made), 0.0, 0.0
    for _, calls_left, on_path in place:
        missing = calls_left - sum(map(len, later))
        on, off = float(on_path), float(not on_path)
    right = len(wanted) - missing
    of_turn = [float(min(missing, MOST_MISSING) == count) for count in range(MOST_MISSING + 1)]
    of_turn += [float(min(max(0, made - right), MOST_OTHER)), float(right > 0), float(error)]
    of_turn += [on, off, float(not wanted), _length(wanted)]
    calls = sum(map(len, later)) / max(1, len(later))
    of_later = [1.0, on, off, calls, sum(map(_length, later)) / max(1, len(later))]
    share = 1.0 / len(turns)
    return [share * it for it in of_turn] + [share * len(later) * it for it in of_later]


def _length(calls: Sequence[Any]) -> float:
    return sum(len(str(call)) for call in calls) / CHARACTERS


def _turns(ground_truth: Any) -> list[list[Any]]:
    """Return the calls that the truth has in each turn; at least one turn."""
    calls = list(ground_truth) if isinstance(ground_truth, list | tuple) else []
    several = [list(turn) for turn in calls if isinstance(turn, list | tuple)]
    return several or [calls]


def token_progress_features(
    episodes: Sequence[EpisodeRecord], action: Tensor
) -> tuple[Tensor, Tensor] | None:
    """Return token progress features (N, 17), by their action (N,), and the ends' (E, 17).

    None where no episode has a ground truth, or where they have roles.
    """
    if any(episode.role for episode in episodes) or lack_ground_truths(episodes):
        return None
    rows = [progress_features(episode) for episode in episodes]
    before = [features for of_episode in rows for features in of_episode[:-1]]
    ends = torch.tensor([of_episode[-1] for of_episode in rows], device=action.device)
    return torch.tensor(before, device=action.device)[action], ends
