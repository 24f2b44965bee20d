"""Registry of handlers: by name, and by task."""

from __future__ import annotations

from itertools import chain

from fctncalling.data.format_sensitivity import PromptVariant
from fctncalling.data.types import Task
from fctncalling.envs.handlers.auto import FORMS_BY_KEYS, FORMS_BY_MARK, PROMPTING, AutoCalls
from fctncalling.envs.handlers.bfcl_formats.variants import VariantCalls
from fctncalling.envs.handlers.handler import Handler
from fctncalling.envs.handlers.inline.code_blocks import MarkdownBlocks, PythonBlocks
from fctncalling.envs.handlers.inline.hermes_inline import HermesText
from fctncalling.envs.handlers.inline.inline_calls import InlineCalls
from fctncalling.envs.handlers.inline.trl_request import RequestCalls
from fctncalling.envs.handlers.lenient import PREFIX, LenientCalls
from fctncalling.envs.handlers.mistral_calls import MistralCalls
from fctncalling.envs.handlers.source.java_calls import JavaCalls
from fctncalling.envs.handlers.source.javascript_calls import JavaScriptCalls

HANDLERS: dict[str, Handler] = {
    handler.name: handler
    for handler in (
        *FORMS_BY_KEYS,
        *chain.from_iterable(FORMS_BY_MARK.values()),
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
    for handler in (RequestCalls(), PythonBlocks(), MarkdownBlocks(), HermesText())
}
"""Name -> handler of calls in mid-generation, behind which the message goes on."""


def get_handler(name: str) -> Handler:
    """Return the handler of a name, of `lenient:<name>`, or of a format-sensitivity configuration.

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


def handler_for(task: Task, form: str = "prompting") -> Handler:
    """Return the one handler that reads a task's calls in a form.

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
