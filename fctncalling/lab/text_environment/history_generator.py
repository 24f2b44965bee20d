"""Generation into TextHistories with the generation engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

from fctncalling.algorithms.generation.engine import GenerationEngine
from fctncalling.algorithms.generation.engine_api import Request
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.chat_template import ChatTemplate, bos_ids
from fctncalling.data.unsafe_text import encodable_text
from fctncalling.lab.text_environment.text_history import TextHistory

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
    *("pad_token_id", "bos_token_id", "use_cache"),
    *("return_dict_in_generate", "stopping_criteria"),
)


class Sampling(NamedTuple):
    """Settings for sampling the policy's tokens."""

    temperature: float = 1.0  # 0: greedy
    max_new_tokens: int = DEFAULT_NEW_TOKENS  # between two pauses
    stop_ids: frozenset[int] = frozenset()


def parse_generation_kwargs(
    keywords: Mapping[str, Any] | None, stop_ids: Collection[int]
) -> Sampling:
    """Convert keywords of transformers' `generate` to Sampling settings.

    `eos_token_id`: an id, several, or -1 for none; not given, it is the tokenizer's. Raises
    ValueError for what would bend the distribution (top-k, top-p, penalties): training needs the
    log-probabilities that were sampled from.
    """
    keywords = dict(keywords or {})
    sampled = _flag(keywords.pop("do_sample", True))
    temperature = float(keywords.pop("temperature", 1.0)) if sampled else 0.0
    new_tokens = int(keywords.pop("max_new_tokens", DEFAULT_NEW_TOKENS))
    if "eos_token_id" in keywords:
        eos = keywords.pop("eos_token_id")
        listed = [] if eos is None else [eos] if isinstance(eos, int) else list(eos)
        stop_ids = [token for token in listed if token >= 0]
    for name, value in keywords.items():
        if name in _NO_EFFECT and value not in _NO_EFFECT[name]:
            raise ValueError(
                f"generation_kwargs: {name}={value!r} would change the distribution that training "
                "compares with; leave it out and take temperature"
            )
        if name not in _NO_EFFECT and name not in _IGNORED:
            names = ("do_sample", "temperature", "max_new_tokens", "eos_token_id")
            raise ValueError(
                f"generation_kwargs: {name!r} is not known here; expected some of "
                f"{', '.join(names)}"
            )
    return Sampling(temperature, new_tokens, frozenset(stop_ids))


