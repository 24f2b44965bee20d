"""`run` plays agents, survives a bad endpoint, resumes; `score` and `replay` agree with what it
wrote.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from stub_endpoint import endpoint
from transformers import AutoTokenizer

from evaluate_fctncalling import main
from fctncalling.algorithms.generation.engine import ScriptedEngine
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.rollout.collect import collect
from fctncalling.algorithms.run.logs import RunLog
from fctncalling.cli.run.runner import DaemonThreadPool
from fctncalling.data.bfcl import embedded_path, load_tasks
from fctncalling.data.types import FunctionDoc, Task
from fctncalling.envs.conversations import task_for_form
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.evaluation.agents.agent import ScriptedAgent
from fctncalling.evaluation.agents.local_model import LocalModel, LocalSettings

pytest.importorskip("httpx")

DOC = {
    "name": "math.add",
    "description": "Add.",
    "parameters": {
        "type": "dict",
        "properties": {
            "a": {"type": "integer", "description": ""},
            "b": {"type": "integer", "description": ""},
        },
        "required": ["a", "b"],
    },
}
MULTI = {
    "id": "multi_turn_base_0",
    "question": [
        [{"role": "user", "content": "Make a folder called x."}],
        [{"role": "user", "content": "Which folder is this?"}],
    ],
    "function": [
        {
            "name": name,
            "description": "",
            "parameters": {"type": "dict", "properties": properties, "required": []},
        }
        for name, properties in (
            ("mkdir", {"dir_name": {"type": "string", "description": ""}}),
            ("pwd", {}),
        )
    ],
    "involved_classes": ["GorillaFileSystem"],
    "initial_config": {
        "GorillaFileSystem": {"root": {"home": {"type": "directory", "contents": {}}}}
    },
    "ground_truth": [["mkdir(dir_name='x')"], ["pwd()"]],
}


PARALLEL = "non_live/BFCL_v4_parallel_result.json"


def dataset(folder: Path, count: int = 3) -> Path:
    """Write `count` single-turn tasks: task i asks for add(a=i, b=1)."""
    entries = [
        {
            "id": f"simple_python_{i}",
            "question": [[{"role": "user", "content": f"Add {i} and 1."}]],
            "function": [DOC],
            "ground_truth": [{"math.add": {"a": [i], "b": [1]}}],
        }
        for i in range(count)
    ]
    path = folder / "tasks.json"
    path.write_text(json.dumps(entries))
    return path


def right_answer(body: dict[str, Any]) -> str:
    number = body["messages"][-1]["content"].split()[1]
    return f"[math.add(a={number}, b=1)]"


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def call_reply(*calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    tool_calls = [
        {
            "id": f"c{i}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for i, (name, arguments) in enumerate(calls)
    ]
    return {"role": "assistant", "content": None, "tool_calls": tool_calls}


def run(output: Path, *more: str) -> int:
    return main(
        ["run", "--output", str(output), "--retry_wait_s", "0.001", "--concurrency", "2", *more]
    )


def test_categories_choose_among_the_tasks_of_a_file(tmp_path: Path) -> None:
    file = ("--agent", "oracle", "--dataset_path", str(embedded_path("held_out")), "--limit", "2")
    played = tmp_path / "played.jsonl"
    assert run(played, *file, "--category", "parallel", "multi_turn") == 0
    named = [line["category"] for line in lines(played)]
    assert set(named) == {
        "parallel",
        "multi_turn_base",
        "multi_turn_miss_func",
        "multi_turn_miss_param",
    }
    assert run(tmp_path / "none.jsonl", *file, "--category", "simple_java") == 2


def lines(path: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return sorted(found, key=lambda line: str(line["id"]))


def test_rate_limits_errors_and_dropped_connections_are_retried(tmp_path: Path) -> None:
    troubles: list[Any] = [429, "drop", 500, (429, {"Retry-After": "0"}), 503, "not a message"]

    def reply(number: int, body: dict[str, Any]) -> Any:
        return troubles[number] if number < len(troubles) else said(right_answer(body))

    with endpoint(reply) as stub:
        more = (
            "--agent",
            "openai:m",
            "--base_url",
            stub.url,
            "--dataset_path",
            str(dataset(tmp_path)),
        )
        assert run(tmp_path / "out.jsonl", *more, "--retries", "8") == 0
    assert [(line["valid"], line["invalid"]) for line in lines(tmp_path / "out.jsonl")] == [
        (True, False)
    ] * 3
    assert len(stub.bodies) == len(troubles) + 3


def test_a_dead_endpoint_is_invalid_and_is_played_again_on_resume(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output, tasks = tmp_path / "out.jsonl", str(dataset(tmp_path))
    more = ("--agent", "openai:m", "--dataset_path", tasks, "--json")
    with endpoint(lambda *_: "drop") as stub:
        assert run(output, *more, "--base_url", stub.url, "--retries", "1") == 1
    report = json.loads(capsys.readouterr().out)["categories"]["simple_python"]
    assert (report["episodes"], report["accuracy"], report["invalid"]) == (0, None, 3)
    assert all(line["invalid"] and line["response"] is None for line in lines(output))
    with endpoint(lambda _, body: said(right_answer(body))) as stub:
        assert run(output, *more, "--base_url", stub.url, "--resume") == 0
    report = json.loads(capsys.readouterr().out)["categories"]["simple_python"]
    assert (report["episodes"], report["accuracy"], report["invalid"]) == (3, 1.0, 0)


def test_an_endpoint_that_stays_dead_ends_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with endpoint(lambda *_: "drop") as stub:
        more = ("--agent", "openai:m", "--base_url", stub.url, "--retries", "0")
        tasks = str(dataset(tmp_path, 40))
        assert (
            run(tmp_path / "out.jsonl", *more, "--max_invalid", "3", "--dataset_path", tasks) == 2
        )
    assert len(lines(tmp_path / "out.jsonl")) == 3
    said_lines = capsys.readouterr().err.splitlines()  # the stub's server may say something, too
    [told] = [line for line in said_lines if "3 episodes in a row are invalid" in line]
    assert f". {tmp_path / 'out.jsonl'} keeps what was played" in told


def test_an_empty_user_is_refused_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks, output = dataset(tmp_path, 1), tmp_path / "out.jsonl"
    flags = ("--agent", "oracle", "--dataset_path", str(tasks))
    assert run(output, *flags, "--user", "") == 2
    [line] = capsys.readouterr().err.splitlines()
    assert 'error: --user: user "": expected one of scripted, rule' in line
    assert not output.exists()


def test_a_refused_key_is_told_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with endpoint(lambda *_: 401) as stub:
        more = (
            "--agent",
            "openai:m",
            "--base_url",
            stub.url,
            "--dataset_path",
            str(dataset(tmp_path)),
        )
        assert run(tmp_path / "out.jsonl", *more) == 2
    assert "HTTP 401" in capsys.readouterr().err
    assert len(stub.bodies) <= 3, "no request is repeated"


def test_the_key_is_read_from_the_environment_and_written_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", "s3cret")
    with endpoint(lambda _, body: said(right_answer(body))) as stub:
        more = ("--agent", "openai:m", "--base_url", stub.url, "--api_key_env", "SOME_KEY")
        assert run(tmp_path / "out.jsonl", *more, "--dataset_path", str(dataset(tmp_path))) == 0
    assert set(stub.keys) == {"Bearer s3cret"}
    assert "s3cret" not in (tmp_path / "out.jsonl").read_text()


@pytest.mark.parametrize("cut", ["whole lines", "half a line"])
def test_an_interrupted_run_resumes_with_what_is_missing(tmp_path: Path, cut: str) -> None:
    output, tasks = tmp_path / "out.jsonl", str(dataset(tmp_path, 6))
    with endpoint(lambda _, body: said(right_answer(body))) as stub:
        more = ("--agent", "openai:m", "--base_url", stub.url, "--dataset_path", tasks)
        assert run(output, *more) == 0
        whole = output.read_text().splitlines(keepends=True)
        output.write_text("".join(whole[:2]) + (whole[2][:50] if cut == "half a line" else ""))
        stub.bodies.clear()
        assert run(output, *more, "--resume") == 0
        assert len(stub.bodies) == 4
    assert [line["id"] for line in lines(output)] == [f"simple_python_{i}" for i in range(6)]


def test_ctrl_c_keeps_what_ended_and_waits_for_no_request_in_flight(tmp_path: Path) -> None:
    output, tasks = tmp_path / "out.jsonl", str(dataset(tmp_path, 6))
    hanging, released = threading.Semaphore(0), threading.Event()

    def reply(number: int, body: dict[str, Any]) -> Any:
        if number >= 2:  # no answer comes before the test's end
            hanging.release()
            released.wait()
        return said(right_answer(body))

    with endpoint(reply) as stub:
        more = ("--agent", "openai:m", "--dataset_path", tasks, "--base_url", stub.url)
        command = [
            sys.executable,
            "-m",
            "evaluate_fctncalling",
            "run",
            "--output",
            str(output),
            "--concurrency",
            "2",
        ]
        process = subprocess.Popen([*command, *more], stderr=subprocess.PIPE, text=True)
        try:
            assert hanging.acquire(timeout=60)
            assert hanging.acquire(timeout=60)
            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=60)  # both requests still hang
        finally:
            process.kill()
            released.set()
    assert (process.returncode, len(lines(output))) == (130, 2)
    assert re.search("Interrupted.*--resume", told)
    with endpoint(lambda _, body: said(right_answer(body))) as stub:
        assert run(output, *more[:-1], stub.url, "--resume") == 0
        assert len(stub.bodies) == 4
    assert [line["valid"] for line in lines(output)] == [True] * 6


def test_what_ended_before_the_run_did_is_kept_and_nothing_more_begins() -> None:
    begun, under_way, go_on = list[int](), threading.Event(), threading.Event()

    def work(item: int) -> int:
        begun.append(item)
        if item == 1:
            under_way.set()
            go_on.wait(60)
        return item

    workers = DaemonThreadPool(1, work)
    results = workers.results(range(10))
    assert next(results) == 0
    assert under_way.wait(60)
    assert workers.stop() == []
    go_on.set()
    assert next(results) == 1, "what was under way ends by itself"
    assert begun == [0, 1]


def test_a_file_of_another_run_is_never_overwritten_nor_mixed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output, tasks = tmp_path / "out.jsonl", str(dataset(tmp_path))
    assert run(output, "--agent", "noop", "--dataset_path", tasks) == 0
    assert run(output, "--agent", "noop", "--dataset_path", tasks) == 2
    assert "--resume" in capsys.readouterr().err
    assert run(output, "--agent", "oracle", "--dataset_path", tasks, "--resume") == 2
    assert "was played with model 'noop'" in capsys.readouterr().err


def test_tool_calls_are_asked_answered_and_judged_in_their_own_form(tmp_path: Path) -> None:
    def reply(_: int, body: dict[str, Any]) -> Any:
        [tool] = body["tools"]
        assert tool["function"]["name"] == "math_add"
        number = int(body["messages"][-1]["content"].split()[1])
        return call_reply(("math_add" if number else "math.add", {"a": number, "b": 1}))

    output = tmp_path / "out.jsonl"
    with endpoint(reply) as stub:
        more = ("--agent", "openai:m", "--base_url", stub.url, "--form", "tool_call")
        assert run(output, *more, "--dataset_path", str(dataset(tmp_path))) == 0
    assert [line["valid"] for line in lines(output)] == [
        False,
        True,
        True,
    ]  # the first used the dot


def test_many_turns_of_tool_calls_keep_a_conversation_that_interfaces_accept(
    tmp_path: Path,
) -> None:
    script = [
        call_reply(("mkdir", {"dir_name": "x"})),
        said("Made."),
        call_reply(("pwd", {})),
        said("[not a call]"),
    ]
    tasks = tmp_path / "tasks.json"
    tasks.write_text(json.dumps([MULTI]))
    with endpoint(lambda number, _: script[number]) as stub:
        more = (
            "--agent",
            "openai:m",
            "--base_url",
            stub.url,
            "--form",
            "tool_call",
            "--dataset_path",
            str(tasks),
        )
        assert run(tmp_path / "out.jsonl", *more) == 0
    [line] = lines(tmp_path / "out.jsonl")
    assert (line["valid"], line["progress"], line["strict_valid"]) == (True, 1.0, True)
    roles = [(each["role"], "tool_calls" in each) for each in stub.bodies[-1]["messages"]]
    user, call, result, chat = (
        ("user", False),
        ("assistant", True),
        ("tool", False),
        ("assistant", False),
    )
    assert roles == [user, call, result, chat, user, call, result]
    assert stub.bodies[-1]["messages"][2]["tool_call_id"] == "c0"


def test_a_prompted_model_sees_results_as_bfcl_shows_them(tmp_path: Path) -> None:
    script = ["[mkdir(dir_name='x')]", "Made.", "[mkdir(dir_name='y')]", "Hm."]
    tasks = tmp_path / "tasks.json"
    tasks.write_text(json.dumps([MULTI]))
    with endpoint(lambda number, _: said(script[number])) as stub:
        more = ("--agent", "openai:m", "--base_url", stub.url, "--dataset_path", str(tasks))
        assert run(tmp_path / "out.jsonl", *more) == 0
    [line] = lines(tmp_path / "out.jsonl")
    assert (line["valid"], line["progress"]) == (False, 0.5)
    assert line["response"] == [script[:2], script[2:]]
    messages = stub.bodies[1]["messages"]
    assert [each["role"] for each in messages] == ["system", "user", "assistant", "user"]
    assert (
        messages[-1]["content"]
        == "[{'role': 'tool', 'name': \"mkdir(dir_name='x')\", 'content': 'None'}]"
    )


@pytest.mark.parametrize(
    ("agent", "limit"),
    [
        *((agent, 5) for agent in ("oracle", "noop", "random")),
        *(pytest.param(agent, 12, marks=pytest.mark.prove) for agent in ("oracle", "random")),
    ],
)
@pytest.mark.parametrize("form", ["prompting", "tool_call"])
def test_score_and_replay_agree_with_a_run_on_every_category(
    shared: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    agent: str,
    limit: int,
    form: str,
) -> None:
    output, data = tmp_path / "out.jsonl", ("--data_dir", str(shared / "bfcl/data"))
    variants = ("format_sensitivity",) if form == "prompting" else ()
    more = (
        "--agent",
        agent,
        "--form",
        form,
        "--category",
        "all",
        *variants,
        "--limit",
        str(limit),
        "--json",
    )
    assert run(output, *more, *data) == 0
    played = json.loads(capsys.readouterr().out)["categories"]
    assert main(["score", "--input", str(output), "--partial", "--json", *data]) == 0
    [scored] = json.loads(capsys.readouterr().out).values()
    assert {name: each["correct"] for name, each in scored["categories"].items()} == {
        name: each["correct"] for name, each in played.items()
    }
    assert main(["replay", "--input", str(output), "--json", *data]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["identical"], report["different"]) == (
        sum(each["episodes"] for each in played.values()),
        0,
    )
    print(
        f"{agent}, {form}: {report['identical']} logged episodes of {len(played)} categories "
        "replay identically"
    )
    assert limit == 5 or report["identical"] >= 200
    if agent == "oracle":
        low = {name for name, each in played.items() if each["accuracy"] != 1.0}
        assert low <= {"simple_java"}, "truths that no text says in this form"


@pytest.mark.parametrize("form", ["prompting", "tool_call"])
@pytest.mark.parametrize("agent", ["oracle", "random"])
def test_the_result_tree_of_a_run_scores_as_its_lines(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], agent: str, form: str
) -> None:
    """The tree lies where BFCL has it, and holds calls as BFCL's own handlers keep them."""
    output, tree = tmp_path / "out.jsonl", tmp_path / "result"
    data = ("--data_dir", str(shared / "bfcl/data"))
    categories = ("parallel", "irrelevance", "live_simple", "multi_turn_base", "memory_kv")
    more = ("--agent", agent, "--form", form, "--category", *categories, "--limit", "4")
    assert run(output, *more, *data, "--result_dir", str(tree)) == 0
    capsys.readouterr()
    reports = []
    for source in (output, tree):
        command = ["score", "--input", str(source), "--form", form, "--partial", "--json", *data]
        assert main(command) == 0
        [report] = json.loads(capsys.readouterr().out).values()
        reports.append(report)
    assert reports[0] == reports[1]
    files = {str(path.relative_to(tree / agent)) for path in tree.rglob("*.json")}
    assert files == {
        PARALLEL,
        "non_live/BFCL_v4_irrelevance_result.json",
        "live/BFCL_v4_live_simple_result.json",
        "multi_turn/BFCL_v4_multi_turn_base_result.json",
        "agentic/memory/kv/BFCL_v4_memory_kv_result.json",
    }
    first, *_ = lines(tree / agent / PARALLEL)
    ids = [
        json.loads(line)["id"]
        for line in (tree / agent / "non_live/BFCL_v4_parallel_result.json")
        .read_text()
        .splitlines()
    ]
    assert ids == [f"parallel_{number}" for number in range(4)]
    if agent == "oracle":
        result = first["result"]
        assert isinstance(result, str if form == "prompting" else list)
        assert form == "prompting" or isinstance(next(iter(result[0].values())), str)


