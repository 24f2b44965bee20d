"""Measured figures of docs/evidence/performance.md: `python benchmarks/scaling.py`.

CPU seconds of this process, the least of several rounds: they hold on a machine that others use.
Only the figures of Ray's store are wall times (it copies in other processes too), in rounds that
alternate with a plain copy of the memory.
"""

from __future__ import annotations

import heapq
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
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.weight_sync import load_policy_state, policy_state
from fctncalling.data.bfcl import embedded_path, load_tasks
from fctncalling.envs.function_calling import FunctionCallingEnv

ROUNDS = 5
MEGABYTES = (1, 16, 128)
# of the simulation, as docs/scaling.md assumes them: processes -> episodes an update
SIMULATED = {8: 256, 64: 1024, 1024: 8192}
EPISODE_TOKENS, GPU_SECONDS = 6000, 1.33
NETWORK, LATENCY_S, SPREAD = 50e9, 50e-6, 0.5  # bytes a second, of a broadcast, of episodes' times


def main() -> None:
    """Print every figure."""
    torch.set_num_threads(1)
    env_steps()
    simulate(episodes())
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


def simulate(costs: TokenCosts) -> None:
    """Print what an update of scaling.md's job costs 8, 64 and 1,024 processes, by these costs."""
    for count, number in SIMULATED.items():
        tokens = number * EPISODE_TOKENS
        moved = tokens * costs.travelling / NETWORK + 2 * count * LATENCY_S
        gpus = GPU_SECONDS * number / count
        print(
            f"{count} processes, {number} episodes, derived: GPUs {gpus:.0f} s an update; in each "
            f"process episodes arrive in {moved:.2f} s, are unpacked in "
            f"{tokens * costs.unpacked:.1f} s, laid out in {tokens * costs.laid_out:.1f} s, and "
            f"hold {tokens * costs.held / 1e9:.2f} GB"
        )
        waits = {slots: share_times(count, number, slots) for slots in (number // count, 4)}
        for slots, (fixed, queued) in waits.items():
            print(f"  {slots} slots: fixed shares take {fixed / queued:.2f} x a queue's time")


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
    """Print the cost of copying the weights of one policy into another.
    relative to a plain copy.
    """
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
