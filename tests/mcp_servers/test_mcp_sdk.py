"""Real MCP servers and faulty ones, through the official SDK: played in episodes, invalid or cut
where they fail, and gone afterwards.

Needs the extra [mcp] and, for the reference servers, mcp-server-time and FCTNCALLING_MCP_FILESYSTEM
(the command of @modelcontextprotocol/server-filesystem). `make prove` runs this file in the
environment of FCTNCALLING_PYTHON_MCP.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from mcp_http_fake import mcp_http
from players import DONE, Shop, shop_task

from evaluate_fctncalling import main
from fctncalling import embedded_path, load_tasks
from fctncalling.data.types import Call
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.judging.oracle import oracle_calls
from fctncalling.envs.tools.box.callables import ToolDefinitionError
from fctncalling.envs.tools.box.toolbox import ToolBox
from fctncalling.lab.integrations.mcp import ServedEpisode, mcp_server
from fctncalling.lab.mcp_client import McpServer

ROOT = Path(__file__).parents[2]
FAKE = ROOT / "tests/support/mcp_stdio_fake.py"
FILESYSTEM = os.environ.get("FCTNCALLING_MCP_FILESYSTEM")
TIME = shutil.which("mcp-server-time", path=str(Path(sys.executable).parent))
needs_sdk = pytest.mark.skipif(
    importlib.util.find_spec("mcp") is None, reason="needs the extra [mcp]"
)

needs_mcp_2 = pytest.mark.skipif(
    importlib.util.find_spec("mcp") is None or not hasattr(import_module("mcp"), "Client"),
    reason="needs version 2 of mcp",
)


@pytest.mark.prove
def test_this_file_runs_with_the_real_library() -> None:
    """FCTNCALLING_PYTHON_MCP names the Python of the environment that has it."""
    python = os.environ.get("FCTNCALLING_PYTHON_MCP")
    if python is None:
        pytest.skip("needs FCTNCALLING_PYTHON_MCP: the Python that has mcp and mcp-server-time")
    done = subprocess.run(
        [python, "-m", "pytest", "-x", "-rs", "-p", "no:cacheprovider", __file__],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "needs the extra" not in done.stdout
    assert "needs mcp-server-time" not in done.stdout


@pytest.fixture
def fake_env(request: pytest.FixtureRequest) -> Iterator[FunctionCallingEnv]:
    """An environment with the faulty server, whose processes are gone when it is closed."""
    timeout_s = 2 if request.param == "hang" else 60
    server = McpServer(f"mcp:{sys.executable} {FAKE} {request.param}", timeout_s=timeout_s)
    env = FunctionCallingEnv(
        tasks=[shop_task(["look()"], involved_classes=("Shop",))], tools=[Shop, server]
    )
    yield env
    env.close()
    server.close()
    _wait_until(lambda: not list(_processes(str(FAKE))))


def _processes(word: str) -> Iterator[str]:
    """Yield command lines, zombies' too, of this machine's processes that name a file."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if word in command and "pytest" not in command:
            yield command


@needs_sdk
@pytest.mark.parametrize(
    ("fake_env", "reason"),
    [
        ("hang", "no answer within 2 s"),
        ("die", "out of luck"),
        ("changes", "other tools"),
        ("nonsense", "ValidationError"),
        ("big:9000000", "more than 8000000 bytes"),
        ("parts:200000", "more than 8000000 bytes"),
        ("parts:20000", "20000 parts as content: at most 10000 are taken"),
        ("surrogate", "cannot be read: Invalid JSON"),
        ("deep", "cannot be read: Invalid JSON: recursion limit"),
        ("digits", "cannot be read: Invalid JSON: number out of range"),
    ],
    indirect=["fake_env"],
)
def test_a_faulty_server_makes_episodes_invalid_and_leaves_nothing_behind(
    fake_env: FunctionCallingEnv, reason: str
) -> None:
    for _ in range(2):  # the second goes to a new process
        fake_env.reset(seed=0)
        _, reward, terminated, truncated, info = fake_env.step("[add(a='1')]")
        assert (reward, terminated, truncated, info["invalid"]) == (0.0, False, True, True)
        assert reason in info["invalid_reason"]
        assert info["verdict"] is None


@needs_sdk
@pytest.mark.parametrize(
    ("fake_env", "shown"),
    [
        ("lies", "Tool error: McpToolError: a must be an integer"),
        ("big:1000000", "x" * 9950),
        ("chatty", "3"),
        ("daemon", "3"),
    ],
    indirect=["fake_env"],
)
def test_a_server_that_lies_or_floods_is_told_or_cut_and_earns_nothing(
    fake_env: FunctionCallingEnv, shown: str
) -> None:
    fake_env.reset(seed=0)
    *_, info = fake_env.step("[add(a='1')]")
    (message,) = info["messages"]
    assert message["content"].startswith(shown)
    assert len(message["content"]) <= 10_000
    _, reward, _, _, info = fake_env.step(DONE)
    assert (reward, info["verdict"].valid) == (0.0, False)


