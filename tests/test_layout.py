"""Layout: how episodes are grouped, padded and ordered for the model costs little and changes nothing."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from token_worlds import CPU, gradient, judging_policy, settings, some_episodes, targets_of, tiny_policy
from torch import nn

from fctncalling.algorithms.batch import EpisodeRecord, TokenRecord, microbatches
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.experience import gather, plan_epoch
from fctncalling.algorithms.policy import ActorCritic
from fctncalling.algorithms.ppo import make_optimisers, update

torch.set_num_threads(1)

KINDS = ("llama", "gpt2", "llama+lora", "gpt2+lora")


def judging(kind: str) -> ActorCritic:
    """Return a policy whose critic says something; "+lora": both learn by adapters that already say something."""
    base, _, lora = kind.partition("+")
    policy = tiny_policy(kind=base, critic_head="linear").eval()
    nn.init.normal_(policy.value_head.out.weight, std=0.3)
    if lora:
        policy.adapt(r=2, alpha=4.0, critic=True)
        assert policy.adapters is not None
        for name in policy.adapters.names:
            for weight in policy.adapters.parameters(name):
                nn.init.normal_(weight, std=0.05)
    return policy


def learned_from(policy: ActorCritic, episodes: list[EpisodeRecord], config: TrainConfig) -> list[torch.Tensor]:
    """Return old log-probabilities, old values (of each episode, as given) and the gradient of one optimiser step."""
    targets = targets_of(policy, episodes, config)
    return [targets.old_logprobs, targets.old_values, gradient(policy, episodes, config)]


@pytest.mark.parametrize("kind", KINDS)
def test_how_rows_are_grouped_changes_no_logprob_no_value_and_no_gradient(kind: str) -> None:
    policy = judging(kind)
    episodes = some_episodes(judging_policy(), 10)
    one_by_one = learned_from(policy, episodes, settings(max_microbatch_tokens=1))
    assert one_by_one[2].abs().max() > 1e-3
    for layout in ({"max_microbatch_tokens": 40}, {"gradient_cp_steps": 3}, {}):
        for got, wanted in zip(learned_from(policy, episodes, settings(**layout)), one_by_one, strict=True):
            assert torch.allclose(got, wanted, atol=1e-5), layout


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_episodes_changes_nothing_either(kind: str) -> None:
    policy = judging(kind)
    episodes = some_episodes(judging_policy(), 10)
    sizes = [sum(record.rows[0].acted) for record in episodes]
    *forwards, wanted_gradient = learned_from(policy, episodes, settings(max_microbatch_tokens=60))
    *backwards, other_gradient = learned_from(policy, episodes[::-1], settings(max_microbatch_tokens=60))
    for got, wanted in zip(backwards, forwards, strict=True):
        assert torch.allclose(torch.cat(got.split(sizes[::-1])[::-1]), wanted, atol=1e-5)
    assert torch.allclose(other_gradient, wanted_gradient, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_what_follows_the_last_action_of_a_finished_episode_changes_nothing(kind: str) -> None:
    policy = judging(kind)
    episodes = [record for record in some_episodes(judging_policy(), 10) if record.terminated]
    longer = copy.deepcopy(episodes)
    for length, record in enumerate(longer):
        row = record.rows[0]
        extra = TokenRecord([9] * length, [False] * length, [False] * length, [0.0] * length, [0.0] * length)
        for name in vars(row):
            getattr(row, name).extend(getattr(extra, name))
    for got, wanted in zip(
        learned_from(policy, longer, settings()), learned_from(policy, episodes, settings()), strict=True
    ):
        assert torch.equal(got, wanted)


row_lengths = st.lists(st.integers(1, 3000), min_size=1, max_size=80)


@examples(max_examples=150, deadline=None)
@given(row_lengths, st.integers(1, 8000), st.integers(1, 9))
def test_groups_hold_every_row_once_keep_their_budget_and_little_padding(
    lengths: list[int], max_tokens: int, num_parts: int
) -> None:
    groups = microbatches(lengths, max_tokens=max_tokens, num_parts=num_parts)
    padded = [len(group) * max(lengths[index] for index in group) for group in groups]
    assert sorted(index for group in groups for index in group) == list(range(len(lengths)))
    assert all(size <= max_tokens or len(group) == 1 for group, size in zip(groups, padded, strict=True))
    assert sum(padded) - sum(lengths) < 0.1 * sum(padded)


@examples(max_examples=60, deadline=None)
@given(st.integers(1, 300), st.integers(1, 60), st.integers(300, 5000))
def test_rows_of_one_length_fill_their_groups(length: int, number: int, max_tokens: int) -> None:
    groups = microbatches([length] * number, max_tokens=max_tokens)
    assert len(groups) == -(-number // (max_tokens // length))


def test_a_few_short_rows_beside_long_ones_share_a_pass() -> None:
    lengths = [10, 12, 15, 20, 25, 30, 900, 950, 1000]  # apart they would be four passes more for a hundred tokens
    assert [len(group) for group in microbatches(lengths, max_tokens=4096)] == [6, 3]


def test_padding_stays_below_a_tenth_on_the_embedded_tasks_and_is_told() -> None:
    from transformers import AutoTokenizer

    from fctncalling.algorithms.template import ChatTemplate
    from fctncalling.cli.warm_start import demonstrations
    from fctncalling.data.bfcl import embedded_path, load_tasks
    from fctncalling.embedded_tasks.demonstrator import Demonstrator

    tasks = load_tasks(embedded_path("train"))
    tasks = tasks[:: len(tasks) // 96]  # of every category
    template = ChatTemplate(AutoTokenizer.from_pretrained(embedded_path("model")))
    episodes = demonstrations(tasks, Demonstrator(tasks, seed=0), template)
    experience = gather(episodes, CPU)
    assert max(experience.lengths) > 4 * min(experience.lengths)
    config = TrainConfig(num_mini_batch=3)
    plan = plan_epoch(experience, config, torch.Generator().manual_seed(0))
    masks = [experience.batch(rows)[0].attention_mask for minibatch in plan for rows in minibatch]
    padding = sum(int((~mask).sum()) for mask in masks) / sum(mask.numel() for mask in masks)
    assert padding < 0.1
    assert experience.padding_share(plan) == pytest.approx(padding)
    policy = ActorCritic.load(embedded_path("model"))
    metrics = update(policy, make_optimisers(policy, config), episodes, config, torch.Generator().manual_seed(0))
    assert metrics["perf/padding_share"] == pytest.approx(padding)
