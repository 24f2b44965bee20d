"""The shared update: exact where it can be, indifferent to how episodes are laid out and split, and
loud when wrong.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import sys
from pathlib import Path
from statistics import fmean
from types import FrameType
from typing import Any
from unittest import mock

import pytest
import torch
from token_worlds import (
    CPU,
    Corridor,
    episode,
    gradient,
    observe,
    play,
    policy_with_values,
    settings,
    some_episodes,
    targets_of,
    tiny_policy,
)
from torch import Tensor, nn

from fctncalling.algorithms import losses, ppo, step_guard
from fctncalling.algorithms.batch import acted_tokens, build_experience
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.distributed.process_group import SINGLE_PROCESS
from fctncalling.algorithms.episodes import EpisodeRecord, TokenRecord
from fctncalling.algorithms.minibatches import Passes, make_batch
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.ppo import (
    ALGORITHMS,
    Optimisers,
    accumulate_gradients,
    make_optimisers,
    update,
)
from fctncalling.algorithms.step_guard import StepGuard
from fctncalling.algorithms.targets import compute_targets, policy_outputs
from fctncalling.cli.train import parse_command_line

torch.set_num_threads(1)


def weights(policy: ActorCritic) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in policy.parameters()])


def run_update(
    policy: ActorCritic, episodes: list[EpisodeRecord], config: TrainConfig
) -> dict[str, float]:
    return update(
        policy, make_optimisers(policy, config), episodes, config, torch.Generator().manual_seed(3)
    )


def test_the_first_ratio_is_exactly_one() -> None:
    policy = policy_with_values()
    config = settings(max_microbatch_tokens=64, entropy_coef=0.01, temperature=0.7)
    metrics = run_update(policy, some_episodes(policy), config)
    assert metrics["losses/first_ratio_deviation"] == 0.0
    assert metrics["losses/approx_kl"] == 0.0
    assert metrics["losses/clipfrac"] == 0.0
    assert metrics["losses/ratio_max"] == 1.0


@pytest.mark.parametrize("lam", [None, 0.95])
def test_gamma_keeps_its_name_and_passes_few_files(lam: float | None) -> None:
    """Of the command line's argument, the setting and the values that an update hands on."""
    gamma = parse_command_line(["--gamma", "0.875"]).settings.gamma
    policy, room = policy_with_values(), str(Path(ppo.__file__).parent)
    episodes, passed = some_episodes(policy), set()

    def watch(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and (file := frame.f_code.co_filename).startswith(room):
            names = (name for name, it in frame.f_locals.items() if it is gamma)
            passed.update((file.removeprefix(room), name) for name in names)

    sys.setprofile(watch)
    try:
        run_update(policy, episodes, settings(gamma=gamma, lam=lam))
    finally:
        sys.setprofile(None)
    passed -= {each for each in passed if "config" in each[0]}  # checks it as any other setting
    assert {"/algorithm.py", "/advantages.py"} <= {file for file, _ in passed}
    assert len({"/config/learning_settings.py", *(file for file, _ in passed)}) <= 6
    assert {name for _, name in passed} == {"gamma"}


def test_the_training_pass_agrees_with_the_sampling_one() -> None:
    policy = policy_with_values()
    metrics = run_update(policy, some_episodes(policy), settings())
    assert metrics["mismatch/mean_logdiff"] < 1e-5
    assert metrics["mismatch/ratio_outside_10pct"] == 0.0


@pytest.mark.parametrize(
    "parts",
    [{"gradient_cp_steps": 2}, {"gradient_cp_steps": 8}, {"max_microbatch_tokens": 20}],
    ids=str,
)
@pytest.mark.parametrize("aggregation", ["token_mean", "action_mean", "row_mean"])
def test_accumulating_gradients_changes_nothing_but_memory(
    parts: dict[str, int], aggregation: str
) -> None:
    policy = policy_with_values()
    episodes = some_episodes(policy)
    assert len({len(record.rows[0].ids) for record in episodes}) > 1  # unequal token counts
    whole = gradient(policy, episodes, settings(loss_aggregation=aggregation), push=0.3)
    split = gradient(policy, episodes, settings(loss_aggregation=aggregation, **parts), push=0.3)
    assert torch.allclose(whole, split, atol=1e-6)


@pytest.mark.parametrize("aggregation", ["token_mean", "action_mean", "row_mean", "token_sum"])
def test_a_token_weighs_the_same_in_whichever_minibatch_it_falls(aggregation: str) -> None:
    policy = policy_with_values()
    lengths = (1, 12, 1, 2, 10, 11)
    episodes = [episode([(n, float(n % 3)), (2, 0.5)], terminated=True) for n in lengths]
    whole = gradient(policy, episodes, settings(loss_aggregation=aggregation), push=0.3)
    config = settings(loss_aggregation=aggregation, num_mini_batch=3)
    passes = Passes(build_experience(episodes, CPU), config)
    generator = torch.Generator().manual_seed(0)
    plan = passes.minibatches(generator)
    algorithm = ALGORITHMS["TPPO"]
    targets = compute_targets(policy, passes, plan, algorithm, config, generator)
    shift = 0.3 * torch.sin(torch.arange(len(targets.old_logprobs)))
    pushed = targets._replace(old_logprobs=targets.old_logprobs + shift)
    parts, tokens = [], []
    for minibatch in plan:
        accumulate_gradients(policy, passes, pushed, minibatch, algorithm, config)
        found = [p.grad.flatten() for p in policy.parameters() if p.grad is not None]
        parts.append(torch.cat(found))
        tokens.append(sum(lengths[row] + 2 for rows in minibatch for row in rows))
    assert max(tokens) > 1.5 * min(tokens)  # or there is nothing to see
    assert torch.allclose(torch.stack(parts).mean(0), whole, rtol=1e-4, atol=1e-6)


def test_at_ratio_one_the_summed_token_gradient_is_the_action_likelihood_gradient() -> None:
    policy = (
        tiny_policy().eval()
    )  # values 0, lambda 1: every token of an action has the action's return
    episodes = [
        episode([(3, 1.0), (2, -0.5)], terminated=True),
        episode([(4, 0.25)], terminated=True),
    ]
    config = settings(whiten_advantages=False, entropy_coef=0.0, value_coef=0.0, gamma=0.9, lam=1.0)
    summed = gradient(policy, episodes, config) * sum(
        sum(record.rows[0].acted) for record in episodes
    )
    returns = [1.0 + 0.9 * -0.5, -0.5, 0.25]
    tokens = acted_tokens(episodes)
    policy.zero_grad()
    logprobs = policy(make_batch([record.rows[0] for record in episodes])).logprobs
    by_action = torch.zeros(3).index_add(0, tokens.action, logprobs)
    torch.autograd.backward((-(by_action - by_action.detach()).exp() * torch.tensor(returns)).sum())
    wanted = torch.cat([p.grad.flatten() for p in policy.parameters() if p.grad is not None])
    assert torch.allclose(summed[: len(wanted)], wanted, atol=1e-5)


def written_out_gradient(
    policy: ActorCritic, episodes: list[EpisodeRecord], config: TrainConfig, push: float
) -> Tensor:
    """Return the gradient of the whole loss, written out for one unpadded pass an episode and full
    logits.
    """
    policy.zero_grad()
    targets = targets_of(policy, episodes, settings(**(vars(config) | {"num_mini_batch": 1})))
    start, total = 0, torch.tensor(0.0)
    for record in episodes:
        batch = make_batch(record.rows)
        places = batch.acted[0].nonzero()[:, 0]
        now = slice(start, start + len(places))
        start += len(places)
        outputs = policy.model(batch.ids, output_hidden_states=True)
        logs = (outputs.logits[0, places - 1] / config.temperature).log_softmax(-1)
        shift = push * torch.sin(torch.arange(len(targets.loss_weights)))[now]
        chosen = logs.gather(1, batch.ids[0, places][:, None])[:, 0]
        ratio = (chosen - targets.old_logprobs[now] - shift).exp()
        advantage = targets.advantages[now]
        cut = ratio.clip(1 - config.clip_low, 1 + config.clip_high)
        values = policy.value_head(outputs.hidden_states[-1][0, places - 1])
        total = total - torch.min(ratio * advantage, cut * advantage).sum()
        total = total - config.entropy_coef * -(logs.exp() * logs).sum()
        if config.huber_delta is None:
            total = total + config.value_coef * ((values - targets.returns[now]) ** 2).sum() / 2
        else:
            critic = nn.functional.huber_loss(
                values, targets.returns[now], delta=config.huber_delta, reduction="sum"
            )
            total = total + config.value_coef * critic
    torch.autograd.backward(total / start)
    return torch.cat([p.grad.flatten() for p in policy.parameters() if p.grad is not None])


@pytest.mark.parametrize(
    "changes",
    [
        {"temperature": 0.7},
        {"entropy_coef": 0.5},
        {"value_coef": 3.0},
        {"clip_low": 0.05, "clip_high": 0.5},
        {"clip_low": 0.5, "clip_high": 0.05},
        {"huber_delta": 0.1},
    ],
    ids=str,
)
def test_the_gradient_is_that_of_the_loss_written_out(changes: dict[str, float]) -> None:
    policy = policy_with_values()
    episodes, config = some_episodes(policy), settings(**changes)
    got, wanted = (
        gradient(policy, episodes, config, push=0.4),
        written_out_gradient(policy, episodes, config, 0.4),
    )
    assert torch.allclose(got, wanted, atol=2e-6)
    assert got.abs().max() > 1e-3


def test_the_critic_has_its_own_clip_range() -> None:
    policy = policy_with_values()
    episodes = some_episodes(policy)
    for value_clip, share in ((1e-6, 1.0), (1e6, 0.0)):
        metrics = run_update(
            copy.deepcopy(policy), episodes, settings(value_clip=value_clip, ppo_epoch=2)
        )
        assert metrics["losses/vf_clipfrac"] == pytest.approx(
            share / 2, abs=0.01
        )  # the first epoch's values are old
    free, tight = (
        run_update(
            copy.deepcopy(policy), episodes, settings(value_clip=clip, ppo_epoch=4, critic_lr=0.05)
        )
        for clip in (None, 1e-6)
    )
    assert (
        tight["losses/value_loss"] > free["losses/value_loss"]
    )  # clipped: the loss of the values as they were


def test_both_parts_move_no_further_than_the_cut_gradient_allows() -> None:
    policy = policy_with_values()
    before = copy.deepcopy(policy)
    optimisers = Optimisers(
        torch.optim.SGD(policy.policy_parameters(), lr=1.0),
        torch.optim.SGD(policy.critic_parameters(), lr=1.0),
    )
    config = settings(max_grad_norm=1e-3)
    update(policy, optimisers, some_episodes(policy), config, torch.Generator().manual_seed(3))
    for new, old in ((policy.model, before.model), (policy.value_head, before.value_head)):
        moved = torch.cat(
            [(a - b).flatten() for a, b in zip(new.parameters(), old.parameters(), strict=True)]
        )
        assert moved.norm().item() == pytest.approx(1e-3, rel=0.02)


def test_every_epoch_shuffles_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[int]] = []
    passing = ppo.accumulate_gradients

    def watched(*arguments: Any) -> dict[str, float]:
        seen.append([row for group in arguments[3] for row in group])
        return passing(*arguments)

    monkeypatch.setattr(ppo, "accumulate_gradients", watched)
    policy = policy_with_values()
    run_update(policy, some_episodes(policy, 8), settings(num_mini_batch=2, ppo_epoch=3))
    epochs = [seen[0] + seen[1], seen[2] + seen[3], seen[4] + seen[5]]
    assert all(sorted(epoch) == list(range(8)) for epoch in epochs)
    assert len({frozenset(minibatch) for minibatch in seen[::2]}) == 3


