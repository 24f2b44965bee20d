"""Supervised fitting of a language model, for the makers of embedded models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from torch import Tensor, nn

from fctncalling.algorithms.episodes import EpisodeRecord, TokenRecord
from fctncalling.algorithms.policy.actor_critic import scale_logits
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

_LOGIT_CHANGERS = ("final_logit_softcapping", "logit_scale", "logits_scaling", "lm_head_multiplier")


def fit_supervised(
    model: nn.Module,
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


def _learn(
    model: nn.Module,
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


def _prefix_sharing(model: nn.Module) -> PrefixSharing | None:
    """Return how a model's passes share prefixes; None if they cannot."""
    language_model: Any = model
    if not (hasattr(model, "get_decoder") and hasattr(model, "get_output_embeddings")):
        return None
    if getattr(language_model.config, "lm_head_multiplier", None):
        return None  # which `scale_logits` does not know
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
    if tree is not None:
        rows, columns = acted.nonzero(as_tuple=True)
        decoder = language_model.get_decoder()
        states = tree_states_at(model, decoder, tree, rows, columns - 1)
        return scale_logits(language_model.get_output_embeddings()(states), config)
    plain = not any(getattr(config, name, None) for name in _LOGIT_CHANGERS)
    head = getattr(model, "get_output_embeddings", lambda: None)()
    is_bare = hasattr(model, "base_model_prefix") and not hasattr(model, "peft_config")
    if head is None or not plain or not is_bare:
        logits: Tensor = language_model(input_ids=ids, use_cache=False).logits[:, :-1][at]
        return logits
    hidden: Tensor = language_model.base_model(input_ids=ids, use_cache=False).last_hidden_state
    return cast(Tensor, head(hidden[:, :-1][at]))
