"""Savings of prefix sharing in an update: `python benchmarks/update.py --shared`.

A model of the shape of SmolLM-135M with random weights learns from groups of 8 rows that begin with
one prompt: with `--share_prefixes on` and off in turn, on one thread in fp32, in CPU seconds of the
whole of `update`. Rows of which no two are alike show what looking for prefixes costs. Memory is
the bytes that autograd holds for the backward pass of one group, with fewer layers.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch
from figures import Figure
from harness import random_ids, random_llama, token_episode
from peers.trl_peer import GROUP_SIZE, trl_process, update_job
from tqdm import tqdm

from fctncalling.algorithms.batch import build_experience
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.minibatches import Passes
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.ppo import make_optimisers, update
from fctncalling.data.bfcl import embedded_path

ANSWER = 30
LEAST = {330: 3.5, 1536: 5.5}  # of time and memory without over with sharing, by prompt
MOST_WITHOUT_PREFIX = 1.05  # of time with over without it, where no two rows are alike
LEAST_TRL_LEAD = 3.5
ROUNDS = {330: 2, 1536: 1}  # the longer prompt takes minutes without sharing
UNLIKE_ROUNDS, UNLIKE_ROWS, UNLIKE_PROMPT = 3, 8, 30
MEMORY_LAYERS = 6
VOCABULARY = 49152
SETTINGS = {"num_mini_batch": 1, "target_kl": None, "lr": 1e-6, "critic_lr": 1e-6}


def shared(options: argparse.Namespace) -> list[Figure]:
    """Measure the selected part."""
    policy = ActorCritic(smol_model(num_layers=30))
    if options.vs:
        return _beside_trl(policy, options.trl)
    figures = _times(policy)
    del policy
    small = ActorCritic(smol_model(num_layers=MEMORY_LAYERS))
    for prompt, least in LEAST.items():
        on, off = (bytes_for_backward(small, group(prompt), shares=way) for way in (True, False))
        name = f"memory without sharing over with it, prompt of {prompt:,} tokens"
        figures.append(Figure(name, off / on, at_least=least))
    return figures


def smol_model(num_layers: int) -> Any:
    """Make a random model of SmolLM-135M's shape: 135 million parameters with 30 layers."""
    return random_llama(
        hidden=576,
        intermediate_size=1536,
        layers=num_layers,
        heads=9,
        num_key_value_heads=3,
        max_position_embeddings=2048,
        vocabulary=VOCABULARY,
    )


def group(prompt: int, size: int = GROUP_SIZE, number: int = 0) -> list[EpisodeRecord]:
    """Make episodes of random tokens with one prompt and ANSWER acted tokens each."""
    generator = torch.Generator().manual_seed(number)
    opening = random_ids(prompt, VOCABULARY, generator)
    acted = [False] * prompt + [True] * ANSWER
    return [
        token_episode(
            opening + random_ids(ANSWER, VOCABULARY, generator),
            acted,
            float(member % 2),
            f"task_{number}",
        )
        for member in range(size)
    ]


def _times(policy: ActorCritic) -> list[Figure]:
    """Return the ratios of seconds: without to with sharing, or the reverse for distinct rows."""
    settings = {shares: TrainConfig(share_prefixes=shares, **SETTINGS) for shares in (True, False)}
    optimisers = make_optimisers(policy, settings[True])
    unlike = [
        episode
        for number in range(UNLIKE_ROWS)
        for episode in group(UNLIKE_PROMPT, 1, number=number)
    ]

    def seconds(episodes: Sequence[EpisodeRecord], shares: bool) -> float:
        generator = torch.Generator().manual_seed(0)
        started = time.process_time()
        metrics = update(policy, optimisers, episodes, settings[shares], generator)
        spent = time.process_time() - started
        assert ("perf/shared_token_share" in metrics) is (shares and episodes is not unlike)
        bar.update()
        return spent

    total = 2 * (sum(ROUNDS.values()) + UNLIKE_ROUNDS + 1)
    with tqdm(total=total, desc="updates", unit="update") as bar:
        pairs = [(seconds(unlike, True), seconds(unlike, False)) for _ in range(UNLIKE_ROUNDS + 1)]
        ratio = median(on / off for on, off in pairs[1:])
        unshared = Figure("time with over without, no two alike", ratio, None, MOST_WITHOUT_PREFIX)
        figures = []
        for prompt, rounds in ROUNDS.items():
            episodes = group(prompt)
            pairs = [(seconds(episodes, True), seconds(episodes, False)) for _ in range(rounds)]
            name = f"time without sharing over with it, prompt of {prompt:,} tokens"
            ratio = median(off / on for on, off in pairs)
            figures.append(Figure(name, ratio, at_least=LEAST[prompt]))
    return [*figures, unshared]


def bytes_for_backward(
    policy: ActorCritic, episodes: Sequence[EpisodeRecord], *, shares: bool
) -> int:
    """Return the bytes that autograd saves in one pass over all rows."""
    passes = Passes(build_experience(episodes, torch.device("cpu")), TrainConfig())
    if shares:
        passes = passes._replace(sharing=policy.prefix_sharing)
    weights = {weight.untyped_storage().data_ptr() for weight in policy.parameters()}
    held: dict[int, int] = {}

    def hold(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            held[storage.data_ptr()] = storage.nbytes()
        return tensor

    batch, _ = passes.batch(range(len(passes.experience.rows)))
    with torch.autograd.graph.saved_tensors_hooks(hold, lambda tensor: tensor):
        outputs = policy(batch)
    assert outputs.logprobs.requires_grad
    return sum(held.values())


def _beside_trl(policy: ActorCritic, python: Path) -> list[Figure]:
    """Measure TRL's CPU seconds of a GRPO update over ours."""
    episodes = group(330)
    config = TrainConfig(
        algorithm_name="GRPO",
        group_size=GROUP_SIZE,
        group_std=False,
        gamma=1.0,
        entropy_coef=0.0,
        **SETTINGS,
    )
    ways = {
        "with shared prefixes": config,
        "without": dataclasses.replace(config, share_prefixes=False),
    }
    optimisers = make_optimisers(policy, config)
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        _save(policy.model, folder)
        job = update_job(episodes, config, rows_a_pass=GROUP_SIZE, turns=3, model=Path(folder))
        with trl_process(python) as trl:
            versions = trl.ask(job)
            for _ in tqdm(range(3), desc="rounds"):
                spent = {}
                for name, settings in ways.items():
                    generator, started = torch.Generator().manual_seed(0), time.process_time()
                    metrics = update(policy, optimisers, episodes, settings, generator)
                    spent[name] = time.process_time() - started
                answer = trl.ask("go")
                ours, theirs = metrics["losses/policy_grad_norm"], answer["norms"][0]
                print(f"gradient norm of the step: ours {ours:.6f}, TRL's {theirs:.6f}")
                rounds.append({name: answer["cpu_s"] / spent[name] for name in ways})
    warm = rounds[1:]
    leads = {name: median(round_[name] for round_ in warm) for name in ways}
    peer = f"TRL {versions['trl']}'s GRPO over ours"
    return [
        Figure(f"{peer} {name}", lead, LEAST_TRL_LEAD if name == "with shared prefixes" else None)
        for name, lead in leads.items()
    ]


def _save(model: Any, folder: str) -> None:
    """Write a model folder with the embedded model's tokenizer, which TRL needs."""
    from transformers import AutoTokenizer

    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(embedded_path("model")).save_pretrained(folder)