def test_away_from_ratio_one_tokens_are_clipped_one_by_one() -> None:
    new, old = (
        torch.tensor([-1.0, -1.0]),
        torch.tensor([-1.4, -0.8]),
    )  # ratios 1.49 and 0.82, of the action 1.22
    each = losses.policy_loss(
        losses.log_ratio(new, old), torch.ones(2), clip_low=0.2, clip_high=0.28
    )
    whole = losses.policy_loss((new - old).sum(), torch.tensor(1.0), clip_low=0.2, clip_high=0.28)
    assert each.tolist() == pytest.approx([-1.28, -math.exp(-0.2)])
    assert whole.item() == pytest.approx(-math.exp(0.2))


def test_context_garbage_in_a_record_changes_no_weight() -> None:
    policies = [policy_with_values(), policy_with_values()]
    clean = some_episodes(policies[0])
    dirty = copy.deepcopy(clean)
    for record in dirty:
        row = record.rows[0]
        row.rollout_logprobs = [
            p if acted else math.nan
            for p, acted in zip(row.rollout_logprobs, row.acted, strict=True)
        ]
        observe(row, [9, 9, 9])  # context after the end of a terminated episode
    config = settings(num_mini_batch=3, ppo_epoch=2)
    for policy, episodes in zip(policies, (clean, dirty), strict=True):
        run_update(policy, episodes, config)
    assert torch.equal(weights(policies[0]), weights(policies[1]))


