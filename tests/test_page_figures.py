"""Figures of the pages: those of files that commands wrote, in tables and in sentences."""

from __future__ import annotations

import gzip
import json
import re
import runpy
from pathlib import Path
from typing import Any

import learning_curve
import pytest
from figures import Figure, report

from fctncalling.lab.conformance.made_answers import load_recorded_verdicts

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "results/kept"
TABLES = runpy.run_path(str(ROOT / "docs/evidence_tables.py"))
MODEL_TABLES = runpy.run_path(str(ROOT / "docs/real_model_tables.py"))
EXECUTED = ("multi_turn_exec", "multi_turn_fuzz")  # of the recorded files
NO_VERDICTS = ("decode_cases", *EXECUTED)

CELL = re.compile(r"([\d.]+) -> +([\d.]+)")


def page(name: str) -> str:
    """Return a page's text in one line."""
    return " ".join((ROOT / name).read_text("utf-8").split())


def run_summary(run: str) -> dict[str, Any]:
    """Return the evaluation of a kept run."""
    text = (KEPT / run / "evaluation.json").read_text("utf-8")
    evaluation: dict[str, Any] = json.loads(text)
    return evaluation


def test_every_table_of_the_evidence_is_that_of_the_kept_files() -> None:
    pages = [file.read_text("utf-8") for file in TABLES["PAGES"]]
    named = re.findall(r"<!-- table (\w+) -->", "".join(pages))
    assert sorted(named) == sorted(TABLES["TABLES"])
    told = "run `python docs/evidence_tables.py`"
    assert [TABLES["with_tables"](text) for text in pages] == pages, told


def test_a_changed_cell_would_be_seen() -> None:
    changed = "<!-- table speedrun -->\n\n| basis | 3 | 92.4 % |\n\n<!-- end -->\n"
    assert "| basis | 3 | 92.3 % |" in TABLES["with_tables"](changed)


def test_shares_and_changes_are_counted_by_hand() -> None:
    def answers(digits: str) -> dict[str, dict[str, bool]]:
        return {
            f"multiple_{number}": {"valid": digit != "0", "strict": digit == "2"}
            for number, digit in enumerate(digits)
        }

    # Wilson for 1 of 10: (0.1 + 0.19207 +- 1.96 sqrt(0.009 + 0.0096035)) / 1.38415
    assert MODEL_TABLES["share"](answers("1000000000")) == "10.0[1.8,40.4]/0.0"
    # Of 6 changes one or none is lost by chance in 2 * (1 + 6) / 64 of all cases.
    paired = MODEL_TABLES["paired"](answers("1000000"), answers("0211110"))
    assert paired == "5 gained, 1 lost (p = 0.2)"


def test_a_figure_beyond_its_bound_is_reported_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missed = [
        Figure("growth", 1.394, at_most=1.3),
        Figure("ms an answer", 0.0371),
        Figure("speed", 3711, 2),
    ]
    assert report(missed, tmp_path / "new/kept.json") == 1
    kept = json.loads((tmp_path / "new/kept.json").read_text("utf-8"))
    assert [Figure(**figure) for figure in kept["figures"]] == missed
    assert {"CPU", "Python", "torch"} <= kept["machine"].keys()
    printed = "growth: 1.39  at most 1.3, missed\nms an answer: 0.037  \nspeed: 3,711  at least 2\n"
    assert capsys.readouterr().out == printed
    assert report(missed[1:], None) == 0


def test_what_readme_and_start_show_of_the_default_run_is_that_of_the_kept_ones() -> None:
    rates, run = TABLES["main_job"]("seed1"), run_summary("main/seed1")
    readme = (ROOT / "README.md").read_text("utf-8")
    lines = re.findall(r"^│ ([\w -]+?) +│ (.*)$", readme, re.M)
    assert {name: CELL.findall(cells) for name, cells in lines}.items() <= rates.items()
    assert {"multi_turn_base", "parallel", "all multi-turn", "all"} == {name for name, _ in lines}
    told = re.search(r"from (\d+) episodes \((\d+) steps.* in (\d+) updates and (\d+) CPU", readme)
    counts = (run[name] for name in ("episodes", "env_steps", "updates", "train_cpu_seconds"))
    assert told is not None
    assert [*map(int, told.groups())] == [*map(round, counts)]
    for name in ("README.md", "docs/index.md"):
        assert re.findall(r"\*\*([\d.]+) to ([\d.]+) %\*\*", page(name)) == [rates["all"][0]]
        seconds = {*re.findall(r"(\d+) CPU seconds", page(name))}
        assert seconds == {f"{run['train_cpu_seconds']:.0f}"}
        assert "minutes on one core" not in page(name)
    others = [TABLES["main_job"](seed)["all"][0][1] for seed in ("seed2", "seed3")]
    assert f"two other seeds end at {' and '.join(others)} %" in readme
    control = TABLES["main_job"]("control1")["all"][0][1]
    assert f"drifts, to {float(control):.0f} %" in page("docs/index.md")


