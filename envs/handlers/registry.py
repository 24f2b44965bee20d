"""Registry of handlers: by name, and by task."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain

from fctncalling.data.format_sensitivity import PromptVariant
from fctncalling.data.types import Call, Task
from fctncalling.envs.handlers.handler import MAX_TEXT_CHARS, DecodedAction, Handler
from fctncalling.envs.handlers.inline import (
    InlineCalls,
    InlineHermesCalls,
    MarkdownBlockCalls,
    PythonXmlBlocks,
    TrlRequestCalls,
)
from fctncalling.envs.handlers.java_calls import JavaCalls
from fctncalling.envs.handlers.javascript_calls import JavaScriptCalls
from fctncalling.envs.handlers.json_calls import (
    OPENING,
    BfclFunctionCalls,
    HermesCalls,
    JsonCalls,
    LlamaJsonCalls,
    LlamaPythonicCalls,
    OpenAIMessages,
)
from fctncalling.envs.handlers.lenient import PREFIX, LenientCalls
from fctncalling.envs.handlers.mistral_calls import MistralCalls
from fctncalling.envs.handlers.python_calls import PythonCalls
from fctncalling.envs.handlers.return_formats import (
    ConciseXml,
    JsonReturn,
    TaggedPythonReturn,
    VerboseXml,
)

# Handlers of format sensitivity's prompt configurations.

RETURN_HANDLERS: dict[tuple[str, bool], Handler] = {
    ("python", False): PythonCalls(),
    ("python", True): TaggedPythonReturn(),
    **{
        (form.format, tagged): form(tagged=tagged)
        for form in (JsonReturn, VerboseXml, ConciseXml)
        for tagged in (False, True)
    },
}
"""(BFCL's return format, whether it is tagged) -> the handler that reads and writes it."""


class PromptVariantCalls(Handler):
    """Prompt-variant calls: a handler of a variant's return format, tagged or not.

    Its name is the variant's, which words the instructions.
    """

    def __init__(self, variant: PromptVariant) -> None:
        self.variant = variant
        self.name = str(variant)
        self._form = RETURN_HANDLERS[variant.return_format, variant.tagged]

    def recognises(self, text: str) -> bool:
        """Whether the handler recognises the text, by the variant's return format."""
        return self._form.recognises(text)

    def decode_action(self, text: str) -> DecodedAction:
        """Decode an action's text once; raises DecodeError."""
        return self._form.decode_action(text)

    def render(self, calls: Sequence[Call]) -> str:
        """Render calls as their canonical text; ValueError for what the format cannot say."""
        return self._form.render(calls)


PROMPTING = RETURN_HANDLERS["python", False]
HANDLERS_BY_KEYS: tuple[Handler, ...] = (
    OpenAIMessages(),
    LlamaJsonCalls(),
    JsonCalls(),
    RETURN_HANDLERS["json", False],
    BfclFunctionCalls(),
)
"""Handlers of texts that open with an object, in the order in which "auto" asks them."""
HANDLERS_BY_MARK: dict[str, tuple[Handler, ...]] = {
    "<TOOLCALL>": tuple(form for (_, tagged), form in RETURN_HANDLERS.items() if tagged),
    "<functions>": (RETURN_HANDLERS["verbose_xml", False], RETURN_HANDLERS["concise_xml", False]),
    "[TOOL_CALLS]": (MistralCalls(),),
    "<tool_call>": (HermesCalls(),),
    "<|python_tag|>": (LlamaPythonicCalls(), LlamaJsonCalls()),
    "<|python_start|>": (LlamaPythonicCalls(),),
}
"""First mark in any other text but a list -> its handlers; else the prompting form is read."""
_MARK = re.compile("|".join(map(re.escape, HANDLERS_BY_MARK)))


class AutoCalls(Handler):
    """Auto calls: a handler that detects each text's format; it writes the prompting form."""

    name = "auto"

    def recognises(self, text: str) -> bool:
        """Whether any handler recognises the text."""
        return detect_handler(text).recognises(text)

    def decode_action(self, text: str) -> DecodedAction:
        """Decode an action's text once, by the detected handler; raises DecodeError."""
        return detect_handler(text).decode_action(text)

    def render(self, calls: Sequence[Call]) -> str:
        """Render calls as their canonical text; ValueError for what the form cannot say."""
        return PROMPTING.render(calls)


def detect_handler(text: str) -> Handler:
    """Detect the handler of a text's format, by its keys or by the first mark in it."""
    if not isinstance(text, str) or len(text) > MAX_TEXT_CHARS:  # none reads it
        return PROMPTING
    if OPENING.match(text):  # whatever marks stand behind, they stand in strings
        return next((each for each in HANDLERS_BY_KEYS if each.recognises(text)), PROMPTING)
    mark = _MARK.search(text)
    if mark is None or text[: mark.start()].lstrip("`\n ").startswith("["):
        return PROMPTING
    return next((each for each in HANDLERS_BY_MARK[mark[0]] if each.recognises(text)), PROMPTING)


HANDLERS: dict[str, Handler] = {
    handler.name: handler
    for handler in (
        *HANDLERS_BY_KEYS,
        *chain.from_iterable(HANDLERS_BY_MARK.values()),
        MistralCalls(by_name=True),
        JavaCalls(),  # told by a task's category, by no text
        JavaScriptCalls(),
        PROMPTING,
        AutoCalls(),
    )
}
"""Name -> handler; `get_handler` also knows lenient modes and prompt configurations."""

TEXT_HANDLERS: dict[str, InlineCalls] = {
    handler.name: handler
    for handler in (TrlRequestCalls(), PythonXmlBlocks(), MarkdownBlockCalls(), InlineHermesCalls())
}
"""Name -> handler of calls in mid-generation, behind which the message goes on."""


def get_handler(name: str) -> Handler:
    """Get the handler of a name, of `lenient:<name>`, or of a format-sensitivity configuration.

    Raises LookupError, naming the known ones, and MissingJsonRepairExtra where a lenient mode needs
    a library.
    """
    if name in HANDLERS:
        return HANDLERS[name]
    if name in TEXT_HANDLERS:
        return TEXT_HANDLERS[name]
    if name.startswith(PREFIX):
        return LenientCalls(get_handler(name.removeprefix(PREFIX)))
    try:
        return PromptVariantCalls(PromptVariant.parse(name))
    except ValueError:
        raise LookupError(
            f'no handler is called "{name}": expected one of '
            f"{', '.join((*HANDLERS, *TEXT_HANDLERS))}"
        ) from None


def resolve_handler(handler: Handler, task: Task) -> Handler:
    """Resolve "auto" to the handler of a task's calls; return any other handler as it is."""
    return handler_for(task, "auto") if handler.name == "auto" else handler


def handler_for(task: Task, form: str = "prompting") -> Handler:
    """Return the handler for a task's calls in an answer form.

    "prompting": as the task's prompt variant or, without one, its language writes calls.
    "tool_call": BFCL's function-calling form. "tools_text": whatever a server writes. "auto": the
    prompt variant, Java and JavaScript as in "prompting", whatever form a Python task's text has.
    """
    if form == "tool_call":
        return HANDLERS["tool_calls"]
    if form == "tools_text":
        return HANDLERS["auto"]
    if "prompt_variant" in task.extra:
        return get_handler(str(task.extra["prompt_variant"]))
    if form == "auto" and task.language == "python":
        return HANDLERS["auto"]
    return HANDLERS[f"{task.language}_calls"]
