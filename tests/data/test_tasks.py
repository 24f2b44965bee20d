"""Task files are read as they are, or refused with the place, the field and what was expected."""

from __future__ import annotations

import json
import os
import tempfile
import tracemalloc
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fctncalling.data.bfcl import (
    IncompleteTaskWarning,
    TaskError,
    embedded_path,
    iter_tasks,
    load_tasks,
)
from fctncalling.data.categories import CATEGORIES, category_of_id
from fctncalling.data.json_stream import CHUNK_CHARS, read_entries
from fctncalling.data.types import FunctionDoc, Task
from fctncalling.data.validation import SCHEMA, explain_invalid, is_answer, is_function_doc, is_task
from fctncalling.envs.judging.judge import judge

DOC = {
    "name": "add",
    "description": "Add two numbers.",
    "parameters": {
        "type": "dict",
        "properties": {"a": {"type": "integer", "description": "One."}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
}
LISTED = {"type": "string", "description": "One.", "enum": ["x"]}
OTHER_DOC = {**DOC, "name": "subtract"}
USER = {"role": "user", "content": "What is 1 + 2?"}
SINGLE = {
    "id": "simple_python_0",
    "question": [[USER]],
    "function": [DOC],
    "ground_truth": [{"add": {"a": [1], "b": [2]}}],
}
MULTI = {
    "id": "multi_turn_miss_func_0",
    "question": [[USER], []],
    "initial_config": {"Sums": {}},
    "involved_classes": ["Sums"],
    "missed_function": {"1": ["add"]},
    "ground_truth": [[], ["add(a=1, b=2)"]],
}
SUMS = {"Sums": [DOC, OTHER_DOC]}


def write(path: Path, *entries: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def refusal(path: Path, **sources: Any) -> str:
    with pytest.raises(TaskError) as caught:
        load_tasks(path, **sources)
    return str(caught.value)


# --- categories
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry_id", "category"),
    [
        ("simple_python_17", "simple_python"),
        ("simple_java_3", "simple_java"),
        ("live_simple_19-3-15", "live_simple"),
        ("live_parallel_multiple_8-7-0", "live_parallel_multiple"),
        ("live_irrelevance_120-9-0", "live_irrelevance"),
        ("irrelevance_0", "irrelevance"),
        ("multi_turn_base_0", "multi_turn_base"),
        ("multi_turn_long_context_199", "multi_turn_long_context"),
        ("multi_turn_composite_101", "multi_turn_composite"),
        ("memory_0-customer-0", "memory"),
        ("memory_kv_0-customer-0", "memory_kv"),
        ("memory_prereq_32-notetaker-0", "memory_prereq"),
        ("web_search_0", "web_search"),
        ("web_search_no_snippet_7", "web_search_no_snippet"),
        ("simple_0", "simple_python"),
        ("java_0", "simple_java"),
        ("javascript_12", "simple_javascript"),
        ("parallel_multiple_4", "parallel_multiple"),
        ("multi-turn_base_12", "multi_turn_base"),
        ("multi-turn_miss-func_12", "multi_turn_miss_func"),
        ("multi-turn_3", "multi_turn_base"),
        ("parallel_java_4", "parallel_java"),
        ("multiple_javascript_4", "multiple_javascript"),
        ("parallel_multiple_java_0", "parallel_multiple_java"),
        ("exec_simple_0", "exec_simple"),
        ("exec_parallel_multiple_39", "exec_parallel_multiple"),
        ("rest_69", "rest"),
        ("sql_0", "sql"),
        ("chatable_199", "chatable"),
    ],
)
def test_an_id_names_its_category(entry_id: str, category: str) -> None:
    assert category_of_id(entry_id) == category


@pytest.mark.parametrize(
    "file_name", ["BFCL_v4_simple_java.json", "BFCL_v3_java.json", "java.jsonl"]
)
def test_the_file_name_names_the_category_where_the_id_does_not(file_name: str) -> None:
    assert category_of_id("q17", file_name) == "simple_java"


@pytest.mark.parametrize(
    "entry_id", ["", "simple", "simple_pythn_3", "simple_ruby_3", "17", "train_0"]
)
def test_an_unknown_category_is_told_with_the_known_ones(entry_id: str) -> None:
    with pytest.raises(TaskError, match=f'id "{entry_id}".*multi_turn_base') as caught:
        category_of_id(entry_id, "train.json")
    assert all(category in str(caught.value) for category in CATEGORIES)


# --- official files
# -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def official(shared: Path) -> list[Task]:
    return load_tasks(shared / "bfcl" / "data")


def test_every_official_task_file_loads(official: list[Task], shared: Path) -> None:
    lines = 0
    for file in (shared / "bfcl" / "data").glob("BFCL_*.json"):
        if "format_sensitivity" not in file.name:
            lines += sum(1 for line in file.read_text().splitlines() if line.strip())
    assert len(official) == lines == 4896


def test_official_categories_have_their_published_sizes(official: list[Task]) -> None:
    sizes = Counter(task.category for task in official)
    single = {
        "simple_python": 400,
        "simple_java": 100,
        "simple_javascript": 50,
        "multiple": 200,
        "parallel": 200,
    }
    live = {
        "live_simple": 258,
        "live_multiple": 1053,
        "live_parallel": 16,
        "live_parallel_multiple": 24,
    }
    unanswered = {"irrelevance": 240, "live_irrelevance": 884, "live_relevance": 16}
    multi_turn = {
        f"multi_turn_{kind}": 200
        for kind in ("base", "miss_func", "miss_param", "long_context", "composite")
    }
    agentic = {"web_search": 100, "memory": 155}
    assert sizes == {
        **single,
        "parallel_multiple": 200,
        **live,
        **unanswered,
        **multi_turn,
        **agentic,
    }
    assert {task.category for task in official if task.ground_truth is None} == set(unanswered)


def test_official_answers_are_those_of_the_same_id(official: list[Task], shared: Path) -> None:
    told: dict[str, Any] = {}
    for file in (shared / "bfcl" / "data" / "possible_answer").glob("*.json"):
        told.update((answer["id"], answer["ground_truth"]) for _, answer in read_entries(file))
    assert {
        task.id: task.ground_truth for task in official if task.ground_truth is not None
    } == told


def test_official_multi_turn_tasks_offer_all_documented_functions_in_order(
    official: list[Task], shared: Path
) -> None:
    task = next(task for task in official if task.id == "multi_turn_base_0")
    docs = shared / "bfcl" / "data" / "multi_turn_func_doc"
    names = [
        doc["name"]
        for stem in ("posting_api", "gorilla_file_system")
        for _, doc in read_entries(docs / f"{stem}.json")
    ]
    assert task.involved_classes == ("TwitterAPI", "GorillaFileSystem")
    assert [function.name for function in task.functions] == names
    assert len(names) == 14 + 18


def test_agentic_tasks_keep_what_only_their_runner_reads(official: list[Task]) -> None:
    by_id = {task.id: task for task in official}
    memory, search = by_id["memory_0-customer-0"], by_id["web_search_0"]
    assert (memory.functions, memory.extra["scenario"]) == ((), "customer")
    assert [function.name for function in search.functions] == [
        "search_engine_query",
        "fetch_url_content",
    ]
    assert search.extra["num_hops"] == 3
    assert (
        "excluded_function"
        in next(task for task in official if "excluded_function" in task.extra).extra
    )


def test_memory_conversations_load_without_answers(shared: Path) -> None:
    folder = shared / "bfcl" / "data" / "memory_prereq_conversation"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tasks = [task for file in folder.glob("*.json") for task in load_tasks(file)]
    assert Counter(task.category for task in tasks) == {"memory_prereq": 37}
    assert all("topic" in task.extra for task in tasks)


def test_iterating_yields_what_loading_returns(official: list[Task], shared: Path) -> None:
    assert list(iter_tasks(shared / "bfcl" / "data")) == official


def test_a_merged_array_of_official_entries_loads_to_the_same_tasks(
    official: list[Task], shared: Path, tmp_path: Path
) -> None:
    data = shared / "bfcl" / "data"
    answers = {
        a["id"]: a["ground_truth"]
        for _, a in read_entries(data / "possible_answer" / "BFCL_v4_multi_turn_base.json")
    }
    merged = [
        {
            "invoked_classes" if key == "involved_classes" else key: value
            for key, value in entry.items()
        }
        | {
            "id": entry["id"].replace("multi_turn", "multi-turn"),
            "ground_truth": answers[entry["id"]],
        }
        for _, entry in read_entries(data / "BFCL_v4_multi_turn_base.json")
    ]
    file = tmp_path / "merged.json"
    file.write_text(json.dumps(merged, indent=1))
    tasks = load_tasks(file, function_docs=data / "multi_turn_func_doc")
    wanted = [task for task in official if task.category == "multi_turn_base"]
    assert [task.id.replace("multi-turn", "multi_turn") for task in tasks] == [
        task.id for task in wanted
    ]
    for field in (
        "category",
        "question",
        "functions",
        "ground_truth",
        "initial_config",
        "involved_classes",
    ):
        assert [getattr(task, field) for task in tasks] == [getattr(task, field) for task in wanted]


def test_function_docs_of_a_class_are_read_once_and_shared(official: list[Task]) -> None:
    tasks = [task for task in official if task.involved_classes == ("GorillaFileSystem",)]
    assert len(tasks) > 1
    assert all(a is b for a, b in zip(tasks[0].functions, tasks[-1].functions, strict=True))


def test_format_sensitivity_is_refused_by_name(shared: Path) -> None:
    assert "format sensitivity" in refusal(
        shared / "bfcl" / "data" / "BFCL_v4_format_sensitivity.json"
    )


# --- where answers and docs come from
# -----------------------------------------------------------------------------


def test_version_3_files_find_their_siblings(tmp_path: Path) -> None:
    without_answer = {key: value for key, value in SINGLE.items() if key != "ground_truth"} | {
        "id": "java_0"
    }
    file = write(tmp_path / "BFCL_v3_java.json", without_answer)
    write(
        tmp_path / "possible_answer" / file.name,
        {"id": "java_0", "ground_truth": SINGLE["ground_truth"]},
    )
    [task] = load_tasks(file)
    assert (task.category, task.ground_truth) == ("simple_java", SINGLE["ground_truth"])


def test_answers_out_of_order_are_found(tmp_path: Path) -> None:
    entries = [{**SINGLE, "id": f"simple_python_{i}", "ground_truth": None} for i in range(4)]
    file = write(tmp_path / "tasks.json", *entries)
    answers = [
        {"id": entry["id"], "ground_truth": [{"add": {"a": [i]}}]}
        for i, entry in enumerate(entries)
    ]
    tasks = load_tasks(file, possible_answers=write(tmp_path / "answers.json", *reversed(answers)))
    assert [task.ground_truth for task in tasks] == [answer["ground_truth"] for answer in answers]


@pytest.mark.parametrize("form", ["file", "folder", "mapping", "mapping of entries"])
def test_answers_given_take_the_place_of_those_inside(form: str, tmp_path: Path) -> None:
    file = write(tmp_path / "tasks.json", SINGLE)
    given_answer = {"id": SINGLE["id"], "ground_truth": [{"add": {"a": [9], "b": [9]}}]}
    write(tmp_path / "own" / "tasks.json", given_answer)
    sources: dict[str, Any] = {
        "file": tmp_path / "own" / "tasks.json",
        "folder": str(tmp_path / "own"),
        "mapping": {SINGLE["id"]: given_answer["ground_truth"]},
        "mapping of entries": {SINGLE["id"]: given_answer},
    }
    [task] = load_tasks(file, possible_answers=sources[form])
    assert task.ground_truth == given_answer["ground_truth"]
    assert task.ground_truth is not given_answer["ground_truth"]


def test_missing_answers_are_told_once_and_leave_none(tmp_path: Path) -> None:
    entries = [{**SINGLE, "id": f"simple_python_{i}", "ground_truth": None} for i in range(3)]
    with pytest.warns(
        IncompleteTaskWarning, match=r"simple_python_0.*possible_answer/tasks\.json"
    ) as told:
        tasks = load_tasks(write(tmp_path / "tasks.json", *entries))
    assert [task.ground_truth for task in tasks] == [None] * 3
    assert len(told) == 1


@pytest.mark.parametrize("form", ["sibling", "folder", "file", "mapping", "typed mapping"])
def test_function_docs_are_found_in_every_form(form: str, tmp_path: Path) -> None:
    file = write(tmp_path / "tasks.json", MULTI)
    folder = tmp_path / ("multi_turn_func_doc" if form == "sibling" else "docs")
    docs = write(folder / "sums.json", DOC, OTHER_DOC)
    sources: dict[str, Any] = {
        "sibling": None,
        "folder": folder,
        "file": docs,
        "mapping": SUMS,
        "typed mapping": {
            "Sums": [
                FunctionDoc(d["name"], d["description"], d["parameters"]) for d in SUMS["Sums"]
            ]
        },
    }
    [task] = load_tasks(file, function_docs=sources[form])
    assert [function.name for function in task.functions] == ["add", "subtract"]
    assert task.missed_functions == {1: ("add",)}


def test_a_list_of_names_offers_only_these(tmp_path: Path) -> None:
    file = write(tmp_path / "tasks.json", {**MULTI, "function": ["add"]})
    [task] = load_tasks(file, function_docs=SUMS)
    assert [function.name for function in task.functions] == ["add"]


def test_loaded_tasks_share_nothing_but_docs(tmp_path: Path) -> None:
    entries = [{**MULTI, "id": f"multi_turn_miss_func_{i}"} for i in range(2)]
    one, other = load_tasks(write(tmp_path / "tasks.json", *entries), function_docs=SUMS)
    for field in ("question", "ground_truth", "initial_config", "missed_functions", "extra"):
        assert getattr(one, field) is not getattr(other, field)


@pytest.mark.parametrize("name", ["train", "held_out"])
def test_embedded_sets_load_from_where_the_package_lies(name: str) -> None:
    tasks = load_tasks(embedded_path(name))
    assert tasks
    assert all(task.functions for task in tasks)


def test_an_unknown_embedded_name_is_told_with_the_known_ones() -> None:
    with pytest.raises(TaskError, match=r'"tain".*train'):
        embedded_path("tain")


# --- refusals
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", r"tasks\.json: the file is empty"),
        (" \n\n", r"tasks\.json: the file is empty"),
        (
            json.dumps(SINGLE) + "\n\n" + '{"id": "simple_python_1", "quest',
            r"line 3: broken JSON \(Unterminated",
        ),
        (json.dumps(SINGLE) + "\n{}x\n", r"line 2: broken JSON \(Extra data, column 3\)"),
        ("[\n" + json.dumps(SINGLE) + ",\n{broken}\n]", r"line 3: broken JSON"),
        ("[\n" + json.dumps(SINGLE) + "\n", r"line 3: broken JSON \(the array does not end\)"),
        ("[\n" + json.dumps(SINGLE) + ",\n", r"line 3: broken JSON \(the array does not end\)"),
        ("[\n" + json.dumps(SINGLE) + ",\n]", r"line 3: broken JSON"),
        ("[\n" + json.dumps(SINGLE) + "\n{}]", r"line 3: broken JSON \(expected ',' or ']'"),
        ("[\n" + json.dumps(SINGLE) + "]\n[", r"line 3: broken JSON \(text after the array"),
        ("17\n", r"line 1: entry: expected a task entry: an object with id and question, found 17"),
        ("[[" * 100_000, r"line 1"),
    ],
)
def test_broken_files_are_refused_at_their_line(text: str, expected: str, tmp_path: Path) -> None:
    file = tmp_path / "tasks.json"
    file.write_text(text)
    with pytest.raises(TaskError, match=expected):
        load_tasks(file)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_or_a_device_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "tasks.json"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(TaskError, match=f"{path}: is a device or a pipe: expected a file"):
            load_tasks(path)


