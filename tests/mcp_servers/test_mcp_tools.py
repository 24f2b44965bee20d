"""Tools of MCP servers in an episode: offered, called by the server's names, bounded; a server that
fails makes an episode invalid and is started again. `test_mcp_sdk.py` has the real
library.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mcp_fakes import ADD, ECHO, FakeConnection, FakeMcp
from players import DONE, Shop, shop_task

from fctncalling.data.types import Call, Task
from fctncalling.data.unsafe_text import TAGS
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.judging.judge import judge
from fctncalling.envs.tools.box.callables import ToolDefinitionError
from fctncalling.envs.tools.box.toolbox import ToolBox
from fctncalling.lab.mcp_client import McpServer, connection, mcp_server
from fctncalling.lab.mcp_client.address import McpAddress
from fctncalling.lab.mcp_client.guard import MAX_LINE_BYTES
from fctncalling.lab.mcp_client.tool_docs import ListedTool, mcp_functions

GUARD = Path(mcp_server.__file__).with_name("guard.py")
posix = pytest.mark.skipif(sys.platform == "win32", reason="the guard is for POSIX")


def shop_env(fake: FakeMcp, task: Task | None = None, **keywords: Any) -> FunctionCallingEnv:
    task = task or shop_task(["look()"], ["sell(item='apple')"], involved_classes=("Shop",))
    return FunctionCallingEnv(tasks=[task], tools=[Shop, fake.server(**keywords)])


def contents(step: tuple[Any, ...]) -> list[str]:
    return [message["content"] for message in step[4]["messages"]]


# --- in an episode


def test_tools_are_offered_and_called_by_the_servers_own_names() -> None:
    fake = FakeMcp()
    env = shop_env(fake)
    _, info = env.reset(seed=0)
    schemas = {tool["function"]["name"]: tool["function"] for tool in info["tools"]}
    assert schemas["add_numbers"]["description"].startswith("Add two numbers.")
    assert schemas["add_numbers"]["parameters"] == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": ""},
            "to_b": {"type": "number", "description": ""},
        },
        "required": ["a"],
    }
    step = env.step("[add_numbers(a=1, to_b=2.5), look(), echo(text='hey')]")
    assert contents(step) == ["{'a': 1, 'to b': 2.5}", "till 10", "{'text': 'hey'}"]
    assert sorted(fake.calls) == [("add-numbers", {"a": 1, "to b": 2.5}), ("echo", {"text": "hey"})]
    env.close()


def test_what_a_tool_says_earns_nothing() -> None:
    """The truth's result is "till 10": a tool that says so is no `look`."""
    for action, is_valid in (("[echo(text='x')]", False), ("[look()]", True)):
        fake = FakeMcp()
        fake.script = ["till 10"]
        env = shop_env(fake, shop_task(["look()"], involved_classes=("Shop",)))
        env.reset(seed=0)
        assert contents(env.step(action)) == ["till 10"]
        _, reward, _, _, info = env.step(DONE)
        assert (reward, info["verdict"].valid) == (float(is_valid), is_valid)


def test_the_verdict_is_that_of_the_answer_judged_without_the_server() -> None:
    """The second turn is saved by the first one's results, as in BFCL, for it calls something."""
    task = shop_task(["look()"], ["look()"], involved_classes=("Shop",))
    for second, is_valid in (("[echo(text='x')]", True), (DONE, False)):
        env = shop_env(FakeMcp(), task)
        env.reset(seed=0)
        texts = [["[look(), look()]", DONE], [second, DONE] if second != DONE else [DONE]]
        for text in (text for turn in texts for text in turn):
            *_, info = env.step(text)
        assert info["verdict"] == judge(task, texts, "prompting", extra_tools={"Shop": Shop})
        assert info["verdict"].valid is is_valid


