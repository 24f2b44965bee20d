"""Per-token training targets, computed once per update."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fctncalling.algorithms import losses
from fctncalling.algorithms.algorithm import AdvantageEstimate, Algorithm, Trajectories
from fctncalling.algorithms.batch import Experience, Minibatch, make_batch, microbatches
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.distributed.process_group import SINGLE_PROCESS, ProcessGroup
from fctncalling.algorithms.learning_signal import outcome_spread, scaled
from fctncalling.algorithms.nan_guard import check_finite
from fctncalling.algorithms.policy.actor_critic import ActorCritic, TokenOutputs
from fctncalling.algorithms.policy.precision import corrects_sampling


class Targets(NamedTuple):
    """One number an acted token in every field, (N,), fixed for the whole update."""

    old_logprobs: Tensor
    old_values: Tensor
    raw_advantages: Tensor  # before whitening; 0 where the token does not count
    advantages: Tensor  # 0 everywhere where nothing can be learned: the policy is to stand still
    returns: Tensor
    loss_mask: Tensor  # bool, the token enters the losses
    loss_weights: Tensor  # the token's share in the mean that a loss is
    reference_logprobs: Tensor  # 0 where no reference is asked for
    # weight of the policy's loss: pi before the update / pi as sampled, cut; 1 where they are one
    importance: Tensor

    def at(self, numbers: Tensor) -> Targets:
        """Return the targets of the tokens of these numbers."""
        return Targets(**{name: field[numbers] for name, field in self._asdict().items()})


def compute_targets(
    policy: ActorCritic,
    experience: Experience,
    minibatches: Sequence[Minibatch],
    algorithm: Algorithm,
    config: TrainConfig,
    generator: torch.Generator,
    processes: ProcessGroup = SINGLE_PROCESS,
) -> Targets:
    """Compute old log-probs, values, advantages and loss weights for the update.

    The forward passes run over the first epoch's own microbatches: same function, same shapes, so
    the ratio of the first optimiser step is 1 exactly and its KL 0.
    """
    old_logprobs, old_values = _read_policy(policy, experience, minibatches, config, processes)
    check_finite("old_logprobs", old_logprobs)
    check_finite("old_values", old_values)
    reference = _read_reference(policy, experience, minibatches, config, processes)
    spread = outcome_spread(_timelines(experience, old_values, None), config.discount)
    if config.kl_coef and config.kl_mode == "reward":  # a token's own; the estimate adds them up
        penalties = config.kl_coef * losses.kl_k1(reference - old_logprobs)
        tokens = experience.tokens
        experience = experience._replace(tokens=tokens._replace(rewards=tokens.rewards - penalties))
    bootstrap = _bootstrap(policy, experience, config, processes) if algorithm.critic else None
    estimate = _estimate(algorithm, experience, old_values, bootstrap, config)
    if config.overlong == "mask":  # a cut action teaches nothing; what came before it still does
        estimate = estimate._replace(counted=estimate.counted & ~experience.tokens.cut)
    check_finite("rewards", experience.tokens.rewards)
    check_finite("advantages", estimate.advantages)
    return Targets(
        old_logprobs=old_logprobs,
        old_values=old_values,
        raw_advantages=estimate.advantages,
        advantages=_scaled_advantages(estimate, algorithm, config, spread, generator),
        returns=estimate.returns,
        loss_mask=estimate.counted,
        loss_weights=_weights(estimate.counted, experience, config),
        reference_logprobs=reference,
        importance=_importance(old_logprobs, experience, algorithm, config),
    )


def _scaled_advantages(
    estimate: AdvantageEstimate,
    algorithm: Algorithm,
    config: TrainConfig,
    spread: float,
    generator: torch.Generator,
) -> Tensor:
    """Return the advantages that the policy is trained with, (N,): whitened where asked for, 0
    where no episode earned otherwise than the others, permuted in the control experiment.
    """
    advantages = estimate.advantages
    if algorithm.critic and config.whiten_advantages:
        advantages = scaled(advantages, estimate.counted, spread)
    elif algorithm.critic and not spread:
        advantages = torch.zeros_like(advantages)
    if config.permute_advantages:
        advantages = _permuted(advantages, estimate.counted, generator)
    return advantages


@torch.no_grad()
def _read_policy(
    policy: ActorCritic,
    experience: Experience,
    minibatches: Sequence[Minibatch],
    config: TrainConfig,
    processes: ProcessGroup,
) -> tuple[Tensor, Tensor]:
    """Return log-probabilities and values of all acted tokens, both (N,), under the weights as they
    are.
    """

    def read(rows: list[int]) -> tuple[Tensor, TokenOutputs]:
        batch, numbers = experience.batch(rows)
        return numbers, policy(*batch, temperature=config.temperature)

    logprobs = torch.zeros_like(experience.tokens.rewards)
    values = torch.zeros_like(logprobs)
    for minibatch in minibatches:
        for numbers, outputs in processes.for_each_microbatch(minibatch, read):
            logprobs[numbers] = outputs.logprobs
            values[numbers] = outputs.values
    processes.all_reduce(logprobs, values)
    return logprobs, values


def _read_reference(
    policy: ActorCritic,
    experience: Experience,
    minibatches: Sequence[Minibatch],
    config: TrainConfig,
    processes: ProcessGroup,
) -> Tensor:
    """Return the reference's log-probabilities of all acted tokens, (N,); 0 where --kl_coef does
    not ask for them.
    """

    def read(rows: list[int]) -> tuple[Tensor, Tensor]:
        batch, numbers = experience.batch(rows)
        return numbers, policy.reference_logprobs(*batch, temperature=config.temperature)

    logprobs = torch.zeros_like(experience.tokens.rewards)
    for minibatch in minibatches if config.kl_coef else ():
        for numbers, found in processes.for_each_microbatch(minibatch, read):
            logprobs[numbers] = found
    processes.all_reduce(logprobs)
    return logprobs


@torch.no_grad()
def _bootstrap(
    policy: ActorCritic, experience: Experience, config: TrainConfig, processes: ProcessGroup
) -> Tensor:
    """Return the value after the last token of each episode, (E,); 0 where it terminated: nothing
    comes after.
    """
    values = torch.zeros(len(experience.episodes), device=experience.tokens.rewards.device)
    cut = [index for index, episode in enumerate(experience.episodes) if not episode.terminated]
    if not (cut and config.truncation_bootstrap):
        return values
    last_rows = [experience.episodes[index].rows[-1] for index in cut]
    lengths = [len(row.ids) for row in last_rows]

    def read(members: list[int]) -> tuple[list[int], Tensor]:
        batch = make_batch([last_rows[member] for member in members], device=values.device)
        columns = torch.tensor([lengths[member] - 1 for member in members], device=values.device)
        ends = policy.values_at(batch.ids, batch.attention_mask, columns)
        return [cut[member] for member in members], ends

    groups = microbatches(lengths, max_tokens=config.max_microbatch_tokens)
    for indices, ends in processes.for_each_microbatch(groups, read):
        values[indices] = ends
    processes.all_reduce(values)
    return values


def _estimate(
    algorithm: Algorithm,
    experience: Experience,
    values: Tensor,
    bootstrap: Tensor | None,
    config: TrainConfig,
) -> AdvantageEstimate:
    """Return the algorithm's estimate, flat (N,)."""
    timelines = _timelines(experience, values, bootstrap)
    estimate = algorithm.estimate(timelines, config)
    return AdvantageEstimate(
        **{name: field[timelines.acted] for name, field in estimate._asdict().items()}
    )


