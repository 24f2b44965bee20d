"""`--agent_command`: an agent in another process is trained as the environment would be."""

from __future__ import annotations

import json
import shlex
import sys
import time
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import torch
from gateways import embedded_engine
from stub_vllm import vllm_stub
from tiny_models import EchoEnv, save_tiny

from fctncalling import TrainConfig
from fctncalling.algorithms.config import SettingError
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.generation.engine_api import RolloutError
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.ppo import make_optimisers, update
from fctncalling.cli.train import main as train
from fctncalling.data.bfcl import embedded_path
from fctncalling.lab.gateway.agent_source import (
    AgentEpisodeSource,
    EpisodeOffer,
    LastingAgent,
    read_outcome,
)
from fctncalling.training.rollouts.rollout_backends import LocalRollout, RolloutRound
from fctncalling.training.run_config import RunConfig
from fctncalling.training.task_setup import TaskSetup, make_task_setup

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/gateway/environment_agent.py"
AGENT = f"{shlex.quote(sys.executable)} {shlex.quote(str(EXAMPLE))} --reward success"
CONFIG = TrainConfig(
    reward="success",
    n_rollout_threads=4,
    max_new_tokens=32,
    max_episode_tokens=512,
    eval_episodes=4,
)
NUM_TASKS = 9

# An agent that is told what to do by the task's id, in a line of Python each.
SCRIPT = """
import json, os, sys, time, urllib.request

def complete(told, messages=None):
    body = {{"messages": messages or [{{"role": "user", "content": "hello"}}], "temperature": 0.5}}
    headers = {{"Authorization": "Bearer " + told["api_key"]}}
    request = urllib.request.Request(told["base_url"] + "/chat/completions",
                                     json.dumps(body).encode(), headers)
    return json.load(urllib.request.urlopen(request))

def say(told, **outcome):
    print(json.dumps({{"session": told["session"], **outcome}}), flush=True)

def act(told):
    number = {{each["id"]: at for at, each in enumerate(tasks)}}.get(told["task"]["id"])
{body}

tasks = json.loads({tasks!r})
if "FCTNCALLING_TASK" in os.environ:
    act({{"session": os.environ["FCTNCALLING_SESSION"], "api_key": os.environ["OPENAI_API_KEY"],
          "base_url": os.environ["OPENAI_BASE_URL"],
          "task": json.loads(os.environ["FCTNCALLING_TASK"])}})
else:
    for line in sys.stdin:
        act(json.loads(line))
"""


@cache
def task_setup() -> TaskSetup:
    return make_task_setup(CONFIG, RunConfig())


def task_ids() -> tuple[str, ...]:
    return tuple(candidate.id for candidate in task_setup().candidates[:NUM_TASKS])


def scripted(folder: Path, body: str) -> str:
    """Return the command of an agent that does this; `number` tells its tasks apart."""
    file = folder / "agent.py"
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    tasks = json.dumps([{"id": task} for task in task_ids()])
    file.write_text(SCRIPT.format(body=lines, tasks=tasks))
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(file))}"


def source_of(command: str, **changes: Any) -> AgentEpisodeSource:
    run_config = RunConfig(agent_command=command, **changes)
    return AgentEpisodeSource(CONFIG, run_config, task_setup(), embedded_engine()[1])


def round_of(count: int = NUM_TASKS, **changes: Any) -> RolloutRound:
    fields: dict[str, Any] = {"seed": 3, "temperature": 1.0, "version": 0, **changes}
    return RolloutRound(task_ids()[:count], **fields)


def played(command: str, count: int = NUM_TASKS, **changes: Any) -> list[EpisodeRecord]:
    source = source_of(command, **changes)
    try:
        return source.collect(embedded_engine()[0], round_of(count), range(count))
    finally:
        source.close()


def reasons(records: list[EpisodeRecord]) -> list[str]:
    return [record.invalid_reason for record in records]


def test_an_agent_outside_gives_the_gradient_of_the_environment() -> None:
    template = embedded_engine()[1]
    policy = ActorCritic.load(embedded_path("model"))
    rollouts = [
        LocalRollout(CONFIG, policy, template, task_setup().make_env, source=source)
        for source in (None, source_of(AGENT))
    ]
    results = [rollout.play_share(round_of(), range(NUM_TASKS)) for rollout in rollouts]
    for rollout in rollouts:
        rollout.close()
    assert results[1].forward_tokens <= 1.05 * results[0].forward_tokens  # caches are kept
    direct, outside = (result.episodes for result in results)
    for one, other in zip(direct, outside, strict=True):
        assert [row.ids for row in one.rows] == [row.ids for row in other.rows]
        assert [row.acted for row in one.rows] == [row.acted for row in other.rows]
        assert [row.rewards for row in one.rows] == [row.rewards for row in other.rows]
        assert (one.success, one.env_seed) == (other.success, other.env_seed)
        assert [row.version for row in other.rows] == [0] * len(other.rows)
    assert len({record.success for record in direct}) == 2
    gradients = [gradient(policy, episodes) for episodes in (direct, outside)]
    assert gradients[0].abs().max() > 1e-3
    assert (gradients[0] - gradients[1]).abs().max() < 1e-5