@pytest.mark.parametrize("failure", ["die", "hang"])
def test_a_server_that_fails_makes_its_episode_invalid_and_is_started_again(failure: str) -> None:
    fake = FakeMcp()
    env = shop_env(fake, timeout_s=0.01)
    env.reset(seed=0)
    fake.script = [failure]
    _, reward, terminated, truncated, info = env.step("[sell(item='apple'), echo(text='x')]")
    assert (reward, terminated, truncated, info["invalid"]) == (0.0, False, True, True)
    assert info["verdict"] is None
    assert "mcp:true, tool echo: " in info["invalid_reason"]
    env.reset(seed=0)
    assert contents(env.step("[echo(text='x')]")) == ["{'text': 'x'}"]
    assert len(fake.connections) == 2
    assert fake.connections[0].closed.wait(5)


def test_an_error_that_a_server_reports_is_a_text_and_no_failure() -> None:
    fake = FakeMcp()
    env = shop_env(fake)
    env.reset(seed=0)
    fake.script = ["refuse"]
    step = env.step("[echo(text='x')]")
    assert contents(step) == ["Tool error: McpToolError: no such file"]
    assert not step[4].get("invalid")
    assert len(fake.connections) == 1


def test_a_megabyte_is_cut_and_its_marks_are_broken() -> None:
    fake = FakeMcp()
    fake.script = ["<tool_call>" + "x" * 1_000_000]
    env = shop_env(fake)
    env.reset(seed=0)
    (text,) = contents(env.step("[echo(text='x')]"))
    assert len(text) <= 10_000
    assert text.endswith("(output truncated to 10000 characters)")
    assert not any(tag in text for tag in TAGS)


def test_a_name_of_the_tasks_own_functions_is_refused_with_the_cure() -> None:
    look = FakeMcp(ListedTool("look"))
    with pytest.raises(ToolDefinitionError, match=r"tool look has the name .* mcp:PREFIX=true"):
        shop_env(look)
    env = FunctionCallingEnv(
        tasks=[shop_task([], involved_classes=("Shop",))],
        tools=[Shop, look.server("mcp:web=true")],
    )
    env.reset(seed=0)
    assert contents(env.step("[web_look(), look()]")) == ["{}", "till 10"]
    with pytest.raises(ToolDefinitionError, match="two tools are called 'look'"):
        ToolBox([look.server(), look.server()])


# --- restarts


def test_a_server_that_offers_other_tools_after_a_restart_is_a_failure() -> None:
    fake = FakeMcp(ADD, ECHO)
    server = fake.server()
    fake.script, fake.tools = ["die"], [ADD]
    for told in ("connection closed", "other tools than when it started", "tried again later"):
        with pytest.raises(InfrastructureError, match=told):
            server.call("echo", {})


def test_starts_that_fail_are_further_and_further_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(mcp_server.time, "monotonic", lambda: now[0])
    fake = FakeMcp()
    server = fake.server()
    fake.script, fake.does_start = ["die"], False
    waits = []
    with pytest.raises(InfrastructureError):
        server.call("echo", {})
    for _ in range(7):
        with pytest.raises(InfrastructureError, match="does not start"):
            server.call("echo", {})
        began = now[0]
        while True:
            now[0] += 1
            try:
                server._taken()
            except Exception as error:
                if "does not start" in str(error):
                    break
        waits.append(now[0] - began)
        now[0] += 60
    assert waits[:2] == [2.0, 8.0]
    assert max(waits) == mcp_server.LONGEST_WAIT_S
    fake.does_start = True
    now[0] += 60
    assert server.call("echo", {"text": "x"}) == "{'text': 'x'}"


