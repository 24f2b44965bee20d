"""pass@k and pass^k are unbiased, and their intervals hold what they promise."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from test_run import MULTI, dataset, lines, run

from evaluate_fctncalling import main
from fctncalling.algorithms.run.evaluation import Evaluation
from fctncalling.evaluation.pass_at_k import (
    TaskSampleCounts,
    confidence_interval_of_mean,
    evaluation_uncertainty,
    paired_difference,
    pass_at_k,
    pass_hat_k,
    wilson_interval,
)


def test_estimates_are_the_share_of_all_choices_of_k_samples() -> None:
    for samples, k in ((n, k) for n in range(1, 8) for k in range(1, n + 1)):
        for successes in range(samples + 1):
            drawn = list(
                itertools.combinations([True] * successes + [False] * (samples - successes), k)
            )
            assert pass_at_k(samples, successes, k) == pytest.approx(
                np.mean([any(d) for d in drawn])
            )
            assert pass_hat_k(samples, successes, k) == pytest.approx(
                np.mean([all(d) for d in drawn])
            )


@pytest.mark.parametrize(("rate", "n", "k"), [(0.3, 8, 3), (0.9, 5, 5), (0.05, 10, 4)])
def test_estimates_are_unbiased_over_binomial_samples(rate: float, n: int, k: int) -> None:
    chances = [math.comb(n, c) * rate**c * (1 - rate) ** (n - c) for c in range(n + 1)]
    at = sum(chance * pass_at_k(n, c, k) for c, chance in enumerate(chances))
    hat = sum(chance * pass_hat_k(n, c, k) for c, chance in enumerate(chances))
    assert (at, hat) == pytest.approx((1 - (1 - rate) ** k, rate**k))


@pytest.mark.parametrize(
    ("samples", "successes", "k"), [(3, 4, 1), (3, -1, 1), (3, 1, 4), (3, 1, 0)]
)
def test_counts_that_cannot_be_are_refused(samples: int, successes: int, k: int) -> None:
    with pytest.raises(ValueError, match="expected"):
        pass_at_k(samples, successes, k)


def test_wilson_s_interval_has_the_ends_whose_score_test_is_at_its_quantile() -> None:
    z = 1.959963984540054
    for successes, count in ((0, 10), (3, 10), (81, 263), (10, 10)):
        low, high = wilson_interval(successes / count, count)
        for end in (low, high):
            if 0 < end < 1:
                score = (successes / count - end) / math.sqrt(end * (1 - end) / count)
                assert abs(score) == pytest.approx(z)
    assert wilson_interval(0.0, 10)[0] == 0.0
    assert wilson_interval(1.0, 10)[1] == 1.0
    assert wilson_interval(0.0, 0) == (0.0, 1.0)


def test_with_one_sample_a_task_the_interval_is_wilson_s() -> None:
    for successes in range(1, 20):
        values = [1.0] * successes + [0.0] * (20 - successes)
        assert confidence_interval_of_mean(values, 20) == pytest.approx(
            wilson_interval(successes / 20, 20)
        )


def test_the_interval_lies_between_those_of_tasks_and_of_samples() -> None:
    alike = confidence_interval_of_mean([0.5] * 10, 80)
    assert alike == pytest.approx(wilson_interval(0.5, 80)), "samples tell all there is to know"
    split = confidence_interval_of_mean([0.0, 1.0] * 5, 80)
    assert split == pytest.approx(wilson_interval(0.5, 10)), "samples of a task tell the same"
    assert confidence_interval_of_mean([1.0] * 10, 80) == pytest.approx(wilson_interval(1.0, 10))


@pytest.mark.parametrize("k", [1, 2])
def test_intervals_hold_the_truth_as_often_as_they_promise(k: int) -> None:
    """60 tasks, 4 samples each, rates drawn anew from a beta distribution: pass@k is known."""
    draw = np.random.default_rng(0)
    a, b = 1.0, 2.0
    truth = a / (a + b) if k == 1 else 1 - b * (b + 1) / ((a + b) * (a + b + 1))
    held = 0
    for _ in range(1000):
        successes = draw.binomial(4, draw.beta(a, b, 60))
        values = [pass_at_k(4, int(c), k) for c in successes]
        low, high = confidence_interval_of_mean(values, 240)
        held += low <= truth <= high
    assert 0.93 <= held / 1000 <= 0.975


def test_the_report_has_powers_of_two_and_all_samples() -> None:
    tasks = TaskSampleCounts()
    for task, outcomes in {"a": [1, 0, 1, 0, 0], "b": [1, 1, 1, 1, 1]}.items():
        for outcome in outcomes:
            tasks.add(task, success=bool(outcome))
    report = tasks.report()
    assert report["num_samples"] == 5
    assert list(report["pass@k"]) == ["1", "2", "4", "5"]
    assert report["pass@k"]["2"]["estimate"] == pytest.approx((1 - 3 / 10 + 1) / 2)
    assert report["pass^k"]["2"]["estimate"] == pytest.approx((1 / 10 + 1) / 2)
    once = TaskSampleCounts()
    once.add("a", success=True)
    assert once.report() == {}


def test_a_run_samples_each_task_and_score_tells_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A random agent calls, or not, by the sample's seed; a third of the file is played again."""
    tasks, output = tmp_path / "BFCL_v4_irrelevance.json", tmp_path / "out.jsonl"
    entries = json.loads(dataset(tmp_path, 6).read_text())
    for number, entry in enumerate(entries):
        entry.pop("ground_truth")
        entry["id"] = f"irrelevance_{number}"
    tasks.write_text(json.dumps(entries))
    more = ("--agent", "random", "--num_samples", "4", "--json", "--dataset_path", str(tasks))
    assert run(output, *more) == 0
    report = json.loads(capsys.readouterr().out)["categories"]["irrelevance"]
    played = {(line["id"], line["sample"]): line["valid"] for line in lines(output)}
    counts = [sum(played[f"irrelevance_{i}", s] for s in range(4)) for i in range(6)]
    assert 0 < sum(counts) < 24
    sampled = report["sampled"]
    assert sampled["pass@k"]["2"]["estimate"] == pytest.approx(
        np.mean([pass_at_k(4, c, 2) for c in counts])
    )
    assert sampled["pass^k"]["4"]["estimate"] == pytest.approx(np.mean([c == 4 for c in counts]))
    kept = output.read_text().splitlines(keepends=True)
    output.write_text("".join(kept[:16]))
    assert run(output, *more, "--resume") == 0
    capsys.readouterr()
    assert {(line["id"], line["sample"]): line["valid"] for line in lines(output)} == played
    assert main(["score", "--input", str(output), "--data_dir", str(tmp_path), "--json"]) == 0
    [scored] = json.loads(capsys.readouterr().out).values()
    assert scored["categories"]["irrelevance"]["sampled"] == sampled
    assert scored["categories"]["irrelevance"]["accuracy"] == pytest.approx(sum(counts) / 24)
    assert main(["score", "--input", str(output), "--data_dir", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "pass^4" in told
    assert main(["replay", "--input", str(output), "--dataset_path", str(tasks), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["identical"] == 24


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--agent", "openai:m", "--num_samples", "2"), "all samples are alike"),
        (("--agent", "noop", "--num_samples", "2", "--result_dir", "tree"), "one answer a task"),
    ],
)
def test_samples_that_tell_nothing_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...], told: str
) -> None:
    assert run(tmp_path / "out.jsonl", *more, "--dataset_path", str(dataset(tmp_path))) == 2
    assert told in capsys.readouterr().err


