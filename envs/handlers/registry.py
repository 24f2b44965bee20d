"""Registry of handlers by name and by task."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from typing import cast

from fctncalling.data.format_sensitivity import PromptVariant
from fctncalling.data.types import Call, FunctionDoc, Task
from fctncalling.envs.handlers.call_forms import CALL_FORMS
from fctncalling.envs.handlers.call_marks import FORMS_BY_MARK, MARK, WORDS, bears_mark, is_opened
from fctncalling.envs.handlers.form_calls import FormCalls, Opening
from fctncalling.envs.handlers.handler import (
    MAX_TEXT_CHARS,
    DecodedAction,
    DecodeError,
    Handler,
    SplitThought,
    split_thought,
    without_thought,
)
from fctncalling.envs.handlers.inline import TEXT_HANDLERS
from fctncalling.envs.handlers.java_calls import JavaCalls
from fctncalling.envs.handlers.javascript_calls import JavaScriptCalls
from fctncalling.envs.handlers.json_calls import (
    CALL_KEYS,
    OPENING,
    BfclFunctionCalls,
    OpenAIMessages,
)
from fctncalling.envs.handlers.lenient import PREFIX, LenientCalls
from fctncalling.envs.handlers.return_formats import OPEN_TAG, RETURN_HANDLERS, variant_handler

PROMPTING = RETURN_HANDLERS["python", False]
FORM_HANDLERS = {name: FormCalls(form) for name, form in CALL_FORMS.items()}
HANDLERS_BY_KEYS: tuple[Handler, ...] = (
    OpenAIMessages(),
    RETURN_HANDLERS["json", False],
    BfclFunctionCalls(),
)
"""Handlers of texts that open with another object than a call's, in the order they are asked."""
RETURNS_BY_MARK: dict[str, tuple[Handler, ...]] = {
    OPEN_TAG: tuple(form for (_, tagged), form in RETURN_HANDLERS.items() if tagged),
    "<functions>": (RETURN_HANDLERS["concise_xml", False], RETURN_HANDLERS["verbose_xml", False]),
}
HANDLERS_BY_MARK = {
    mark: tuple(FORM_HANDLERS[form.name] for form in forms) for mark, forms in FORMS_BY_MARK.items()
}
"""Mark -> the handlers of calls that it opens; other texts are read in the prompting form."""
_LED_BY_WORDS = tuple(
    handler
    for handler in FORM_HANDLERS.values()
    if any(mark[0] not in "<[]" for mark in handler.form.marks)
)

AUTO = "auto:"
"""Before the name of a form that is written, where every known one is read."""


class AutoCalls(Handler):
    """Handler that detects each text's format; it writes BFCL's prompting form."""

    name = "auto"
    own: Handler = PROMPTING  # the form that it writes

    def recognises(self, text: str) -> bool:
        """Whether any handler recognises the text."""
        rest = without_thought(text)
        return detect_handler(rest).recognises(rest)

    def decode_action(self, text: str, functions: Sequence[FunctionDoc] = ()) -> DecodedAction:
        """Decode an action's text once, by the detected handler; raises DecodeError."""
        rest = without_thought(text)
        handler, opened = find_handler(rest)
        if opened is None:
            return handler.decode_action(rest, functions)
        return cast("FormCalls", handler).decode_from(rest, opened, functions)

    def render(self, calls: Sequence[Call]) -> str:
        """Write calls as their canonical text; ValueError if the form cannot express them."""
        return self.own.render(calls)


class TemplateCalls(AutoCalls):
    """Automatic handler under a chat template: prefers and writes the template's form.

    Its name is "auto:" and its form's.
    """

    def __init__(self, own: Handler) -> None:
        self.own = own
        self.name = f"{AUTO}{own.name}"

    def decode_action(self, text: str, functions: Sequence[FunctionDoc] = ()) -> DecodedAction:
        """Decode an action's text once, in the template's form if it opens; raises DecodeError."""
        rest = without_thought(text)
        if self.own.recognises(rest):
            return self.own.decode_action(rest, functions)
        return super().decode_action(rest, functions)


def detect_handler(text: str) -> Handler:
    """Detect the handler of a text by its keys or its first mark."""
    return find_handler(text)[0]


