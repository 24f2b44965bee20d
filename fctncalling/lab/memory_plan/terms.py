"""Formulas of the memory plan: bytes of each part of a run, as pure functions.

Numbers are fp32 (4 bytes) on a CPU. Passes that compute in bfloat16 hold half of that for each
activation, and a cast copy of the weights; no GPU was at hand to check those.
"""

from __future__ import annotations

from fctncalling.algorithms.policy.actor_critic import MAX_LOGITS
from fctncalling.algorithms.policy.gradient_checkpointing import BYTES_A_TRIM
from fctncalling.lab.memory_plan.policy_sizes import BYTES_FP32, LayerWidths, PolicySizes

ADAMW_MOMENTS = 2
LIVE_LOGITS = 4  # arrays of one chunk's logits that exist at once, in the backward pass
STEP_ARRAYS = 2  # arrays of the largest weight's size that AdamW makes
MAX_SCORES_BYTES = 3 * 2**22 * BYTES_FP32  # of the rollout's attention, see generation/kv_cache.py
CACHE_GROWTH = 1.8  # a growing cache: the new buffers, and the old ones a fourth smaller
MAX_REDUCE_BYTES = 2**26 * BYTES_FP32  # of gradients that processes add up at once
# Memory that malloc holds in pieces, measured. Where passes trim the heap, of the arrays of the
# layers between two trims; adapted layers make more arrays for each one that stays.
TRIMMED_SHARE = 1.0
TRIMMED_ADAPTER_SHARE = 2.5
# Where they do not, of all but weights, and with adapters of activations on top.
ALLOCATOR_SHARE = 0.35
ADAPTER_SHARE = 1.2


def gradient_bytes(sizes: PolicySizes) -> int:
    """Return the bytes of the gradients: 4 per trained weight."""
    return BYTES_FP32 * sizes.num_trained


def optimiser_bytes(sizes: PolicySizes) -> int:
    """Return the bytes of AdamW's moments: 8 per trained weight."""
    return ADAMW_MOMENTS * BYTES_FP32 * sizes.num_trained


def optimiser_step_bytes(sizes: PolicySizes) -> int:
    """Return the bytes of AdamW's temporaries: 2 arrays of the largest weight."""
    return STEP_ARRAYS * BYTES_FP32 * sizes.largest_trained


def saved_activation_count(layer: LayerWidths, *, shared: bool) -> int:
    """Return how many numbers of a token autograd keeps of a Llama layer, for the backward pass:

        6 H           input, normed, scaled; the same before the feed-forward
        3 Q           queries, attention outputs by block and joined
        2 Q (or 2 K)  keys and values, repeated for all heads (shared: not repeated)
        4 I           gate, its SiLU, up, their product
        2 + heads     scales of norms, log-sum-exps

    H hidden size, Q heads * head size, K key heads * head size, I feed-forward. With LoRA the
    frozen norms keep 2 H less, and each adapted layer keeps its rank. Qwen3's norms of heads keep
    2 (Q + K) more, frozen ones half of that. Another family: 4 H, and inputs and outputs of its
    linear layers.
    """
    if layer.other_widths:
        return 4 * layer.hidden + layer.other_widths + layer.lora_rank
    keys = layer.keys if shared else layer.queries
    norms = 6 * layer.hidden if not layer.lora_rank else 4 * layer.hidden
    heads = (2 - bool(layer.lora_rank)) * (layer.queries + layer.keys) * layer.normed_heads
    attention = 3 * layer.queries + 2 * keys + heads
    return norms + attention + 4 * layer.inner + 2 + layer.heads + layer.lora_rank


def checkpointed_activation_count(layer: LayerWidths, *, shared: bool) -> int:
    """Return how many numbers per token checkpointing saves of a layer.

    Its input, and output and log-sum-exps of its attention. On a tree that is computed in parts, of
    which most tokens have two.
    """
    return layer.hidden + (2 if shared else 1) * (layer.queries + layer.heads)


def transient_activation_count(layer: LayerWidths) -> int:
    """Return how many numbers per token the backward pass of one layer computes at once.

    Gradients of the feed-forward's three arrays and of four of the hidden size.
    """
    return 3 * layer.inner + 4 * layer.hidden