def _timelines(experience: Experience, values: Tensor, bootstrap: Tensor | None) -> Trajectories:
    """Return the acted tokens of each episode, end to end.

    So a row an episode and a row a step are one case, and context never enters.
    """
    tokens = experience.tokens
    per_episode = torch.bincount(tokens.episode, minlength=len(experience.episodes))  # (E,)
    acted = (
        torch.arange(int(per_episode.max()), device=values.device) < per_episode[:, None]
    )  # (E, L)

    def laid_out(flat: Tensor) -> Tensor:
        return torch.zeros(acted.shape, dtype=flat.dtype, device=flat.device).masked_scatter_(
            acted, flat
        )

    return Trajectories(
        laid_out(tokens.rewards),
        laid_out(values),
        acted,
        laid_out(tokens.ends_action),
        bootstrap=torch.zeros_like(values[: len(acted)]) if bootstrap is None else bootstrap,
        group=experience.groups(),
    )


def _importance(
    old_logprobs: Tensor, experience: Experience, algorithm: Algorithm, config: TrainConfig
) -> Tensor:
    """Return truncated importance weights, (N,), of what the algorithm has a ratio of: tokens,
    actions or rows.

    They stand beside the clipped ratio, whose denominator stays the policy before the update
    (Hilton et al. 2021, arXiv:2110.00641): an old or a foreign sampler is made up for, and does not
    use up the clip range. A token whose probability as sampled nobody knows (NaN) counts as sampled
    by the policy itself.
    """
    if config.importance_cap is None or not corrects_sampling(config, old_logprobs.device):
        return torch.ones_like(old_logprobs)
    spans = experience.spans(torch.arange(len(old_logprobs), device=old_logprobs.device))
    sampled = experience.tokens.rollout_logprobs
    log_ratios = losses.log_ratio(old_logprobs, sampled, mask=~sampled.isnan())
    return algorithm.log_ratio(log_ratios, spans, config).exp().clamp(max=config.importance_cap)


