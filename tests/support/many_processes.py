"""A round and an update in several processes: `python many_processes.py FOLDER COUNT`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.distributed.process_group import ProcessGroup
from fctncalling.algorithms.episodes import EpisodeRecord, TokenRecord
from fctncalling.algorithms.ppo import make_optimisers, update
from fctncalling.algorithms.run.interruption import Interruption
from fctncalling.training.load_policy import load_policy
from fctncalling.training.rollouts.rollout_backends import LocalRollout, RolloutRound
from fctncalling.training.run_config import RunConfig
from fctncalling.training.task_setup import make_task_setup

GROUPS, GROUP_SIZE = 32, 4  # four groups for each of eight processes
LONG = 2000  # tokens of an episode of `long_episodes`


def long_episodes(number: int) -> list[EpisodeRecord]:
    """Return long episodes, about 0.2 MB each."""
    ids = [1000 + token % 997 for token in range(LONG)]
    acted = [token % 8 == 7 for token in range(LONG)]
    return [
        EpisodeRecord(
            f"task_{index}",
            "simple_python",
            [TokenRecord(list(ids), acted, acted, [-0.1 * one for one in acted], [0.0] * LONG)],
        )
        for index in range(number)
    ]


def _growth_of_a_broadcast(processes: ProcessGroup) -> float:
    """Return by how many MB at most this process grew when the first sent long episodes to all."""
    own = long_episodes(GROUPS * GROUP_SIZE) if processes.is_first else []
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = _status("VmRSS")
    assert len(processes.broadcast(own)) == GROUPS * GROUP_SIZE
    return (_status("VmHWM") - before) / 1024


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def work(rank: int, count: int, folder: Path, loaded: Any) -> None:
    """Meet the other processes, play a round, learn from it, and write figures."""
    config, policy, template, setup = loaded
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting_{count}", rank=rank, world_size=count
    )
    processes = ProcessGroup(rank, count)
    growth = _growth_of_a_broadcast(processes)
    tasks = tuple(task.id for task in setup.candidates[:GROUPS] for _ in range(GROUP_SIZE))
    rollout = LocalRollout(config, policy, template, setup.make_env, processes)
    played = rollout.play(
        RolloutRound(tasks, 1, 1.0, version=0, group_size=GROUP_SIZE), Interruption()
    )
    rollout.close()
    optimisers, generator = make_optimisers(policy, config), torch.Generator().manual_seed(0)
    metrics = update(policy, optimisers, played.episodes, config, generator, processes)
    found = {
        "growth_mb": growth,
        "peak_mb": _status("VmHWM") / 1024,
        "forward_tokens": played.forward_tokens,
        "ids": [row.ids for episode in played.episodes for row in episode.rows],
        "metrics": metrics,
    }
    (folder / f"found_{count}_{rank}.json").write_text(json.dumps(found))
    torch.distributed.destroy_process_group()


def main(folder: Path, count: int) -> int:
    """Fork the processes; return the highest exit code."""
    torch.set_num_threads(1)
    config = TrainConfig(
        episodes_per_update=GROUPS * GROUP_SIZE,
        group_size=GROUP_SIZE,
        n_rollout_threads=32,
        num_mini_batch=1,
        device="cpu",
        results_dir=str(folder),
    )
    run_config = RunConfig()
    policy, template = load_policy(config, run_config, None, torch.device("cpu"))
    loaded = config, policy, template, make_task_setup(config, run_config)
    children = []
    for rank in range(count):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                work(rank, count, folder, loaded)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
