"""An episode served as tools: the oracle's calls, one by one, earn BFCL's verdict."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest
from chat_messages import FIRST
from players import Shop, shop_task

from evaluate_fctncalling import main
from fctncalling.cli.train import main as train
from fctncalling.data.types import Task
from fctncalling.envs.errors import MissingExtra
from fctncalling.envs.judging.oracle import oracle_calls
from fctncalling.lab.integrations.mcp import ENDED, FAILED, ServedEpisode, mcp_server


@pytest.mark.parametrize("task", FIRST, ids=lambda task: task.category)
def test_the_oracle_passes_through_served_tools_and_idleness_does_not(task: Task) -> None:
    for is_played in (True, False):
        results: list[dict[str, Any]] = []
        episode = ServedEpisode(task, on_end=results.append)
        assert episode.call("start_task", {}) == episode.call("start_task", {})
        for turn in oracle_calls(task):
            offered = {tool["name"] for tool in episode.tools()}
            for call in turn if is_played else ():
                name = call.name.replace(".", "_")
                assert name in offered
                episode.call(name, call.arguments)
            answer = episode.call("end_turn", {"answer": "Done."})
        assert answer == episode.call("end_turn", {"answer": "More."}) == ENDED
        episode.close()
        (result,) = results
        assert json.loads(json.dumps(result)) == result
        is_right = is_played or not any(oracle_calls(task))
        assert (result["valid"], result["ended"], result["invalid"]) == (is_right, True, False)


def test_an_agent_that_stops_early_is_judged_by_what_it_did() -> None:
    results: list[dict[str, Any]] = []
    task = shop_task(["look()"], ["look()"], involved_classes=("Shop",))
    episode = ServedEpisode(task, on_end=results.append, tools={"Shop": Shop})
    assert episode.call("look", {}) == "till 10"
    episode.close()
    assert (results[0]["valid"], results[0]["ended"]) == (False, False)


def test_an_environment_that_fails_is_no_verdict() -> None:
    results: list[dict[str, Any]] = []
    task = shop_task(["look()"], involved_classes=("Shop",))
    episode = ServedEpisode(task, on_end=results.append, tools=[Shop, BrokenTool()])
    assert episode.call("broken", {"text": "x"}) == FAILED
    assert results[0]["invalid"]
    assert "valid" not in results[0]


def test_clients_are_told_when_a_held_out_function_appears(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK is a mock here: `test_mcp_sdk.py` has the real one."""
    sdk = MagicMock()
    sdk.InMemorySubscriptionBus.return_value.publish = AsyncMock()
    monkeypatch.setattr("fctncalling.lab.integrations.mcp.import_extra", lambda *_: sdk)
    task = next(task for task in FIRST if task.category == "multi_turn_miss_func")
    episode = ServedEpisode(task)
    mcp_server(episode)
    call_tool = sdk.Server.call_args.kwargs["on_call_tool"]
    session, told = AsyncMock(), []
    for turn in oracle_calls(task):
        for call in turn:
            said = SimpleNamespace(name=call.name, arguments=call.arguments)
            asyncio.run(call_tool(SimpleNamespace(session=session), said))
        num_before = len(episode.tools())
        said = SimpleNamespace(name="end_turn", arguments={"answer": "Done."})
        asyncio.run(call_tool(SimpleNamespace(session=session), said))
        told.append(len(episode.tools()) - num_before)
    assert [each for each in told if each] == [1]
    session.send_tool_list_changed.assert_awaited_once()
    sdk.InMemorySubscriptionBus.return_value.publish.assert_awaited_once()


def test_an_sdk_that_cannot_serve_is_told_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "fctncalling.lab.integrations.mcp.import_extra", lambda *_: SimpleNamespace(types=None)
    )
    with pytest.raises(MissingExtra, match=r"needs version 2 .* environment of its own"):
        mcp_server(ServedEpisode(FIRST[0]))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--task_id", "no_such_task"], "no_such_task"),
        (["--dataset_path", "no_such_file.json"], "no_such_file.json"),
        (["--output", "no_such_folder/x.jsonl"], "no_such_folder"),
    ],
)
def test_what_cannot_be_served_is_one_line(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve-mcp", *words]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("error: ")
    assert told in line


def test_a_server_that_cannot_be_had_is_one_line_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output, results = tmp_path / "played.jsonl", tmp_path / "results"
    playing = ["run", "--agent", "noop", "--output", str(output), "--category", "multi_turn_base"]
    assert main([*playing, "--mcp", "no_such_server --now"]) == 2
    assert train(["--mcp", "no_such_server --now", f"--results_dir={results}"]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 2
    assert all("no command is called 'no_such_server'" in line for line in lines)
    assert not output.exists()
    assert not results.exists()


class BrokenTool:
    """A tool whose infrastructure fails."""

    name, description = "broken", "Fail."
    inputs: dict[str, Any] = {"text": {"type": "string"}}  # noqa: RUF012 - smolagents' form

    def forward(self, text: str) -> str:
        import os

        os._exit(3)
