"""Rollout dumps of verl and TRL: what they hold is shown and checked, or refused in one line."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from fctncalling.cli.command import main
from fctncalling.lab.viewer import page_data, page_file
from fctncalling.lab.viewer.rollout_dumps import load_dump

RESPONSE = (
    '<tool_call>\n{"name": "get", "arguments": {"x": 1}}\n</tool_call>\nuser\n<tool_response>\n'
    "seven\n</tool_response>\nassistant\nIt is seven."
)
VERL: dict[str, Any] = {
    "input": "system\nTools.\nuser\nWhat is it?\nassistant\n",
    "output": RESPONSE,
    "gts": "seven",
    "score": 1.0,
    "step": 5,
    "uid": "a",
}
CALL = {"type": "function", "function": {"name": "get", "arguments": {"x": 1}}}
TRL: dict[str, Any] = {
    "step": 7,
    "prompt": [{"role": "user", "content": "What is it?"}],
    "completion": [
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "name": "get", "content": "seven"},
        {"role": "assistant", "content": "It is seven."},
    ],
    "success_reward": 1.0,
    "advantage": 0.0,
}
ROWS = {"verl": VERL, "trl": TRL}
ODD = (
    None,
    7,
    -1,
    1.5,
    10**400,
    float("nan"),
    True,
    "t",
    "\ud800",
    [],
    [1],
    [None],
    [[]],
    {},
    [{}],
)


def dump(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


def shown(path: Path, form: str) -> dict[str, Any]:
    """Return a page's data."""
    return page_data(load_dump(path, form), lambda _: (None, {}))


def told(data: dict[str, Any]) -> dict[str, list[str]]:
    """Return what each check finds, by line."""
    return {
        each["check"]: [f"{one['episode']} {one['message']}" for one in each["findings"]]
        for each in data["checks"]
    }


@pytest.mark.parametrize("form", ROWS)
def test_actions_calls_results_and_the_score_are_shown(form: str, tmp_path: Path) -> None:
    [episode] = shown(dump(tmp_path / "5.jsonl", ROWS[form]), form)["episodes"]
    assert [step["text"] for step in episode["steps"]][1] == "It is seven."
    assert "seven" in episode["steps"][0]["results"][0]
    assert episode["steps"][1]["results"] == []
    assert (episode["return"], episode["success"]) == (1.0, None)
    assert "What is it?" in episode["opening"][0]["content"]
    if form == "trl":
        assert episode["steps"][0]["calls"] == [{"name": "get", "arguments": {"x": 1}}]
    else:
        assert episode["steps"][0]["text"].endswith("</tool_call>")
        assert episode["truth"] == "seven"


def test_rollouts_of_one_prompt_and_step_are_a_group(tmp_path: Path) -> None:
    rows = [VERL, {**VERL, "score": 0.0, "output": "No."}, {**VERL, "input": "Other?"}]
    members = shown(dump(tmp_path / "5.jsonl", *rows), "verl")["members"]
    assert members[0]["group"] == members[1]["group"] != members[2]["group"]


def test_one_answer_with_two_scores_and_an_unjudged_one_are_found(tmp_path: Path) -> None:
    rows = [VERL, {**VERL, "score": 0.0}, {**VERL, "output": "No.", "score": float("nan")}]
    found = told(shown(dump(tmp_path / "5.jsonl", *rows), "verl"))
    assert found == {
        "judged": ["5:3 no score: nobody judged it"],
        "scores": ["5:2 score 0; line 1 says the same for 1"],
    }


