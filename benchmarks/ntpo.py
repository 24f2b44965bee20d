"""World in which naive token-level PPO (NTPO) provably learns the worse action, unlike TPPO.

Every episode is one action. The word SHORT is the whole of an action that earns 0.8; the word LONG
begins an action of four tokens that earns 1. Whoever wants the most reward, discounted from action
to action or not at all, wants LONG: 1 > 0.8. NTPO discounts at every token, so to it the first
token of the long action is worth gamma^3 = 0.729 at gamma = 0.9, less than 0.8: its own objective
prefers the worse action, and the better it optimises the surer it is to take it. No rate, batch or
critic mends that. Under exact backup with action decomposition the first token is worth 1.

`python benchmarks/ntpo.py` trains every algorithm with a critic on it, several seeds each, and
draws docs/ntpo.png.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch

import argparse
from pathlib import Path
from typing import Any

import torch
from pictures import save, seeds, spread, subplots
from transformers import LlamaConfig, LlamaForCausalLM

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord, TokenRecord
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.ppo import make_optimisers, update

SHORT, LONG, START, VOCABULARY = 0, 1, 7, 8
REWARDS = {SHORT: 0.8, LONG: 1.0}  # any other first word earns 0
LENGTHS = {SHORT: 1, LONG: 4}  # in tokens; any other first word is an action by itself
GAMMA = 0.9
ALGORITHMS = ("TPPO", "POAD", "APPO", "NTPO")
ROOT = Path(__file__).parents[1]


def untrained(seed: int) -> ActorCritic:
    """Make a tiny random model with a critic."""
    torch.manual_seed(seed)
    sizes = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    return ActorCritic(
        LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, max_position_embeddings=16, **sizes))
    )


@torch.no_grad()
def play(policy: ActorCritic, num_episodes: int, generator: torch.Generator) -> list[EpisodeRecord]:
    """Sample episodes."""
    ids = torch.full((num_episodes, 1), START)
    logprobs = torch.zeros(num_episodes, 0)
    for _ in range(max(LENGTHS.values())):
        model: Any = policy.model
        chances = model(input_ids=ids).logits[:, -1].log_softmax(-1)
        tokens = torch.multinomial(chances.exp(), 1, generator=generator)
        ids, logprobs = (
            torch.cat([ids, tokens], 1),
            torch.cat([logprobs, chances.gather(1, tokens)], 1),
        )
    return [
        record(row, scores) for row, scores in zip(ids.tolist(), logprobs.tolist(), strict=True)
    ]


def record(ids: list[int], logprobs: list[float]) -> EpisodeRecord:
    """Make the episode of sampled ids, cut to the action length of its first word."""
    first = ids[1]
    length, reward = LENGTHS.get(first, 1), REWARDS.get(first, 0.0)
    before_last = length - 1
    row = TokenRecord(
        ids[: length + 1],
        [False] + [True] * length,
        [False] * length + [True],
        [0.0, *logprobs[:length]],
        [0.0] + [0.0] * before_last + [reward],
    )
    return EpisodeRecord(
        "task", "world", [row], terminated=True, episode_return=reward, num_steps=1
    )


@torch.no_grad()
def chance_of(policy: ActorCritic, word: int) -> float:
    """Return the probability that an action begins with the word."""
    model: Any = policy.model
    chance: float = model(input_ids=torch.tensor([[START]])).logits[0, -1].softmax(-1)[word].item()
    return chance


def train(algorithm: str, seed: int, num_updates: int) -> list[float]:
    """Train; return the probability of the better action before each update and after the last."""
    config = TrainConfig(
        seed=seed,
        algorithm_name=algorithm,
        gamma=GAMMA,
        lam=0.95,
        lr=3e-3,
        critic_lr=1e-2,
        num_mini_batch=2,
        ppo_epoch=2,
        episodes_per_update=64,
        target_kl=None,
    )
    policy = untrained(seed)
    optimisers, generator = make_optimisers(policy, config), torch.Generator().manual_seed(seed)
    chances = [chance_of(policy, LONG)]
    for _ in range(num_updates):
        update(
            policy,
            optimisers,
            play(policy, config.episodes_per_update, generator),
            config,
            generator,
        )
        chances.append(chance_of(policy, LONG))
    return chances


def draw(curves: dict[str, list[list[float]]], path: Path) -> None:
    """Draw each algorithm in a panel."""
    figure, panels = subplots(1, len(curves), size=(11, 3.8))
    for number, (axes, (name, runs)) in enumerate(zip(panels, curves.items(), strict=True)):
        spread(axes, range(len(runs[0])), runs, f"C{number}", name)
        axes.set(title=name, xlabel="update (64 episodes)")
    panels[0].set_ylabel("probability of the better action")
    count = len(next(iter(curves.values())))
    task = "A toy task: 4 tokens earn 1, 1 token earns 0.8 (gamma 0.9)"
    figure.suptitle(f"{task}, {seeds(count)}")
    save(figure, path)


def main() -> None:
    """Train, print how often each algorithm ends with the better action, and draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--num_updates", type=int, default=40)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "ntpo.png")
    options = parser.parse_args()
    torch.set_num_threads(1)
    curves: dict[str, list[list[float]]] = {}
    for name in ALGORITHMS:
        curves[name] = [
            train(name, seed, options.num_updates) for seed in range(1, options.seeds + 1)
        ]
        ends = ", ".join(f"{run[-1]:.3f}" for run in curves[name])
        print(f"{name}: probability of the better action at the end, by seed: {ends}", flush=True)
    draw(curves, options.output)
    print(options.output)


if __name__ == "__main__":
    main()
