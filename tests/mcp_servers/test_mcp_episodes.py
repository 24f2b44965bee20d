"""The state of an MCP server given as a class: it begins and ends with the episode, is judged by
results on a server of the truth's own, and can be gone back to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from mcp_fakes import FakeMcp
from players import DONE, Shop, shop_task

from fctncalling.algorithms.config import SettingError
from fctncalling.data.types import Task
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.tools.box.callables import ToolDefinitionError
from fctncalling.envs.tools.box.toolbox import with_seed
from fctncalling.lab.mcp_client import McpServer, isolation
from fctncalling.lab.mcp_client.address import McpAddress, ServerFolder
from fctncalling.lab.mcp_client.connection import McpToolError
from fctncalling.lab.mcp_client.mcp_server import mcp_class
from fctncalling.lab.mcp_client.tool_docs import ListedTool
from fctncalling.training.user_code import parse_tool_classes

AMOUNT = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}
TOOLS = (ListedTool("put", "Put.", AMOUNT), ListedTool("total", "Tell."), ListedTool("wipe", "."))


class Till:
    """A connection to a process that keeps a sum; `started` has all of them."""

    started: ClassVar[list[Till]]

    def __init__(self) -> None:
        self.tools = list(TOOLS)
        self.sum = 0
        self.closed = threading.Event()
        type(self).started.append(self)

    def call(self, name: str, arguments: Mapping[str, Any], timeout_s: float) -> str:
        if name == "put" and arguments["amount"] < 0:
            raise McpToolError("no negative amounts")
        self.sum = 0 if name == "wipe" else self.sum + arguments.get("amount", 0)
        return f"{self.sum} in it"

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
def connect() -> Callable[[], Till]:
    class Tills(Till):
        started: ClassVar[list[Till]] = []

    return Tills


def till_task(*truth: list[str]) -> Task:
    return shop_task(*truth, functions=(), initial_config={}, involved_classes=("Till",))


def till_env(connect: Callable[[], Till], task: Task, reset: str = "") -> FunctionCallingEnv:
    tools = {"Till": mcp_class("mcp:true", reset=reset, connect=connect)}
    return FunctionCallingEnv(tasks=[task], tools=tools)


def said(env: FunctionCallingEnv, action: str) -> list[str]:
    return [message["content"] for message in env.step(action)[4]["messages"]]


def test_two_episodes_one_after_the_other_do_not_see_each_other(
    connect: Callable[[], Till],
) -> None:
    env = till_env(connect, till_task(["put(amount=3)"]))
    _, info = env.reset(seed=0)
    assert [tool["function"]["name"] for tool in info["tools"]] == ["put", "total", "wipe"]
    assert said(env, "[put(amount=3), put(amount=4)]") == ["3 in it", "7 in it"]
    assert said(env, "[put(amount=-1)]") == ["Tool error: McpToolError: no negative amounts"]
    env.reset(seed=0)
    assert said(env, "[total()]") == ["0 in it"]
    env.close()


def test_episodes_side_by_side_share_no_state_and_their_servers_end_with_them(
    connect: Callable[[], Till],
) -> None:
    envs = [till_env(connect, till_task(["put(amount=3)"])) for _ in range(3)]
    for env in envs:
        env.reset(seed=0)
    for amount, env in enumerate(envs, 1):
        assert said(env, f"[put(amount={amount})]") == [f"{amount} in it"]
    assert [said(env, "[total()]") for env in envs] == [["1 in it"], ["2 in it"], ["3 in it"]]
    played = connect.started[1:]  # type: ignore[attr-defined]  # the first told the tools
    for env in envs:
        env.reset(seed=0)
    assert len(played) == 6  # a truth's own for each, whose states say where an episode stands
    assert all(each.closed.wait(5) for each in played)


@pytest.mark.parametrize(("action", "is_valid"), [("put(amount=3)", True), ("total()", False)])
def test_results_are_judged_by_those_of_a_server_that_the_truth_has_to_itself(
    action: str, is_valid: bool, connect: Callable[[], Till]
) -> None:
    env = till_env(connect, till_task(["put(amount=3)"]))
    env.reset(seed=0)
    env.step(f"[{action}]")
    _, reward, terminated, _, info = env.step(DONE)
    assert (reward, terminated, info["verdict"].valid) == (float(is_valid), True, is_valid)


def test_a_state_that_is_gone_back_to_has_the_calls_so_far(connect: Callable[[], Till]) -> None:
    env = till_env(connect, till_task(["put(amount=3)"]))
    env.reset(seed=0)
    env.step("[put(amount=3)]")
    state = env.get_state()
    assert said(env, "[put(amount=4)]") == ["7 in it"]
    env.set_state(state)
    assert said(env, "[put(amount=5)]") == ["8 in it"]


def test_a_named_tool_resets_a_process_that_is_used_again(connect: Callable[[], Till]) -> None:
    env = till_env(connect, till_task(["put(amount=3)"]), reset="wipe")
    for _ in range(3):
        _, info = env.reset(seed=0)
        assert [tool["function"]["name"] for tool in info["tools"]] == ["put", "total"]
        assert said(env, "[put(amount=4)]") == ["4 in it"]
    assert len(connect.started) == 2  # type: ignore[attr-defined]  # the first told the tools


def test_a_tool_to_reset_that_is_not_there_is_told(connect: Callable[[], Till]) -> None:
    with pytest.raises(ToolDefinitionError, match="no tool clear: it has put, total, wipe"):
        mcp_class("mcp:true", reset="clear", connect=connect)


def test_a_server_in_a_list_outlives_the_episode() -> None:
    """The other way to give one: shared by all, for what has no state of an episode."""
    fake = FakeMcp()
    server: McpServer = fake.server()
    env = FunctionCallingEnv(tasks=[shop_task(["look()"])], tools=[Shop, server])
    for _ in range(2):
        env.reset(seed=0)
        env.step("[echo(text='x')]")
    assert len(fake.connections) == 1


LOOK = ListedTool("total", "Tell.", only_reads=True)


class Notes:
    """A connection to a process that keeps notes in a list, and counts what the clock says."""

    ticks = 0

    def __init__(self, notes: list[str], tools: tuple[ListedTool, ...], *, has_clock: bool) -> None:
        self.tools = list(tools)
        self._notes, self._has_clock = notes, has_clock

    def call(self, name: str, arguments: Mapping[str, Any], timeout_s: float) -> str:
        if name == "put":
            self._notes.append(str(arguments["amount"]))
            return "done"
        Notes.ticks += self._has_clock
        return f"{self._notes} at {Notes.ticks}"

    def close(self) -> None:
        """Nothing to end."""


@pytest.mark.parametrize(
    ("is_shared", "has_clock", "tools", "truth", "told"),
    [
        (False, False, (TOOLS[0], LOOK), ["put(amount=3)"], []),
        (True, False, (TOOLS[0], LOOK), ["put(amount=3)"], ["share their state", "total"]),
        (False, True, (TOOLS[0], LOOK), ["put(amount=3)"], ["change by themselves", "total"]),
        (
            True,
            False,
            TOOLS[:2],
            ["put(amount=3)", "total()"],
            ["from process to process", "total"],
        ),
        (False, True, TOOLS[:2], ["total()"], ["from process to process", "total"]),
    ],
)
def test_what_processes_share_and_what_changes_by_itself_is_told_at_the_start(
    is_shared: bool,
    has_clock: bool,
    tools: tuple[ListedTool, ...],
    truth: list[str],
    told: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(isolation, "CLOCK_S", 0.0)
    of_all: list[str] = []

    def connect() -> Notes:
        return Notes(of_all if is_shared else [], tools, has_clock=has_clock)

    server = mcp_class("mcp:true", connect=connect)
    notes = isolation.isolation_notes({"Till": server}, [till_task(truth)])
    assert len(notes) == bool(told)
    assert all(word in notes[0] for word in told)


def test_each_process_has_a_folder_of_its_own_that_is_filled_and_goes_with_it(
    tmp_path: Path,
) -> None:
    seed = tmp_path / "a seed"
    (seed / "inner").mkdir(parents=True)
    (seed / "inner" / "note.txt").write_text("kept")
    command = McpAddress.parse(with_seed("mcp:true {tmp}/inner", str(seed))).command
    one, other = (ServerFolder(command, "mcp:true") for _ in range(2))
    paths = [Path(each.filled("{tmp}")) for each in (one, other)]
    assert paths[0] != paths[1]
    assert one.filled(command) == ["true", f"{paths[0]}/inner"]
    (paths[0] / "inner" / "note.txt").write_text("changed")
    assert (paths[1] / "inner" / "note.txt").read_text() == "kept"
    assert one.filled({"a": ["{tmp}/b", 3]}) == {"a": [f"{paths[0]}/b", 3]}
    assert [
        each.masked(f"in {path}/b") for each, path in zip((one, other), paths, strict=True)
    ] == ["in {tmp}/b"] * 2
    one.remove()
    assert [path.exists() for path in paths] == [False, True]
    other.remove()
    assert ServerFolder(("true", "{}"), "mcp:true").filled("{tmp}") == "{tmp}"
    with pytest.raises(ToolDefinitionError, match="expected a folder"):
        McpAddress.parse("mcp:true {tmp:/no/such/folder}")
    with pytest.raises(SettingError, match=r"expected \{tmp\} in"):
        parse_tool_classes(["Files=mcp:true"], str(seed))
