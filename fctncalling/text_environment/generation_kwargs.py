"""Translate transformers generation_kwargs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

DEFAULT_NEW_TOKENS = 128
_NO_EFFECT = {  # keyword -> values that ask for nothing
    "top_k": (None, 0),
    "top_p": (None, 1),
    "typical_p": (None, 1),
    "min_length": (None, -1, 0),
    "min_new_tokens": (None, -1, 0),
    "num_beams": (None, 1),
    "num_return_sequences": (None, 1),
    "repetition_penalty": (None, 1),
}
_IGNORED = (
    "pad_token_id",
    "bos_token_id",
    "use_cache",
    "return_dict_in_generate",
    "stopping_criteria",
)


@dataclass(frozen=True)
class Sampling:
    """How the policy's tokens are drawn."""

    temperature: float = 1.0  # 0: greedy
    max_new_tokens: int = DEFAULT_NEW_TOKENS  # between two pauses
    stop_ids: frozenset[int] = frozenset()


def parse_generation_kwargs(
    keywords: Mapping[str, Any] | None, stop_ids: Collection[int]
) -> Sampling:
    """Return the Sampling settings of keywords named as in transformers' `generate`.

    `eos_token_id`: an id, several, or -1 for none; not given, it is the tokenizer's. Raises
    ValueError for what would bend the distribution (top-k, top-p, penalties): training needs the
    log-probabilities that were sampled from.
    """
    keywords = dict(keywords or {})
    sampled = _flag(keywords.pop("do_sample", True))
    temperature = float(keywords.pop("temperature", 1.0)) if sampled else 0.0
    new_tokens = int(keywords.pop("max_new_tokens", DEFAULT_NEW_TOKENS))
    if "eos_token_id" in keywords:
        given = keywords.pop("eos_token_id")
        listed = [] if given is None else [given] if isinstance(given, int) else list(given)
        stop_ids = [each for each in listed if each >= 0]
    for name, value in keywords.items():
        if name in _NO_EFFECT and value not in _NO_EFFECT[name]:
            raise ValueError(
                f"generation_kwargs: {name}={value!r} would change the distribution that training "
                "compares with; "
                "leave it out and take temperature"
            )
        if name not in _NO_EFFECT and name not in _IGNORED:
            known = ("do_sample", "temperature", "max_new_tokens", "eos_token_id")
            raise ValueError(
                f"generation_kwargs: {name!r} is not known here; expected some of "
                f"{', '.join(known)}"
            )
    return Sampling(temperature, new_tokens, frozenset(stop_ids))


def _flag(value: Any) -> bool:
    return (
        value.strip().lower() not in ("false", "no", "0") if isinstance(value, str) else bool(value)
    )
