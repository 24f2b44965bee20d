"""Trainer on the output of `TextEnvironment.run`, one `step` per batch of episodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord, TokenRecord
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.ppo import learning_rates, make_optimisers, set_learning_rates, update
from fctncalling.algorithms.targets import make_value_source
from fctncalling.lab.text_environment.raw_text import language_model
from fctncalling.training.counters import Counters

Ids = Tensor | Sequence[int]


class TextTrainer:
    """This project's update with the interface of TRL's PPOTrainer.

    `config`: any TrainConfig; `algorithm_name` is TPPO where it says nothing else. `model`: an
    ActorCritic, or a causal language model, which gets a value head and learns in place.
    `ref_model`: what `kl_coef` holds the policy to. Each `step` is an update: it counts for the
    learning rates' warm-up and schedule, which ends after `num_updates` steps. Until
    `critic_warmup_episodes` have come the critic learns alone, and no step counts;
    `critic_window_updates` has no effect.
    """

    def __init__(
        self,
        config: TrainConfig | None = None,
        model: Any = None,
        ref_model: Any = None,
        tokenizer: Any = None,
    ) -> None:
        self.config = config or TrainConfig(kl_coef=0.0)
        self.tokenizer = tokenizer
        self.policy: ActorCritic = model
        if not isinstance(model, ActorCritic):
            shape, detached = self.config.critic_shape, self.config.detaches_critic
            self.policy = ActorCritic(language_model(model), **shape, critic_detach=detached)
        if ref_model is not None:
            self.policy.set_reference(language_model(ref_model))
        elif self.config.kl_coef:
            fault = "kl_coef is above 0: pass the ref_model that the policy is to be held to"
            raise ValueError(fault)
        self.optimisers = make_optimisers(self.policy, self.config)
        self.counters = Counters()
        self.values = make_value_source(self.config)
        self._generator = torch.Generator().manual_seed(self.config.seed)

    def step(
        self,
        queries: Sequence[Ids],
        responses: Sequence[Ids],
        scores: Sequence[Any],
        response_masks: Sequence[Ids] | None = None,
        *,
        logprobs: Sequence[Sequence[float]] | None = None,
        truncated: Sequence[bool] | None = None,
    ) -> dict[str, float]:
        """Learn from a batch of episodes once and return the update's metrics.

        `response_masks`: 1 where the policy wrote a token; none: it wrote all of them. A score of
        NaN or None marks an episode to leave out. `logprobs`: as sampled, one a token of query and
        response, for the figures on how far sampling and learning agree. `truncated`: whether a
        limit cut the episode (`TextHistory.truncated`), which then goes on with the critic's value
        at its end; none: all came to theirs. Raises ValueError if lengths do not fit, or nothing
        is left to learn from.
        """
        masks = response_masks
        masks = [[1] * len(response) for response in responses] if masks is None else masks
        cut = truncated if truncated is not None else [False] * len(queries)
        if not len(queries) == len(responses) == len(scores) == len(masks) == len(cut):
            raise ValueError(
                f"step: {len(queries)} queries, {len(responses)} responses, {len(scores)} scores, "
                f"{len(masks)} masks, {len(cut)} of truncated: expected as many of each"
            )
        sampled: Sequence[Any] = logprobs if logprobs is not None else [None] * len(queries)
        parts = zip(queries, responses, scores, masks, sampled, cut, strict=True)
        episodes = [_episode(*part) for part in parts]
        rates = learning_rates(self.config, self.counters.updates)
        set_learning_rates(self.optimisers, rates)
        alone = self.counters.critic_episodes < self.config.critic_warmup_episodes
        self.counters.critic_episodes += len(episodes)
        optimisers = self.optimisers._replace(policy=None) if alone else self.optimisers
        learned = (self.policy, optimisers, episodes, self.config, self._generator)
        metrics = update(*learned, source=self.values)
        self.counters.updates += not alone
        if logprobs is None:
            for name in [name for name in metrics if name.startswith("mismatch/")]:
                del metrics[name]
        returns = [episode.episode_return for episode in episodes if not episode.invalid]
        rate = 0.0 if alone else rates[0]
        mean = sum(returns) / len(returns)
        return {"env/reward_mean": mean, "charts/learning_rate": rate, **metrics}


def _episode(
    query: Ids,
    response: Ids,
    score: Any,
    mask: Ids,
    logprobs: Sequence[float] | None,
    truncated: bool,
) -> EpisodeRecord:
    """Convert an episode to a training record; an action is the text between two results."""
    before, after = _ids(query), _ids(response)
    acted = [False] * len(before) + [bool(flag) for flag in _ids(mask)]
    if len(acted) != len(before) + len(after):
        raise ValueError(
            f"step: a mask has {len(acted) - len(before)} entries for {len(after)} response tokens"
        )
    ends = [here and not behind for here, behind in zip(acted, [*acted[1:], False], strict=True)]
    reward = math.nan if score is None else float(score)
    rewards = [0.0] * len(acted)
    if any(ends) and not math.isnan(reward):
        rewards[len(ends) - 1 - ends[::-1].index(True)] = reward
    values = list(logprobs) if logprobs is not None else [math.nan] * len(acted)
    sampled = [float(value) if here else 0.0 for value, here in zip(values, acted, strict=True)]
    row = TokenRecord(before + after, acted, ends, sampled, rewards)
    return EpisodeRecord(
        task_id=" ".join(map(str, before)),  # GRPO compares episodes of one query
        category="tool_text",
        rows=[row],
        terminated=not truncated,
        truncated=bool(truncated),
        invalid=math.isnan(reward),
        success=reward > 0,
        episode_return=0.0 if math.isnan(reward) else reward,
        num_steps=sum(ends),
    )


def _ids(values: Ids) -> list[int]:
    return [int(value) for value in (values.tolist() if isinstance(values, Tensor) else values)]
