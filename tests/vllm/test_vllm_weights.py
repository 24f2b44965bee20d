"""Whole weights in vLLM servers: every completion comes from the current version, whatever the
servers do; a server that did not take them is noticed by its log-probabilities.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from stub_vllm import StubVllm, vllm_stub
from tiny_models import EchoEnv, save_tiny

from fctncalling.algorithms.vllm import client
from fctncalling.algorithms.vllm import servers as server_state
from fctncalling.cli.train import main


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(autouse=True, scope="module")
def _quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "ERROR_WAIT_S", 0.002)
        patch.setattr(server_state, "FIRST_WAIT_S", 0.002)
        patch.setattr(server_state, "MAX_WAIT_S", 0.002)
        patch.setattr("fctncalling.algorithms.run.evaluation.plot_curve", lambda folder: None)
        gymnasium.register("Echo-v0", entry_point=lambda **_: EchoEnv())
        yield
        del gymnasium.registry["Echo-v0"]


@pytest.fixture(scope="module")
def whole(model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[StubVllm, Path]:
    """Return the server of an undisturbed run, as it was left, and the run's results."""
    results = tmp_path_factory.mktemp("whole")
    with vllm_stub(model) as stub:
        assert main(flags(model, results, stub.url)) == 0
    return stub, results


def flags(model: Path, results: Path, *urls: str) -> list[str]:
    chosen = {
        "env_name": "Echo-v0",
        "model_name_or_path": model,
        "results_dir": results,
        "num_updates": 2,
        "episodes_per_update": 4,
        "n_rollout_threads": 4,
        "num_mini_batch": 1,
        "max_new_tokens": 3,
        "max_episode_tokens": 300,
        "eval_episodes": 1,
        "eval_interval": 0,
        "lr": 1e-2,
        "device": "cpu",
        "tensorboard": "false",
        "rollout_engine": "vllm",
    }
    words = [f"--{name}={value}" for name, value in chosen.items()]
    return [*words, *(f"--vllm_url={url}" for url in urls)]


def metrics_of(results: Path) -> list[dict[str, Any]]:
    text = (results / "check/tiny/Echo-v0/TPPO/metrics.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_a_run_samples_from_each_version_of_its_weights(whole: tuple[StubVllm, Path]) -> None:
    stub, results = whole
    updates = [line for line in metrics_of(results) if "losses/policy_loss" in line]
    assert len(updates) == 2
    for line in updates:  # the stub's own passes through the weights it got agree with training's
        assert line["mismatch/mean_logdiff"] < 1e-5
        assert line["env/invalid"] == 0
    assert len(set(stub.reloads)) == len(stub.reloads) == 3  # before each update, after the last
    assert [folder for folder in stub.reloads if Path(folder).exists()] == []
    assert stub.weights_version.startswith(Path(stub.reloads[-1]).name)


def test_servers_that_come_back_with_their_first_weights_change_nothing(
    model: Path, tmp_path: Path, whole: tuple[StubVllm, Path], caplog: pytest.LogCaptureFixture
) -> None:
    with vllm_stub(model) as first, vllm_stub(model) as second:

        def plan_first(number: int, body: dict[str, Any]) -> str | None:
            if number in (7, 8):  # it is away, and comes back as it was started
                first.restart()
                return "drop"
            return None

        def plan_second(number: int, body: dict[str, Any]) -> None:
            if number == 8:  # unnoticed, but for what it calls its weights
                second.restart()

        first.plan, second.plan = plan_first, plan_second
        assert main(flags(model, tmp_path, first.url, second.url)) == 0
    assert min(len(first.bodies), len(second.bodies)) > 10
    assert len(first.reloads) > 3
    assert len(second.reloads) > 3
    assert metrics_of(whole[1]) == metrics_of(tmp_path)
    assert f"{second.url} holds default, expected weights-" in caplog.text


def test_a_server_that_goes_on_with_other_weights_ends_the_run(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def move(stub: StubVllm) -> None:
        for weight in stub._base.parameters():
            weight.data.mul_(1.01)

    with vllm_stub(model) as stub:
        stub.ignores_reloads = True
        move(stub)
        assert main(flags(model, tmp_path, stub.url)) == 1
    told = capsys.readouterr().err
    assert "its log-probabilities differ from training's by" in told
    assert "expected at most 1e-05" in told


def test_a_folder_that_the_server_cannot_read_is_told_with_the_cure(
    model: Path, tmp_path: Path
) -> None:
    with vllm_stub(model) as stub:
        server = client.VllmClient(stub.url)
        with pytest.raises(client.RolloutError, match="--vllm_adapter_dir names another"):
            server.load_weights(str(tmp_path / "nowhere"), "policy")
        server.close()
