"""Per-token training targets, computed once per update."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

import torch
from torch import Tensor

from fctncalling.algorithms.algorithm import AdvantageEstimate, Algorithm, Trajectories
from fctncalling.algorithms.batch import Experience
from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.distributed.process_group import SINGLE_PROCESS, ProcessGroup
from fctncalling.algorithms.group_baseline import GROUP_BASELINES
from fctncalling.algorithms.learning_signal import pooled_return_std, whiten_by_spread
from fctncalling.algorithms.losses import Targets, kl_k1, log_ratio
from fctncalling.algorithms.minibatches import Minibatch, Passes, bootstrap_values
from fctncalling.algorithms.nan_guard import check_finite
from fctncalling.algorithms.policy.actor_critic import ActorCritic, Batch, TokenOutputs
from fctncalling.algorithms.policy.precision import uses_importance_weights
from fctncalling.algorithms.values import Values, ValueSource, WeightedValues


def make_value_source(config: TrainConfig) -> ValueSource:
    """Make the source of values that the settings ask for."""
    return WeightedValues() if config.lam is None else ValueSource()


def compute_targets(
    policy: ActorCritic,
    passes: Passes,
    minibatches: Sequence[Minibatch],
    algorithm: Algorithm,
    config: TrainConfig,
    generator: torch.Generator,
    processes: ProcessGroup = SINGLE_PROCESS,
    outputs: tuple[Tensor, Tensor] | None = None,
    source: ValueSource | None = None,  # None: one that has learned nothing
) -> Targets:
    """Compute the update's targets: old log-probs, values, advantages, loss weights.

    outputs: of `policy_outputs`, where several estimates are made of the same episodes.

    The forward passes run over the first epoch's own microbatches: same function, same shapes, so
    the ratio of the first optimiser step is 1 exactly and its KL 0.
    """
    if outputs is None:
        outputs = policy_outputs(policy, passes, minibatches, config, processes)
    old_logprobs, old_values = outputs
    check_finite("old_logprobs", old_logprobs)
    check_finite("old_values", old_values)
    reference = _reference_logprobs(policy, passes, minibatches, config, processes)
    experience = passes.experience
    spread = pooled_return_std(experience.trajectories(old_values), config.resolved_gamma)
    experience = _subtract_kl_penalties(experience, reference, old_logprobs, config)
    passes = passes._replace(experience=experience)
    bootstrap = bootstrap_values(policy, passes, algorithm, processes)
    of_critic = Values(old_values, bootstrap)
    source = make_value_source(config) if source is None else source
    values = source.values(experience, of_critic, config) if algorithm.critic else of_critic
    estimate = estimate_advantages(algorithm, experience, values, config)
    if config.overlong == "mask":  # a cut action teaches nothing; what came before it still does
        estimate = estimate._replace(loss_mask=estimate.loss_mask & ~experience.tokens.cut)
    check_finite("rewards", experience.tokens.rewards)
    check_finite("advantages", estimate.advantages)
    return Targets(
        old_logprobs=old_logprobs,
        old_values=old_values,
        values=values.at_tokens,
        lam=torch.full_like(old_values, torch.nan) if values.lam is None else values.lam,
        raw_advantages=estimate.advantages,
        advantages=_scaled_advantages(estimate, algorithm, config, spread, generator),
        returns=estimate.returns,
        loss_mask=estimate.loss_mask,
        loss_weights=_loss_weights(estimate.loss_mask, experience, config),
        reference_logprobs=reference,
        importance=_importance_weights(old_logprobs, experience, algorithm, config),
        rewards=experience.tokens.rewards,
        bootstrap=values.bootstrap[experience.tokens.episode],
    )


def _subtract_kl_penalties(
    experience: Experience, reference_logprobs: Tensor, old_logprobs: Tensor, config: TrainConfig
) -> Experience:
    """Subtract KL penalties from tokens' rewards: --kl_coef times the KL from the reference.

    The estimate adds them up.
    """
    if not config.kl_coef or config.kl_mode != "reward":
        return experience
    penalties = config.kl_coef * kl_k1(reference_logprobs - old_logprobs)
    tokens = experience.tokens
    return experience._replace(tokens=tokens._replace(rewards=tokens.rewards - penalties))


def _scaled_advantages(
    estimate: AdvantageEstimate,
    algorithm: Algorithm,
    config: TrainConfig,
    spread: float,
    generator: torch.Generator,
) -> Tensor:
    """Return the advantages that the policy is trained with, (N,).

    Whitened with --whiten_advantages; 0 where the returns of all episodes agree; permuted among
    tokens with --permute_advantages, the control experiment.
    """
    advantages = estimate.advantages
    if algorithm.critic and config.whiten_advantages:
        # Credit by states is centred by its make, and exactly 0 at most tokens.
        shift = config.group_baseline != "state"
        advantages = whiten_by_spread(advantages, estimate.loss_mask, spread, shift=shift)
    elif algorithm.critic and not spread:
        advantages = torch.zeros_like(advantages)
    if config.permute_advantages:
        advantages = _permuted(advantages, estimate.loss_mask, generator)
    return advantages


def policy_outputs(
    policy: ActorCritic,
    passes: Passes,
    minibatches: Sequence[Minibatch],
    config: TrainConfig,
    processes: ProcessGroup = SINGLE_PROCESS,
) -> tuple[Tensor, Tensor]:
    """Return the policy's outputs for all acted tokens: log-probabilities and values, (N,).

    Under the current weights.
    """

    def forward(batch: Batch) -> Tensor:
        outputs: TokenOutputs = policy(batch, temperature=config.temperature)
        return torch.stack((outputs.logprobs, outputs.values), -1)

    logprobs, values = token_figures(forward, passes, minibatches, processes, 2).unbind(-1)
    return logprobs.contiguous(), values.contiguous()


@torch.no_grad()
def token_figures(
    forward: Callable[[Batch], Tensor],  # -> (n, num_figures) of its acted tokens
    passes: Passes,
    minibatches: Sequence[Minibatch],
    processes: ProcessGroup,
    num_figures: int,
) -> Tensor:
    """Return the figures of all acted tokens, (N, num_figures), of the passes of all processes."""

    def run_pass(rows: list[int]) -> tuple[Tensor, Tensor]:
        batch, indices = passes.batch(rows)
        return indices, forward(batch).float()

    rewards = passes.experience.tokens.rewards
    figures = rewards.new_zeros(len(rewards), num_figures)
    processes.fill(figures, [*chain(*minibatches)], run_pass)
    return figures


def _reference_logprobs(
    policy: ActorCritic,
    passes: Passes,
    minibatches: Sequence[Minibatch],
    config: TrainConfig,
    processes: ProcessGroup,
) -> Tensor:
    """Return the reference model's log-probabilities of all acted tokens, (N,).

    0 without --kl_coef.
    """

    def forward(batch: Batch) -> Tensor:
        return policy.reference_logprobs(batch, temperature=config.temperature)[:, None]

    if not config.kl_coef:
        return torch.zeros_like(passes.experience.tokens.rewards)
    return token_figures(forward, passes, minibatches, processes, 1).squeeze(-1)


def estimate_advantages(
    algorithm: Algorithm,
    experience: Experience,
    values: Values,
    config: TrainConfig,
) -> AdvantageEstimate:
    """Estimate advantages with the algorithm, all fields flat, (N,)."""
    trajectories = experience.trajectories(*values)
    estimate = algorithm.estimate(trajectories, config)
    if config.has_own_algorithm:
        _check_estimate(estimate, trajectories, config)
    hashes = [episode.state_hashes for episode in experience.episodes]
    baseline = GROUP_BASELINES.get(config.group_baseline)
    if baseline is not None:
        estimate = baseline(estimate, trajectories, hashes, config.resolved_gamma)
    return AdvantageEstimate(
        **{name: field[trajectories.acted] for name, field in estimate._asdict().items()}
    )


def rehearse_estimate(algorithm: Algorithm, config: TrainConfig) -> None:
    """Estimate three made-up episodes; SettingError where an algorithm of one's own cannot.

    Before a run begins: its first update may be far away.
    """
    acted = torch.tensor([[True, True, True], [True, True, False], [True, True, True]])
    ends = torch.tensor([[True, False, True], [False, True, False], [True, False, True]])
    last = torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.5, 0.0], [0.0, 0.0, 0.0]])
    trajectories = Trajectories(
        rewards=last,
        values=0.25 * acted,
        acted=acted,
        ends_action=ends,
        bootstrap=torch.tensor([0.0, 0.0, 0.25]),  # the third was cut
        group=torch.tensor([0, 0, 1]),
    )
    try:
        estimate = algorithm.estimate(trajectories, config)
    except Exception as error:
        raise SettingError(
            f"--algorithm_name {config.algorithm_name}: its estimate fails on three made-up "
            f"episodes of up to three tokens: {type(error).__name__}: {error}"
        ) from error
    _check_estimate(estimate, trajectories, config)


def _check_estimate(
    estimate: AdvantageEstimate, trajectories: Trajectories, config: TrainConfig
) -> None:
    """Raise SettingError for an estimate of one's own that breaks its contract."""
    acted = trajectories.acted
    if not isinstance(estimate, AdvantageEstimate):
        raise SettingError(
            f"--algorithm_name {config.algorithm_name}: its estimate returned "
            f"{type(estimate).__name__}, expected AdvantageEstimate(advantages, returns, loss_mask)"
        )
    for name, field in estimate._asdict().items():
        masks = name == "loss_mask"
        what = f"{field.dtype} {tuple(field.shape)}" if isinstance(field, Tensor) else repr(field)
        if not isinstance(field, Tensor) or (field.shape, field.dtype == torch.bool) != (
            acted.shape,
            masks,
        ):
            fault = f"is {what:.60}, expected {'bool' if masks else 'floats'} (E, L), as acted is"
        elif not masks and (bad := int((~torch.isfinite(field[acted])).sum())):
            fault = f"has {bad} NaN or infinite entries where rewards and values are finite"
        elif masks and not field[acted].any():
            fault = "is false at all acted tokens: nothing can be learned"
        else:
            continue
        raise SettingError(
            f"--algorithm_name {config.algorithm_name}: its estimate's {name} {fault}; "
            f"{tuple(acted.shape)} here"
        )


