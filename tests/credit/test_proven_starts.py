"""A started episode stands where its task's ground truth has come to, token for token."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from call_templates import GLM, KIMI
from tiny_models import FORGETS_THOUGHTS, EchoEnv, tiny_tokenizer

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.generation.engine_api import ScriptedEngine
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.policy.progress_features import progress_features
from fctncalling.algorithms.policy.weight_sync import policy_state
from fctncalling.algorithms.rollout.collect import collect
from fctncalling.algorithms.run.checkpoint import load_state
from fctncalling.algorithms.run.interruption import Interruption
from fctncalling.cli.evaluate import main as evaluate
from fctncalling.cli.train import main as train
from fctncalling.data.bfcl import embedded_path, load_tasks
from fctncalling.data.types import Task
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.evaluation.agents.agent import ScriptedPlayer
from fctncalling.evaluation.scripted_policies import DONE, message_end
from fctncalling.training.demonstrations import GroundTruthPolicy
from fctncalling.training.load_policy import load_policy
from fctncalling.training.proven_starts import ProvenStarts, StartedEnv
from fctncalling.training.rollouts.ray_rollout import RolloutWorker
from fctncalling.training.rollouts.rollout_backends import LocalRollout, RolloutRound
from fctncalling.training.run_config import RunConfig
from fctncalling.training.task_setup import TaskSetup, make_task_setup


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    """Return the longest embedded task of several turns of each category, and one of one turn."""
    every = load_tasks(embedded_path("train"))
    categories = sorted({task.category for task in every if task.is_multi_turn})
    several = [
        max((task for task in every if task.category == name), key=lambda it: len(str(it.question)))
        for name in categories
    ]
    return [*several, next(task for task in every if not task.is_multi_turn)]


class ThinkingPolicy(GroundTruthPolicy):
    """Ground truth with a thought before each message, which some templates drop later."""

    def __call__(self, situation: Any) -> str:
        return f"<think>step {situation.step_in_turn}</think>{super().__call__(situation)}"


def embedded_template() -> ChatTemplate:
    from transformers import AutoTokenizer

    return ChatTemplate(AutoTokenizer.from_pretrained(embedded_path("model")))


def truth_rollouts(
    tasks: list[Task], template: ChatTemplate, policy: type[GroundTruthPolicy], starts: list[int]
) -> list[EpisodeRecord]:
    """Return the ground truths' rollouts; a started one goes on with a word."""
    named = {task.id: task for task in tasks}

    def player(task_id: str) -> ScriptedPlayer:
        return ScriptedPlayer(policy(), named[task_id], "", DONE)

    players = {task.id: player(task.id) for task in tasks}

    def script(task_id: str, turn: int, step: int, info: Mapping[str, Any]) -> str:
        return "Enough." if any(starts) else players[task_id].answer("", info)

    envs: list[Any] = [StartedEnv(FunctionCallingEnv(tasks=tasks), player) for _ in range(3)]
    engine = ScriptedEngine(script, template.encode, message_end(template.ends, tasks))
    ids = [task.id for task in tasks]
    return collect(envs, engine, template, ids, max_episode_tokens=10**6, starts=starts)


def contexts(record: EpisodeRecord) -> list[list[int]]:
    """Return the tokens before each action."""
    found = []
    for row in record.rows:
        begins = [
            at
            for at, acted in enumerate(row.acted)
            if acted and (row.ends_action[at - 1] or not row.acted[at - 1])
        ]
        found += [row.ids[:at] for at in begins]
    return found


@pytest.mark.parametrize("kind", ["embedded", "two ends", "ids of calls", "rewrites history"])
def test_the_tokens_before_a_start_are_the_truth_s_own_and_the_state_is_its_state(
    kind: str, tasks: list[Task]
) -> None:
    policy = ThinkingPolicy if kind == "rewrites history" else GroundTruthPolicy
    tasks = tasks[:2] if kind == "rewrites history" else tasks
    template = {
        "embedded": embedded_template,
        "two ends": lambda: ChatTemplate(GLM.tokenizer()),
        "ids of calls": lambda: ChatTemplate(KIMI.tokenizer()),
        "rewrites history": lambda: ChatTemplate(tiny_tokenizer(FORGETS_THOUGHTS)),
    }[kind]()
    assert (template.ends.of_calls != template.ends.of_words) == (kind == "two ends")
    whole = truth_rollouts(tasks, template, policy, [])
    assert any(len(record.rows) > 1 for record in whole) == (kind == "rewrites history")
    num_compared = 0
    for task, record in zip(tasks, whole, strict=True):
        assert record.success
        before = contexts(record)
        for start in range(1, record.num_steps):
            [begun] = truth_rollouts([task], template, policy, [start])
            row = begun.rows[0]
            assert row.ids[: row.acted.index(True)] == before[start]
            assert contexts(begun)[0] == before[start]
            assert begun.state_hashes[:1] == record.state_hashes[start : start + 1]
            assert begun.start == start
            steps = record.episode.steps  # type: ignore[attr-defined]
            assert begun.played == list(steps[:start])
            assert begun.first_turn == steps[start].turn
            if kind == "embedded":  # what the critic reads beside goes on, too
                assert progress_features(begun)[0] == progress_features(record)[start]
            num_compared += 1
    assert num_compared >= 10
    assert all(record.state_hashes for record in whole if record.num_steps > 1)


