"""NaN guard: report the first non-finite tensor, weight and task."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from fctncalling.algorithms.distributed.fsdp import local_shard

if TYPE_CHECKING:
    from fctncalling.algorithms.batch import Experience

MAX_TASKS = 4  # that a message names


class NotFiniteError(FloatingPointError):
    """Error of a tensor that is not finite; `indices` of its entries are in the flat tensor."""

    def __init__(self, message: str, indices: Tensor) -> None:
        super().__init__(message)
        self.indices = indices


def check_finite(name: str, tensor: Tensor, where: str = "before the first step") -> None:
    """Check that a tensor is finite; NotFiniteError with the share of entries that are not."""
    bad = ~torch.isfinite(tensor)
    if bool(bad.any()):
        raise NotFiniteError(
            f'update stopped {where}: "{name}" has {int(bad.sum())} NaN or infinite of '
            f"{tensor.numel()} entries. The weights are as before this step. Lower --lr or "
            "--critic_lr, or continue from an earlier checkpoint with --resume.",
            bad.flatten().nonzero().squeeze(1),
        )


@contextlib.contextmanager
def annotate_error_with_tasks(
    experience: Experience, token_indices: Tensor | None = None
) -> Iterator[None]:
    """Context manager: annotate a NotFiniteError raised inside with tasks, by id.

    Entry i of the error's tensor belongs to acted token token_indices[i] (default: i). A tensor of
    another size (a loss) belongs to all of them.
    """
    try:
        yield
    except NotFiniteError as error:
        tokens = (
            torch.arange(len(experience.tokens.episode))
            if token_indices is None
            else token_indices.cpu()
        )
        indices = error.indices.cpu()
        found = tokens[indices] if int(indices.max()) < len(tokens) and len(tokens) > 1 else tokens
        episodes = torch.unique(experience.tokens.episode.cpu()[found]).tolist()
        names = list(dict.fromkeys(experience.episodes[episode].task_id for episode in episodes))
        more = f" and {len(names) - MAX_TASKS} more" if len(names) > MAX_TASKS else ""
        plural = "s" if len(names) > 1 else ""
        message = (
            f"{error} It came up in the episodes of task{plural} "
            f"{', '.join(names[:MAX_TASKS])}{more}."
        )
        raise NotFiniteError(message, error.indices) from error


@contextlib.contextmanager
def annotate_location(policy: nn.Module, place: str) -> Iterator[None]:
    """Context manager: annotate a NotFiniteError raised inside with its location."""
    try:
        yield
    except NotFiniteError as error:
        culprit = first_bad_weight(policy) or first_bad_gradient(policy)
        because = (
            f" The first tensor of the policy that is no number: {culprit}." if culprit else ""
        )
        raise NotFiniteError(f"{error} Place: {place}.{because}", error.indices) from error


def check_weights(policy: nn.Module) -> None:
    """Check that no weight is NaN or infinite, before it is saved; FloatingPointError."""
    culprit = first_bad_weight(policy)
    if culprit:
        raise FloatingPointError(
            f"nothing was saved: {culprit} holds a NaN or an infinity. Lower --lr or --critic_lr, "
            "and go on from the last checkpoint with --resume."
        )


def first_bad_weight(policy: nn.Module) -> str | None:
    """Return the first bad weight: the name of one with a NaN or an infinity.

    Of sharded weights, this rank's shard is searched.
    """
    return next(
        (f'weight "{name}"' for name, weight in policy.named_parameters() if _is_bad(weight)), None
    )


def first_bad_gradient(policy: nn.Module) -> str | None:
    """Return the name of the first weight with a gradient that is not finite."""
    gradients = ((name, weight.grad) for name, weight in policy.named_parameters())
    return next(
        (f'gradient of "{name}"' for name, it in gradients if it is not None and _is_bad(it)), None
    )


def _is_bad(tensor: Tensor) -> bool:
    return not bool(torch.isfinite(local_shard(tensor.detach())).all())
