"""The job `--env_name clarify`: its settings, its log, and that it learns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from evaluate_fctncalling import main as evaluate
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.run.evaluation import Evaluation
from fctncalling.cli.train import main as train
from fctncalling.data.bfcl import embedded_path, load_tasks
from fctncalling.data.types import Message
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.evaluation.agents.agent import ScriptedPlayer
from fctncalling.evaluation.episode_log import episode_json, play_episode
from fctncalling.lab.canaries import always_ask
from fctncalling.lab.replay import logged_user

TASKS = load_tasks(embedded_path("clarify_held_out"))


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--env_name", "clarify", "--user", "rul"], ["--user", "rul", "rule", "hf:FOLDER"]),
        (["--env_name", "clarify", "--reward", "progress"], ["--reward", "fctncalling_env"]),
        (["--question_cost", "1"], ["--question_cost", "--env_name clarify"]),
        (["--env_name", "calculator", "--user", "rule"], ["--user", "clarify"]),
    ],
)
def test_flags_that_cannot_be_end_with_one_line(
    flags: list[str], words: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert train([*flags, "--results_dir", str(tmp_path)]) == 2
    error = capsys.readouterr().err.strip()
    assert all(word in error for word in words), error
    assert "\n" not in error
    assert not list(tmp_path.iterdir())


def test_evaluation_counts_who_asked_by_category() -> None:
    def record(category: str, *errors: str) -> EpisodeRecord:
        return EpisodeRecord("t", category, rows=[], errors=list(errors))

    missing = [record("clarify_missing", "no_call"), record("clarify_missing")]
    others = [record("clarify_complete"), record("simple_python", "no_call")]
    found = Evaluation([*missing, *others], missing).as_json()["categories"]
    assert found["clarify_missing"]["greedy_asked"] == 0.5
    assert found["clarify_complete"]["greedy_asked"] == 0.0
    assert "greedy_asked" not in found["simple_python"]
    metrics = Evaluation(missing, others).metrics()
    assert metrics["eval/greedy_asked/clarify_missing"] == 0.5
    assert metrics["eval/sampled_asked/clarify_complete"] == 0.0


@dataclass
class Moody:
    """A user whose answers come from nowhere."""

    count: int = 0

    def __call__(self, conversation: list[Message], about: Mapping[str, Any]) -> str:
        self.count += 1
        return f"{list(about['task'].extra['user_knows'].values())} for the {self.count}th time"


def test_an_episode_with_any_user_is_replayed_from_its_log() -> None:
    moody = FunctionCallingEnv(tasks=TASKS, user=Moody(), max_steps_per_turn=3)
    for task in TASKS[::20]:
        played = play_episode(moody, task.id, ScriptedPlayer(always_ask, task))
        logged = json.loads(json.dumps(episode_json(played)))
        replay = FunctionCallingEnv(tasks=TASKS, user=logged_user(logged["steps"], task))
        again = play_episode(replay, task.id, ScriptedPlayer(always_ask, task))
        assert episode_json(again) == logged


def test_complaints_of_unread_calls_are_not_replayed_as_the_user_s() -> None:
    task = next(task for task in TASKS if task.extra["missing_parameters"])
    texts = iter(["[f(", f"which {task.extra['missing_parameters'][0]}", "[f()]"])

    class Player:
        def answer(self, observation: str, info: Mapping[str, Any]) -> str:
            return next(texts)

    env = FunctionCallingEnv(tasks=[task], user=Moody(), retry_malformed=True, max_steps_per_turn=3)
    steps = json.loads(json.dumps(episode_json(play_episode(env, task.id, Player()))))["steps"]
    replayed = logged_user(steps, task)
    assert replayed is not None
    assert "for the 1th time" in str(replayed([], {}))


def test_episodes_of_run_are_replayed_identically(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks, log = str(embedded_path("clarify_held_out")), str(tmp_path / "log.jsonl")
    assert evaluate(["run", "--agent", "oracle", "--dataset_path", tasks, "--output", log]) == 0
    lines = [json.loads(line) for line in Path(log).read_text().splitlines()]
    assert len(lines) == len(TASKS)
    assert all(line["valid"] for line in lines)
    assert sum("messages" in line["steps"][0] for line in lines) == 104  # missing and ambiguous
    capsys.readouterr()
    assert evaluate(["replay", "--input", log, "--dataset_path", tasks]) == 0
    assert f"{len(TASKS)} episodes identical, 0 different" in capsys.readouterr().out


def test_run_plays_with_the_user_that_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks, log = str(embedded_path("clarify_held_out")), tmp_path / "log.jsonl"
    command = ["run", "--agent", "oracle", "--dataset_path", tasks, "--limit", "2"]
    command += ["--output", str(log)]
    assert evaluate([*command, "--user", "rude"]) == 2
    error = capsys.readouterr().err.strip()
    assert all(word in error for word in ("--user", '"rude"', "rule", "hf:FOLDER")), error
    assert "\n" not in error
    assert not log.exists()
    assert evaluate([*command, "--user", "rule:curt"]) == 0
    by_id = {task.id: task for task in TASKS}
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    asked = [line for line in lines if by_id[line["id"]].extra["missing_parameters"]]
    assert len(asked) == 4
    for line in asked:
        task = by_id[line["id"]]
        value = task.extra["user_knows"][task.extra["missing_parameters"][0]]
        assert line["steps"][0]["messages"] == [{"role": "user", "content": f"{value}."}]
    assert {line["user"] for line in lines} == {"rule:curt"}
    assert evaluate(["replay", "--input", str(log), "--dataset_path", tasks]) == 0
    capsys.readouterr()
    assert evaluate([*command, "--resume"]) == 2
    assert "played with user 'rule:curt', this run has None" in capsys.readouterr().err
