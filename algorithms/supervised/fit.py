"""Supervised fitting of a bare language model, as the embedded models are made."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fctncalling.algorithms.batch import Batch, make_batch, trained_lengths, whole_ids
from fctncalling.algorithms.episodes import EpisodeRecord, TokenRecord
from fctncalling.algorithms.minibatches import microbatches
from fctncalling.algorithms.policy.shared_prefixes import (
    PrefixSharing,
    PrefixTree,
    prefix_sharing_of,
    tree_states_at,
)
from fctncalling.algorithms.policy.shared_prefixes.prefix_tree import common_lengths
from fctncalling.algorithms.policy.sparse_forward import model_logit_scaling

KEY_BLOCK = 64  # tokens of a prompt that are compared as one
_LOGIT_CHANGERS = ("final_logit_softcapping", "logit_scale", "logits_scaling", "lm_head_multiplier")


@dataclass
class WarmStartConfig:
    """Settings of supervised fine-tuning."""

    epochs: int = 1
    """Passes over the demonstrations."""
    max_steps: int | None = None
    """Optimiser steps after which to stop, whatever `epochs` says; the schedule ends there."""
    lr: float = 3e-3
    """Highest learning rate, reached after the warm-up."""
    final_lr_share: float = 0.05
    """Share of `lr` that the cosine ends at."""
    warmup_share: float = 0.05
    """Share of the steps over which the learning rate rises from 0."""
    weight_decay: float = 0.01
    """AdamW's decay, on matrices only."""
    batch_size: int = 64
    """Token rows an optimiser step."""
    max_tokens_per_microbatch: int = 8192
    """Tokens, padding included, that one forward may hold: bounds the memory."""
    max_grad_norm: float = 1.0
    """Norm to which the gradient is clipped."""
    share_prefixes: bool = True
    """Whether passes compute tokens that rows begin with alike once, where that is cheaper."""
    seed: int = 0
    """Seeds the order of the rows."""


def fit(
    model: nn.Module,
    records: Sequence[EpisodeRecord],
    config: WarmStartConfig | None = None,
    *,
    on_step: Callable[[dict[str, float]], None] | None = None,
) -> list[dict[str, float]]:
    """Fit a causal language model to the acted tokens of `records`.

    Return the metrics of each step.

    A step's loss is the mean over all acted tokens of its batch, however it was cut into
    microbatches. Metrics: step, lr, loss, accuracy (share of acted tokens that are the likeliest),
    grad_norm, tokens (acted ones).
    """
    config = config or WarmStartConfig()
    rows = trained_rows(records)
    batches = row_batches([len(row.ids) for row in rows], config)
    optimizer = adamw(model.parameters(), config)
    # no dropout, as in reinforcement learning: the seed alone decides, and both see one network
    model.eval()
    sharing = _prefix_sharing(model) if config.share_prefixes else None
    history = []
    for step, chosen in enumerate(batches):
        lr = config.lr * learning_rate_multiplier(step, len(batches), config)
        for group in optimizer.param_groups:
            group["lr"] = lr
        learned = _learn(model, [rows[i] for i in chosen], config, sharing)
        metrics = {"step": float(step), "lr": lr, **learned}
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        history.append(metrics)
        if on_step is not None:
            on_step(metrics)
    return history


def trained_rows(records: Sequence[EpisodeRecord]) -> list[TokenRecord]:
    """Return the rows with a trained token of valid demonstrations; ValueError where none has."""
    rows = [
        row for record in records if not record.invalid for row in record.rows if any(row.acted)
    ]
    if not rows:
        raise ValueError(f"none of the {len(records)} demonstrations has a token that was acted")
    return rows


def _learn(
    model: nn.Module,
    rows: list[TokenRecord],
    config: WarmStartConfig,
    sharing: PrefixSharing | None,
) -> dict[str, float]:
    """Set the parameters' gradients to the clipped gradient of one batch.

    Return loss, accuracy, grad_norm, tokens.
    """
    total = sum(sum(row.acted) for row in rows)
    device = next(model.parameters()).device
    loss_sum, right = 0.0, 0
    for batch in pass_batches(rows, config, sharing, device):
        targets = batch.ids[:, 1:][batch.acted[:, 1:]]
        logits = acted_logits(model, batch.ids, batch.acted, batch.tree)
        loss = nn.functional.cross_entropy(logits.float(), targets, reduction="sum") / total
        loss.backward()  # type: ignore[no-untyped-call]
        loss_sum += loss.item()
        right += int((logits.detach().argmax(-1) == targets).sum())
    norm = nn.utils.clip_grad_norm_(model.parameters(), config.max_grad_norm)
    return {
        "loss": loss_sum,
        "accuracy": right / total,
        "grad_norm": norm.item(),
        "tokens": float(total),
    }


