"""Batch layout never changes log-probs, values or gradients."""

from __future__ import annotations

import copy
import math
import pickle
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from token_worlds import (
    CPU,
    VOCABULARY,
    gradient,
    policy_with_values,
    settings,
    some_episodes,
    targets_of,
    tiny_policy,
)
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from fctncalling.algorithms.batch import build_experience
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import FIELDS, EpisodeRecord, TokenRecord
from fctncalling.algorithms.metrics import pass_metrics
from fctncalling.algorithms.minibatches import Passes, microbatches
from fctncalling.algorithms.policy import actor_critic
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.sparse_forward import supports_sparse_forward
from fctncalling.algorithms.ppo import make_optimisers, update

torch.set_num_threads(1)

KINDS = [
    *("llama", "gpt2+lora"),
    *(pytest.param(kind, marks=pytest.mark.prove) for kind in ("gpt2", "llama+lora")),
]


def judging(kind: str) -> ActorCritic:
    """Return a policy whose critic says something; "+lora": both learn by adapters that already say
    something.
    """
    base, _, lora = kind.partition("+")
    policy = tiny_policy(kind=base, critic_head="linear").eval()
    nn.init.normal_(policy.value_head.out.weight, std=0.3)
    if lora:
        policy.add_lora(r=2, alpha=4.0, critic=True)
        assert policy.adapters is not None
        for name in policy.adapters.names:
            for weight in policy.adapters.parameters(name):
                nn.init.normal_(weight, std=0.05)
    return policy


def learned_from(
    policy: ActorCritic, episodes: list[EpisodeRecord], config: TrainConfig
) -> list[torch.Tensor]:
    """Return old log-probabilities, old values (of each episode, as given) and the gradient of one
    optimiser step.
    """
    targets = targets_of(policy, episodes, config)
    return [targets.old_logprobs, targets.old_values, gradient(policy, episodes, config)]


