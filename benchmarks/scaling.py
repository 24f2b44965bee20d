"""Measured costs of a token and of weights, and a simulation of many processes.

`python benchmarks/scaling.py --json FILE` measures what docs/scaling.md simulates from. CPU seconds
are the least of several rounds: they hold on a machine that others use.
"""

from __future__ import annotations

import heapq
import json
import math
import os
import pickle
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from figures import Figure, benchmark_parser, report
from harness import cpu_seconds
from rollout import build
from torch import nn

from fctncalling.algorithms.batch import build_experience
from fctncalling.algorithms.distributed.fsdp import FSDP
from fctncalling.algorithms.distributed.process_group import ProcessGroup
from fctncalling.algorithms.episodes import EpisodeRecord, TokenRecord
from fctncalling.algorithms.losses import LossTerms
from fctncalling.algorithms.policy.actor_critic import ActorCritic

ROUNDS = 5
SIMULATED = {8: 256, 64: 1024, 1024: 8192}  # processes -> episodes an update
SPREAD = 0.5  # of episodes' times, log-normal: assumed


def main() -> int:
    """Measure every figure, and print the simulation."""
    options = benchmark_parser(__doc__).parse_args()
    torch.set_num_threads(1)
    costs = episodes()
    simulation = [("", [f"{count:,}" for count in SIMULATED]), *simulate(costs)]
    for name, values in simulation:
        print(f"{name:45}", *(f"{value:>9}" for value in values))
    figures = [Figure(name, value) for name, value in zip(COSTS, costs, strict=True)]
    return report([*figures, *gathering()], options.json, simulation=simulation)


class TokenCosts(NamedTuple):
    """Costs of a token of an episode that another process played, as measured here."""

    travelling: float  # bytes
    held: float  # bytes
    unpacked: float  # CPU microseconds
    laid_out: float  # CPU microseconds


COSTS = (
    "bytes of a token that travels",
    "bytes of a token that is held",
    "CPU microseconds to unpack a token",
    "CPU microseconds to lay out a token",
)
"""Names of the fields of TokenCosts on the page."""


def episodes(num_tokens: int = 6000, num_episodes: int = 400) -> TokenCosts:
    """Measure the costs of an episode's tokens, moved, held, unpacked and laid out."""
    rng = np.random.default_rng(0)
    acted = [index % 8 == 7 for index in range(num_tokens)]
    row = TokenRecord(
        rng.integers(0, 150_000, num_tokens).tolist(),
        acted,
        [index % 800 == 799 or index == num_tokens - 1 for index in range(num_tokens)],
        [
            float(value) if is_acted else 0.0
            for value, is_acted in zip(rng.normal(size=num_tokens), acted, strict=True)
        ],
        [0.0] * num_tokens,
    )
    records = [EpisodeRecord("task", "", [row], terminated=True) for _ in range(num_episodes)]
    data = [pickle.dumps(record, protocol=5) for record in records]
    tracemalloc.start()
    copies = [pickle.loads(one) for one in data[:20]]
    held = tracemalloc.get_traced_memory()[0] / len(copies)
    tracemalloc.stop()
    unpacking, laying = (
        1e6 * min(cpu_seconds(work) for _ in range(ROUNDS)) / num_episodes / num_tokens
        for work in (
            lambda: [pickle.loads(one) for one in data],
            lambda: build_experience(records, torch.device("cpu")),
        )
    )
    return TokenCosts(len(data[0]) / num_tokens, held / num_tokens, unpacking, laying)


class Job(NamedTuple):
    """Simulated job: assumptions, and published figures of Qwen2.5-7B and an H100."""

    parameters: float = 7.6e9  # published
    outside: float = 1.09e9  # of these in no layer: embedding and output layer, gathered in fp32
    adapter: float = 40.8e6  # of rank 16, as --plan counts them
    tokens: int = 6000  # of an episode; 800 of them are written
    written: int = 800
    reading_s: float = 0.41  # GPU seconds that a rollout takes for an episode, writing included
    learning_s: float = 0.92  # 6 x parameters x tokens at 40 % of 989 TFLOP/s
    pass_tokens: int = 4096  # --max_microbatch_tokens
    steps: int = 4  # --num_mini_batch
    in_machine: float = 450e9  # bytes a second between 8 GPUs (NVLink, published)
    between: float = 50e9  # bytes a second between machines
    latency_s: float = 50e-6  # of a collective operation, for each process


JOB = Job()
LOSS_TERM_BYTES = 4 * len(LossTerms._fields)  # bytes of the loss terms of a written token


