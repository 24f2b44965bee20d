"""--max_staleness: a run that was cut and resumed is the uninterrupted one, though it plays with
older weights.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import pytest
import torch
from tiny_models import EchoEnv, save_tiny

from fctncalling.cli.train import main

torch.set_num_threads(1)


class OddEnv(EchoEnv):
    """Pays for every odd length, which an untrained model does hit."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        observation, reward, *rest = super().step(action)
        return (observation, reward + len(action) % 2, *rest)


class Later:
    """A reference: what a task returns is computed when it is asked for, as late as any worker
    could be.
    """

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.function, self.arguments = function, arguments

    def value(self) -> Any:
        if self.function is not None:
            plain = [each.value() if isinstance(each, Later) else each for each in self.arguments]
            self.function, self.arguments = None, (self.function(*plain),)
        return self.arguments[0]


class Hired:
    """A worker's handle."""

    def __init__(self, location: Any, play: Any) -> None:
        self.location = location
        self.play = play


class RayHere:
    """As much of Ray as RayRollout takes, in this process."""

    exceptions = SimpleNamespace(RayTaskError=KeyError, RayError=IndexError)

    def put(self, value: Any) -> Later:
        return Later(None, value)

    def get(self, reference: Later) -> Any:
        return reference.value()

    def wait(
        self, tickets: Sequence[Later], *, num_returns: int, timeout: float
    ) -> tuple[list[Later], list[Later]]:
        return list(tickets[:num_returns]), list(tickets[num_returns:])

    def kill(self, worker: Any) -> None:
        pass

    def remote(self, kind: type) -> Any:
        def hire(*arguments: Any) -> Any:
            worker = kind(*arguments)
            location = SimpleNamespace(remote=lambda: Later(None, ("here", 1, "node")))
            play = SimpleNamespace(remote=lambda *more: Later(worker.play, *more))
            return Hired(location, play)

        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=hire))


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    gymnasium.register("Odd-v0", entry_point=lambda **_: OddEnv())
    monkeypatch.setattr(
        "fctncalling.training.rollouts.ray_rollout.connect_ray", lambda *_: (RayHere(), False)
    )
    yield
    del gymnasium.registry["Odd-v0"]


SETTINGS = {
    "env_name": "Odd-v0",
    "device": "cpu",
    "lr": 1e-2,
    "target_kl": "none",  # steps so large that old weights show
    "episodes_per_update": 4,
    "n_rollout_threads": 4,
    "num_mini_batch": 1,
    "max_new_tokens": 3,
    "max_episode_tokens": 200,
    "eval_episodes": 1,
    "save_interval": 2,
    "keep_checkpoints": 9,
    "num_updates": 3,
    "eval_interval": 0,
    "num_rollout_workers": 2,
    "tensorboard": "false",
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Return a function that runs the job and returns its results folder."""
    monkeypatch.setattr("fctncalling.algorithms.run.evaluation.plot_curve", lambda folder: None)
    model = save_tiny(tmp_path / "tiny")

    def run(name: str, *more: str) -> Path:
        words = [f"--{flag}={value}" for flag, value in SETTINGS.items()]
        place = [f"--model_name_or_path={model}", f"--results_dir={tmp_path / name}"]
        assert main([*words, *place, *more]) == 0
        [metrics] = (tmp_path / name).rglob("metrics.jsonl")
        return metrics.parent

    return run


@pytest.mark.parametrize("how", ["killed", pytest.param("longer", marks=pytest.mark.prove)])
def test_a_resumed_run_that_plays_ahead_is_the_uninterrupted_one(
    run: Callable[..., Path], how: str
) -> None:
    stale = "--max_staleness=1"
    whole = run("whole", stale)
    metrics = (whole / "metrics.jsonl").read_bytes()
    updates = [json.loads(line) for line in metrics.splitlines()][1:-1]
    assert [line["mismatch/mean_logdiff"] > 1e-4 for line in updates] == [False, True, True]
    assert not any("mismatch/staleness" in line for line in updates)
    if how == "killed":  # lines behind the checkpoint are written again
        run("whole", stale, f"--resume={whole / 'checkpoints' / 'update_000002'}")
        assert (whole / "metrics.jsonl").read_bytes() == metrics
    else:
        run("longer", stale, "--num_updates=2")
        lines = (run("longer", stale, "--resume") / "metrics.jsonl").read_bytes().splitlines()
        assert lines[-2:] == metrics.splitlines()[-2:]  # an evaluation more lies before them


def test_a_batch_is_as_many_updates_behind_as_max_staleness_says_also_after_a_resume(
    run: Callable[..., Path],
) -> None:
    more = ["--max_staleness=2", "--num_updates=4"]
    whole = run("whole", *more)
    metrics = (whole / "metrics.jsonl").read_bytes()
    updates = [json.loads(line) for line in metrics.splitlines()][1:-1]
    assert [line["mismatch/staleness"] for line in updates] == [0, 1, 2, 2]
    off = [line["mismatch/mean_logdiff"] for line in updates]
    assert off[0] < 1e-5
    assert min(off[1:]) > 1e-4
    assert all(line["mismatch/importance_min"] < 1 for line in updates[1:])
    run("whole", *more, f"--resume={whole / 'checkpoints' / 'update_000002'}")
    assert (whole / "metrics.jsonl").read_bytes() == metrics
