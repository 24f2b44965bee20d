"""Tasks of the court: a mistake on a stream stays, one among mended tasks costs chances."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from fctncalling.data.bfcl import embedded_path
from fctncalling.data.types import Task
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.lab.embedded.make_mended_model import MendedDemonstrator, mended_tasks
from fctncalling.lab.embedded.make_stream_model import StreamDemonstrator
from fctncalling.lab.embedded.mended_tasks import COINS, NOTICE_RATE, PRICE, TEAR_RATE, MendedEnv
from fctncalling.lab.embedded.model_maker import load_entries
from fctncalling.lab.embedded.stream_tasks import COLD, WARM, ErrandPool, stream_entries

POOLS = {"warm": WARM, "cold": COLD}
Script = Callable[[str, int, int, dict[str, Any]], str]


def played(env: FunctionCallingEnv, task: Task, script: Script, seed: int = 0) -> list[Any]:
    """Return the (text, reward, info) of each step of an episode."""
    _, info = env.reset(seed=seed, options={"task_id": task.id})
    step, ended, found = 0, False, list[Any]()
    while not ended:
        turn, text = info["turn"], script(task.id, info["turn"], step, info)
        _, reward, terminated, truncated, info = env.step(text)
        found.append((text, float(reward), info))
        step = step + 1 if info["turn"] == turn else 0
        ended = terminated or truncated
    return found


@pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS)
def test_one_wrong_call_loses_a_stream_task_and_no_result_betrays_it(pool: ErrandPool) -> None:
    tasks = load_entries(stream_entries("train", 8, seed=3, errands=pool))
    env, oracle = FunctionCallingEnv(tasks=tasks, reward="strict"), StreamDemonstrator(tasks)
    careless = StreamDemonstrator(tasks, careful=False)
    silent = lost = 0
    for task in tasks:
        right = played(env, task, oracle)
        assert sum(reward for _, reward, _ in right) == 1.0
        assert 12 <= len(right) <= 17
        other = played(env, task, careless)
        if [text for text, _, _ in other] != [text for text, _, _ in right]:
            lost += 1
            assert sum(reward for _, reward, _ in other) == 0.0
            silent += all(info["error"] in (None, "no_call") for _, _, info in other)
    assert lost >= len(tasks) // 2
    assert silent > 0.6 * lost


@pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS)
def test_no_stream_task_comes_twice_nor_in_both_splits(pool: ErrandPool) -> None:
    train, held_out = (
        {json.dumps(entry["question"]) for entry in stream_entries(split, 60, errands=pool)}
        for split in ("train", "held_out")
    )
    assert len(train) == len(held_out) == 60
    assert not train & held_out


def test_a_mended_task_has_several_ways_to_its_goal_and_each_coin_has_its_price() -> None:
    (task,) = mended_tasks("train", 1, seed=2)
    env, calls = MendedEnv([task]), [turn[0] for turn in task.ground_truth or ()]
    name = calls[0].split("'")[1]
    wrong = f"[send(file_name='{name}', destination='cellar')]"

    def way(first: list[str]) -> float:
        """Return the reward of an episode that wraps all but the first file."""
        env.reset(seed=1, options={"task_id": task.id})
        texts = list(first)
        for number, turn in enumerate(task.ground_truth or ()):
            for text in turn[1:] if number == 0 else turn:
                texts += [f"[wrap(file_name='{text.split(chr(39))[1]}')]", f"[{text}]"]
            texts += ["done"]
        paid, steps = 0.0, iter(texts)
        while not env.unwrapped.episode.terminated:
            paid += float(env.step(next(steps))[1])
        return paid

    wrap, send = f"[wrap(file_name='{name}')]", f"[{calls[0]}]"
    recall = f"[recall(file_name='{name}')]"
    assert way([wrap, send]) == pytest.approx(1.0)
    astray = [wrap, wrong, recall]
    assert way([*astray, wrap, send]) == pytest.approx(1.0 - PRICE)
    assert way([*astray * COINS, wrap, send]) == pytest.approx(1.0 - PRICE * COINS)
    assert way([*astray * (COINS + 1), wrap, send]) < 0.0


def test_chance_of_mended_tasks_has_its_rates_and_comes_from_the_seed_alone() -> None:
    (task,) = mended_tasks("train", 1, seed=2)
    env, send = MendedEnv([task]), f"[{(task.ground_truth or ())[0][0]}]"

    def chances(seed: int) -> tuple[bool, bool]:
        env.reset(seed=seed, options={"task_id": task.id})
        torn = "torn" in env.step(send)[0]
        return torn, env.step("done")[4]["turn"] == 0

    repeats = 225
    seen = [chances(seed) for seed in range(repeats)]
    assert seen == [chances(seed) for seed in range(repeats)]
    for rates, wanted in zip(zip(*seen, strict=True), (TEAR_RATE, NOTICE_RATE), strict=True):
        assert abs(sum(rates) / repeats - wanted) < 4 * 0.5 / 15  # four standard errors


def test_the_careless_demonstrator_loses_what_the_careful_one_mends() -> None:
    tasks = mended_tasks("train", 40, seed=5)
    shares = []
    for careful in (True, False):
        script, env = MendedDemonstrator(tasks, careful=careful), MendedEnv(tasks)
        ends = [played(env, task, script, seed)[-1][2] for seed, task in enumerate(tasks)]
        shares.append(sum(info["verdict"].valid for info in ends) / len(tasks))
    assert shares[0] > 0.7
    assert shares[1] < 0.4


@pytest.mark.parametrize("name", ["stream_model", "mended_model"])
def test_a_committed_model_is_the_one_its_hashes_name(name: str) -> None:
    folder = embedded_path(name)
    recorded = json.loads((folder / "SHA256.json").read_text())["sha256"]
    files = {path.name: path for path in folder.iterdir() if path.name != "SHA256.json"}
    assert {
        name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()
    } == recorded
    assert sum(path.stat().st_size for path in files.values()) <= 750_000