def find_handler(text: str) -> tuple[Handler, Opening | None]:
    """Find the handler of a text, and the opening of its first call."""
    if not isinstance(text, str) or len(text) > MAX_TEXT_CHARS:  # none reads it
        return PROMPTING, None
    if opening := OPENING.match(text):  # whatever marks stand behind, they stand in strings
        keys = '"arguments"' in text or '"parameters"' in text
        if keys and opening[1] in CALL_KEYS and '"name"' in text:
            return FORM_HANDLERS["json_calls"], None
        keyed = (handler for handler in HANDLERS_BY_KEYS if handler.recognises(text))
        return next(keyed, PROMPTING), None
    stripped = text.lstrip("`\n ")
    if stripped[:1] == "[" and not stripped.startswith("[TOOL_CALLS]"):
        return PROMPTING, None
    otherwise: Handler = PROMPTING
    for handler in _LED_BY_WORDS if WORDS.match(text) else ():
        if opened := handler.opening_at(text, 0):
            return handler, opened
    if "<" not in text and "[" not in text:  # and so no mark
        return PROMPTING, None
    for mark in MARK.finditer(text):
        for return_format in RETURNS_BY_MARK.get(mark[0], ()):
            if return_format.recognises(text):
                return return_format, None
        forms = HANDLERS_BY_MARK.get(mark[0], ())
        for form in forms:
            if opened := form.opening_at(text, mark.start()):
                return form, opened
        if forms and is_opened(text, mark):
            otherwise = forms[-1]
            if mark[0] != forms[-1].form.opens.strip():
                break
    return otherwise, None


def bears_call(message: str | SplitThought) -> bool:
    """Whether a message has a call's mark, followed by a form's grammar or the end of the text.

    Looked for where calls count: behind thoughts. A thought without an end bears what it holds: a
    mark, or a call in any place and form.
    """
    split = message if isinstance(message, SplitThought) else split_thought(message)
    if bears_mark(split.rest if split.closed else f"{split.rest}\n{split.thought}"):
        return True
    with suppress(DecodeError):
        is_opened_in_thought = detect_handler(split.thought) is not PROMPTING
        return not split.closed and (is_opened_in_thought or bool(PROMPTING.decode(split.thought)))
    return False


HANDLERS: dict[str, Handler] = {
    handler.name: handler
    for handler in (
        *HANDLERS_BY_KEYS,
        *chain.from_iterable(RETURNS_BY_MARK.values()),
        *FORM_HANDLERS.values(),
        JavaCalls(),  # told by a task's category, by no text
        JavaScriptCalls(),
        PROMPTING,
        AutoCalls(),
    )
}
"""Name -> handler; `get_handler` also knows lenient modes and prompt configurations."""


def get_handler(name: str) -> Handler:
    """Return the handler of a name, `lenient:<name>`, `auto:<name>`, or a format-sensitivity one.

    Raises LookupError, naming the known ones, and MissingExtra where a lenient mode needs a
    library.
    """
    handlers = {**HANDLERS, **TEXT_HANDLERS}
    if name in handlers:
        return handlers[name]
    if name.startswith(AUTO):
        return TemplateCalls(get_handler(name.removeprefix(AUTO)))
    if name.startswith(PREFIX):
        return LenientCalls(get_handler(name.removeprefix(PREFIX)))
    try:
        return variant_handler(PromptVariant.parse(name))
    except ValueError:
        expected = ", ".join(handlers)
        raise LookupError(f'no handler is called "{name}": expected one of {expected}') from None


def resolve_handler(handler: Handler, task: Task) -> Handler:
    """Replace "auto" by the handler of a task's calls; return other handlers unchanged.

    Tasks in Java and JavaScript, and those of a prompt variant, keep BFCL's form under a template.
    """
    if not isinstance(handler, AutoCalls):
        return handler
    own = handler_for(task, "auto")
    return handler if own.name == "auto" else own


def handler_for(task: Task, form: str = "prompting") -> Handler:
    """Return the handler for a task's calls in an answer form.

    "prompting": as the task's prompt variant or, without one, its language writes calls.
    "tool_call" and "tool_call_dots": BFCL's function-calling form. "tools_text": whatever a server
    writes. "auto": the prompt variant, Java and JavaScript as in "prompting", whatever form a
    Python task's text has.
    """
    if form in ("tool_call", "tool_call_dots"):
        return HANDLERS["tool_calls"]
    if form == "tools_text":
        return HANDLERS["auto"]
    if "prompt_variant" in task.extra:
        return get_handler(str(task.extra["prompt_variant"]))
    if form == "auto" and task.language == "python":
        return HANDLERS["auto"]
    return HANDLERS[f"{task.language}_calls"]
