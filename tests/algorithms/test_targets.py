"""Targets: the same for every layout, whole over an update,
and from the right end of an episode.
"""

from __future__ import annotations

import dataclasses

import pytest
import torch
from gymnasium.wrappers import TimeLimit
from token_worlds import (
    CPU,
    Microwave,
    episode,
    gradient,
    one_row_a_step,
    play,
    policy_with_values,
    settings,
    some_episodes,
    targets_of,
    tiny_policy,
)

from fctncalling.algorithms.batch import acted_tokens, build_experience, make_batch
from fctncalling.algorithms.minibatches import microbatches, plan_minibatches

torch.set_num_threads(1)


def test_token_mean_weighs_tokens_and_action_mean_weighs_actions_alike() -> None:
    policy = policy_with_values()
    episodes = [
        episode([(4, 1.0), (1, 0.0)], terminated=True),
        episode([(2, 0.0)], terminated=True),
    ]
    for aggregation, wanted in (
        ("token_mean", [1.0] * 7),
        ("action_mean", [0.25] * 4 + [1.0] + [0.5] * 2),
        ("row_mean", [0.2] * 5 + [0.5] * 2),
    ):
        got = targets_of(policy, episodes, settings(loss_aggregation=aggregation)).loss_weights
        assert got.tolist() == pytest.approx(wanted)


def test_one_row_an_episode_and_one_row_a_step_are_the_same_learning() -> None:
    policy = policy_with_values()
    episodes = play(policy, lambda: TimeLimit(Microwave(), 3), 8, torch.Generator().manual_seed(1))
    assert any(record.truncated for record in episodes)
    stepwise = [one_row_a_step(record) for record in episodes]
    for got, wanted in zip(
        targets_of(policy, stepwise, settings()),
        targets_of(policy, episodes, settings()),
        strict=True,
    ):
        assert torch.allclose(got.float(), wanted.float(), atol=1e-5)
    assert torch.allclose(
        gradient(policy, stepwise, settings(entropy_coef=0.0)),
        gradient(policy, episodes, settings(entropy_coef=0.0)),
        atol=1e-5,
    )


@pytest.mark.parametrize(
    ("ending", "bootstrap", "reaches_past_the_end"),
    [
        ({"terminated": True}, True, False),
        ({"truncated": True}, True, True),
        ({"truncated": True}, False, False),
        ({"terminated": True, "truncated": True}, True, False),
    ],
)
def test_a_truncated_episode_goes_on_with_the_value_after_its_last_token(
    ending: dict[str, bool], bootstrap: bool, reaches_past_the_end: bool
) -> None:
    policy = policy_with_values()
    record = episode([(3, 0.5)], **ending)
    config = settings(truncation_bootstrap=bootstrap, gamma=0.9, lam=0.8)
    batch = make_batch(record.rows)
    with torch.no_grad():
        end = policy.values_at(
            batch.ids, batch.attention_mask, torch.tensor([len(record.rows[0].ids) - 1])
        ).item()
    assert abs(end) > 0.01
    returns = targets_of(policy, [record], config).returns.tolist()
    assert returns == pytest.approx(
        [0.5 + (0.9 * end if reaches_past_the_end else 0.0)] * 3, abs=1e-5
    )


def test_whitening_covers_all_action_tokens_of_the_update() -> None:
    policy = policy_with_values()
    targets = targets_of(policy, some_episodes(policy), settings(num_mini_batch=4))
    assert targets.advantages.mean().item() == pytest.approx(0.0, abs=1e-5)
    assert targets.advantages.std(correction=0).item() == pytest.approx(1.0, abs=1e-3)
    assert not torch.allclose(targets.raw_advantages, targets.advantages)


def test_the_control_experiment_keeps_the_advantages_and_breaks_their_order() -> None:
    policy = policy_with_values()
    episodes = some_episodes(policy)
    honest, shuffled = (
        targets_of(policy, episodes, settings(permute_advantages=flag)) for flag in (False, True)
    )
    assert not torch.equal(honest.advantages, shuffled.advantages)
    assert torch.equal(honest.advantages.sort().values, shuffled.advantages.sort().values)
    assert torch.equal(honest.returns, shuffled.returns)


def test_records_that_do_not_fit_together_are_refused() -> None:
    record = episode([(2, 1.0)], terminated=True)
    for change, told in (
        ({"acted": record.rows[0].acted[1:]}, "one entry a token"),
        ({"acted": [True] * len(record.rows[0].ids)}, "first token is acted"),
        ({"rewards": [1.0] * len(record.rows[0].ids)}, "was not acted"),
    ):
        row = dataclasses.replace(record.rows[0], **change)
        with pytest.raises(ValueError, match=told):
            acted_tokens([dataclasses.replace(record, rows=[row])])


def test_every_row_is_in_one_minibatch_of_each_epoch_even_where_they_do_not_divide() -> None:
    experience = build_experience(some_episodes(tiny_policy(), 11), CPU)
    plan = plan_minibatches(
        experience, settings(num_mini_batch=4), torch.Generator().manual_seed(0)
    )
    sizes = [sum(map(len, minibatch)) for minibatch in plan]
    assert sorted(row for minibatch in plan for group in minibatch for row in group) == list(
        range(11)
    )
    assert max(sizes) - min(sizes) <= 1
    few = build_experience(some_episodes(tiny_policy(), 2), CPU)
    assert (
        len(plan_minibatches(few, settings(num_mini_batch=4), torch.Generator().manual_seed(0)))
        == 2
    )


def test_microbatches_keep_to_their_budget_and_put_like_lengths_together() -> None:
    lengths = [5, 100, 7, 90, 6, 300]
    groups = microbatches(lengths, max_tokens=210)
    assert sorted(index for group in groups for index in group) == list(range(6))
    assert groups == [[0, 4, 2], [3, 1], [5]]  # 300 fits nowhere: a group of its own
    assert len(microbatches([8] * 8, max_tokens=10**6, num_parts=4)) == 4
