"""Progress features: how far an episode is along its task's ground truth, for the critic alone.

With --critic_sees progress the value head reads them beside the hidden states, whose policy does
not know the truth (an asymmetric critic: Pinto et al., arXiv:1710.06542; SWEET-RL,
arXiv:2503.15478). They depend on the task and on what was done before an action, never on what
comes after, so a value stays a baseline that leaves the policy's gradient unbiased.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fctncalling.algorithms.config import SettingError
from fctncalling.algorithms.episodes import EpisodeRecord, lack_ground_truths

NUM_PROGRESS_FEATURES = 17
MOST_MISSING, MOST_OTHER = 4, 3  # calls that are told apart
SCALE = 15.0  # a fresh head learns from them before it learns from hidden states
CHARACTERS = 100.0  # of calls: the unit of their length


def progress_features(episode: EpisodeRecord) -> list[list[float]]:
    """Return the progress features before each action, and behind the last, (actions + 1, 17).

    Twelve of the current turn: how many calls of the truth are missing (one-hot), other calls made,
    whether any was right, whether the last step had an error, the share of the turns so far that
    paid and that did not, whether nothing is to be called, the length of the truth; times the
    turn's share of all turns. Five of the later turns: one, the two shares, calls and length a
    turn; times their share.
    """
    turns = _turns(episode.ground_truth)
    steps = [*episode.played, *getattr(episode.episode, "steps", ())]
    num_actions = len(episode.played) + sum(sum(row.ends_action) for row in episode.rows)
    made, paid, turn, error, rows = list[Any](), 0.0, 0, False, list[list[float]]()
    for number in range(num_actions + 1):
        behind = turn if episode.next_turn is None else episode.next_turn
        now = min(steps[number].turn if number < len(steps) else behind, len(turns) - 1)
        if now != turn:
            made, turn, error = [], now, False
        rows.append(_features(turns, turn, made, paid, error))
        if number < len(steps):
            made = made + list(steps[number].calls)
            paid += steps[number].reward
            error = steps[number].error is not None
    return rows[len(episode.played) :]


def _features(
    turns: Sequence[Sequence[Any]], turn: int, made: Sequence[Any], paid: float, error: bool
) -> list[float]:
    wanted, later = turns[turn], turns[turn + 1 :]
    right = sum(any(is_same_call(call, each) for each in made) for call in wanted)
    others = sum(not any(is_same_call(call, each) for call in wanted) for each in made)
    missing = min(len(wanted) - right, MOST_MISSING)
    so_far = min(max(paid * len(turns) / turn, 0.0), 1.0) if turn else 0.0
    failed = 1.0 - so_far if turn else 0.0
    of_turn = [float(missing == count) for count in range(MOST_MISSING + 1)]
    of_turn += [float(min(others, MOST_OTHER)), float(right > 0), float(error), so_far, failed]
    of_turn += [float(not wanted), _length(wanted)]
    calls = sum(map(len, later)) / max(1, len(later))
    of_later = [1.0, so_far, failed, calls, sum(map(_length, later)) / max(1, len(later))]
    share = SCALE / len(turns)
    return [share * it for it in of_turn] + [share * len(later) * it for it in of_later]


def _length(calls: Sequence[Any]) -> float:
    return sum(len(str(call)) for call in calls) / CHARACTERS


def _turns(ground_truth: Any) -> list[list[Any]]:
    """Return the calls that the truth has in each turn; at least one turn."""
    calls = list(ground_truth) if isinstance(ground_truth, list | tuple) else []
    several = [list(turn) for turn in calls if isinstance(turn, list | tuple)]
    return several or [calls]


def is_same_call(wanted: Any, made: Any) -> bool:
    """Whether a call was wanted: as written in a truth; of possible answers the name alone."""
    if isinstance(wanted, dict):
        return made.name in wanted
    return normalize_call_string(str(wanted)) == render_normalized_call(made)


def normalize_call_string(call: str) -> str:
    """Normalize a call string: return it in one spelling."""
    try:
        return ast.unparse(ast.parse(call))
    except (SyntaxError, ValueError):
        return call


def render_normalized_call(call: Any) -> str:
    """Render a call as a normalized string, that of `normalize_call_string`."""
    arguments = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
    return normalize_call_string(f"{call.name}({arguments})")


def token_progress_features(
    episodes: Sequence[EpisodeRecord], action: Tensor, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return token progress features (N, 17), by their action (N,), and the ends' (E, 17).

    SettingError where no episode has a ground truth, or where they have roles.
    """
    if any(episode.role for episode in episodes):
        raise SettingError("--critic_sees progress: the episodes have roles; leave it out")
    if lack_ground_truths(episodes):
        raise SettingError(
            f"--critic_sees progress: the info of {len(episodes)} episodes has no ground_truth; "
            "leave it out, or give the environment an attribute ground_truth"
        )
    rows = [progress_features(episode) for episode in episodes]
    before = torch.tensor([each for of_episode in rows for each in of_episode[:-1]], device=device)
    return before[action], torch.tensor([each[-1] for each in rows], device=device)
