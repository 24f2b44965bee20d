"""What of a start policy's returns its hidden states explain, layer by layer, beside the turn.

    python benchmarks/jobs/critic_features.py --critic_warmup_episodes 512 --critic_layers 30 \
        --model_name_or_path FOLDER --dataset_path FILE [more flags of train]

plays the episodes of a critic's warm-up, takes the states that the value head reads, and fits the
returns by ridge regression on four fifths of the tasks: by the turn's mean return alone, and by
each of the last --critic_layers layers, with and without that mean. Prints the explained variance
of the held-out returns, in all and by turn. A head that explains less than the turn's number has
learned nothing of the state. --critic lora --critic_sees truth puts the truth in front.

With --critic_sees progress it fits the trainer's own value head instead, to hidden states, to
progress features and to both, in five folds by task; what explains a fold never learned from it.
"""

from __future__ import annotations

import json
import sys
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from fctncalling.algorithms.advantages import explained_variance
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.policy.progress_features import NUM_PROGRESS_FEATURES
from fctncalling.algorithms.policy.value_head import ValueHead
from fctncalling.algorithms.supervised.critic_fit import CriticSamples, fit_critic_in_folds
from fctncalling.cli.train import parse_settings
from fctncalling.training.prepare_run import prepare_run
from fctncalling.training.run_config import RunConfig

PENALTY = 0.3  # of the weights, in units of the mean squared feature; set before any fit
FOLDS = 5
LEAST = 200  # tokens of a turn that is told apart


def main(words: Sequence[str]) -> None:
    """Play, fit and print a line for each kind of features."""
    settings = parse_settings(words)
    run_config = RunConfig(**{it.name: getattr(settings, it.name) for it in fields(RunConfig)})
    with tempfile.TemporaryDirectory() as folder:
        config = replace(TrainConfig.from_args(settings), results_dir=folder)
        run = prepare_run(config, run_config)
        with tqdm(total=config.critic_warmup_episodes, unit="episode") as bar:
            result = run._play(run._planner.warm_up_round(), lambda _: bar.update())
        episodes = run._learnable(result.episodes)
        samples = run._critic_samples(episodes)
    tasks = [each.task_id for each in episodes for row in each.rows for _ in range(row.num_acted)]
    sees_progress = config.critic_sees == "progress"
    lines = (
        fitted(samples, tasks, config)
        if sees_progress
        else explained(samples, config.critic_layers)
    )
    for line in lines:
        print(json.dumps(line), flush=True)


def fitted(
    samples: CriticSamples, tasks: Sequence[str], config: TrainConfig
) -> Iterator[dict[str, Any]]:
    """Yield the explained variance of five folds by the value head, for each kind of features."""
    assert samples.turns is not None
    assert samples.folds is not None
    hidden, progress = samples.states.split(
        [samples.states.shape[1] - NUM_PROGRESS_FEATURES, NUM_PROGRESS_FEATURES], dim=1
    )
    turns = torch.nn.functional.one_hot(samples.turns.long()).float()
    inputs = {"turn": turns, "hidden states": hidden, "progress": progress, "both": samples.states}
    fold = torch.tensor([zlib.crc32(f"fold{task}".encode()) % FOLDS for task in tasks])
    for name, states in inputs.items():
        values = torch.zeros_like(samples.returns)
        for number in range(FOLDS):
            kept = fold != number
            torch.manual_seed(config.seed)
            head = ValueHead(states.shape[1], kind=config.critic_head, width=config.critic_hidden)
            learned = CriticSamples(
                *(states[kept], samples.returns[kept], samples.held_out[kept]),
                *(samples.turns[kept], samples.folds[kept]),
            )
            generator = torch.Generator().manual_seed(config.seed)
            fit_critic_in_folds(head, [learned], config, generator)
            values[~kept] = head(states[~kept]).detach()
        everything = samples._replace(held_out=torch.ones_like(samples.held_out))
        yield _line(f"value head: {name}", values, everything)


def explained(samples: CriticSamples, num_layers: int) -> Iterator[dict[str, Any]]:
    """Yield the explained variance of held-out returns for each kind of features."""
    assert samples.turns is not None
    returns, train = samples.returns, ~samples.held_out
    mean = torch.full_like(returns, float(returns[train].mean()))
    of_turn = mean.clone()
    for turn in samples.turns[train].unique():
        here = samples.turns == turn
        of_turn[here] = returns[here & train].mean()
    yield _line("the turn's mean", of_turn, samples)
    for number, states in enumerate(samples.states.chunk(num_layers, 1)):
        layer = f"layer {number - num_layers}"  # -1 is the last
        yield _line(layer, ridge(states, mean, samples), samples)
        yield _line(f"{layer} and the turn's mean", ridge(states, of_turn, samples), samples)


def ridge(states: Tensor, offset: Tensor, samples: CriticSamples) -> Tensor:
    """Return the values of ridge regression on states, what it fits being returns less offset."""
    train = ~samples.held_out
    states = states.float()
    states = (states - states[train].mean(0)) / (states[train].std(0) + 1e-3)
    features, wanted = states[train], (samples.returns - offset)[train]
    products = features.T @ features / len(features)
    weights = torch.linalg.solve(
        products + PENALTY * torch.eye(len(products)), features.T @ wanted / len(features)
    )
    return states @ weights + offset


def _line(features: str, values: Tensor, samples: CriticSamples) -> dict[str, Any]:
    assert samples.turns is not None
    held_out, turns = samples.held_out, samples.turns[samples.held_out]
    values, returns = values[held_out], samples.returns[held_out]
    by_turn = {
        int(turn): round(explained_variance(values[turns == turn], returns[turns == turn]), 3)
        for turn in turns.unique()
        if int((turns == turn).sum()) >= LEAST
    }
    total = round(explained_variance(values, returns), 3)
    return {"features": features, "explained_variance": total, "by_turn": by_turn}


if __name__ == "__main__":
    main(sys.argv[1:])