def test_what_is_not_a_text_file_is_refused(tmp_path: Path) -> None:
    assert "no such file" in refusal(tmp_path / "absent.json")
    assert "BFCL_*.json" in refusal(tmp_path)
    (tmp_path / "bytes.json").write_bytes(b'{"id": "\xff"}')
    assert "not UTF-8" in refusal(tmp_path / "bytes.json")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"id": 7}, "line 1: id: expected <category>_<index> (a string, not empty), found 7"),
        (
            {"id": "riddle_0"},
            'line 1 (id "riddle_0"): id: id "riddle_0" and file name "tasks.json" speak of no '
            "known",
        ),
        (
            {"question": "What?"},
            'question: expected a list of turns, each a list of messages, found "What?"',
        ),
        ({"question": []}, "question: expected a list of turns"),
        ({"question": [USER]}, "question[0]: expected a turn: a list of messages"),
        (
            {"question": [[{"role": "user"}]]},
            "question[0][0].content: expected the message's text (a string), found nothing",
        ),
        (
            {"question": [[{"role": "boss", "content": ""}]]},
            "question[0][0].role: expected one of system, user, assistant",
        ),
        ({"function": DOC}, "function: expected a list of function docs"),
        (
            {"function": [{"name": "add"}]},
            "function[0].description: expected what the function does",
        ),
        (
            {"function": [{**DOC, "parameters": []}]},
            "function[0].parameters: expected the parameters: an object",
        ),
        ({"function": ["divide"]}, 'function: "divide" has no function doc'),
        ({"ground_truth": "add(1, 2)"}, "ground_truth: expected a list"),
        ({"involved_classes": "Sums"}, 'involved_classes: expected a list of names, found "Sums"'),
        ({"initial_config": []}, "initial_config: expected an object {class: its scenario}"),
        (
            {"initial_config": {"Sums": 3}},
            "initial_config.Sums: expected the class's scenario (an object), found 3",
        ),
        (
            {"missed_function": {"one": ["add"]}},
            "missed_function: expected keys that are turn indices",
        ),
        ({"missed_function": {"1": "add"}}, "missed_function.1: expected a list of names"),
        (
            {"missed_function": {"2": ["add"]}},
            "missed_function: turn 2 is out of range: expected 0 to 1",
        ),
        (
            {"missed_function": {"1": ["divide"]}},
            'missed_function["1"]: "divide" is no function of this task',
        ),
        (
            {"ground_truth": [[]]},
            "ground_truth: expected one list of calls for each of the 2 turns of question, found 1",
        ),
        ({"ground_truth": [[], "add(1, 2)"]}, "ground_truth[1]: expected a turn: a list of calls"),
        (
            {"involved_classes": ["Products"]},
            'involved_classes: class "Products" has no function docs',
        ),
    ],
)
def test_an_entry_is_refused_by_field_and_expectation(
    change: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    message = refusal(write(tmp_path / "tasks.json", {**MULTI, **change}), function_docs=SUMS)
    assert message.startswith(f"{tmp_path / 'tasks.json'} line 1")
    assert expected in message


@pytest.mark.parametrize(
    ("truth", "expected"),
    [
        (["add(1, 2)"], "ground_truth[0]: expected {function: {parameter: [accepted values]}}"),
        ([{"add": 5}], "ground_truth[0]: expected {function: {parameter: [accepted values]}}"),
        ([{"add": {"a": 1}}], "ground_truth[0].add.a: expected a list of values, found 1"),
    ],
)
def test_a_single_turn_truth_that_no_answer_could_match_is_refused(
    truth: Any, expected: str, tmp_path: Path
) -> None:
    message = refusal(write(tmp_path / "tasks.json", {**SINGLE, "ground_truth": truth}))
    assert message.startswith(f'{tmp_path / "tasks.json"} line 1 (id "{SINGLE["id"]}"): {expected}')


@pytest.mark.parametrize(
    ("entry", "field"),
    [(SINGLE, "id"), (SINGLE, "question"), (SINGLE, "function"), (MULTI, "involved_classes")],
)
def test_a_missing_field_is_named(entry: dict[str, Any], field: str, tmp_path: Path) -> None:
    rest = {key: value for key, value in entry.items() if key != field}
    message = refusal(write(tmp_path / "tasks.json", rest), function_docs=SUMS)
    assert f"{field}: expected" in message
    assert message.endswith("found nothing")


def test_an_id_that_stands_twice_is_refused_with_both_places(tmp_path: Path) -> None:
    message = refusal(
        write(tmp_path / "tasks.json", SINGLE, {**SINGLE, "id": "simple_python_1"}, SINGLE)
    )
    assert 'line 3 (id "simple_python_0"): id: expected ids to be unique' in message
    assert "tasks.json line 1" in message


def test_answers_without_this_id_are_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "tasks.json", SINGLE)
    other = write(tmp_path / "answers.json", {"id": "simple_python_1", "ground_truth": []})
    assert f"ground_truth: {other} has no answer with this id" in refusal(
        file, possible_answers=other
    )
    assert "have no such id" in refusal(file, possible_answers={})
    assert "absent.json: no such file" in refusal(file, possible_answers=tmp_path / "absent.json")
    broken = write(tmp_path / "broken.json", {"id": "simple_python_0", "ground_truth": "add(1, 2)"})
    assert "broken.json line 1: ground_truth: expected a list" in refusal(
        file, possible_answers=broken
    )


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("description", 5, "what it says (a string), found 5"),
        ("type", ["string"], 'the name of its type (a string), found ["string"]'),
        ("enum", 5, "a list of its values, found 5"),
    ],
)
def test_a_parameter_doc_of_another_type_is_refused_by_file_line_and_field(
    field: str, value: Any, expected: str, tmp_path: Path
) -> None:
    doc = {**DOC, "parameters": {"type": "dict", "properties": {"a": {**LISTED, field: value}}}}
    entry = {**SINGLE, "id": "simple_java_1", "function": [doc]}
    message = refusal(write(tmp_path / "tasks.json", SINGLE, entry))
    place = f"function[0].parameters.properties.a.{field}"
    assert 'tasks.json line 2 (id "simple_java_1"): ' in message
    assert message.endswith(f"{place}: expected {expected}")


