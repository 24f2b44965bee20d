"""The report: rates over the right episodes, and evaluation.json as promised."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.run.evaluation import (
    Evaluation,
    base_metrics,
    curve_title,
    plot_curve,
    print_table,
)
from fctncalling.algorithms.run.logs import RunLog, write_json
from fctncalling.lab.viewer.headline import headline
from fctncalling.lab.viewer.run_files import LoadedRun


def episodes(category: str, *successes: bool, invalid: int = 0) -> list[EpisodeRecord]:
    good = [EpisodeRecord("t", category, [], success=success) for success in successes]
    return good + [EpisodeRecord("t", category, [], invalid=True)] * invalid


EVALUATION = Evaluation(
    greedy=[
        *episodes("simple_python", True, False),
        *episodes("multi_turn_base", True, True, False, False, invalid=1),
        *episodes("multi_turn_miss_func", False, False),
    ],
    sampled=episodes("simple_python", False, False),
)


def test_rates_are_over_valid_episodes_overall_by_category_and_over_all_multi_turn_tasks() -> None:
    rates = EVALUATION.as_json()
    assert rates["greedy"] == pytest.approx(3 / 8)
    assert rates["sampled"] == 0.0
    assert rates["multi_turn"] == {
        "greedy": pytest.approx(2 / 6),
        "greedy_strict": None,
        "sampled": None,
        "sampled_strict": None,
        "greedy_return": 0.0,  # without verdicts success says little
        "num_tasks": 7,
    }
    assert rates["categories"]["multi_turn_base"]["greedy"] == 0.5
    assert list(rates["categories"]) == sorted(rates["categories"])
    assert EVALUATION.metrics()["eval/invalid"] == 1


def test_without_verdicts_the_mean_return_stands_beside_success(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Success is a return above 0, so a return that rises from there would not show."""
    sides = []
    for paid in (0.25, 0.75):
        played = episodes("echo", True, True, invalid=1)
        for record in played:
            record.episode_return = paid
        sides.append(Evaluation(played, played))
    before, after = (side.as_json() for side in sides)
    assert (before["greedy"], before["greedy_return"]) == (1.0, 0.25)
    assert sides[1].metrics()["eval/sampled_return"] == 0.75
    print_table(before, after)
    printed = capsys.readouterr().out
    assert "Success on held-out tasks in % and mean return, before -> after" in printed
    assert "0.25 -> 0.75" in printed
    for record in played:
        record.strict_success = True
    assert not any("return" in name for name in sides[1].as_json() | sides[1].metrics())


def test_the_table_has_rates_before_and_after(capsys: pytest.CaptureFixture[str]) -> None:
    rates = EVALUATION.as_json()
    print_table(rates, rates)
    shown = capsys.readouterr().out
    assert "37.5 ->  37.5" in shown
    assert "strict" not in shown
    assert "interval" not in shown
    few = {"greedy": 7 / 16, "num_tasks": 16, "intervals": {"greedy": [0.231, 0.668]}}
    print_table(rates, {**rates, **few})
    assert "16 tasks: 7 of 16 is 23 to 67 % (greedy, 95 % interval)" in capsys.readouterr().out


def test_strict_rates_stand_beside_the_official_ones(capsys: pytest.CaptureFixture[str]) -> None:
    greedy = episodes("simple_python", True, True, False, False)
    for record, strict in zip(greedy, (True, False, False, False), strict=True):
        record.strict_success = strict
    evaluation = Evaluation(greedy=greedy, sampled=greedy)
    rates = evaluation.as_json()
    for part in (rates, rates["categories"]["simple_python"]):
        assert (part["greedy"], part["greedy_strict"]) == (0.5, 0.25)
        assert (part["sampled"], part["sampled_strict"]) == (0.5, 0.25)
    metrics = evaluation.metrics()
    assert metrics["eval/greedy_success_rate"] == 0.5
    assert metrics["eval/greedy_strict_success_rate"] == 0.25
    assert metrics["eval/sampled_strict_success_rate/simple_python"] == 0.25
    print_table(rates, rates)
    assert "greedy strict" in capsys.readouterr().out


def test_the_curve_is_drawn_from_the_log_alone(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    log = RunLog(tmp_path, {}, tensorboard=False)
    assert plot_curve(tmp_path) is None
    for update in range(3):
        log.write_metrics(
            update, {"env/success_rate": update / 3, "eval/greedy_success_rate": None}
        )
    log.close()
    path = plot_curve(tmp_path)
    assert path is not None
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_curve_says_what_it_is_of(tmp_path: Path) -> None:
    assert curve_title(tmp_path) == tmp_path.name
    told = {"seed": 3, "algorithm_name": "TPPO", "dataset_path": "d/mine.json"}
    told |= {"model_name_or_path": "m/Qwen", "permute_advantages": True}
    (tmp_path / "config.json").write_text(json.dumps(told))
    shown = "mine tasks, Qwen model, TPPO, seed 3, control: advantages shuffled"
    assert curve_title(tmp_path) == shown
    told = {**told, "permute_advantages": False, "num_updates": 0}  # supervised alone
    (tmp_path / "config.json").write_text(json.dumps(told))
    assert curve_title(tmp_path) == "mine tasks, Qwen model, seed 3"


def test_without_updates_a_report_goes_from_the_base_to_the_supervised_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, taught = Evaluation([], []).as_json(), Evaluation([], []).as_json()
    base |= {"stage": "base", "greedy": 0.0625, "greedy_strict": 0.0625, "num_tasks": 16}
    taught |= {"stage": "supervised", "greedy": 0.4375, "greedy_strict": 0.4375, "num_tasks": 16}
    print_table(taught, taught, base)
    table = capsys.readouterr().out
    assert "in %, base -> supervised\n" in re.sub(" *\n", "\n", table)
    assert "6.2 ->  43.8 " in table
    write_json(tmp_path / "evaluation.json", {"before": taught, "after": taught, "base": base})
    assert base_metrics(tmp_path)["eval/greedy_success_rate"] == 0.0625
    evaluation = json.loads((tmp_path / "evaluation.json").read_text("utf-8"))
    run = cast("LoadedRun", SimpleNamespace(evaluation=evaluation, metrics=[]))
    assert headline(run, {}) == (
        "1 of 16 \N{RIGHTWARDS ARROW} 7 of 16 held-out tasks right, "
        "base \N{RIGHTWARDS ARROW} supervised"
    )
    reinforced = {**taught, "stage": "reinforced", "greedy": 0.5}
    evaluation |= {"after": reinforced}
    assert headline(run, {}) == (
        "1 of 16 \N{RIGHTWARDS ARROW} 7 of 16 \N{RIGHTWARDS ARROW} 8 of 16 held-out tasks right, "
        "base \N{RIGHTWARDS ARROW} supervised \N{RIGHTWARDS ARROW} reinforced"
    )
