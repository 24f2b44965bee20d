"""`score` gives the accuracies of BFCL's own verdicts, from its result trees and from lines of
answers.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import json
import random
import re
import statistics
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import VerdictCounter

from evaluate_fctncalling import main
from fctncalling.cli.score.score_files import ExtraMetrics, Latencies
from fctncalling.data.bfcl import load_tasks
from fctncalling.data.types import Task
from fctncalling.envs.judging.judge import judge
from fctncalling.evaluation.accepted_answers import accepted_answer

GROUPS = {
    "simple_python": "non_live",
    "parallel_multiple": "non_live",
    "irrelevance": "non_live",
    "live_simple": "live",
    "live_relevance": "live",
    "multi_turn_base": "multi_turn",
    "web_search_no_snippet": "agentic",
    "memory_kv": "agentic/memory/kv",
}
MODEL = "some_model"


def table_records(shared: Path, table: str) -> dict[str, list[dict[str, Any]]]:
    by_id: dict[str, list[dict[str, Any]]] = {}
    with gzip.open(shared / "bfcl/verdicts" / f"{table}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for record in map(json.loads, lines):
            by_id.setdefault(record["id"], []).append(record)
    return by_id


def write_results(shared: Path, root: Path, category: str, form: str = "prompting") -> float:
    """Write one recorded answer for each task of a category; return the official share of valid
    ones.
    """
    base = category.removesuffix("_no_snippet").removesuffix("_kv")
    table = {"multi_turn_base": "raw_multi_turn_base"}.get(base, base)
    draw = random.Random(category)
    path = root / GROUPS[category] / f"BFCL_v4_{category}_result.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    table = f"fc_{table}" if form == "tool_call" else table
    chosen = [draw.choice(records) for records in table_records(shared, table).values()]
    with path.open("w") as file:
        for record in chosen:
            answer = record["response"]
            if base in ("web_search", "memory"):
                answer = [[answer]]
            elif form == "tool_call":
                with contextlib.suppress(ValueError):
                    answer = json.loads(answer)
            entry = {
                "id": record["id"].replace(base, category, 1),
                "result": answer,
                "latency": 2.0,
            }
            file.write(json.dumps(entry) + "\n")
    valid: float = sum(record["valid"] for record in chosen) / len(chosen)
    return valid


def score(shared: Path, source: Path, *more: str) -> int:
    return main(["score", "--input", str(source), "--data_dir", str(shared / "bfcl/data"), *more])


@pytest.fixture
def tree(shared: Path, tmp_path: Path) -> tuple[Path, dict[str, float]]:
    root = tmp_path / "result"
    return root, {category: write_results(shared, root / MODEL, category) for category in GROUPS}


def test_a_result_tree_scores_as_its_official_verdicts(
    shared: Path,
    tree: tuple[Path, dict[str, float]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    verdict_counter: VerdictCounter,
) -> None:
    root, expected = tree
    for source in (root, root / MODEL):
        assert (
            score(shared, source, "--partial", "--json", "--score_dir", str(tmp_path / "score"))
            == 0
        )
        report = json.loads(capsys.readouterr().out)[MODEL]
        assert {name: each["accuracy"] for name, each in report["categories"].items()} == expected
        verdict_counter.add(sum(each["total"] for each in report["categories"].values()))
    for category, accuracy in expected.items():
        lines = (
            tmp_path / "score" / MODEL / GROUPS[category] / f"BFCL_v4_{category}_score.json"
        ).read_text()
        header, *failures = map(json.loads, lines.splitlines())
        assert header["accuracy"] == accuracy
        assert len(failures) == header["total_count"] - header["correct_count"]
        assert all(
            each["valid"] is False and each["test_category"] == category for each in failures
        )
    with (tmp_path / "score" / "data_overall.csv").open() as file:
        [row] = csv.DictReader(file)
    assert row["Overall Acc"] == report["v4"]["overall"]["shown"]
    assert (row["Model"], row["Memory KV"], row["Memory Vector"]) == (
        MODEL,
        f"{expected['memory_kv']:.2%}",
        "N/A",
    )
    assert row["Latency Mean (s)"] == "2.0"


def test_tool_calls_are_found_by_themselves(
    shared: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    verdict_counter: VerdictCounter,
) -> None:
    expected = write_results(shared, tmp_path / "result" / MODEL, "parallel_multiple", "tool_call")
    assert score(shared, tmp_path / "result", "--partial", "--json") == 0
    [(_, report)] = json.loads(capsys.readouterr().out).items()
    assert report["categories"]["parallel_multiple"]["accuracy"] == expected
    verdict_counter.add(report["categories"]["parallel_multiple"]["total"])


@pytest.mark.parametrize("written", [list, json.dumps], ids=["list", "text"])
def test_tool_calls_of_openai_are_read_and_a_handler_that_reads_none_is_told(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], written: Any
) -> None:
    path = tmp_path / MODEL / "BFCL_v4_simple_python_result.json"
    path.parent.mkdir()
    lines = []
    for task in load_tasks(shared / "bfcl/data/BFCL_v4_simple_python.json")[:6]:
        [call] = json.loads(accepted_answer(task, "tool_call") or "")
        [(name, arguments)] = call.items()
        function = {"name": name, "arguments": arguments}
        result = written([{"id": "call_0", "type": "function", "function": function}])
        lines.append(json.dumps({"id": task.id, "result": result}) + "\n")
    path.write_text("".join(lines))
    for handler in ("tool_calls", "auto"):
        assert score(shared, path, "--partial", "--json", "--handler", handler) == 0
        report = json.loads(capsys.readouterr().out)[MODEL]
        assert report["categories"]["simple_python"]["correct"] == len(lines), handler
    for flags in (["--handler", "QwenFCHandler"], ["--form", "tool_call"], []):
        assert score(shared, path, "--partial", "--json", *flags) == 2
        assert "--handler auto finds what reads them" in capsys.readouterr().err


def test_lines_of_answers_score_as_their_official_verdicts_in_any_order(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [
        each[0]
        for table in ("multiple", "memory")
        for each in table_records(shared, table).values()
    ]
    random.Random(0).shuffle(records)
    source = tmp_path / "answers.jsonl"
    source.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert score(shared, source, "--partial") == 0
    told = capsys.readouterr().out
    for category in ("multiple", "memory"):
        valid = [record["valid"] for record in records if record["category"] == category]
        assert f"{sum(valid) / len(valid):.2%}" in next(
            line for line in told.splitlines() if line.startswith(category)
        )
    assert re.findall(r"means are N/A: (\d+) of their (\d+) categories have no answers", told)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (
            [{"id": "multiple_0", "result": "x"}],
            "199 tasks have no answer, the first is multiple_1.*--partial",
        ),
        (
            [{"id": "multiple_0", "result": "x"}] * 2,
            'line 2: field "id": "multiple_0" was answered already, in line 1',
        ),
        (
            [{"id": "multiple_999", "result": "x"}],
            r'line 1: field "id": no task of multiple is called "multiple_999"\. .*--dataset_path',
        ),
        ([{"id": "multiple_0"}], 'line 1: field "result"'),
        ([{"result": "x"}], 'line 1: field "id"'),
    ],
)
def test_results_that_cannot_be_scored_are_told(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: list[Any], told: str
) -> None:
    path = tmp_path / "m" / "non_live" / "BFCL_v4_multiple_result.json"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert score(shared, tmp_path) == 2
    assert re.search(told, capsys.readouterr().err)


def test_missing_libraries_of_a_tree_are_named_at_once_and_nothing_is_written_before(
    shared: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ("tree_sitter_java", "tree_sitter_javascript")
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)
    for category in ("irrelevance", "simple_java", "simple_javascript"):
        path = tmp_path / MODEL / f"BFCL_v4_{category}_result.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"id": f"{category}_0", "result": "[f(x=1)]"}) + "\n")
    folder = tmp_path / "score"
    assert score(shared, tmp_path / MODEL, "--partial", "--score_dir", str(folder)) == 2
    error = capsys.readouterr().err
    assert all(name in error for name in (*names, "pip install 'fctncalling[java,javascript]'"))
    assert not folder.exists()
    assert score(shared, tmp_path / MODEL, "--partial", "--category", "irrelevance") == 0


def test_a_folder_without_results_is_told(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert score(shared, tmp_path) == 2
    assert "BFCL_v4_<category>_result.json" in capsys.readouterr().err


def test_an_empty_result_file_counts_as_missing_answers(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for category, line in (("irrelevance", {"id": "irrelevance_0", "result": "No."}), ("java", "")):
        path = tmp_path / MODEL / f"BFCL_v3_{category}_result.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(line) if line else "")
    assert score(shared, tmp_path, "--partial", "--json") == 0
    told = capsys.readouterr()
    assert f"{path}: holds no answers; its category is left out" in told.err
    assert [*json.loads(told.out)[MODEL]["categories"]] == ["irrelevance"]
    assert score(shared, path, "--partial") == 2
    capsys.readouterr()
    assert score(shared, path) == 2
    assert f"{path}: holds no answers" in capsys.readouterr().err


def test_files_that_look_like_results_are_named_and_the_next_command_reads_alike(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / MODEL
    folder.mkdir()
    copies = [f"BFCL_v4_{name}_result.json{end}" for name, end in (("java", "~"), ("sql", ".bak"))]
    others = ("BFCL_v4_multiple.json", "live_result.jsonl", "BFCL_v4_irrelevance_score.json.bak")
    for name in (*copies, *others):
        (folder / name).write_text("{}")
    assert score(shared, tmp_path) == 2
    assert "4 files look like results" in capsys.readouterr().err
    line = json.dumps({"id": "irrelevance_0", "result": "No."})
    (folder / "BFCL_v4_irrelevance_result.json").write_text(line)
    reading = ("--handler", "python_calls", "--dots", "keep")
    assert score(shared, tmp_path, "--partial", "--dataset_path", str(tmp_path), *reading) == 0
    told = capsys.readouterr()
    skipped = ", ".join(f"{MODEL}/{name}" for name in sorted((*copies, *others[:2])))
    assert told.err.splitlines() == [
        "note: 4 files look like results and are left out, for results are named "
        f"BFCL_v4_<category>_result.json: {skipped}"
    ]
    paths = f"--dataset_path {shared / 'bfcl/data'} --dataset_path {tmp_path}"
    assert told.out.endswith(f"why {tmp_path} {paths} {' '.join(reading)}\n")


def test_score_files_of_other_runs_stay_as_they_are_and_are_named(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line, folder = json.dumps({"id": "irrelevance_0", "result": "No."}), tmp_path / "score"
    for model in ("one", "two"):
        (tmp_path / model).mkdir()
        (tmp_path / model / "BFCL_v4_irrelevance_result.json").write_text(line)
    flags = ("--partial", "--score_dir", str(folder))
    for _ in range(2):  # its own files are written anew
        assert score(shared, tmp_path / "one", *flags) == 0
        assert "of other runs" not in capsys.readouterr().err
    [own] = folder.rglob("*_score.json")
    before, copy = own.read_bytes(), own.with_name(f"{own.name}.bak")
    copy.write_text("{}")
    assert score(shared, tmp_path / "two", *flags) == 0
    names = ", ".join(str(path.relative_to(folder)) for path in (own, copy))
    told = f"note: 2 score files in {folder} are of other runs: they are neither read nor changed"
    assert f"{told}, and data_*.csv hold this run alone: {names}\n" in capsys.readouterr().err
    assert own.read_bytes() == before
    assert "one" not in (folder / "data_overall.csv").read_text()


def test_a_file_that_is_not_there_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "answers.jsonl"
    assert main(["score", "--input", str(missing)]) == 2
    assert f"error: {missing}: there is no such file or folder" in capsys.readouterr().err


def test_a_mean_that_lacks_results_is_shown_as_such_with_what_bfcl_makes_of_it(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, accuracy = tmp_path / MODEL / "BFCL_v4_irrelevance_result.json", 1.0
    path.parent.mkdir()
    tasks = load_tasks(shared / "bfcl/data" / "BFCL_v4_irrelevance.json")
    path.write_text("".join(f'{{"id": "{task.id}", "result": "No."}}\n' for task in tasks))
    assert score(shared, tmp_path) == 0
    told = capsys.readouterr().out
    [unknown] = [line for line in told.splitlines() if "N/A" in line]
    assert unknown.startswith("N/A, for results are missing: V4 overall, ")
    assert "V3 overall" in unknown
    assert not [line for line in told.splitlines() if line.startswith(("V3", "V4 agentic"))]
    assert (
        f"21 categories, 20 have none; counted as 0, as BFCL does, it would be {accuracy / 20:.2%}"
        in told
    )
    assert "no answers of simple_python, " in told
    assert score(shared, tmp_path, "--partial") == 0
    [line] = [line for line in capsys.readouterr().out.splitlines() if "N/A" in line]
    assert "20 of their 21 categories have no answers" in line
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-10]))
    assert score(shared, tmp_path, "--partial") == 0
    assert re.search(r"^irrelevance +230 of 240 ", capsys.readouterr().out, re.MULTILINE)
    assert score(shared, tmp_path, "--partial", "--json") == 0
    report = json.loads(capsys.readouterr().out)[MODEL]
    assert len(report["missing_categories"]) == 20
    assert report["v4"]["overall"]["accuracy"] == pytest.approx(accuracy / 20)


def test_latencies_are_summed_up_as_by_the_standard_library() -> None:
    draw = random.Random(0)
    seconds = [draw.uniform(0, 100) for _ in range(1001)]
    latencies = Latencies()
    assert not latencies.summary()
    for start in range(0, 1001, 7):
        latencies.add([seconds[start : start + 3], [0, "?"], [*seconds[start + 3 : start + 7]]])
    expected = (statistics.mean(seconds), statistics.stdev(seconds), sorted(seconds)[950])
    assert [*latencies.summary().values()] == [str(round(each, 2)) for each in expected]


def test_names_of_older_versions_score_as_todays_and_are_told(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = ("simple", "java", "multiple_function", "relevance")
    now = ("simple_python", "simple_java", "multiple", "irrelevance")
    older = {"simple": "BFCL_v3", "java": "BFCL_v2"}
    for old, new in zip(folders, now, strict=True):
        task = load_tasks(shared / f"bfcl/data/BFCL_v4_{new}.json")[0]
        right = accepted_answer(task, "prompting") or "No function fits."
        for name, prefix in (
            (new, "BFCL_v4"),
            (old, older.get(old, "gorilla_openfunctions_v1_test")),
        ):
            path = tmp_path / str(name == new) / MODEL / f"{prefix}_{name}_result.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            entry_id = task.id.replace(new, name)
            path.write_text(json.dumps({"id": entry_id, "result": right}) + "\n")
    gone = path.with_name("gorilla_openfunctions_v1_test_executable_simple_result.json")
    gone.write_text('{"id": "executable_simple_0", "result": ""}\n' * 3)
    reports = []
    for folder in ("True", "False"):
        assert score(shared, tmp_path / folder, "--partial", "--json") == 0
        told = capsys.readouterr()
        reports.append(json.loads(told.out)[MODEL]["categories"])
    assert reports[0] == reports[1]
    assert {each["accuracy"] for each in reports[1].values()} == {1.0}
    assert "relevance as irrelevance" in told.err
    assert "3 answers are left out, for BFCL has no executable_simple any more" in told.err
    assert score(shared, gone, "--partial") == 2
    assert "BFCL has no executable_simple any more" in capsys.readouterr().err


MADE = {"mkdir": '{"dir_name": "x"}'}
LEFT = {"mkdir": {"dir_name": "x"}}


@pytest.mark.parametrize(
    "step", [[MADE], MADE, [LEFT], LEFT, {**MADE, "pwd": "{}"}, [MADE, {"pwd": {}}]], ids=str
)
def test_tool_calls_are_executed_however_bfcl_lets_an_interface_write_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], step: Any
) -> None:
    root = {"root": {"home": {"type": "directory", "contents": {}}}}
    task = {
        "id": "multi_turn_base_0",
        "question": [[{"role": "user", "content": "Make a folder called x."}]],
        "function": [],
        "involved_classes": ["GorillaFileSystem"],
        "initial_config": {"GorillaFileSystem": root},
        "ground_truth": [["mkdir(dir_name='x')"]],
    }
    (tmp_path / "BFCL_v4_multi_turn_base.json").write_text(json.dumps(task))
    results = tmp_path / "result/m/multi_turn/BFCL_v4_multi_turn_base_result.json"
    results.parent.mkdir(parents=True)
    results.write_text(json.dumps({"id": task["id"], "result": [[step, "Made."]]}))
    source = ["--input", str(tmp_path / "result"), "--data_dir", str(tmp_path)]
    assert main(["score", *source, "--json"]) == 0
    assert (
        json.loads(capsys.readouterr().out)["m"]["categories"]["multi_turn_base"]["accuracy"] == 1.0
    )


@pytest.mark.parametrize(
    ("steps", "valid"),
    [
        (lambda call, answer: [call, answer], True),
        (lambda call, answer: [answer, call], True),
        (lambda call, answer: [answer, call[0]], True),
        (lambda call, answer: [answer, [{name: {} for name in call[0]}]], True),
        (
            lambda call, answer: [answer, json.dumps(call)],
            False,
        ),  # chat that looks like calls is a message
        (lambda call, answer: [answer, []], False),
        (lambda call, answer: [answer, ""], False),
        (lambda call, answer: [call], False),
    ],
)
def test_the_answer_of_a_tool_calling_agent_is_its_last_message_that_calls_nothing(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], steps: Any, valid: bool
) -> None:
    [task, *_] = load_tasks(shared / "bfcl/data/BFCL_v4_memory_kv.json")
    answer = steps([{"core_memory_list_keys": "{}"}], str((task.ground_truth or [])[0]))
    path = tmp_path / "m/agentic/memory/kv/BFCL_v4_memory_kv_result.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"id": task.id, "result": [answer]}))
    assert score(shared, tmp_path, "--form", "tool_call", "--partial", "--json") == 0
    assert json.loads(capsys.readouterr().out)["m"]["categories"]["memory_kv"]["correct"] == valid


@pytest.mark.parametrize("answer", [None, 5, ["no call"], {"f": "{}"}])
@pytest.mark.parametrize("form", ["prompting", "tool_call"])
def test_an_answer_that_is_no_text_is_scored_strictly_too(answer: Any, form: str) -> None:
    task = Task("irrelevance_0", "irrelevance", [[{"role": "user", "content": "Hello?"}]])
    beside, verdict = ExtraMetrics(strict=True), judge(task, answer, form)
    assert verdict.valid
    beside.add(task, answer, form, verdict)
    assert beside.rates()["strict_accuracy"] in (0.0, 1.0)


@pytest.mark.parametrize(
    "text", ['{"id": "simple_python_1", "result": "[f(', '{"id": "simple_python_1", "result": 1,  ']
)
def test_a_line_that_was_cut_off_is_named_with_its_length_and_the_cure(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model/BFCL_v4_simple_python_result.json"
    path.parent.mkdir()
    path.write_text('{"id": "simple_python_0", "result": ""}\n' + text + "\n")
    assert main(["score", "--input", str(path)]) == 2
    assert (
        f"line 2 is no complete JSON object (it ends after {len(text.rstrip())} characters): "
        "mend or delete it"
    ) in capsys.readouterr().err
