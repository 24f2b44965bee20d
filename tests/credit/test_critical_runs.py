"""The comparison on critical tasks: what docs/credit.md says is what the kept runs hold."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks/jobs"))
from critical import ARMS, KEPT, RATES, TUNED, mean, numbers, paired_gains, read_runs
from learning_report import sign_flips

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "credit.md").read_text(encoding="utf-8")
GRADIENTS = (DOCS / "algorithms/grpo.md").read_text(encoding="utf-8")

CEILING = read_runs(KEPT.with_name("ceiling.jsonl"))


def test_the_page_says_what_the_kept_runs_hold() -> None:
    """Of each arm what greedy play of held-out tasks comes to, and TPPO's distance to GRPO."""
    runs = [*read_runs(KEPT), *CEILING]
    for arm in (*ARMS, "ceiling"):
        greedy = [run.greedy for run in runs if run.arm == arm]
        assert f"{100 * mean(after for _, after in greedy):.1f} ({arm})" in PAGE
        assert {before for before, _ in greedy} == {0.5}
    gains = paired_gains(runs, "GRPO", "TPPO")
    told = f"{100 * mean(gains):.1f} points of area below GRPO (p {sign_flips(gains):.3f})"
    assert told in PAGE.replace("\n", " ")


def test_the_ceiling_is_as_far_above_as_the_page_says() -> None:
    runs = [*read_runs(KEPT), *CEILING]
    assert sorted(run.seed for run in CEILING) == [1, 2, 3]
    gains = [100 * mean(paired_gains(runs, "ceiling", arm)) for arm in ("GRPO", "TPPO")]
    told = f"gains {gains[0]:.1f} points of area on GRPO and {gains[1]:.1f} on its own credit"
    assert told in PAGE.replace("\n", " ")


def test_arms_have_the_same_seeds_and_nearly_the_same_steps() -> None:
    runs = read_runs(KEPT)
    seeds = {arm: sorted(run.seed for run in runs if run.arm == arm) for arm in ARMS}
    assert len({tuple(each) for each in seeds.values()}) == 1
    assert all(len(run.curve) == 12 and run.lr == RATES[run.arm] for run in runs)
    steps = [sum(run.steps for run in runs if run.arm == arm) for arm in ARMS]
    assert max(steps) < 1.02 * min(steps)


def test_each_arm_has_the_rate_that_was_best_on_other_seeds() -> None:
    tried = read_runs(TUNED)
    assert not {run.seed for run in tried} & {run.seed for run in read_runs(KEPT)}
    for arm in {run.arm for run in tried}:
        areas: dict[float, list[float]] = {}
        for run in tried:
            if run.arm == arm:
                areas.setdefault(run.lr, []).append(run.area)
        most = max(map(len, areas.values()))
        means = {lr: sum(each) / most for lr, each in areas.items() if len(each) == most}
        assert max(means, key=means.__getitem__) == RATES[arm]


def test_gains_are_paired_by_seed(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    rest = {"steps": 1, "greedy": [0, 1], "sampled": [0, 1], "cpu_seconds": 1.0}
    made = [("TPPO", 1, 0.5), ("GRPO", 1, 0.25), ("TPPO", 2, 0.75), ("GRPO", 2, 1.0)]
    made += [("TPPO", 3, 1.0)]
    lines = [
        json.dumps({"arm": arm, "seed": seed, "lr": RATES[arm], "curve": [value, value], **rest})
        for arm, seed, value in made
    ]
    path.write_text("\n".join(lines))
    assert paired_gains(read_runs(path), "TPPO", "GRPO") == pytest.approx([0.25, -0.25])
    assert numbers("1-3,7") == [1, 2, 3, 7]


def test_the_start_policy_is_critical_by_branched_truth() -> None:
    found = json.loads(KEPT.with_name("credit.json").read_text(encoding="utf-8"))["truth"]
    assert f"{found['significant']:.0%} of {found['actions']} visited actions" in PAGE.replace(
        "\n", " "
    ).replace(" %", "%")


def test_the_page_has_the_gradients_cosines() -> None:
    found = json.loads(KEPT.with_name("gradients.json").read_text(encoding="utf-8"))["cosines"]
    for size in ("8", "4", "1"):
        cells = [found[name].get(size) for name in found]
        told = " | ".join(f"{cell[0]:.2f} ({cell[1]:.2f})" if cell else "-" for cell in cells)
        assert f"| {size} | {told} |" in GRADIENTS


def test_the_page_has_the_areas_of_smaller_updates() -> None:
    runs = {run.arm: run for run in read_runs(KEPT.with_name("smaller_updates.jsonl"))}
    told = [f"{100 * runs[arm].area:.1f}" for arm in ("GRPO", "oracle")]
    assert f"GRPO's area is {told[0]}, the oracle's {told[1]}." in GRADIENTS.replace("\n", " ")