def _importance_weights(
    old_logprobs: Tensor, experience: Experience, algorithm: Algorithm, config: TrainConfig
) -> Tensor:
    """Return truncated importance weights, (N,), of tokens, actions or rows as the ratio is.

    They multiply the clipped loss, whose ratio keeps the policy before the update as denominator
    (Hilton et al. 2021, arXiv:2110.00641). So a stale sampler or another engine is corrected for
    without using up the clip range. An unknown rollout log-probability (NaN) gives a log-ratio of
    0.
    """
    if config.importance_cap is None or not uses_importance_weights(config, old_logprobs.device):
        return torch.ones_like(old_logprobs)
    groups = experience.token_groups(torch.arange(len(old_logprobs), device=old_logprobs.device))
    sampled = experience.tokens.rollout_logprobs
    log_ratios = log_ratio(old_logprobs, sampled, mask=~sampled.isnan())
    return algorithm.log_ratio(log_ratios, groups, config).exp().clamp(max=config.importance_cap)


def loss_divisor(targets: Targets, experience: Experience, config: TrainConfig) -> float:
    """Return the divisor of the loss, by --loss_aggregation: one number for the update.

    A minibatch is a random share of the rows, so some hold more tokens than others. Divided by its
    own number of tokens, every minibatch would weigh the same, and a token among short rows more
    than one among long rows (measured: 1.8 times). Divided by the mean number of tokens per
    minibatch, every token weighs the same: the mean of the minibatches' gradients is the gradient
    of the mean over the whole update, whichever rows share a minibatch. With action_mean and
    row_mean the same holds for actions and rows. All microbatches and processes use this one
    number, so splitting changes nothing.

    token_sum is Dr. GRPO's (arXiv:2503.20783): the sum over each row divided by a constant, not by
    a length that the policy itself decides. The authors take the longest generation; a row here
    may hold several, so it is --max_episode_tokens.
    """
    num_minibatches = min(config.num_mini_batch, len(experience.rows))
    if config.loss_aggregation != "token_sum":
        return float(targets.loss_weights.sum()) / num_minibatches
    return config.max_episode_tokens * len(experience.rows) / num_minibatches


def _permuted(advantages: Tensor, loss_mask: Tensor, generator: torch.Generator) -> Tensor:
    """Return the advantages (N,) shuffled among the tokens of loss_mask."""
    indices = loss_mask.nonzero().squeeze(1)
    order = torch.randperm(len(indices), generator=generator).to(indices.device)
    return advantages.index_put((indices,), advantages[indices[order]])


def _loss_weights(loss_mask: Tensor, experience: Experience, config: TrainConfig) -> Tensor:
    """Return the weight of each token, (N,); a loss is sum(weight * loss) / `loss_divisor`."""
    weights = loss_mask.float()
    if config.loss_aggregation in ("token_mean", "token_sum"):
        return weights
    group = experience.tokens.row
    if config.loss_aggregation == "action_mean":
        group = experience.tokens.action
    sizes = torch.zeros(len(loss_mask), device=weights.device).index_add_(0, group, weights)
    return weights / sizes[group].clamp(min=1.0)