def test_the_same_seed_gives_the_same_weights_and_metrics() -> None:
    results = []
    for _ in range(2):
        policy = policy_with_values()
        results.append(
            (
                run_update(policy, some_episodes(policy), settings(num_mini_batch=3, ppo_epoch=2)),
                policy,
            )
        )
    assert results[0][0] == results[1][0]
    assert torch.equal(weights(results[0][1]), weights(results[1][1]))


def divergence(policy: ActorCritic, before: ActorCritic, episodes: list[EpisodeRecord]) -> float:
    """Return the mean over actions of the mean KL of their tokens, all of them credited."""
    experience = build_experience(episodes, CPU)
    passes = Passes(experience, settings())
    minibatches = passes.minibatches(torch.Generator().manual_seed(0))
    new, old = (policy_outputs(p, passes, minibatches, settings())[0] for p in (policy, before))
    ratio = (new - old).double()
    kls = torch.minimum(ratio.square() / 2, ratio.exp() - 1 - ratio)
    action = experience.tokens.action
    return fmean(kls[action == number].mean().item() for number in range(int(action.max()) + 1))


def test_a_step_too_far_is_halved_or_refused_before_the_next_builds_on_it() -> None:
    start = policy_with_values()
    episodes = some_episodes(start)[:8]

    def updated(**changes: Any) -> tuple[ActorCritic, dict[str, float]]:
        policy = copy.deepcopy(start)
        config = settings(**{"lr": 0.01, "value_coef": 0.0, "entropy_coef": 0.0, **changes})
        with mock.patch.object(step_guard, "EVERY_ROW", 1):
            return policy, run_update(policy, episodes, config)

    free, metrics = updated()
    assert "losses/trial_kl" not in metrics
    far = divergence(free, start, episodes)
    bound = far / metrics["losses/entropy"]  # above 1 nat a token, which the flag is a factor of
    whole, metrics = updated(target_kl=1.01 * bound)
    assert metrics["losses/trial_kl"] == pytest.approx(far, rel=1e-3)
    assert torch.equal(weights(whole), weights(free))
    halved, metrics = updated(target_kl=0.9 * bound)
    assert (metrics["losses/steps_cut"], metrics["losses/early_stop_epoch"]) == (1.0, 0.0)
    assert divergence(halved, start, episodes) <= 0.9 * far
    halfway = (weights(start) + weights(free)) / 2
    assert torch.allclose(weights(halved), halfway, atol=1e-6)
    refused, metrics = updated(target_kl=1e-6 * bound, ppo_epoch=3)
    assert (metrics["losses/optimiser_steps"], metrics["losses/early_stop_epoch"]) == (0.0, 1.0)
    assert torch.allclose(weights(refused), weights(start), atol=1e-6)