def gradient(policy: ActorCritic, episodes: list[EpisodeRecord]) -> torch.Tensor:
    """Return the gradient of one optimiser step on all episodes."""
    policy = deepcopy(policy)
    config = TrainConfig(num_mini_batch=1, max_grad_norm=1e9)
    optimisers = make_optimisers(policy, config)
    found: list[torch.Tensor] = []
    assert optimisers.policy is not None
    optimisers.policy.step = lambda *_: found.extend(  # type: ignore[method-assign]
        parameter.grad.flatten()
        for parameter in policy.model.parameters()
        if parameter.grad is not None
    )
    update(policy, optimisers, episodes, config, torch.Generator().manual_seed(0))
    return torch.cat(found)


def test_a_process_an_episode_plays_too(tmp_path: Path) -> None:
    body = "complete(told)\ntime.sleep(0.01)\nsay(told, reward=number)"
    records = played(scripted(tmp_path, body), agent_per_episode=True)
    assert [record.episode_return for record in records] == [float(each) for each in range(9)]
    assert not any(record.invalid for record in records)


def test_each_mishap_of_an_agent_is_an_invalid_episode_with_its_reason(tmp_path: Path) -> None:
    body = """print("talk that is no outcome")
if number == 1: return say(told, error="the shop was closed")
if number == 2: return say(told)
complete(told)
if number == 3: return say(told, reward="much")
if number == 4: told["api_key"] = "guess"; complete(told)
if number == 5: return say(told, reward=float("nan"))
say(told, reward=1.0, success=False)"""
    safe = body.replace('told["api_key"] = "guess"; complete(told)', 'return say({"session": "x"})')
    records = played(scripted(tmp_path, safe), agent_timeout_s=6)
    assert reasons(records) == [
        "",
        "the shop was closed",
        "the agent asked for no completion",
        "the agent told a reward of 'much', which is no number",
        "the agent was not done after 6 s",
        "reward: got nan, expected a number from -1e+09 to 1e+09",
        "",
        "",
        "",
    ]
    assert [record.success for record in records] == [False] * 9
    assert [record.episode_return for record in records][-1] == 1.0


def test_a_round_tells_where_the_agent_left_what_was_sampled(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered = AgentEpisodeSource._offered

    def late(self: AgentEpisodeSource, task_id: str, seed: int) -> tuple[dict[str, Any], str]:
        time.sleep(0.3 * (task_id == task_ids()[0]))  # so the first episode is the last to end
        return offered(self, task_id, seed)

    monkeypatch.setattr(AgentEpisodeSource, "_offered", late)
    body = """first = complete(told)
messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "I said so"}]
complete(told, messages=[*messages, {"role": "user", "content": "go on"}])
say(told, reward=1)"""
    records = played(scripted(tmp_path, body), 3)
    assert [len(record.rows) for record in records] == [2, 2, 2]
    text = caplog.text
    assert f"3 edited; such as task {task_ids()[0]}, request 1, message 1: action 0 was" in text
    assert text.count("agent: it asks for temperature, which has no effect") == 1


def test_an_agent_that_dies_is_started_again(tmp_path: Path) -> None:
    body = "complete(told)\nif number == 4: os._exit(3)\nsay(told, reward=1)"
    records = played(scripted(tmp_path, body))
    lost = [reason for reason in reasons(records) if reason]
    assert set(lost) == {"the agent ended with code 3"}
    assert 1 <= len(lost) <= CONFIG.n_rollout_threads
    assert records[4].invalid


def test_an_agent_that_always_dies_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(RolloutError, match="code 7"):
        played(scripted(tmp_path, "os._exit(7)"))


def test_no_agent_is_started_once_the_run_is_over(tmp_path: Path) -> None:
    agent = LastingAgent(scripted(tmp_path, "say(told, reward=1)"))
    offer = EpisodeOffer("one", "", "", {"id": task_ids()[0]})
    assert agent.play(offer, lambda: None, 20.0).reward == 1
    agent.close()
    with pytest.raises(RolloutError, match="has ended"):
        agent.play(offer, lambda: None, 20.0)


def test_an_agent_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    body = """import subprocess
if number == 2: complete(told); subprocess.run(["sleep", "60"])
complete(told)
say(told, reward=1)"""
    started = time.monotonic()
    records = played(scripted(tmp_path, body), 5, agent_per_episode=True, agent_timeout_s=8)
    assert reasons(records)[2] == "the agent was not done after 8 s"
    assert sum(record.invalid for record in records) == 1
    assert time.monotonic() - started < 50  # the child would sleep for 60


def test_a_task_without_a_reward_is_judged_by_its_conversation(tmp_path: Path) -> None:
    body = "complete(told)\nsay(told)"
    records = played(scripted(tmp_path, body))
    assert {record.episode_return for record in records} <= {0.0, 1.0}
    assert not any(record.invalid for record in records)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("talk", None),
        ("[1]", None),
        ('{"reward": 1}', None),
        ("[" * 10**5, None),
        ('{"session": "a", "reward": 1, "success": "yes"}', ("a", 1, None, "")),
        ('{"session": "a", "error": "lost"}', ("a", None, None, "lost")),
    ],
)
def test_lines_of_an_agent_are_outcomes_or_talk(line: str, expected: Any) -> None:
    said = read_outcome(line)
    assert expected == (None if said is None else (said[0], *said[1]))