@pytest.mark.parametrize(
    ("field", "value"),
    [("text", "[pwd()]"), ("results", ["forged"]), ("reward", 1.0), ("observation_sha256", "0")],
)
def test_replay_finds_a_forged_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], field: str, value: Any
) -> None:
    tasks, output = tmp_path / "tasks.json", tmp_path / "out.jsonl"
    tasks.write_text(json.dumps([MULTI]))
    assert run(output, "--agent", "oracle", "--dataset_path", str(tasks)) == 0
    [line] = lines(output)
    assert line["ground_truth"] == MULTI["ground_truth"]
    assert line["messages"][-1]["role"] == "user"
    line["steps"][0][field] = value
    output.write_text(json.dumps(line) + "\n")
    assert main(["replay", "--input", str(output), "--dataset_path", str(tasks)]) == 1
    assert "1 different" in capsys.readouterr().out


def test_dots_of_names_are_put_as_interfaces_for_tool_calls_need_them() -> None:
    task = Task("t", "simple_python", [], [FunctionDoc("a.b", "", {})], [{"a.b": {}}])
    assert task_for_form(task, "prompting") is task
    assert task_for_form(task, "tool_call").ground_truth == [{"a_b": {}}]
    assert task_for_form(task, "tool_call").functions[0].name == "a_b"


