"""Raw-text tokenisation and its continuations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fctncalling.algorithms.policy.chat_template import ChatTemplate, bos_ids
from fctncalling.data.surrogates import encodable

RAW_TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"
_ANCHORS = (">", "\n", "a", ".", "0")  # one of them does not merge with whatever a text begins with


class RawTextTemplate(ChatTemplate):
    """Chat template for raw text: encodes and decodes without roles.

    A query begins with the BOS token where the tokenizer puts one; nothing else ever does. What is
    put in later is encoded as the continuation it is: tokenizers that put a blank before a text
    (SentencePiece's) do not here.
    """

    def __init__(self, tokenizer: Any, *, tags: Sequence[str] = ()) -> None:
        # Thrice as fast without its wrapper.
        self._backend: Any = getattr(tokenizer, "backend_tokenizer", None)
        super().__init__(tokenizer, RAW_TEMPLATE)
        self.opening_ids = bos_ids(tokenizer)
        self._tags = tuple(tags)
        self._heads = [
            (anchor, head, self.spell(head))
            for anchor in _ANCHORS
            for head in [self.encode(anchor)]
        ]

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text; nothing is put in front or behind."""
        backend = self._backend
        if backend is None or backend.truncation is not None or backend.padding is not None:
            return super().encode(text)  # which takes back what a call of the tokenizer left set
        ids: list[int] = backend.encode(encodable(text), add_special_tokens=False).ids
        return ids

    def query(self, text: str) -> list[int]:
        """Return the ids of a text that an episode begins with."""
        return [*self.opening_ids, *self.encode(text)]

    def encode_untrusted(self, text: str, tags: Sequence[str] = ()) -> list[int]:
        """Return the ids of a text that continues others.

        It cannot spell special tokens other than the tags.
        """
        return self.continuation(self.escape_specials(text, (*self._tags, *tags)))

    def continuation(self, text: str) -> list[int]:
        """Return ids that decode to exactly the text after any other ids, if there are such."""
        text = encodable(text)  # what is compared is what can be encoded
        ids = self.encode(text)
        for anchor, head, before in self._heads:
            if self.spell([*head, *ids]) == before + text:
                return ids
            joined = self.encode(anchor + text)
            if joined[: len(head)] == head and self.spell(joined) == before + text:
                return joined[len(head) :]
        return ids

    def spell(self, ids: Sequence[int]) -> str:
        """Return the text of ids, special tokens spelled out."""
        if self._backend is not None:
            text: str = self._backend.decode(list(ids), skip_special_tokens=False)
        else:
            text = self.tokenizer.decode(
                list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
            )
        return text

    def decode_suffix(self, ids: Sequence[int], start: int) -> str:
        """Return the text of `ids[start:]` in context.

        The decoded whole without the decoded prefix.
        """
        return self.spell(ids)[len(self.spell(ids[:start])) :]
