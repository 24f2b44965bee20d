"""Critics fitted to a frozen policy: how well its hidden states, or the truth, predict values.

They learn Monte-Carlo returns (lambda 1) from episodes of many distinct tasks, none of which is
graded; a fifth of the tasks chooses the penalty, or the epoch. Ridge regressions bound what a
linear value head on the same states can learn.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.minibatches import make_batch
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.value_head import ValueHead
from fctncalling.algorithms.supervised.critic_fit import CriticSamples, fit_critic, is_held_out
from fctncalling.lab.credit.ruler import (
    BranchedTruth,
    Vector,
    action_starts,
    returns_to_go,
)

PENALTIES = (1.0, 10.0, 100.0, 1e3, 1e4)
ROWS_A_PASS = 64
BINS = 11
MISTAKES = slice(3, 4)  # of the progress features: is the episode on the truth's path
BODY_LR, EPISODES_A_STEP = 3e-4, 16
Matrix = NDArray[np.float64]


def fitted_critics(
    policy: ActorCritic,
    fitting: BranchedTruth,  # episodes of other tasks; their truth need not be measured
    graded: BranchedTruth,
    config: TrainConfig,
    body_epochs: int = 0,  # of a body of its own; 0: none
) -> dict[str, list[Vector]]:
    """Return the values at the graded actions by critic.

    last: the last layer's state before the action; layers: all layers'; truth: all layers' and how
    far the agent is along the ground truth, which no critic of an honest policy may read; mistakes:
    of that alone whether the calls so far are right. These are ridge regressions. head and bins:
    the value head that --critic_warmup_episodes fits, without and with --value_bins. body: a copy
    of the policy's layers, trained as --critic full is.
    """
    own, others = hidden_states(policy, graded), hidden_states(policy, fitting)
    size = own[0].shape[-1] // int(policy.model.config.num_hidden_layers)
    views: dict[str, tuple[list[Matrix], list[Matrix]]] = {
        "critic_last": ([at[:, -size:] for at in others], [at[:, -size:] for at in own]),
        "critic_layers": (others, own),
    }
    progress = [progress_features(truth) for truth in (fitting, graded)]
    for name, columns in (("critic_truth", slice(None)), ("critic_mistakes", MISTAKES)):
        views[name] = (
            [np.hstack((at, row[:, columns])) for at, row in zip(others, progress[0], strict=True)],
            [np.hstack((at, row[:, columns])) for at, row in zip(own, progress[1], strict=True)],
        )
    returns = [returns_to_go(rewards, fitting.discount) for rewards in fitting.rewards]
    tasks = [episode.task_id for episode in fitting.episodes]
    values = {
        name: _ridge(learned, returns, tasks, graded_states)
        for name, (learned, graded_states) in views.items()
    }
    last = views["critic_last"]
    for name, bins in (("critic_head", 0), ("critic_bins", BINS)):
        settings = replace(config, value_bins=bins, critic_layers=1)
        values[name] = _by_value_head(*last, returns, tasks, settings)
    if body_epochs:
        values["critic_body"] = _by_own_body(policy, fitting, graded, returns, body_epochs)
    return values


@torch.inference_mode()
def hidden_states(policy: ActorCritic, truth: BranchedTruth) -> list[Matrix]:
    """Return all layers' states before each action, (actions, layers x H), by episode."""
    places = [
        (number, row) for number, episode in enumerate(truth.episodes) for row in episode.rows
    ]
    states: list[list[Matrix]] = [[] for _ in truth.episodes]
    for begin in range(0, len(places), ROWS_A_PASS):
        part = places[begin : begin + ROWS_A_PASS]
        batch = make_batch([row for _, row in part], trim=True)
        output = policy.model(
            input_ids=batch.ids,
            attention_mask=batch.attention_mask.long(),
            output_hidden_states=True,
        )
        layers = torch.cat([layer.float() for layer in output.hidden_states[1:]], dim=-1)
        for index, (number, row) in enumerate(part):
            before = torch.tensor(action_starts(row), dtype=torch.long) - 1
            states[number].append(layers[index, before].double().numpy())
    return [np.concatenate(parts) for parts in states]


def _by_value_head(
    learned: Sequence[Matrix],
    graded: Sequence[Matrix],
    returns: Sequence[Vector],
    tasks: Sequence[str],
    config: TrainConfig,
) -> list[Vector]:
    """Predict values with the trainer's fit of a value head."""
    held_out = [
        is_held_out(task)
        for task, episode_returns in zip(tasks, returns, strict=True)
        for _ in episode_returns
    ]
    arrays = (np.concatenate(learned), np.concatenate(returns))
    states, targets = (torch.from_numpy(array).float() for array in arrays)
    bins = config.critic_shape["bin_centres"]
    torch.manual_seed(config.seed)
    width = config.critic_hidden
    head = ValueHead(states.shape[1], kind=config.critic_head, width=width, bin_centres=bins)
    generator = torch.Generator().manual_seed(config.seed)
    fit_critic(head, [CriticSamples(states, targets, torch.tensor(held_out))], config, generator)
    with torch.no_grad():
        return [head(torch.from_numpy(states).float()).double().numpy() for states in graded]