def test_a_random_agent_says_the_same_for_the_same_seed() -> None:
    [task, *_] = load_tasks(embedded_path("train"))
    tools = [
        {
            "type": "function",
            "function": {"name": "f", "parameters": {"properties": {}, "required": []}},
        }
    ]

    def texts(seed: int) -> list[str]:
        player = ScriptedAgent("random").make_player(task, "python_calls", seed)
        return [player.answer("", {"tools": tools}) for _ in range(32)]

    assert texts(1) == texts(1) != texts(2)
    assert set(texts(1)) == {"[f()]", "Done."}


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--agent", "dance"), "expected one of oracle, noop, random, hf:FOLDER, openai:MODEL"),
        (("--agent", "hf:/no/such/folder"), "the model cannot be loaded"),
        (("--agent", "noop", "--concurrency", "0"), "--concurrency: got 0, expected at least 1"),
        (("--agent", "noop", "--tools", "X"), "--tools: expected NAME=MODULE:CLASS, got 'X'"),
        (
            ("--agent", "noop", "--form", "tool_call", "--category", "format_sensitivity"),
            "its one form is",
        ),
    ],
)
def test_what_cannot_be_run_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...], told: str
) -> None:
    assert main(["run", "--output", str(tmp_path / "out.jsonl"), *more]) == 2
    assert told in capsys.readouterr().err


