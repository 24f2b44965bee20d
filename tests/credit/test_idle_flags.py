"""Idle flags: each setting of the update changes what is learned, or is named as idle."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Iterable
from typing import Any

import pytest
import torch
from token_worlds import episode, policy_with_values, settings, targets_of

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.ppo import make_optimisers, update
from fctncalling.algorithms.supervised.critic_fit import critic_samples, fit_critic
from fctncalling.algorithms.targets import make_value_source
from fctncalling.algorithms.values import NUM_FEATURES, WeightedValues
from fctncalling.cli.idle_flags import idle_flag_notes
from fctncalling.training.run_config import RunConfig

torch.set_num_threads(1)

OTHER_VALUES: dict[str, Any] = {
    "gamma": 0.5,
    "lam": 0.3,
    "lam_value": 0.2,
    "gamma_token": 0.5,
    "lam_token": 0.5,
    "truncation_bootstrap": False,
    "whiten_advantages": False,
    "reward_scale": 2.0,
    "permute_advantages": True,
    "action_logprob_norm": "sum",
    "group_credit": "step",
    "group_std": False,
    "sequence_ratio": True,
    "ppo_epoch": 1,
    "num_mini_batch": 1,
    "lr": 1e-3,
    "critic_lr": 1e-3,
    "adam_beta1": 0.5,
    "adam_beta2": 0.5,
    "adam_eps": 1e-3,
    "weight_decay": 0.1,
    "max_grad_norm": 0.01,
    "entropy_coef": 0.1,
    "target_kl": 1e-6,
    "loss_aggregation": "row_mean",
    "value_coef": 2.0,
    "value_clip": 1e-3,
    "huber_delta": 1e-2,
    "critic_detach": True,
}
"""Setting of an update -> another value.

The rest shape the model, the run or the passes alone, or clip what tests/algorithms/test_losses.py
shows.
"""

OF_CREDIT = ("gamma", "lam", "lam_value", "gamma_token", "lam_token", "group_std", "target_kl")
OTHERS = (
    {"group_baseline": "state"},
    *({"algorithm_name": name} for name in ("TPPO", "POAD", "NTPO", "APPO", "GRPO")),
    *({"algorithm_name": name, "group_baseline": "state"} for name in ("NTPO", "APPO")),
    *({"group_baseline": baseline} for baseline in ("leave_one_out",)),
    *({"critic_window_updates": 2}, {"value_coef": 0.0}, {"permute_advantages": True}),
    {"group_baseline": "state", "critic_window_updates": 2},
)


def grouped_episodes() -> list[EpisodeRecord]:
    """Return four groups of two: several actions, rewards between, shared states, a cut."""
    found = []
    for task, number in itertools.product("abcd", range(2)):
        size = 2 + number + ord(task) % 3
        last = (2, float(number == 0) - 0.3 * ord(task) % 1)
        actions = [(size, 0.2 * number), (3, 0.0), last][task == "d" :]  # not all have as many
        record = episode(actions, terminated=number == 0)
        row = record.rows[0]  # what earns more says something else, so that ratios rise and fall
        row.ids = [
            (token + 6 * number) % 16 if acted else token
            for token, acted in zip(row.ids, row.acted, strict=True)
        ]
        record.task_id, record.env_seed = task, 1
        record.state_hashes = [task, f"{task}{number}", f"{task} again"][: len(actions)]
        found.append(record)
    return found


def learned(config: TrainConfig) -> torch.Tensor:
    """Return all weights after an update, and a fit of the value head where the run makes one."""
    policy = copy.deepcopy(POLICY)
    policy.critic_detach = config.detaches_critic
    at_update = config
    if config.critic_window_updates:  # as `TrainingRun._update` has it
        at_update = dataclasses.replace(config, value_coef=0.0)
    episodes, generator = grouped_episodes(), torch.Generator().manual_seed(1)
    source = make_value_source(config)
    if isinstance(source, WeightedValues):  # a later update's, whose values have a weight
        moments = torch.zeros(NUM_FEATURES, NUM_FEATURES + 1)
        moments[0, 0] = moments[0, -1] = 1.0  # of the features, the critic's value
        sums = {turn: [0.5, 1.0, 0.5, 1.0] for turn in range(9)}
        source.load_state({"sums": sums, "moments": moments.tolist()})
    update(policy, make_optimisers(policy, config), episodes, at_update, generator, source=source)
    if config.critic_window_updates:
        samples = critic_samples(policy, episodes, config)
        fit_critic(policy.value_head, [samples], config, generator)
    return torch.cat([each.detach().flatten() for each in policy.parameters()])


POLICY = policy_with_values()
START = {
    "num_mini_batch": 2,
    "ppo_epoch": 2,
    "lr": 2e-3,
    "critic_lr": 0.02,
    "group_size": 2,
    "episodes_per_update": 8,
    "max_episode_tokens": 64,
    "max_new_tokens": 8,
}


def told(config: TrainConfig, flag: str) -> str:
    """Return what is told of a given flag; nothing where it has its effect."""
    try:
        return " ".join(
            note for note in idle_flag_notes(config, RunConfig(), {flag}) if " without " in note
        )
    except SettingError as refusal:
        return str(refusal)


def check_flags(changes: dict[str, Any], flags: Iterable[str]) -> None:
    start = settings(**(START | changes))
    plain, targets = learned(start), targets_of(POLICY, grouped_episodes(), start)
    wrong = []
    for flag in flags:
        config = dataclasses.replace(start, **{flag: OTHER_VALUES[flag]})
        if config == start:
            continue
        moves = not torch.equal(learned(config), plain)
        said = told(config, flag)
        credit = targets_of(POLICY, grouped_episodes(), config).advantages
        alone = "critic's targets alone" in said
        if moves != (not said or alone) or (alone and not torch.equal(credit, targets.advantages)):
            wrong.append((flag, moves, said))
    assert wrong == []


def test_a_setting_of_state_credit_moves_the_update_or_is_named() -> None:
    check_flags({"group_baseline": "state"}, OF_CREDIT)


@pytest.mark.prove
@pytest.mark.parametrize("changes", OTHERS, ids=str)
def test_every_setting_of_the_update_moves_it_or_is_named(changes: dict[str, Any]) -> None:
    check_flags(changes, OTHER_VALUES)


def test_relatives_that_state_credit_makes_one_are_named() -> None:
    credit = {}
    for name in ("TPPO", "POAD", "NTPO", "APPO"):
        config = settings(**START, algorithm_name=name, group_baseline="state")
        credit[name] = targets_of(POLICY, grouped_episodes(), config).advantages
        is_tppo = name != "TPPO" and torch.equal(credit[name], credit["TPPO"])
        assert bool(told(config, "algorithm_name")) == is_tppo