def activation_bytes(
    sizes: PolicySizes, tokens: int, row: int, *, checkpointing: bool, shared: bool, width: int
) -> int:
    """Return the bytes that the passes over a microbatch save for the backward pass.

        layers * tokens * saved_activation_count * width, for each backbone
        checkpointing: layers * tokens * checkpointed_numbers * width, and one whole layer

    plus the biases of attention, row * row / 2, once for each backbone (rows of our own forward
    with more than one block; trees have small ones). width: bytes a number.
    """
    per_layer = tokens * saved_activation_count(sizes.layer, shared=shared) * width
    layers = per_layer * sizes.num_layers
    if checkpointing:
        num_saved = checkpointed_activation_count(sizes.layer, shared=shared)
        layers = tokens * num_saved * width * sizes.num_layers
    bias = row * row / 2 * BYTES_FP32 if sizes.own_forward and not shared else 0
    return int(sizes.num_backbones * (layers + bias) + (per_layer if checkpointing else 0))


def activation_gradient_bytes(sizes: PolicySizes, tokens: int, *, width: int) -> int:
    """Return the bytes of one layer's activation gradients."""
    return tokens * transient_activation_count(sizes.layer) * width


def untrimmed_heap_bytes(
    sizes: PolicySizes, tokens: int, *, checkpointing: bool, shared: bool, width: int
) -> int:
    """Return the bytes of free blocks that malloc holds between two heap trims.

        layers between two trims * tokens * saved_activation_count * width

    times a share, with adapters whose layers are not computed again a larger one; with
    checkpointing half a layer more, for what its second pass makes.
    """
    untrimmed = -(-BYTES_A_TRIM // (tokens * sizes.layer.hidden * width))
    num_layers = min(sizes.num_layers, untrimmed) + checkpointing / 2
    adapted = sizes.layer.lora_rank and not checkpointing
    share = TRIMMED_ADAPTER_SHARE if adapted else TRIMMED_SHARE
    return int(
        share * num_layers * tokens * saved_activation_count(sizes.layer, shared=shared) * width
    )


def fragmented_heap_bytes(moving: int, activations: int, *, adapted: bool) -> int:
    """Return the bytes of free blocks that malloc holds if the heap is not trimmed.

    A share of all but weights, and of activations with adapters.
    """
    return int(ALLOCATOR_SHARE * moving + (ADAPTER_SHARE * activations if adapted else 0))


def logits_bytes(sizes: PolicySizes, tokens: int) -> int:
    """Return the bytes of logits: 4 arrays (positions, vocabulary) of one chunk, fp32.

    A chunk has at most 2^24 numbers.
    """
    chunk = min(tokens * sizes.vocabulary, max(MAX_LOGITS, sizes.vocabulary))
    return LIVE_LOGITS * chunk * BYTES_FP32


def output_gradient_bytes(sizes: PolicySizes) -> int:
    """Return the bytes of the gradient of an output layer tied to the embedding.

    It is held apart until the embedding's gradient is added, at the end of the backward pass.
    """
    return BYTES_FP32 * sizes.vocabulary * sizes.layer.hidden if sizes.tied else 0


def kv_cache_bytes_per_token(sizes: PolicySizes, width: int) -> int:
    """Return the bytes of a token's keys and values: layers * 2 K * width."""
    return sizes.num_layers * 2 * sizes.layer.keys * width


def rollout_pass_bytes(sizes: PolicySizes, prefill_tokens: int, slots: int, width: int) -> int:
    """Return the bytes of one forward pass of the rollout.

    The wider of two layers' arrays of the tokens that are read at once, attention scores, and the
    logits of all slots (3 arrays).
    """
    layer = sizes.layer
    read = prefill_tokens * (4 * layer.hidden + 4 * layer.inner + 2 * layer.queries) * width
    return read + MAX_SCORES_BYTES + 3 * slots * sizes.vocabulary * BYTES_FP32


def fsdp_gathered_bytes(sizes: PolicySizes) -> int:
    """Return the bytes of weights that FSDP gathers at once.

    The embedding with what is in no layer, and two layers, each with its gradient.
    """
    outside = sizes.num_weights - sizes.num_layers * sizes.num_backbones * sizes.layer_weights
    return BYTES_FP32 * 2 * (max(0, outside) + 2 * sizes.layer_weights)