def test_what_is_cheap_to_check_is_checked_before_a_model_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load(*_: Any) -> None:
        raise AssertionError("the model is loaded")

    monkeypatch.setattr("fctncalling.evaluation.agents.local_model.LocalModel.__init__", load)
    agent = ("--agent", f"hf:{embedded_path('model')}")
    assert run(tmp_path / "out.jsonl", *agent, "--dataset_path", str(tmp_path / "no.json")) == 2
    assert run(tmp_path / "out.jsonl", *agent, "--data_dir", str(tmp_path)) == 2
    (tmp_path / "old.jsonl").write_text("{}\n")
    assert run(tmp_path / "old.jsonl", *agent, "--dataset_path", str(dataset(tmp_path))) == 2
    assert run(tmp_path / "out.jsonl", "--agent", f"hf:{tmp_path}", "--data_dir", ".") == 2
    assert "has no config.json" in capsys.readouterr().err


def test_a_local_model_has_one_thread_unless_more_are_asked_for() -> None:
    before = torch.get_num_threads()
    try:
        for given, expected in (({}, 1), ({"torch_threads": 2}, 2)):
            LocalModel(LocalSettings(str(embedded_path("model")), **given))
            assert torch.get_num_threads() == expected
    finally:
        torch.set_num_threads(before)


