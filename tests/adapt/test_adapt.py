"""adapt: counts, gate, plan and stages by closed forms; the whole of it with the embedded model."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from argparse import ArgumentParser
from dataclasses import asdict, replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from stub_endpoint import endpoint

from fctncalling.algorithms.run.run_lock import lock_for_file
from fctncalling.cli.command import main
from fctncalling.data.bfcl import embedded_path
from fctncalling.lab.adapt.adapt_plan import (
    BATCH,
    LEAST_STEPS,
    PROBES,
    AdaptPlan,
    ProbeTimes,
    estimate_text,
    plan_for,
    probe_that_fits,
    read_probe_times,
)
from fctncalling.lab.adapt.adapt_settings import AdaptError, AdaptSettings
from fctncalling.lab.adapt.adaptation import LATE, Adaptation
from fctncalling.lab.adapt.command import add_arguments, run
from fctncalling.lab.adapt.played import NO_CALL, CallCounts, StageAnswers, episodes_to_show
from fctncalling.lab.adapt.report import AdaptReport
from fctncalling.lab.adapt.scoring import answered_by_all, play_tasks
from fctncalling.lab.adapt.stage import COST_FILE, StageCost, Stages
from fctncalling.lab.adapt.task_files import (
    HELD_OUT,
    MULTI_TURN_STEPS,
    SINGLE_TURN_STEPS,
    TRAIN,
    coverage_of,
    make_tasks,
    read_task_entries,
    turn_step_limit,
    write_entries,
    write_split,
)
from fctncalling.lab.forge.forge_run import RAN_DRY

HEAT = {
    "name": "set_heat",
    "description": "Set the heat.",
    "parameters": {
        "type": "dict",
        "properties": {"degrees": {"type": "integer", "description": "5 to 30."}},
        "required": ["degrees"],
    },
}
DOOR = {
    "name": "open_door",
    "description": "Open a door.",
    "parameters": {
        "type": "dict",
        "properties": {"room": {"type": "string", "description": "kitchen or hall"}},
        "required": ["room"],
    },
}


def task(number: int) -> dict[str, Any]:
    truth = {"set_heat": {"degrees": [number + 5]}}
    text = f"set the heat to {number + 5}"
    entry: dict[str, Any] = {"id": f"multiple_{number}", "ground_truth": [truth]}
    if number % 4 == 3:
        text, entry = f"play song {number}", {"id": f"irrelevance_{number}"}
    return entry | {"question": [[{"role": "user", "content": text}]], "function": [HEAT, DOOR]}


def answer(truth: Any, calls: Any, *, solved: bool, category: str = "multiple") -> dict[str, Any]:
    step = {"calls": [{"name": name, "arguments": given} for name, given in calls]}
    return {
        "id": f"{category}_{len(json.dumps(truth))}",
        "category": category,
        "ground_truth": truth,
        "steps": [step],
        "strict_valid": solved,
    }


def test_calls_and_values_are_counted_by_function_and_parameter() -> None:
    lend = [{"lend": {"book": ["B-1", "b-1"], "weeks": ["", 3], "tags": [["x", "y"]]}}]
    counts = CallCounts.of(
        [
            answer(lend, [("lend", {"book": "b-1", "tags": ["x", "y"]})], solved=True),
            answer(lend, [("lend", {"book": "B-2", "tags": ["x", "y"], "weeks": 3})], solved=False),
            answer(lend, [("lend", {"book": "B-1", "tags": ["x", "y"], "more": 1})], solved=False),
            answer(lend, [("renew", {"book": "B-1"})], solved=False),
            answer(lend, [], solved=False),
            answer(None, [], solved=True, category="irrelevance"),
        ]
    )
    assert (counts.right["lend"], counts.expected["lend"]) == (1, 5)
    assert (counts.right_values["lend", "book"], counts.required_values["lend", "book"]) == (2, 5)
    assert ("lend", "weeks") not in counts.required_values  # no request said it
    assert counts.confusions == {("lend", "renew"): 1, ("lend", NO_CALL): 1}


def test_objects_are_counted_as_the_truth_writes_them() -> None:
    truth = [{"send": {"to": [{"name": ["Ana"], "city": ["", "Porto"]}]}}]
    right = CallCounts.of([answer(truth, [("send", {"to": {"name": "Ana"}})], solved=True)])
    wrong = CallCounts.of(
        [answer(truth, [("send", {"to": {"name": "Ana", "x": 1}})], solved=False)]
    )
    assert (right.right["send"], wrong.right["send"]) == (1, 0)


def reported(
    declined: tuple[int, int], called: tuple[int, int] = (5, 20), of: int = 40, **more: Any
) -> AdaptReport:
    """Return a report of so many tasks declined, and called right, before and after."""
    played = {}
    for name, declines, calls in zip(("before", "after"), declined, called, strict=True):
        answers = [
            answer(None, [], solved=at < declines, category="irrelevance") for at in range(40)
        ]
        answers += [answer([{"f": {}}], [], solved=at < calls) for at in range(of)]
        played[name] = StageAnswers(answers, [])
    return AdaptReport("a model", played, {}, **more)


@pytest.mark.parametrize(
    ("report", "may_ship", "begins", "kind"),
    [
        (reported((20, 20)), True, "may be shipped: calls: 5 of 40", "yes"),
        (reported((20, 18)), True, "may be shipped", "yes"),  # five points
        (reported((20, 17)), False, "do not ship: declining", "no"),
        (reported((40, 40), (0, 0)), False, "do not ship: it hardly ever calls right", "no"),
        (reported((40, 40), (0, 3)), False, "do not ship: it hardly ever calls right", "no"),
        (reported((40, 40), (20, 20)), False, "do not ship: it calls no better", "no"),
        (reported((40, 40), (5, 20), of=29), False, "too few tasks to say", "unclear"),
        (reported((40, 40), (0, 0), of=0), False, "do not ship: no task asked it to call", "no"),
        (reported((20, 20), told=["out of minutes: ..."]), True, "may be shipped", "unclear"),
    ],
)
def test_gate_opens_for_better_calls_with_declining_kept(
    report: AdaptReport, may_ship: bool, begins: str, kind: str
) -> None:
    gate = report.gate()
    assert (gate.may_ship, gate.kind) == (may_ship, kind)
    assert gate.why.startswith(begins)


def test_gate_is_closed_where_nothing_asks_to_decline() -> None:
    nothing = {"before": StageAnswers([], []), "after": StageAnswers([], [])}
    assert not AdaptReport("m", nothing, {}).gate().may_ship


def held_out_solved(before: int, after: int) -> AdaptReport:
    """Return a report of eight held-out tasks, so many of them solved; six want calls."""
    names = {"before": before, "supervised": after}
    played = {}
    for name, solved in names.items():
        calls = [answer([{"f": {}}], [], solved=at < solved) for at in range(6)]
        declines = [answer(None, [], solved=False, category="irrelevance") for _ in range(2)]
        played[name] = StageAnswers([*calls, *declines], [])
    return AdaptReport("a model", played, {})


@pytest.mark.parametrize(("before", "after"), [(1, 0), (2, 2), (1, 1), (1, 4)])
def test_what_is_kept_agrees_with_the_gate(before: int, after: int) -> None:
    report = held_out_solved(before, after)
    line, gate = report.kept_line(), report.gate()
    assert not gate.may_ship
    assert "shipped" not in line
    assert ("not better than the base model" in line) == (after <= before)
    assert ("do not ship" in line) == gate.why.startswith("do not ship")
    assert "kept in model/" in line


def test_calls_gained_for_declines_lost_are_not_better() -> None:
    report = reported((20, 18), (18, 20))
    assert not report.is_better
    assert report.gate().why.startswith("do not ship: not better than the base model")
    assert reported((20, 18)).kept_line() == "shipped: the model after after"


def test_shown_episodes_hold_failures_of_every_function_first() -> None:
    answers = [answer([{f"f{at % 5}": {}}], [], solved=at >= 30) for at in range(60)]
    shown = episodes_to_show(answers, 20)
    assert len(shown) == 20
    assert {next(iter(each["ground_truth"][0])) for each in shown[:5]} == {
        f"f{at}" for at in range(5)
    }
    assert sum(each["strict_valid"] for each in shown) == 6


TIMES = ProbeTimes(
    demonstration=0.3,
    answer=0.8,
    start=10.0,
    forged_task=0.02,
    cpu_share=1.6,
    memory_gb=2.0,
)


@pytest.mark.parametrize("minutes", [5.0, 20.0, 60.0, 240.0])
def test_plan_keeps_to_the_minutes_and_uses_most_of_them(minutes: float) -> None:
    plan = plan_for(minutes, TIMES, num_test=30, tasks_at_hand=None, spent_s=60.0)
    spent = 60.0 + sum(plan.seconds.values())
    assert spent <= 60 * minutes
    if minutes >= 20:
        assert spent >= 0.7 * 60 * minutes
    nearly = replace(TIMES, demonstration=0.3003)
    again = plan_for(minutes, nearly, num_test=30, tasks_at_hand=None, spent_s=60.3)
    assert abs(again.num_tasks - plan.num_tasks) <= 0.2 * plan.num_tasks


@pytest.mark.parametrize("slower", [1.0, 5.0, 20.0])
def test_on_a_busy_machine_a_third_of_the_minutes_is_planned_for_scores(slower: float) -> None:
    busy = replace(TIMES, demonstration=0.3 * slower, answer=0.8 * slower, base_answer=2.0 * slower)
    plan = plan_for(30.0, busy, num_test=351, tasks_at_hand=None, spent_s=60.0)
    assert plan.seconds["base"] + plan.seconds["score"] <= 600 + 3 * TIMES.start
    assert plan.seconds["supervised"] >= 600
    assert 60.0 + sum(plan.seconds.values()) <= 1800
    if slower > 1:
        assert plan.scored_share < 1
        assert "drawn, are scored" in plan.text()


@pytest.mark.parametrize(
    ("held_out", "num_test", "share", "told"),
    [
        (8, 0, 1.0, "8 held-out tasks are too few for 'may be shipped' (30 with calls): give more"),
        (40, 0, 0.5, "20 held-out tasks are too few"),
        (8, 12, 1.0, "12 requests of --test are too few"),
        (8, 40, 1.0, None),
        (40, 0, 1.0, None),
    ],
)
def test_plan_says_where_too_few_tasks_decide(
    held_out: int, num_test: int, share: float, told: str | None
) -> None:
    text = AdaptPlan(9.0, 99, held_out, 1, 0, 64, scored_share=share, num_test=num_test).text()
    assert ("too few" in text) == (told is not None)
    assert (told or "") in text


@pytest.mark.parametrize("slower", [0.1, 1.0, 30.0])
def test_a_probe_takes_a_fifth_at_most_and_too_few_minutes_are_named_at_once(
    slower: float,
) -> None:
    rough = replace(
        TIMES, demonstration=0.3 * slower, answer=0.8 * slower, base_answer=4.0 * slower
    )
    least = rough.least_minutes
    for minutes in (0.2, 1.0, 5.0, least - 0.5, float(least), 600.0):
        probe = probe_that_fits(minutes, rough, 2.0)
        assert probe is None or 2.0 + rough.probe(*probe) <= 0.2 * 60 * minutes
        told = estimate_text(minutes, rough, probe)
        assert (f"{least} is the least" in told) == (minutes < least)
        assert ("no whole probe fits" in told) == (probe is None)
        assert "is busy" not in told
        busy = estimate_text(minutes, replace(rough, cpu_share=0.27), probe)
        assert "gives 27 % of a core" in busy
    spent = rough.probe(*PROBES[-1])
    plan = plan_for(least, rough, num_test=0, tasks_at_hand=None, spent_s=spent)
    assert spent + sum(plan.seconds.values()) <= 60 * least
    assert plan.num_tasks >= 0.8 * LEAST_STEPS * BATCH


@pytest.mark.parametrize("at_hand", [None, 1500])
@pytest.mark.parametrize("share", [1.0, 0.4])
def test_what_scores_leave_over_goes_into_the_supervised_stage(
    share: float, at_hand: int | None
) -> None:
    times = replace(TIMES, base_answer=4.0)
    plan = plan_for(20.0, times, num_test=80, tasks_at_hand=at_hand, spent_s=60.0)
    guessed = plan.seconds["base"]
    left = 20 * 60 - 60 - share * guessed - plan.seconds["tasks"] - plan.seconds["score"]
    longer = plan.extended(left, at_hand and plan.num_train)
    assert longer.seconds["supervised"] <= left
    if share == 1.0:
        assert longer == plan
    else:
        assert longer.epochs * longer.num_train > plan.epochs * plan.num_train
        assert longer.seconds["supervised"] >= 0.7 * left
    assert longer.extended(10.0, at_hand) == longer  # never a shorter one
    assert replace(plan, updates=9).extended(left, at_hand).num_tasks == plan.num_tasks


def test_answers_side_by_side_are_guessed_by_what_was_timed_until_a_probe_played() -> None:
    rough = replace(TIMES, base_answer=4.0, side_by_side=0.3, base_side_by_side=0.1)
    assert rough.score(10, base=True) == pytest.approx(rough.start + 10 * 0.1 * 4.0)
    plans = [
        plan_for(10.0, times, num_test=0, tasks_at_hand=None, spent_s=20.0)
        for times in (rough, replace(TIMES, base_answer=4.0))
    ]
    assert plans[0].num_held_out > 2 * plans[1].num_held_out
    unplayed = read_probe_times(None, StageCost(1.0, 1.0, 1.0), rough, 1)
    assert (unplayed.side_by_side, unplayed.base_side_by_side) == (0.3, 0.1)


class JumpingTime:
    """Time that jumps by hours where something slow begins, in a stage's folder."""

    def __init__(self, slow: Path) -> None:
        self.slow = slow
        self.sleep = time.sleep

    def monotonic(self) -> float:
        return time.monotonic() + (9999 if self.slow.exists() else 0)

    def begin(self, *_: Any) -> int:
        self.slow.touch()
        time.sleep(60)
        return 0


