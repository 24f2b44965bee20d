"""Shared prefixes: passes over a prefix tree give the gradients of separate rows."""

from __future__ import annotations

import copy
import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from token_worlds import CPU, VOCABULARY, act, empty_row, observe, settings
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from fctncalling.algorithms.batch import build_experience
from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord, TokenRecord
from fctncalling.algorithms.metrics import pass_metrics
from fctncalling.algorithms.minibatches import Passes
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.precision import set_compute_dtype
from fctncalling.algorithms.policy.shared_prefixes import (
    PrefixSharing,
    prefix_sharing,
    prefix_sharing_of,
    tree_attention,
    tree_states_at,
)
from fctncalling.algorithms.policy.shared_prefixes.prefix_sharing import runs_by_segment
from fctncalling.algorithms.policy.shared_prefixes.prefix_tree import Ids, build_tree
from fctncalling.algorithms.policy.sparse_forward import supports_sparse_forward
from fctncalling.algorithms.ppo import (
    ALGORITHMS,
    accumulate_gradients,
    make_optimisers,
    update,
)
from fctncalling.algorithms.supervised import SupervisedConfig
from fctncalling.algorithms.targets import compute_targets
from fctncalling.lab.embedded.fit import fit_supervised

torch.set_num_threads(1)

BY_SEGMENT, BY_MASK = ("llama", "qwen2", "qwen3"), ("gpt2", "gemma3_text", "granite", "qwen3_moe")
ADAPTERS = ("none", "lora", "lora critic", "full critic")

rows_of_tokens = st.lists(
    st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=1, max_size=9
).map(lambda rows: [np.asarray(row, dtype=np.int64) for row in rows])


@examples(max_examples=50, deadline=None)
@given(rows_of_tokens)
def test_a_tree_holds_each_distinct_prefix_once_and_gives_every_row_back(rows: list[Ids]) -> None:
    tree = build_tree(rows)
    prefixes = {tuple(row[: end + 1]) for row in rows for end in range(len(row))}
    assert len(tree.ids) == len(prefixes)
    for row, index in zip(rows, tree.row_index, strict=True):
        assert tree.ids[index[: len(row)]].tolist() == row.tolist()
        assert tree.positions[index[: len(row)]].tolist() == list(range(len(row)))


