"""Stand-in tokenizer: a token for each byte, and one for each mark of a template."""

from __future__ import annotations

import re
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

_MARK = re.compile(
    r"<[|\uff5c][^<>\n'\"{}]*?[|\uff5c]>|<\|?[a-z_:\"]+\|?>|</[a-z_:]+>|<[A-Z][A-Z_]+\d*>|\[/?[A-Z_]{3,}\]|"
    r"\[e~\[|\]~!?b\[|\[gMASK\]"
)
_NO_TOKENS = re.compile(
    r"</?(?:tools|think|tool|functions?|parameters?|arguments|name|description|type|required)>"
)  # which models read as ordinary text, or which are names of a schema's fields
_ENDS = (
    *("<|im_end|>", "<|eot_id|>", "<|end|>", "</s>", "<end_of_turn>", "<|endoftext|>", "<eos>"),
    *(
        "<\uff5cend\u2581of\u2581sentence\uff5c>",
        "<|END_OF_TURN_TOKEN|>",
        "<|return|>",
        "[e~[",
        "<turn|>",
    ),
    *("<|end_of_text|>", "<|user|>"),
)
_BEGINS = (
    *(
        "<|begin_of_text|>",
        "<s>",
        "<bos>",
        "<\uff5cbegin\u2581of\u2581sentence\uff5c>",
        "<BOS_TOKEN>",
    ),
    "<|startoftext|>",
)


def stand_in_tokenizer(source: str) -> Any:
    """Make a tokenizer for a chat template, with the special tokens of its source."""
    bos = next((token for token in _BEGINS if token in source), None)
    bos = "<s>" if bos is None and "bos_token" in source else bos
    eos = next((token for token in _ENDS if token in source), "<|endoftext|>")
    marks = [mark for mark in sorted(set(_MARK.findall(source))) if not _NO_TOKENS.match(mark)]
    special = list(dict.fromkeys(["<pad0>", *([bos] if bos else ()), eos, *marks]))
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(
        models.BPE(vocab={t: i for i, t in enumerate(special + alphabet)}, merges=[])
    )
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    fast: Any = PreTrainedTokenizerFast
    tokenizer = fast(
        tokenizer_object=backend,
        eos_token=eos,
        bos_token=bos,
        pad_token=special[0],
        additional_special_tokens=special[1:],
    )
    tokenizer.chat_template = source
    return tokenizer
