"""Ends of answers: the ids at which a message of the policy is over, and which of them it learns.

A template, a tokenizer and generation_config.json each name some; models sample all of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2.exceptions import TemplateError

from fctncalling.data.types import Message

REFUSALS = (TemplateError, TypeError, ValueError, KeyError, AttributeError, IndexError)
"""What a template raises for messages that it does not render."""
_WORDS = "fctnprobewords"
_ANSWER: Message = {"role": "assistant", "content": _WORDS}
_QUESTION: Message = {"role": "user", "content": "fctnprobequestion"}
_CALL: Message = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {
            "id": "123456789",
            "type": "function",
            "function": {"name": "fctnprobe", "arguments": {"a": _WORDS}},
        }
    ],
}
_RESULT: Message = {
    "role": "tool",
    "name": "fctnprobe",
    "tool_call_id": "123456789",
    "content": "fctnproberesult",
}


def listed_ends(source: Any) -> list[int]:
    """Return the ids that a model names as ends, of its folder or name, or of a loaded model.

    Those of generation_config.json, else of config.json.
    """
    if not isinstance(source, str):
        eos = getattr(getattr(source, "generation_config", source), "eos_token_id", None)
        return _as_ids(eos)
    from transformers import AutoConfig, GenerationConfig

    with contextlib.suppress(OSError, ValueError):
        return _as_ids(GenerationConfig.from_pretrained(source).eos_token_id)
    with contextlib.suppress(OSError, ValueError):
        return _as_ids(
            getattr(AutoConfig.from_pretrained(source, trust_remote_code=False), "eos_token_id", 0)
        )
    return []


def add_ends(model: Any, ends: Sequence[int]) -> None:
    """Add ids to the ends of a model's generation_config, which is saved with it."""
    config = getattr(model, "generation_config", None)
    if config is None:
        return
    listed = _as_ids(config.eos_token_id)
    if missing := [each for each in dict.fromkeys(ends) if each not in listed]:
        config.eos_token_id = [*listed, *missing]
        config._from_model_config = False  # else transformers makes it anew, of config.json


def _as_ids(value: Any) -> list[int]:
    listed = value if isinstance(value, list | tuple) else [value]
    return [int(each) for each in listed if isinstance(each, int) and each >= 0]


@dataclass(frozen=True)
class AnswerEnds:
    """Ends of a policy's messages under a chat template."""

    closing: list[int]  # what the template writes behind a last answer, to its first special token
    of_words: int  # the end that the model knows behind words,
    of_calls: int  # and behind calls
    stops: frozenset[int]  # at which sampling ends
    special: frozenset[int]  # tokens that ordinary text is never encoded to
    blank: frozenset[int]  # of line breaks, which may stand before a mark

    @property
    def taught(self) -> list[int]:
        """Ends that demonstrations teach, which a saved model has to list."""
        return list(dict.fromkeys((self.of_words, self.of_calls)))

    def num_written(self, tail: Sequence[int], last_id: int | None) -> int:
        """Return with how many ids of a tail an action has ended itself.

        tail: what the template writes behind an action; last_id: the action's last, None if it
        ended as the tail begins. 0 if it was cut, or ended otherwise: the tail then closes it.
        """
        at = next((index for index, token in enumerate(tail) if token in self.special), None)
        if at is None or tail[at] not in self.stops or last_id not in (None, tail[at]):
            return 0
        is_next = self.blank.issuperset(tail[:at]) or list(tail[: at + 1]) == self.closing
        return at + 1 if is_next else 0


def find_answer_ends(
    tokenizer: Any,
    render: Callable[[Sequence[Message], bool], str],
    encode: Callable[[str], list[int]],
    listed: Collection[int],
) -> AnswerEnds:
    """Find the ends under a template; `render(messages, prompt)` is its text.

    They are what closes an answer, the tokenizer's eos, those `listed` by the model that are
    special tokens, and where nothing closes an answer the special tokens that open the messages
    behind it, as GLM's <|user|> and <|observation|>. ValueError where there is none.
    """
    special = frozenset(tokenizer.added_tokens_decoder)
    blank = frozenset(encode("\n")) | frozenset(encode("\n\n"))

    def tail(answer: Message, *behind: Message) -> list[int]:
        text = render([_QUESTION, answer, *behind], False)
        return encode(text[text.index(_WORDS) + len(_WORDS) :])

    last = tail(_ANSWER)
    closing = next((last[: at + 1] for at, token in enumerate(last) if token in special), [])
    marks: list[int] = []
    if not closing:  # the next message's mark ends this one, unless answers begin with it, too
        prompt = render([_QUESTION], True)
        opening = encode(prompt[prompt.index(_QUESTION["content"]) :])
        for behind in (_QUESTION, _RESULT):
            with contextlib.suppress(*REFUSALS):
                first = [token for token in tail(_ANSWER, behind) if token not in blank][:1]
                marks += special.intersection(first).difference(opening)
    eos = [] if tokenizer.eos_token_id is None else [int(tokenizer.eos_token_id)]
    if not (own := [*closing[-1:], *marks, *eos]):
        raise ValueError(
            "the chat template writes no special token behind an assistant message and the "
            "tokenizer has no eos_token, so no action could ever end: set tokenizer.eos_token, "
            "or give --chat_template FILE"
        )
    stops = frozenset((*own, *special.intersection(listed)))
    behind_calls = list[int]()
    for answer in (_CALL, _ANSWER):  # the latter where the template writes no calls
        with contextlib.suppress(*REFUSALS):
            behind_calls += [token for token in tail(answer, _RESULT) if token in stops]
    of_calls = next(iter(behind_calls), own[0])
    return AnswerEnds(closing, own[0], of_calls, stops, special, blank)