def simulate(costs: TokenCosts, job: Job = JOB) -> list[tuple[str, list[str]]]:
    """Return rows of a table: an update of the job in 8, 64 and 1,024 processes, by these costs.

    Every process plays and learns a share; each needs all episodes. An all-reduce moves a tensor
    twice; FSDP gathers the weights in each pass and its backward pass, and reduces gradients.
    """
    rows: dict[str, list[str]] = {}

    def add(name: str, value: float, unit: str = " s") -> None:
        digits = 0 if value >= 10 else 1 if value >= 1 else 2
        rows.setdefault(name, []).append(f"{value:.{digits}f}{unit}")

    for count, episodes in SIMULATED.items():
        tokens = episodes * job.tokens
        speed = job.in_machine if count <= 8 else job.between
        waiting = count * job.latency_s
        passes = math.ceil(tokens / count / job.pass_tokens)
        fixed, queued = share_times(count, episodes, 4)
        rows.setdefault("episodes an update", []).append(f"{episodes:,}")
        add("GPU: play a share", job.reading_s * episodes / count)
        add("GPU: learn a share", job.learning_s * episodes / count)
        add("wait for the longest share, 4 slots each", (fixed / queued - 1) * 100, " %")
        add("send episodes to all", tokens * costs.travelling / speed + 2 * waiting)
        add("CPU: unpack and lay out all", tokens * (costs.unpacked + costs.laid_out) / 1e6)
        terms = 2 * episodes * job.written * LOSS_TERM_BYTES / speed
        add("sum loss terms", terms + job.steps * waiting)
        add("sum gradients, adapter", job.steps * (2 * 4 * job.adapter / speed + waiting))
        far = (math.ceil(count / 8) - 1) / job.between
        for name, weights in (("adapter", job.adapter), ("all weights", job.parameters)):
            add(f"Ray: {name} to every machine in turn", 4 * weights * far)
        whole = 2 * job.parameters + 2 * job.outside
        add("FSDP: gather for a rollout, layers in bf16", whole / speed)
        add("FSDP: gather and reduce in passes", passes * 3 * 4 * job.parameters / speed)
        add("memory: episodes", tokens * costs.held / 1e9, " GB")
        add("memory, FSDP: weights, gradients, moments", 16e-9 * job.parameters / count, " GB")
        add("memory, FSDP: whole copy for a rollout", whole / 1e9, " GB")
    return list(rows.items())


def share_times(count: int, number: int, slots: int) -> tuple[float, float]:
    """Return how long a round takes by fixed shares, and from a queue, in mean episodes.

    An episode's time is log-normal, with a spread that is assumed.
    """
    rng = np.random.default_rng(0)
    times = rng.lognormal(-(SPREAD**2) / 2, SPREAD, number)

    def taken(times: Any, slots: int) -> float:
        free = [0.0] * slots
        for seconds in times:
            heapq.heapreplace(free, free[0] + seconds)
        return max(free)

    shares = times.reshape(count, -1)
    return max(taken(share, slots) for share in shares), taken(times, slots * count)


def gathering() -> list[Figure]:
    """Measure the cost of FSDP's gathering of weights in bf16 for a rollout, in two processes.

    Before: all weights in fp32, then a copy of the layers' in bf16. After: these in bf16 alone.
    """
    policy = ActorCritic(build(512, 12, 4096))
    with tempfile.TemporaryDirectory() as folder:
        children = list[int]()
        for rank in range(2):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    _gather(policy, rank, Path(folder))
                    code = 0
                finally:
                    os._exit(code)
            children.append(child)
        assert all(os.waitpid(child, 0)[1] == 0 for child in children)
        ratios = json.loads((Path(folder) / "ratios.json").read_text("utf-8"))
    names = ("memory", "CPU time")
    name = "weights that FSDP gathers for a rollout, bf16 over fp32"
    return [Figure(f"{name}, {part}", ratio) for part, ratio in zip(names, ratios, strict=True)]


def _gather(policy: ActorCritic, rank: int, folder: Path) -> None:
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2
    )
    processes = ProcessGroup(rank, 2, "cpu", FSDP.from_environment())
    processes.shard(policy)
    spent: dict[bool, tuple[float, float]] = {}
    for after in (False, True, False, True):  # the first ones warm
        started = time.process_time()
        with processes.unsharded(policy, torch.bfloat16 if after else None) as whole:
            decoder = whole.model.get_decoder()
            linear = [it.weight for it in decoder.modules() if isinstance(it, nn.Linear)]
            copies = [weight.to(torch.bfloat16) for weight in linear]
            seconds = time.process_time() - started
            held = {it.data_ptr(): it.nbytes for it in (*whole.parameters(), *copies)}
            spent[after] = sum(held.values()) / 1e6, seconds
    if rank == 0:
        ratios = [after / before for before, after in zip(spent[False], spent[True], strict=True)]
        (folder / "ratios.json").write_text(json.dumps(ratios), encoding="utf-8")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    raise SystemExit(main())
