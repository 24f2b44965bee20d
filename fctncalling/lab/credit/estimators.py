"""Advantages of every estimator at each action of the graded episodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from fctncalling.algorithms.batch import Experience, build_experience
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.config.running_settings import ALGORITHM_NAMES
from fctncalling.algorithms.minibatches import make_passes
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.ppo import find_algorithm
from fctncalling.algorithms.targets import compute_targets, make_value_source, policy_outputs
from fctncalling.lab.credit.ruler import BranchedTruth, Vector, returns_to_go

LAMBDAS = (0.0, 0.5, 0.95, 1.0)


def trainer_estimators(config: TrainConfig) -> dict[str, TrainConfig]:
    """Return the trainer's estimators by name, at the run's gamma and lambda or variants."""
    plain = replace(
        config,
        gamma=config.resolved_gamma,
        group_baseline="none",
        kl_coef=0.0,
        permute_advantages=False,
        group_credit="episode",
        critic_warmup_episodes=0,
        critic_window_updates=0,
        init_critic_from=None,
    )
    names = dict.fromkeys((*ALGORITHM_NAMES, config.algorithm_name))  # the run's may be one's own
    estimators = {name: replace(plain, algorithm_name=name) for name in names}
    estimators |= {
        f"TPPO_lambda_{lam:g}": replace(plain, algorithm_name="TPPO", lam=lam) for lam in LAMBDAS
    }
    estimators |= {
        f"TPPO_{baseline}": replace(plain, algorithm_name="TPPO", group_baseline=baseline)
        for baseline in ("leave_one_out", "state")
    }
    estimators["GRPO_step"] = replace(plain, algorithm_name="GRPO", group_credit="step")
    return estimators


def trainer_advantages(
    policy: ActorCritic,
    truth: BranchedTruth,
    config: TrainConfig,
    of_run: Mapping[str, Any] | None = None,  # what the run's source of values had learned
) -> tuple[dict[str, list[Vector]], list[Vector]]:
    """Return advantages by estimator at the actions of each episode, and the critic's values.

    They come from the trainer's own `compute_targets`, as an update takes them before whitening.
    """
    device = next(policy.parameters()).device
    experience = build_experience(truth.episodes, device)
    passes = make_passes(experience, policy, config)
    generator = torch.Generator().manual_seed(config.seed)
    minibatches = passes.minibatches(generator)
    outputs = policy_outputs(policy, passes, minibatches, config)
    critic = _at_actions(outputs[1], experience)
    advantages: dict[str, list[Vector]] = {}
    for name, settings in trainer_estimators(config).items():
        algorithm = find_algorithm(settings.algorithm_name)
        parts = (policy, passes, minibatches, algorithm, settings, generator)
        source = make_value_source(settings)
        if of_run and (settings.lam, settings.critic) == (config.lam, config.critic):
            source.load_state(dict(of_run))
        targets = compute_targets(*parts, outputs=outputs, source=source)
        advantages[name] = _at_actions(targets.raw_advantages, experience)
    return advantages, critic


def _at_actions(tokens: torch.Tensor, experience: Experience) -> list[Vector]:
    """Return a token quantity (N,) at the first token of each action, episode by episode."""
    action = experience.tokens.action
    first = torch.ones_like(action, dtype=torch.bool)
    first[1:] = action[1:] != action[:-1]
    episode = experience.tokens.episode[first].cpu().numpy()
    values = tokens[first].detach().double().cpu().numpy()
    return [values[episode == number] for number in range(len(experience.episodes))]


def leave_one_out_group_values(truth: BranchedTruth) -> dict[str, list[Vector]]:
    """Return state values from the other episodes of each group.

    siblings: mean return of the group's others; state: mean return to go of the others' visits of
    the same state, the siblings' mean where there is none.
    """
    togo = [returns_to_go(rewards, truth.discount) for rewards in truth.rewards]
    groups: dict[Any, list[int]] = defaultdict(list)
    visits: dict[Any, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for number, episode in enumerate(truth.episodes):
        groups[episode.group_key].append(number)
        for snapshot, later in zip(truth.snapshots[number], togo[number], strict=True):
            visits[episode.group_key, snapshot.state_hash][number].append(float(later))
    overall = float(np.mean([values[0] for values in togo]))
    siblings, state, matched = [], [], []
    for number, episode in enumerate(truth.episodes):
        others = [togo[peer][0] for peer in groups[episode.group_key] if peer != number]
        mean = float(np.mean(others)) if others else overall
        siblings.append(np.full(len(togo[number]), mean))
        at = []  # of each state the other episodes' visits, each episode with equal weight
        for snapshot in truth.snapshots[number]:
            of_state = visits[episode.group_key, snapshot.state_hash].items()
            at.append([float(np.mean(returns)) for peer, returns in of_state if peer != number])
        state.append(np.asarray([float(np.mean(others)) if others else mean for others in at]))
        matched.append(np.asarray([float(bool(others)) for others in at]))
    constant = [np.full(len(values), overall) for values in togo]
    return {"constant": constant, "siblings": siblings, "state": state, "matched": matched}


def one_step_and_placebo_advantages(
    truth: BranchedTruth, values: dict[str, list[Vector]], tppo_advantages: Sequence[Vector]
) -> dict[str, list[Vector]]:
    """Compute one-step and placebo advantages, without a pass of the trainer.

    `tppo_advantages` are those that the placebo "shuffled" deals out anew.
    """
    togo = [returns_to_go(rewards, truth.discount) for rewards in truth.rewards]
    lengths = _token_counts(truth)
    generator = np.random.default_rng(0)
    pooled = generator.permutation(np.concatenate(tppo_advantages))
    # r + discount V(s') - V(s) where both states have other visits; after the last none need match
    is_known = [at * np.append(at[1:], 1.0) for at in values["matched"]]
    state_pairs = zip(truth.advantages(values["state"]), is_known, strict=True)
    shuffled = np.split(pooled, np.cumsum([len(values) for values in togo])[:-1])
    return {
        "leave_one_out": [
            np.full(len(later), later[0] - mean[0])
            for later, mean in zip(togo, values["siblings"], strict=True)
        ],
        "state_matched": [advantages * speaks for advantages, speaks in state_pairs],
        "state_else_return": _one_step_else_return(truth, togo, values["state"], values["matched"]),
        "monte_carlo": [later - value for later, value in zip(togo, values["critic"], strict=True)],
        "critic_one_step": truth.advantages(values["critic"]),
        "constant": [np.ones(len(values)) for values in togo],
        "position": [-np.arange(len(values), dtype=np.float64) for values in togo],
        "length": [-length for length in lengths],
        "shuffled": list(shuffled),
    }


def _one_step_else_return(
    truth: BranchedTruth,
    togo: Sequence[Vector],
    values: Sequence[Vector],
    matched: Sequence[Vector],
) -> list[Vector]:
    """Return r + discount V(s') - V(s); the episode's return replaces an unmatched V(s')."""
    advantages = []
    for rewards, later, at, matches in zip(truth.rewards, togo, values, matched, strict=True):
        behind = np.where(matches > 0, at, later)[1:]
        advantages.append(rewards + truth.discount * np.append(behind, 0.0) - at)
    return advantages


def _token_counts(truth: BranchedTruth) -> list[Vector]:
    """Return the number of sampled tokens of each action."""
    counts = []
    for episode in truth.episodes:
        lengths, current = [], 0
        for row in episode.rows:
            for acted, ends in zip(row.acted, row.ends_action, strict=True):
                current += bool(acted)
                if ends:
                    lengths.append(float(current))
                    current = 0
        counts.append(np.asarray(lengths))
    return counts