def loss_divisor(targets: Targets, experience: Experience, config: TrainConfig) -> float:
    """Return what the sum of a minibatch's weighted losses is divided by: one number an update.

    A minibatch is a random share of the rows, so some hold more tokens than others. Divided by its
    own number of tokens, each would weigh alike, and a token among short rows more than one among
    long ones (measured: 1.8 times). Divided by the update's number of tokens a minibatch, every
    token weighs the same: the mean of the minibatches' gradients is the gradient of the whole
    update's mean, however rows fall, and a minibatch of more tokens has the longer gradient. With
    action_mean and row_mean the same holds of actions and rows. Microbatches and processes share
    the one number, so they change nothing.

    token_sum is Dr. GRPO's (arXiv:2503.20783): each row's sum over a constant, not over a length
    that the policy itself decides. The authors take the longest generation; here a row may hold
    several of them, --max_episode_tokens at most.
    """
    num_minibatches = min(config.num_mini_batch, len(experience.rows))
    if config.loss_aggregation != "token_sum":
        return float(targets.loss_weights.sum()) / num_minibatches
    constant = config.loss_token_divisor or config.max_episode_tokens
    return constant * len(experience.rows) / num_minibatches


def _permuted(advantages: Tensor, counted: Tensor, generator: torch.Generator) -> Tensor:
    """Return the counted advantages in random order among the counted tokens."""
    places = counted.nonzero().squeeze(1)
    order = torch.randperm(len(places), generator=generator).to(places.device)
    return advantages.index_put((places,), advantages[places[order]])


def _weights(counted: Tensor, experience: Experience, config: TrainConfig) -> Tensor:
    """Return the weight of each token, (N,), such that a loss is sum(weight * loss) /
    `loss_divisor`.
    """
    weights = counted.float()
    if config.loss_aggregation in ("token_mean", "token_sum"):
        return weights
    group = (
        experience.tokens.action
        if config.loss_aggregation == "action_mean"
        else experience.tokens.row
    )
    sizes = torch.zeros(len(counted), device=weights.device).index_add_(0, group, weights)
    return weights / sizes[group].clamp(min=1.0)
