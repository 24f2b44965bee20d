"""Our verdicts and BFCL's recorded ones are the same, in `valid` and in `error_type`, table by
table.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import VerdictCounter

from fctncalling.cli.execute import RecordExecutor
from fctncalling.cli.shared.jsonl_records import Record, SourceRecord, read_records
from fctncalling.cli.verdicts import RecordJudge
from fctncalling.envs.handlers import DecodeError, get_handler

PYTHON = (
    "simple_python",
    "multiple",
    "parallel",
    "parallel_multiple",
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
)
RELEVANCE = ("irrelevance", "live_irrelevance", "live_relevance")
MULTI_TURN = tuple(
    f"multi_turn_{kind}"
    for kind in ("base", "miss_func", "miss_param", "long_context", "composite")
)
TABLES = (
    *PYTHON,
    *(f"fc_{name}" for name in PYTHON),
    *RELEVANCE,
    *MULTI_TURN,
    *(f"raw_{name}" for name in MULTI_TURN),
    "memory",
    "web_search",
)
# Every how-manieth record the fast suite compares; all of the tables that are not here.
STRIDES = {
    "live_multiple": 6,
    **dict.fromkeys((*MULTI_TURN, *(f"raw_{name}" for name in MULTI_TURN)), 5),
}


@pytest.fixture
def official(shared: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(
        "FCTNCALLING_LONG_CONTEXT", str(shared / "bfcl" / "data" / "long_context.json")
    )
    return shared / "bfcl"


def table(official: Path, name: str) -> Path:
    path = official / "verdicts" / f"{name}.jsonl.gz"
    if not path.exists():
        pytest.skip(f"no table {path}")
    return path


def compare(official: Path, name: str, stride: int, counter: VerdictCounter) -> None:
    judge = RecordJudge(official / "data")
    lines = list(read_records(table(official, name)))[::stride]
    different = [line for line in lines if judge.judge_record(line) != line.record]
    counter.add(len(lines))
    assert lines
    assert not different, [
        (line.number, line.record["mutation"], judge.judge_record(line)) for line in different[:5]
    ]


@pytest.mark.parametrize("name", TABLES)
def test_verdicts_are_the_official_ones(
    official: Path, verdict_counter: VerdictCounter, name: str
) -> None:
    compare(official, name, STRIDES.get(name, 1), verdict_counter)


@pytest.mark.prove
@pytest.mark.parametrize("name", STRIDES)
def test_verdicts_of_whole_tables_are_the_official_ones(
    official: Path, verdict_counter: VerdictCounter, name: str
) -> None:
    compare(official, name, 1, verdict_counter)


@pytest.mark.parametrize("name", ["multi_turn_exec", "multi_turn_fuzz"])
def test_results_of_calls_are_the_official_texts(
    official: Path, verdict_counter: VerdictCounter, name: str
) -> None:
    executor = RecordExecutor(official / "data")
    num_results = 0
    for line in read_records(table(official, name)):
        assert executor.execute_record(line) == line.record, line.number
        num_results += len(line.record.get("calls", [0]))
    verdict_counter.add(num_results)


def test_python_decoder_gives_the_official_values_and_failures(
    official: Path, verdict_counter: VerdictCounter
) -> None:
    handler = get_handler("python_calls")
    with gzip.open(table(official, "decode_cases"), "rt", encoding="utf-8") as file:
        cases = [
            case
            for case in map(json.loads, file)
            if case["format"] == "python" and not case["tool_call_tag"]
        ]
    assert cases
    for case in cases:
        assert decoded(handler.decode_ast, case["input"]) == case.get("ast_repr"), case
        assert decoded(handler.decode_execute, case["input"]) == case.get("execute_repr"), case
    verdict_counter.add(2 * len(cases))


def decoded(decode: Any, text: str) -> str | None:
    try:
        return repr(decode(text))
    except DecodeError:
        return None


def test_the_order_of_records_does_not_change_verdicts(official: Path) -> None:
    lines = list(read_records(table(official, "multi_turn_base")))[:60]
    judge = RecordJudge(official / "data")
    forwards = [judge.judge_record(line) for line in lines]
    backwards = [judge.judge_record(line) for line in reversed(lines)]
    assert forwards == backwards[::-1]


def test_a_record_of_an_unknown_category_is_told_by_file_line_and_field(official: Path) -> None:
    record: Record = {
        "category": "exec_simple",
        "form": "prompting",
        "id": "exec_simple_0",
        "response": "Paris",
    }
    with pytest.raises(Exception, match=r'answers.jsonl line 7: field "category".*exec_simple'):
        RecordJudge(official / "data").judge_record(SourceRecord(Path("answers.jsonl"), 7, record))
