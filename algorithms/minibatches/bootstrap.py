"""Bootstrap values of truncated episodes."""

from __future__ import annotations

import torch
from torch import Tensor

from fctncalling.algorithms.algorithm import Algorithm
from fctncalling.algorithms.batch import Experience, make_batch, whole_ids
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.distributed.process_group import ProcessGroup
from fctncalling.algorithms.minibatches.padded_rows import microbatches
from fctncalling.algorithms.minibatches.plan import split_by
from fctncalling.algorithms.policy.actor_critic import ActorCritic


@torch.no_grad()
def bootstrap_values(
    policy: ActorCritic,
    experience: Experience,
    algorithm: Algorithm,
    config: TrainConfig,
    processes: ProcessGroup,
) -> Tensor:
    """Return the bootstrap value after the last token of each truncated episode, (E,).

    0 where it terminated, or without a critic.

    A role of a team that was not to act next ends with an action of its own, and no value is
    learned behind one. It goes on from the value before its last token: what it earned with that
    and the discounted bootstrap value come to this value.
    """
    values = torch.zeros(len(experience.episodes), device=experience.tokens.rewards.device)
    cut = [index for index, episode in enumerate(experience.episodes) if not episode.terminated]
    if not (cut and config.truncation_bootstrap and algorithm.critic):
        return values
    sharing = experience.sharing

    def forward(indices: list[int]) -> tuple[list[int], Tensor]:
        rows = [experience.critic_row(index) for index in indices]
        batch = make_batch(rows, device=values.device)
        tree = sharing.tree(whole_ids(rows)).to(values.device) if sharing is not None else None
        before = [_ends_in_own_action(experience, index) for index in indices]
        last = [len(row.ids) - 1 - own for row, own in zip(rows, before, strict=True)]
        columns = torch.tensor(last, device=values.device)
        read = (batch.ids, batch.attention_mask, columns, tree)
        return indices, policy.values_at(*read, experience.role_of_episode(indices[0]))

    of_role = split_by(cut, experience.role_of_episode)
    groups = [group for own in of_role for group in _groups(experience, own, config)]
    for indices, ends in processes.for_each_microbatch(groups, forward):
        values[indices] = ends
    processes.all_reduce(values)
    for index in cut:
        if _ends_in_own_action(experience, index):
            earned = experience.tokens.rewards[experience.tokens.episode == index][-1]
            values[index] = (values[index] - earned) / config.discount if config.discount else 0.0
    return values


def _ends_in_own_action(experience: Experience, episode: int) -> bool:
    """Whether a role's part of an episode ends with an action of its own, as its critic reads it.

    Another role was to act next.
    """
    apart = bool(experience.episodes[episode].role) and experience.joint_rows is None
    return apart and bool(experience.last_row(episode).acted[-1])


def _groups(experience: Experience, episodes: list[int], config: TrainConfig) -> list[list[int]]:
    """Return episodes in groups whose last rows pass through the model together."""
    rows, limit = [experience.critic_row(index) for index in episodes], config.max_microbatch_tokens
    if experience.sharing is None:
        groups = microbatches([len(row.ids) for row in rows], max_tokens=limit)
    else:
        groups = experience.sharing.microbatches(whole_ids(rows), max_tokens=limit)
    return [[episodes[member] for member in group] for group in groups]