@pytest.mark.parametrize(
    ("demonstration", "is_slow_pass", "told"),
    [
        (0.001, False, "the probe takes about"),
        (9.0, False, "is too few"),
        (0.0, True, r"pass at least 20 \(the machine is busy"),
    ],
)
def test_slow_probe_ends_with_its_fifth_and_the_plan_is_made_of_what_was_measured(
    demonstration: float,
    is_slow_pass: bool,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "tasks.json").write_text(json.dumps([task(each) for each in range(24)]))
    (tmp_path / "api.json").write_text(json.dumps([HEAT, DOOR]))
    adaptation = Adaptation(replace(settings_of(tmp_path), minutes=5.0))
    adaptation.stages = Stages(tmp_path / "out" / "work")  # its clock begins here
    clock = JumpingTime(tmp_path / "out" / "work" / ".probe.part" / "slow")
    rough = ProbeTimes(demonstration, demonstration, 0.0, 0.0, 1.0, 1.0, 0.5, demonstration)
    time_pass = clock.begin if is_slow_pass else lambda *_: rough
    monkeypatch.setattr("fctncalling.lab.adapt.adaptation.time_pass", time_pass)
    monkeypatch.setattr("fctncalling.lab.adapt.stage.time", clock)
    monkeypatch.setattr(adaptation, "_train", clock.begin)
    started = time.monotonic()
    if is_slow_pass:
        with pytest.raises(AdaptError, match=told):
            adaptation.make_plan()
    else:
        adaptation.make_plan()
        assert told in capfd.readouterr().err
        assert adaptation.plan.num_tasks >= 8
        assert adaptation.stages.costs["probe"].cut_short == (demonstration < 1)
    assert time.monotonic() - started < 60  # what is slow would go on


