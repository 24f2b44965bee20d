"""The episodes of one update as learning walks over them: rows, their acted tokens, minibatches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fctncalling.algorithms.algorithm import TokenGroups
from fctncalling.algorithms.batch import (
    ActedTokens,
    Batch,
    EpisodeRecord,
    TokenRecord,
    acted_tokens,
    make_batch,
    microbatches,
    trained_lengths,
)
from fctncalling.algorithms.config import TrainConfig

Minibatch = list[list[int]]  # the rows of one optimiser step, in microbatches


class Experience(NamedTuple):
    """What was collected and can be learned from: E episodes, their rows, N acted tokens."""

    episodes: list[EpisodeRecord]  # each with at least one acted token
    rows: list[TokenRecord]  # each with at least one acted token, in order of episode and time
    lengths: list[int]  # tokens of each row that training reads
    tokens: ActedTokens
    starts: Tensor  # (rows + 1,) the first acted token of each row, and N at the end

    def groups(self) -> Tensor:
        """Return a number an episode, (E,), equal for episodes of one task and environment seed."""
        known: dict[object, int] = {}
        numbers = [known.setdefault(episode.situation, len(known)) for episode in self.episodes]
        return torch.tensor(numbers, device=self.tokens.rewards.device)

    def spans(self, numbers: Tensor) -> TokenGroups:
        """Return what the tokens of these numbers belong to."""
        tokens = self.tokens
        return TokenGroups(tokens.action[numbers], tokens.row[numbers], tokens.num_words[numbers])

    def padding_share(self, minibatches: Sequence[Minibatch]) -> float:
        """Return which part of the tokens that the model passes over once in these minibatches is padding."""
        groups = [
            [self.lengths[row] for row in rows] for minibatch in minibatches for rows in minibatch
        ]
        return 1.0 - sum(map(sum, groups)) / sum(len(group) * max(group) for group in groups)

    def counted_rows(
        self, minibatches: list[Minibatch], counted: Tensor, config: TrainConfig
    ) -> list[Minibatch]:
        """Return the minibatches without rows of which --overlong mask leaves no token to learn from."""
        if config.overlong != "mask":
            return minibatches
        rows = set(self.tokens.row[counted].tolist())
        kept = [
            [group for rows_ in minibatch if (group := [row for row in rows_ if row in rows])]
            for minibatch in minibatches
        ]
        return [minibatch for minibatch in kept if minibatch]

    def batch(self, rows: Sequence[int]) -> tuple[Batch, Tensor]:
        """Return the rows padded for a forward pass, and the numbers of its acted tokens, in the pass's order."""
        numbers = [torch.arange(int(self.starts[row]), int(self.starts[row + 1])) for row in rows]
        device = self.tokens.rewards.device
        return make_batch([self.rows[row] for row in rows], device=device, trim=True), torch.cat(
            numbers
        ).to(device)


def build_experience(episodes: Sequence[EpisodeRecord], device: torch.device) -> Experience:
    """Return what can be learned from: invalid episodes and those without an acted token are left out.

    Raises ValueError where nothing is left, naming the cause.
    """
    usable = [episode for episode in episodes if not episode.invalid and _acted_rows(episode)]
    if not usable:
        num_invalid = sum(episode.invalid for episode in episodes)
        raise ValueError(
            f"nothing to learn from: of {len(episodes)} episodes {num_invalid} are invalid (infrastructure failed) and "
            f"{len(episodes) - num_invalid} hold no acted token. Look at the environment's errors in the episode log, "
            "and whether --max_episode_tokens leaves room after the prompt."
        )
    tokens = acted_tokens(usable, device=device)
    rows = [row for episode in usable for row in _acted_rows(episode)]
    starts = torch.tensor([0, *(sum(row.acted) for row in rows)]).cumsum(0)
    return Experience(usable, rows, trained_lengths(rows), tokens, starts)


def plan_minibatches(
    experience: Experience, config: TrainConfig, generator: torch.Generator
) -> list[Minibatch]:
    """Return every row once, shuffled into minibatches of nearly equal size, each split into microbatches."""
    order = torch.randperm(len(experience.rows), generator=generator)
    num_minibatches = min(config.num_mini_batch, len(experience.rows))
    plan = []
    for minibatch in torch.tensor_split(order, num_minibatches):
        rows: list[int] = minibatch.tolist()
        groups = microbatches(
            [experience.lengths[row] for row in rows],
            max_tokens=config.max_microbatch_tokens,
            num_parts=config.gradient_cp_steps,
        )
        plan.append([[rows[index] for index in group] for group in groups])
    return plan


def _acted_rows(episode: EpisodeRecord) -> list[TokenRecord]:
    return [row for row in episode.rows if any(row.acted)]
