"""Supervised fitting of a language model, for the makers of embedded models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from fctncalling.algorithms.episodes import EpisodeRecord, TokenRecord
from fctncalling.algorithms.policy.shared_prefixes import (
    PrefixSharing,
    PrefixTree,
    prefix_sharing_of,
    tree_states_at,
)
from fctncalling.algorithms.supervised.learner import (
    SupervisedConfig,
    adamw,
    learning_rate_multiplier,
    make_batches,
    row_batches,
    trainable_rows,
)


def fit_supervised(
    model: Any,
    records: Sequence[EpisodeRecord],
    config: SupervisedConfig | None = None,
    *,
    on_step: Callable[[dict[str, float]], None] | None = None,
) -> list[dict[str, float]]:
    """Fit a causal language model to the acted tokens of `records`.

    Return the metrics of each step.

    A step's loss is the mean over all acted tokens of its batch, however it was cut into
    microbatches. Metrics: step, lr, loss, accuracy (share of acted tokens that are the likeliest),
    grad_norm, tokens (acted ones).
    """
    config = config or SupervisedConfig()
    rows = trainable_rows(records)
    batches = row_batches([len(row.ids) for row in rows], config)
    optimizer = adamw(model.parameters(), config)
    # no dropout, as in reinforcement learning: the seed alone decides, and both see one network
    model.eval()
    prefixes = prefix_sharing_of(model, model.get_decoder()) if config.share_prefixes else ""
    sharing = None if isinstance(prefixes, str) else prefixes
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


def _learn(
    model: Any,
    rows: list[TokenRecord],
    config: SupervisedConfig,
    sharing: PrefixSharing | None,
) -> dict[str, float]:
    """Set the parameters' gradients to the clipped gradient of one batch.

    Return loss, accuracy, grad_norm, tokens.
    """
    total = sum(sum(row.acted) for row in rows)
    device = next(model.parameters()).device
    loss_sum, right = 0.0, 0
    for batch in make_batches(rows, config, sharing, device):
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


def acted_logits(model: Any, ids: Tensor, acted: Tensor, tree: PrefixTree | None = None) -> Tensor:
    """Return the logits (N, V) that predict the N acted tokens of `ids` (B, T), by row.

    The output layer is applied at those positions only. Padding needs no mask: it lies to the right
    of every token that counts, where a causal model does not look. A row's first token is predicted
    by nothing and must not be acted.
    """
    if tree is None:
        hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
        states = hidden[:, :-1][acted[:, 1:]]
    else:
        rows, columns = acted.nonzero(as_tuple=True)
        states = tree_states_at(model, model.get_decoder(), tree, rows, columns - 1)
    logits: Tensor = model.get_output_embeddings()(states)
    return logits