@needs_sdk
def test_a_server_that_never_answers_is_refused_after_its_time() -> None:
    with pytest.raises(ToolDefinitionError, match="cannot be started: not ready after 1 s"):
        McpServer(f"mcp:{sys.executable} {FAKE} silent", start_timeout_s=1)
    _wait_until(lambda: not list(_processes(str(FAKE))))


@needs_sdk
@pytest.mark.parametrize("mode", ["surrogate", "deep", "digits"])
def test_tools_that_cannot_be_read_are_told_at_once(mode: str) -> None:
    with pytest.raises(ToolDefinitionError, match="cannot be started: it sent what cannot be read"):
        McpServer(f"mcp:{sys.executable} {FAKE} listed_{mode}")


@needs_sdk
@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("500", "HTTP 500"),
        ("500_rpc", "HTTP 500"),
        ("html", "text/html"),
        ("redirect", "edirect"),
        ("unknown", "no such file"),
        ("event:9000000", "more than 8000000 bytes"),
        ("json:9000000", "more than 8000000 bytes"),
        ("packed", "packed"),
        ("cut", ""),
        ("refuses", None),
        ("moved", None),
        ("event:5000", None),
    ],
)
def test_only_what_a_server_says_of_a_call_reaches_the_model_over_http(
    mode: str, reason: str | None
) -> None:
    """Whatever else comes back makes the episode invalid."""
    with mcp_http(mode) as url:
        server = McpServer(f"mcp:{url}", timeout_s=3)
        env = FunctionCallingEnv(
            tasks=[shop_task(["look()"], involved_classes=("Shop",))], tools=[Shop, server]
        )
        env.reset(seed=0)
        *_, info = env.step("[add(a='1')]")
        server.close()
    if reason is None:
        assert not info.get("invalid")
        shown = {"refuses": "Tool error: McpToolError: a: no", "moved": "3", "event:5000": "xxx"}
        assert info["messages"][0]["content"].startswith(shown[mode])
    else:
        assert info["invalid"]
        assert reason in info["invalid_reason"]


