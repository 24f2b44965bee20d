"""Tokenizer of the embedded model.

A word is one and the same token sequence in prose, in code and in results.

Byte-pair encoding learns " kitchen" and "kitchen" as strangers, and a small model then cannot copy
the one to the other. So the space between two words is not written at all: it is implied wherever a
word token follows a word token, and pieces inside a word carry a "##" mark. Spaces beside
punctuation are kept as they are. Decoding is lossless.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

WORD = "[A-Za-z0-9_]"
INSIDE = "##"  # marks a piece that continues a word
SPECIAL_TOKENS = ("<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")
SIGNATURES = (
    "{%- macro signatures(tools) -%}{%- for tool in tools -%}{{ tool.function.name }}({{ "
    "tool.function.parameters.properties | join(',') }}){{ '' if loop.last else ' ' }}{%- endfor "
    "-%}{%- endmacro -%}"
)
CHAT_TEMPLATE = SIGNATURES + (
    "{%- if tools -%}<|system|>{{ signatures(tools) }}<|end|>{%- endif -%}{%- for message in "
    "messages -%}{%- if message.tools -%}<|system|>{{ signatures(message.tools) }}<|end|>{%- endif "
    "-%}<|{{ message.role }}|>{{ (message.content.split('\n') | last) if message.tools else "
    "message.content }}<|end|>{%- endfor -%}{%- if add_generation_prompt -%}<|assistant|>{%- endif "
    "-%}"
)


def train_tokenizer(texts: Iterable[str], *, vocabulary_size: int) -> PreTrainedTokenizerFast:
    """Train a tokenizer on texts, with the embedded model's chat template."""
    from tokenizers import pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = untrained_tokenizer()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_size,
        min_frequency=2,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        continuing_subword_prefix=INSIDE,
        show_progress=False,
    )
    tokenizer.train_from_iterator(chain(texts, byte_coverage_texts()), trainer)
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token="<|pad|>",
        eos_token="<|end|>",
        additional_special_tokens=list(SPECIAL_TOKENS[2:]),
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
    )


def untrained_tokenizer() -> Tokenizer:
    """Return a tokenizer that splits and joins words, with no vocabulary yet."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    tokenizer = Tokenizer(models.BPE(continuing_subword_prefix=INSIDE))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(f"(?<={WORD}) (?={WORD})"), "removed"),
            pre_tokenizers.Split(Regex(f"{WORD}+"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    # WordPiece's decoder puts a space before every token that does not continue a word; those
    # between two words were implied, the others never were there. A real space is still ByteLevel's
    # stand-in for it.
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.WordPiece(prefix=INSIDE, cleanup=False),
            decoders.Fuse(),
            decoders.Replace(Regex(f"(?<!{WORD}) | (?!{WORD})"), ""),
            decoders.Replace(" ", "\u0120"),
            decoders.ByteLevel(),
        ]
    )
    return tokenizer


def byte_coverage_texts() -> Iterable[str]:
    """Yield texts that teach every byte, at a piece's start and inside it."""
    for code in range(256):
        yield chr(code) * 2  # one-byte characters, and both bytes of the two-byte ones up to U+00FF
    for lead in range(0xC2, 0xE0):
        yield bytes((lead, 0x80)).decode() * 2
    for lead in range(0xE0, 0xF0):
        yield bytes((lead, 0xA0 if lead == 0xE0 else 0x80, 0x80)).decode() * 2
    for lead in range(0xF0, 0xF5):
        yield bytes((lead, 0x90 if lead == 0xF0 else 0x80, 0x80, 0x80)).decode() * 2
