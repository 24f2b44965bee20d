"""Damaged and hostile input of the viewer: what is odd is told and left out, the rest is drawn."""

from __future__ import annotations

import copy
import gzip
import io
import json
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browsers import OpenPage, chromium
from sample_runs import sample_contents, write_sample_run

from evaluate_fctncalling import main
from fctncalling.data.token_file import TokenFileError, read_token_file, write_token_file
from fctncalling.lab.viewer import load_run, page_data, page_file, run_files

STEP = {
    "turn": 0,
    "text": "[f()]",
    "calls": [{"name": "f", "arguments": {}}],
    "executed": ["f()"],
    "results": ["1"],
    "error": None,
    "reward": 0.0,
    "messages": [{"role": "user"}],
}
RECORD: dict[str, Any] = {
    "id": "a",
    "category": "multi_turn_base",
    "steps": [STEP, STEP],
    "ground_truth": [["f()"]],
    "verdict": {"valid": False, "per_turn": [True], "error_type": "x", "message": "y"},
    "success": False,
    "strict_success": False,
    "strict_error_type": None,
    "return": 0.5,
    "messages": [{"role": "user", "content": "go"}],
    "num_actions_truncated": 0,
    "seed": 3,
    "terminated": True,
    "truncated": False,
    "invalid": False,
    "error_type": None,
    "tokens": [{"shared": 0, "ids": [1], "runs": [0, 1]}],
    "invalid_reason": "x",
}
NESTED = json.loads("[" * 500 + "]" * 500)
ODD = (None, 7, -1, 1.5, 10**400, float("nan"), True, "text", "\ud800", [], [1], [None], [[]], {})
ODD_VALUES = (*ODD, {"a": 1}, [{"a": 1}], NESTED)


def odd_records() -> list[dict[str, Any]]:
    """Return records with each field of record, verdict and step replaced by each odd value."""
    found = []
    for path in ([], ["verdict"], ["steps", 1], ["steps", 1, "calls", 0], ["messages", 0]):
        owner: Any = RECORD
        for key in path:
            owner = owner[key]
        for name in owner:
            for value in ODD_VALUES:
                record = copy.deepcopy(RECORD)
                place: Any = record
                for key in path:
                    place = place[key]
                place[name] = value
                found.append(record)
    return found


def written(path: Path, records: list[Any]) -> Path:
    path.write_text("".join(f"{json.dumps(each)}\n" for each in records))
    return path


def test_an_odd_record_is_told_and_left_out_and_the_rest_is_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_sample_run(tmp_path / "run")
    path = run / "episodes" / "train_000003.jsonl"
    lines = path.read_text().splitlines()
    odd = json.loads(lines[1])
    odd["steps"][0]["results"] = "None"
    lines[1] = json.dumps(odd)
    path.write_text("\n".join([*lines, '"a text"', "7", '{"half']))
    assert main(["view", str(run), "--output", str(tmp_path / "page.html")]) == 0
    shown = capsys.readouterr()
    assert "3 episodes" in shown.out
    told = [note.removeprefix(f"note: {path.name}: ") for note in shown.err.splitlines()]
    assert told == [
        'line 2 is left out: field "steps[0].results": expected a list, got "None"',
        'line 5 is left out: expected a JSON object, got "a text"',
        "line 6 is left out: expected a JSON object, got 7",
        "line 7 is only half written, and left out",
    ]


def test_no_value_of_any_field_stops_the_page(tmp_path: Path) -> None:
    records = odd_records()
    run = load_run(written(tmp_path / "odd.jsonl", [*records, RECORD]))
    data = page_data(run, lambda record: (None, {}), worst=len(records) + 1)
    assert len(records) // 3 < len(data["episodes"]) < len(records)
    assert len(records) + 1 in {entry["line"] for entry in data["episodes"]}
    assert "more lines are left out" in " ".join(data["notes"])
    assert page_file.page_html(data)