@examples(max_examples=50, deadline=None)
@given(rows_of_tokens, st.integers(1, 12), st.integers(1, 4), st.data())
def test_each_query_attends_to_the_tokens_of_its_row_before_it_once(
    rows: list[Ids], min_saving: int, block: int, data: st.DataObject
) -> None:
    tree = build_tree(rows, min_saving=min_saving)
    attended = np.zeros((len(tree.ids),) * 2, dtype=int)
    for row, index in zip(rows, tree.row_index.numpy(), strict=True):
        for end in range(len(row)):
            attended[index[end], index[: end + 1]] = 1
    chosen = sorted(data.draw(st.sets(st.integers(0, len(tree.ids) - 1), min_size=1)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree_attention, "BLOCK", block)
        for queries in (None, chosen):
            tokens = list(range(len(tree.ids))) if queries is None else queries
            found = np.zeros((len(tokens), len(tree.ids)), dtype=int)
            for part in tree_attention.attention_parts(tree, queries):
                seen = 1 if part.bias is None else (part.bias == 0.0).int().numpy()
                found[part.query : part.query_end, part.key : part.key_end] += seen
            assert (found == attended[tokens]).all()


@examples(max_examples=40, deadline=None)
@given(rows_of_tokens, st.integers(1, 40), st.integers(1, 4))
def test_microbatches_hold_every_row_once_and_keep_their_budget(
    rows: list[Ids], max_tokens: int, num_parts: int
) -> None:
    sharing = PrefixSharing(layer_flops=10**9, pair_flops=1, by_segment=True, max_row=None)
    groups = sharing.microbatches(rows, max_tokens=max_tokens, num_parts=num_parts)
    assert sorted(itertools.chain.from_iterable(groups)) == list(range(len(rows)))
    for group in groups:
        assert len(group) == 1 or len(build_tree([rows[row] for row in group]).ids) <= max_tokens


@pytest.mark.parametrize("num_parts", [2, 4, 8])
def test_parts_of_an_update_are_equal_runs_of_whole_groups(num_parts: int) -> None:
    sharing = PrefixSharing(layer_flops=10**9, pair_flops=1, by_segment=True, max_row=None)
    rows = [np.array([1, 9, group, *range(50), row]) for row in range(4) for group in range(32)]
    groups = [row % 32 for row in range(128)]
    passes = sharing.microbatches(rows, max_tokens=10**6, num_parts=num_parts, groups=groups)
    assert [len(part) for part in passes] == [128 // num_parts] * num_parts
    assert all(len({groups[row] for row in part}) == 32 // num_parts for part in passes)
    few = sharing.microbatches(rows[:4], max_tokens=10**6, num_parts=num_parts, groups=[0] * 4)
    assert len(few) == min(4, num_parts)  # one group alone is torn, or processes would wait


def model_of(kind: str, **changes: Any) -> Any:
    """Return a random two-layer model, with fewer heads of keys than of queries where its kind has
    such.
    """
    torch.manual_seed(0)
    sizes = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "initializer_range": 0.2,
        "max_position_embeddings": 64,
        "moe_intermediate_size": 16,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "pad_token_id": 0,
        **({"n_layer": 2, "n_embd": 32, "n_head": 4} if kind in ("gpt2", "bloom") else {}),
    }
    config = AutoConfig.for_model(kind, **{**sizes, **changes})
    return AutoModelForCausalLM.from_config(config).eval()


def in_double(norm: LlamaRMSNorm, hidden: Tensor) -> Tensor:
    """Normalise without transformers' detour through float32."""
    variance = hidden.pow(2).mean(-1, keepdim=True)
    return norm.weight * hidden * torch.rsqrt(variance + norm.variance_epsilon)


def weighted_gradient(model: Any, states: Tensor) -> Tensor:
    model.zero_grad()
    (
        states * torch.sin(torch.arange(states.numel(), dtype=states.dtype).view_as(states))
    ).sum().backward()
    return torch.cat([weight.grad.flatten() for weight in model.get_decoder().parameters()])


@examples(max_examples=10, deadline=None)
@given(rows_of_tokens, st.integers(1, 6), st.integers(1, 4))
def test_states_and_gradients_of_random_trees_are_those_of_separate_rows_in_float64(
    rows: list[Ids], min_saving: int, block: int
) -> None:
    rows_, columns = zip(
        *((n, c) for n, row in enumerate(rows) for c in range(len(row))), strict=True
    )
    at = (torch.tensor(rows_), torch.tensor(columns))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree_attention, "BLOCK", block)
        patch.setattr(LlamaRMSNorm, "forward", in_double)
        model = model_of("llama").double()
        decoder = model.get_decoder()
        assert supports_sparse_forward(model, decoder)
        alone = [decoder(torch.from_numpy(row)[None]).last_hidden_state[0] for row in rows]
        wanted = torch.cat(alone)
        expected = weighted_gradient(model, wanted)
        tree = build_tree(rows, min_saving=min_saving)
        found = tree_states_at(model, decoder, tree, *at)
        gradient = weighted_gradient(model, found)
    assert torch.allclose(found, wanted, rtol=0.0, atol=1e-12)
    assert float((gradient - expected).norm()) <= 1e-12 * float(expected.norm())


def test_fixed_tokens_of_a_tree_are_read_as_a_cache_without_gradient() -> None:
    rows = [np.asarray([1, 2, 0, 2, *rest], dtype=np.int64) for rest in ([1, 1], [0, 2, 1], [0])]
    model = model_of("llama").double()
    decoder = model.get_decoder()
    wanted = []
    for row in rows:
        cache = DynamicCache()
        ids = torch.from_numpy(row)[None]
        with torch.no_grad():
            decoder(input_ids=ids[:, :3], past_key_values=cache, use_cache=True)
        positions = torch.arange(3, len(row))[None]
        behind = decoder(input_ids=ids[:, 3:], past_key_values=cache, position_ids=positions)
        wanted.append(behind.last_hidden_state[0])
    expected = weighted_gradient(model, torch.cat(wanted))
    pairs = [(n, c) for n, row in enumerate(rows) for c in range(3, len(row))]
    at_rows, at_columns = torch.tensor(pairs).unbind(1)
    tree = build_tree(rows)
    found = tree_states_at(model, decoder, tree._replace(fixed=3), at_rows, at_columns)
    gradient = weighted_gradient(model, found)
    assert torch.allclose(found, torch.cat(wanted), atol=1e-6)  # norms compute in fp32
    assert float((gradient - expected).norm()) <= 1e-5 * float(expected.norm())
    whole = weighted_gradient(model, tree_states_at(model, decoder, tree, at_rows, at_columns))
    assert float((gradient - whole).norm()) > 0.01 * float(whole.norm())


def test_trees_in_half_precision_are_as_near_to_fp32_as_separate_rows_are() -> None:
    model = model_of("llama")
    half = copy.deepcopy(model)
    set_compute_dtype(half, torch.bfloat16, torch.device("cpu"))
    rows = [
        (np.array([*range(1, 30), 40 + n, 3, 5 + n]) % VOCABULARY).astype(np.int64)
        for n in range(4)
    ]
    at = (torch.arange(4).repeat_interleave(3), torch.arange(29, 32).repeat(4))
    tree = build_tree(rows)
    assert runs_by_segment(half, half.get_decoder())
    true, found = (tree_states_at(each, each.get_decoder(), tree, *at) for each in (model, half))
    alone = [half.get_decoder()(torch.from_numpy(row)[None]).last_hidden_state[0] for row in rows]
    separate = torch.cat([states[29:32] for states in alone]).float()
    assert found.dtype == torch.float32
    error, others = ((each - true).abs().max() for each in (found, separate))
    assert 0.0 < error < 2.0 * others
    expected, gradient = weighted_gradient(model, true), weighted_gradient(half, found)
    assert float((gradient - expected).norm()) < 0.05 * float(expected.norm())


def groups_of_episodes(num_groups: int = 3, size: int = 4) -> list[EpisodeRecord]:
    """Return groups of episodes that begin with one prompt: two actions each, every fourth cut."""
    draw = torch.Generator().manual_seed(3)

    def tokens(count: int) -> list[int]:
        return torch.randint(1, VOCABULARY, (count,), generator=draw).tolist()

    episodes = []
    for group in range(num_groups):
        prompt, later = tokens(20 + group), tokens(3)
        for number in range(size):
            row = empty_row()
            observe(row, prompt)
            for length in (1 + number % 3, 2 + number):
                for place, token in enumerate(tokens(length)):
                    last = place == length - 1
                    act(row, token, -2.0, last, float(number % 2) if last else 0.0)
                observe(row, later)
            over = number != 3
            episodes.append(
                EpisodeRecord(
                    f"task_{group}", "world", [row], terminated=over, truncated=not over, env_seed=7
                )
            )
    return episodes


def policy_of(kind: str, adapters: str) -> ActorCritic:
    """Return a policy whose critic, and whose adapters, say something, with a KL reference."""
    policy = ActorCritic(model_of(kind), critic_head="linear").eval()
    nn.init.normal_(policy.value_head.out.weight, std=0.3)
    if adapters == "full critic":
        policy.add_critic_model()
    if adapters.startswith("lora"):
        policy.add_lora(r=2, alpha=4.0, critic=adapters == "lora critic")
        assert policy.adapters is not None
        for name in policy.adapters.names:
            for weight in policy.adapters.parameters(name):
                nn.init.normal_(weight, std=0.05)
    else:
        policy.set_reference(model_of(kind))
    return policy


def learned(
    policy: ActorCritic, episodes: list[EpisodeRecord], config: TrainConfig, *, shares: bool
) -> list[Tensor]:
    """Return old and reference log-probabilities, values, returns, and the gradient of a step."""
    passes = Passes(build_experience(episodes, CPU), config)
    if shares:
        assert isinstance(policy.prefix_sharing, PrefixSharing)
        cheap = policy.prefix_sharing._replace(layer_flops=10**9)  # so that every token is shared
        passes = passes._replace(sharing=cheap)
    generator = torch.Generator().manual_seed(0)
    plan = passes.minibatches(generator)
    algorithm = ALGORITHMS[config.algorithm_name]
    targets = compute_targets(policy, passes, plan, algorithm, config, generator)
    saved = pass_metrics(passes, plan, plan).get("perf/shared_token_share", 0.0)
    assert (saved > 0.2) is shares
    moved = targets.old_logprobs + 0.1 * torch.sin(torch.arange(len(targets.old_logprobs)))
    accumulate_gradients(
        policy, passes, targets._replace(old_logprobs=moved), plan[0], algorithm, config
    )
    gradient = torch.cat([it.grad.flatten() for it in policy.parameters() if it.grad is not None])
    return [
        *(targets.old_logprobs, targets.reference_logprobs, targets.old_values, targets.returns),
        gradient,
    ]


def check_equal(algorithm: str, kind: str, adapters: str) -> None:
    policy, episodes = policy_of(kind, adapters), groups_of_episodes()
    for limit in (4096, 80) if algorithm == "TPPO" else (4096,):  # tokens of a microbatch
        config = settings(
            algorithm_name=algorithm,
            group_size=4,
            kl_coef=0.1,
            value_clip=0.2,
            max_microbatch_tokens=limit,
        )
        apart = learned(policy, episodes, config, shares=False)
        together = learned(policy, episodes, config, shares=True)
        assert float(apart[-1].norm()) > 1e-3
        for got, wanted in zip(together, apart, strict=True):
            assert float((got - wanted).norm()) <= 1e-5 * float(wanted.norm())


@pytest.mark.parametrize(
    ("algorithm", "adapters"),
    [
        ("TPPO", "full critic"),
        ("POAD", "lora"),
        ("NTPO", "none"),
        ("APPO", "lora critic"),
        ("GRPO", "none"),
    ],
)
def test_each_algorithm_learns_from_a_tree_what_it_learns_from_rows(
    algorithm: str, adapters: str
) -> None:
    check_equal(algorithm, "llama", adapters)


@pytest.mark.parametrize("kind", [*BY_SEGMENT[1:], *BY_MASK])
def test_each_family_of_models_learns_from_a_tree_what_it_learns_from_rows(kind: str) -> None:
    model = model_of(kind)
    sharing = prefix_sharing_of(model, model.get_decoder())
    assert isinstance(sharing, PrefixSharing)
    assert sharing.by_segment is (kind in BY_SEGMENT)
    check_equal("TPPO", kind, "none")


@pytest.mark.prove
@pytest.mark.parametrize("adapters", ADAPTERS)
@pytest.mark.parametrize("kind", [*BY_SEGMENT, *BY_MASK])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_family_and_adapter(algorithm: str, kind: str, adapters: str) -> None:
    check_equal(algorithm, kind, adapters)


@pytest.mark.parametrize("kind", ["bloom", "mamba"])
def test_a_model_that_takes_no_mask_over_a_tree_says_so_and_learns_from_rows(kind: str) -> None:
    policy = ActorCritic(model_of(kind), critic_head="linear")
    told = policy.prefix_sharing
    assert isinstance(told, str)
    assert type(policy.model).__name__ in told
    passes = Passes(build_experience(groups_of_episodes(1), CPU), settings())
    assert passes.share_prefixes(told).sharing is None


def real_size(**changes: Any) -> PrefixSharing:
    """Return how a model of 135 million parameters shares prefixes."""
    sizes = {"layer_flops": 7_000_000, "pair_flops": 2304, "by_segment": True, "max_row": None}
    return PrefixSharing(**{**sizes, **changes})


def test_prefixes_are_shared_where_that_is_cheaper_and_no_window_hides_a_token() -> None:
    config = settings(num_mini_batch=2)
    grouped = Passes(build_experience(groups_of_episodes(), CPU), config)
    assert grouped.share_prefixes(real_size()).sharing == real_size()
    assert grouped.share_prefixes(real_size(layer_flops=20_000)).sharing is None
    longest = max(len(row.ids) for row in grouped.experience.rows)
    for window, shares in ((longest, True), (longest - 1, False)):
        sharing = real_size(by_segment=False, max_row=window)
        assert (grouped.share_prefixes(sharing).sharing == sharing) is shares
    unlike = groups_of_episodes(8, 1)
    for number, episode in enumerate(unlike):
        episode.rows[0].ids[0] = number
    passes = Passes(build_experience(unlike, CPU), config)
    assert passes.share_prefixes(real_size()).sharing is None


def test_a_tree_whose_mask_costs_more_than_it_saves_is_left_out() -> None:
    """A third of the tokens saved; attention is a hundredth of the work, without a mask."""
    (first, second) = groups_of_episodes(1, 2)
    acted, ends = [False] * 400 + [True] * 200, [False] * 599 + [True]
    for episode, last in ((first, 900), (second, 1200)):
        ids = [*range(400), *range(last, last + 200)]
        episode.rows[0] = TokenRecord(ids, acted, ends, [0.0] * 600, [0.0] * 600)
    experience = build_experience([first, second], CPU)
    sharing = real_size(pair_flops=500, layer_flops=10**6, by_segment=False)
    for price, shares in ((1.0, True), (4.0, False)):
        config = settings(num_mini_batch=1, tree_mask_price=price)
        found = Passes(experience, config).share_prefixes(sharing).sharing
        assert (found is not None) is shares
    assert TrainConfig().tree_mask_price == 1.0  # until a device has measured another


def shared_passes(num_mini_batch: int, num_groups: int = 5, size: int = 4) -> Passes:
    experience = build_experience(groups_of_episodes(num_groups, size), CPU)
    return Passes(experience, settings(num_mini_batch=num_mini_batch), real_size())


def test_groups_stay_whole_and_come_into_each_minibatch_equally_often() -> None:
    passes, first = shared_passes(2), np.zeros(5)
    for seed in range(100):
        plan = passes.minibatches(torch.Generator().manual_seed(seed))
        rows = [sorted(itertools.chain.from_iterable(minibatch)) for minibatch in plan]
        assert sorted(itertools.chain.from_iterable(rows)) == list(range(20))
        for minibatch in rows:
            assert all(minibatch.count(4 * (row // 4) + 3) for row in minibatch)
        first[[row // 4 for row in rows[0][::4]]] += 1
    assert np.abs(first / 100 - 3 / 5).max() < 0.2  # four standard deviations


def test_fewer_groups_than_minibatches_are_split() -> None:
    plan = shared_passes(4, 1, 8).minibatches(torch.Generator().manual_seed(0))
    assert [sum(map(len, minibatch)) for minibatch in plan] == [2, 2, 2, 2]


def updated(config: TrainConfig) -> tuple[dict[str, float], Tensor]:
    """Return the metrics of an update of grouped episodes, and the weights after it."""
    policy = policy_of("llama", "none")
    metrics = update(
        policy,
        make_optimisers(policy, config),
        groups_of_episodes(),
        config,
        torch.Generator().manual_seed(0),
    )
    return metrics, torch.cat([weight.detach().flatten() for weight in policy.parameters()])


def test_an_update_shares_by_default_reproduces_itself_and_never_builds_a_tree_when_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prefix_sharing, "CALL_FLOPS", 0.0)  # so that it pays for a tiny model too
    config = settings(num_mini_batch=2, ppo_epoch=2, kl_coef=0.1)
    metrics, weights = updated(config)
    assert 0.3 < metrics["perf/shared_token_share"] < 0.8
    again, same = updated(config)
    assert again == metrics
    assert torch.equal(weights, same)
    monkeypatch.setattr(PrefixSharing, "build_tree", None)
    apart, _ = updated(settings(num_mini_batch=2, ppo_epoch=2, kl_coef=0.1, share_prefixes=False))
    assert "perf/shared_token_share" not in apart
    with pytest.raises(TypeError):
        updated(config)


@pytest.mark.parametrize("changes", [{"share_prefixes": False}, {"gradient_cp_steps": 3}])
def test_how_rows_pass_through_the_model_changes_no_step(
    changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefix_sharing, "CALL_FLOPS", 0.0)
    config = settings(num_mini_batch=2, ppo_epoch=2)
    metrics, weights = updated(config)
    assert metrics["perf/shared_token_share"] > 0.0
    found, same = updated(replace(config, **changes))
    for name in ("losses/policy_grad_norm", "losses/critic_grad_norm", "losses/policy_loss"):
        assert found[name] == pytest.approx(metrics[name], rel=1e-4, abs=1e-6)
    assert torch.allclose(same, weights, rtol=0.0, atol=1e-5)


@pytest.mark.parametrize("lora", [False, True])
def test_supervised_fitting_takes_the_same_steps_from_trees(
    lora: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefix_sharing, "CALL_FLOPS", 0.0)
    passed: list[int] = []
    steps = {}
    for shares in (False, True):
        policy = policy_of("qwen2", "lora" if lora else "none")
        policy.model.get_decoder().layers[0].mlp.register_forward_hook(
            lambda module, args, output: passed.append(output[..., 0].numel())
        )
        config = SupervisedConfig(epochs=2, batch_size=6, lr=1e-2, share_prefixes=shares)
        steps[shares] = fit_supervised(policy.model, groups_of_episodes(), config)
        passed.append(0)
    apart, together = (sum(it) for it in split_at_zeros(passed))
    assert together < 0.75 * apart
    for wanted, got in zip(steps[False], steps[True], strict=True):
        assert got == pytest.approx(wanted, rel=1e-4)


def split_at_zeros(numbers: list[int]) -> list[list[int]]:
    groups: list[list[int]] = [[]]
    for number in numbers:
        groups[-1].append(number)
        if number == 0:
            groups.append([])
    return groups[:-1]


def test_a_group_size_is_every_algorithms_and_grpo_needs_two() -> None:
    assert [TrainConfig(algorithm_name=name).episodes_per_task for name in ("TPPO", "GRPO")] == [
        1,
        8,
    ]
    assert TrainConfig(algorithm_name="APPO", group_size=4).episodes_per_task == 4
    with pytest.raises(SettingError, match="--group_size: got 1, expected at least 2"):
        TrainConfig(algorithm_name="GRPO", group_size=1)
    with pytest.raises(SettingError, match="expected a multiple of --group_size"):
        TrainConfig(group_size=7)
