"""`lint` finds the tasks whose own ground truth BFCL rejects, and no other is called impossible."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evaluate_fctncalling import main
from fctncalling.checkers import ARGUMENT_CHECKERS
from fctncalling.data.bfcl import embedded_path, load_tasks
from fctncalling.data.categories import category_language
from fctncalling.data.types import FunctionDoc, Task
from fctncalling.lab.lint import lint_task

PARAMETERS = {
    "type": "dict",
    "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
    "required": ["a"],
}
TASK = Task(
    id="simple_python_0",
    category="simple_python",
    question=[[{"role": "user", "content": "?"}]],
    functions=[FunctionDoc("f", "", PARAMETERS)],
    ground_truth=[{"f": {"a": [1], "b": ["x", ""]}}],
)


def rules(task: Task) -> set[tuple[str, str]]:
    return {(each.level, each.check) for each in lint_task(task)}


def test_a_sound_task_has_no_findings() -> None:
    assert rules(TASK) == set()


def test_requests_that_name_no_function_and_prompts_beyond_the_context_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    docs = [FunctionDoc(f"get_{noun}", f"Get a {noun}.", PARAMETERS) for noun in ("tree", "ship")]
    said = {
        "Good morning, get 1rAeqf3RWBXj5uWEIIUinl please.": {("suspicious", "unnamed_function")},
        "Could you get the ships, 1?": set(),
        "Sail it to 1.": set(),
    }
    truth = [{"get_ship": {"a": [1]}}]
    asked = replace(TASK, id="multiple_0", category="multiple", ground_truth=truth)
    for text, expected in said.items():
        question = [[{"role": "user", "content": text}]]
        assert rules(replace(asked, question=question, functions=docs)) == expected
        assert rules(replace(asked, question=question, functions=docs[1:])) == set()
    long = {"id": "irrelevance_0", "question": [[{"role": "user", "content": "words. " * 3000}]]}
    file = tmp_path / "tasks.json"
    doc = {"name": "f", "description": "F.", "parameters": PARAMETERS}
    file.write_text(json.dumps([{**long, "function": [doc]}]))
    model = str(embedded_path("model"))
    for flags, told in (
        ([], "nothing found"),
        (["--context", "1000"], "about 5,"),
        (["--model", model], "4,096"),
    ):
        assert main(["lint", "--dataset_path", str(file), *flags]) == 0
        assert told in capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        "Send it to <app.Place object at 0x7f2a>.",
        "Send it to {'city': 'Riga', 'zip': 1010}.",
        "Send it with the note None.",
        "Send it to [object Object].",
        "It weighs NaN kilos.",
    ],
)
def test_a_request_that_says_an_object_as_programs_write_it_is_found(text: str) -> None:
    asked = replace(TASK, question=[[{"role": "user", "content": text}]])
    assert rules(asked) == {("suspicious", "object_said")}
    irrelevant = replace(asked, category="irrelevance", ground_truth=None)
    assert rules(irrelevant) == {("suspicious", "object_said")}


def test_what_people_write_and_values_that_are_named_none_are_not_found() -> None:
    for text in ("None of them, please.", "Which? None of it!", "Use {a: 1} in f(x).", "Nanette."):
        assert rules(replace(TASK, question=[[{"role": "user", "content": text}]])) == set()
    listed = replace(TASK, question=[[{"role": "user", "content": "Set b to None."}]])
    assert rules(listed) == {("suspicious", "object_said")}
    assert rules(replace(listed, ground_truth=[{"f": {"a": [1], "b": ["None"]}}])) == set()


@pytest.mark.parametrize(
    ("truth", "expected"),
    [
        (
            {"f": {"a": [], "b": ["x", ""]}},
            {("suspicious", "nothing_accepted"), ("impossible", "truth_rejected")},
        ),
        ({"f": {"a": ["one"]}}, set()),
        (
            {"f": {"a": [1], "c": [2]}},
            {("suspicious", "undocumented_parameter"), ("impossible", "truth_rejected")},
        ),
        ({"f": {"a": [1], "c": [2, ""]}}, {("suspicious", "undocumented_parameter")}),
        (
            {"f": {"b": ["x"]}},
            {("suspicious", "unexpected_required"), ("impossible", "truth_rejected")},
        ),
        ({"f": {"a": 1}}, {("suspicious", "no_list"), ("impossible", "truth_rejected")}),
    ],
)
def test_contradictions_of_truth_and_docs_are_found(
    truth: dict[str, Any], expected: set[tuple[str, str]]
) -> None:
    assert rules(replace(TASK, ground_truth=[truth])) >= expected
    impossible = {
        each for each in rules(replace(TASK, ground_truth=[truth])) if each[0] == "impossible"
    }
    assert impossible == {each for each in expected if each[0] == "impossible"}


def test_an_answer_that_is_found_everywhere_or_nowhere_is_found() -> None:
    memory = replace(TASK, id="memory_kv_0", category="memory_kv", ground_truth=["blue"])
    assert rules(memory) == set()
    assert ("suspicious", "anything_accepted") in rules(replace(memory, ground_truth=["..."]))
    assert ("impossible", "truth_rejected") in rules(replace(memory, ground_truth=["+"]))


@pytest.mark.parametrize(
    ("category", "impossible"),
    [
        ("simple_python", set()),
        ("live_simple", {"live_simple_106-63-0", "live_simple_112-68-0"}),
        ("live_multiple", {"live_multiple_862-181-3", "live_multiple_964-207-0"}),
        ("parallel", set()),
        ("simple_java", {"simple_java_36", "simple_java_65"}),
        ("simple_javascript", set()),
        ("multi_turn_base", set()),
        ("web_search", set()),
        ("memory_kv", set()),
    ],
)
def test_impossible_tasks_are_those_the_official_checker_rejects(
    shared: Path, category: str, impossible: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if category_language(category) not in ARGUMENT_CHECKERS:
        pytest.skip(f"no converter of {category_language(category)} is registered")
    monkeypatch.setenv("FCTNCALLING_LONG_CONTEXT", str(shared / "bfcl/data/long_context.json"))
    found = defaultdict(set)
    for task in load_tasks(shared / "bfcl/data" / f"BFCL_v4_{category}.json"):
        for each in lint_task(task):
            found[each.level if each.level == "impossible" else each.check].add(each.figures["id"])
    assert found["impossible"] == impossible
    assert ("parallel_178" in found["order_matters"]) == (category == "parallel")
    if category == "simple_java":
        assert found["one_form_only"] == {"simple_java_1", "simple_java_35", "simple_java_64"}
        assert {
            f"simple_java_{number}" for number in (78, 83, 85, 86, 89, 90, 91, 67, 68)
        } <= found["odd_answer_only"]
    assert ("simple_python_96" in found["return_format"]) == (category == "simple_python")


IMPOSSIBLE = {
    *(
        "live_simple_106-63-0",
        "live_simple_112-68-0",
        "live_multiple_862-181-3",
        "live_multiple_964-207-0",
    ),
    *("simple_java_36", "simple_java_65"),
    "multi_turn_composite_185",
}
"""Tasks whose own ground truth the official checker rejects in every form, each seen with it."""
ODD = {
    "one_form_only": {"simple_java_1", "simple_java_35", "simple_java_64"},
    "odd_answer_only": {f"simple_java_{number}" for number in (67, 68, 78, 83, 85, 86, 89, 90, 91)},
    "return_format": {"simple_python_96"},
    "order_matters": {"parallel_178"},
}
"""Rule -> tasks that the official checker accepts in an odd way only, and therefore among those
that the rule finds.
"""


@pytest.mark.prove
def test_lint_of_all_official_data_finds_what_the_official_checker_rejects(
    shared: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FCTNCALLING_LONG_CONTEXT", str(shared / "bfcl/data/long_context.json"))
    assert main(["lint", "--dataset_path", str(shared / "bfcl/data"), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    found = defaultdict(set)
    for each in report["findings"]:
        found[each["severity"] if each["severity"] == "impossible" else each["rule"]].add(
            each["id"]
        )
    assert found["impossible"] == IMPOSSIBLE
    assert all(ids <= found[rule] for rule, ids in ODD.items())
    print(f"{report['tasks']} tasks, not judged: {report['unjudged']}")
    print(*(f"{rule}: {len(ids)}" for rule, ids in found.items()), sep=", ")


@pytest.mark.parametrize(
    ("call", "severity"),
    [
        ("mkdir(dir_name='x')", None),
        ("cd(folder='nowhere')", "suspicious"),
        ("mkdir(dir_name='x'", "broken"),
        ("mkdir(dir_nam='x')", "broken"),
        ("mkdir()", "broken"),
        ("post_tweet(content='x')", "broken"),
    ],
)
def test_a_truth_that_no_model_would_write_is_broken_and_fails_the_command(
    call: str, severity: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"root": {"home": {"type": "directory", "contents": {}}}}
    entry = {
        "id": "multi_turn_base_0",
        "question": [[{"role": "user", "content": "Make x."}]],
        "involved_classes": ["GorillaFileSystem"],
        "initial_config": {"GorillaFileSystem": files},
        "ground_truth": [[call]],
    }
    path = tmp_path / "tasks.json"
    path.write_text(json.dumps([entry]))
    assert main(["lint", "--dataset_path", str(path)]) == (severity == "broken")
    found = capsys.readouterr().out.splitlines()
    assert found[0].split()[0] == (severity or "nothing")


def test_the_command_reports_and_fails_on_impossible_tasks(
    shared: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = shared / "bfcl/data/BFCL_v4_live_simple.json"
    assert main(["lint", "--dataset_path", str(path), "--json", "--impossible"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["tasks"] == 258
    assert [each["id"] for each in report["findings"]] == [
        "live_simple_106-63-0",
        "live_simple_112-68-0",
    ]
    assert (
        main(["lint", "--dataset_path", str(shared / "bfcl/data/BFCL_v4_live_parallel.json")]) == 0
    )
    assert "16 tasks" in capsys.readouterr().out
    assert main(["lint", "--dataset_path", str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err