def test_a_round_has_the_version_of_its_weights(tmp_path: Path) -> None:
    source = source_of(scripted(tmp_path, "complete(told)\nsay(told, reward=1)"))
    versions = []
    keep = source.gateway.end
    source.gateway.end = lambda session, reason="": (  # type: ignore[method-assign]
        versions.extend(action.version for action in session.forest.actions),
        keep(session, reason),
    )[1]
    engine = embedded_engine()[0]
    for version in (4, 5):
        source.collect(engine, round_of(2, version=version), range(2))
    source.close()
    assert versions == [4, 4, 5, 5]


def test_a_vllm_server_samples_for_an_agent_too(tmp_path: Path) -> None:
    gymnasium.register("Echoed-v0", entry_point=lambda **_: EchoEnv())
    agent = scripted(
        tmp_path,
        'text = complete(told)["choices"][0]["message"]["content"]\n'
        "say(told, reward=len(text) % 2)",
    )
    model = save_tiny(tmp_path / "tiny")
    settings = {
        "env_name": "Echoed-v0",
        "model_name_or_path": model,
        "results_dir": tmp_path,
        "agent_command": agent,
        "rollout_engine": "vllm",
        "lora_r": 4,
        "num_updates": 2,
        "episodes_per_update": 8,
        "eval_episodes": 2,
        "eval_interval": 0,
        "max_new_tokens": 4,
        "max_episode_tokens": 300,
        "device": "cpu",
        "tensorboard": "false",
    }
    with vllm_stub(model) as stub:
        flags = [f"--{name}={value}" for name, value in settings.items()]
        assert train([*flags, f"--vllm_url={stub.url}"]) == 0
    del gymnasium.registry["Echoed-v0"]
    lines = (tmp_path / "check/tiny/Echoed-v0/TPPO/metrics.jsonl").read_text().splitlines()
    updates = [line for line in map(json.loads, lines) if "losses/policy_loss" in line]
    assert len(updates) == 2
    assert all(line["mismatch/mean_logdiff"] < 1e-5 for line in updates)
    assert all(line["env/invalid"] == 0 for line in updates)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--agent_command", "no-such-command"], "no-such-command: it cannot be started"),
        (["--agent_command", "'open"], "No closing quotation"),
        (["--agent_per_episode"], "expected --agent_command beside it"),
        (["--agent_command", "x", "--num_rollout_workers", "1"], "leave these out"),
    ],
)
def test_a_mistake_costs_one_line(
    arguments: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train([*arguments, "--results_dir", str(tmp_path)]) == 2
    error = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert told in error[-1]


def test_a_setting_is_wrong_before_anything_is_started() -> None:
    with pytest.raises(SettingError, match="expected a command"):
        source_of(" ")


@pytest.mark.parametrize(
    "chatter", ['print("waiting", flush=True); time.sleep(0.2)', 'print("x" * 65536, end="")']
)
def test_an_agent_that_only_chatters_is_given_up(
    chatter: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(RolloutError, match="every one of 2 episodes failed"):
        played(scripted(tmp_path, f"while True:\n    {chatter}"), 2, agent_timeout_s=2)
    assert "the agent was not done after 2 s" in caplog.text
    assert len(capfd.readouterr().err) < (1 << 20) + 500
