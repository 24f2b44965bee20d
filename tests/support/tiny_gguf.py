"""A tiny Llama in a GGUF file, laid out as llama.cpp's converter does; needs the gguf library."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from tokenizers.pre_tokenizers import ByteLevel
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

LAYER_TENSORS = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
MARKS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MERGE = "Ġ Ġ"  # two blanks are one token
TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def vocabulary() -> list[str]:
    """Return the marks, the 256 bytes and one merged token."""
    return [*MARKS, *sorted(ByteLevel.alphabet()), MERGE.replace(" ", "")]


def tiny_llama() -> LlamaForCausalLM:
    """Return a random model of the vocabulary with tied embeddings and grouped heads."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary()),
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
    )
    return LlamaForCausalLM(config).eval()


def write_gguf(path: Path, model: LlamaForCausalLM, *, architecture: str = "llama") -> None:
    """Write the model's weights, its configuration and a byte-level tokenizer."""
    gguf: Any = import_module("gguf")
    writer = gguf.GGUFWriter(path, architecture)
    config: Any = model.config
    writer.add_name("tiny")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(vocabulary())
    kinds = [gguf.TokenType.CONTROL] * len(MARKS)
    writer.add_token_types(kinds + [gguf.TokenType.NORMAL] * (config.vocab_size - len(MARKS)))
    writer.add_token_merges([MERGE])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_chat_template(TEMPLATE)
    for name, weight in model.state_dict().items():
        if name != "lm_head.weight":
            writer.add_tensor(_gguf_name(name), _as_llama_cpp(name, weight, config).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _gguf_name(name: str) -> str:
    if name == "model.embed_tokens.weight":
        return "token_embd.weight"
    if name == "model.norm.weight":
        return "output_norm.weight"
    layer, part = name.removeprefix("model.layers.").split(".", 1)
    return f"blk.{layer}.{LAYER_TENSORS[part.removesuffix('.weight')]}.weight"


def _as_llama_cpp(name: str, weight: Tensor, config: Any) -> Tensor:
    """Return a weight with the rows of each head in llama.cpp's order: halves interleaved."""
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    count = heads.get(name.split(".")[-2])
    if count is None:
        return weight
    return weight.view(count, 2, -1, weight.shape[1]).transpose(1, 2).reshape(weight.shape)
