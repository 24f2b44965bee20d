"""The court: hand-made values against the environments' own states, exact statistics."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from token_worlds import settings, trajectories

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks/court"))
from arms import ARMS, RATES, TUNING_SEEDS
from court import jobs
from report import Run, best_rate, chance, judged, report
from values import (
    GivenCredit,
    PlayedUpdate,
    office_errors,
    office_places,
    office_potential,
    path_errors,
    path_potential,
    path_probabilities,
)

from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.data.bfcl import embedded_path
from fctncalling.data.types import Call, Episode, StepRecord, Task
from fctncalling.lab.embedded.make_mended_model import mended_tasks
from fctncalling.lab.embedded.mended_tasks import MendedEnv
from fctncalling.lab.embedded.model_maker import load_entries
from fctncalling.lab.embedded.stream_tasks import WARM, stream_entries


def record(task: Task, steps: tuple[StepRecord, ...], success: bool = False) -> EpisodeRecord:
    """Return the record of an episode, without tokens."""
    episode = Episode(task.id, task.category, steps)
    return EpisodeRecord(task.id, task.category, [], success=success, episode=episode)


def test_credit_of_given_values_is_reward_and_their_step_on_all_tokens_of_an_action() -> None:
    task = load_entries(stream_entries("train", 1, errands=WARM))[0]
    steps = (StepRecord(0, "a"), StepRecord(0, "b", reward=1.0))
    given = GivenCredit([record(task, steps)], [[0.25, 0.75]])
    lines = trajectories([([0.0, 0.0], 0.0), ([0.0], 1.0)])
    found = given(lines, settings(gamma=1.0)).advantages
    assert found.tolist() == [[0.5, 0.5, 0.25]]


def test_values_of_a_path_fall_at_the_first_error_and_stay() -> None:
    task = Task(
        "t", "multi_turn_base", [[], []], ground_truth=[["cp(a=1)", "cp(a=2)"], ["mv(a=3)"]]
    )
    done = StepRecord(0, "done")
    cp = [StepRecord(0, "", calls=(Call("cp", {"a": n}),)) for n in (1, 2)]
    late = StepRecord(1, "", calls=(Call("mv", {"a": 3}),))
    wrong = StepRecord(0, "", calls=(Call("cp", {"a": 3}),))
    episodes = [
        record(task, (*cp, done, late, done), success=True),
        record(task, (cp[0], wrong, cp[1], done, late, done)),
        record(task, (cp[0], done, late, done)),
    ]
    played = PlayedUpdate(None, {"t": task}, episodes)  # type: ignore[arg-type]
    assert path_errors(played) == [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0, 0], [1, 1, 0, 0]]
    assert path_potential(played)[0] == pytest.approx([0, 0.2, 0.4, 0.6, 0.8])
    assert path_potential(played)[1] == pytest.approx([0, 0.2, 0, 0, 0, 0])


def test_places_are_those_of_the_environments_own_office() -> None:
    """Random play, in which every call of the office and the user's word have their turn."""
    tasks, draw = mended_tasks("train", 30, seed=4), random.Random(3)
    env, errors = MendedEnv(tasks), Counter[bool]()
    for seed, task in enumerate(tasks):
        env.reset(seed=seed, options={"task_id": task.id})
        seen, ended = [], False
        while not ended:
            office = dict(env._office())
            wanted = [text.split("'")[1::2] for text in (task.ground_truth or ())[env._state.turn]]
            wrong = sum(office["sent"].get(name, folder) != folder for name, folder in wanted)
            torn = sum(n in office["_torn"] and n not in office["sent"] for n, _ in wanted)
            seen.append((wrong, torn))
            name, folder = draw.choice(wanted)
            others = ["cellar", folder, folder, folder]
            text = draw.choice([
                f"[send(file_name='{name}', destination='{draw.choice(others)}')]",
                f"[send(file_name='{name}', destination='{folder}')]",
                f"[{draw.choice(('wrap', 'recall', 'reprint'))}(file_name='{name}')]",
                draw.choice(("done", f"[wrap(file_name='{name}')]")),
            ])  # fmt: skip
            _, _, terminated, truncated, _ = env.step(text)
            ended = terminated or truncated
        episode = record(task, env.episode.steps, env.episode.verdict.valid)
        places = list(office_places(task, episode))
        assert [(each.wrong, each.torn) for each in places] == seen
        played = PlayedUpdate(None, {task.id: task}, [episode])  # type: ignore[arg-type]
        assert [p == 0.0 for p in office_potential(played)[0][1:]] >= [
            each.lost for each in places[1:]
        ]
        errors.update(map(bool, office_errors(played)[0]))
    assert min(errors.values()) > 50