def _by_own_body(
    policy: ActorCritic,
    fitting: BranchedTruth,
    graded: BranchedTruth,
    returns: Sequence[Vector],
    epochs: int,
) -> list[Vector]:
    """Predict values with a copy of the policy's layers and a head, trained on returns."""
    body = copy.deepcopy(policy.model.get_decoder()).float().requires_grad_(True)
    critic = torch.nn.ModuleList([body, ValueHead(policy.model.config.hidden_size)])
    optimiser = torch.optim.AdamW(critic.parameters(), lr=BODY_LR, weight_decay=0.0)
    numbered = list(enumerate(fitting.episodes))
    chosen = [number for number, episode in numbered if is_held_out(episode.task_id)] or [0]
    learned = [number for number, episode in numbered if not is_held_out(episode.task_id)] or [0]
    generator = torch.Generator().manual_seed(1)
    least, best = float("inf"), copy.deepcopy(critic.state_dict())
    for _ in range(epochs):
        order = torch.randperm(len(learned), generator=generator)
        for part in torch.split(order, EPISODES_A_STEP):
            numbers = [learned[place] for place in part.tolist()]
            values = torch.cat(_body_values(critic, [fitting.episodes[n] for n in numbers]))
            wanted = torch.from_numpy(np.concatenate([returns[n] for n in numbers])).to(values)
            optimiser.zero_grad()
            torch.autograd.backward(torch.nn.functional.mse_loss(values, wanted))
            optimiser.step()
        with torch.no_grad():
            predicted = torch.cat(_body_values(critic, [fitting.episodes[n] for n in chosen]))
        targets = np.concatenate([returns[n] for n in chosen])
        error = float(np.mean((predicted.numpy() - targets) ** 2))
        if error < least:
            least, best = error, copy.deepcopy(critic.state_dict())
    critic.load_state_dict(best)
    with torch.no_grad():
        parts = np.array_split(np.arange(len(graded.episodes)), -(-len(graded.episodes) // 32))
        return [
            values.double().numpy()
            for part in parts
            for values in _body_values(critic, [graded.episodes[n] for n in part])
        ]


def _body_values(
    critic: torch.nn.ModuleList, episodes: Sequence[EpisodeRecord]
) -> list[torch.Tensor]:
    """Return the values before each action of the episodes."""
    rows = [row for episode in episodes for row in episode.rows]
    batch = make_batch(rows, trim=True)
    read = critic[0](input_ids=batch.ids, attention_mask=batch.attention_mask.long())
    values = critic[1](read.last_hidden_state)
    of_row = [
        values[index, torch.tensor(action_starts(row), dtype=torch.long) - 1]
        for index, row in enumerate(rows)
    ]
    ends = np.cumsum([0, *(len(episode.rows) for episode in episodes)])
    return [torch.cat(of_row[a:b]) for a, b in itertools.pairwise(ends.tolist())]


def progress_features(truth: BranchedTruth) -> list[Matrix]:
    """Return number, turn, calls to come and "on the truth's path" of each action, (n, 4)."""
    features = []
    for episode in truth.episodes:
        count = episode.num_steps
        places = episode.places[:count] or [(0, 0, False)] * count
        features.append(np.column_stack([np.arange(count), np.asarray(places, np.float64)]))
    return features


def _ridge(
    learned: Sequence[Matrix],
    returns: Sequence[Vector],
    tasks: Sequence[str],
    graded: Sequence[Matrix],
) -> list[Vector]:
    """Predict values by ridge regression."""
    x, y = np.concatenate(learned), np.concatenate(returns)
    centre, scale = x.mean(0), x.std(0) + 1e-6
    x = (x - centre) / scale
    names = np.repeat([sorted(set(tasks)).index(task) for task in tasks], [len(r) for r in returns])
    held_out = names % 5 == 0
    if held_out.all() or not held_out.any():
        held_out = np.arange(len(y)) % 5 == 0
    errors = []
    for penalty in PENALTIES:
        predict = _solved(x[~held_out], y[~held_out], penalty)
        errors.append(float(np.mean((predict(x[held_out]) - y[held_out]) ** 2)))
    predict = _solved(x, y, PENALTIES[int(np.argmin(errors))])
    return [predict((states - centre) / scale) for states in graded]


def _solved(x: Matrix, y: Vector, penalty: float) -> Callable[[Matrix], Vector]:
    mean = float(y.mean())
    weights = np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ (y - mean))
    return lambda states: np.asarray(states @ weights + mean)