def test_a_limit_is_of_each_category_in_files_of_ones_own_too(tmp_path: Path) -> None:
    singles = json.loads(dataset(tmp_path, 5).read_text())
    turns: list[Any] = [{**MULTI, "id": f"multi_turn_base_{number}"} for number in range(4)]
    mixed, more = tmp_path / "mixed.json", tmp_path / "more.json"
    mixed.write_text(json.dumps([*singles[:1], *turns[:2], *singles[1:]]))
    more.write_text(json.dumps(turns[2:]))
    command = ("--agent", "noop", "--limit", "3", "--dataset_path", str(mixed), str(more))
    assert run(tmp_path / "out.jsonl", *command) == 0
    played = [line["id"] for line in lines(tmp_path / "out.jsonl")]
    assert played == [
        f"{name}_{i}" for name in ("multi_turn_base", "simple_python") for i in range(3)
    ]


def test_an_evaluation_of_training_has_intervals_and_pass_at_k_of_several_samples() -> None:
    def record(task_id: str, success: bool, strict: bool) -> Any:
        return SimpleNamespace(
            task_id=task_id, success=success, strict_success=strict, invalid=task_id == "broken"
        )

    greedy = [record(name, name == "a", False) for name in ("a", "b", "broken")]
    outcomes = {"a": [1, 1, 0, 0], "b": [1, 0, 0, 0]}
    sampled = [record(name, bool(o), False) for name, each in outcomes.items() for o in each]
    told = evaluation_uncertainty(Evaluation(greedy, sampled))
    assert told["intervals"]["greedy"] == pytest.approx(wilson_interval(0.5, 2))
    report = told["pass_at_k"]["sampled"]
    assert report["pass@k"]["2"]["estimate"] == pytest.approx((1 - 1 / 6 + 1 / 2) / 2)
    assert report["pass^k"]["2"]["estimate"] == pytest.approx(1 / 6 / 2)
    assert told["pass_at_k"]["sampled_strict"]["pass@k"]["4"]["estimate"] == 0.0
    assert "pass_at_k" not in evaluation_uncertainty(Evaluation(greedy, greedy))


def test_a_paired_difference_has_the_interval_of_its_counts() -> None:
    gained, lost, both = 12, 5, 100
    values = [1.0] * gained + [-1.0] * lost + [0.0] * (both - gained - lost)
    error = math.sqrt(gained + lost - (gained - lost) ** 2 / both) / both
    expected = (0.07, 0.07 - 1.959964 * error, 0.07 + 1.959964 * error)
    assert paired_difference(values) == pytest.approx(expected)
    assert paired_difference([]) == (0.0, 0.0, 0.0)