@pytest.mark.parametrize("temperature", [1.0, 0.05])
def test_the_divergence_is_bounded_for_each_nat_of_entropy_above_one(temperature: float) -> None:
    policy = policy_with_values()
    episodes = some_episodes(policy)

    def cut(**changes: Any) -> dict[str, float]:
        config = settings(lr=0.01, temperature=temperature, **changes)
        return run_update(copy.deepcopy(policy), episodes, config)

    tried = cut(target_kl=1e3)
    assert (tried["losses/entropy"] > 1.0) == (temperature == 1.0)
    bound = tried["losses/trial_kl"] / max(1.0, tried["losses/entropy"])
    assert cut(target_kl=1.02 * bound)["losses/steps_cut"] == 0.0
    assert cut(target_kl=0.98 * bound)["losses/steps_cut"] == 1.0


def test_the_divergence_is_that_of_credited_tokens_each_action_alike() -> None:
    policy = policy_with_values()
    experience = build_experience(
        [episode([(3, 1.0), (1, 0.0)], terminated=True)], CPU
    )  # an action of three tokens, of which one has no advantage, and one of one token
    targets = targets_of(policy, experience.episodes, settings())
    raw = torch.tensor([0.5, 0.0, -0.5, 1.0])
    optimiser = make_optimisers(policy, settings()).policy
    assert optimiser is not None
    targets = targets._replace(raw_advantages=raw)
    passes = Passes(experience, settings())
    guard = StepGuard(policy, optimiser, passes, targets, settings(), SINGLE_PROCESS)
    ratios = torch.tensor([0.2, 7.0, -3.0, 2.0])
    wanted = fmean([fmean([0.2**2 / 2, math.exp(-3.0) + 2.0]), 2.0])
    assert guard.divergence(ratios, torch.arange(4)) == pytest.approx(wanted, rel=1e-5)


