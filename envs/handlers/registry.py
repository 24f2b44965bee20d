"""Registry of handlers: by name, and by task."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from fctncalling.data.format_sensitivity import PromptVariant
from fctncalling.data.types import Call, FunctionDoc, Task
from fctncalling.envs.handlers.call_forms import CALL_FORMS
from fctncalling.envs.handlers.call_marks import FORMS_BY_MARK, MARK, form_at, is_opened
from fctncalling.envs.handlers.form_calls import FormCalls
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
    JsonCalls,
    LlamaJsonCalls,
    LlamaPythonicCalls,
    OpenAIMessages,
)
from fctncalling.envs.handlers.lenient import PREFIX, LenientCalls
from fctncalling.envs.handlers.mistral_calls import MistralCalls
from fctncalling.envs.handlers.python_calls import PythonCalls
from fctncalling.envs.handlers.return_formats import (
    OPEN_TAG,
    ConciseXml,
    JsonReturn,
    TaggedPythonReturn,
    VerboseXml,
)
from fctncalling.envs.handlers.thoughts import split_thought

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

    def decode_action(self, text: str, functions: Sequence[FunctionDoc] = ()) -> DecodedAction:
        """Decode an action's text once; raises DecodeError."""
        return self._form.decode_action(text, functions)

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
FORM_HANDLERS = {name: FormCalls(form) for name, form in CALL_FORMS.items()}
HANDLERS_BY_MARK: dict[str, tuple[Handler, ...]] = {
    **{
        mark: tuple(FORM_HANDLERS[each.name] for each in FORMS_BY_MARK[mark])
        for mark in FORMS_BY_MARK
    },
    OPEN_TAG: tuple(form for (_, tagged), form in RETURN_HANDLERS.items() if tagged)
    + (FORM_HANDLERS["nemotron_calls"],),
    "<functions>": (RETURN_HANDLERS["verbose_xml", False], RETURN_HANDLERS["concise_xml", False]),
    "[TOOL_CALLS]": (MistralCalls(),),
    "<|python_tag|>": (LlamaPythonicCalls(), LlamaJsonCalls()),
    "<|python_start|>": (LlamaPythonicCalls(),),
}
"""Mark -> the handlers of calls that it opens; other texts are read in the prompting form."""


AUTO = "auto:"
"""Before the name of a form that is written, where every known one is read."""


class AutoCalls(Handler):
    """Auto calls: a handler that detects each text's format; it writes the prompting form."""

    name = "auto"

    def recognises(self, text: str) -> bool:
        """Whether any handler recognises the text."""
        rest = split_thought(text).rest
        return detect_handler(rest).recognises(rest)

    def decode_action(self, text: str, functions: Sequence[FunctionDoc] = ()) -> DecodedAction:
        """Decode an action's text once, by the detected handler; raises DecodeError."""
        rest = split_thought(text).rest
        return detect_handler(rest).decode_action(rest, functions)

    def render(self, calls: Sequence[Call]) -> str:
        """Render calls as their canonical text; ValueError for what the form cannot say."""
        return PROMPTING.render(calls)


class TemplateCalls(AutoCalls):
    """Auto calls under a chat template: its own form is read first, and written.

    Its name is "auto:" and its form's.
    """

    def __init__(self, own: Handler) -> None:
        self.own = own
        self.name = f"{AUTO}{own.name}"

    def decode_action(self, text: str, functions: Sequence[FunctionDoc] = ()) -> DecodedAction:
        """Decode an action's text once, in the template's form if it opens; raises DecodeError."""
        rest = split_thought(text).rest
        if self.own.recognises(rest):
            return self.own.decode_action(rest, functions)
        return super().decode_action(text, functions)

    def render(self, calls: Sequence[Call]) -> str:
        """Render calls as their canonical text; ValueError for what the form cannot say."""
        return self.own.render(calls)


def detect_handler(text: str) -> Handler:
    """Detect the handler of a text's format, by its keys or by the first mark in it."""
    if not isinstance(text, str) or len(text) > MAX_TEXT_CHARS:  # none reads it
        return PROMPTING
    if OPENING.match(text):  # whatever marks stand behind, they stand in strings
        return next((each for each in HANDLERS_BY_KEYS if each.recognises(text)), PROMPTING)
    if text.lstrip("`\n ").startswith("[") and not text.startswith("[TOOL"):
        return PROMPTING
    for found in MARK.finditer(text):
        form = form_at(text, found.start(), found[0])
        if form is not None and found[0] != OPEN_TAG:
            return FORM_HANDLERS[form.name]
        handlers = HANDLERS_BY_MARK[found[0]]
        if found[0] not in FORMS_BY_MARK or found[0] == OPEN_TAG:
            handlers = tuple(each for each in handlers if each.recognises(text))
        elif not is_opened(text, found.start(), found[0]):
            continue
        if handlers:
            return handlers[0]
    return (
        FORM_HANDLERS["functionary32_calls"]
        if FORM_HANDLERS["functionary32_calls"].recognises(text)
        else PROMPTING
    )


HANDLERS: dict[str, Handler] = {
    handler.name: handler
    for handler in (
        *HANDLERS_BY_KEYS,
        *chain.from_iterable(HANDLERS_BY_MARK.values()),
        *FORM_HANDLERS.values(),
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
    """Get the handler of a name, `lenient:<name>`, `auto:<name>`, or a format-sensitivity one.

    Raises LookupError, naming the known ones, and MissingJsonRepairExtra where a lenient mode needs
    a library.
    """
    if name in HANDLERS:
        return HANDLERS[name]
    if name in TEXT_HANDLERS:
        return TEXT_HANDLERS[name]
    if name.startswith(AUTO):
        return TemplateCalls(get_handler(name.removeprefix(AUTO)))
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
    """Resolve "auto" to the handler of a task's calls; return any other handler as it is.

    Tasks in Java and JavaScript, and those of a prompt variant, keep BFCL's form under a template.
    """
    if not isinstance(handler, AutoCalls):
        return handler
    own = handler_for(task, "auto")
    return handler if own.name == "auto" else own


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
