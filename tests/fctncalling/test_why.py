"""`why` names what was planted: the cause, the first failing turn, and an answer that passes."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from conftest import VerdictCounter

from evaluate_fctncalling import main
from fctncalling.cli.shared import task_finder
from fctncalling.cli.shared.jsonl_records import SourceRecord, read_records
from fctncalling.cli.shared.task_finder import TaskIndex
from fctncalling.data.bfcl import embedded_path, iter_tasks, load_tasks
from fctncalling.data.types import Call, FunctionDoc, Task
from fctncalling.envs.handlers import get_handler
from fctncalling.envs.judging.judge import judge
from fctncalling.envs.judging.oracle import oracle_calls
from fctncalling.lab.error_analysis import CURES, diagnose

PYTHON = get_handler("python_calls")
JSON = get_handler("json_calls")


def newline_separated(calls: list[Call]) -> str:
    return "\n".join(PYTHON.render([call])[1:-1] for call in calls)


def with_texts_for_numbers(calls: list[Call]) -> str:
    texts = [
        Call(call.name, {key: [str(value)] for key, value in call.arguments.items()})
        for call in calls
    ]
    return PYTHON.render(texts)


PLANTED: dict[str, Callable[[list[Call]], str]] = {
    "separator": newline_separated,
    "wrong form": lambda calls: json.dumps(
        [{"name": call.name, "arguments": dict(call.arguments)} for call in calls]
    ),
    "fenced code": lambda calls: f"```python\n{PYTHON.render(calls)}\n```",
    "wrong type": with_texts_for_numbers,
    "never called": lambda calls: "I am sorry, but I cannot do that for you.",
    "inference error": lambda calls: "Error during inference: Error code: 429 - {'error': 'quota'}",
}


def embedded_tasks() -> Iterator[Task]:
    """Yield tasks that expect two calls or more, so that every planted fault fits each."""
    for task in iter_tasks(embedded_path("held_out")):
        if task.kind == "parallel":
            yield task


def write_answers(folder: Path, answer: Callable[[list[Call]], str], layout: str) -> Path:
    """Write one answer for each task, a right one now and then, as a user has them."""
    if layout == "lines":
        path = folder / "answers.jsonl"
    else:
        path = folder / "result/a_model/non_live/BFCL_v4_parallel_result.json"
        path.parent.mkdir(parents=True)
    with path.open("w") as file:
        for number, task in enumerate(embedded_tasks()):
            if layout != "lines" and task.category != "parallel":
                continue
            [calls] = oracle_calls(task)
            text = PYTHON.render(calls) if number % 9 == 8 else answer(calls)
            entry = {"id": task.id, "category": task.category, "form": "prompting"}
            if layout == "lines":
                file.write(json.dumps({**entry, "response": text}) + "\n")
            else:
                file.write(json.dumps({"id": task.id, "result": text}) + "\n")
    return {"lines": path, "tree": folder / "result", "file": path}[layout]


@pytest.mark.parametrize("layout", ["lines", "tree", "file"])
@pytest.mark.parametrize("cause", PLANTED)
def test_a_planted_cause_is_named_first(
    cause: str, layout: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_answers(tmp_path, PLANTED[cause], layout)
    is_unread = cause == "wrong form" and layout != "lines"  # whose decoder was not named
    assert main(["why", str(path), "--json"]) == (2 if is_unread else 0)
    [categories] = json.loads(capsys.readouterr().out)["models"].values()
    for report in categories.values():
        [first] = report["causes"]  # nothing else is found
        assert (first["cause"], first["share"]) == (cause, 1.0)
        assert len(first["examples"]) == 3
        assert report["inference_errors"] == first["count"] * (cause == "inference error")
        form, types = cause in ("separator", "wrong form", "fenced code"), cause == "wrong type"
        assert first["passes_with_form_mended"] == first["count"] * form
        assert first["passes_with_types_mended"] == first["count"] * (form or types)
        assert report["rates"]["lenient"] == (1.0 if form else report["rates"]["valid"])


def test_the_report_leads_with_the_cause_its_cure_and_an_answer_that_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_answers(tmp_path, newline_separated, "tree")
    assert main(["why", str(path), "--examples", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "parallel (a_model): 3 of 28 answers right"
    assert lines[1].startswith("  as BFCL's default decoder reads them 10.7 %")
    assert "read leniently 100.0 %" in lines[1]
    assert (
        lines[2]
        == "  1. separator: 25 of 25 failures (100.0 %), 25 of them pass once that is mended"
    )
    assert lines[3].strip().startswith("change: Ask for one list")
    assert sum("would pass: [" in line for line in lines) == 1
    assert any("ast_decoder:decoder_failed 25" in line for line in lines)


def test_several_categories_are_led_by_all_failures_and_a_table_of_commonest_causes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_answers(tmp_path, PLANTED["fenced code"], "lines")
    assert main(["why", str(path), "--examples", "0"]) == 0
    summary, table = capsys.readouterr().out.split("\n\n")[:2]
    table = table.splitlines()
    assert [line.split()[0] for line in table] == ["category", "parallel", "parallel_multiple"]
    assert all(line.endswith("fenced code 100 %") for line in table[1:])
    assert summary.endswith("of 56 answers right; the failures: fenced code 50 (100.0 %)"), summary


def test_a_reader_that_stops_reading_ends_it_without_a_word(tmp_path: Path) -> None:
    path = write_answers(tmp_path, newline_separated, "lines")
    program = Path(__file__).parents[2] / "evaluate_fctncalling.py"
    command = [sys.executable, str(program), "why", str(path), "--examples", "999"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141  # as a shell says of a program that SIGPIPE ends


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("no json", "line 1: expected a JSON object"),
        ('{"id": "parallel_90001"}', 'line 1: field "category"'),
        (
            '{"id": "x_1", "category": "parallel", "response": ""}',
            "Name the tasks that were answered",
        ),
        ('{"id": 1, "category": "parallel", "response": ""}', "a task's id"),
        ('{"id": "parallel_90001", "category": "parallel"}', 'field "response"'),
        ("", "there are no answers"),
    ],
)
def test_unreadable_input_is_one_line_and_exit_code_2(
    content: str,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # the training set is large
    monkeypatch.setattr(task_finder, "_usual_paths", lambda line: [embedded_path("held_out")])
    path = tmp_path / "answers.jsonl"
    path.write_text(content)
    assert main(["why", str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert message in captured.err


def test_infrastructure_failures_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_answers(tmp_path, newline_separated, "lines")
    [first, *rest] = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps({**json.loads(first), "invalid": True}), *rest]))
    assert main(["why", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["invalid"] == 1
    answers = sum(each["answers"] for each in found["models"]["results"].values())
    assert answers == len(rest)


TASK = Task(
    "simple_python_1",
    "simple_python",
    [[{"role": "user", "content": "How warm is it in Rome, in celsius?"}]],
    [
        FunctionDoc(
            "weather.get",
            "",
            {
                "type": "dict",
                "properties": {
                    "city": {"type": "string"},
                    "days": {"type": "integer"},
                    "metric": {"type": "boolean"},
                },
                "required": ["city"],
            },
        )
    ],
    ground_truth=[{"weather.get": {"city": ["Rome"], "days": [3], "metric": [True, ""]}}],
)
ANSWERS = {
    "[weather.get(city='Rome', days=3)]": (),
    "weather.get(city='Oslo', days=3)": ("wrong argument",),
    "weather.get(city='Rome', days='3')": ("wrong type",),
    "weather.get(city='Rome', days=3, metric=true)": ("wrong type",),
    "weather.get('Rome', 3)": ("positional arguments",),
    "weather_get(city='Rome', days=3)": ("misspelt function",),
    "weather.set(city='Rome', days=3)": ("wrong function",),
    "weather.get(city='Rome')": ("missing argument",),
    "weather.get(city='Rome', days=3, unit='C')": ("unexpected argument",),
    "[weather.get(city='Rome', days=3), weather.get(city='Rome', days=3)]": ("too many calls",),
    "[weather.get({'city': 'Rome', 'days': 3})]": ("arguments in a dict",),
    "[weather.get({'city': 'Rome', 'days': '3'})]": ("arguments in a dict", "wrong type"),
    "[[weather.get(city='Rome', days=3)]]": ("brackets",),
    "[\"weather.get(city='Rome', days=3)\"]": ("quoted calls",),
    "['weather.get', city='Rome', days=3]": ("broken call",),
    "[{'weather.get', city: 'Rome', days: 3}]": ("broken call",),
    "[None]": ("never called",),
    "Sure: [weather.get(city='Rome', days=3)]": ("text around the calls",),
    "<think>Rome?</think>\nweather.get(city='Rome', days=3)": ("reasoning in the answer",),
    "<think>Rome? It must be weather.get(city='Rome'": ("truncated",),
    "[weather.get(city='Rome', days=": ("truncated",),
    "result = weather.get(city='Rome', days=3)\nprint(result)": ("code instead of calls",),
    "print(weather.get(city='Rome', days=3))": ("code instead of calls",),
    "def weather.get(city, days):\n    return 5": ("code instead of calls",),
    "weather.get(city=''New York', days=3)": ("quotation marks",),
    "[weather.get(city=New York, days=3)]": ("quotation marks",),
    "[weather.get(city='New York, days=3)]": ("quotation marks",),
    "[weather.get(city: 'Rome', days=3)]": ("colon in place of =",),
    "[weather.get(city='at 3: Rome', days: 3)]": ("colon in place of =", "wrong argument"),
    "[weather.get(city='Rome', days=3]": ("brackets",),
    "[weather.get({city='Rome', days=3})]": ("arguments in a dict",),
    "[weather.get(city='Rome', from='here')]": ("unreadable call",),
    "weather.get(city=f'{town}', days=3)": ("unreadable call",),
    '<tool_call>\n{"name": "weather.get", "arguments": {"city": "Rome", "days": 3}}</tool_call>': (
        "wrong form",
    ),
    "{'function': {'name': 'weather.get', 'arguments': '{\"city\": \"Rome\", \"days\": 3}'}}": (
        "wrong form",
    ),
    '```json\n{"weather.get": {"city": "Rome", "days": "3"}}\n```': (
        "fenced code",
        "wrong form",
        "wrong type",
    ),
    "": ("never called",),
    "[]": ("never called",),
    "Rome is lovely.": ("never called",),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_all_that_has_to_be_mended_is_named_in_order(answer: str) -> None:
    found = diagnose(TASK, answer)
    assert found.causes == ANSWERS[answer]
    assert found.verdict == judge(TASK, answer)
    assert found.verdict.valid or judge(TASK, found.nearest).valid


@pytest.mark.parametrize(
    "response", [None, 5, {}, [], [[]], [["x"]], "(" * 9999, "\0", "[" + "f(" * 500]
)
@pytest.mark.parametrize("form", ["prompting", "tool_call"])
def test_no_answer_whatsoever_breaks_the_report(response: Any, form: str) -> None:
    for task in (TASK, *load_tasks(embedded_path("held_out"))[::40]):
        found = diagnose(task, response, form)
        assert found.verdict.valid or found.cause in CURES


CAUSES = {
    "chat_only": "never called",
    "code_fence_python": "fenced code",
    "json_calls": "wrong form",
    "malformed_unclosed": "truncated",
    "assignment": "code instead of calls",
    "await_call": "code instead of calls",
    "print_wrapped": "code instead of calls",
    "text_prefix": "text around the calls",
    "semicolon": "separator",
    "double_brackets": "brackets",
    "wrong_func_name": "wrong function",
    "func_name_dot_to_underscore": "misspelt function",
    "missing_required": "missing argument",
    "extra_param_unknown": "unexpected argument",
    "positional_all": "positional arguments",
    "wrong_value_str": "wrong argument",
    "wrong_type_num_to_str": "wrong type",
    "extra_call_duplicate": "too many calls",
    "raw_force_terminated": "turns missing",
    "raw_not_a_list": "inference error",
    "raw_unclosed": "truncated",
    "raw_prefix_text": "text around the calls",
    "mt_all_empty": "never called",
    "mt_one_turn_more": "too many turns",
    "mt_alter_arg": "wrong argument",
    "mt_replaced_by_unknown": "missing call",
    "mt_reorder_reverse": "call order",
    "ag_unknown": "wrong answer",
    "ag_function_call": "never answered",
    "fc_extra_param": "unexpected argument",
    "fc_chat": "never called",
    "fc_wrong_name": "wrong function",
    "fc_args_bad_json": "unreadable call",
}
"""How a recorded answer was spoilt -> what has to be named."""
TABLES = {
    "simple_python": 23,
    "live_multiple": 97,
    "parallel_multiple": 29,
    "raw_multi_turn_base": 7,
    "multi_turn_miss_func": 11,
    "fc_multiple": 13,
    "web_search": 5,
}


@pytest.mark.parametrize("table", TABLES)
def test_official_mutations_are_named_and_mended(
    shared: Path, table: str, verdict_counter: VerdictCounter
) -> None:
    tasks = TaskIndex(shared / "bfcl/data")
    named: Counter[bool] = Counter()
    path = shared / "bfcl/verdicts" / f"{table}.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for number, text in enumerate(file):
            if number % TABLES[table]:
                continue
            record = json.loads(text)
            task = tasks.find_task(SourceRecord(path, number, record))
            found = diagnose(task, record["response"], record["form"])
            verdict_counter.add(1)
            assert found.verdict.valid == record["valid"]
            if found.verdict.valid:
                continue
            if expected := CAUSES.get(record["mutation"]):
                named[found.cause == expected] += 1
            if task.kind in ("simple", "multiple", "parallel"):
                assert found.nearest is not None or found.causes == ("faulty ground truth",)
                assert found.nearest is None or judge(task, found.nearest, record["form"]).valid
    assert named[True] > 20
    assert named[False] <= 0.05 * named[True]


@pytest.mark.prove
def test_every_recorded_failure_has_a_cause_and_every_nearest_answer_passes(
    shared: Path, verdict_counter: VerdictCounter
) -> None:
    tasks = TaskIndex(shared / "bfcl/data")
    unjudged = ("decode_cases", "multi_turn_exec", "multi_turn_fuzz")
    paths = sorted((shared / "bfcl/verdicts").glob("*.jsonl.gz"))
    for path in (each for each in paths if not each.name.startswith(unjudged)):
        for line in islice(read_records(path), 0, None, 3):
            record = line.record
            task = tasks.find_task(line)
            found = diagnose(task, record["response"], record["form"])
            verdict_counter.add(1)
            assert found.verdict.valid == record["valid"]
            assert found.verdict.valid or found.cause in CURES
            if found.nearest is not None and task.kind in ("simple", "multiple", "parallel"):
                assert judge(task, found.nearest, record["form"]).valid


def test_calls_of_an_interface_are_shown_as_calls_are_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [task, *_] = [each for each in embedded_tasks() if each.category == "parallel"]
    calls = [{"add_item": json.dumps({"item": 'a "b"', "list": "c"})}, {"clear": "{}"}]
    entry = {"id": task.id, "category": task.category, "form": "tool_call"}
    path = tmp_path / "answers.jsonl"
    path.write_text(json.dumps({**entry, "response": json.dumps(calls)}) + "\n")
    assert main(["why", str(path)]) == 0
    out = capsys.readouterr().out
    assert """: [add_item(item='a "b"', list='c'), clear()]""" in out
    assert "would pass: [" in out
    assert '\\"' not in out


UNNAMED: dict[str, tuple[str, str, tuple[str, ...], bool]] = {
    # a spoilt first turn's text, and what takes its place -> causes, and whether form suffices
    "positional": ("cd(folder=", "cd(", ("positional arguments",), True),
    "missing": ("cd(folder='document')", "cd()", ("missing argument",), False),
    "both": (
        "cd(folder='document'), mkdir(dir_name='temp')",
        "cd('document'), mkdir()",
        ("positional arguments", "missing argument"),
        False,
    ),
    "a value": ("dir_name='temp'", "dir_name='tmp'", ("wrong argument",), False),
}


@pytest.mark.parametrize("name", UNNAMED)
def test_positional_and_missing_arguments_of_a_turn_are_no_wrong_values(
    name: str, shared: Path
) -> None:
    old, new, causes, suffices = UNNAMED[name]
    task = load_tasks(shared / "bfcl/data/BFCL_v4_multi_turn_base.json")[0]
    turns = [
        f"[{', '.join(turn)}]".replace("sort(", "sort(file_name=") for turn in task.ground_truth
    ]
    assert diagnose(task, [[turn] for turn in turns]).verdict.valid
    spoilt = [[turn.replace(old, new)] for turn in turns]  # of every turn that has it
    assert spoilt != [[turn] for turn in turns]
    found = diagnose(task, spoilt)
    assert (found.causes, found.turn, found.form_suffices) == (causes, 0, suffices)
    assert found.nearest is not None
