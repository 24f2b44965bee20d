"""Roles in training: whose tokens are learned from, and what each action is credited with."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import pytest
import torch
from planted_runs import write_run
from torch import nn
from transformers import AutoTokenizer

from fctncalling.algorithms.batch import build_experience
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.distributed.process_group import SINGLE_PROCESS
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.generation.engine_api import ScriptedEngine
from fctncalling.algorithms.minibatches import Passes, bootstrap_values
from fctncalling.algorithms.policy.actor_critic import Batch, TokenOutputs
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.ppo import ALGORITHMS, accumulate_gradients
from fctncalling.algorithms.rollout.collect import collect
from fctncalling.algorithms.rollout.roles import split_by_role
from fctncalling.algorithms.targets import compute_targets
from fctncalling.data.bfcl import embedded_path
from fctncalling.data.types import Episode
from fctncalling.lab.viewer import load_run, page_data

# who acts, what it says, what the step pays the team, what it pays each
SCRIPT = [
    ("planner", "say 1 + 2", 1.0, {"planner": 0.5, "caller": 0.0}),
    ("caller", "3", 2.0, {"planner": 0.0, "caller": 2.0}),
    ("caller", "3 again", 4.0, {"planner": 1.0, "caller": 0.25}),
    ("planner", "then 5", 8.0, {"planner": 4.0, "caller": 0.0}),
    ("caller", "8", 16.0, {"planner": 8.0, "caller": 16.0}),
]
SHARED = {"planner": [7.0, 24.0], "caller": [2.0, 12.0, 16.0]}  # rewards until the next action
OWN = {"planner": [1.5, 12.0], "caller": [2.0, 0.25, 16.0]}


class ScriptedTalk(gymnasium.Env[str, str]):
    """Plays SCRIPT: each role hears what the other said since it last spoke."""

    def __init__(self, *, own: bool) -> None:
        self.own = own

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        self.step_number = 0
        self.unread: dict[str, list[str]] = {"planner": ["begin"], "caller": ["begin"]}
        return self._shown()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        role, _, reward, own = SCRIPT[self.step_number]
        self.unread["caller" if role == "planner" else "planner"].append(action)
        self.step_number += 1
        ended = self.step_number == len(SCRIPT)
        observation, info = ("", {"role": role}) if ended else self._shown()
        return observation, reward, ended, False, info | ({"rewards": own} if self.own else {})

    def _shown(self) -> tuple[str, dict[str, Any]]:
        role = SCRIPT[self.step_number][0]
        heard, self.unread[role] = self.unread[role] or ["go on"], []
        messages = [{"role": "user", "content": text} for text in heard]
        return "", {"role": role, "messages": messages, "number": self.step_number}


@pytest.fixture(scope="module")
def template() -> ChatTemplate:
    return ChatTemplate(AutoTokenizer.from_pretrained(str(embedded_path("calculator"))))


def played(template: ChatTemplate, *, own: bool = False) -> EpisodeRecord:
    script = ScriptedEngine(
        lambda _id, _turn, _step, info: SCRIPT[info["number"]][1],
        template.encode,
        template.end_of_turn_id,
    )
    envs: list[Any] = [ScriptedTalk(own=own)]
    return collect(envs, script, template, ["talk"], max_episode_tokens=400)[0]


def test_each_role_has_a_row_in_which_only_its_own_words_are_acted(template: ChatTemplate) -> None:
    episode = played(template)
    assert episode.roles == [role for role, *_ in SCRIPT]
    assert [row.role for row in episode.rows] == ["planner", "caller"]
    for row in episode.rows:
        spoken = template.decode([i for i, acted in zip(row.ids, row.acted, strict=True) if acted])
        own = [text for role, text, *_ in SCRIPT if role == row.role]
        assert spoken.split("<|end|>") == own
        for text in (text for role, text, *_ in SCRIPT[:-1] if role != row.role):
            assert text in template.decode(row.ids)  # heard, as context
        copy = pickle.loads(pickle.dumps(row))
        assert (copy.role, copy.ids, copy.rewards) == (row.role, row.ids, row.rewards)
    assert episode.episode_return == 31.0


@pytest.mark.parametrize("own", [False, True])
def test_an_action_earns_what_comes_until_its_roles_next_one(
    template: ChatTemplate, own: bool
) -> None:
    for part in split_by_role([played(template, own=own)]):
        (row,) = part.rows
        paid = [r for r, ends in zip(row.rewards, row.ends_action, strict=True) if ends]
        assert paid == (OWN if own else SHARED)[part.role]
        assert part.num_steps == len(paid)
        assert part.group_key == ("talk", part.env_seed, part.role)


class TablePolicy(nn.Module):
    """A policy with a parameter for the log-probability at every position of every row, whoever
    wrote it; values are 0.
    """

    def __init__(self, rows: list[list[int]]) -> None:
        super().__init__()
        self.rows = {tuple(row): number for number, row in enumerate(rows)}
        self.table = nn.Parameter(torch.full((len(rows), max(map(len, rows))), -1.0))

    def forward(self, batch: Batch, **_: Any) -> TokenOutputs:
        numbers, ids = [], batch.ids
        for row, length in zip(ids.tolist(), batch.attention_mask.sum(1).tolist(), strict=True):
            found = [n for whole, n in self.rows.items() if whole[:length] == tuple(row[:length])]
            numbers.append(found[0])
        logprobs = self.table[torch.tensor(numbers)][:, : ids.shape[1]][batch.acted]
        zeros = torch.zeros_like(logprobs)
        return TokenOutputs(logprobs, zeros, zeros, zeros[:, None])


@pytest.mark.parametrize("frozen", [(), ("caller",), ("planner",)])
def test_the_gradient_is_the_closed_form_on_own_tokens_and_exactly_0_elsewhere(
    template: ChatTemplate, frozen: tuple[str, ...]
) -> None:
    episode = played(template)
    config = TrainConfig(
        gamma=0.5,
        lam=1.0,
        whiten_advantages=False,
        entropy_coef=0.0,
        num_mini_batch=1,
        share_prefixes=False,
        episodes_per_update=2,
    )
    generator, algorithm = torch.Generator().manual_seed(0), ALGORITHMS["TPPO"]
    policy: Any = TablePolicy([row.ids for row in episode.rows])
    experience = build_experience(split_by_role([episode], frozen), torch.device("cpu"))
    passes = Passes(experience, config)
    minibatches = passes.minibatches(generator)
    parts = (policy, passes, minibatches, algorithm, config, generator)
    targets = compute_targets(*parts)
    accumulate_gradients(policy, passes, targets, minibatches[0], algorithm, config)
    learning = [row for row in episode.rows if row.role not in frozen]
    num_tokens = sum(row.num_acted for row in learning)
    for number, row in enumerate(episode.rows):
        rewards, expected, action = SHARED[row.role], torch.zeros(policy.table.shape[1]), 0
        for at, (acted, ends) in enumerate(zip(row.acted, row.ends_action, strict=True)):
            if acted and row.role not in frozen:  # BAD: time passes between a role's own actions
                later = enumerate(rewards[action:])
                expected[at] = -sum(0.5**n * reward for n, reward in later) / num_tokens
            action += ends
        torch.testing.assert_close(policy.table.grad[number], expected)
        assert bool(expected.any()) is (row.role not in frozen)
        assert torch.equal(policy.table.grad[number] == 0, expected == 0)


@pytest.mark.parametrize("num_steps", [3, 4])
def test_a_cut_episode_goes_on_from_values_that_are_learned(
    template: ChatTemplate, num_steps: int
) -> None:
    """Values are read before acted tokens, in what was read for the next action or in the action;
    behind the last action of a role that is not to act next there is no such place.
    """
    script = ScriptedEngine(
        lambda _id, _turn, _step, info: SCRIPT[info["number"]][1],
        template.encode,
        template.end_of_turn_id,
    )
    env: Any = gymnasium.wrappers.TimeLimit(ScriptedTalk(own=False), num_steps)
    (episode,) = collect([env], script, template, ["talk"], max_episode_tokens=400)
    assert episode.truncated
    config = TrainConfig(gamma=0.5, share_prefixes=False)
    experience = build_experience(split_by_role([episode]), torch.device("cpu"))
    policy: Any = SimpleNamespace(values_at=lambda batch, columns: columns.float())
    passes = Passes(experience, config)
    found = bootstrap_values(policy, passes, ALGORITHMS["TPPO"], SINGLE_PROCESS)
    acting = SCRIPT[num_steps][0]
    for part, bootstrap in zip(experience.episodes, found.tolist(), strict=True):
        (row,) = part.rows
        assert row.acted[-1] is (part.role != acting)
        last = len(row.ids) - 1
        if part.role == acting:
            assert bootstrap == last
        else:  # as if it were cut before its last token
            assert row.rewards[-1] + 0.5 * bootstrap == last - 1


@pytest.mark.parametrize(("own", "cut"), [(False, False), (True, False), (False, True)])
def test_the_viewers_checks_know_roles(
    own: bool, cut: bool, template: ChatTemplate, tmp_path: Path
) -> None:
    episode = played(template, own=own)
    episode.terminated, episode.truncated = not cut, cut
    assert isinstance(episode.episode, Episode)
    episode.episode = dataclasses.replace(episode.episode, terminated=not cut, truncated=cut)
    roles = split_by_role([episode])
    config = TrainConfig(num_mini_batch=1, target_kl=None, gamma=0.9, lam=0.8)
    run = write_run(tmp_path / "run", template, [episode], roles, config)
    data = page_data(load_run(run), lambda _: (None, {}))
    found = {each["check"] for each in data["checks"] if each["findings"]}
    assert found <= {"mismatch"}  # its log-probabilities as sampled are made up
    lanes = data["episodes"][0]["lanes"]
    assert lanes["steps"] == [0, 3, 1, 2, 4]  # the planner's rows, then the caller's
    paid = {role: (OWN if own else SHARED)[role] for role in ("planner", "caller")}
    assert [each for each in lanes["numbers"]["rewards"] if each] == [
        *paid["planner"],
        *paid["caller"],
    ]
    assert [each["bootstrap"] == 0 for each in lanes["parts"]] == [not cut, not cut]
    assert len({each["bootstrap"] for each in lanes["parts"]}) == 1 + cut
    steps = data["episodes"][0]["steps"]
    assert [step["role"] for step in steps] == [role for role, *_ in SCRIPT]
