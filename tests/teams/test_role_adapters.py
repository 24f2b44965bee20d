"""Roles with weights of their own: an adapter each, a value head each."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import pytest
import torch
from test_role_credit import SCRIPT, ScriptedTalk
from token_worlds import CPU, settings, some_episodes, tiny_policy
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer

from fctncalling.algorithms.batch import build_experience
from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.generation.engine import GenerationEngine
from fctncalling.algorithms.generation.role_engine import AdapterEngine, RoleEngine
from fctncalling.algorithms.minibatches import Passes, make_batch
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.policy.lora import role_adapter_name
from fctncalling.algorithms.ppo import ALGORITHMS, accumulate_gradients, make_optimisers, update
from fctncalling.algorithms.rollout.collect import collect
from fctncalling.algorithms.rollout.roles import split_by_role
from fctncalling.algorithms.targets import compute_targets
from fctncalling.data.bfcl import embedded_path

ROLES = ("a", "ab")  # a name that begins with the other
OWN = {"lora_r": 2, "role_adapters": True, "team_critic": "per_role"}


def role_episodes() -> list[EpisodeRecord]:
    """Return episodes of both roles in turn, the last of each cut short."""
    episodes = some_episodes(tiny_policy(), 8)
    for number, episode in enumerate(episodes):
        episode.role = ROLES[number % 2]
        episode.terminated = number < 6
    return episodes


def team_policy(roles: tuple[str, ...] = ROLES, **changes: Any) -> ActorCritic:
    """Return a policy whose roles differ: in their adapters and in their values."""
    policy = tiny_policy(critic_head="linear", critic_roles=roles, **changes).eval()
    policy.add_lora(r=2, alpha=4.0, roles=roles)
    torch.manual_seed(1)
    for name, weight in policy.named_parameters():
        if "lora_" in name or "value_head" in name:
            nn.init.normal_(weight, std=0.3)
    return policy


def alone(policy: ActorCritic, role: str) -> ActorCritic:
    """Return a policy without roles that has this role's adapter and value head."""
    single = tiny_policy(critic_head="linear").eval()
    single.add_lora(r=2, alpha=4.0)
    assert policy.adapters is not None
    assert single.adapters is not None
    own = policy.adapters.parameters(role_adapter_name(role))
    with torch.no_grad():
        for weight, wanted in zip(single.adapters.actor_parameters(), own, strict=True):
            weight.copy_(wanted)
    single.value_head.load_state_dict(policy.value_head.head_of_role(role).state_dict())
    return single


def weights_of(policy: ActorCritic, role: str) -> list[nn.Parameter]:
    assert policy.adapters is not None
    head = policy.value_head.head_of_role(role)
    return [*policy.adapters.parameters(role_adapter_name(role)), *head.parameters()]


def accumulated(
    policy: ActorCritic, passes: Passes, config: TrainConfig, rows: set[int] | None = None
) -> None:
    """Leave the gradient of one step over the rows (None: all) in the policy."""
    algorithm, generator = ALGORITHMS["TPPO"], torch.Generator().manual_seed(0)
    plan = passes.minibatches(generator)
    targets = compute_targets(policy, passes, plan, algorithm, config, generator)
    shift = 0.3 * torch.sin(torch.arange(len(targets.old_logprobs)))  # ratios other than 1
    # one divisor and one scale for both roles together and for each alone
    targets = targets._replace(
        old_logprobs=targets.old_logprobs + shift, loss_weights=torch.ones_like(shift)
    )
    kept = [[r for r in group if rows is None or r in rows] for group in plan[0]]
    minibatch = [group for group in kept if group]
    accumulate_gradients(policy, passes, targets, minibatch, algorithm, config)


@pytest.mark.parametrize("sharing", [False, True], ids=["padded rows", "shared prefixes"])
@pytest.mark.parametrize("checkpointing", [False, True], ids=["", "layers computed again"])
def test_a_roles_gradient_is_that_of_a_policy_alone_and_exactly_0_from_the_others_rows(
    sharing: bool, checkpointing: bool
) -> None:
    policy = team_policy()
    config = settings(whiten_advantages=False, gradient_checkpointing=checkpointing, **OWN)
    experience = build_experience(role_episodes(), CPU)
    passes = Passes(experience, config)
    if sharing:
        assert not isinstance(policy.prefix_sharing, str)
        passes = passes._replace(sharing=policy.prefix_sharing)
    accumulated(policy, passes, config)
    whole = {role: [w.grad for w in weights_of(policy, role)] for role in ROLES}
    for role, other in (ROLES, ROLES[::-1]):
        episodes = experience.episode_of_row.tolist()
        rows = {n for n, e in enumerate(episodes) if experience.episodes[e].role == role}
        accumulated(policy, passes, config, rows)
        assert all(weight.grad is None for weight in weights_of(policy, other))
        single = alone(policy, role)
        accumulated(single, Passes(experience, settings()), config, rows)
        assert single.adapters is not None
        wanted = [*single.adapters.actor_parameters(), *single.value_head.parameters()]
        for got, expected in zip(whole[role], wanted, strict=True):
            assert got is not None
            assert expected.grad is not None
            assert expected.grad.abs().max() > 1e-6
            torch.testing.assert_close(got, expected.grad, rtol=1e-3, atol=1e-6)


