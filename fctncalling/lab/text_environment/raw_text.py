"""Raw text for a TextEnvironment: encoding without roles, and the settings of sampling."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from torch import nn

from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.chat_template import ChatTemplate, bos_ids
from fctncalling.data.unsafe_text import encodable_text

DEFAULT_NEW_TOKENS = 128  # between two pauses
_NO_EFFECT: dict[str, tuple[Any, ...]] = {  # keyword -> values that ask for nothing
    **dict.fromkeys(("top_k", "min_length", "min_new_tokens"), (None, -1, 0)),
    **dict.fromkeys(("top_p", "typical_p", "num_beams"), (None, 1)),
    **dict.fromkeys(("num_return_sequences", "repetition_penalty"), (None, 1)),
}
_IGNORED = "pad_token_id bos_token_id use_cache return_dict_in_generate stopping_criteria".split()


def parse_generation_kwargs(
    keywords: Mapping[str, Any] | None, stop_ids: Collection[int]
) -> dict[str, Any]:
    """Convert keywords of transformers' `generate` to settings of a GenerationEngine.

    `eos_token_id`: an id, several, or -1 for none; not given, it is the tokenizer's. Raises
    ValueError for what would bend the distribution (top-k, top-p, penalties): training needs the
    log-probabilities that were sampled from.
    """
    keywords = dict(keywords or {})
    sampled = str(keywords.pop("do_sample", True)).strip().lower()
    temperature = float(keywords.pop("temperature", 1.0))
    new_tokens = int(keywords.pop("max_new_tokens", DEFAULT_NEW_TOKENS))
    ends = keywords.pop("eos_token_id", tuple(stop_ids))
    ends = [ends] if isinstance(ends, int) else ends or ()
    if temperature < 0 or new_tokens < 1:
        raise ValueError(
            f"generation_kwargs: temperature {temperature:g} and max_new_tokens {new_tokens}; "
            "expected at least 0 and at least 1"
        )
    for name, value in keywords.items():
        if name in _NO_EFFECT and value not in _NO_EFFECT[name]:
            raise ValueError(
                f"generation_kwargs: {name}={value!r} would change the distribution that training "
                "compares with; leave it out and take temperature"
            )
        if name not in _NO_EFFECT and name not in _IGNORED:
            raise ValueError(
                f"generation_kwargs: {name!r} is not known here; expected some of do_sample, "
                "temperature, max_new_tokens, eos_token_id"
            )
    return {
        "temperature": 0.0 if sampled in ("false", "no", "0", "none") else temperature,
        "max_new_tokens": new_tokens,
        "stop_ids": frozenset(token for token in ends if token >= 0),
    }


RAW_TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"
_ANCHORS = (">", "\n", "a", ".", "0")  # one of them does not merge with whatever a text begins with


class RawTextTemplate(ChatTemplate):
    """Chat template for raw text: encodes and decodes without roles.

    A query begins with the BOS token where the tokenizer puts one; nothing else ever does. What is
    put in later is encoded as the continuation it is: tokenizers that put a blank before a text
    (SentencePiece's) do not here.
    """

    def __init__(self, tokenizer: Any, *, tags: Sequence[str] = ()) -> None:
        super().__init__(tokenizer, RAW_TEMPLATE)
        self.opening_ids = bos_ids(tokenizer)
        self._tags = tuple(tags)
        heads = [(anchor, self.encode(anchor)) for anchor in _ANCHORS]
        self._heads = [(anchor, head, self.spell(head)) for anchor, head in heads]

    def query(self, text: str) -> list[int]:
        """Encode the text that an episode begins with."""
        return [*self.opening_ids, *self.encode(text)]

    def encode_untrusted(self, text: str, tags: Sequence[str] = ()) -> list[int]:
        """Encode a text that continues other tokens.

        It cannot spell special tokens other than the tags.
        """
        return self.continuation(self.escape_specials(text, (*self._tags, *tags)))

    def continuation(self, text: str) -> list[int]:
        """Return ids that decode to exactly this text after any other ids, if they exist."""
        text = encodable_text(text)  # what is compared is what can be encoded
        ids = self.encode(text)
        for anchor, head, before in self._heads:
            if self.spell([*head, *ids]) == before + text:
                return ids
            joined = self.encode(anchor + text)
            if joined[: len(head)] == head and self.spell(joined) == before + text:
                return joined[len(head) :]
        return ids

    def spell(self, ids: Sequence[int]) -> str:
        """Decode ids with special tokens spelled out, past the tokenizer's slow wrapper."""
        backend: Any = getattr(self.tokenizer, "backend_tokenizer", None)
        if backend is None:
            return super().spell(ids)
        text: str = backend.decode(list(ids), skip_special_tokens=False)
        return text

    def decode_suffix(self, ids: Sequence[int], start: int) -> str:
        """Decode `ids[start:]` in context: the whole text less its start."""
        return self.spell(ids)[len(self.spell(ids[:start])) :]


def language_model(model: Any) -> nn.Module:
    """Return the causal language model of a policy.

    Itself, or what the policy puts a value head on.
    """
    is_policy = isinstance(model, ActorCritic)
    inner = model.model if is_policy else getattr(model, "pretrained_model", model)
    if not isinstance(inner, nn.Module):
        raise TypeError(
            f"model is a {type(model).__name__}: expected a causal language model, or a policy "
            "around one"
        )
    return inner
