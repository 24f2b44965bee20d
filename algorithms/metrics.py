"""Metrics of one update, its losses and its critic, with CleanRL's names if it has one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from fctncalling.algorithms.advantages import explained_variance
from fctncalling.algorithms.batch import Experience
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.group_baseline import matched_state_share
from fctncalling.algorithms.losses import LossTerms, Targets, kl_k1, kl_k3
from fctncalling.algorithms.minibatches import Minibatch, Passes
from fctncalling.algorithms.policy.precision import uses_importance_weights

Metrics = dict[str, float]
MONTE_CARLO = "critic/monte_carlo_explained_variance"


def step_metrics(terms: LossTerms, config: TrainConfig) -> Metrics:
    """Return the metrics of one optimiser step from the loss terms of its tokens."""
    ratios = terms.log_ratios.exp()[terms.loss_mask]
    clipped = (ratios < 1.0 - config.clip_low) | (ratios > 1.0 + config.clip_high)
    total = terms.loss_weights.sum()
    metrics = {
        "losses/policy_loss": (terms.policy_losses * terms.loss_weights).sum() / total,
        "losses/value_loss": (terms.value_losses * terms.loss_weights).sum() / total,
        "losses/entropy": (terms.entropies * terms.loss_weights).sum() / total,
        "losses/approx_kl": kl_k3(terms.token_log_ratios).mean(),
        "losses/old_approx_kl": kl_k1(terms.token_log_ratios).mean(),
        "losses/clipfrac": clipped.float().mean(),
        "losses/ratio_mean": ratios.mean(),
        "losses/ratio_min": ratios.min(),
        "losses/ratio_max": ratios.max(),
        "losses/ratio_deviation": (ratios - 1.0).abs().max(),
    }
    if config.value_clip is not None:
        metrics["losses/vf_clipfrac"] = (
            (terms.value_changes[terms.loss_mask].abs() > config.value_clip).float().mean()
        )
    if config.kl_coef:
        metrics["losses/kl_ref"] = terms.reference_kl.mean()
    return {name: float(value) for name, value in metrics.items()}


def update_metrics(
    episodes: Sequence[EpisodeRecord],
    experience: Experience,
    targets: Targets,
    steps: Sequence[Metrics],
    early_stop_epoch: int,
    config: TrainConfig,
) -> Metrics:
    """Return the metrics of a whole update, without NaN (explained variance of constant returns).

    Losses are means over the steps; the KL is that of the last pass, after all other steps.
    """
    trials = [step.pop("losses/trial_kl") for step in steps if "losses/trial_kl" in step]
    shares = [step.pop("losses/step_share", 1.0) for step in steps]
    metrics = {name: sum(step[name] for step in steps) / len(steps) for name in steps[0]}
    metrics["losses/steps_cut"] = float(sum(share < 1.0 for share in shares))  # by the guard
    metrics["losses/trial_kl"] = max(trials, default=math.nan)
    metrics |= {name: steps[-1][name] for name in ("losses/approx_kl", "losses/old_approx_kl")}
    metrics["losses/ratio_min"] = min(step["losses/ratio_min"] for step in steps)
    metrics["losses/ratio_max"] = max(step["losses/ratio_max"] for step in steps)
    # 0: the passes before the update and the first of the update agree
    metrics["losses/first_ratio_deviation"] = steps[0]["losses/ratio_deviation"]
    metrics.pop("losses/ratio_deviation", None)
    metrics["losses/early_stop_epoch"] = float(early_stop_epoch)  # 0: ran to the end
    metrics["update/policy_skipped"] = float(not targets.advantages.any())
    metrics["losses/optimiser_steps"] = float(sum(share > 0.0 for share in shares))
    metrics |= critic_metrics(experience, targets, config.resolved_gamma)
    metrics |= _mismatch_metrics(targets.old_logprobs, experience.tokens.rollout_logprobs)
    metrics |= _importance_metrics(targets, config) | _token_metrics(experience)
    if config.group_baseline == "state":
        hashes = [episode.state_hashes for episode in experience.episodes]
        groups = experience.groups.tolist()
        metrics["critic/state_matched_share"] = matched_state_share(hashes, groups)
    metrics["env/invalid_episodes"] = float(sum(episode.invalid for episode in episodes))
    metrics["env/episodes_learned_from"] = float(len(experience.episodes))
    return {name: value for name, value in metrics.items() if not math.isnan(value)}


def pass_metrics(
    passes: Passes, minibatches: Sequence[Minibatch], in_loss: Sequence[Minibatch]
) -> Metrics:
    """Return the share of padding in an epoch's passes, and of tokens that prefixes save.

    in_loss: the minibatches that are learned from, without the rows that --overlong masks.
    """
    metrics = {"perf/padding_share": _padding_share(passes, minibatches)}
    if passes.sharing is not None:
        rows = [passes.trained_token_ids(group) for minibatch in in_loss for group in minibatch]
        computed = sum(len(passes.sharing.build_tree(ids).ids) for ids in rows)
        tokens = sum(len(ids) for group in rows for ids in group)
        metrics["perf/shared_token_share"] = 1.0 - computed / tokens
    return metrics


def _padding_share(passes: Passes, minibatches: Sequence[Minibatch]) -> float:
    """Return the share of padding among the tokens of minibatches."""
    groups = [rows for minibatch in minibatches for rows in minibatch]
    if passes.sharing is None:
        lengths = [[passes.experience.lengths[row] for row in rows] for rows in groups]
    elif passes.sharing.by_segment:
        return 0.0
    else:  # the trees of a forest are padded to the longest
        trees = [passes.sharing.build_tree(passes.trained_token_ids(rows)) for rows in groups]
        lengths = [[end - start for start, end in tree.tree_spans()] for tree in trees]
    padded = sum(len(group) * max(group) for group in lengths)
    return 1.0 - sum(map(sum, lengths)) / padded


def drop_critic_metrics(metrics: Metrics) -> Metrics:
    """Drop the critic's metrics, for an algorithm without a critic."""
    values = (
        "losses/value_loss",
        "losses/vf_clipfrac",
        "losses/explained_variance",
        "losses/critic_grad_norm",
    )
    return {
        n: value
        for n, value in metrics.items()
        if n not in values and not n.startswith(("critic/values", MONTE_CARLO))
    }


