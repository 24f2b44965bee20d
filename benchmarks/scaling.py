"""Costs of a token and of weights, and what many processes would take by them.

`python benchmarks/scaling.py` prints the figures of docs/scaling.md.

CPU seconds of this process, the least of several rounds: they hold on a machine that others use.
Only the figures of Ray's store are wall times (it copies in other processes too), in rounds that
alternate with a plain copy of the memory.
"""

from __future__ import annotations

import heapq
import math
import pickle
import statistics
import time
import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from fctncalling.algorithms.batch import build_experience
from fctncalling.algorithms.episodes import EpisodeRecord, TokenRecord
from fctncalling.algorithms.metrics import LossTerms
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.weight_sync import load_policy_state, policy_state
from fctncalling.data.bfcl import embedded_path, load_tasks
from fctncalling.envs.function_calling import FunctionCallingEnv

ROUNDS = 5
MEGABYTES = (1, 16, 128)
SIMULATED = {8: 256, 64: 1024, 1024: 8192}  # processes -> episodes an update
SPREAD = 0.5  # of episodes' times, log-normal: assumed


def main() -> None:
    """Print every figure."""
    torch.set_num_threads(1)
    env_steps()
    print_simulation(episodes())
    weights()
    try:
        import ray
    except ImportError:
        print("Ray is not installed: no figures of its object store")
        return
    object_store(ray)


def least(work: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """Return the least CPU seconds of several runs of some work."""
    times = []
    for _ in range(rounds):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


def env_steps() -> None:
    """Print the environment's steps per second and core, tools and checker included."""
    tasks = [
        task
        for task in load_tasks(embedded_path("train"))
        if task.category.startswith("multi_turn")
    ][:60]
    env = FunctionCallingEnv(tasks=tasks)
    steps = 0

    def play() -> None:
        nonlocal steps
        steps = 0
        for task in tasks:
            _, info = env.reset(options={"task_id": task.id})
            done, turn, said = False, -1, False
            while not done:
                said = said and info["turn"] == turn
                turn = info["turn"]
                truth = (task.ground_truth or [])[turn]
                text = "" if said or not truth else "[" + ", ".join(map(str, truth)) + "]"
                said = True
                _, _, terminated, truncated, info = env.step(text)
                done = terminated or truncated
                steps += 1

    seconds = least(play)
    print(
        f"environment: {steps / seconds:.0f} steps a CPU second (multi-turn, tools and verdict "
        "included)"
    )


class TokenCosts(NamedTuple):
    """Costs of a token of an episode that another process played, as measured here."""

    travelling: float  # bytes
    held: float  # bytes
    unpacked: float  # CPU seconds
    laid_out: float  # CPU seconds


def episodes(num_tokens: int = 6000, num_episodes: int = 400) -> TokenCosts:
    """Print and return the costs of an episode's tokens, packed, moved, held and laid out."""
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
    packing, unpacking, laying = (
        least(work) / num_episodes / num_tokens
        for work in (
            lambda: [pickle.dumps(record, protocol=5) for record in records],
            lambda: [pickle.loads(one) for one in data],
            lambda: build_experience(records, torch.device("cpu")),
        )
    )
    costs = TokenCosts(len(data[0]) / num_tokens, held / num_tokens, unpacking, laying)
    print(
        f"a token: {costs.travelling:.1f} bytes when it travels, {costs.held:.0f} when it is held; "
        f"CPU us: packing {1e6 * packing:.2f}, unpacking {1e6 * unpacking:.2f}, laying out "
        f"{1e6 * laying:.2f}"
    )
    return costs


class Job(NamedTuple):
    """Job that is simulated: assumed, but for what is published of a Qwen2.5-7B and an H100."""

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
        add("CPU: unpack and lay out all", tokens * (costs.unpacked + costs.laid_out))
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


def print_simulation(costs: TokenCosts) -> None:
    """Print the simulation as a table of Markdown."""
    print("| | " + " | ".join(f"{count:,}" for count in SIMULATED) + " |")
    print("|---|" + "---|" * len(SIMULATED))
    for name, values in simulate(costs):
        print(f"| {name} | " + " | ".join(values) + " |")


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


def weights() -> None:
    """Print the cost of copying weights from one policy to another, beside a plain copy."""
    policy = ActorCritic.load(embedded_path("model"))
    taken = policy_state(policy)
    size = sum(weight.nbytes for weight in taken.values())
    flat = np.zeros(size, dtype=np.uint8)
    print(
        f"weights of the embedded model: {size / 1e6:.2f} MB in {len(taken)} pieces; a plain copy "
        f"{least(flat.copy, 50) * 1e3:.2f} ms, out "
        f"{least(lambda: policy_state(policy), 50) * 1e3:.2f} ms, in "
        f"{least(lambda: load_policy_state(policy, taken), 50) * 1e3:.2f} ms of CPU time"
    )


def object_store(ray: Any) -> None:
    """Print the time of put and get in Ray's store, as multiples of a plain copy."""
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    for megabytes in MEGABYTES:
        array = np.ones(megabytes * 2**20, dtype=np.uint8)
        times: dict[str, list[float]] = {"copy": [], "put": [], "get": []}
        for _ in range(7):
            started = time.perf_counter()
            array.copy()
            copied = time.perf_counter()
            reference = ray.put(array)
            put = time.perf_counter()
            ray.get(reference)
            times["copy"].append(copied - started)
            times["put"].append(put - copied)
            times["get"].append(time.perf_counter() - put)
            del reference
        copy, put, got = (statistics.median(times[name]) for name in ("copy", "put", "get"))
        print(
            f"object store, {megabytes} MB: copy {copy * 1e3:.2f} ms, put {put / copy:.2f} x, get "
            f"{got / copy:.2f} x"
        )
    ray.shutdown()


if __name__ == "__main__":
    main()
