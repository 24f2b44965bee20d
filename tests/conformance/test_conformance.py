"""conformance: strata hold what their names say, scorers are graded, hostile ones end in a line."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import VerdictCounter

from fctncalling.cli.command import main
from fctncalling.lab.conformance.function_scorer import call_scorer
from fctncalling.lab.conformance.made_answers import (
    compare_category,
    load_recorded_verdicts,
    made_answers_of_category,
    pack_bits,
    unpack_bits,
)
from fctncalling.lab.conformance.single_turn_mutations import stratum_name

SCORER = """
import json, sys
for line in sys.stdin:
    record = json.loads(line)
    print(json.dumps({"id": record["id"], "valid": VALID}), flush=True)
"""


@pytest.fixture
def data(shared: Path) -> Path:
    return shared / "bfcl/data"


def graded(data: Path, tmp_path: Path, scorer: str, *more: str) -> dict[str, Any]:
    """Return the report on a scorer, with the exit code."""
    file = tmp_path / "report.json"
    code = main(["conformance", "--scorer", scorer, f"--data_dir={data}", f"--json={file}", *more])
    return {**json.loads(file.read_text("utf-8")), "code": code}


def script(tmp_path: Path, valid: str) -> str:
    """Return the command of a scorer that says `valid`, an expression on a record."""
    path = tmp_path / "scorer.py"
    path.write_text(SCORER.replace("VALID", valid), "utf-8")
    return f"{sys.executable} {path}"


CHOSEN = ("--category", "multiple", "parallel", "irrelevance", "multi_turn_base", "--answers", "3")


def test_ours_agrees_everywhere_and_a_scorer_that_takes_all_with_what_is_valid(
    data: Path, tmp_path: Path
) -> None:
    own = graded(data, tmp_path, "self", *CHOSEN)
    assert own["code"] == 0
    assert {each["agreement"] for each in own["strata"].values()} == {1.0}
    generous = graded(data, tmp_path, script(tmp_path, "True"), *CHOSEN)
    assert generous["code"] == 1
    assert generous["strata"].keys() == own["strata"].keys()
    for name, each in generous["strata"].items():
        is_valid = name.startswith(("valid/", "lenient/"))
        assert each["agreement"] == float(is_valid), name
        assert each["count"] == own["strata"][name]["count"]
        assert ("counterexample" in each) == (not is_valid)


def test_a_scorer_with_known_faults_is_caught_where_they_are(data: Path, tmp_path: Path) -> None:
    (tmp_path / "faulty.py").write_text(
        "def scored(record):\n"
        "    calls, truth = record['answer']['calls'], record['task']['ground_truth']\n"
        "    names = [call['name'] for call in calls or ()]\n"
        "    return all(next(iter(each)) in names for each in truth)\n",
        "utf-8",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        report = graded(data, tmp_path, "faulty:scored", "--category", "multiple")
    strata = report["strata"]
    for blind in ("spurious_twice", "spurious_other", "wrong_string", "missing_required"):
        assert strata[f"wrong/{blind}"]["agreement"] == 0.0
    for seen in ("missing_call", "function_name", "only_words", "empty_object"):
        assert strata[f"wrong/{seen}"]["agreement"] == 1.0
    assert strata["valid/canonical"]["agreement"] == 1.0
    assert (
        "is called, too. The scorer says valid, BFCL wrong"
        in (strata["wrong/spurious_other"]["counterexample"])
    )


@pytest.mark.parametrize(
    ("scorer", "told"),
    [
        ("false", "it ended after 0 verdicts with exit code 1"),
        ("no_such_program", "cannot be started"),
        ("yes", "expected lines"),
        ("cat", "expected lines"),
        ("head -c 3000000 /dev/zero", "a line of more than"),
        ("sleep 60", "for 1 s it has read no line and written none"),
        ("PYTHON 'print(chr(91) * 100000)'", "expected lines"),
        ("PYTHON 'import sys; sys.stderr.write(\"e\" * 10000000); sys.exit(3)'", "exit code 3"),
        ('PYTHON \'print("{\\"id\\": \\"x\\", \\"valid\\": true}")\'', "was not asked"),
        ("no_such_module:scored", "ModuleNotFoundError"),
        ("'", "expected a command"),
    ],
)
def test_a_hostile_scorer_ends_in_one_line(
    data: Path, scorer: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = scorer.replace("PYTHON", f"{sys.executable} -c")
    started = time.monotonic()
    limit = "1" if scorer == "sleep 60" else "10"  # a scorer may start slowly on a full machine
    chosen = ("--data_dir", str(data), "--category", "multiple", "--idle_limit", limit)
    assert main(["conformance", "--scorer", command, *chosen]) == 2
    assert time.monotonic() - started < 20
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert told in error
    assert error.count("\n") == 1
    assert len(error) < 600


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        ("0", "valid is 0"),
        ("1.0", "valid is 1.0"),
        ("'false'", 'valid is "false"'),
        ("(False, 'why')", 'valid is [false, "why"]'),
        ("object()", 'valid is "<object object at'),
    ],
)
def test_what_is_no_truth_value_is_no_verdict(
    returned: str,
    told: str,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odd.py").write_text(f"def scored(record):\n    return {returned}\n", "utf-8")
    chosen = ("--data_dir", str(data), "--category", "live_parallel")
    is_json = returned[0] not in "o{"
    for command in ("odd:scored", *([script(tmp_path, returned)] if is_json else ())):
        assert main(["conformance", "--scorer", command, *chosen]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert "answer '1': " in error
        assert told in error
        assert "expected true or false" in error


def test_numpys_truth_values_are_verdicts(data: Path, tmp_path: Path) -> None:
    text = "import numpy\ndef scored(record):\n    return numpy.bool_(record['id'] != '0')\n"
    (tmp_path / "of_numpy.py").write_text(text, "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        given = graded(data, tmp_path, "of_numpy:scored", "--category", "live_parallel")
    plain = graded(data, tmp_path, script(tmp_path, "True"), "--category", "live_parallel")
    assert given["strata"] == plain["strata"]


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (("    print(", "    record['id'] != '5' and print("), "it ended after 127 verdicts"),
        (("flush=True)", 'flush=True); print(\'{"id": "1", "valid": true}\')'), "has one already"),
    ],
)
def test_a_scorer_that_leaves_out_or_answers_twice_is_refused(
    data: Path,
    tmp_path: Path,
    fault: tuple[str, str],
    told: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = script(tmp_path, "True")
    path = tmp_path / "scorer.py"
    path.write_text(path.read_text("utf-8").replace(*fault), "utf-8")
    chosen = ("--data_dir", str(data), "--category", "live_parallel")
    assert main(["conformance", "--scorer", command, *chosen]) == 2
    assert told in capsys.readouterr().err


def test_no_verdict_is_no_agreement_and_told(data: Path, tmp_path: Path) -> None:
    report = graded(data, tmp_path, script(tmp_path, "None"), "--category", "live_parallel")
    assert {each["agreement"] for each in report["strata"].values()} == {0.0}
    assert all("no verdict" in each["counterexample"] for each in report["strata"].values())


def test_the_same_seed_makes_the_same_answers_and_another_others(data: Path) -> None:
    def made(seed: int) -> list[Any]:
        return [each.response for each in made_answers_of_category(data, "live_parallel", seed, 8)]

    assert made(1) == made(1) != made(2)


def test_every_mutation_of_several_turns_is_met_and_on_the_side_it_was_made_for(data: Path) -> None:
    met = Counter(
        each.expected_verdict().stratum
        for each in made_answers_of_category(
            data, "multi_turn_miss_func", seed=3, answers_a_task=30
        )
    )
    assert met["valid/turns_canonical"] == met["wrong/turns_only_words"] == 200
    assert met["lenient/turns_call_in_empty_turn"] > 100
    assert not [name for name in met if name.startswith("harsh/")]


def test_a_stratum_is_named_by_purpose_and_verdict() -> None:
    assert stratum_name("valid", "x", valid=True) == "valid/x"
    assert (
        stratum_name("valid", "x", valid=False)
        == stratum_name("harsh", "x", valid=False)
        == "harsh/x"
    )
    assert (
        stratum_name("wrong", "x", valid=True)
        == stratum_name("harsh", "x", valid=True)
        == "lenient/x"
    )


def test_a_function_takes_the_line_or_task_and_answer() -> None:
    record = {"id": "1", "task": {"id": "a"}, "answer": {"text": "b"}}
    assert call_scorer(lambda line: line["task"]["id"] == "a", record) is True
    assert call_scorer(lambda task, answer: {"valid": answer["text"] == "c"}, record) is False


def test_bits_are_packed_and_unpacked() -> None:
    for bits in (
        [],
        [True],
        [False] * 9,
        [True, False, True, True, False, False, True, False, True],
    ):
        assert unpack_bits(pack_bits(bits), len(bits)) == bits


def test_our_verdicts_are_those_recorded_from_the_official_package(
    data: Path, verdict_counter: VerdictCounter
) -> None:
    recorded = load_recorded_verdicts()
    assert (recorded["package"], recorded["version"]) == ("bfcl-eval", "2026.3.23")
    total = 0
    for category in recorded["categories"]:
        comparison = compare_category(data, category, recorded)
        assert comparison.different == []
        total += comparison.compared
    assert total == recorded["answers"] >= 20_000
    verdict_counter.add(total)


def test_a_changed_bit_and_changed_tasks_are_seen(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = load_recorded_verdicts()
    entry = dict(recorded["categories"]["live_parallel"])
    bits = unpack_bits(entry["bits"], entry["answers"])
    bits[17] = not bits[17]
    changed = {"live_parallel": {**entry, "bits": pack_bits(bits)}}
    comparison = compare_category(data, "live_parallel", {**recorded, "categories": changed})
    assert len(comparison.different) == 1
    (tmp_path / "possible_answer").mkdir()
    name = "BFCL_v4_live_parallel.json"
    (tmp_path / name).write_bytes((data / name).read_bytes().replace(b"Fahrenheit", b"Kelvin", 1))
    (tmp_path / "possible_answer" / name).write_bytes(
        (data / "possible_answer" / name).read_bytes()
    )
    assert main(["conformance", "--recorded", "--data_dir", str(tmp_path)]) == 2
    assert "are not those of bfcl-eval 2026.3.23" in capsys.readouterr().err


def test_without_official_tasks_the_cure_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["conformance", "--recorded", "--data_dir", str(tmp_path)]) == 2
    assert "fctncalling import-bfcl" in capsys.readouterr().err