class Clock:
    """A clock that only plays let go on: so many seconds to begin, so many a request."""

    def __init__(self, begin: float, each: float) -> None:
        self.now, self.begin, self.each = 0.0, begin, each
        self.asked: list[int] = []

    def __call__(self) -> float:
        return self.now

    def play(self, file: Path, output: Path) -> int:
        known = output.read_text().splitlines() if output.exists() else []
        told = [json.dumps({"id": each["id"]}) for each in read_task_entries(file)]
        new = [line for line in told if line not in known]
        self.now += (self.begin + self.each * len(new)) if new else 0
        output.write_text("".join(f"{line}\n" for line in (*known, *new)))
        self.asked.append(len(new))
        return 0


@pytest.mark.parametrize("each", [0.1, 1.0, 7.0])
def test_as_many_requests_are_asked_as_fit_by_the_time_that_the_first_took(
    each: float, tmp_path: Path
) -> None:
    files = {}
    for name, number in (("held_out", 40), ("test", 200)):
        tasks = [task(at) for at in range(number)]
        files[name] = write_entries(tmp_path / f"{name}_all.jsonl", tasks)
    clocks, firsts = [Clock(5.0, each), Clock(5.0, each)], []
    for seed, clock in enumerate(clocks):
        part = tmp_path / str(seed)
        part.mkdir()
        more: dict[str, Any] = {"seconds": 150.0, "seed": seed, "clock": clock}
        assert play_tasks(files, part, part / "drawn", clock.play, **more) == 0
        firsts.append((part / "test.jsonl").read_text().splitlines()[:8])
    asked = sum(clocks[0].asked)
    assert clocks[0].now <= 150.0
    assert asked == 240 if each == 0.1 else asked >= 0.5 * 150 / (each + 1)
    assert set(firsts[0]) != set(firsts[1])  # drawn, not the first of the file
    shares = [
        len((tmp_path / f"0/{n}.jsonl").read_text().splitlines()) for n in ("held_out", "test")
    ]
    assert shares[0] == pytest.approx(shares[1] / 5, abs=1)


