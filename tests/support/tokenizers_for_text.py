"""Small real tokenizers of the kinds that differ: byte-level and SentencePiece-like, with and
without BOS.
"""

from __future__ import annotations

from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

CORPUS = [
    "What is 13 - 3? <request><Calculator>13-3<call>10.0<response> Result=10.0<submit>",
    "How many pencils are left? There are 24 boxes of 29 pencils; 4 are given away.\n\n",
    "Tool error: unknown tool. The answer is 0 1 2 3 4 5 6 7 8 9 é ü 漢字 — (a + b) * c = d / e",
    "<PYTHON>print(1)</PYTHON>\n<PYTHON-OUTPUT>\n1\n</PYTHON-OUTPUT>",
]


def byte_level(*, bos: bool) -> Any:
    """Return a byte-level BPE tokenizer, as GPT-2's."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        initial_alphabet=alphabet,
        special_tokens=["<s>", "</s>"],
        show_progress=False,
    )
    backend.train_from_iterator(CORPUS, trainer)
    return _wrapped(backend, bos)


def sentencepiece_like(*, bos: bool, prepend_scheme: str = "first") -> Any:
    """Return a unigram tokenizer that puts a blank before a text, with a token for every byte, as
    Llama's.
    """
    pieces: list[tuple[str, float]] = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0)]
    pieces += [(f"<0x{byte:02X}>", -20.0) for byte in range(256)]
    characters = sorted({"▁", *"".join(CORPUS).replace(" ", "▁")} - {"漢"})
    pieces += [(character, -5.0) for character in characters]
    pieces += [
        (word, -6.0)
        for word in ("▁What", "▁is", "▁Result", "Result", "request", "call", "submit", "response")
    ]
    backend = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=True))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme=prepend_scheme)
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return _wrapped(backend, bos)


def _wrapped(backend: Tokenizer, bos: bool) -> Any:
    if bos:
        begin = backend.token_to_id("<s>")
        backend.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", begin)]
        )
    fast: Any = PreTrainedTokenizerFast
    return fast(
        tokenizer_object=backend,
        bos_token="<s>" if bos else None,
        eos_token="</s>",
        pad_token="</s>",
    )


TOKENIZERS = {
    "byte-level": lambda: byte_level(bos=False),
    "byte-level with BOS": lambda: byte_level(bos=True),
    "sentencepiece": lambda: sentencepiece_like(bos=False),
    "sentencepiece with BOS": lambda: sentencepiece_like(bos=True),
    "sentencepiece, blank before every piece": lambda: sentencepiece_like(
        bos=True, prepend_scheme="always"
    ),
}