def test_a_broken_function_doc_is_refused_in_its_own_file(tmp_path: Path) -> None:
    file = write(tmp_path / "tasks.json", MULTI)
    write(tmp_path / "multi_turn_func_doc" / "sums.json", DOC, {"name": "subtract"})
    assert "sums.json line 2: description: expected what the function does" in refusal(file)


# --- the fast check and the schema
# --------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for step, inner in items:
        yield from paths_in(inner, (*path, step))


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = changed(value[path[0]], path[1:], new)
    return copy


@pytest.mark.parametrize(
    ("kind", "accepts", "value"),
    [
        ("task", is_task, {**MULTI, "function": [DOC, "add"], "invoked_classes": []}),
        ("answer", is_answer, {"id": "simple_0", "ground_truth": [[]]}),
        ("function_doc", is_function_doc, {**DOC, "response": {}}),
        ("function_doc", is_function_doc, {**DOC, "parameters": {"properties": {"a": LISTED}}}),
    ],
)
@given(data=st.data())
def test_the_fast_check_and_the_schema_agree(
    kind: str, accepts: Any, value: Any, data: st.DataObject
) -> None:
    assert accepts(value)
    mutant = changed(value, data.draw(st.sampled_from(list(paths_in(value)))), data.draw(JSON))
    schema = {**json.loads(SCHEMA.read_text()), "$ref": f"#/$defs/{kind}"}
    assert accepts(mutant) == jsonschema.Draft202012Validator(schema).is_valid(mutant)
    if not accepts(mutant):
        assert "expected" in explain_invalid(mutant, kind)