def test_stages_are_compared_on_what_all_of_them_answered() -> None:
    def answers(*numbers: int) -> list[dict[str, Any]]:
        return [{"id": f"multiple_{number}"} for number in numbers]

    stages = {"a": StageAnswers(answers(1, 2, 3), answers(1)), "b": StageAnswers(answers(3, 2), [])}
    common = answered_by_all(stages)
    assert [each["id"] for each in common["a"].held_out] == ["multiple_2", "multiple_3"]
    assert [each["id"] for each in common["b"].held_out] == ["multiple_3", "multiple_2"]
    assert common["a"].test == []  # of another file, though its id is the same


def test_a_stage_with_a_deadline_that_is_killed_from_outside_counts(tmp_path: Path) -> None:
    def killed(part: Path) -> int:
        (part / "what_it_had").touch()
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    stages = Stages(tmp_path)
    stages.run("training", killed, deadline=time.monotonic() + 60)
    assert stages.costs["training"].killed
    assert (tmp_path / "training" / "what_it_had").exists()
    with pytest.raises(AdaptError, match="-9"):
        stages.run("tasks", killed)


@pytest.mark.prove
def test_what_was_trained_when_the_minutes_end_is_judged_on_a_drawn_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(settings_of(tmp_path), minutes=0.3)
    planned_tasks(tmp_path)
    write_entries(tmp_path / "own.jsonl", [task(each) for each in range(200)])
    adaptation = Adaptation(settings)
    adaptation.settings = replace(settings, test=tmp_path / "own.jsonl")

    def slow(part: Path) -> int:
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            (part / "learned").touch()
        return 130

    def play(file: Path, output: Path) -> int:
        known = output.read_text().splitlines() if output.exists() else []
        for each in read_task_entries(file)[len(known) :]:
            time.sleep(0.05)
            line = answer(each.get("ground_truth"), [], solved=True) | {"id": each["id"]}
            with output.open("a") as out:
                out.write(f"{json.dumps(line)}\n")
        return 0

    monkeypatch.setattr("fctncalling.lab.adapt.adaptation.run_agent", lambda *_: play)
    monkeypatch.setattr("fctncalling.lab.adapt.adaptation.LEAST_MARGIN_S", 0.2)
    monkeypatch.setattr(adaptation, "_supervised", slow)
    monkeypatch.setattr(adaptation, "_export", lambda *_: "model")
    monkeypatch.setattr(adaptation, "_checkpoint", lambda stage: stage / "learned")
    adaptation.plan = AdaptPlan(0.3, 24, 6, 1, 0, 64, {"base": 1.0, "score": 1.0, "tppo": 0.0})
    monkeypatch.setattr(adaptation, "make_plan", lambda: None)
    started = time.monotonic()
    adaptation.run()
    assert time.monotonic() - started < 18.0 + 6.0
    costs, played = adaptation.stages.costs, adaptation.played()
    assert costs["supervised"].cut_short
    assert costs["base"].wall_seconds + costs["supervised_score"].wall_seconds < 6.0 * LATE
    assert adaptation.shipped == "supervised_score"
    assert len(played["base"].all) == len(played["supervised_score"].all) >= 8
    assert any("of 206 requests, drawn" in note for note in adaptation.told)