def test_what_readme_says_of_the_real_model_is_that_of_the_kept_answers() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+)\[", TABLES["TABLES"]["rows"](), re.M)
    percent = {row: f"{float(share):.0f}" for row, share in rows}
    [chance] = re.findall(
        r"`forged_1800_tppo_1` \| \d+ gained, \d+ lost \(p = ([\d.]+)\)",
        TABLES["TABLES"]["pairs"](),
    )
    told = re.search(
        r"real model \| (\d+) of 113 -> (\d+) % of 150 \|.*? on 1,800: (\d+) %, "
        r"then by TPPO (\d+) % \(p = ([\d.]+)\)",
        page("README.md"),
    )
    assert told is not None
    named = ("base", "forged_6000_1", "forged_1800", "forged_1800_tppo_1")
    assert [*told.groups()] == [*(percent[row] for row in named), chance]
    assert percent["forged_6000_2"] == percent["forged_6000_1"]
    assert "| calls (150) |" in TABLES["TABLES"]["rows"]()


def test_the_counts_of_parity_are_those_of_the_recorded_verdicts(shared: Path) -> None:
    recorded = {
        file.name: gzip.decompress(file.read_bytes())
        for file in (shared / "bfcl/verdicts").glob("*.jsonl.gz")
    }
    count = sum(
        recorded[name].count(b"\n") for name in recorded if not name.startswith(NO_VERDICTS)
    )
    executed = sum(
        lines.count(b'"call": ') for name, lines in recorded.items() if name.startswith(EXECUTED)
    )
    assert f"| {count:,} of {count:,} |" in page("README.md")
    conformance = page("docs/evidence/conformance.md")
    assert f"`fctncalling verdicts` with {count:,} recorded verdicts" in conformance
    assert f"`fctncalling execute` with {executed:,} recorded calls" in conformance
    answers = load_recorded_verdicts()["answers"]
    assert f"--recorded` | {answers:,} | 0 |" in conformance


def test_the_numbers_of_models_are_those_of_the_handlers() -> None:
    text = (ROOT / "fctncalling/cli/score/leaderboard_models.json").read_text("utf-8")
    counts = [sum(len(row["models"]) for row in rows) for rows in json.loads(text).values()]
    assert f"Answers of {sum(counts)} leaderboard models" in page("docs/score.md")
    assert f"Answers of the package's {counts[0]} models" in page("docs/evidence/conformance.md")


def test_the_costs_of_the_real_model_are_those_of_the_kept_runs() -> None:
    text = page("docs/evidence/real_model.md")
    taught = run_summary("smollm2/forged")["sft_cpu_seconds"]
    learned = run_summary("smollm2/forged_tppo_1")["train_cpu_seconds"]
    assert f"`forged` learns {taught:,.0f} CPU seconds" in text
    assert f"`forged_tppo_1` {learned:,.0f}" in text


HEALTHY = {
    "losses/approx_kl": "0.011",
    "losses/explained_variance": "-0.077",
    "losses/ratio_max": "1.8",
    "losses/policy_grad_norm": "0.49",
    "mismatch/mean_logdiff": "6.6e-8",
    "critic/values_min": "-0.095",
    "critic/values_max": "0.84",
}


def test_the_healthy_values_are_those_of_the_kept_run() -> None:
    medians = learning_curve.medians()
    lines = (ROOT / "docs/viewer.md").read_text("utf-8").splitlines()
    for name, told in HEALTHY.items():
        cell = f"`{name.replace('_max', '_min') if 'values' in name else name}`"
        [row] = [line for line in lines if line.startswith("| `") and cell in line]
        assert told in row
        assert float(told) == pytest.approx(medians[name], rel=0.1), name
