"""Time of a run on this processor, estimated from its rate of matrix products in a second or two.

Rates are of CPU seconds, as on free cores, whatever else the machine does meanwhile; how much
longer the products took by the clock stands beside them. Products take most of the time of models
of 100 million parameters and more. What stands beside them is a factor, measured with SmolLM2-135M
on one core, and a constant a layer.
"""

from __future__ import annotations

import os
import time
from typing import NamedTuple

import torch
import torch.nn.functional as F

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.policy.precision import compute_dtype
from fctncalling.lab.memory_plan.episode_lengths import EpisodeLengths
from fctncalling.lab.memory_plan.policy_sizes import PolicySizes

PASS_ROWS = 256  # tokens of a measured pass: with more of them the rate hardly rises
MEASURED_WEIGHTS = 25_000_000  # at most: more than caches hold
MEASURED_S = 0.3
OVERHEAD = 1.6  # times the products: norms, sampling, optimiser; the same of answers and of steps
LAYER_S = 2e-4  # of calls, a layer and pass
BACKWARD = 3  # a forward and a backward pass, in forward passes


class StageTime(NamedTuple):
    """Estimated time of one stage of a run."""

    name: str
    seconds: float
    basis: str  # what is done in it


class ProductTimes(NamedTuple):
    """Measured seconds in which free cores multiply one weight."""

    reading: float  # with a token, in a pass over many
    answering: float  # with a token of each episode that is played at once
    slowdown: float = 1.0  # times these that it took on the clock


def measure_products(config: TrainConfig, sizes: PolicySizes) -> ProductTimes:
    """Measure products of the model's widths with --torch_threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(config.torch_threads)
    started, cpu = time.perf_counter(), time.process_time()
    try:
        reading = _seconds_per_weight(config, sizes, PASS_ROWS) / PASS_ROWS
        answering = _seconds_per_weight(config, sizes, config.n_rollout_threads)
    finally:
        torch.set_num_threads(threads)
    used = (time.process_time() - cpu) / _num_cores(config)
    return ProductTimes(reading, answering, max(1.0, (time.perf_counter() - started) / used))


def _num_cores(config: TrainConfig) -> int:
    """Return how many cores the run's threads can have."""
    cores = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))(0)
    return min(config.torch_threads, len(cores))


@torch.inference_mode()
def _seconds_per_weight(config: TrainConfig, sizes: PolicySizes, num_rows: int) -> float:
    """Return the time of a product by so many rows on free cores, divided by the weights."""
    hidden, inner = sizes.layer.hidden, sizes.layer.inner
    dtype = compute_dtype(config, torch.device("cpu"))
    weights = min(sizes.num_weights, MEASURED_WEIGHTS)
    number = max(1, weights // (hidden * inner))
    matrices = [torch.full((inner, hidden), 0.01, dtype=dtype) for _ in range(number)]
    rows = torch.full((num_rows, hidden), 0.01, dtype=dtype)
    F.linear(rows, matrices[0])  # the first call prepares itself
    products, spent, started = 0, 0.0, time.process_time()
    while spent < MEASURED_S:
        F.linear(rows, matrices[products % number])
        products += 1
        spent = (time.process_time() - started) / _num_cores(config)
    return spent / (products * hidden * inner)


class RunTime(NamedTuple):
    """Estimated time of a run; pure arithmetic on its settings and on measured products.

    Before a supervised stage answers are taken to be as long as --max_new_tokens allows, behind it
    as long as the right ones.
    """

    config: TrainConfig
    sizes: PolicySizes
    lengths: EpisodeLengths
    products: ProductTimes

    def stages(self) -> tuple[StageTime, ...]:
        """Return the times of a run's stages, in their order."""
        config, lengths = self.config, self.lengths
        played = lengths.num_held_out * (1 + config.eval_samples)
        longest = min(lengths.num_actions * config.max_new_tokens, config.max_episode_tokens)
        answer, basis = longest, f"{played} episodes"
        stages = [StageTime("evaluation before", self._playing(played, answer), basis)]
        if lengths.num_demonstrations:
            answer = lengths.answer
            steps = config.sft_epochs * -(-lengths.num_demonstrations // config.sft_batch_size)
            seconds = steps * self._learning(config.sft_batch_size, answer, lengths.shared)
            words = f"{steps} steps of {config.sft_batch_size} demonstrations"
            stages.append(StageTime("supervised stage", seconds, words))
            stages.append(StageTime("evaluation", self._playing(played, answer), basis))
        if config.num_updates:
            number, group = config.episodes_per_update, config.episodes_per_task
            shared = lengths.shared if group == 1 else lengths.context
            passes = 1 / BACKWARD + config.ppo_epoch  # one before the first step
            learning = number / group * self._learning(group, answer, shared) * passes
            update = self._playing(number, answer) + self.sizes.num_backbones * learning
            words = f"{config.num_updates} of {number} episodes"
            stages.append(StageTime("updates", config.num_updates * update, words))
            every = config.eval_interval or config.num_updates
            evaluations = -(-config.num_updates // every)
            seconds = evaluations * self._playing(played, answer)
            words = f"{evaluations} of {played} episodes"
            stages.append(StageTime("evaluations", seconds, words))
        return tuple(stages)

    def _playing(self, episodes: int, answer: float) -> float:
        """Return the time of episodes with a given number of answer tokens in total."""
        config, sizes = self.config, self.sizes
        read = self._tokens(episodes, self.lengths.context, self.lengths.shared)
        steps = answer * -(-episodes // config.n_rollout_threads)
        weights = sizes.num_layers * sizes.layer_weights + sizes.layer.hidden * sizes.vocabulary
        answering = steps * (weights * self.products.answering + sizes.num_layers * LAYER_S)
        return OVERHEAD * (self._reading(read, self.lengths.context + answer) + answering)

    def _learning(self, rows: int, answer: float, shared: float) -> float:
        """Return the time of forward and backward passes over rows that share their beginning."""
        row = self.lengths.context + answer
        reading = self._reading(self._tokens(rows, row, shared), row)
        return OVERHEAD * (BACKWARD + self.config.gradient_checkpointing) * reading

    def _tokens(self, rows: int, length: float, shared: float) -> float:
        """Return the tokens of rows, counting shared prefixes once if they are computed once."""
        shared = min(shared, length) if self.config.share_prefixes else 0.0
        return rows * (length - shared) + shared

    def _reading(self, tokens: float, row: float) -> float:
        """Return the time of forward passes over tokens in rows of a length."""
        sizes = self.sizes
        attention = sizes.num_layers * sizes.layer.queries * row  # causal: half of two products
        weights = sizes.num_layers * sizes.layer_weights + attention
        passes = -(-tokens // self.config.max_microbatch_tokens)
        return tokens * weights * self.products.reading + passes * sizes.num_layers * LAYER_S
