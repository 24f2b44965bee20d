"""Critics fitted to the frozen policy: what its hidden states, or the truth, could tell of values.

Ridge regressions of Monte-Carlo returns (lambda 1) on episodes of many distinct tasks, none of
which is graded; a fifth of the tasks chooses the penalty. They bound what a value head on the same
states can learn.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fctncalling.algorithms.batch import make_batch
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.lab.credit.ruler import (
    BranchedTruth,
    Vector,
    action_starts,
    returns_to_go,
)

PENALTIES = (1.0, 10.0, 100.0, 1e3, 1e4)
ROWS_A_PASS = 64
Matrix = NDArray[np.float64]
Features = Callable[[BranchedTruth], list[Matrix]]


def fitted_critics(
    policy: ActorCritic,
    fitting: BranchedTruth,  # episodes of other tasks; their truth need not be measured
    graded: BranchedTruth,
    ground_truths: Mapping[str, Any],
) -> dict[str, list[Vector]]:
    """Return critic -> values at the actions of the graded episodes.

    last: the last layer's state before the action; layers: all layers'; truth: all layers' and how
    far the agent is along the ground truth, which no critic of an honest policy may read.
    """
    own, others = hidden_states(policy, graded), hidden_states(policy, fitting)
    size = own[0].shape[-1] // _num_layers(policy)
    views: dict[str, tuple[list[Matrix], list[Matrix]]] = {
        "critic_last": ([at[:, -size:] for at in others], [at[:, -size:] for at in own]),
        "critic_layers": (others, own),
    }
    progress = [progress_features(truth, ground_truths) for truth in (fitting, graded)]
    views["critic_truth"] = (
        [np.hstack(pair) for pair in zip(others, progress[0], strict=True)],
        [np.hstack(pair) for pair in zip(own, progress[1], strict=True)],
    )
    returns = [returns_to_go(rewards, fitting.discount) for rewards in fitting.rewards]
    tasks = [episode.task_id for episode in fitting.episodes]
    return {
        name: _ridge(learned, returns, tasks, asked) for name, (learned, asked) in views.items()
    }


@torch.inference_mode()
def hidden_states(policy: ActorCritic, truth: BranchedTruth) -> list[Matrix]:
    """Return, for each episode, every layer's state before each action, (actions, layers x H)."""
    places = [
        (number, row) for number, episode in enumerate(truth.episodes) for row in episode.rows
    ]
    found: list[list[Matrix]] = [[] for _ in truth.episodes]
    for begin in range(0, len(places), ROWS_A_PASS):
        part = places[begin : begin + ROWS_A_PASS]
        batch = make_batch([row for _, row in part], trim=True)
        output = policy.model(
            input_ids=batch.ids,
            attention_mask=batch.attention_mask.long(),
            output_hidden_states=True,
        )
        layers = torch.cat([each.float() for each in output.hidden_states[1:]], dim=-1)
        for index, (number, row) in enumerate(part):
            before = torch.tensor(action_starts(row), dtype=torch.long) - 1
            found[number].append(layers[index, before].double().numpy())
    return [np.concatenate(parts) for parts in found]


def progress_features(truth: BranchedTruth, ground_truths: Mapping[str, Any]) -> list[Matrix]:
    """Return how far each action's state is along the ground truth, (actions, 6)."""
    return [
        np.asarray(_progress(episode, ground_truths.get(episode.task_id)))
        for episode in truth.episodes
    ]


def _progress(episode: EpisodeRecord, ground_truth: Any) -> list[list[float]]:
    turns: Sequence[Any] = ground_truth if isinstance(ground_truth, Sequence) else ()
    several = [turn for turn in turns if isinstance(turn, list | tuple)]
    wanted = [[_normal(call) for call in turn] for turn in several]
    record: Any = episode.episode
    made: list[list[str]] = [[] for _ in wanted]
    rows = []
    for number, step in enumerate(record.steps):
        turn = min(step.turn, max(len(wanted) - 1, 0))
        before = [a == b for a, b in zip(made[:turn], wanted[:turn], strict=True)]
        here = made[turn] if wanted else []
        truth_here = wanted[turn] if wanted else []
        rows.append(
            [
                float(number),
                float(len(wanted) - turn),
                float(sum(map(len, wanted[turn:])) - len(here)),
                float(all(before)),
                float(here == truth_here[: len(here)]),
                float(here == truth_here),
            ]
        )
        if wanted:
            made[turn] += [_written(call) for call in step.calls]
    return rows


def _normal(call: Any) -> str:
    """Return a truth's call string in one spelling."""
    try:
        return ast.unparse(ast.parse(str(call)))
    except SyntaxError:
        return str(call)


def _written(call: Any) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
    return _normal(f"{call.name}({arguments})")


def _num_layers(policy: ActorCritic) -> int:
    return int(policy.model.config.num_hidden_layers)


def _ridge(
    learned: Sequence[Matrix],
    returns: Sequence[Vector],
    tasks: Sequence[str],
    asked: Sequence[Matrix],
) -> list[Vector]:
    """Return the values of the asked states by ridge regression on the learned ones."""
    x, y = np.concatenate(learned), np.concatenate(returns)
    centre, scale = x.mean(0), x.std(0) + 1e-6
    x = (x - centre) / scale
    names = np.repeat([sorted(set(tasks)).index(task) for task in tasks], [len(r) for r in returns])
    held_out = names % 5 == 0
    if held_out.all() or not held_out.any():
        held_out = np.arange(len(y)) % 5 == 0
    errors = [
        float(
            np.mean((_solved(x[~held_out], y[~held_out], penalty)(x[held_out]) - y[held_out]) ** 2)
        )
        for penalty in PENALTIES
    ]
    predict = _solved(x, y, PENALTIES[int(np.argmin(errors))])
    return [predict((each - centre) / scale) for each in asked]


def _solved(x: Matrix, y: Vector, penalty: float) -> Callable[[Matrix], Vector]:
    mean = float(y.mean())
    weights = np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ (y - mean))
    return lambda asked: np.asarray(asked @ weights + mean)