def test_a_role_without_rows_stays_byte_for_byte_whatever_the_other_learns() -> None:
    policy, config = team_policy(), settings(lr=0.1, critic_lr=0.1, weight_decay=0.1, **OWN)
    before = copy.deepcopy(policy)
    own = [episode for episode in role_episodes() if episode.role == "ab"]
    optimisers = make_optimisers(policy, config)
    update(policy, optimisers, own, config, torch.Generator().manual_seed(0))
    for role, moves in (("a", False), ("ab", True)):
        pairs = zip(weights_of(before, role), weights_of(policy, role), strict=True)
        assert all(torch.equal(old, new) is not moves for old, new in pairs)
    trained = {id(p) for group in optimisers.policy.param_groups for p in group["params"]}  # type: ignore[union-attr]
    assert policy.adapters is not None
    assert trained == {id(weight) for weight in policy.adapters.actor_parameters()}
    assert len(trained) == 2 * 2 * 7 * 2  # roles, factors, linear layers, blocks


def test_an_unknown_role_is_refused_by_name() -> None:
    policy, (row, *_) = team_policy(), role_episodes()[0].rows
    batch = make_batch([row])
    with pytest.raises(SettingError, match=r"--role_adapters.* is .c., expected one of its"):
        policy(batch._replace(role="c"))
    without = tiny_policy(critic_head="linear", critic_roles=ROLES)
    with pytest.raises(SettingError, match=r"--team_critic per_role.* is .c."):
        without(batch._replace(role="c"))


def test_a_head_for_all_becomes_each_roles_and_heads_of_a_team_no_others(tmp_path: Any) -> None:
    single = alone(team_policy(), "a")
    single.save(tmp_path)
    policy = team_policy()
    policy.load_critic(tmp_path)
    for role in ROLES:
        assert torch.equal(
            policy.value_head.head_of_role(role).out.weight, single.value_head.out.weight
        )
    policy.save(tmp_path)
    for other in (alone(policy, "a"), team_policy(("a", "b"))):
        with pytest.raises(ValueError, match="value heads of other roles"):
            other.load_critic(tmp_path)


def talks(engine: Any, template: ChatTemplate) -> list[EpisodeRecord]:
    envs: list[Any] = [ScriptedTalk(own=False) for _ in range(2)]
    return collect(envs, engine, template, ["talk"] * 2, max_episode_tokens=400, seed=3)


def test_each_role_speaks_with_its_adapter_and_an_untrained_one_says_what_the_base_does() -> None:
    folder, roles = str(embedded_path("calculator")), ("planner", "caller")
    template = ChatTemplate(AutoTokenizer.from_pretrained(folder))
    policy = ActorCritic(AutoModelForCausalLM.from_pretrained(folder), critic_head="linear").eval()

    def engine() -> GenerationEngine:
        return GenerationEngine(
            policy.model, template.stop_ids, max_new_tokens=5, decode=template.decode
        )

    base = talks(engine(), template)
    policy.add_lora(r=2, alpha=4.0, roles=roles)
    adapters = policy.adapters
    assert adapters is not None
    names = {role: role_adapter_name(role) for role in roles}
    samplers = {role: AdapterEngine(engine(), partial(adapters.use, names[role])) for role in roles}
    fresh = talks(RoleEngine(samplers), template)
    assert [[row.ids for row in each.rows] for each in fresh] == [
        [row.ids for row in each.rows] for each in base
    ]
    for role in roles:  # untrained, they add nothing
        for weight in adapters.parameters(names[role]):
            nn.init.normal_(weight, std=0.05)
    rows = [
        row for part in split_by_role(talks(RoleEngine(samplers), template)) for row in part.rows
    ]
    assert {row.role for row in rows} == set(roles)
    for row in rows:
        sampled = torch.tensor(row.rollout_logprobs)[torch.tensor(row.acted)]
        assert sampled.shape >= (5 * 2,)
        for role in roles:
            with torch.no_grad():
                read: Tensor = policy(make_batch([row], trim=True)._replace(role=role)).logprobs
            assert torch.allclose(read, sampled, atol=1e-4) is (role == row.role)
    assert len(SCRIPT) == sum(len(x.roles) for x in base) / len(base)
