"""Tiny random models, a byte-level tokenizer and an environment whose right answers are known: for
tests alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from fctncalling.data.types import Verdict

torch.set_num_threads(1)  # more would spin and wait on a machine that others use

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")

# Each message between its markers; neighbouring tool results share one user block, as Qwen's do.
CHATML = (
    "{%- if tools %}{{ '<|im_start|>system\\nTools:' }}{% for tool in tools %}{{ '\\n' + (tool | "
    "tojson) }}{% endfor %}"
    "{{ '<|im_end|>\\n' }}{% endif -%}"
    "{%- for m in messages %}"
    "{%- if m.role == 'tool' %}"
    "{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{ '<|im_start|>user' }}{% "
    "endif -%}"
    "{{ '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}"
    "{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\\n' }}{% endif "
    "-%}"
    "{%- else %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endif -%}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif -%}"
)
# The same, but thoughts vanish from every assistant message but the last, as Qwen3's do.
FORGETS_THOUGHTS = CHATML.replace(
    "m.role + '\\n' + m.content",
    "m.role + '\\n' + (m.content.split('</think>')[-1] if m.role == 'assistant' and not loop.last "
    "else m.content)",
)
# Takes neither a tool role nor a system message nor two user messages in a row, and knows no tools,
# as Gemma's.
STRICT_TURNS = (
    "{%- if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif -%}"
    "{%- for m in messages %}"
    "{%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must "
    "alternate') }}{% endif -%}"
    "{{ '<|im_start|>' + m.role + '\\n' + (m.content | trim) + '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif -%}"
)


def tiny_tokenizer(
    chat_template: str | None = CHATML, unmerged: tuple[str, ...] = ()
) -> PreTrainedTokenizerFast:
    """Return a tokenizer with one token a byte, and three special tokens.

    unmerged: tokens of several bytes that a model may sample, and that no text is encoded to.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = (*SPECIAL, *alphabet, *unmerged)
    vocabulary = {token: index for index, token in enumerate(tokens)}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    fast: Any = PreTrainedTokenizerFast
    tokenizer: PreTrainedTokenizerFast = fast(
        tokenizer_object=backend,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"],
    )
    tokenizer.chat_template = chat_template
    return tokenizer


def tiny_model(
    kind: str = "qwen2",
    *,
    attention: str = "sdpa",
    vocabulary: int = 259,
    seed: int = 0,
    trained: bool = True,
) -> Any:
    """Return a random model of two layers whose attention matters: weights ten times the usual
    size.

    trained: norms are not 1 and biases not 0, or they could be left out unnoticed.
    """
    torch.manual_seed(seed)
    shape: dict[str, Any] = {
        "vocab_size": vocabulary,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "initializer_range": 0.2,
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "attn_implementation": attention,
    }
    if kind == "qwen2":
        model: Any = Qwen2ForCausalLM(Qwen2Config(**shape))
    elif kind == "qwen2-sliding":
        model = Qwen2ForCausalLM(
            Qwen2Config(**shape, use_sliding_window=True, sliding_window=7, max_window_layers=1)
        )
    elif kind == "qwen3":
        model = Qwen3ForCausalLM(Qwen3Config(**shape, head_dim=8))
    elif kind == "llama":
        model = LlamaForCausalLM(LlamaConfig(**shape))
    elif kind == "mistral":
        model = MistralForCausalLM(MistralConfig(**shape, sliding_window=9))
    else:
        gpt2: Any = GPT2Config
        model = GPT2LMHeadModel(
            gpt2(
                vocab_size=vocabulary,
                n_embd=32,
                n_layer=2,
                n_head=4,
                n_positions=4096,
                initializer_range=0.2,
                bos_token_id=None,
                eos_token_id=2,
                attn_implementation=attention,
            )
        )
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if trained and weight.dim() == 1:
                weight.normal_(0.0 if "bias" in name else 1.0, 0.3)
    return model.eval()


