"""`fctncalling gateway` records what an agent does; `view` and the supervised stage read it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from gateways import TOOL, GatewayClient, embedded_engine, recorded_lines
from stub_vllm import vllm_stub
from tiny_models import CHATML, save_tiny, tiny_tokenizer
from transformers import AutoModelForCausalLM

from fctncalling.cli.evaluate import main
from fctncalling.training.demonstrations import load_successful_episodes

ASK = {"role": "user", "content": "Please create a ticket called laptop with priority 3."}


class _Address:
    def __init__(self, address: str) -> None:
        self.address = address


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a gateway that served two sessions, and was interrupted."""
    folder = tmp_path_factory.mktemp("recorded")
    command = ["fctncalling", "gateway", "--port", "0", "--json", "--output", str(folder)]
    process = subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    started = json.loads(process.stdout.readline())
    server: Any = _Address(started["address"].removesuffix("/v1"))
    client = GatewayClient(server, "one")
    message = client.chat([ASK], tools=[TOOL])["message"]
    client.chat([ASK, message, {"role": "user", "content": "thanks"}], tools=[TOOL])
    client.post("/reward", reward=1, end=True)
    GatewayClient(server, "two").chat([ASK])
    process.send_signal(signal.SIGINT)
    counts = json.loads(process.communicate(timeout=30)[0])
    assert process.returncode == 0
    closed = "the gateway closed before the session ended"
    assert counts == {"valid": 1, "invalid": {closed: 1}, "drift": {}}
    return folder


def test_a_vllm_server_that_tells_other_log_probabilities_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = save_tiny(tmp_path)
    with vllm_stub(model, processed_logprobs=False) as stub:
        assert main(["gateway", "--model", str(model), "--vllm_url", stub.url, "--port", "0"]) == 2
    assert "--logprobs-mode processed_logprobs" in capsys.readouterr().err