def test_split_keeps_texts_apart_and_shares_categories(tmp_path: Path) -> None:
    write_split([task(each % 60) for each in range(80)], 16, tmp_path)
    train, held_out = read_task_entries(tmp_path / TRAIN), read_task_entries(tmp_path / HELD_OUT)
    assert len(train) + len(held_out) == 80
    texts = [{json.dumps(each["question"]) for each in part} for part in (train, held_out)]
    assert not texts[0] & texts[1]
    for part in (train, held_out):
        assert {each["id"].split("_")[0] for each in part} == {"multiple", "irrelevance"}


def test_stage_is_there_whole_or_not_at_all_and_done_once(tmp_path: Path) -> None:
    def fail(part: Path) -> int:
        (part / "half").touch()
        return 2

    def work(part: Path) -> int:
        assert (part / "half").exists()  # goes on from what there is
        (part / "whole").touch()
        return 0

    with pytest.raises(AdaptError, match="first"):
        Stages(tmp_path).run("first", fail)
    assert not (tmp_path / "first").exists()
    stages = Stages(tmp_path)
    assert (stages.run("first", work) / "whole").exists()
    assert Stages(tmp_path).run("first", fail) == tmp_path / "first"  # is done: not run again
    assert stages.costs["first"].wall_seconds > 0


def test_stage_out_of_time_is_told_to_end_and_marked(tmp_path: Path) -> None:
    def long(part: Path) -> int:
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            (part / "what_it_had").touch()
            return 130
        return 0

    stages = Stages(tmp_path)
    former = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in the background of a shell
    stages.run("long", long, deadline=time.monotonic() + 0.3)
    signal.signal(signal.SIGINT, former)
    assert stages.costs["long"].cut_short
    assert (tmp_path / "long" / "what_it_had").exists()


def test_stage_that_ignores_its_end_is_killed_and_what_it_had_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deaf(part: Path) -> int:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        (part / "what_it_had").touch()
        time.sleep(60)
        return 0

    monkeypatch.setattr("fctncalling.lab.adapt.stage.GRACE_S", 0.3)
    stages = Stages(tmp_path)
    stages.run("deaf", deaf, deadline=time.monotonic() + 0.5)
    assert stages.costs["deaf"].cut_short
    assert (tmp_path / "deaf" / "what_it_had").exists()
    stages.reopen("deaf")  # the next command goes on with it
    assert (stages.run("deaf", lambda _: 0) / "what_it_had").exists()


def test_time_between_stages_counts(tmp_path: Path) -> None:
    first = Stages(tmp_path)
    first.run("one", lambda _: time.sleep(0.3) or 0)
    time.sleep(0.4)
    assert first.wall_seconds >= 0.7
    again = Stages(tmp_path)  # of the former command its finished stages count
    again.run("one", lambda _: 0)
    again.run("one", lambda _: 0)
    assert first.costs["one"].wall_seconds <= again.wall_seconds
    assert again.wall_seconds < first.wall_seconds - 0.35  # the pause was the former command's