def test_gradients_of_language_model_and_value_head_are_cut_apart() -> None:
    policy = policy_with_values()
    config = settings(lr=0.0, critic_lr=0.0, max_grad_norm=1e-3)
    metrics = run_update(policy, some_episodes(policy), config)
    assert metrics["losses/policy_grad_norm"] > 1e-3
    assert metrics["losses/critic_grad_norm"] > 1e-3


def test_invalid_episodes_are_dropped_and_counted() -> None:
    policies = [policy_with_values(), policy_with_values()]
    episodes = some_episodes(policies[0])
    unplayed = EpisodeRecord(
        "task", "world", [TokenRecord([1, 2], [False] * 2, [False] * 2, [0.0] * 2, [0.0] * 2)]
    )
    broken = dataclasses.replace(copy.deepcopy(episodes[0]), invalid=True)
    broken.rows[0].rewards = [math.nan] * len(broken.rows[0].ids)
    clean = run_update(policies[0], episodes, settings())
    metrics = run_update(policies[1], [broken, *episodes, unplayed], settings())
    assert (metrics["env/invalid_episodes"], metrics["env/episodes_learned_from"]) == (
        1.0,
        len(episodes),
    )
    assert clean["env/invalid_episodes"] == 0.0
    assert torch.equal(weights(policies[0]), weights(policies[1]))


@pytest.mark.parametrize(
    "episodes", [[], [episode([], truncated=True)], [episode([(1, 0.0)], invalid=True)]], ids=len
)
def test_an_update_without_an_action_is_an_error_that_says_why(
    episodes: list[EpisodeRecord],
) -> None:
    with pytest.raises(ValueError, match="nothing to learn from"):
        run_update(tiny_policy(), episodes, settings())


def test_nan_stops_the_update_by_name_and_leaves_the_weights() -> None:
    policy = policy_with_values()
    episodes = some_episodes(policy)
    before = weights(policy)
    episodes[3].rows[0].rewards[-2] = math.nan  # its last action's; one context token follows
    with pytest.raises(FloatingPointError, match='"rewards"'):
        run_update(policy, episodes, settings())
    assert torch.equal(weights(policy), before)
    with pytest.raises(
        FloatingPointError, match='"logprobs"'
    ):  # the first step already flies off the numbers
        run_update(policy, some_episodes(policy), settings(lr=1e30, num_mini_batch=2))
    policy = policy_with_values()
    with torch.no_grad():
        policy.value_head.out.bias.fill_(math.inf)
    with pytest.raises(FloatingPointError, match='"old_values"'):
        run_update(policy, some_episodes(policy), settings())


def test_metrics_carry_their_closed_forms() -> None:
    policy = tiny_policy().eval()
    episodes = [episode([(4, 0.0), (2, 1.0)], terminated=True), episode([(3, 0.0)], truncated=True)]
    metrics = run_update(
        policy, episodes, settings(gamma=0.9, lam=1.0, whiten_advantages=False, value_clip=0.5)
    )
    assert metrics["critic/returns_mean"] == pytest.approx((4 * 0.9 + 2 * 1.0) / 9)
    assert (metrics["critic/returns_min"], metrics["critic/returns_max"]) == (0.0, 1.0)
    assert metrics["critic/values_max"] == 0.0
    assert metrics["losses/explained_variance"] == pytest.approx(0.0)
    assert metrics["losses/policy_loss"] == pytest.approx(-(4 * 0.9 + 2 * 1.0) / 9)
    assert metrics["losses/value_loss"] == pytest.approx((4 * 0.81 + 2) / 2 / 9)
    assert metrics["losses/vf_clipfrac"] == 0.0
    assert metrics["tokens/acted"] == 9.0
    assert metrics["tokens/action_length_mean"] == 3.0
    assert metrics["tokens/prompt_length_mean"] == 2.0


def test_constant_targets_leave_explained_variance_out() -> None:
    policy = tiny_policy()
    metrics = run_update(policy, [episode([(2, 1.0)], terminated=True)], settings())
    assert "losses/explained_variance" not in metrics
    assert all(math.isfinite(value) for value in metrics.values())


def test_dropout_is_off_during_the_update() -> None:
    policy = tiny_policy(kind="gpt2").train()
    metrics = run_update(
        policy, play(tiny_policy(), Corridor, 2, torch.Generator().manual_seed(0))[:2], settings()
    )
    assert metrics["losses/first_ratio_deviation"] == 0.0