def test_long_files_are_read_line_by_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of 20 MB in 4 MB: what is not shown is not kept."""
    monkeypatch.setitem(page_data.__globals__, "MAX_MEMBERS", 10)
    text = "x" * 10_000
    path = tmp_path / "long.jsonl.gz"
    with gzip.open(path, "wt", compresslevel=1) as file:
        for number in range(2000):
            step = {"turn": 0, "text": text}
            record = {"id": str(number), "category": "c", "steps": [step], "valid": number != 1500}
            file.write(f"{json.dumps(record)}\n")
    tracemalloc.start()
    data = page_data(load_run(path), lambda record: (None, {}), worst=3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4_000_000
    assert [each["task"] for each in data["episodes"]] == ["1500", "0", "1"]
    assert (len(data["members"]), data["tally"]["c"]["episodes"]) == (10, 2000)
    assert data["tally"]["c"]["success"] == 1999


def test_a_line_without_end_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_files, "MAX_LINE", 1000)
    path = tmp_path / "a.jsonl"
    path.write_text(f"{json.dumps({'steps': [], 'x': 'y' * 5000})}\n" + json.dumps({"steps": []}))
    run = load_run(path)
    assert [each["line"] for each in run.episodes] == [2]
    assert "more than 1,000 characters" in run.notes[0]


def npy(shape: tuple[int, ...], dtype: str) -> bytes:
    """Return the beginning of an array's file that claims a shape."""
    file = io.BytesIO()
    header = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + b"\0" * 64


@pytest.mark.parametrize(
    ("name", "shape", "dtype", "message"),
    [
        ("ids", (750_000_000,), "<i4", "3,000,000,000 of them in field ids"),
        ("values", (10**12,), "<f4", "in field values, expected at most"),
        ("header", (), f"<U{10**8 * 5}", "in field header"),
        ("ids", (10**6, 10**6), "<i4", "in field ids"),
    ],
)
def test_a_token_file_that_claims_more_than_it_may_is_refused_unread(
    name: str, shape: tuple[int, ...], dtype: str, message: str, tmp_path: Path
) -> None:
    write_token_file(tmp_path / "sound.npz", sample_contents())
    with (
        zipfile.ZipFile(tmp_path / "sound.npz") as sound,
        zipfile.ZipFile(tmp_path / "bomb.npz", "w") as bomb,
    ):
        for each in sound.namelist():
            bomb.writestr(each, npy(shape, dtype) if each == f"{name}.npy" else sound.read(each))
    tracemalloc.start()
    with pytest.raises(TokenFileError, match=message):
        read_token_file(tmp_path / "bomb.npz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4_000_000


def test_a_token_without_text_is_named(tmp_path: Path) -> None:
    contents = sample_contents()
    contents.header["pieces"].pop(str(int(contents.ids[3])))
    write_token_file(tmp_path / "a.npz", contents)
    with pytest.raises(TokenFileError, match=f"no text of token {contents.ids[3]}"):
        read_token_file(tmp_path / "a.npz")


@pytest.mark.prove
def test_a_browser_draws_every_odd_record_and_episodes_of_200000_tokens(tmp_path: Path) -> None:
    records = odd_records()
    odd = written(tmp_path / "odd.jsonl", records)
    assert main(["view", str(odd), "--worst", str(len(records))]) == 0
    long = _long_run(tmp_path / "long", 200_000)
    assert main(["view", str(long)]) == 0
    with chromium() as browser:
        with OpenPage(browser, tmp_path / "odd.html") as page:
            drawn = page.value(
                "page.data.episodes.map((each) => { go({ e: each.id, t: '' });"
                " return document.querySelector('article').dataset.episode; })"
            )
            assert drawn == page.value("page.data.episodes.map((each) => each.id)")
            for view in ("groups", "updates", "discarded", "run"):
                page.tab.click(f'[data-view="{view}"]')
        with OpenPage(browser, long / "view.html") as page:
            assert page.count(".tok.acted") >= 200_000


def _long_run(folder: Path, num_tokens: int) -> Path:
    """Return a run whose first episode has one action of so many tokens."""
    contents = sample_contents("GRPO")
    run = write_sample_run(folder, contents)
    first = int(np.flatnonzero(contents.acted)[0])
    repeated = np.arange(len(contents.ids))
    repeated = np.concatenate([np.repeat(first, num_tokens - 6), repeated])
    repeated.sort()
    fields = {
        name: value[repeated]
        for name, value in vars(contents).items()
        if isinstance(value, np.ndarray) and len(value) == len(contents.ids)
    }
    offsets = contents.row_offsets.copy()
    offsets[1:] += num_tokens - 6
    changed = type(contents)(**{**vars(contents), **fields, "row_offsets": offsets})
    write_token_file(run / "tokens" / "update_000003.npz", changed)
    return run