def _mismatch_metrics(old_logprobs: Tensor, rollout_logprobs: Tensor) -> Metrics:
    """Return how far log-probs of rollout and training forward differ, (N,) both."""
    difference = old_logprobs - rollout_logprobs
    ratios = difference.exp()
    return {
        "mismatch/mean_logdiff": float(difference.abs().mean()),
        "mismatch/ratio_outside_10pct": float(((ratios < 0.9) | (ratios > 1.1)).float().mean()),
    }


def _importance_metrics(targets: Targets, config: TrainConfig) -> Metrics:
    """Return statistics of the truncated importance weights, if they are used."""
    weights = targets.importance[targets.loss_mask]
    if config.importance_cap is None or not uses_importance_weights(config, weights.device):
        return {}
    return {
        "mismatch/importance_mean": float(weights.mean()),
        "mismatch/importance_min": float(weights.min()),
        "mismatch/importance_cut_share": float((weights >= config.importance_cap).float().mean()),
    }


def _token_metrics(experience: Experience) -> Metrics:
    lengths = torch.tensor(experience.lengths, dtype=torch.float32)
    prompts = [row.acted.index(True) for row in experience.rows]
    num_acted = len(experience.tokens.rewards)
    return {
        "tokens/acted": float(num_acted),
        "tokens/read": float(lengths.sum()),
        "tokens/row_length_mean": float(lengths.mean()),
        "tokens/row_length_max": float(lengths.max()),
        "tokens/prompt_length_mean": sum(prompts) / len(prompts),
        "tokens/action_length_mean": num_acted / max(1, int(experience.tokens.ends_action.sum())),
    }


def critic_metrics(experience: Experience, targets: Targets, gamma: float) -> dict[str, float]:
    """Return metrics of the critic: ranges of values and returns, explained variances.

    That of the targets, which hold the critic's own values, and that of the Monte-Carlo returns,
    which do not: over all tokens and, where episodes have several turns, by turn, from 1. NaN
    where returns are constant.
    """
    loss_mask = targets.loss_mask
    metrics: dict[str, float] = {}
    series = {
        "values": targets.old_values,
        "returns": targets.returns,
        "advantages": targets.raw_advantages,
    }
    for name, tensor in series.items():
        selected = tensor[loss_mask]
        metrics[f"critic/{name}_mean"] = float(selected.mean())
        metrics[f"critic/{name}_min"] = float(selected.min())
        metrics[f"critic/{name}_max"] = float(selected.max())
    values, returns = targets.old_values, monte_carlo_returns(experience, targets, gamma)
    metrics["losses/explained_variance"] = explained_variance(
        values[loss_mask], targets.returns[loss_mask]
    )
    metrics[MONTE_CARLO] = explained_variance(values[loss_mask], returns[loss_mask])
    turns = experience.tokens.turn[loss_mask]
    return metrics | explained_variance_by_turn(
        MONTE_CARLO, values[loss_mask], returns[loss_mask], turns
    )


def explained_variance_by_turn(
    name: str, values: Tensor, returns: Tensor, turns: Tensor
) -> dict[str, float]:
    """Return the explained variance by turn, {name/turn_1: ..., ...}.

    Nothing where there is one turn alone.
    """
    found = sorted(set(turns.tolist()))
    explained = {
        f"{name}/turn_{turn}": explained_variance(values[turns == turn], returns[turns == turn])
        for turn in found
    }
    if len(found) < 2:
        return {}
    return {each: share for each, share in explained.items() if not math.isnan(share)}


def monte_carlo_returns(experience: Experience, targets: Targets, gamma: float) -> Tensor:
    """Return the Monte Carlo return of each token: discounted rewards from its action on, (N,).

    Discounted once an action (BAD); a truncated episode ends with its bootstrap value.
    """
    tokens = experience.tokens
    last = tokens.ends_action.nonzero().squeeze(1)  # of each action
    rewards = torch.zeros(len(last), dtype=torch.float64, device=last.device)
    rewards.index_add_(0, tokens.action, targets.rewards.double())
    episodes, bootstrap = tokens.episode[last].tolist(), targets.bootstrap[last].tolist()
    returns = rewards.tolist()
    for action in reversed(range(len(returns))):
        goes_on = action + 1 < len(returns) and episodes[action] == episodes[action + 1]
        after = returns[action + 1] if goes_on else bootstrap[action]
        returns[action] += gamma * after
    of_action = torch.tensor(returns, dtype=torch.float64, device=last.device)
    return of_action.to(targets.returns.dtype)[tokens.action]
