"""No signal, no movement: groups that face the same task, outcomes that differ, and what is left
where they do not.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny_models import SeededEnv, tiny_model, tiny_tokenizer
from token_worlds import (
    Microwave,
    Tokens,
    episode,
    play,
    policy_with_values,
    settings,
    targets_of,
    tiny_policy,
    trajectories,
)

from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.generation.engine import GenerationEngine
from fctncalling.algorithms.learning_signal import (
    groups_with_signal,
    no_signal_warning,
    pooled_return_std,
    whiten_by_spread,
)
from fctncalling.algorithms.losses import LossTerms
from fctncalling.algorithms.metrics import Metrics
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.ppo import accumulate_gradients, make_optimisers, update
from fctncalling.algorithms.rollout.collect import collect

torch.set_num_threads(1)


class Unrewarded(Microwave):
    """Pays nothing for anything."""

    def step(self, action: Tokens) -> tuple[Tokens, float, bool, bool, dict[str, Any]]:
        observation, _, terminated, truncated, info = super().step(action)
        return observation, 0.0, terminated, truncated, info


def grpo(**changes: Any) -> Any:
    return settings(
        **{"algorithm_name": "GRPO", "group_size": 4, "episodes_per_update": 8} | changes
    )


def outcomes(*episodes: list[float], task: str = "task") -> list[EpisodeRecord]:
    """Return terminated episodes of one task, each with these rewards, an action each."""
    records = [episode([(1, reward) for reward in each], terminated=True) for each in episodes]
    for record, rewards in zip(records, episodes, strict=True):
        record.task_id, record.episode_return = task, sum(rewards)
    return records


def learned(
    policy: ActorCritic, updates: int, make_world: type[Microwave], **changes: Any
) -> list[Metrics]:
    config = settings(
        num_mini_batch=2, entropy_coef=0.01, lr=1e-2, episodes_per_update=8, **changes
    )
    optimisers, generator = make_optimisers(policy, config), torch.Generator().manual_seed(0)
    told = []
    for _ in range(updates):
        episodes = play(policy, make_world, 8, generator)
        for index, record in enumerate(episodes):
            record.task_id = f"world_{index // 4}"
        told.append(update(policy, optimisers, episodes, config, generator))
    return told


def language_weights(policy: ActorCritic) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in policy.policy_parameters()]


def test_a_group_faces_one_environment_seed_and_samples_apart() -> None:
    template = ChatTemplate(tiny_tokenizer())
    engine = GenerationEngine(tiny_model(), template.stop_ids, max_new_tokens=8)
    envs: list[Any] = [SeededEnv() for _ in range(3)]

    def played(numbers: list[int]) -> list[EpisodeRecord]:
        tasks = [f"train_{number // 4}" for number in numbers]
        return collect(
            envs, engine, template, tasks, max_episode_tokens=500, numbers=numbers, group_size=4
        )

    records = played(list(range(16)))
    prompts = [
        template.tokenizer.decode(r.rows[0].ids[: r.rows[0].acted.index(True)]) for r in records
    ]
    groups = [prompts[start : start + 4] for start in range(0, 16, 4)]
    assert all(len(set(group)) == 1 for group in groups)
    assert len({group[0] for group in groups}) > 1
    assert len({tuple(record.rows[0].ids) for record in records}) == 16  # what is said differs
    assert [r.rows[0].ids for r in played([1, 3, 5])] == [records[n].rows[0].ids for n in (1, 3, 5)]
    assert [r.env_seed for r in records] == [r.episode.seed for r in records]  # type: ignore[attr-defined]


def test_episodes_of_other_environment_seeds_are_not_compared() -> None:
    one, other = outcomes([1.0], [0.0])
    one.env_seed, other.env_seed = 1, 2
    assert not targets_of(policy_with_values(), [one, other], grpo()).advantages.any()
    assert groups_with_signal([one, other], grpo()) == []
    other.env_seed = 1
    assert targets_of(policy_with_values(), [one, other], grpo()).advantages.all()
    assert groups_with_signal([one, other], grpo()) == [one, other]


@pytest.mark.parametrize("name", ["TPPO", pytest.param("APPO", marks=pytest.mark.prove), "GRPO"])
def test_twenty_updates_without_reward_leave_the_policy_as_it_was(name: str) -> None:
    policy = policy_with_values()
    before, critic = language_weights(policy), policy.value_head.out.weight.detach().clone()
    metrics = learned(policy, 20, Unrewarded, algorithm_name=name)
    assert all(map(torch.equal, before, language_weights(policy)))
    assert torch.equal(critic, policy.value_head.out.weight) == (name == "GRPO")
    assert [each["update/policy_skipped"] for each in metrics] == [1.0] * 20
    entropies = [each["losses/entropy"] for each in metrics]
    assert max(entropies) - min(entropies) < 0.1  # of other episodes, sampled with the same weights


def test_a_policy_moves_again_where_outcomes_differ() -> None:
    policy, config = tiny_policy(), settings()
    before = language_weights(policy)
    episodes, generator = outcomes([1.0], [0.0]), torch.Generator().manual_seed(0)
    metrics = update(policy, make_optimisers(policy, config), episodes, config, generator)
    assert metrics["update/policy_skipped"] == 0.0
    assert not any(map(torch.equal, before, language_weights(policy)))


def test_successes_that_differ_in_length_alone_are_not_compared_by_grpo_unless_asked_to() -> None:
    episodes = outcomes(*[[0.0] * (3 + index % 2) + [1.0] for index in range(8)])
    assert not targets_of(policy_with_values(), episodes, grpo()).advantages.any()
    assert groups_with_signal(episodes, grpo()) == []
    asked = grpo(gamma=0.99)
    assert targets_of(policy_with_values(), episodes, asked).advantages.abs().mean() > 0.9
    assert groups_with_signal(episodes, asked) == episodes
    resolved = [config.resolved_gamma for config in (settings(), grpo(), asked)]
    assert resolved == [0.99, 1.0, 0.99]


@pytest.mark.parametrize("algorithm", ["TPPO", "APPO"])
def test_a_group_that_always_succeeds_tells_nothing_however_many_steps_it_took(
    algorithm: str,
) -> None:
    """With a discount its outcomes differ."""
    solved = outcomes([0.0, 1.0], [0.0, 0.0, 1.0], task="solved")
    both = outcomes([0.0, 1.0], [0.0, 0.0], task="both")
    config = settings(algorithm_name=algorithm, group_size=2, gamma=0.99)
    assert groups_with_signal([*solved, *both], config) == both


def test_by_step_an_episode_is_informative_where_any_of_its_actions_is() -> None:
    episodes = outcomes([1.0, -1.0], [0.0, 0.0])
    assert groups_with_signal(episodes, grpo()) == []
    assert groups_with_signal(episodes, grpo(group_credit="step")) == episodes
    assert targets_of(policy_with_values(), episodes, grpo(group_credit="step")).advantages.any()


@pytest.mark.parametrize(
    ("episodes", "discount", "spread"),
    [
        ([[0.0], [0.0, 0.0]], 0.99, 0.0),
        ([[0.0, 1.0], [0.0, 1.0]], 0.9, 0.0),  # nearer the reward is no better outcome
        ([[0.0, 1.0], [0.0, 0.0, 1.0]], 1.0, 0.0),
        ([[1.0], [0.0]], 0.9, 0.5),
        ([[0.1] * 7, [0.1] * 7], 0.99, 0.0),  # rounding is none
        (
            [[1.0, -1.0], [0.0, 0.0]],
            1.0,
            0.25**0.5 / 2**0.5,
        ),  # equal returns, unequal second actions
        ([[0.5, 0.0]], 1.0, 0.5),  # alone
    ],
)
def test_outcomes_spread_where_actions_of_one_number_lead_to_different_rewards(
    episodes: list[list[float]], discount: float, spread: float
) -> None:
    lines = trajectories(*[[([0.0], reward) for reward in each] for each in episodes])
    assert pooled_return_std(lines, discount) == pytest.approx(spread, abs=1e-9)
    assert (pooled_return_std(lines, discount) == 0.0) == (spread == 0.0)


def test_a_critics_noise_is_not_blown_up() -> None:
    noise = 0.02 * torch.randn(1000, generator=torch.Generator().manual_seed(0))
    counted = torch.ones(1000, dtype=torch.bool)
    assert not whiten_by_spread(noise, counted, 0.0).any()  # all earned the same
    assert whiten_by_spread(noise, counted, 0.5).std() == pytest.approx(
        0.4, rel=0.1
    )  # all is explained
    assert whiten_by_spread(noise, counted, 0.001).std() == pytest.approx(
        0.1, rel=0.1
    )  # little to explain
    assert whiten_by_spread(noise, counted, 0.02).std() == pytest.approx(
        1.0, rel=0.01
    )  # as whitened


@pytest.mark.parametrize(("others", "share"), [(2, 1 / 2), (6, 1 / 4), (0, 1.0)])
def test_without_a_critic_the_entropy_bonus_has_the_share_of_episodes_with_signal(
    others: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def spy(*arguments: Any) -> LossTerms:
        seen.append(arguments[5].entropy_coef)
        return accumulate_gradients(*arguments)

    monkeypatch.setattr("fctncalling.algorithms.ppo.accumulate_gradients", spy)
    episodes = outcomes([1.0], [0.0]) + outcomes(*[[1.0]] * others, task="solved")
    for name, expected in (("GRPO", share), ("TPPO", 1.0)):
        config = settings(algorithm_name=name, entropy_coef=0.01, num_mini_batch=1)
        policy = policy_with_values()
        update(policy, make_optimisers(policy, config), episodes, config, torch.Generator())
        assert seen
        assert seen == pytest.approx([0.01 * expected] * len(seen))
        seen.clear()


def test_without_whitening_too_the_policy_stands_still_where_nothing_differs() -> None:
    targets = targets_of(
        policy_with_values(), outcomes([1.0], [1.0]), settings(whiten_advantages=False, lam=0.95)
    )
    assert targets.raw_advantages.any()
    assert not targets.advantages.any()


def test_the_warning_says_what_happened_and_what_to_try() -> None:
    records = outcomes([0.0], [0.0])
    assert "(0 to 0), 0% of the actions were cut" in no_signal_warning(records)
    for record in records:
        record.num_steps = record.num_actions_truncated = 1
    assert "100% of the actions were cut by --max_new_tokens" in no_signal_warning(records)
    assert "no valid episode" in no_signal_warning([])