def test_a_vllm_server_answers(tmp_path: Path) -> None:
    model, output = save_tiny(tmp_path / "tiny"), tmp_path / "out"
    tiny_tokenizer(CHATML).save_pretrained(model)
    with vllm_stub(model) as stub:
        flags = ["--model", str(model), "--vllm_url", stub.url, "--port", "0", "--temperature=0.7"]
        process = subprocess.Popen(
            [sys.executable, "-m", "fctncalling", "gateway", *flags, "--output", str(output)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        server: Any = _Address(re.search(r"http://[\d.:]+", line)[0])  # type: ignore[index]
        client = GatewayClient(server, "one")
        message = client.chat([ASK], max_tokens=5)["message"]
        client.chat([ASK, message, {"role": "user", "content": "thanks"}], max_tokens=5)
        client.post("/reward", reward=1, end=True)
        process.send_signal(signal.SIGINT)
        assert "1 sessions with a reward, 0 invalid" in process.communicate(timeout=30)[0]
        asked = [body for body in stub.bodies if body["max_tokens"] > 1]
    assert process.returncode == 0
    [told] = recorded_lines(output)
    first, second = told["forest"]
    assert [body["temperature"] for body in asked] == [0.7, 0.7]
    assert asked[0]["prompt"] == first["context"]
    assert asked[1]["prompt"] == first["context"] + first["ids"] + second["context"]
    row = torch.tensor([asked[1]["prompt"] + second["ids"]])
    logits: Any = AutoModelForCausalLM.from_pretrained(model)(row).logits[0] / 0.7
    place = len(asked[1]["prompt"])
    chances = logits.log_softmax(-1)[place - 1 : -1].gather(1, row[0, place:, None])[:, 0]
    assert torch.allclose(chances, torch.tensor(second["logprobs"]), atol=1e-5)


def test_a_line_has_the_forest_with_its_log_probabilities(recorded: Path) -> None:
    one, two = recorded_lines(recorded)
    # A reward says what was paid, not that the task was solved.
    assert (one["session"], one["success"], one["return"]) == ("one", None, 1.0)
    assert [action["parent"] for action in one["forest"]] == [None, 0]
    assert all(len(each["ids"]) == len(each["logprobs"]) for each in one["forest"])
    assert two["invalid"]


def test_view_opens_it(recorded: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert main(["view", str(recorded), "--output", str(page)]) == 0
    assert page.stat().st_size > 10_000


def test_good_sessions_are_demonstrations(recorded: Path) -> None:
    template = embedded_engine()[1]
    [episode] = load_successful_episodes(recorded, template, strict=False)
    [line, _] = recorded_lines(recorded)
    [row] = episode.rows
    sampled = [token for action in line["forest"] for token in action["ids"]]
    assert [token for token, own in zip(row.ids, row.acted, strict=True) if own] == sampled


def test_another_runs_folder_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text('{"seed": 1}')
    assert main(["gateway", "--output", str(tmp_path)]) == 2
    assert "it holds another run; give a folder of its own" in capsys.readouterr().err
    assert (tmp_path / "config.json").read_text() == '{"seed": 1}'


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--model", "no/such/folder"], "--model no/such/folder: there is no such folder"),
        (["--host", "0.0.0.0"], "--host 0.0.0.0: whoever reaches that address could sample"),
        (["--parallel", "0"], "--parallel: got 0, expected at least 1"),
        (["--temperature", "9"], "--temperature: got 9, expected 0 to 2"),
        (["--reward", "nowhere:score"], "--reward nowhere:score: cannot be imported"),
        (["--handler", "nobody"], 'no handler is called "nobody"'),
        (["--port", "99999"], "port must be 0-65535"),
        (["--host", "192.0.2.1", "--token", "x"], "give another, such as --port 0 for a free one"),
        (["--missing_reward", "nan"], "--missing_reward: got nan, expected a number"),
        (["--session_timeout_s", "-1"], "--session_timeout_s: got -1, expected seconds"),
        (["--vllm_url", "http://127.0.0.1:9"], "http://127.0.0.1:9: no vLLM server answers there"),
    ],
)
def test_a_mistake_costs_one_line(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gateway", *arguments]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.startswith("error: ")


class _Served:
    """A gateway's process with its output folder."""

    def __init__(self, folder: Path, prefix: str = "") -> None:
        command = f"{prefix} exec {sys.executable} -m fctncalling gateway --port 0 --json"
        self.process = subprocess.Popen(
            ["bash", "-c", f"{command} --output {folder}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.server: Any = _Address(json.loads(line)["address"].removesuffix("/v1") if line else "")

    def end(self, by: int = signal.SIGINT) -> tuple[int, str, str]:
        """Return exit code, output and error messages."""
        self.process.send_signal(by)
        output, errors = self.process.communicate(timeout=30)
        return self.process.returncode, output, errors


def _play(served: _Served, session: str) -> tuple[int, Any]:
    client = GatewayClient(served.server, session)
    client.chat([ASK])
    return client.ask("POST", f"/s/{session}/reward", {"reward": 1, "end": True})


def test_a_full_disk_is_told_and_the_session_stays_open(tmp_path: Path) -> None:
    # Blocks of 1,024 bytes; bytecode that is cut would stay.
    served = _Served(tmp_path, "ulimit -f 12; export PYTHONDONTWRITEBYTECODE=1;")
    statuses = [_play(served, f"s{number}")[0] for number in range(12)]
    kept = [f"s{number}" for number, status in enumerate(statuses) if status == 200]
    assert statuses[0] == 200
    assert {*statuses} == {200, 507}
    lost = statuses.index(507)
    status, report = GatewayClient(served.server, "any").ask("GET", f"/s/s{lost}")
    assert (status, report["ended"]) == (200, False)
    code, output, errors = served.end()
    assert (code, json.loads(output)["valid"]) == (2, len(kept))
    assert f"{12 - len(kept)} sessions could not be recorded" in errors
    assert [line["session"] for line in recorded_lines(tmp_path)] == kept  # no half line


def test_a_line_that_a_kill_cut_takes_no_other_session_along(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = _Served(tmp_path)
    assert _play(first, "whole")[0] == 200
    assert not first.end(signal.SIGKILL)[1]
    log = next((tmp_path / "episodes").glob("*.jsonl"))
    with log.open("a") as file:
        file.write('{"task_id": "cut", "rows": [[1, 2')
    second = _Served(tmp_path)
    assert _play(second, "next")[0] == 200
    # Two at one folder would mix their sessions.
    assert main(["gateway", "--port", "0", "--output", str(tmp_path)]) == 2
    assert f"process {second.process.pid}" in capsys.readouterr().err
    code, _, errors = second.end()
    assert (code, "33 bytes of an unfinished record were removed" in errors) == (0, True)
    assert [line["session"] for line in recorded_lines(tmp_path)] == ["whole", "next"]
