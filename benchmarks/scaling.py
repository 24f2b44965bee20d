"""The measured figures of docs/evidence/performance.md: `python benchmarks/scaling.py`.

With Ray's store where Ray is installed.

CPU seconds of this process, the least of several rounds: they hold on a machine that others use.
Only the figures of Ray's store are wall times (it copies in other processes too), in rounds that
alternate with a plain copy of the memory.
"""

from __future__ import annotations

import pickle
import statistics
import time
from collections.abc import Callable
from typing import Any

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


def main() -> None:
    """Print every figure."""
    torch.set_num_threads(1)
    env_steps()
    episodes()
    weights()
    try:
        import ray
    except ImportError:
        print("Ray is not installed: no figures of its object store")
        return
    object_store(ray)


def least(work: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """Return the least CPU seconds that some work took."""
    times = []
    for _ in range(rounds):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


def env_steps() -> None:
    """Print how many steps of the environment a core makes, tools and checker included."""
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


def episodes(num_tokens: int = 6000, num_episodes: int = 400) -> None:
    """Print the size of a serialised episode and the cost of moving it and of laying it out."""
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
    per = num_tokens * num_episodes / 1e6
    print(f"episode: {len(data[0]) / num_tokens:.1f} bytes a token when it travels")
    print(
        "  packing "
        f"{least(lambda: [pickle.dumps(record, protocol=5) for record in records]) / per:.3f} CPU "
        f"s, unpacking {least(lambda: [pickle.loads(one) for one in data]) / per:.3f}, laying out "
        f"{least(lambda: build_experience(records, torch.device('cpu'))) / per:.3f}, "
        "a million tokens"
    )


def weights() -> None:
    """Print the cost of copying the weights of one policy into another,
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
    """Print how long Ray's store takes to put and to get, as multiples of a plain copy of the same
    bytes.
    """
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
