"""Handlers: text to calls and back, one class for each written form, and the registry that names
them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import Any

from fctncalling.data.format_sensitivity import PromptVariant
from fctncalling.data.types import Call
from fctncalling.envs.handlers.bfcl_fc_calls import BfclFunctionCalls
from fctncalling.envs.handlers.bfcl_formats.variants import RETURN_HANDLERS, VariantCalls
from fctncalling.envs.handlers.handler import MAX_TEXT_CHARS, DecodeError, Handler
from fctncalling.envs.handlers.inline.code_blocks import MarkdownBlocks, PythonBlocks
from fctncalling.envs.handlers.inline.hermes_inline import HermesText
from fctncalling.envs.handlers.inline.inline_calls import InlineCalls
from fctncalling.envs.handlers.inline.trl_request import RequestCalls
from fctncalling.envs.handlers.json_calls import (
    HermesCalls,
    JsonCalls,
    LlamaJsonCalls,
    LlamaPythonicCalls,
    OpenAIMessages,
    opens_objects,
)
from fctncalling.envs.handlers.lenient import PREFIX, LenientCalls, MissingRepair, Reading
from fctncalling.envs.handlers.mistral_calls import MistralCalls
from fctncalling.envs.handlers.source.java_calls import JavaCalls
from fctncalling.envs.handlers.source.javascript_calls import JavaScriptCalls

__all__ = [
    "HANDLERS",
    "TEXT_HANDLERS",
    "AutoCalls",
    "DecodeError",
    "Handler",
    "InlineCalls",
    "LenientCalls",
    "MissingRepair",
    "Reading",
    "get_handler",
]

_PROMPTING = RETURN_HANDLERS["python", False]
_TOLD_BY_KEYS: tuple[Handler, ...] = (
    OpenAIMessages(),
    LlamaJsonCalls(),
    JsonCalls(),
    RETURN_HANDLERS["json", False],
    BfclFunctionCalls(),
)
"""The forms of texts that open with an object, in the order in which "auto" asks them."""
_TOLD_BY_MARK: dict[str, tuple[Handler, ...]] = {
    "<TOOLCALL>": tuple(form for (_, tagged), form in RETURN_HANDLERS.items() if tagged),
    "<functions>": (RETURN_HANDLERS["verbose_xml", False], RETURN_HANDLERS["concise_xml", False]),
    "[TOOL_CALLS]": (MistralCalls(),),
    "<tool_call>": (HermesCalls(),),
    "<|python_tag|>": (LlamaPythonicCalls(), LlamaJsonCalls()),
    "<|python_start|>": (LlamaPythonicCalls(),),
}
"""Those of all other texts but lists, by the first mark in them; the prompting form reads what none
recognises.
"""
_MARK = re.compile("|".join(map(re.escape, _TOLD_BY_MARK)))


class AutoCalls:
    """Reads each text with the first handler that recognises it; writes the prompting form."""

    name = "auto"

    def recognises(self, text: str) -> bool:
        """Whether any handler recognises the text."""
        return _handler_of(text).recognises(text)

    def decode(self, text: str) -> list[Call]:
        """Return the calls a text holds; raises DecodeError."""
        return _handler_of(text).decode(text)

    def decode_ast(self, text: str) -> Any:
        """Return the record the AST checkers judge; raises DecodeError."""
        return _handler_of(text).decode_ast(text)

    def decode_execute(self, text: str) -> list[str]:
        """Return the call strings to hand to the tools; raises DecodeError."""
        return _handler_of(text).decode_execute(text)

    def render(self, calls: Sequence[Call]) -> str:
        """Return the canonical text of calls; ValueError for what the form cannot say."""
        return _PROMPTING.render(calls)


def _handler_of(text: str) -> Handler:
    if not isinstance(text, str) or len(text) > MAX_TEXT_CHARS:  # none reads it
        return _PROMPTING
    if opens_objects(text):  # whatever marks stand behind, they stand in strings
        return next((form for form in _TOLD_BY_KEYS if form.recognises(text)), _PROMPTING)
    mark = _MARK.search(text)
    if mark is None or text[: mark.start()].lstrip("`\n ").startswith("["):
        return _PROMPTING
    return next((form for form in _TOLD_BY_MARK[mark[0]] if form.recognises(text)), _PROMPTING)


HANDLERS: dict[str, Handler] = {
    handler.name: handler
    for handler in (
        *_TOLD_BY_KEYS,
        *chain.from_iterable(_TOLD_BY_MARK.values()),
        MistralCalls(by_name=True),
        JavaCalls(),  # told by a task's category, by no text
        JavaScriptCalls(),
        _PROMPTING,
        AutoCalls(),
    )
}
"""Name -> handler; `get_handler` also knows lenient modes and prompt configurations."""

TEXT_HANDLERS: dict[str, InlineCalls] = {
    handler.name: handler
    for handler in (RequestCalls(), PythonBlocks(), MarkdownBlocks(), HermesText())
}
"""Name -> handler of calls in mid-generation, behind which the message goes on."""


def get_handler(name: str) -> Handler:
    """Return the handler of a name, of `lenient:<name>`, or of a prompt configuration of format
    sensitivity.

    Raises LookupError, naming the known ones, and MissingRepair where a lenient mode needs a
    library.
    """
    if name in HANDLERS:
        return HANDLERS[name]
    if name in TEXT_HANDLERS:
        return TEXT_HANDLERS[name]
    if name.startswith(PREFIX):
        return LenientCalls(get_handler(name.removeprefix(PREFIX)))
    try:
        return VariantCalls(PromptVariant.parse(name))
    except ValueError:
        raise LookupError(
            f'no handler is called "{name}": expected one of '
            f"{', '.join((*HANDLERS, *TEXT_HANDLERS))}"
        ) from None