def test_calls_under_way_are_let_finish_where_another_fails() -> None:
    fake, running, going_on = FakeMcp(), threading.Event(), threading.Event()
    server = fake.server()

    def slow(name: str, arguments: Any, timeout_s: float) -> str:
        running.set()
        going_on.wait(5)
        return "done"

    first = fake.connections[0]
    plain, first.call = first.call, slow  # type: ignore[method-assign]
    texts: list[str] = []
    thread = threading.Thread(target=lambda: texts.append(server.call("echo", {})))
    thread.start()
    running.wait(5)
    first.call, fake.script = plain, ["die"]  # type: ignore[method-assign]
    with pytest.raises(InfrastructureError):
        server.call("echo", {})
    assert not first.closed.is_set()
    going_on.set()
    thread.join(5)
    assert texts == ["done"]
    assert first.closed.wait(5)


def test_a_closed_server_is_not_started_again() -> None:
    fake = FakeMcp()
    server = fake.server()
    server.close()
    assert fake.connections[0].closed.is_set()
    with pytest.raises(InfrastructureError, match="closed"):
        server.call("echo", {})


def test_a_box_ends_the_servers_it_started_also_where_it_is_never_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = FakeMcp()
    monkeypatch.setattr(mcp_server, "McpConnection", lambda *_, **__: fake.connect())
    ToolBox(["mcp:true"]).close()
    with pytest.raises(ToolDefinitionError, match="is no tool"):
        ToolBox(["mcp:true", 3])
    assert [connection.closed.is_set() for connection in fake.connections] == [True, True]


def _connect_elsewhere() -> FakeConnection:
    return FakeMcp().connect()


def test_a_copy_in_another_process_connects_with_its_first_call() -> None:
    box = ToolBox([McpServer("mcp:true", connect=_connect_elsewhere)])
    copied = pickle.loads(pickle.dumps(box))
    (server,) = {tool.function._server for tool in copied.tools}
    assert server._connection is None
    assert copied.call(Call("echo", {"text": "x"})) == "{'text': 'x'}"
    assert copied.mcp_addresses == {"add_numbers": "mcp:true", "echo": "mcp:true"}


# --- what a model and a server may write


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"text": float("nan")}, "JSON"),
        ({"text": {1, 2}}, "JSON"),
        ({"text": 10**5000}, "JSON"),
        ({"text": b"x"}, "JSON"),
        ({"text": [[]]}, ""),
    ],
)
def test_arguments_that_json_has_not_are_the_models_mistake(
    arguments: dict[str, Any], told: str
) -> None:
    for _ in range(80 if not told else 0):
        arguments = {"text": [arguments["text"]]}
    fake = FakeMcp()
    text = ToolBox([fake.server()]).call(Call("echo", arguments))
    assert text.startswith("Tool error: McpToolError: arguments ")
    assert (told or "nest deeper") in text
    assert fake.calls == []


def test_lone_surrogates_never_reach_the_wire() -> None:
    fake = FakeMcp()
    ToolBox([fake.server()]).call(Call("echo", {"text": "a\ud800b"}))
    assert fake.calls == [("echo", {"text": "a\ufffdb"})]


NODE: dict[str, Any] = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
SCHEMAS: list[tuple[Any, dict[str, Any]]] = [
    ({"type": "string", "description": "<tool_call>"}, {"type": "string"}),
    ({"type": "<tool_call>"}, {"type": "any"}),
    ({"type": ["integer", "null"]}, {"type": "integer"}),
    ({"type": ["integer", "string"]}, {"type": "any"}),
    ({"anyOf": [{"type": "number"}, {"type": "null"}]}, {"type": "float"}),
    ({"$ref": "#/$defs/Unit"}, {"type": "string", "enum": ["C", "F"]}),
    ({"$ref": "#/$defs/None"}, {"type": "any"}),
    ({"type": "array", "items": {"type": "object"}}, {"type": "array", "items": {"type": "dict"}}),
    ({"type": "string", "enum": ["</tool_call>"]}, {"type": "string"}),
    ({"type": "string", "enum": ["x"] * 1000}, {"type": "string"}),
    (True, {"type": "any"}),
    ("nonsense", {"type": "any"}),
]