def test_further_tasks_are_forged_for_minutes_left_over_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    planned_tasks(tmp_path)
    adaptation = Adaptation(settings_of(tmp_path))
    adaptation.settings = replace(adaptation.settings, tasks=None)
    planned = AdaptPlan.read(adaptation.stages.path("plan"))
    seconds = {**planned.seconds, "supervised": 20.0 + 18 * 20.0}
    changes = {"demonstration_s": 20.0, "updates": 0, "epochs": 1, "seconds": seconds}
    adaptation.plan = replace(planned, **changes)

    def forge(_: AdaptSettings, folder: Path, num_tasks: int, num_held_out: int) -> int:
        write_entries(folder / TRAIN, [task(each) for each in range(num_tasks - num_held_out)])
        return num_tasks

    monkeypatch.setattr("fctncalling.lab.adapt.adaptation.make_tasks", forge)
    trained: list[Path] = []
    monkeypatch.setattr(adaptation, "_train", lambda tasks, *_: trained.append(tasks) or 0)
    adaptation.stages.run("tasks", adaptation._tasks)
    adaptation.stages.run("base", lambda _: 0)
    for _ in range(2):  # as a command that goes on
        adaptation._extend()
        assert 50 <= adaptation.plan.num_train <= 60  # of 20 s each; 18 were planned
    adaptation._supervised(tmp_path)
    assert trained == [adaptation.stages.path("extension")]
    assert len(read_task_entries(trained[0] / TRAIN)) == adaptation.plan.num_train
    assert capfd.readouterr().err.count("minutes are left over") == 1


def score_of(adaptation: Adaptation, name: str, *_: Any) -> None:
    adaptation.stages.run(name, lambda _: 0)


def test_nothing_learned_in_the_minutes_can_go_on_with_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned_tasks(tmp_path)
    for minutes, learned in ((0.0, None), (20.0, tmp_path)):
        adaptation = Adaptation(replace(settings_of(tmp_path), minutes=minutes))
        asked: list[float] = []
        monkeypatch.setattr(adaptation, "_checkpoint", lambda _, found=learned: found)
        monkeypatch.setattr(adaptation, "_score", partial(score_of, adaptation))
        monkeypatch.setattr(adaptation, "_tppo", lambda *_: 0)
        monkeypatch.setattr(adaptation, "_supervised", lambda _, log=asked: log.append(1) or 0)
        adaptation.run()
        nothing = any("nothing was learned" in note for note in adaptation.told)
        assert nothing == (learned is None)
    assert (tmp_path / "out" / "work" / "supervised").is_dir()


def test_other_flags_and_foreign_folders_are_refused_in_one_line(
    tmp_path: Path, capsys: Any
) -> None:
    settings = AdaptSettings("a:B", tmp_path / "out", model="m")
    settings.keep()
    settings.keep()
    (tmp_path / "out" / "work" / "plan").mkdir()
    replace(settings, seed=3).keep()  # nothing but a plan was made: the folder is free
    assert not (tmp_path / "out" / "work" / "plan").exists()
    settings.keep()
    (tmp_path / "out" / "work" / "tasks").mkdir()
    with pytest.raises(AdaptError, match="begun with --seed 1"):
        replace(settings, seed=2).keep()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    with pytest.raises(AdaptError, match="other files"):
        replace(settings, output=tmp_path / "mine").keep()


def test_a_folder_in_which_another_command_works_is_left_alone(tmp_path: Path, capsys: Any) -> None:
    planned_tasks(tmp_path)
    settings = settings_of(tmp_path)
    before = sorted(settings.output.rglob("*"))
    lock = lock_for_file(settings.output)
    words = ["adapt", settings.spec, "--model", str(settings.model), "--seed", "7"]
    assert main([*words, "--output", str(settings.output)]) == 2
    assert "out is in use by process" in capsys.readouterr().err
    assert sorted(settings.output.rglob("*")) == before
    lock.release(remove=True)


def adapt(folder: Path, *flags: str, **more: Any) -> subprocess.Popen[str]:
    tasks = folder / "tasks.json"
    tasks.write_text(json.dumps([task(each) for each in range(24)]))
    (folder / "api.json").write_text(json.dumps([HEAT, DOOR]))
    words = [sys.executable, "-m", "fctncalling", "adapt", str(folder / "api.json")]
    words += ["--model", str(embedded_path("model")), "--tasks", str(tasks), "--torch_threads", "1"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*words, "--output", str(folder / "out"), *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        cwd=folder,
        **more,
    )