@pytest.mark.parametrize("kind", KINDS)
def test_how_rows_are_grouped_changes_no_logprob_no_value_and_no_gradient(kind: str) -> None:
    policy = judging(kind)
    episodes = some_episodes(policy_with_values(), 10)
    one_by_one = learned_from(policy, episodes, settings(max_microbatch_tokens=1))
    assert one_by_one[2].abs().max() > 1e-3
    for layout in ({"max_microbatch_tokens": 40}, {"gradient_cp_steps": 3}, {}):
        for got, wanted in zip(
            learned_from(policy, episodes, settings(**layout)), one_by_one, strict=True
        ):
            assert torch.allclose(got, wanted, atol=1e-5), layout


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_episodes_changes_nothing_either(kind: str) -> None:
    policy = judging(kind)
    episodes = some_episodes(policy_with_values(), 10)
    sizes = [sum(record.rows[0].acted) for record in episodes]
    *forwards, wanted_gradient = learned_from(policy, episodes, settings(max_microbatch_tokens=60))
    *backwards, other_gradient = learned_from(
        policy, episodes[::-1], settings(max_microbatch_tokens=60)
    )
    for got, wanted in zip(backwards, forwards, strict=True):
        assert torch.allclose(torch.cat(got.split(sizes[::-1])[::-1]), wanted, atol=1e-5)
    assert torch.allclose(other_gradient, wanted_gradient, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_what_follows_the_last_action_of_a_finished_episode_changes_nothing(kind: str) -> None:
    policy = judging(kind)
    episodes = [record for record in some_episodes(policy_with_values(), 10) if record.terminated]
    longer = copy.deepcopy(episodes)
    for length, record in enumerate(longer):
        row, end = record.rows[0], [0.0] * length
        context = TokenRecord([9] * length, [False] * length, [False] * length, end, end)
        record.rows[0] = TokenRecord(
            *([*getattr(row, name), *getattr(context, name)] for name in FIELDS)
        )
    for got, wanted in zip(
        learned_from(policy, longer, settings()),
        learned_from(policy, episodes, settings()),
        strict=True,
    ):
        assert torch.equal(got, wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_an_episode_in_one_row_learns_as_one_row_a_step_does(kind: str) -> None:
    policy = judging(kind)
    episodes = some_episodes(policy_with_values(), 10)
    apart = [replace(record, rows=one_row_a_step(record.rows[0])) for record in episodes]
    assert max(len(record.rows) for record in apart) > 2
    for changes in ({}, {"max_microbatch_tokens": 40}):
        for got, wanted in zip(
            learned_from(policy, apart, settings(**changes)),
            learned_from(policy, episodes, settings()),
            strict=True,
        ):
            assert torch.allclose(got, wanted, atol=1e-5)


def one_row_a_step(row: TokenRecord) -> list[TokenRecord]:
    """Return the row as a template that rewrites its history leaves it: each step reads all before
    it again.
    """
    ends = [index + 1 for index, last in enumerate(row.ends_action) if last]
    steps = []
    for start, end in zip([0, *ends], [*ends[:-1], len(row.ids)], strict=False):
        step = TokenRecord(*(getattr(row, name)[:end] for name in FIELDS))
        for field in (step.acted, step.ends_action, step.rollout_logprobs, step.rewards):
            field[:start] = [type(field[0])(0)] * start
        steps.append(step)
    return steps


def model_of(kind: str) -> Any:
    """Return a random two-layer model with fewer heads of keys than of queries, whatever its kind
    needs besides.
    """
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        kind,
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        initializer_range=0.2,
        max_position_embeddings=64,
    )
    return AutoModelForCausalLM.from_config(config)


@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
def test_leaving_out_what_nobody_asks_for_changes_nothing(
    kind: str, lora: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "fctncalling.algorithms.policy.sparse_forward.QUERY_BLOCK", 5
    )  # so that rows take several
    policy = ActorCritic(model_of(kind), critic_head="linear").eval()
    nn.init.normal_(policy.value_head.out.weight, std=0.3)
    if lora:
        policy.add_lora(r=2, alpha=4.0, critic=True)
    assert supports_sparse_forward(policy.model, policy.model.get_decoder())
    episodes = some_episodes(policy_with_values(), 10)
    passed: list[int] = []
    hook = (
        policy.model.get_decoder()
        .layers[-1]
        .mlp.register_forward_hook(
            lambda module, inputs, output: passed.append(output[..., 0].numel())
        )
    )
    lean = learned_from(policy, episodes, settings())
    hook.remove()
    asked, cut = (
        sum(sum(record.rows[0].acted) for record in episodes),
        sum(not it.terminated for it in episodes),
    )
    assert asked in passed
    assert set(passed) <= {asked, cut}  # the value at a cut episode's end is asked for too
    monkeypatch.setattr(
        "fctncalling.algorithms.policy.actor_critic.supports_sparse_forward", lambda *_: False
    )
    for got, wanted in zip(lean, learned_from(policy, episodes, settings()), strict=True):
        assert torch.allclose(got, wanted, atol=1e-5)


def test_an_onlooker_at_the_model_still_sees_its_passes() -> None:
    policy = judging("llama")
    decoder = policy.model.get_decoder()
    seen: list[int] = []
    hook = decoder.register_forward_hook(lambda *_: seen.append(1))
    assert not supports_sparse_forward(policy.model, decoder)
    learned_from(policy, some_episodes(policy_with_values(), 4), settings())
    hook.remove()
    assert seen
    assert supports_sparse_forward(policy.model, decoder)


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_logits_are_made_of_acted_tokens_alone_and_in_chunks(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actor_critic, "MAX_LOGITS", 7 * VOCABULARY)
    policy = judging(kind)
    episodes = some_episodes(policy_with_values(), 10)
    positions: list[int] = []
    policy.model.get_output_embeddings().register_forward_hook(
        lambda module, inputs, output: positions.append(output.shape[0])
    )
    with torch.no_grad():
        targets_of(policy, episodes, settings())
    acted = [sum(record.rows[0].acted) for record in episodes]
    assert sum(len(record.rows[0].ids) for record in episodes) > sum(acted) > 7
    assert sum(positions) == sum(acted)
    assert max(positions) == 7


row_lengths = st.lists(st.integers(1, 3000), min_size=1, max_size=80)


@examples(max_examples=150, deadline=None)
@given(row_lengths, st.integers(1, 8000), st.integers(1, 9))
def test_groups_hold_every_row_once_keep_their_budget_and_little_padding(
    lengths: list[int], max_tokens: int, num_parts: int
) -> None:
    groups = microbatches(lengths, max_tokens=max_tokens, num_parts=num_parts)
    padded = [len(group) * max(lengths[index] for index in group) for group in groups]
    assert sorted(index for group in groups for index in group) == list(range(len(lengths)))
    assert all(
        size <= max_tokens or len(group) == 1 for group, size in zip(groups, padded, strict=True)
    )
    assert sum(padded) - sum(lengths) < 0.1 * sum(padded)


@examples(max_examples=60, deadline=None)
@given(st.integers(1, 300), st.integers(1, 60), st.integers(300, 5000))
def test_rows_of_one_length_fill_their_groups(length: int, number: int, max_tokens: int) -> None:
    groups = microbatches([length] * number, max_tokens=max_tokens)
    assert len(groups) == -(-number // (max_tokens // length))


def test_a_few_short_rows_beside_long_ones_share_a_pass() -> None:
    lengths = [
        10,
        12,
        15,
        20,
        25,
        30,
        900,
        950,
        1000,
    ]  # apart they would be four passes more for a hundred tokens
    assert [len(group) for group in microbatches(lengths, max_tokens=4096)] == [6, 3]


def test_padding_stays_below_a_tenth_on_the_embedded_tasks_and_is_told() -> None:
    from transformers import AutoTokenizer

    from fctncalling.algorithms.policy.chat_template import ChatTemplate
    from fctncalling.data.bfcl import embedded_path, load_tasks
    from fctncalling.lab.embedded.demonstrator import Demonstrator, demonstrations

    tasks = load_tasks(embedded_path("train"))
    tasks = tasks[:: len(tasks) // 96]  # of every category
    template = ChatTemplate(AutoTokenizer.from_pretrained(embedded_path("model")))
    episodes = demonstrations(tasks, Demonstrator(tasks, seed=0), template)
    experience = build_experience(episodes, CPU)
    assert max(experience.lengths) > 4 * min(experience.lengths)
    config = TrainConfig(num_mini_batch=3)
    passes = Passes(experience, config)
    plan = passes.minibatches(torch.Generator().manual_seed(0))
    masks = [passes.batch(rows)[0].attention_mask for minibatch in plan for rows in minibatch]
    padding = sum(int((~mask).sum()) for mask in masks) / sum(mask.numel() for mask in masks)
    assert padding < 0.1
    assert pass_metrics(passes, plan, plan) == {"perf/padding_share": pytest.approx(padding)}
    policy = ActorCritic.load(embedded_path("model"))
    metrics = update(
        policy, make_optimisers(policy, config), episodes, config, torch.Generator().manual_seed(0)
    )
    assert metrics["perf/padding_share"] == pytest.approx(padding)


def test_an_episode_travels_exactly_and_at_eight_bytes_a_token() -> None:
    policy = policy_with_values()
    assert pickle.loads(pickle.dumps(some_episodes(policy, 3))) == some_episodes(policy, 3)
    length, nan = 4000, float("nan")
    acted = [place % 8 == 7 for place in range(length)]
    row = TokenRecord(
        [*range(100_000, 100_000 + length)],
        acted,
        [place % 16 == 15 for place in range(length)],
        [-0.1 * place if one else 0.0 for place, one in enumerate(acted)],
        [0.5 if place == length - 1 else 0.0 for place in range(length)],
        role="a",
    )
    packed = pickle.dumps(row)
    assert pickle.loads(packed) == row
    assert len(packed) / length < 8.5
    row.rollout_logprobs[7] = nan
    assert math.isnan(pickle.loads(pickle.dumps(row)).rollout_logprobs[7])