def constant_model(vocabulary: int) -> Any:
    """Return a model with one constant hidden state: `sample_always` says what it samples."""
    gpt2: Any = GPT2Config
    model = GPT2LMHeadModel(
        gpt2(
            vocab_size=vocabulary,
            n_embd=8,
            n_layer=1,
            n_head=1,
            n_positions=4096,
            bos_token_id=None,
            tie_word_embeddings=False,
        )
    ).eval()
    with torch.no_grad():
        model.transformer.ln_f.weight.zero_()
        model.transformer.ln_f.bias.fill_(1.0)
    return model


def sample_always(model: Any, token: int) -> None:
    """Let a `constant_model` sample one token wherever it is asked."""
    with torch.no_grad():
        model.lm_head.weight.zero_()
        model.lm_head.weight[token] = 100.0


def save_tiny(folder: Path) -> Path:
    """Write a model folder as a user would bring it."""
    tiny_model(trained=False).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


class EchoEnv(gymnasium.Env[str, str]):
    """Two turns; each pays 1 for an action that begins with the letter that the task's number
    stands for.

    `faults` maps a task to what goes wrong with it: "raise", "invalid", "truncate".
    """

    observation_space = gymnasium.spaces.Text(1000)
    action_space = gymnasium.spaces.Text(1000)

    def __init__(self, faults: dict[str, str] | None = None) -> None:
        self.faults = faults or {}
        self.texts: list[str] = []
        self.closed = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.task_id = str((options or {})["task_id"])
        self.texts, self.correct = [], 0
        return "", self._info([{"role": "user", "content": f"say {self._letter()}"}])

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.texts.append(action)
        fault = self.faults.get(self.task_id, "")
        if fault == "raise":
            raise OSError("the disk is gone")
        reward = float(action.startswith(self._letter()))
        self.correct += reward > 0
        ended = len(self.texts) == 2
        messages = (
            []
            if ended
            else [
                {"role": "tool", "name": "f()", "content": "ok"},
                {"role": "user", "content": "now?"},
            ]
        )
        info = self._info(messages)
        if ended:
            info["verdict"] = Verdict(self.correct == 2, float(self.correct == 2))
        if fault == "invalid":
            info |= {"invalid": True, "invalid_reason": "the pipe burst"}
        truncated = fault == "truncate"
        return "", reward, ended and not truncated, truncated, info

    def close(self) -> None:
        self.closed = True

    def _letter(self) -> str:
        return "ab"[sum(map(ord, self.task_id)) % 2]

    def _info(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "task_id": self.task_id,
            "category": "echo",
            "turn": len(self.texts),
            "messages": messages,
            "tools": [],
            "instructions": "Say one letter.",
            "error": None,
        }


def uncached_logprobs(model: Any, ids: list[int], temperature: float = 1.0) -> torch.Tensor:
    """Return log-probabilities (T - 1, V): row p is what one plain forward says of token p + 1."""
    with torch.no_grad():
        logits = model(torch.tensor([ids]), use_cache=False).logits[0, :-1].float()
    logprobs: torch.Tensor = (logits / temperature).log_softmax(-1)
    return logprobs


def pieces(seed: int, *, longest: int = 25, vocabulary: int = 259) -> Iterator[list[int]]:
    """Yield random token lists of random lengths."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        length = int(torch.randint(1, longest + 1, (1,), generator=generator))
        yield torch.randint(3, vocabulary, (length,), generator=generator).tolist()


class SeededEnv(EchoEnv):
    """The letter to say follows from the seed of `reset` alone, whatever the task id."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        observation, info = super().reset(seed=seed, options=options)
        info["messages"] = [{"role": "user", "content": f"say {self._letter()}"}]
        return observation, info

    def _letter(self) -> str:
        return "abcdefgh"[(self.np_random_seed or 0) % 8]


def cache_bytes(engine: Any) -> int:
    """Return the memory of an engine's cached keys and values, and of the blocks it keeps."""
    cache = engine._decoder.cache
    if (buffers := getattr(cache, "buffers", None)) is None:
        buffers = [it for part in (cache, cache.prompts) for it in (part.keys, part.values)]
    blocks = [part for block in engine._prefixes.tree._by_age for part in block.states]
    return sum(buffer.nbytes for buffer in (*buffers, *blocks))
