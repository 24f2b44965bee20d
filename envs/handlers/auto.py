"""Handler "auto": detects the format of each text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fctncalling.data.types import Call
from fctncalling.envs.handlers.bfcl_fc_calls import BfclFunctionCalls
from fctncalling.envs.handlers.bfcl_formats.variants import RETURN_HANDLERS
from fctncalling.envs.handlers.handler import MAX_TEXT_CHARS, DecodedAction, Handler
from fctncalling.envs.handlers.json_calls import (
    HermesCalls,
    JsonCalls,
    LlamaJsonCalls,
    LlamaPythonicCalls,
    OpenAIMessages,
    opens_objects,
)
from fctncalling.envs.handlers.mistral_calls import MistralCalls

PROMPTING = RETURN_HANDLERS["python", False]
FORMS_BY_KEYS: tuple[Handler, ...] = (
    OpenAIMessages(),
    LlamaJsonCalls(),
    JsonCalls(),
    RETURN_HANDLERS["json", False],
    BfclFunctionCalls(),
)
"""The forms of texts that open with an object, in the order in which "auto" asks them."""
FORMS_BY_MARK: dict[str, tuple[Handler, ...]] = {
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
_MARK = re.compile("|".join(map(re.escape, FORMS_BY_MARK)))


class AutoCalls(Handler):
    """Reads each text with the first handler that recognises it; writes the prompting form."""

    name = "auto"

    def recognises(self, text: str) -> bool:
        """Whether any handler recognises the text."""
        return handler_of(text).recognises(text)

    def decode_action(self, text: str) -> DecodedAction:
        """Decode a text once; raises DecodeError."""
        return handler_of(text).decode_action(text)

    def render(self, calls: Sequence[Call]) -> str:
        """Return the canonical text of calls; ValueError for what the form cannot say."""
        return PROMPTING.render(calls)


def handler_of(text: str) -> Handler:
    """Return the handler that reads a text: by its keys, or by the first mark in it."""
    if not isinstance(text, str) or len(text) > MAX_TEXT_CHARS:  # none reads it
        return PROMPTING
    if opens_objects(text):  # whatever marks stand behind, they stand in strings
        return next((form for form in FORMS_BY_KEYS if form.recognises(text)), PROMPTING)
    mark = _MARK.search(text)
    if mark is None or text[: mark.start()].lstrip("`\n ").startswith("["):
        return PROMPTING
    return next((form for form in FORMS_BY_MARK[mark[0]] if form.recognises(text)), PROMPTING)