@pytest.mark.parametrize(("schema", "expected"), SCHEMAS)
def test_a_schema_becomes_a_parameter_whatever_it_says(
    schema: Any, expected: dict[str, Any]
) -> None:
    unit = {"type": "string", "enum": ["C", "F"]}
    whole = {"properties": {"x": schema}, "$defs": {"Unit": unit, "Node": NODE}, "required": "x"}
    (function,) = mcp_functions([ListedTool("f", "", whole)], "", "mcp:true")
    found = function.doc.parameters["properties"]["x"]
    assert "<tool_call>" not in found.pop("description")
    found.get("items", {}).pop("description", None)
    assert found == expected
    assert function.doc.parameters["required"] == []


def test_a_schema_that_contains_itself_ends() -> None:
    whole = {"properties": {"x": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": NODE}}
    (function,) = mcp_functions([ListedTool("f", "x" * 10**6, whole)], "", "mcp:true")
    assert len(str(function.doc)) < 10_000


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ([], "offers no tool"),
        (["a-b", "a.b"], "two of its tools are called 'a_b'"),
        ([str(number) for number in range(600)], "600 tools: expected at most 512"),
    ],
)
def test_lists_of_tools_that_cannot_be_offered_are_refused(names: list[str], told: str) -> None:
    with pytest.raises(ToolDefinitionError, match=f"^mcp:true: .*{told}"):
        mcp_functions([ListedTool(name) for name in names], "", "mcp:true")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("mcp:", "names no server"),
        ("mcp:no_such_command_here -x", "no command is called 'no_such_command_here'"),
        ("mcp:'x", "cannot be read as a command"),
        ("mcp:ftp://host/mcp", "expected mcp:http://"),
        ("mcp:http://", "expected mcp:http://"),
        ("mcp:http://host:port/mcp", "expected mcp:http://"),
    ],
)
def test_an_address_that_is_none_is_one_line(text: str, told: str) -> None:
    with pytest.raises(ToolDefinitionError, match=told) as raised:
        McpAddress.parse(text)
    assert "\n" not in str(raised.value)


def test_an_address_is_a_command_or_a_url_with_or_without_a_prefix() -> None:
    assert McpAddress.parse("mcp:env A=b 'c d'").command == ("env", "A=b", "c d")
    assert McpAddress.parse("mcp:web=https://host/mcp?a=b").url == "https://host/mcp?a=b"
    assert McpAddress.parse("mcp:web=https://host/mcp").prefix == "web"
    assert McpAddress.parse("mcp:https://host/mcp?a=b").prefix == ""


# --- the guard of a stdio server


@posix
def test_the_guard_ends_a_server_that_writes_without_end() -> None:
    flood = f"import sys; sys.stdout.write('x' * {MAX_LINE_BYTES + 100_000}); input()"
    done = subprocess.run(
        [sys.executable, "-I", "-S", GUARD, str(os.getpid()), sys.executable, "-c", flood],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        start_new_session=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == -9
    assert b"more than 8000000 bytes" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux")
@pytest.mark.parametrize("end", ["of its input", "by force"])
def test_the_guard_ends_a_daemon_that_a_server_leaves_behind(end: str) -> None:
    daemon = "import sys, subprocess as s; print(s.Popen(['sleep', '60'], start_new_session=True)"
    server = f"{daemon}.pid, flush=True); sys.stdin.read()"
    command = [sys.executable, "-I", "-S", GUARD, str(os.getpid()), sys.executable, "-c", server]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as guard:
        assert guard.stdin is not None
        assert guard.stdout is not None
        pid = int(guard.stdout.readline())
        assert _is_running(pid)
        if end == "by force":
            guard.kill()
        guard.stdin.close()
        guard.wait(10)
    ends_at = time.monotonic() + 10
    while _is_running(pid):
        assert time.monotonic() < ends_at, "the daemon outlives its server"
        time.sleep(0.02)


# --- what a server sends, before the SDK reads on


class _Unreadable(ValueError):
    """An error of the SDK's about a line, as pydantic has it."""

    def __init__(self, line: object) -> None:
        self._line = line

    def errors(self) -> list[dict[str, object]]:
        return [{"msg": "Invalid JSON", "input": self._line}]


def _sent(**fields: Any) -> Any:
    return SimpleNamespace(message=SimpleNamespace(**fields))


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        (_Unreadable("thinking ..."), ""),
        (_Unreadable({"level": "info"}), ""),
        (_Unreadable('{"jsonrpc": "2.0", "id": 1, "result": "\\ud83d"}'), "cannot be read"),
        (ValueError("Unexpected content type: text/html"), "text/html"),
        (
            SimpleNamespace(message=SimpleNamespace(result={"content": [{}] * 10_001})),
            "10001 parts",
        ),
        (SimpleNamespace(message=SimpleNamespace(result={"content": [{}] * 10_000})), ""),
        (SimpleNamespace(message=SimpleNamespace(method="notifications/message")), ""),
    ],
)
def test_a_message_that_cannot_be_read_is_told_from_a_note(message: Any, fault: str) -> None:
    found = connection._fault(message)
    assert fault in found
    assert bool(found) is bool(fault)


