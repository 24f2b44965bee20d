"""The central critic reads all that the team knew, read and said before a token, nothing later."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from test_role_credit import played
from token_worlds import CPU
from torch import Tensor, nn
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from fctncalling.algorithms.batch import build_experience
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.distributed.process_group import SINGLE_PROCESS
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.minibatches import Passes, bootstrap_values, make_passes
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.ppo import ALGORITHMS
from fctncalling.algorithms.rollout.roles import add_critic_rows, split_by_role
from fctncalling.data.bfcl import embedded_path
from fctncalling.envs.team import TeamEnv

STATE = "1 + 2"
CONFIG = TrainConfig(team_critic="central", critic="full", num_mini_batch=1)


@pytest.fixture(scope="module")
def template() -> ChatTemplate:
    return ChatTemplate(AutoTokenizer.from_pretrained(str(embedded_path("calculator"))))


def joined(template: ChatTemplate, **changes: Any) -> EpisodeRecord:
    episode = played(template)
    episode.state = STATE
    for name, value in changes.items():
        setattr(episode, name, value)
    add_critic_rows([episode], CONFIG, template)
    return episode


def passes_of(episode: EpisodeRecord, policy: ActorCritic) -> Passes:
    return make_passes(build_experience(split_by_role([episode]), CPU), policy, CONFIG)


def policy_of(template: ChatTemplate) -> ActorCritic:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(template.tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        initializer_range=0.2,
    )
    policy = ActorCritic(LlamaForCausalLM(config), critic_head="linear").eval()
    policy.add_critic_model()
    nn.init.normal_(policy.value_head.out.weight)
    return policy


def values_of(policy: ActorCritic, passes: Passes) -> Tensor:
    (minibatch,) = passes.minibatches(torch.Generator())
    values = torch.zeros(len(passes.experience.tokens.rewards))
    for rows in minibatch:
        batch, indices = passes.batch(rows)
        values[indices] = policy(batch).values.detach()
    return values


def test_a_joint_row_is_the_state_and_then_each_step_in_order_of_time(
    template: ChatTemplate,
) -> None:
    episode = joined(template)
    planner, caller = episode.rows
    wanted, read = template.encode(STATE), {"planner": 0, "caller": 0}
    for role in episode.roles:  # what a role read since it last acted, and what it said
        row = planner if role == "planner" else caller
        end = row.ends_action.index(True, read[role]) + 1
        wanted += row.ids[read[role] : end]
        read[role] = end
    for row in (planner, caller):
        assert row.joint is not None
        assert row.joint.ids.tolist() == wanted
        own = [i for i, acted in zip(row.ids, row.acted, strict=True) if acted]
        assert row.joint.ids[row.joint.acted].tolist() == own
    assert planner.joint is not None
    assert caller.joint is not None
    assert not (planner.joint.acted & caller.joint.acted).any()


def test_values_are_those_of_the_critics_model_on_the_joint_row(
    template: ChatTemplate,
) -> None:
    episode, policy = joined(template), policy_of(template)
    passes = passes_of(episode, policy)
    values, starts = values_of(policy, passes), passes.experience.starts
    for number, row in enumerate(episode.rows):
        assert row.joint is not None
        assert policy.critic_model is not None
        ids = torch.from_numpy(row.joint.ids).long()[None]
        with torch.no_grad():
            hidden = policy.critic_model(input_ids=ids).last_hidden_state[0]
            wanted = policy.value_head(hidden)[:-1][torch.from_numpy(row.joint.acted)[1:]]
        own = values[int(starts[number]) : int(starts[number + 1])]
        torch.testing.assert_close(own, wanted, rtol=1e-4, atol=1e-5)


def test_a_value_sees_what_the_other_read_before_it_and_nothing_that_comes_later(
    template: ChatTemplate,
) -> None:
    policy = policy_of(template)
    before = values_of(policy, passes_of(joined(template), policy))
    logprobs = policy(passes_of(joined(template), policy).batch([0])[0]).logprobs
    for changed in (0, 1):  # another word in a row, before and after its actions
        episode = played(template)
        episode.state = STATE
        row, other = episode.rows[changed], episode.rows[1 - changed]
        second = row.ends_action.index(True) + 1  # what is read and said after the first action
        for at in range(second, len(row.ids)):
            if not row.acted[at]:
                row.ids[at] = (row.ids[at] + 1) % 50
                break
        add_critic_rows([episode], CONFIG, template)
        passes = passes_of(episode, policy)
        after = values_of(policy, passes)
        start, end = (int(passes.experience.starts[1 - changed + n]) for n in (0, 1))
        differs = (before[start:end] - after[start:end]).abs() > 1e-6
        assert other.joint is not None
        assert row.joint is not None
        place = int((row.joint.ids != joined(template).rows[0].joint.ids).nonzero()[0][0])  # type: ignore[union-attr]
        later = torch.from_numpy(other.joint.acted.nonzero()[0]) > place
        assert torch.equal(differs, later)
        assert later.any()
        assert not later.all()
    assert torch.equal(policy(passes.batch([0])[0]).logprobs, logprobs)  # the actor's rows


def test_the_state_is_read_and_the_bootstrap_is_the_value_after_the_whole_conversation(
    template: ChatTemplate,
) -> None:
    policy = policy_of(template)
    episode = joined(template, terminated=False)
    passes = passes_of(episode, policy)
    got = bootstrap_values(policy, passes, ALGORITHMS["TPPO"], SINGLE_PROCESS)
    assert episode.rows[0].joint is not None
    assert policy.critic_model is not None
    ids = torch.from_numpy(episode.rows[0].joint.ids).long()[None]
    with torch.no_grad():
        wanted = policy.value_head(policy.critic_model(input_ids=ids).last_hidden_state[0, -1])
    torch.testing.assert_close(got, wanted.expand(2), rtol=1e-4, atol=1e-5)
    other = copy.deepcopy(episode)
    other.state = "3 + 4"
    add_critic_rows([other], CONFIG, template)
    changed = values_of(policy, passes_of(other, policy))
    assert (changed != values_of(policy, passes)).all()


def test_a_teams_state_is_what_every_role_is_told() -> None:
    env = TeamEnv(team="parcels")
    _, info = env.reset(seed=0)
    task = next(task for task in env.tasks if task.id == info["task_id"])
    for piece in task.extra["knowledge"].values():
        assert piece in info["state"]
    for role in env.roles:
        assert f"{role}: " in info["state"]
    assert not any("state" in env.step("words")[4] for _ in range(2))
