"""Real vLLM servers get whole weights: their log-probabilities are training's after each of three
updates; one that is killed gets the weights again, and the run goes on.

The embedded model has heads of 32 here and an output layer of its own: vLLM's CPU kernels know no
24, and do not reload an output layer that is tied to the embeddings.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from fctncalling.algorithms.vllm.client import VllmClient
from fctncalling.algorithms.vllm.weights import PublishedWeights, WeightVersion
from fctncalling.cli.train import main
from fctncalling.data.bfcl import embedded_path
from fctncalling.lab.head_padding import pad_heads, untie

pytestmark = pytest.mark.prove
pytest.importorskip("httpx")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = tmp_path_factory.mktemp("models") / "untied"
    wide: Any = pad_heads(AutoModelForCausalLM.from_pretrained(embedded_path("model")), 32)
    untie(wide).save_pretrained(folder)
    AutoTokenizer.from_pretrained(embedded_path("model")).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def servers(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Any]]:
    """Return two servers of the model."""
    from vllm_process import VllmProcess

    logs = tmp_path_factory.mktemp("vllm")
    both: list[VllmProcess] = []
    try:
        for number in range(2):
            both.append(VllmProcess(model, logs / f"log_{number}", "--enforce-eager"))
        for server in both:
            server.wait()
        yield both
    finally:
        for server in both:
            server.kill()


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, float, float]]:
    """Return (server, update, mean, maximum) of every comparison of log-probabilities, as the run
    makes them.
    """
    made: list[tuple[str, int, float, float]] = []
    check = PublishedWeights._check_logprobs

    def noted(self: PublishedWeights, client: VllmClient, version: WeightVersion) -> None:
        served = torch.tensor(client.prompt_logprobs("base", version.text), dtype=torch.float64)
        off = (served - torch.tensor(version.logprobs, dtype=torch.float64)).abs()
        made.append((client.url, version.number, float(off.mean()), float(off.max())))
        check(self, client, version)

    monkeypatch.setattr(PublishedWeights, "_check_logprobs", noted)
    return made


def flags(model: Path, results: Path, *servers: Any, **changes: Any) -> list[str]:
    chosen = {
        "model_name_or_path": model,
        "results_dir": results,
        "num_updates": 3,
        "episodes_per_update": 16,
        "n_rollout_threads": 8,
        "num_mini_batch": 1,
        "eval_episodes": 4,
        "eval_interval": 0,
        "lr": 1e-3,
        "device": "cpu",
        "tensorboard": "false",
        "rollout_engine": "vllm",
        **changes,
    }
    words = [f"--{name}={value}" for name, value in chosen.items()]
    return [*words, *(f"--vllm_url={server.url}" for server in servers)]


def updates_of(results: Path) -> list[dict[str, Any]]:
    lines = (results / "check/untied/embedded/TPPO/metrics.jsonl").read_text().splitlines()
    updates = [line for line in map(json.loads, lines) if "losses/policy_loss" in line]
    print([(line["mismatch/mean_logdiff"], line["env/success_rate"]) for line in updates])
    return updates


def test_log_probabilities_are_trainings_after_each_of_three_updates(
    model: Path, servers: list[Any], tmp_path: Path, checks: list[tuple[str, int, float, float]]
) -> None:
    assert main(flags(model, tmp_path, servers[0])) == 0
    print(checks)
    assert [update for _, update, _, _ in checks] == [0, 1, 2, 3]
    assert max(mean for _, _, mean, _ in checks) <= 1e-5
    assert max(most for _, _, _, most in checks) <= 2e-5
    updates = updates_of(tmp_path)
    assert len(updates) == 3
    assert all(line["mismatch/mean_logdiff"] < 1e-5 for line in updates)
    assert sum(line["env/invalid"] for line in updates) == 0


def test_a_server_that_is_killed_and_started_again_gets_the_weights_again(
    model: Path,
    servers: list[Any],
    tmp_path: Path,
    checks: list[tuple[str, int, float, float]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    thread = threading.Thread(target=kill_once, args=(servers[0], checks, 1))
    thread.start()
    assert main(flags(model, tmp_path, servers[0])) == 0
    thread.join()
    print(checks, [record.getMessage() for record in caplog.records if "vLLM" in record.msg])
    numbers = [update for _, update, _, _ in checks]
    assert sorted(set(numbers)) == [0, 1, 2, 3]
    assert len(numbers) == 5  # one of them twice
    assert max(mean for _, _, mean, _ in checks) <= 1e-5
    updates = updates_of(tmp_path)
    assert all(line["mismatch/mean_logdiff"] < 1e-5 for line in updates)
    assert sum(line["env/invalid"] for line in updates) == 0
    assert "answers again after" in caplog.text


def test_of_two_servers_one_is_killed_and_the_run_goes_on(
    model: Path,
    servers: list[Any],
    tmp_path: Path,
    checks: list[tuple[str, int, float, float]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    thread = threading.Thread(target=kill_once, args=(servers[1], checks, 1, False))
    thread.start()
    assert main(flags(model, tmp_path, *servers)) == 0
    thread.join()
    print(checks, [record.getMessage() for record in caplog.records if "vLLM" in record.msg])
    updates = updates_of(tmp_path)
    assert len(updates) == 3
    assert all(line["mismatch/mean_logdiff"] < 1e-5 for line in updates)
    assert sum(line["env/invalid"] for line in updates) == 0
    assert {url for url, update, _, _ in checks if update == 3} == {servers[0].url}
    assert "going on with 1 other server(s)" in caplog.text


def kill_once(server: Any, checks: list[Any], update: int, again: bool = True) -> None:
    """Kill a server shortly after it was given the weights of an update."""
    until = time.monotonic() + 1200.0
    while time.monotonic() < until and not any(
        (url, number) == (server.url, update) for url, number, *_ in checks
    ):
        time.sleep(0.02)
    time.sleep(0.3)  # into the rollout
    server.kill()
    if again:
        server.start()
