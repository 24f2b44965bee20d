"""The court's probes: what is forced, what spreads, what they say by the written rules."""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks/jobs"))
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks/court"))
from critical import EMBEDDED
from probe_report import results_are_known, teacher_reads, told_forced, told_solvable
from probes import ForcingEnv, area_under_roc, choose_states, spread

from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.data.bfcl import load_tasks
from fctncalling.data.types import Episode, StepRecord
from fctncalling.envs import FunctionCallingEnv
from fctncalling.lab.credit.ruler import BranchedTruth, BranchingEnv, Snapshot


def test_a_spread_is_the_variance_over_actions_and_noise_adds_nothing() -> None:
    assert spread(np.repeat([[1.0], [1.0], [1.0], [0.0]], 8, 1)) == pytest.approx(0.25)
    generator = np.random.default_rng(0)
    noise = [spread(each) for each in generator.integers(0, 2, (4000, 4, 8)).astype(float)]
    assert np.mean(noise) == pytest.approx(0.0, abs=0.003)
    assert np.mean(np.abs(noise)) > 0.01  # what a plain variance would count


def test_the_area_under_the_curve_is_the_share_of_pairs_in_order() -> None:
    scores = np.asarray([0.1, 0.5, 0.5, 0.9, 0.2])
    positive = np.asarray([False, True, False, True, False])
    pairs = [
        1.0 if a > b else 0.5 if a == b else 0.0
        for a, b in product(scores[positive], scores[~positive])
    ]
    assert area_under_roc(scores, positive) == pytest.approx(np.mean(pairs))
    assert area_under_roc(scores, np.zeros(5, dtype=bool)) == 0.5


def test_a_forced_action_leads_where_the_same_action_leads_in_an_episode() -> None:
    tasks = load_tasks(EMBEDDED / "critical_train.json")[:1]
    calls = [f"[{call}]" for call in tasks[0].ground_truth[0]]
    trace: dict[str, list[Snapshot]] = {}
    played = BranchingEnv(FunctionCallingEnv(tasks=tasks), {"x": tasks[0].id}, trace)
    played.reset(seed=1, options={"task_id": "x"})
    for text in calls[:3]:
        played.step(text)
    states = trace["x"]
    env = ForcingEnv(FunctionCallingEnv(tasks=tasks), {}, {})
    reward, behind = env.force(states[1], calls[1])
    assert reward == 0.0
    assert behind is not None
    assert (behind.texts, behind.state_hash) == (states[2].texts, states[2].state_hash)
    assert behind.info["messages"] == states[2].info["messages"]
    other = env.force(states[1], calls[2])[1]
    assert other is not None
    assert other.state_hash != behind.state_hash


def test_a_state_is_asked_about_its_own_actions_and_others_of_its_group() -> None:
    def state(*texts: str) -> Snapshot:
        return Snapshot("t", None, "", {}, texts, "")

    def episode(*texts: str) -> EpisodeRecord:
        made = EpisodeRecord("t", "world", [])
        made.episode = Episode("t", "c", tuple(StepRecord(0, text) for text in texts))
        return made

    snapshots = [[state(), state("a")], [state(), state("b")]]
    truth = BranchedTruth([episode("a", "x"), episode("b", "x")], snapshots, [], [], [], ([], []))
    choices = {c.state.texts: c for c in choose_states(truth, np.asarray([1.0, 2.0, 3.0, 4.0]), 1)}
    assert choices[()].entropy == 2.0  # of both visits
    assert set(choices) == {(), ("a",), ("b",)}
    assert all(set(choice.actions) == {"a", "b", "x"} for choice in choices.values())
    assert choices["a",].actions[0] == "x"


def probe(arm: str, seed: int, at_64: float = 0.5, **more: Any) -> dict[str, Any]:
    rates = {"1": 0.1, "4": 0.2, "16": 0.3, "64": at_64}
    known = {"auc": 0.5, "spearman": 0.0, "teacher": 0.5}
    return {"arm": arm, "seed": seed, "tried": 0.0, "pass": rates, **known, **more}


@pytest.mark.parametrize(
    ("start", "trained", "supervised", "wanted"),
    [
        (0.5, 0.6, 0.4, ["effect size, for", "effect size, for"]),
        (0.5, 0.51, 0.6, ["effect size, against", "effect size, against"]),
        (0.5, 0.53, 0.5, ["effect size", "effect size"]),
        (0.97, 0.99, 0.9, ["void", "effect size, for"]),
    ],
)
def test_what_can_be_solved_is_judged_by_the_written_rule(
    start: float, trained: float, supervised: float, wanted: list[str]
) -> None:
    areas = {"start": start, "GRPO": trained, "supervised": supervised}
    probes = [probe(arm, seed, area) for arm, area in areas.items() for seed in (1, 2)]
    assert [text.split("**")[1] for text in told_solvable(probes)[1:]] == wanted
    assert told_solvable(probes[:2]) == []
    assert len(told_solvable(probes[:4])) == 2  # of GRPO alone


def test_entropy_and_the_teacher_are_judged_by_the_written_rule() -> None:
    def said(*areas: float) -> str:
        after = [probe("GRPO", seed, auc=auc) for seed, auc in enumerate(areas)]
        return told_forced([probe("start", 1), *after])[0].split("**")[1]

    assert said(0.85, 0.8) == "effect size, for"
    assert said(0.7, 0.5) == "effect size, against"
    assert said(0.7, 0.9) == "effect size"
    assert teacher_reads([probe("start", 1, teacher=0.7), probe("start", 2, teacher=0.6)])
    assert teacher_reads([probe("start", 1, teacher=0.55)]) is False
    assert teacher_reads([]) is None
    worse = probe("start", 1, result_nats=9.0, uniform_nats=6.6)
    assert results_are_known([worse]) is False
    assert results_are_known([{**worse, "result_nats": 1.0}])