def pass_batches(
    rows: list[TokenRecord],
    config: WarmStartConfig,
    sharing: PrefixSharing | None,
    device: torch.device,
) -> Iterator[Batch]:
    """Yield the rows in microbatches: of trees where sharing prefixes pays, else padded."""
    limit, lengths = config.max_tokens_per_microbatch, trained_lengths(rows)
    # Padding is not bounded: the grouping of rows decides the last bits of the published weights.
    groups, shares = microbatches(lengths, max_tokens=limit, max_padding_share=1.0), False
    ids: list[NDArray[np.int64]] = []
    if sharing is not None:
        ids = [it[:length] for it, length in zip(whole_ids(rows), lengths, strict=True)]
        if sharing.may_save_tokens(ids, max(lengths)):
            together = sharing.microbatches(ids, max_tokens=limit)
            shares = sharing.saves_tokens(ids, together, groups)
            groups = together if shares else groups
    for group in groups:
        batch = make_batch([rows[i] for i in group], device=device, trim=True)
        if shares and sharing is not None:
            batch = batch._replace(tree=sharing.tree([ids[i] for i in group]).to(device))
        yield batch


def _prefix_sharing(model: nn.Module) -> PrefixSharing | None:
    """Return how passes of a model share prefixes; None where they cannot."""
    language_model: Any = model
    if not (hasattr(model, "get_decoder") and hasattr(model, "get_output_embeddings")):
        return None
    if getattr(language_model.config, "lm_head_multiplier", None):
        return None  # which `model_logit_scaling` does not know
    sharing = prefix_sharing_of(model, language_model.get_decoder())
    return None if isinstance(sharing, str) else sharing


def acted_logits(
    model: nn.Module, ids: Tensor, acted: Tensor, tree: PrefixTree | None = None
) -> Tensor:
    """Return the logits (N, V) that predict the N acted tokens of `ids` (B, T), by row.

    The output layer is applied at those positions only. Padding needs no mask: it lies to the right
    of every token that counts, where a causal model does not look. A row's first token is predicted
    by nothing and must not be acted.
    """
    language_model: Any = model
    at = acted[:, 1:]
    config: Any = getattr(model, "config", None)
    head = (
        language_model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    )
    if tree is not None:
        rows, columns = acted.nonzero(as_tuple=True)
        decoder = language_model.get_decoder()
        states = tree_states_at(model, decoder, tree, rows, columns - 1)
        return model_logit_scaling(language_model.get_output_embeddings()(states), config)
    plain = not any(getattr(config, name, None) for name in _LOGIT_CHANGERS)
    if (
        head is None
        or not plain
        or not hasattr(model, "base_model_prefix")
        or hasattr(model, "peft_config")
    ):
        logits: Tensor = language_model(input_ids=ids, use_cache=False).logits[:, :-1][at]
        return logits
    hidden: Tensor = language_model.base_model(input_ids=ids, use_cache=False).last_hidden_state
    return cast(Tensor, head(hidden[:, :-1][at]))


def row_batches(
    sort_keys: Sequence[int] | Sequence[list[int]], config: WarmStartConfig
) -> list[list[int]]:
    """Return the row indices of each optimiser step.

    Shuffled each epoch, rows with similar keys together.

    A key is the row's length, or its token ids, so that rows with a common prefix come together.
    """
    generator = torch.Generator().manual_seed(config.seed)
    batches: list[list[int]] = []
    for _ in range(config.epochs):
        order = torch.randperm(len(sort_keys), generator=generator).tolist()
        # Sorting inside a pool saves padding and keeps epochs different.
        pool = 16 * config.batch_size
        pools = [
            sorted(order[i : i + pool], key=lambda row: sort_keys[row])
            for i in range(0, len(order), pool)
        ]
        ordered = [row for part in pools for row in part]
        epoch = [
            ordered[i : i + config.batch_size] for i in range(0, len(ordered), config.batch_size)
        ]
        batches += [epoch[i] for i in torch.randperm(len(epoch), generator=generator).tolist()]
    return batches[: config.max_steps]


def shared_beginnings(rows: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return of each row the tokens that it shares with another, in whole blocks.

    As keys of `row_batches` they bring rows of one prompt together and leave them mixed otherwise:
    by all of its tokens a row would lie among those whose requests begin with the same words.
    """
    ids = [np.asarray(row, dtype=np.int64) for row in rows]
    order = sorted(range(len(ids)), key=lambda row: ids[row].tobytes())
    common = [*common_lengths([ids[row] for row in order]), 0]
    keys: list[list[int]] = [[]] * len(ids)
    for place, row in enumerate(order):
        shared = max(common[place], common[place + 1])
        keys[row] = list(rows[row][: shared // KEY_BLOCK * KEY_BLOCK or shared])
    return keys


def learning_rate_multiplier(step: int, num_steps: int, config: WarmStartConfig) -> float:
    """Return the share of the highest learning rate: a linear rise, then half a cosine."""
    warmup = max(1, round(config.warmup_share * num_steps))
    if step < warmup:
        return (step + 1) / warmup
    progress = (step - warmup) / max(1, num_steps - warmup)
    return config.final_lr_share + (1 - config.final_lr_share) * 0.5 * (
        1 + math.cos(math.pi * progress)
    )


def adamw(
    every: Iterable[nn.Parameter], config: WarmStartConfig, *, fused: bool = True
) -> torch.optim.AdamW:
    """Return AdamW over the parameters that learn; weight decay applies to matrices only."""
    parameters = [p for p in every if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.lr, betas=(0.9, 0.95), fused=fused)