def test_the_truths_probabilities_are_those_of_the_bare_model() -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = str(embedded_path("stream_model"))
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    template = ChatTemplate(AutoTokenizer.from_pretrained(folder))
    task = load_entries(stream_entries("train", 1, errands=WARM))[0]
    policy = SimpleNamespace(policy=SimpleNamespace(model=model), template=template)
    found = path_probabilities(policy, [task])[task.id]  # type: ignore[arg-type]
    assert len(found) == sum(len(turn) + 1 for turn in task.ground_truth or ())
    assert all(0 < before <= after <= 1 for before, after in pairwise(found))
    # the last action's probability, token by token
    from fctncalling.lab.embedded.demonstrator import demonstrations
    from fctncalling.lab.embedded.make_stream_model import StreamDemonstrator

    (row,) = demonstrations([task], StreamDemonstrator([task]), template)[0].rows
    end = max(i for i, ends in enumerate(row.ends_action) if ends)
    start = max(i for i in range(end) if not row.acted[i]) + 1
    wanted = 1.0
    for place in range(start, end + 1):
        with torch.no_grad():
            logits = model(torch.tensor([row.ids[:place]])).logits[0, -1]
        wanted *= float(logits.softmax(-1)[row.ids[place]])
    assert found[-1] == pytest.approx(wanted, rel=1e-4)


def run(arm: str, seed: int, lr: float, *sampled: float, tasks: str = "cold") -> Run:
    return Run(tasks, arm, seed, lr, [], list(sampled), sampled[-1], 0.0, 1, 1.0)


def test_rates_are_of_the_tuning_seeds_and_these_are_not_judged() -> None:
    runs = [run("TPPO", seed, lr, lr) for seed in TUNING_SEEDS for lr in RATES]
    runs += [run("TPPO", 1, max(RATES), 0.5), run("TPPO", 1, min(RATES), 1.0)]
    assert best_rate(runs, "cold", "TPPO") == max(RATES)
    assert [each.area for each in judged(runs, "cold", "TPPO").values()] == [0.5]
    assert best_rate(runs, "warm", "TPPO") == RATES[1]


def test_an_arm_that_is_far_below_after_six_seeds_stops_there(tmp_path: Path) -> None:
    runs = [run("REINFORCE", seed, RATES[1], 0.5) for seed in range(1, 7)]
    runs += [run("TPPO", seed, RATES[1], 0.3) for seed in range(1, 7)]
    runs += [run("potential", seed, RATES[1], 0.45) for seed in range(1, 7)]
    runs += [run(arm, 101, RATES[1], 0.9) for arm in ("REINFORCE", "TPPO", "potential")]
    kept = tmp_path / "runs.jsonl"
    kept.write_text("".join(json.dumps(each._asdict()) + "\n" for each in runs))
    wanted = list(jobs(["cold"], ["TPPO", "potential"], range(1, 13), kept))
    assert {job.arm for job in wanted if 6 < job.seed < 100} == {"potential"}


def test_chances_are_exact_and_ruins_counted() -> None:
    own = {seed: run("TPPO", seed, 1e-3, 0.5 + seed / 100) for seed in range(6)}
    base = {seed: run("REINFORCE", seed, 1e-3, 0.25 + seed / 100) for seed in range(6)}
    assert chance(own, base) == 2 / 2**6  # all signs or none
    fewer = {seed: base[seed] for seed in range(3)}
    assert chance(own, fewer) == pytest.approx(2 / 84)  # of 9 ranks, 3 are the lowest or highest
    assert run("TPPO", 1, 1e-3, 0.5, 0.2).is_ruined
    assert not run("TPPO", 1, 1e-3, 0.5, 0.25).is_ruined
    table = report([run("REINFORCE", 1, 5e-4, 0.2, 0.4), run("TPPO", 1, 5e-4, 0.5, 0.2)])
    assert "| TPPO | 0.0005 | 1 | 35.0 | 20.0 | +5.0 | 1.000 | 1 |" in table


def test_a_stop_leaves_a_balanced_table_and_what_is_kept_is_not_run_again(tmp_path: Path) -> None:
    kept = tmp_path / "runs.jsonl"
    names, seeds = list(ARMS), range(1, 13)
    wanted = list(jobs(["cold", "mended"], names, seeds, kept))
    assert len(set(wanted)) == len(wanted)
    assert [job.seed for job in wanted] == sorted(
        (job.seed for job in wanted), key=lambda seed: (seed < 100, seed)
    )
    done = [run(job.arm, job.seed, job.lr, 0.5, tasks=job.tasks) for job in wanted[:100]]
    kept.write_text("".join(json.dumps(each._asdict()) + "\n" for each in done))
    assert set(jobs(["cold", "mended"], names, seeds, kept)).isdisjoint(wanted[:100])
