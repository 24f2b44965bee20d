"""The forge command: bytes of a seed, interruptions, duplicates, bad input."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evaluate_fctncalling import main
from fctncalling.data.bfcl import load_tasks
from fctncalling.envs.judging.judge import judge
from fctncalling.evaluation.accepted_answers import accepted_answer_texts
from fctncalling.lab.forge import bfcl_source
from fctncalling.lab.forge.bfcl_source import FORGED_CATEGORIES, BfclSource
from fctncalling.lab.forge.forge_run import REPEATED, ForgeRun
from fctncalling.lab.forge.forged_entry import user_texts
from fctncalling.lab.forge.official_guard import (
    SHARED_CALLS,
    SHARED_WORDS,
    OfficialGuard,
    expected_calls_text,
    word_ngrams,
)

SINGLE = [name for name in FORGED_CATEGORIES if not name.startswith("multi_turn")]


@pytest.fixture(autouse=True)
def no_official_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("official_data_folder", "user_data_folder"):
        monkeypatch.setattr(bfcl_source, name, lambda: tmp_path / "none")


def forge(output: Path, *flags: str, num_tasks: int = 80) -> int:
    arguments = ["--num_tasks", str(num_tasks), "--category", *SINGLE, "--output", str(output)]
    return main(["forge", *arguments, *flags])


def ledger_of(output: Path) -> list[dict[str, Any]]:
    path = output.with_name(f"{output.name}.ledger.jsonl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path: Path) -> None:
    names = ("a.jsonl", "b.jsonl", "c.jsonl")
    for name, seed, jobs in zip(names, ("3", "3", "4"), "131", strict=True):
        assert forge(tmp_path / name, "--seed", seed, "--jobs", jobs) == 0
    first, again, other = (set((tmp_path / name).read_text().splitlines()) for name in names)
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    assert first == again
    assert not first & other


@pytest.mark.parametrize("layout", ["file", "bfcl"])
def test_an_interrupted_run_is_made_again_to_the_same_bytes(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, flags = tmp_path / "tasks", ("--layout", layout)
    assert forge(output, *flags) == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    output.rename(tmp_path / "tasks.part")  # as a kill between the two renames leaves it
    assert forge(output, *flags) == 0
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_two_runs_at_once_on_one_output_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output, usual, told = tmp_path / "tasks.jsonl", ForgeRun.tasks, []

    def begun_twice(run: ForgeRun, jobs: int) -> Iterator[Any]:
        for number, made in enumerate(usual(run, jobs)):
            if number == 5:
                capsys.readouterr()
                told.append((forge(output), capsys.readouterr().err))
            yield made

    monkeypatch.setattr(ForgeRun, "tasks", begun_twice)
    assert forge(output) == 0
    [(exit_code, message)] = told
    assert exit_code == 2
    assert "is in use by process" in message
    assert len(ledger_of(output)) == 82
    assert len(list(tmp_path.iterdir())) == 2  # no lock file stays


@pytest.mark.parametrize("first", ["[]", "[" * 100_000, "7", '"a"', "{", ""])
def test_a_ledger_that_is_none_is_told_in_one_line(
    first: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tasks.jsonl").write_text("mine\n")
    (tmp_path / "tasks.jsonl.ledger.jsonl").write_text(f"{first}\n")
    assert forge(tmp_path / "tasks.jsonl") == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "no ledger says how it was forged" in line
    assert (tmp_path / "tasks.jsonl").read_text() == "mine\n"


def test_the_two_layouts_hold_the_same_tasks(tmp_path: Path) -> None:
    assert forge(tmp_path / "one.jsonl") == 0
    assert forge(tmp_path / "folder", "--layout", "bfcl") == 0
    one = {task.id: task for task in load_tasks(tmp_path / "one.jsonl")}
    folder = {task.id: task for task in load_tasks(tmp_path / "folder")}
    assert one == folder
    assert all(task.difficulty is not None and 0 <= task.difficulty <= 1 for task in one.values())


def test_every_task_is_told_in_the_ledger(tmp_path: Path) -> None:
    assert forge(tmp_path / "tasks.jsonl") == 0
    settings, *lines, totals = ledger_of(tmp_path / "tasks.jsonl")
    tasks = load_tasks(tmp_path / "tasks.jsonl")
    assert settings["num_tasks"] == len(tasks) == totals["totals"]["tasks"] == 80
    assert settings["official_files"] is None
    assert [line["id"] for line in lines] == [task.id for task in tasks]
    assert [line["difficulty"] for line in lines] == [task.difficulty for task in tasks]
    assert len({line["texts"] for line in lines}) == len(tasks)


def test_no_two_tasks_of_a_file_have_the_same_user_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = FORGED_CATEGORIES["simple_python"]
    few = usual._replace(
        make=lambda name, seed, index, attempt: usual.make(name, seed, index // 2 + attempt, 0)
    )
    monkeypatch.setitem(FORGED_CATEGORIES, "simple_python", few)
    run = ForgeRun(BfclSource(OfficialGuard()), 5, 1, ("simple_python",))
    lines = [line for _, line in run.tasks()]
    assert len({line.texts for line in lines}) == 5
    assert [line.attempt for line in lines] == [0, 1, 1, 2, 2]
    assert lines[1].thrown_away == {REPEATED: 1}


def official_folder(folder: Path, question: str, truth: Any = None) -> Path:
    folder.mkdir()
    made = FORGED_CATEGORIES["simple_python"].make("simple_python", 1, 3, 0).entry
    entry = {**made, "question": [[{"role": "user", "content": question}]]}
    entry["ground_truth"] = truth or [{"never_called": {}}]
    (folder / "BFCL_v4_simple_python.json").write_text(json.dumps(entry) + "\n")
    return folder


@pytest.mark.parametrize(("words_kept", "is_thrown"), [(8, True), (7, False)])
def test_eight_words_in_a_row_of_an_official_task_are_too_many(
    tmp_path: Path, words_kept: int, is_thrown: bool
) -> None:
    made = FORGED_CATEGORIES["simple_python"].make("simple_python", 1, 3, 0).entry
    [text] = user_texts(made["question"])
    words = next(word_ngrams([text])).split()[:words_kept]
    folder = official_folder(tmp_path / "official", f"Xyz {' '.join(words).upper()}, qqq.")
    run = ForgeRun(BfclSource(OfficialGuard.of_folder(folder)), 5, 1, ("simple_python",))
    lines = {line.id: line for _, line in run.tasks()}
    thrown = lines["simple_python_3"].thrown_away
    assert (SHARED_WORDS in thrown) is is_thrown
    assert (lines["simple_python_3"].attempt > 0) is is_thrown


def test_the_calls_of_an_official_task_are_not_made_again(tmp_path: Path) -> None:
    made = FORGED_CATEGORIES["simple_python"].make("simple_python", 1, 3, 0).entry
    folder = official_folder(tmp_path / "official", "Other words.", made["ground_truth"])
    guard = OfficialGuard.of_folder(folder)
    [line] = [
        line
        for _, line in ForgeRun(BfclSource(guard), 5, 1, ("simple_python",)).tasks()
        if line.id == "simple_python_3"
    ]
    assert line.thrown_away == {SHARED_CALLS: 1}


def test_what_is_thrown_away_is_counted_and_the_official_files_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = FORGED_CATEGORIES["simple_python"].make("simple_python", 1, 3, 0).entry
    folder = official_folder(tmp_path / "official", next(user_texts(made["question"])))
    output = tmp_path / "tasks.jsonl"
    assert forge(output, "--official_dir", str(folder)) == 0
    settings, *_, totals = ledger_of(output)
    assert list(settings["official_files"]) == ["BFCL_v4_simple_python.json"]
    assert totals["totals"]["thrown_away"][SHARED_WORDS] == 1
    assert f"1 that {SHARED_WORDS}" in capsys.readouterr().out


def test_tasks_of_named_apis_involve_no_other_and_are_theirs_of_the_seed(tmp_path: Path) -> None:
    apis = ["GorillaFileSystem", "TradingBot", "MathAPI"]
    words = ["forge", "--num_tasks", "30", "--category", "multi_turn_base", "--apis"]
    file, again = tmp_path / "few.jsonl", tmp_path / "again.jsonl"
    assert main([*words, *apis, "--output", str(file)]) == 0
    assert main([*words, *reversed(apis), "--output", str(again)]) == 0
    involved = {tuple(sorted(task.involved_classes)) for task in load_tasks(file)}
    assert set().union(*involved) == set(apis)
    assert ("GorillaFileSystem", "MathAPI") in involved
    assert file.read_bytes() == again.read_bytes()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--apis", "TradingBot"], "--category multi_turn_base"),
        (["--apis", "MathAPI", "--category", "multi_turn_base"], "no task involves these alone"),
    ],
)
def test_apis_that_no_task_takes_are_told_with_the_cure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert main(["forge", "--num_tasks", "2", "--output", str(tmp_path / "x"), *words]) == 2
    assert said in capsys.readouterr().err


def test_a_finished_file_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "tasks.jsonl"
    assert forge(output) == 0
    before = output.stat().st_mtime_ns
    assert forge(output) == 0
    assert "forged with the same flags" in capsys.readouterr().out
    assert output.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--category", "simple_pyton"], "is simple_python meant?"),
        (["--num_tasks", "0"], "--num_tasks: got 0, expected at least 1"),
        (["--official_dir", "/no/such"], "/no/such: expected files named BFCL_*.json, found none"),
        (["--seed", "2"], "is there already, forged with seed 1, not 2"),
        (["--layout", "bfcl"], 'forged with layout "file", not "bfcl"'),
        (["--num_tasks", "81"], "forged with num_tasks 80, not 81"),
    ],
)
def test_bad_input_is_told_in_one_line_and_leaves_everything_as_it_was(
    flags: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "tasks.jsonl"
    assert forge(output) == 0
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    capsys.readouterr()
    try:
        exit_code = forge(output, *flags)
    except SystemExit as error:
        exit_code = int(str(error.code))
    assert exit_code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert told in line
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("question", ["7", "[[7]]", '[[{"role": "user"}]]', None])
def test_an_official_file_without_messages_is_told_with_its_line(
    question: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = official_folder(tmp_path / "official", "Fine.")
    file = folder / "BFCL_v4_simple_python.json"
    broken = '{"id": "simple_python_1"}'
    if question is not None:
        broken = f'{{"id": "simple_python_1", "question": {question}}}'
    file.write_text(file.read_text() + broken + "\n")
    assert forge(tmp_path / "tasks.jsonl", "--official_dir", str(folder)) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "BFCL_v4_simple_python.json line 2" in line
    assert "expected a list of turns" in line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["official"]


def test_an_output_that_cannot_be_written_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("mine\n")
    assert forge(tmp_path / "file" / "tasks.jsonl") == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "cannot be written" in line
    assert main(["forge", "--output", ""]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "expected the name of a file" in line
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_ledger_without_totals_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert forge(tmp_path / "tasks.jsonl") == 0
    ledger = tmp_path / "tasks.jsonl.ledger.jsonl"
    whole = ledger.read_text().splitlines(keepends=True)
    for last in ("", "[]\n", "[" * 10**5, '{"totals": 7}\n'):
        ledger.write_text("".join(whole[:-1]) + last)
        capsys.readouterr()
        assert forge(tmp_path / "tasks.jsonl", "--json") == 2
        [line] = capsys.readouterr().err.splitlines()
        assert "expected the totals in its last line" in line


def test_forged_answers_pass_in_both_forms(tmp_path: Path) -> None:
    assert forge(tmp_path / "tasks.jsonl") == 0
    for task in load_tasks(tmp_path / "tasks.jsonl"):
        if task.ground_truth is not None and not task.extra.get("missing_parameters"):
            for form in ("prompting", "tool_call"):
                [text, *_] = (text for each, _, text in accepted_answer_texts(task) if each == form)
                assert judge(task, text, form).valid, (task.id, form, text)
            assert expected_calls_text(task)
