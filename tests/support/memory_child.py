"""Peak memory of a rollout and an update beside the plan's, for test_memory_plan.py:
`python memory_child.py FOLDER '{"flag": value}'`, alone or under torchrun.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.distributed.process_group import ProcessGroup, init_process_group
from fctncalling.algorithms.episodes import EpisodeRecord, TokenRecord
from fctncalling.algorithms.generation.engine import GenerationEngine, Request
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.ppo import Optimisers, make_optimisers, update
from fctncalling.lab.memory_plan.planning import RunMemory, largest_pass
from fctncalling.lab.memory_plan.policy_sizes import policy_sizes
from fctncalling.training.load_policy import load_policy
from fctncalling.training.run_config import RunConfig

ROW, ACTED, WARM = 1024, 320, 32  # tokens of a row, of them acted; of a row that warms up


def episodes(config: TrainConfig, row: int, acted: int, vocabulary: int) -> list[EpisodeRecord]:
    """Return episodes of one row each, that begin alike in groups of --group_size."""
    found = []
    for number in range(config.episodes_per_update):
        group = number // config.episodes_per_task
        prompts, draws = (torch.Generator().manual_seed(seed) for seed in (group, 100 + number))
        ids = torch.randint(2, vocabulary, (row - acted,), generator=prompts).tolist()
        ids += torch.randint(2, vocabulary, (acted,), generator=draws).tolist()
        context = [False] * (row - acted)
        reward = float(number % 2)
        record = TokenRecord(
            ids=ids,
            acted=context + [True] * acted,
            ends_action=context + [False] * (acted - 1) + [True],
            rollout_logprobs=[0.0] * row,
            rewards=[0.0] * (row - 1) + [reward],
        )
        found.append(
            EpisodeRecord(
                f"task_{group}", "random", [record], terminated=True, episode_return=reward
            )
        )
    return found


def learn(
    policy: ActorCritic,
    optimisers: Optimisers,
    config: TrainConfig,
    row: int,
    acted: int,
    processes: ProcessGroup,
) -> dict[str, float]:
    vocabulary = policy.model.config.vocab_size
    return update(
        policy,
        optimisers,
        episodes(config, row, acted, vocabulary),
        config,
        torch.Generator().manual_seed(0),
        processes,
    )


def play(policy: ActorCritic, config: TrainConfig, row: int) -> None:
    """Fill as many rows of the engine's caches as episodes run side by side."""
    engine = GenerationEngine(policy.model, (), max_new_tokens=2)
    engine.allocate_slots(config.n_rollout_threads)
    for slot in range(config.n_rollout_threads):
        engine.begin_sequence(slot, seed=slot)
        engine.submit(Request(slot, [2 + (slot + place) % 50 for place in range(row - 2)]))
    for _ in range(config.n_rollout_threads):
        if not engine.advance():
            break


def prepared(config: TrainConfig, processes: ProcessGroup) -> tuple[ActorCritic, Optimisers]:
    policy, _ = load_policy(config, RunConfig(), None, processes.device)
    if config.share_prefixes:
        _ = policy.prefix_sharing
    processes.shard(policy)
    return policy, make_optimisers(policy, config)


def run(config: TrainConfig, processes: ProcessGroup, row: int, acted: int) -> None:
    policy, optimisers = prepared(config, processes)
    learn(policy, optimisers, config, WARM, WARM // 2, processes)  # the optimisers' moments
    with processes.unsharded(policy) as whole:
        play(whole, config, row)
    metrics = learn(policy, optimisers, config, row, acted, processes)
    assert ("perf/shared_token_share" in metrics) is (config.episodes_per_task > 1 and row > WARM)


def memory(name: str) -> int:
    """Return a size of this process in bytes: VmRSS now, VmHWM at its highest."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def main(folder: str, changes: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    torch.autograd.backward(torch.ones(1, requires_grad=True))  # before any process group
    config = TrainConfig(
        **{
            "model_name_or_path": folder,
            "max_episode_tokens": ROW,
            "max_new_tokens": ACTED,
            "max_microbatch_tokens": 2 * ROW,
            "episodes_per_update": 4,
            "num_mini_batch": 1,
            "n_rollout_threads": 4,
            "target_kl": None,
            **changes,
        }
    )
    processes = init_process_group("cpu", fsdp=config.fsdp)
    # What libraries load late is loaded by a tiny model first.
    run(dataclasses.replace(config, model_name_or_path=None), processes, WARM, WARM // 2)
    before = memory("VmRSS")
    run(config, processes, ROW, ACTED)
    measured = memory("VmHWM") - before
    sizes = policy_sizes(config, processes.device)
    batch = largest_pass(config, sizes, processes.count)
    phases = RunMemory(config, sizes, batch, processes.count).phases()
    peak = max(phases, key=lambda phase: phase.num_bytes)
    found = {
        "measured": measured,
        "planned": peak.num_bytes,
        "phase": peak.name,
        "terms": {term.name: round(term.num_bytes / 1e6) for term in peak.terms},
    }
    Path(folder, f"found_{os.environ.get('RANK', '0')}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
