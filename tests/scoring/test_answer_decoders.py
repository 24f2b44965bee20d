"""Answers are read as the leaderboard's handlers read them, found where nobody says how, and never
scored wrong in silence.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fctncalling.cli.evaluate import main
from fctncalling.cli.score.answer_decoders import answer_decoder
from fctncalling.cli.score.readings import leaderboard_models
from fctncalling.data.bfcl import load_tasks
from fctncalling.data.types import Call, Task
from fctncalling.envs.handlers import DecodeError, get_handler
from fctncalling.envs.judging.oracle import oracle_calls

VECTORS = json.loads((Path(__file__).parents[1] / "support/decoder_vectors.json").read_text())
# The package hands words of such a model to its tools as they are; here they call nothing.
EXECUTES_WORDS = {"GraniteFunctionCallingHandler"}
# Read by our table of call forms, not bug for bug.
BY_FORM = {"FunctionGemmaHandler"}


@pytest.mark.parametrize("name", VECTORS["read"])
def test_odd_answers_are_read_as_the_packages_classes_read_them(name: str) -> None:
    official = {index: (calls, strings) for index, calls, strings in VECTORS["read"][name]}
    decoder = answer_decoder(name.split()[0], "lists" if name.endswith(" fc") else "text")
    handler = get_handler("tool_calls" if decoder.form == "tool_call" else "python_calls")
    for index, answer in enumerate(VECTORS["answers"]):
        calls, strings = official.get(index, (None, None))
        if name in BY_FORM and (calls is None or "<escape>" not in answer):
            continue

        def read(executes: bool, of: Callable[[str], Any], answer: Any = answer) -> Any:
            text = decoder.decode(answer, executes=executes)
            if decoder.is_default:
                text = json.dumps(answer) if decoder.form == "tool_call" else answer
            try:
                return of(text) or None
            except DecodeError:
                return None

        record = read(False, handler.decode_ast)
        record = (
            record
            if record and all(isinstance(v, dict) for e in record for v in e.values())
            else None
        )
        assert json.loads(json.dumps(record)) == calls, answer
        if name not in EXECUTES_WORDS and not decoder.is_default:
            executed = read(True, handler.decode_execute)
            assert [each.replace(", ", ",") for each in executed or ()] == [
                each.replace(", ", ",") for each in strings or ()
            ], answer


def named(call: Call, arguments: str = "arguments", name: str = "name") -> dict[str, Any]:
    return {name: call.name, arguments: dict(call.arguments)}


def tagged(call: Call) -> str:
    return f"<tool_call>\n{json.dumps(named(call))}\n</tool_call>"


WRITERS: dict[str, Callable[[Call], Any]] = {
    "JSON text, dots kept": lambda call: [{call.name: json.dumps(dict(call.arguments))}],
    "objects": lambda call: [{call.name.replace(".", "_"): dict(call.arguments)}],
    "tool_name": lambda call: [named(call, "parameters", "tool_name")],
    "tags": tagged,
    "name above": lambda call: f"{call.name}\n{json.dumps(dict(call.arguments))}",
    "function_call": lambda call: f"<function_call> {json.dumps(named(call))}",
    "tool_calls": lambda call: json.dumps({"tool_calls": [named(call)]}),
}
"""Way of writing -> a call in it; BFCL's default decoders read none of them rightly."""


@pytest.fixture(scope="module")
def tasks(shared: Path) -> list[Task]:
    found = load_tasks(shared / "bfcl/data/BFCL_v4_simple_python.json")
    return [task for task in found if "." in task.functions[0].name][:60]


def write_tree(root: Path, tasks: list[Task], write: Callable[[Call], Any], model: str) -> Path:
    path = root / "result" / model / "non_live/BFCL_v4_simple_python_result.json"
    path.parent.mkdir(parents=True)
    calls = ((task.id, oracle_calls(task)[0][0]) for task in tasks)
    lines = (json.dumps({"id": name, "result": write(call)}) for name, call in calls)
    path.write_text("\n".join(lines))
    return path


def score(shared: Path, source: Path, *more: str) -> int:
    data = ("--dataset_path", str(shared / "bfcl/data"))
    return main(["score", "--input", str(source), *data, "--partial", "--json", *more])


def accuracy(capsys: pytest.CaptureFixture[str], model: str = "some_model") -> tuple[float, str]:
    out, err = capsys.readouterr()
    found: float = json.loads(out)[model]["categories"]["simple_python"]["accuracy"]
    return found, err