class _Addresses(HTMLParser):
    """Addresses that a page names."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name in ("href", "src") and value]


def test_whole_of_it_ends_with_a_report_and_a_model_that_loads(tmp_path: Path) -> None:
    process = adapt(tmp_path, "--minutes", "0.6")
    told = process.communicate(timeout=120)[0]
    assert process.returncode in (0, 1), told
    out = tmp_path / "out"
    text = (out / "report.html").read_text(encoding="utf-8")
    addresses = _Addresses()
    addresses.feed(text)
    links = set(addresses.found) - {"data:,"}  # an icon without a request
    assert links
    assert all(link.startswith("episodes.html#e=episodes:") for link in links)
    assert (out / "episodes.html").exists()
    for name in ("config.json", "model.safetensors", "tokenizer.json", "README.md", "client.py"):
        assert (out / "model" / name).exists(), name
    assert not (out / "model" / "value_head.safetensors").exists()  # vLLM would read it
    client = (out / "model" / "client.py").read_text(encoding="utf-8")
    compile(client, "client.py", "exec")
    assert len(client.splitlines()) <= 45
    report = json.loads((out / "report.json").read_text())
    assert report["ship"] is (process.returncode == 0)
    assert set(report["costs"]) >= {"probe", "base", "supervised", "supervised_score"}
    AdaptPlan.read(out / "work" / "plan")


def test_forged_held_out_tasks_share_no_text_with_those_that_are_learned(tmp_path: Path) -> None:
    spec = tmp_path / "api.json"
    spec.write_text(json.dumps([HEAT, DOOR]))
    made = make_tasks(AdaptSettings(str(spec), tmp_path), tmp_path, 300, 12)
    train, held_out = read_task_entries(tmp_path / TRAIN), read_task_entries(tmp_path / HELD_OUT)
    assert made == len(train) + len(held_out)
    assert len(held_out) == 12
    texts = [{json.dumps(each["question"]) for each in part} for part in (train, held_out)]
    assert len(texts[0]) > 250
    assert coverage_of(tmp_path).startswith("said: 2 of 2 functions and 2 of 2 parameters; about ")
    assert not texts[0] & texts[1]


def test_small_api_is_asked_for_as_many_tasks_as_it_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def forge_few(words: Any) -> int:
        count = int(words[words.index("--num_tasks") + 1])
        if count > 50:
            return RAN_DRY
        Path(words[words.index("--output") + 1]).write_text(
            "".join(json.dumps(task(each)) + "\n" for each in range(count))
        )
        return 0

    monkeypatch.setattr("fctncalling.lab.adapt.task_files.run_command_in_process", forge_few)
    assert make_tasks(AdaptSettings("a:B", tmp_path), tmp_path, 170, 10) == 40
    assert len(read_task_entries(tmp_path / HELD_OUT)) == 10
    assert capsys.readouterr().err.count("tried instead") == 2


def test_input_error_is_told_once_and_tried_once(tmp_path: Path, capsys: Any) -> None:
    spec, kinds = tmp_path / "api.json", tmp_path / "kinds.toml"
    spec.write_text(json.dumps([HEAT, DOOR]))
    kinds.write_text('[set_heat]\nnosuch = "integer"\n')
    with pytest.raises(SystemExit) as ended:
        make_tasks(AdaptSettings(str(spec), tmp_path, kinds=kinds), tmp_path, 40, 8)
    error = capsys.readouterr().err
    assert ended.value.code == 2
    assert (error.count("error:"), error.count("tried instead")) == (1, 0)
    assert "nosuch" in error


def test_the_forge_has_an_exit_code_of_its_own_where_an_api_gives_fewer_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr("fctncalling.lab.forge.forge_run.digest", lambda _: 0)  # all texts alike
    file = tmp_path / "api.json"
    file.write_text(json.dumps([DOOR]))
    words = ["forge", "--api", str(file), "--category", "multiple", "--num_tasks", "2"]
    assert main([*words, "--output", str(tmp_path / "tasks.jsonl")]) == RAN_DRY
    assert "pass a smaller --num_tasks" in capsys.readouterr().err


def test_only_tasks_of_several_turns_get_many_steps(tmp_path: Path) -> None:
    settings = AdaptSettings("a:B", tmp_path)
    assert turn_step_limit(settings) == SINGLE_TURN_STEPS
    file = tmp_path / "long.json"
    file.write_text(json.dumps([{**task(1), "id": "multi_turn_base_1"}]))
    assert turn_step_limit(replace(settings, test=file)) == MULTI_TURN_STEPS


def test_slow_answers_of_the_base_model_cost_its_score_alone() -> None:
    slow = replace(TIMES, base_answer=8.0)
    plan = plan_for(60.0, slow, num_test=20, tasks_at_hand=None, spent_s=60.0)
    plain = plan_for(60.0, TIMES, num_test=20, tasks_at_hand=None, spent_s=60.0)
    assert plan.seconds["base"] > 3 * plan.seconds["score"]
    assert plan.num_tasks > plain.num_tasks / 2
    assert 60.0 + sum(plan.seconds.values()) <= 3600


def weights_and_answers(out: Path) -> dict[str, str]:
    """Return what must not depend on kills: tasks, the shipped weights, each model's answers."""
    found = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in [out / "model" / "model.safetensors", *(out / "work" / "tasks").glob("*.jsonl")]
    }
    for file in sorted((out / "work").glob("*/held_out.jsonl")):
        if file.parent.name not in ("probe", "tasks"):
            answers = [json.loads(line) for line in file.read_text().splitlines()]
            said = sorted((each["id"], each["response"]) for each in answers)
            found[f"answers of {file.parent.name}"] = json.dumps(said)
    return found


