"""What a model's files say: stops, vocabulary, context, weights, memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.training.model_checks.finding import HealthCheck, fault, note, sound

LORA_RANK = 16  # of the adapter whose memory is estimated
_ADAMW_BYTES = 12  # gradient and two moments of a trained weight, in fp32


def stop_finding(template: ChatTemplate, generation_eos: Any) -> HealthCheck:
    """Return whether rollouts stop where the model's generation_config.json says answers end."""
    listed = generation_eos if isinstance(generation_eos, list) else [generation_eos]
    wanted = [int(id_) for id_ in listed if id_ is not None]
    missed = [template.spell([id_]) for id_ in wanted if id_ not in template.stop_ids]
    stops = ", ".join(repr(template.spell([id_])) for id_ in sorted(template.stop_ids))
    if missed:
        names = ", ".join(map(repr, missed))
        message = (
            f"generation_config.json ends answers at {names}, where rollouts do not stop ({stops})"
        )
        return fault("stops", message, "Give --chat_template FILE that closes answers with it")
    return sound("stops", f"rollouts stop at {stops}, as generation_config.json says")


def vocabulary_finding(tokenizer: Any, template: ChatTemplate, num_embeddings: int) -> HealthCheck:
    """Return whether the model reads every token that its tokenizer writes."""
    largest = max(tokenizer.get_vocab().values(), default=-1)
    cure = "Use the tokenizer of the model, or resize its embeddings and train them"
    if template.end_of_turn_id >= num_embeddings:
        end = template.spell([template.end_of_turn_id])
        message = f"{end!r} is token {template.end_of_turn_id}, the model reads {num_embeddings}"
        return fault("vocabulary", f"the end of turn {message}", cure)
    if largest >= num_embeddings:
        message = f"the tokenizer has tokens up to {largest}, the model reads {num_embeddings}"
        return fault("vocabulary", f"{message}: is it another model's?", cure)
    return sound("vocabulary", f"{largest + 1} tokens, the model reads {num_embeddings}")


def weight_findings(model: Any, missing: Iterable[str]) -> Iterator[HealthCheck]:
    """Yield what is wrong with loaded weights; `missing`: those that no file held."""
    import torch

    lost = sorted(missing)
    if lost:
        message = f"{len(lost)} weights are in no file and start at random: {', '.join(lost[:3])}"
        yield fault("weights", message, "The folder is not complete, or of another architecture")
    broken = [name for name, each in model.named_parameters() if not torch.isfinite(each).all()]
    if broken:
        message = f"{len(broken)} weights are not finite (NaN or infinite): {', '.join(broken[:3])}"
        yield fault("weights", message, "Take an earlier checkpoint")
    if not lost and not broken:
        count = sum(each.numel() for each in model.parameters())
        yield sound("weights", f"{count:,} weights, all from the files, all finite")


def memory_finding(model: Any) -> HealthCheck:
    """Return what weights and optimiser take; activations and caches come on top."""
    count = sum(each.numel() for each in model.parameters())
    weights = sum(each.numel() * each.element_size() for each in model.parameters())
    rank = LORA_RANK * sum(sum(each.shape) for each in model.parameters() if each.dim() == 2)
    adamw, lora = weights + _ADAMW_BYTES * count, weights + (4 + _ADAMW_BYTES) * rank
    message = (
        f"weights {_megabytes(weights)}; all trained by AdamW {_megabytes(adamw)}; LoRA of rank "
        f"{LORA_RANK} about {_megabytes(lora)}; activations and KV cache come on top: "
        "fctncalling train --plan with your flags counts them"
    )
    return sound("memory (--plan)", message, weights_bytes=weights, num_weights=count)


def precision_findings(model: Any) -> Iterator[HealthCheck]:
    """Yield a note where weights are stored in half precision."""
    names = {str(each.dtype).removeprefix("torch.") for each in model.parameters()}
    if names & {"float16"}:
        yield note(
            "precision", "weights are float16, which overflows: train in bfloat16 or float32"
        )


def _megabytes(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