def test_a_truth_that_fails_its_own_check_proves_no_start(tasks: list[Task]) -> None:
    wrong = replace(tasks[-1], ground_truth=[{"no_such_function": {}}])
    every = [*tasks[:2], wrong]

    def make_env(some: Any = every) -> FunctionCallingEnv:
        return FunctionCallingEnv(tasks=some)

    setup = TaskSetup(make_env, [], [], make_env, every)
    starts = ProvenStarts(setup, TrainConfig(), RunConfig())
    assert [starts.num_actions(task.id) for task in tasks[:2]] == [6, 7]
    assert starts.num_actions(wrong.id) == 0
    env = starts.make_env()
    observation, info = env.reset(options={"task_id": tasks[0].id, "after_steps": 2})
    assert len(info["played"]) == 2
    assert observation == "\n".join(each["content"] for each in info["messages"])
    with pytest.raises(InfrastructureError, match="cannot begin after 9 steps: its truth has 6"):
        env.reset(options={"task_id": tasks[0].id, "after_steps": 9})


@pytest.mark.parametrize("way", ["no truth", "user", "agent_command"])
def test_starts_need_a_truth_that_the_run_plays_alone(way: str, tasks: list[Task]) -> None:
    setup, alone = TaskSetup(EchoEnv, [], [], None), RunConfig()
    if way != "no truth":
        setup = setup._replace(make_env_over=lambda _: EchoEnv(), training_tasks=tasks)
        flag: dict[str, Any] = {way: "rule"}
        alone = RunConfig(**flag)
    with pytest.raises(SettingError, match="--starts prefix: needs tasks with a ground truth"):
        ProvenStarts(setup, TrainConfig(env_name="Echo"), alone)


JOB = {
    "starts": "prefix",
    "group_baseline": "leave_one_out",
    "group_size": 2,
    "episodes_per_update": 32,
    "dynamic_sampling": 1,
    "num_updates": 4,
    "num_mini_batch": 1,
    "task_sampling": "success",
    "mixture": "multi_turn_base=1",
    "eval_episodes": 4,
    "eval_interval": 0,
    "log_episodes_interval": 1,
    "save_interval": 2,
    "tensorboard": "false",
    "device": "cpu",
}


def words(results: Path, *more: str, **changes: Any) -> list[str]:
    return [f"--{name}={value}" for name, value in {**JOB, **changes}.items()] + [
        f"--results_dir={results}",
        *more,
    ]


@pytest.mark.prove
def test_a_run_with_starts_resumes_to_the_same_bytes_and_its_episodes_replay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "check/embedded/embedded/TPPO"
    assert train(words(tmp_path)) == 0
    assert "Starts: three quarters" in capsys.readouterr().out
    metrics = (folder / "metrics.jsonl").read_bytes()
    updates = [line for line in map(json.loads, metrics.splitlines()) if "env/episodes" in line]
    assert all(any(key.startswith("env/success_by_left/") for key in line) for line in updates)
    num_whole = []
    for number, line in enumerate(updates, 1):
        text = (folder / f"episodes/train_{number:06d}.jsonl").read_text("utf-8")
        episodes = [json.loads(each) for each in text.splitlines()]
        rates = [each["success"] for each in episodes if "played" not in each]
        assert line["env/success_rate"] == pytest.approx(sum(rates) / len(rates))
        starts = [len(each.get("played", ())) for each in episodes]
        assert starts[::2] == starts[1::2]
        num_whole.append(starts.count(0))
        assert 8 <= num_whole[-1] < 32
    counters = load_state(folder / "checkpoints/update_000002")["counters"]
    played, begun = (sum(n for n, _ in counters[it].values()) for it in ("successes", "starts"))
    assert played == pytest.approx(0.9 * num_whole[0] + num_whole[1])  # by whole tasks alone
    assert begun == pytest.approx(0.7 * 32 + 32)
    assert train(words(tmp_path, f"--resume={folder / 'checkpoints/update_000002'}")) == 0
    assert (folder / "metrics.jsonl").read_bytes() == metrics
    capsys.readouterr()
    assert evaluate(["replay", "--input", *map(str, sorted(folder.glob("episodes/*.jsonl")))]) == 0
    assert "144 episodes identical, 0 different, 0 invalid" in capsys.readouterr().out


@pytest.mark.prove
def test_a_worker_plays_the_started_episodes_that_the_learner_would() -> None:
    config = TrainConfig(starts="prefix", device="cpu", n_rollout_threads=8)
    run_config = RunConfig(num_rollout_workers=1)
    setup = make_task_setup(config, run_config)
    proven = ProvenStarts(setup, config, run_config)
    ids = tuple(task.id for task in setup.training_tasks if task.is_multi_turn)[:8]
    starts = tuple(proven.num_actions(task_id) // 2 for task_id in ids)
    assert all(starts)
    wanted = RolloutRound(ids, 3, 1.0, version=0, starts=starts)
    policy, template = load_policy(config, run_config, None, torch.device("cpu"))
    rollout = LocalRollout(config, policy, template, proven.make_env)
    here = rollout.play(wanted, Interruption()).episodes
    rollout.close()
    worker = RolloutWorker(config, run_config, 0)
    there = worker.play(policy_state(policy), wanted, range(8)).episodes
    assert [each.start for each in there] == list(starts)
    for one, other in zip(here, there, strict=True):
        assert [row.ids for row in one.rows] == [row.ids for row in other.rows]