def test_a_local_model_computes_in_the_precision_asked_for() -> None:
    ids, hidden = torch.tensor([[5, 6, 7]]), {}
    for name in ("auto", "float32", "bfloat16"):
        model = LocalModel(LocalSettings(str(embedded_path("model")), compute_dtype=name))._engine
        with torch.no_grad():
            hidden[name] = model.model(ids).logits
    assert all(each.dtype == torch.float32 for each in hidden.values())
    assert torch.equal(hidden["auto"], hidden["float32"])
    error = (hidden["bfloat16"] - hidden["float32"]).abs().max() / hidden["float32"].abs().max()
    assert 2**-16 < error < 2**-4  # bfloat16 has 8 bits


@pytest.mark.parametrize("form", ["prompting", "tool_call"])
def test_a_model_in_a_folder_plays_and_replays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    output, tasks = tmp_path / "out.jsonl", ("--dataset_path", str(embedded_path("held_out")))
    more = ("--agent", f"hf:{embedded_path('model')}", "--form", form, "--limit", "1", *tasks)
    limits = ("--max_new_tokens", "6", "--max_episode_tokens", "8192", "--max_steps_per_turn", "1")
    assert run(output, *more, *limits, "--device", "cpu") == 0
    assert len(lines(output)) == 8, "one of each category"
    capsys.readouterr()
    assert main(["replay", "--input", str(output), *tasks, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["identical"] == 8


def test_the_trainer_s_episode_logs_replay_with_their_own_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(str(embedded_path("model")))
    template = ChatTemplate(tokenizer)
    chosen = load_tasks(embedded_path("train"))[:40]
    envs: list[Any] = [
        FunctionCallingEnv(tasks=chosen, reward="progress", max_steps_per_turn=2) for _ in range(4)
    ]
    texts = [
        "[echo(content='a', file_name='b')]",
        "[nothing(",
        "[pwd()]",
        "Done.",
        "[mkdir(dir_name=float('nan'))]",
    ]
    actor = ScriptedEngine(
        lambda task_id, turn, step, _: texts[(len(task_id) + 3 * turn + step) % len(texts)],
        template.encode,
        template.end_of_turn_id,
    )
    records = collect(envs, actor, template, [task.id for task in chosen], max_episode_tokens=1500)
    log = RunLog(
        tmp_path / "run", {"reward": "progress", "max_steps_per_turn": 2}, tensorboard=False
    )
    path = log.write_episodes("train_000001", records)
    log.close()
    assert main(["replay", "--input", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["identical"] == len(chosen)


def test_a_report_names_the_prompt_style_and_a_compact_run_replays_and_is_not_gone_on_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out.jsonl"
    tasks = ("--agent", "oracle", "--limit", "1", "--dataset_path", str(embedded_path("held_out")))
    assert run(output, *tasks, "--prompt_style", "compact") == 0
    assert "form prompting, prompt style compact" in capsys.readouterr().out
    assert main(["replay", "--input", str(output), *tasks[4:]]) == 0
    assert run(output, *tasks, "--resume") == 2
    assert "was played with prompt_style 'compact'" in capsys.readouterr().err
    more = ("--prompt_style", "compact", "--form", "tool_call")
    assert run(tmp_path / "other.jsonl", *tasks, *more) == 2
    assert "pass --form prompting" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipes_and_open_streams_are_written_through(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A file renamed into its place would replace a device: as root, /dev/null itself."""
    tasks = ("--dataset_path", str(dataset(tmp_path, 2)), "--agent", "oracle")
    answers, pipe, link = (tmp_path / name for name in ("answers.jsonl", "pipe", "link"))
    assert run(answers, *tasks) == 0
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    verdicts = ("verdicts", "--input", str(answers), "--output")
    commands = (("run", *tasks, "--output"), verdicts, ("view", str(answers), "--output"))
    for output in (pipe, link):
        for command in commands:
            with subprocess.Popen(
                ["cat", str(output)], stdout=subprocess.PIPE, text=True
            ) as reader:
                assert main([*command, str(output)]) == 0
                assert "simple_python" in reader.communicate()[0] or command[0] == "view"
            assert output.is_fifo()
    assert link.is_symlink()
    for command in commands[:2]:
        capfd.readouterr()
        assert main([*command, "/proc/self/fd/1"]) == 0
        assert '"id": "simple_python_1"' in capfd.readouterr().out
    assert run(pipe, *tasks, "--result_dir", str(tmp_path / "tree")) == 2
    assert "pipe is no file" in capfd.readouterr().err


def test_two_runs_cannot_write_one_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = ("--dataset_path", str(dataset(tmp_path, 2)), "--agent", "oracle")
    output = tmp_path / "out.jsonl"
    child = (
        "import sys\nfrom pathlib import Path\n"
        "from fctncalling.algorithms.run.run_lock import lock_for_file\n"
        "lock = lock_for_file(Path(sys.argv[1]))\nprint('held', flush=True)\nsys.stdin.read()\n"
    )
    command = [sys.executable, "-c", child, str(output)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        for more in ((), ("--resume",)):
            assert run(output, *tasks, *more) == 2
            error = capsys.readouterr().err
            assert f"{output} is in use by process {other.pid} on" in error
            assert "name another --output" in error
        other.communicate("")
    assert run(output, *tasks) == 0
    assert run(output, *tasks, "--resume") == 0
    assert len(lines(output)) == 2
    assert sorted(each.name for each in tmp_path.iterdir()) == ["out.jsonl", "tasks.json"]


def test_no_link_is_followed_where_a_file_is_written_anew(tmp_path: Path) -> None:
    """In a shared folder anyone may plant a link under a name that can be guessed."""
    tasks = ("--dataset_path", str(dataset(tmp_path, 2)), "--agent", "oracle")
    output, prey = tmp_path / "out.jsonl", tmp_path / "prey"
    prey.write_text("mine")
    assert run(output, *tasks) == 0
    for name in (f".{os.getpid()}.out.jsonl", f".{os.getpid()}.verdicts.jsonl"):
        (tmp_path / name).symlink_to(prey)
    assert run(output, *tasks, "--resume") == 0
    told = ["--input", str(output), "--output", str(tmp_path / "verdicts.jsonl")]
    assert main(["verdicts", *told]) == 0
    assert prey.read_text() == "mine"
    (tmp_path / ".out.jsonl.lock").symlink_to(prey)
    assert run(output, *tasks, "--resume") == 2
    assert prey.read_text() == "mine"


def test_an_interrupted_local_model_keeps_what_ended_and_resumes_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = str(dataset(tmp_path, 7))
    more = ("--agent", f"hf:{embedded_path('model')}", "--dataset_path", tasks)
    more = (*more, "--max_new_tokens", "6", "--concurrency", "2", "--device", "cpu")
    whole, cut, begun = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl", list[int]()
    assert run(whole, *more) == 0
    reset = FunctionCallingEnv.reset

    def reset_until_ctrl_c(env: FunctionCallingEnv, **how: Any) -> Any:
        begun.append(len(lines(cut)) if cut.exists() else 0)
        if len(begun) == 6:  # one of them was the check before the model is loaded
            raise KeyboardInterrupt
        return reset(env, **how)

    monkeypatch.setattr(FunctionCallingEnv, "reset", reset_until_ctrl_c)
    assert run(cut, *more) == 130
    assert begun == [0, 0, 0, 2, 2, 4, 4], "what ended is on disk before two more begin"
    assert run(cut, *more, "--resume") == 0
    assert len(begun) == 7 + 1 + 3
    by_task = [sorted(lines(path), key=lambda line: line["id"]) for path in (whole, cut)]
    assert by_task[0] == by_task[1]