@needs_sdk
@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("mcp:false", "cannot be started"),
        ("mcp:http://127.0.0.1:9/mcp", "cannot be started: ConnectError"),
    ],
)
def test_a_server_that_cannot_be_reached_is_one_line(
    address: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "played.jsonl"
    playing = ["run", "--agent", "noop", f"--output={output}", "--dataset_path"]
    assert main([*playing, str(embedded_path("held_out")), "--mcp", address]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith(f"error: {address}")
    assert told in line
    assert not output.exists()


@needs_sdk
@pytest.mark.skipif(TIME is None, reason="needs mcp-server-time")
def test_the_reference_server_of_time_is_played_in_an_episode() -> None:
    env = gymnasium.make("fctncalling:FunctionCalling-v0", tools=[f"mcp:{TIME}"])
    env.reset(options={"task_id": "multi_turn_base_0"})
    *_, info = env.step("[get_current_time(timezone='Asia/Tokyo'), ls()]")
    time_told, listing = (message["content"] for message in info["messages"])
    assert json.loads(time_told)["timezone"] == "Asia/Tokyo"
    assert "recipe.txt" in listing
    *_, info = env.step("[get_current_time(timezone='Middle/Earth')]")
    assert info["messages"][0]["content"].startswith("Tool error: McpToolError: ")
    assert not info.get("invalid")
    env.close()


@needs_sdk
def test_environments_in_processes_have_servers_of_their_own() -> None:
    envs = gymnasium.make_vec(
        "fctncalling:FunctionCalling-v0",
        num_envs=2,
        vectorization_mode="async",
        tools=[f"mcp:{sys.executable} {FAKE} sound"],
        tasks=[shop_task([], involved_classes=())],
    )
    envs.reset(seed=0)
    assert len([each for each in _processes(str(FAKE)) if "guard.py" in each]) == 2 * 2
    observations, *_ = envs.step(("[add(a='1')]", "[add(a='2')]"))
    assert all("3" in observation for observation in observations)
    envs.close()
    _wait_until(lambda: not list(_processes(str(FAKE))))


@needs_sdk
@pytest.mark.skipif(FILESYSTEM is None, reason="needs FCTNCALLING_MCP_FILESYSTEM")
def test_the_reference_server_of_files_is_played_in_an_episode(tmp_path: Path) -> None:
    env = FunctionCallingEnv(tools=[f"mcp:{FILESYSTEM} {tmp_path}"])
    env.reset(options={"task_id": "multi_turn_base_0"})
    path = tmp_path / "note.txt"
    env.step(f"[write_file(path='{path}', content='hello')]")
    *_, info = env.step(f"[read_text_file(path='{path}'), read_text_file(path='/etc/passwd')]")
    texts = [message["content"] for message in info["messages"]]
    assert texts[0] == path.read_text() == "hello"
    assert texts[1].startswith("Tool error: McpToolError: Access denied")
    env.close()


@needs_mcp_2
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_clients_of_both_protocols_are_told_when_a_held_out_function_appears(mode: str) -> None:
    from mcp import Client  # type: ignore[import-not-found, unused-ignore]

    tasks = load_tasks(embedded_path("held_out"))
    task = next(task for task in tasks if task.category == "multi_turn_miss_func")
    told: list[str] = []

    async def hear(message: Any) -> None:
        told.append(type(message).__name__)

    async def play() -> None:
        episode = ServedEpisode(task)
        async with Client(mcp_server(episode), mode=mode, message_handler=hear) as client:
            num_tools = len((await client.list_tools()).tools)
            if mode == "auto":
                changes = await exits.enter_async_context(client.listen(tools_list_changed=True))
            for _ in task.question:
                await client.call_tool("end_turn", {"answer": "Done."})
            if mode == "auto":
                told.append(type(await anext(aiter(changes))).__name__)
            assert len((await client.list_tools()).tools) == num_tools + 1
            await exits.aclose()

    exits = AsyncExitStack()
    asyncio.run(play())
    assert told[-1] == ("ToolsListChanged" if mode == "auto" else "ToolListChangedNotification")


@needs_mcp_2
def test_an_episode_served_over_http_is_played_through_our_own_client(tmp_path: Path) -> None:
    """The oracle's calls, through both directions at once, earn BFCL's verdict."""
    task = next(task for task in load_tasks(embedded_path("held_out")) if task.is_multi_turn)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    output = tmp_path / "result.jsonl"
    words = ["serve-mcp", f"--dataset_path={embedded_path('held_out')}", f"--task_id={task.id}"]
    words += [f"--port={port}", f"--output={output}"]
    server = subprocess.Popen([sys.executable, str(ROOT / "evaluate_fctncalling.py"), *words])
    try:
        box = _reached(f"mcp:http://127.0.0.1:{port}/mcp")
        assert box.call(Call("start_task", {}))
        for turn in oracle_calls(task):
            for call in turn:
                box.call(call)
            answer = box.call(Call("end_turn", {"answer": "Done."}))
        assert answer == "The task has ended."
        box.close()
        (line,) = output.read_text().splitlines()
        result: dict[str, Any] = json.loads(line)
        assert (result["valid"], result["ended"]) == (True, True)
    finally:
        server.terminate()
        server.wait(20)


def _wait_until(is_so: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < ends_at
        time.sleep(0.1)


def _reached(address: str) -> ToolBox:
    ends_at = time.monotonic() + 60
    while True:
        try:
            return ToolBox([address])
        except ToolDefinitionError:
            assert time.monotonic() < ends_at
            time.sleep(0.3)


@needs_mcp_2
def test_episodes_of_a_class_have_a_process_each_are_judged_and_replayed(tmp_path: Path) -> None:
    server = tmp_path / "till.py"
    server.write_text(
        "from mcp.server import MCPServer\n"
        "server, held = MCPServer('till'), []\n"
        "@server.tool()\n"
        "def put(amount: int) -> int:\n"
        "    'Put money in.'\n"
        "    held.append(amount)\n"
        "    return sum(held)\n"
        "server.run()\n",
        encoding="utf-8",
    )
    tasks = [
        {
            "id": f"multi_turn_base_{number}",
            "question": [[{"role": "user", "content": "Put 3 in, then 4."}]],
            "involved_classes": ["Till"],
            "initial_config": {},
            "ground_truth": [["put(amount=3)", "put(amount=4)"]],
        }
        for number in range(3)
    ]
    dataset, output = tmp_path / "tasks.jsonl", tmp_path / "played.jsonl"
    dataset.write_text("".join(f"{json.dumps(task)}\n" for task in tasks), encoding="utf-8")
    shared = ["--dataset_path", str(dataset), "--tools", f"Till=mcp:{sys.executable} {server}"]
    assert (
        main(["run", "--agent", "oracle", "--concurrency", "2", "--output", str(output), *shared])
        == 0
    )
    played = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    assert [each["valid"] for each in played] == [True] * 3
    assert "7" in str(played[-1]["steps"])
    assert main(["replay", "--input", str(output), *shared]) == 0
    _wait_until(lambda: not list(_processes(str(server))))