# --- streaming
# --------------------------------------------------------------------------------------------------


@given(
    st.lists(st.dictionaries(st.text(max_size=4), JSON, max_size=3), min_size=1, max_size=4),
    st.sampled_from([None, 1, 3]),
)
def test_an_array_and_its_lines_hold_the_same_entries(
    entries: list[dict[str, Any]], indent: int | None
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        array, lines = Path(folder, "array.json"), Path(folder, "lines.json")
        array.write_text(json.dumps(entries, indent=indent))
        lines.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
        assert [value for _, value in read_entries(array)] == entries
        assert list(read_entries(lines)) == list(enumerate(entries, start=1))


def test_an_entry_may_be_cut_by_a_chunk_anywhere(tmp_path: Path) -> None:
    file = tmp_path / "array.json"
    last = {"word": [-1e-5, True, None, '\\é"', float("-inf")]}
    text = json.dumps(last)
    for cut in range(1, len(text)):
        filler = {"filler": "x" * (CHUNK_CHARS - len('[{"filler": ""},') - cut)}
        file.write_text(f"[{json.dumps(filler)},{text}]")
        assert [value for _, value in read_entries(file)] == [filler, last]


@pytest.mark.parametrize("form", ["lines", "array"])
def test_iterating_needs_the_same_memory_for_ten_times_the_file(form: str, tmp_path: Path) -> None:
    def peak(num_entries: int) -> int:
        file, answers = tmp_path / f"{num_entries}.json", tmp_path / f"answers_{num_entries}.json"
        entries = (
            {**SINGLE, "id": f"simple_python_{i}", "question": [[USER] * 200]}
            for i in range(num_entries)
        )
        texts = [json.dumps(entry) for entry in entries]
        file.write_text("[" + ",\n".join(texts) + "]" if form == "array" else "\n".join(texts))
        write(
            answers, *({"id": f"simple_python_{i}", "ground_truth": []} for i in range(num_entries))
        )
        del texts
        tracemalloc.start()
        assert sum(1 for _ in iter_tasks(file, possible_answers=answers)) == num_entries
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    # Not 1: a chunk of a small file is a small chunk.
    assert peak(1000) < 1.5 * peak(100)


ORDER = {
    "name": "order",
    "description": "Order a pizza.",
    "parameters": {
        "type": "dict",
        "properties": {
            "toppings": {"type": "array", "items": {"type": "string"}},
            "size": {"type": "string", "default": "large"},
            "count": {"type": "integer", "default": 1},
            "note": {"type": "string"},
        },
        "required": ["toppings"],
    },
}


def pizza(path: Path, accept: Any, **arguments: Any) -> Path:
    truth = [{"order": {"toppings": [["ham", "egg", "corn"]], **arguments}}]
    fields = {"question": [[{"role": "user", "content": "A pizza."}]], "function": [ORDER]}
    entry = {"id": "simple_python_0", **fields, "ground_truth": truth, "accept": accept}
    return write(path, entry)


def test_what_a_task_accepts_is_written_out_and_judged(tmp_path: Path) -> None:
    file = pizza(tmp_path / "own.json", {"defaults": True, "any_order": True}, size=["large"])
    [task] = load_tasks(file)
    [truth] = list(task.ground_truth or [])
    assert truth["order"]["size"] == ["large", ""]
    assert truth["order"]["count"] == ["", 1]
    assert set(truth["order"]) == {"toppings", "size", "count"}
    assert len(truth["order"]["toppings"]) == 6
    assert truth["order"]["toppings"][0] == ["ham", "egg", "corn"]
    for text, is_valid in (
        ("[order(toppings=['egg', 'corn', 'ham'])]", True),
        ("[order(toppings=['egg', 'corn', 'ham'], size='large', count=1)]", True),
        ("[order(toppings=['egg', 'corn', 'ham'], count=2)]", False),
        ("[order(toppings=['egg', 'ham'])]", False),
        ("[order(toppings=['ham', 'egg', 'corn'], note='hot')]", False),
    ):
        assert judge(task, text, "prompting").valid is is_valid, text


def test_only_the_lists_that_are_named_are_right_in_any_order(tmp_path: Path) -> None:
    [task] = load_tasks(pizza(tmp_path / "own.json", {"any_order": ["others"]}))
    assert task.ground_truth == [{"order": {"toppings": [["ham", "egg", "corn"]]}}]


@pytest.mark.parametrize(
    ("accept", "told"),
    [
        ("defaults", 'expected {"defaults": true'),
        ({"default": True}, 'expected {"defaults": true'),
        ({"any_order": "toppings"}, 'expected {"defaults": true'),
        ({"any_order": [1]}, 'expected {"defaults": true'),
        ({"any_order": ["sides"]}, "expected lists of at most 5 items, found one of 6"),
    ],
)
def test_what_cannot_be_accepted_is_told_with_its_place(
    accept: Any, told: str, tmp_path: Path
) -> None:
    message = refusal(pizza(tmp_path / "own.json", accept, sides=[list("abcdef")]))
    assert "own.json" in message
    assert "accept" in message
    assert told in message


def test_a_task_that_lists_no_values_has_none_to_accept(tmp_path: Path) -> None:
    fields = {"question": [[{"role": "user", "content": "Hi."}]], "function": [ORDER]}
    file = write(tmp_path / "own.json", {"id": "irrelevance_0", **fields, "accept": {}})
    assert "accept: expected none in a task of irrelevance" in refusal(file)