def _flag(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip().lower() not in ("false", "no", "0")
    return bool(value)


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
        """Encode a text without special tokens around it."""
        backend = self._backend
        if backend is None or backend.truncation is not None or backend.padding is not None:
            return super().encode(text)  # which takes back what a call of the tokenizer left set
        ids: list[int] = backend.encode(encodable_text(text), add_special_tokens=False).ids
        return ids

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
        """Decode ids with special tokens spelled out."""
        if self._backend is not None:
            text: str = self._backend.decode(list(ids), skip_special_tokens=False)
        else:
            text = self.tokenizer.decode(
                list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
            )
        return text

    def decode_suffix(self, ids: Sequence[int], start: int) -> str:
        """Decode `ids[start:]` in context: the whole text less its start."""
        return self.spell(ids)[len(self.spell(ids[:start])) :]


OnToken = Callable[[int, int, float | None], None]


class HistoryGenerator:
    """Generator that continues histories and reuses their attention caches.

    Every episode draws from a random stream of its own, seeded from torch's global one:
    `torch.manual_seed` makes a run repeatable, and what an episode says does not depend on those
    beside it.
    """

    def __init__(self, model: nn.Module, template: RawTextTemplate) -> None:
        self.template = template
        self.stop: tuple[str, ...] = ()
        self.on_token: OnToken | None = None
        self.engine = GenerationEngine(model, template.stop_ids)
        config: Any = model.config
        self.max_positions: int | None = getattr(config, "max_position_embeddings", None)
        self._slots: dict[int, int] = {}  # id of a history -> its slot
        self._known: list[int] = []  # tokens of each slot that the engine has read or written
        self._first = 0  # the number of slot 0's query

    def configure(
        self,
        template: RawTextTemplate,
        stop: tuple[str, ...],
        sampling: Sampling,
        on_token: OnToken | None,
    ) -> None:
        """Set the tokenizer, stop strings and sampling parameters."""
        if sampling.temperature < 0 or sampling.max_new_tokens < 1:
            raise ValueError(
                f"generation_kwargs: temperature {sampling.temperature:g} and max_new_tokens "
                f"{sampling.max_new_tokens}; expected at least 0 and at least 1"
            )
        self.template = template
        self.stop = stop
        self.on_token = on_token
        engine = self.engine
        engine.decode = template.spell
        engine.temperature = sampling.temperature
        engine.stop_ids = sampling.stop_ids
        engine.max_new_tokens = sampling.max_new_tokens

    @contextmanager
    def session(self, histories: Sequence[TextHistory], first: int = 0) -> Iterator[None]:
        """Context manager: keep the caches of these histories.

        They may only grow meanwhile, and the weights must stand still.
        """
        self.engine.allocate_slots(len(histories))
        for slot, seed in enumerate(torch.randint(2**31 - 1, (len(histories),)).tolist()):
            self.engine.begin_sequence(slot, seed)
        self._slots = {id(history): slot for slot, history in enumerate(histories)}
        self._known = [0] * len(histories)
        self._first = first
        try:
            yield
        finally:
            self.engine.release()  # the caches take memory that learning needs
            self._slots = {}
            self._known = []

    def generate(self, histories: Sequence[TextHistory], max_length: int | None) -> None:
        """Extend every history by the policy's tokens up to a pause, within `max_length`."""
        if any(id(history) not in self._slots for history in histories):
            with self.session(histories):
                return self.generate(histories, max_length)
        if not histories:
            return None
        requests = [self._request(history, max_length) for history in histories]
        actions = self.engine.generate(requests)
        for history, action in zip(histories, actions, strict=True):
            self._append(history, action.ids, system=False, logprobs=action.logprobs)
            self._known[self._slots[id(history)]] = len(history.ids)
        return None

    def stopped(self, history: TextHistory) -> bool:
        """Whether the policy's last token is an end token."""
        if not history.ids or history.system_spans[-1]:
            return False
        return history.ids[-1] in self.engine.stop_ids

    def last_words(self, history: TextHistory) -> tuple[str, int]:
        """Return the policy's text since the last result, and the start of its last part.

        Without its end token.
        """
        first, end = history.last_words
        if first == end:
            return "", 0
        begin, stop = history.text_spans[first][0], len(history.text)
        if self.stopped(history):
            stop -= len(self.template.decode_suffix(history.ids, len(history.ids) - 1))
        return history.text[begin:stop], history.text_spans[-1][0] - begin

    def append_tool_output(self, history: TextHistory, ids: Sequence[int]) -> None:
        """Append ids that the environment wrote."""
        self._append(history, ids, system=True)
        if self.on_token is not None:
            for token in ids:
                self.on_token(self._number(history), token, None)

    def _request(self, history: TextHistory, max_length: int | None) -> Request:
        slot = self._slots[id(history)]
        request = Request(
            slot,
            history.ids[self._known[slot] :],
            max_new_tokens=None if max_length is None else max_length - len(history.ids),
            stop=self.stop,
        )
        if self.on_token is not None:
            request.on_token = partial(self.on_token, self._number(history))
        return request

    def _append(
        self,
        history: TextHistory,
        ids: Sequence[int],
        *,
        system: bool,
        logprobs: Sequence[float] | None = None,
    ) -> None:
        start, whole = len(history.ids), [*history.ids, *ids]
        history.append_segment(
            self.template.decode_suffix(whole, start), ids, system=system, logprobs=logprobs
        )

    def _number(self, history: TextHistory) -> int:
        return self._first + self._slots.get(id(history), 0)


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
