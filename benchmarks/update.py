"""Cost of an update: growth with the number of steps, shared prefixes, comparison with TRL.

  python benchmarks/update.py
  python benchmarks/update.py --shared --json figures.json
  python3.11 -m venv /tmp/trl
  /tmp/trl/bin/pip install torch==2.13.0 trl==1.16.0 transformers==5.23.0
  python benchmarks/update.py --vs trl --trl /tmp/trl/bin/python
  python benchmarks/update.py --shared --vs trl --trl /tmp/trl/bin/python

Everything takes turns in one run, on one thread in fp32; CPU seconds are compared and medians over
the rounds are told. Exits 1 if a target is missed.

Growth is that of attention alone, whose share of a token's cost is the row's length over the hidden
size: the default is a small ordinary model with heads of 64; --hidden 96 is the embedded model, the
worst case, and misses the bound.

Beside TRL, both start from the same collected tokens of embedded tasks, their masks and rewards,
and end with new weights: log-probabilities before the update, advantages in groups, one epoch of as
many clipped AdamW steps. Ours is the whole of `update`, metrics included; TRL's is its trainer's
own loop (see peers/trl_side.py), without what it spends on receiving the rows. That both learn
the same is shown first: one step on the whole batch has one gradient norm.

What --shared measures, shared_update.py says.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch

import argparse
import copy
import dataclasses
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median

import torch
from figures import Figure, benchmark_parser, report
from harness import cpu_seconds, random_ids, random_llama, token_episode
from peers.trl_peer import GROUP_SIZE, embedded_batch, trl_process, update_job
from shared_update import shared

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import FIELDS, EpisodeRecord, TokenRecord
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.ppo import make_optimisers, update
from fctncalling.data.bfcl import embedded_path

MOST_GROWTH, LEAST_SAVING, LEAST_LEAD = 1.3, 4.0, 1.3
STEPS = (2, 4, 8, 16)


def episode(
    number: int, num_steps: int, context: int, action: int, vocabulary: int
) -> EpisodeRecord:
    """Make an episode of random tokens: in each step context, then an action."""
    acted = ([False] * context + [True] * action) * num_steps
    ids = random_ids(len(acted), vocabulary, torch.Generator().manual_seed(number))
    reward = float(number % 2)
    return token_episode(ids, acted, reward, f"task_{number // 8}", num_steps=num_steps)


def one_row_a_step(record: EpisodeRecord) -> EpisodeRecord:
    """Convert the episode to one row per step, as templates that rewrite history do."""
    (whole,) = record.rows
    ends = [index + 1 for index, last in enumerate(whole.ends_action) if last]
    rows = []
    for start, end in zip([0, *ends], ends, strict=False):
        row = TokenRecord(*(getattr(whole, name)[:end] for name in FIELDS))
        row.acted[:start] = row.ends_action[:start] = [False] * start
        row.rewards[:start] = [0.0] * start
        rows.append(row)
    return dataclasses.replace(record, rows=rows)


def seconds_of_update(
    policy: ActorCritic, episodes: Sequence[EpisodeRecord], config: TrainConfig
) -> float:
    """Return the CPU seconds of one whole update of a fresh copy of the policy."""
    policy = copy.deepcopy(policy)
    optimisers, generator = make_optimisers(policy, config), torch.Generator().manual_seed(0)
    return cpu_seconds(lambda: update(policy, optimisers, episodes, config, generator))


def growth(options: argparse.Namespace) -> list[Figure]:
    """Measure the cost of a token by number of steps, and of an episode in either form."""
    sizes = {name: getattr(options, name) for name in ("hidden", "layers", "vocabulary")}
    policy = ActorCritic(random_llama(**sizes))
    config = TrainConfig(target_kl=None)
    parts = (options.context, options.action, options.vocabulary)
    forms = {
        steps: [episode(number, steps, *parts) for number in range(options.total_steps // steps)]
        for steps in STEPS
    }
    ways = {
        steps: partial(seconds_of_update, policy, episodes, config)
        for steps, episodes in forms.items()
    }
    apart = [one_row_a_step(record) for record in forms[STEPS[-1]]]
    ways[0] = partial(seconds_of_update, policy, apart, config)
    rounds = [{name: way() for name, way in ways.items()} for _ in range(options.rounds + 1)]
    del rounds[0]  # it warms up
    tokens = options.total_steps * (options.context + options.action)
    name = f"hidden size {options.hidden}, CPU microseconds a token"
    spent = [
        Figure(
            f"{name}, {steps} steps an episode",
            median(round_[steps] for round_ in rounds) * 1e6 / tokens,
        )
        for steps in STEPS
    ]
    few, many = STEPS[0], STEPS[-1]
    share = median(round_[many] / round_[few] for round_ in rounds)
    saving = median(round_[0] / round_[many] for round_ in rounds)
    return [
        *(spent[0], spent[-1]),
        Figure(f"the same, {many} steps over {few}", share, at_most=MOST_GROWTH),
        Figure("one row a step over one row an episode", saving, at_least=LEAST_SAVING),
    ]


def beside_trl(options: argparse.Namespace) -> list[Figure]:
    """Measure tokens per CPU second of both trainers on one batch."""
    episodes = embedded_batch(options.tasks)
    tokens = sum(len(episode.rows[0].ids) for episode in episodes)
    policy = ActorCritic.load(embedded_path("model"))
    grpo = TrainConfig(
        algorithm_name="GRPO",
        group_size=GROUP_SIZE,
        group_std=False,
        lr=1e-6,
        gamma=1.0,
        entropy_coef=0.0,
        target_kl=None,
        clip_low=0.2,
        clip_high=0.28,
    )
    rows = {"rows_a_pass": options.trl_rows}
    same_gradient(options.trl, policy, episodes, dataclasses.replace(grpo, num_mini_batch=1), rows)
    ways = {"GRPO": grpo, "TPPO": dataclasses.replace(grpo, algorithm_name="TPPO")}
    rounds = []
    with trl_process(options.trl) as trl:
        versions = trl.ask(update_job(episodes, grpo, **rows, turns=options.rounds + 1))
        for _ in range(options.rounds + 1):
            spent = {
                name: seconds_of_update(policy, episodes, config) for name, config in ways.items()
            }
            rounds.append(spent | {"TRL": trl.ask("go")["cpu_s"]})
    rounds = rounds[1:]  # the first one warms
    speeds = {name: median(tokens / round_[name] for round_ in rounds) for name in ("TRL", *ways)}
    lead = median(round_["TRL"] / round_["GRPO"] for round_ in rounds)
    peer = f"TRL {versions['trl']}"
    return [
        Figure(f"tokens a CPU second, {peer}, GRPO", speeds["TRL"]),
        *(Figure(f"ours, {name}", speeds[name]) for name in ways),
        Figure(f"ours over {peer}, GRPO", lead, at_least=LEAST_LEAD),
    ]


def same_gradient(
    python: Path,
    policy: ActorCritic,
    episodes: Sequence[EpisodeRecord],
    config: TrainConfig,
    rows: dict[str, int],
) -> None:
    """Print both gradient norms of one step; AssertionError if they differ."""
    policy = copy.deepcopy(policy)
    metrics = update(
        policy, make_optimisers(policy, config), episodes, config, torch.Generator().manual_seed(0)
    )
    ours = metrics["losses/policy_grad_norm"]
    with trl_process(python) as trl:
        trl.ask(update_job(episodes, config, **rows, turns=1))
        (theirs,) = trl.ask("go")["norms"]
    print(f"gradient norm of one step on the whole batch: ours {ours:.6f}, TRL's {theirs:.6f}")
    assert abs(ours - theirs) < 1e-3 * ours, "the two do not learn the same"


def main() -> int:
    """Run the selected parts; return 1 if a target is missed."""
    parser = benchmark_parser(__doc__)
    for name, default in (("hidden", 256), ("layers", 3), ("vocabulary", 1772), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--context", type=int, default=24, help="tokens read before each action")
    parser.add_argument("--action", type=int, default=8, help="tokens of an action")
    parser.add_argument(
        "--total_steps", type=int, default=256, help="steps of an update, in any number of episodes"
    )
    parser.add_argument("--vs", choices=["trl"], help="compare with another trainer instead")
    parser.add_argument(
        "--trl", type=Path, default=Path("/tmp/trl/bin/python"), help="Python that has TRL"
    )
    parser.add_argument("--trl_rows", type=int, default=8, help="rows of one pass of TRL's")
    parser.add_argument(
        "--tasks", type=int, default=32, help=f"tasks of the batch, each played {GROUP_SIZE} times"
    )
    parser.add_argument(
        "--shared", action="store_true", help="measure what sharing prefixes saves instead"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    way = shared if options.shared else beside_trl if options.vs else growth
    return report(way(options), options.json)


if __name__ == "__main__":
    raise SystemExit(main())