@pytest.mark.parametrize(
    ("advantages", "message"),
    [
        ((0.5, -0.5, 0.0, 0.0), ""),
        ((0.9, -0.5, 0.0, 0.0), "8:1 advantages of its group sum to 0.4, not to 0"),
        ((0.5, -0.5, 0.3, -0.3), "8:3 all of its group have one score, and advantage 0.3"),
    ],
)
def test_advantages_that_no_group_baseline_gives_are_found(
    advantages: tuple[float, ...], message: str, tmp_path: Path
) -> None:
    rows = [
        {
            **TRL,
            "prompt": f"Question {number // 2}?",
            "completion": str(number),
            "success_reward": float(number == 0),
            "advantage": advantage,
        }
        for number, advantage in enumerate(advantages)
    ]
    found = told(shown(dump(tmp_path / "8.jsonl", *rows), "trl"))
    assert found["baseline"] == ([message] if message else [])
    unjudged = told(shown(dump(tmp_path / "8.jsonl", {**rows[0], "success_reward": None}), "trl"))
    assert len(unjudged["judged"]) == 1


def test_of_a_folder_the_last_step_or_the_one_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for step in (2, 10):
        dump(tmp_path / f"{step}.jsonl", VERL)
    assert load_dump(tmp_path, "verl").path.name == "10.jsonl"
    assert load_dump(tmp_path, "verl", 2).path.name == "2.jsonl"
    page = tmp_path / "a.html"
    assert main(["view", str(tmp_path), "--format", "verl", "--output", str(page)]) == 0
    assert "1 episodes" in capsys.readouterr().out
    assert main(["view", str(tmp_path), "--format", "verl", "--update", "3"]) == 2
    assert "there are: 2, 10" in capsys.readouterr().err


@pytest.mark.parametrize("form", ROWS)
def test_no_value_of_any_field_stops_the_page(form: str, tmp_path: Path) -> None:
    row = ROWS[form]
    rows = [{**row, name: odd} for name in row for odd in ODD]
    if form == "trl":
        message = TRL["completion"][0]
        rows += [{**row, "completion": [{**message, name: odd}]} for name in message for odd in ODD]
        rows += [
            {**row, "completion": [{**message, "tool_calls": [{"function": odd}]}]} for odd in ODD
        ]
    data = shown(dump(tmp_path / "1.jsonl", *rows, row), form)
    assert data["episodes"][-1]["line"] == len(rows) + 1
    assert page_file.page_html(data)


def test_a_long_dump_is_read_line_by_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(page_data.__globals__, "MAX_MEMBERS", 10)
    rows = [{**VERL, "output": f"{number} {'x' * 10_000}"} for number in range(1000)]
    path = dump(tmp_path / "1.jsonl", *rows)
    tracemalloc.start()
    data = page_data(load_dump(path, "verl"), lambda _: (None, {}), worst=3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4_000_000
    assert data["tally"]["verl"]["episodes"] == 1000


READERS = {
    "raise ImportError": "pip install pyarrow",
    "class ParquetFile:\n    def __init__(self, path): bytearray(1 << 40)": "too much memory",
    "import os\nos.abort()": "it is damaged",
    (
        "class Row:\n    def to_pylist(self): return ['x' * (1 << 28)]\n"
        "class ParquetFile:\n    def __init__(self, path): pass\n"
        "    def iter_batches(self, *a, **k):\n        while True: yield Row()"
    ): "more than",
}


@pytest.mark.parametrize("reader", READERS)
def test_whatever_a_parquet_file_does_to_its_reader_ends_in_one_line(
    reader: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "pyarrow").mkdir()
    (tmp_path / "pyarrow" / "__init__.py").touch()
    (tmp_path / "pyarrow" / "parquet.py").write_text(reader)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    file = tmp_path / "completions_00001.parquet"
    file.write_bytes(b"PAR1")
    assert main(["view", str(file), "--format", "trl"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert READERS[reader] in error
    assert error.count("\n") == 1


def test_a_parquet_file_is_read_as_trl_writes_it(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "completions_00007.parquet"
    parquet.write_table(pyarrow.Table.from_pylist([TRL, TRL]), path)
    [first, _] = shown(path, "trl")["episodes"]
    assert [step["text"] for step in first["steps"]] == ["", "It is seven."]
    assert first["steps"][0]["results"] == ["seven"]


@pytest.mark.parametrize("path", ["/dev/zero", "/nowhere"])
def test_what_is_no_file_is_refused(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", path, "--format", "verl"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