def settings_of(folder: Path) -> AdaptSettings:
    tasks, model = folder / "tasks.json", str(embedded_path("model"))
    spec = str(folder / "api.json")
    return AdaptSettings(spec, folder / "out", model=model, minutes=20.0, tasks=tasks)


def planned_tasks(folder: Path) -> None:
    """Write an API with its tasks, and begin its adaptation."""
    (folder / "tasks.json").write_text(json.dumps([task(each) for each in range(24)]))
    (folder / "api.json").write_text(json.dumps([HEAT, DOOR]))
    planned(folder)


def planned(folder: Path) -> None:
    """Begin an adaptation with a small plan, as if its probe had been made."""
    settings_of(folder).keep()
    stages = ("tasks", "base", "supervised", "tppo", "score")
    counts: dict[str, float] = dict.fromkeys(stages, 1.0)
    plan = AdaptPlan(20.0, 24, 6, 20, 6, 64, counts, counts, counts)
    for name in ("probe", "plan"):
        stage = folder / "out" / "work" / name
        stage.mkdir()
        plan.write(stage)
        (stage / COST_FILE).write_text(json.dumps(asdict(StageCost(1.0, 1.0, 1.0))))


@pytest.mark.prove
def test_killed_in_each_stage_it_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()
        planned(folder)
    flags = ("--minutes", "20")
    told = (process := adapt(whole, *flags)).communicate(timeout=300)[0]
    assert process.returncode in (0, 1), told
    for stage in ("tasks", "base", "supervised", "supervised_score", "tppo", "tppo_score"):
        process = adapt(killed, *flags)
        work = killed / "out" / "work"
        while process.poll() is None:
            if (work / f".{stage}.part").exists() or (work / stage).exists():
                break
            time.sleep(0.002)
        time.sleep(0.3 if stage in ("supervised", "tppo") else 0.0)
        assert process.poll() is None, f"{stage}: ended before it was killed"
        process.send_signal(signal.SIGKILL)
        process.communicate()
    told = (process := adapt(killed, *flags)).communicate(timeout=300)[0]
    assert process.returncode in (0, 1), told
    assert weights_and_answers(whole / "out") == weights_and_answers(killed / "out")


def test_wrong_flags_are_one_line(tmp_path: Path, capsys: Any) -> None:
    from argparse import Namespace

    base = dict.fromkeys(
        ("test", "tasks", "scenarios", "kinds", "phrases", "torch_threads", "base_url", "evaluate")
    )
    tasks = tmp_path / "tasks.json"
    tasks.write_text("[]")
    given = {"spec": "a:B", "output": tmp_path / "o", "model": None, "minutes": 1.0, "seed": 1}
    given |= {"plan": False, "offered": 12, "operations": [], "tags": []}
    for changes, word in (
        ({}, "--model"),
        ({"evaluate": "hf:x"}, "openai:NAME"),
        ({"model": "m", "minutes": 0.0}, "--minutes"),
        ({"model": "m", "test": tmp_path / "gone"}, "--test"),
        ({"model": str(tmp_path), "tasks": tasks}, "cannot be used"),
        ({"model": "nosuch model", "tasks": tasks}, "there is no such folder"),
        ({"evaluate": "openai:x", "plan": True}, "--plan"),
        ({"model": "m"}, "a:B: "),
    ):
        given["output"] = tmp_path / f"o{len(changes)}{word}"
        assert run(Namespace(**{**base, **given, **changes, "json": False})) == 2
        error = capsys.readouterr().err
        assert word in error
        assert error.count("\n") == 1
        assert not given["output"].exists()  # the mended command may take the folder


def test_endpoint_is_measured_with_the_same_report_and_nothing_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def reply(number: int, body: dict[str, Any]) -> dict[str, Any]:
        text = body["messages"][-1]["content"]
        call = f"[set_heat(degrees={text.split()[-1]})]" if "heat" in text else "I cannot do that."
        return {"role": "assistant", "content": call}

    monkeypatch.setenv("OPENAI_API_KEY", "none")
    (tmp_path / "tasks.json").write_text(json.dumps([task(each) for each in range(12)]))
    with endpoint(reply) as stub:
        words = ["api.json", "--evaluate", "openai:stub", "--base_url", stub.url]
        words += ["--tasks", str(tmp_path / "tasks.json"), "--output", str(tmp_path / "out")]
        parser = ArgumentParser()
        add_arguments(parser)
        assert run(parser.parse_args([*words, "--json"])) == 0
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    solved = report["solved"]["openai:stub"]["held_out"]
    assert solved == {"multiple": [9, 9], "irrelevance": [3, 3]}
    assert not (tmp_path / "out" / "model").exists()