@pytest.mark.parametrize("way", WRITERS)
def test_a_tree_in_an_unknown_form_is_told_and_auto_finds_its_form(
    way: str,
    tasks: list[Task],
    shared: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = write_tree(tmp_path, tasks, WRITERS[way], "some_model")
    assert score(shared, tmp_path / "result") == 2
    right, told = accuracy(capsys)
    assert right < 0.75
    assert "some_model, simple_python: 60 of 60 answers" in told
    assert ("--dots keep" if "dots" in way else "--handler auto") in told
    assert score(shared, path, "--handler", "auto") == 0  # a single file of a tree, too
    right, told = accuracy(capsys)
    assert right == 1.0
    assert told == ""


@pytest.mark.parametrize("name", ["D01", "D27", "D28"])
def test_an_answer_that_was_scored_wrong_in_silence_is_told_and_found(
    name: str, shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = map(json.loads, (shared / "cases/apis_answers_logs.jsonl").read_text().splitlines())
    [case] = [each for each in cases if each["id"] == name]
    path = tmp_path / "result/some_model/non_live/BFCL_v4_simple_python_result.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(case["input"]["line"]))
    assert score(shared, tmp_path / "result") == 2
    assert "1 of 1 answers" in accuracy(capsys)[1]
    assert score(shared, tmp_path / "result", "--handler", "auto") == 0
    assert accuracy(capsys)[0] == 1.0


def test_a_model_of_the_leaderboard_is_read_by_its_own_handler(
    tasks: list[Task], shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "Qwen_Qwen3-8B-FC"
    write_tree(tmp_path, tasks, tagged, name)
    assert score(shared, tmp_path / "result") == 0
    assert accuracy(capsys, name) == (1.0, "")
    assert score(shared, tmp_path / "result", "--handler", "NovaHandler") == 2  # reads none
    right, told = accuracy(capsys, name)
    assert (right, "60 of 60 answers bear calls" in told) == (0.0, True)
    assert score(shared, tmp_path / "result", "--dots", "underscore") == 0
    assert accuracy(capsys, name)[0] == 0.0
    assert score(shared, tmp_path / "result", "--handler", "QwenFCHandle") == 2
    assert "such as QwenFCHandler" in capsys.readouterr().err


def test_lines_of_answers_are_read_as_they_say_or_as_is_asked(
    tasks: list[Task], shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "lines.jsonl", tmp_path / "out.jsonl"
    head = {"category": "simple_python", "form": "prompting"}
    calls = [(task.id, oracle_calls(task)[0][0]) for task in tasks]
    lines = [{**head, "id": name, "response": tagged(call)} for name, call in calls]
    path.write_text("\n".join(map(json.dumps, lines)))
    data = ("--dataset_path", str(shared / "bfcl/data"))
    for flags, expected in (((), 0.0), (("--handler", "auto"), 1.0)):
        assert score(shared, path, *flags) == 0
        right, told = accuracy(capsys, "results")
        assert right == expected
        assert ("60 of 60 answers bear calls" in told) == (expected == 0)
        assert main(["verdicts", *data, "--input", str(path), "--output", str(out), *flags]) == 0
        judged = [json.loads(line)["valid"] for line in out.read_text().splitlines()]
        assert judged == [bool(expected)] * len(tasks)
        capsys.readouterr()


def test_a_weak_model_that_answers_in_prose_is_scored_without_a_word(
    tasks: list[Task], shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prose = "You could use `%s` (it takes arguments); I cannot."
    write_tree(tmp_path, tasks, lambda call: prose % call.name, "some_model")
    assert score(shared, tmp_path / "result") == 0
    assert accuracy(capsys) == (0.0, "")


def test_why_and_verdicts_and_view_take_a_tree_and_say_official_of_a_known_decoder_alone(
    tasks: list[Task], shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_tree(tmp_path, tasks, WRITERS["tool_name"], "some_model")
    data = ("--dataset_path", str(shared / "bfcl/data"))
    out = tmp_path / "out.jsonl"
    assert main(["why", str(path), *data]) == 2
    assert "as BFCL's default decoder reads them 0.0 %" in capsys.readouterr().out
    assert main(["why", str(path), *data, "--handler", "CohereHandler", "--dots", "keep"]) == 0
    assert "  official 100.0 %" in capsys.readouterr().out
    for source in (path, tmp_path / "result"):
        flags = ("--input", str(source), "--output", str(out), "--handler", "auto")
        assert main(["verdicts", *data, *flags]) == 0
        records = [json.loads(line) for line in out.read_text().splitlines()]
        assert [each["id"] for each in records] == [task.id for task in tasks]
        assert all(each["valid"] for each in records)
    assert (
        main(["verdicts", *data, "--input", str(out), "--output", str(tmp_path / "b.jsonl")]) == 0
    )
    assert (tmp_path / "b.jsonl").read_text() == out.read_text()  # each names the form it is in
    page = tmp_path / "page.html"
    capsys.readouterr()
    assert main(["view", str(path), *data, "--output", str(page), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["episodes"] == 60
    packed = re.search(r'<script id="data"[^>]*>([^<]*)<', page.read_text())
    assert packed
    shown = json.loads(gzip.decompress(base64.b64decode(packed[1])))["episodes"]
    assert {each["error_type"] for each in shown} == {"ast_decoder:decoder_failed"}
    assert [each["task"] for each in shown] == [task.id for task in tasks]
    assert '"tool_name"' in shown[0]["steps"][0]["text"]  # as it was written
    assert shown[0]["truth"] == tasks[0].ground_truth


def test_the_table_names_decoders_that_exist_and_trees_of_either_release() -> None:
    table = leaderboard_models()
    assert {each.release for each in table.values()} == {"2026.3.23", "2024-08-11"}
    assert sum(each.release == "2026.3.23" for each in table.values()) == 175
    for known in table.values():
        decoder = answer_decoder(known.handler, known.holds)
        assert (
            decoder.is_default or decoder.takes_text == (known.holds == "text") or decoder.handler
        )
        assert known.dots in ("keep", "underscore")


def test_a_truth_that_is_known_to_be_wrong_is_named_where_an_answer_fails_by_it(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = "live_multiple_17-4-9"
    path = tmp_path / "result/some_model/live/BFCL_v4_live_multiple_result.json"
    path.parent.mkdir(parents=True)
    korean = "[cookbook.search_recipe(keyword='sikhae', cuisine='Korean')]"
    path.write_text(json.dumps({"id": wrong, "result": korean}))
    data = ("--dataset_path", str(shared / "bfcl/data"))
    assert main(["score", "--input", str(path), *data, "--partial"]) == 0
    assert f"{wrong} (gorilla#1169" in capsys.readouterr().out
    assert main(["why", str(path), *data]) == 0
    assert f"{wrong} (gorilla#1169" in capsys.readouterr().out


@pytest.mark.parametrize(
    "flags", ["--handler hermes_calls", "--handler glm_calls --dots underscore"]
)
def test_conformance_writes_answers_in_a_form_and_reads_them_in_it(
    flags: str, shared: Path, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    given = ["--category", "multiple", "--answers", "1", "--json", str(report), *flags.split()]
    data = ["--data_dir", str(shared / "bfcl/data")]
    assert main(["conformance", "--scorer", "self", *data, *given]) == 0
    found = json.loads(report.read_text())
    assert found["agreement"] == 1.0
    assert found["count"] > 100


def python_text(call: Call) -> str:
    return (
        f"[{call.name}({', '.join(f'{key}={value!r}' for key, value in call.arguments.items())})]"
    )


def objects(call: Call) -> list[dict[str, str]]:
    return [{call.name.replace(".", "_"): json.dumps(dict(call.arguments))}]


MIXED: dict[str, tuple[int, float, int, str]] = {
    # answers that are lists, of 60 -> accuracy, exit code, and how all are read
    "texts": (1, 59 / 60, 0, "read as texts, by BFCL's default decoder"),
    "a tie": (30, 0.5, 2, "read as texts, by BFCL's default decoder"),
    "calls": (59, 59 / 60, 0, "read as tool calls, by BFCL's default decoder"),
    "many texts": (40, 40 / 60, 2, "read as tool calls, by BFCL's default decoder"),
}


@pytest.mark.parametrize("name", MIXED)
def test_most_answers_with_calls_say_how_all_are_read_and_others_are_counted(
    name: str,
    tasks: list[Task],
    shared: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    num_lists, right, status, header = MIXED[name]
    left = iter(range(60))
    path = write_tree(
        tmp_path,
        tasks,
        lambda call: (objects if next(left) * num_lists % 60 < num_lists else python_text)(call),
        "some_model",
    )
    assert score(shared, tmp_path / "result") == status
    found, told = accuracy(capsys)
    assert found == pytest.approx(right)
    others = num_lists if "texts" in header else 60 - num_lists
    assert f"some_model: {others} of 60 answers hold " in told
    assert ("bear calls and decode to nothing" in told) == (status == 2)
    data = ("--dataset_path", str(shared / "bfcl/data"))
    assert main(["score", "--input", str(path), *data, "--partial"]) == status
    assert capsys.readouterr().out.splitlines()[1] == header


def test_chat_does_not_say_that_tool_calls_are_texts(
    tasks: list[Task], shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left = iter(range(60))
    chat = "No function of these fits: may I ask for more?"
    write_tree(
        tmp_path, tasks, lambda call: chat if next(left) < 45 else objects(call), "some_model"
    )
    assert score(shared, tmp_path / "result") == 0
    assert accuracy(capsys) == (0.25, "")


def test_one_text_of_openai_calls_does_not_say_how_auto_reads_the_others(
    tasks: list[Task], shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left = iter(range(60))

    def write(call: Call) -> Any:
        function = {"name": call.name, "arguments": json.dumps(dict(call.arguments))}
        return python_text(call) if next(left) else json.dumps([{"function": function}])

    write_tree(tmp_path, tasks, write, "some_model")
    assert score(shared, tmp_path / "result", "--handler", "auto") == 0
    assert accuracy(capsys)[0] == pytest.approx(59 / 60)
