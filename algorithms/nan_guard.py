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
    """A tensor holds a NaN or an infinity; `places` are the numbers of its bad entries, flat."""

    def __init__(self, message: str, places: Tensor) -> None:
        super().__init__(message)
        self.places = places


def check_finite(name: str, tensor: Tensor, where: str = "before the first step") -> None:
    """Raise NotFiniteError naming the tensor and how much of it is NaN or infinite."""
    bad = ~torch.isfinite(tensor)
    if bool(bad.any()):
        raise NotFiniteError(
            f'update stopped {where}: "{name}" has {int(bad.sum())} NaN or infinite of '
            f"{tensor.numel()} entries. The "
            "weights are as before this step. Lower --lr or --critic_lr, or continue from an "
            "earlier checkpoint with "
            "--resume.",
            bad.flatten().nonzero().squeeze(1),
        )


@contextlib.contextmanager
def annotate_tasks(experience: Experience, numbers: Tensor | None = None) -> Iterator[None]:
    """Let a NotFiniteError of this block tell the tasks it came up in.

    Entry i of its tensor belongs to acted token numbers[i] (default: i); of one with other entries,
    to all of them.
    """
    try:
        yield
    except NotFiniteError as error:
        tokens = torch.arange(len(experience.tokens.episode)) if numbers is None else numbers.cpu()
        places = error.places.cpu()
        found = tokens[places] if int(places.max()) < len(tokens) and len(tokens) > 1 else tokens
        episodes = torch.unique(experience.tokens.episode.cpu()[found]).tolist()
        names = list(dict.fromkeys(experience.episodes[episode].task_id for episode in episodes))
        more = f" and {len(names) - MAX_TASKS} more" if len(names) > MAX_TASKS else ""
        plural = "s" if len(names) > 1 else ""
        told = (
            f"{error} It came up in the episodes of task{plural} "
            f"{', '.join(names[:MAX_TASKS])}{more}."
        )
        raise NotFiniteError(told, error.places) from error


@contextlib.contextmanager
def annotate_location(policy: nn.Module, place: str) -> Iterator[None]:
    """Let a NotFiniteError of this block tell where in the update it came up, and the first weight
    that is no number.

    Where all weights are numbers, it is the first gradient.
    """
    try:
        yield
    except NotFiniteError as error:
        culprit = first_bad_weight(policy) or first_bad_gradient(policy)
        because = (
            f" The first tensor of the policy that is no number: {culprit}." if culprit else ""
        )
        raise NotFiniteError(f"{error} Place: {place}.{because}", error.places) from error


def check_weights(policy: nn.Module) -> None:
    """Raise FloatingPointError for a NaN or infinite weight:
    a checkpoint of it would be of no use.
    """
    culprit = first_bad_weight(policy)
    if culprit:
        raise FloatingPointError(
            f"nothing was saved: {culprit} holds a NaN or an infinity. Lower --lr or --critic_lr, "
            "and go on from the "
            "last checkpoint with --resume."
        )


def first_bad_weight(policy: nn.Module) -> str | None:
    """Return the name of the first weight with a NaN or an infinity; sharded ones are searched in
    this part alone.
    """
    return next(
        (f'weight "{name}"' for name, weight in policy.named_parameters() if _is_bad(weight)), None
    )


def first_bad_gradient(policy: nn.Module) -> str | None:
    """Return the name of the first weight whose gradient holds a NaN or an infinity."""
    gradients = ((name, weight.grad) for name, weight in policy.named_parameters())
    return next(
        (f'gradient of "{name}"' for name, it in gradients if it is not None and _is_bad(it)), None
    )


def _is_bad(tensor: Tensor) -> bool:
    return not bool(torch.isfinite(local_shard(tensor.detach())).all())