@pytest.mark.parametrize(
    ("status", "kind", "chunks", "told"),
    [
        (200, "application/json", [b"x" * 10**6] * 8, ""),
        (200, "application/json", [b"x" * 10**6] * 9, "more than 8000000 bytes"),
        (200, "application/json", [b'[{"a":1},'] * 80_000, "more than 8000000 bytes"),
        (200, "text/event-stream", [b"x" * 10**6, b"\r\n\r\n"] * 9, ""),
        (200, "text/event-stream", [b"x" * 10**6, b"\r\n"] * 9, "more than 8000000 bytes"),
        (400, "application/json", [b'{"error": {"code": -32602}}'], ""),
        (400, "application/json", [b'{"detail": "who are you?"}'], "HTTP 400"),
        (404, "text/html", [b"<html>"], "HTTP 404"),
        (503, "application/json", [b'{"error": {"code": -32603}}'], "HTTP 503"),
    ],
)
def test_an_http_answer_is_bounded_and_must_be_one(
    status: int, kind: str, chunks: list[bytes], told: str
) -> None:
    async def body() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    async def read() -> bytes:
        return b"".join([chunk async for chunk in response.stream])

    response: Any = SimpleNamespace(
        headers={"content-type": kind},
        status_code=status,
        request=SimpleNamespace(method="POST"),
        stream=body(),
        aread=read,
    )
    session: Any = SimpleNamespace(is_ready=True, abort=connection.McpFailure)

    async def check() -> None:
        await connection._HttpCheck(session, object)(response)
        if status == 200:
            assert await read() == b"".join(chunks)

    if told:
        with pytest.raises(connection.McpFailure, match=told):
            asyncio.run(check())
    else:
        asyncio.run(check())


@posix
@pytest.mark.prove
def test_the_guard_ends_a_server_with_the_process_that_started_it(tmp_path: Path) -> None:
    """The server ignores its end of input and SIGTERM; its parent is killed."""
    script = tmp_path / "server.py"
    script.write_text(
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n"
        "print('up', flush=True)\n"
        "time.sleep(600)\n"
    )
    code = (
        "import os, subprocess, sys\n"
        f"command = [sys.executable, '-I', '-S', {str(GUARD)!r}, str(os.getpid()), "
        f"sys.executable, {str(script)!r}]\n"
        "child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, "
        "start_new_session=True)\n"
        "child.stdout.readline()\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code], timeout=30, check=False)
    server = int((tmp_path / "pid").read_text())
    ends_at = time.monotonic() + 10
    while _is_running(server):
        assert time.monotonic() < ends_at, "the server outlives the process that started it"
        time.sleep(0.05)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"
