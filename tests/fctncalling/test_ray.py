"""Ray workers on two nodes of this machine play what one process would, die without harm, and learn
the job.
"""

from __future__ import annotations

import json
import logging
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.run.interruption import Interruption
from fctncalling.cli.train import main
from fctncalling.training.load_policy import load_policy
from fctncalling.training.rollouts.ray_rollout import RAY_TIMEOUTS
from fctncalling.training.rollouts.rollout_backends import LocalRollout, RolloutRound
from fctncalling.training.run_config import RunConfig
from fctncalling.training.task_setup import make_task_setup

pytestmark = pytest.mark.prove
os.environ.update(RAY_TIMEOUTS)
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'fctncalling[ray]'")

SMALL = {
    "num_updates": 2,
    "episodes_per_update": 32,
    "n_rollout_threads": 16,
    "eval_episodes": 16,
    "eval_interval": 0,
}
ALONE = {"tensorboard": "false", "device": "cpu"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Start a cluster of two nodes with a core each, and join it."""
    from ray.cluster_utils import Cluster

    for attempt in range(
        3
    ):  # on a busy machine a node may give up on agents of its own that start too slowly
        cluster = Cluster()
        try:
            cluster.add_node(num_cpus=1, include_dashboard=False)
            cluster.add_node(num_cpus=1)
            cluster.wait_for_nodes()
            break
        except Exception:
            cluster.shutdown()
            if attempt == 2:
                raise
    try:
        ray.init(address=cluster.address)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def words(folder: Path, **changes: Any) -> list[str]:
    settings = {**SMALL, **ALONE, "results_dir": folder, **changes}
    return [f"--{name}={value}" for name, value in settings.items()]


def metrics_of(folder: Path) -> list[dict[str, Any]]:
    text = (folder / "check/embedded/embedded/TPPO/metrics.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def played_here_and_there(
    harm: Callable[[Any], None], caplog: pytest.LogCaptureFixture, num_episodes: int = 256
) -> tuple[list[EpisodeRecord], list[EpisodeRecord], Any]:
    """Return a round's episodes as this process plays it, as workers do of whom `harm` befell one,
    and their pool.
    """
    from fctncalling.training.rollouts.ray_rollout import RayRollout

    config = TrainConfig(n_rollout_threads=32, episodes_per_update=num_episodes, device="cpu")
    run_config = RunConfig(num_rollout_workers=2)
    make_env, candidates, *_ = make_task_setup(config, run_config)
    import torch

    policy, template = load_policy(config, run_config, None, torch.device("cpu"))
    task_ids = [candidate.id for candidate in candidates]
    wanted = RolloutRound(
        tuple(task_ids[number % len(task_ids)] for number in range(num_episodes)), 5, 1.0, version=0
    )
    here = LocalRollout(config, policy, template, make_env)
    rollout = RayRollout(config, run_config, policy)
    try:
        warm = wanted._replace(task_ids=wanted.task_ids[:4])
        while len(rollout.transport._locations) < 2:  # until both workers are there
            rollout.play(warm, Interruption())
        with caplog.at_level(logging.WARNING, logger="fctncalling"):
            rollout.start_round(wanted)
            harm(rollout)
            there = rollout.play(wanted, Interruption()).episodes
        return here.play(wanted, Interruption()).episodes, there, rollout.pool
    finally:
        rollout.close()
        here.close()


def same(one: EpisodeRecord, other: EpisodeRecord) -> bool:
    tokens = [(row.ids, row.acted, row.rewards) for row in one.rows] == [
        (row.ids, row.acted, row.rewards) for row in other.rows
    ]
    return tokens and (one.task_id, one.success, one.invalid) == (
        other.task_id,
        other.success,
        other.invalid,
    )


def test_two_workers_on_two_nodes_write_the_metrics_of_one_process(
    cluster: Any, tmp_path: Path
) -> None:
    assert main(words(tmp_path / "here")) == 0
    assert (
        main(
            [
                *words(tmp_path / "there"),
                "--num_rollout_workers=2",
                f"--ray_address={cluster.address}",
            ]
        )
        == 0
    )
    here, there = metrics_of(tmp_path / "here"), metrics_of(tmp_path / "there")
    for one, other in zip(here, there, strict=True):
        assert one.keys() == other.keys()
        for name in (
            one
        ):  # log-probabilities as sampled are rounded by which rows a pass holds; nothing else is
            assert one[name] == other[name] or (
                name == "mismatch/mean_logdiff" and abs(other[name]) < 1e-6
            ), name


def test_a_killed_worker_costs_time_alone(cluster: Any, caplog: pytest.LogCaptureFixture) -> None:
    killed: list[int] = []

    def kill(rollout: Any) -> None:
        place = next(iter(rollout.transport._places.values()))
        killed.append(int(place.rsplit(" ", 1)[1]))
        os.kill(killed[0], signal.SIGKILL)

    here, there, pool = played_here_and_there(kill, caplog)
    assert pool.num_lost == 1
    assert not any(record.invalid for record in there)
    assert all(same(one, other) for one, other in zip(here, there, strict=True))
    assert f"process {killed[0]}: its process ended" in caplog.text
    assert "another plays its episodes, and a new one is started" in caplog.text


def test_a_node_that_leaves_the_cluster_costs_time_alone(
    cluster: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def remove(rollout: Any) -> None:
        cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)

    # A worker notes within a second that its node is gone: its share must take it longer.
    here, there, pool = played_here_and_there(remove, caplog, num_episodes=768)
    assert pool.num_lost >= 1
    assert not any(record.invalid for record in there)
    assert all(same(one, other) for one, other in zip(here, there, strict=True))
    assert "its node has left the cluster" in caplog.text
    cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()


def test_played_one_update_ahead_the_weights_are_one_update_old_and_made_up_for(
    cluster: Any, tmp_path: Path
) -> None:
    more = [
        "--num_rollout_workers=2",
        f"--ray_address={cluster.address}",
        "--max_staleness=1",
        "--dynamic_sampling=1",
        "--lr=1e-3",
    ]
    assert main([*words(tmp_path, num_updates=3), *more]) == 0
    updates = [line for line in metrics_of(tmp_path) if "losses/policy_loss" in line]
    assert (
        updates[0]["mismatch/mean_logdiff"] < 1e-6
    )  # the first is played with the weights that learn from it
    for line in updates[1:]:
        assert line["mismatch/mean_logdiff"] > 1e-4
        assert line["mismatch/importance_mean"] == pytest.approx(1.0, abs=0.2)
        assert (
            line["losses/first_ratio_deviation"] == 0.0
        )  # the clipped ratio begins at 1 all the same


def test_two_workers_on_two_nodes_learn_the_embedded_job_as_one_process_does(
    cluster: Any, tmp_path: Path
) -> None:
    job = {"num_updates": 20, "dynamic_sampling": 1, "save_interval": 0, **ALONE}
    flags = [f"--{name}={value}" for name, value in job.items()]
    success = []
    for name, more in (
        ("there", ["--num_rollout_workers=2", f"--ray_address={cluster.address}"]),
        ("here", []),
        (
            "ahead",
            ["--num_rollout_workers=2", f"--ray_address={cluster.address}", "--max_staleness=1"],
        ),
    ):
        assert main([*flags, f"--results_dir={tmp_path / name}", *more]) == 0
        evaluation = json.loads(
            (tmp_path / name / "check/embedded/embedded/TPPO/evaluation.json").read_text()
        )
        success.append(evaluation["after"]["greedy"])
        print(
            name,
            evaluation["before"]["greedy"],
            evaluation["after"]["greedy"],
            evaluation["after"]["sampled"],
        )
    assert success[0] == pytest.approx(success[1], abs=0.02)
    assert success[2] > success[1] - 0.08
