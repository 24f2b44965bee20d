"""Call form of a chat template: found by rendering calls with it and reading them back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from fctncalling.data.types import Call, FunctionDoc
from fctncalling.envs.handlers import HANDLERS, DecodeError, Handler, split_thought
from fctncalling.envs.handlers.registry import AUTO, PROMPTING, detect_handler

if TYPE_CHECKING:
    from fctncalling.algorithms.policy.chat_template import ChatTemplate

PROBE_CALLS = (
    Call("fctnprobe_look_up", {"town": "Bern"}),
    Call("fctnprobe_look_up", {"town": "x y", "days": 12, "exact": True}),
)
"""Calls that a template is given, each alone: with one argument, and several of other types."""
PROBE_DOC = FunctionDoc(
    "fctnprobe_look_up",
    "Look up.",
    {
        "type": "dict",
        "properties": {
            "town": {"type": "string"},
            "days": {"type": "integer"},
            "exact": {"type": "boolean"},
        },
        "required": ["town"],
    },
)
_OF_TASKS = ("auto", "java_calls", "javascript_calls")  # told by a task, by no template
SERVER_PARSERS = {
    "hermes_calls": "hermes",
    "qwen_xml_calls": "qwen3_coder",
    "seed_calls": "seed_oss",
    "glm_calls": "glm45",
    "kimi_k2_calls": "kimi_k2",
    "harmony_calls": "openai",
    "minimax_m1_calls": "minimax",
    "minimax_m2_calls": "minimax_m2",
    "minimax_m3_calls": "minimax_m3",
    "deepseek_v3_calls": "deepseek_v3",
    "deepseek_v31_calls": "deepseek_v31",
    "deepseek_v32_calls": "deepseek_v32",
    "mistral_calls": "mistral",
    "mistral_named_calls": "mistral",
    "llama_json_calls": "llama3_json",
    "python_calls": "pythonic",
    "granite3_calls": "granite",
    "gemma4_calls": "gemma4",
    "function_gemma_calls": "functiongemma",
    "internlm_calls": "internlm",
    "functools_calls": "phi4_mini_json",
    "json_calls": "xlam",
}
"""Handler of a form -> vLLM's `--tool-call-parser` that reads it."""


class TemplateForm(NamedTuple):
    """Form in which a chat template writes calls, and the handler that reads it."""

    text: str  # what it writes for a call; "" where it writes none
    handler: str = ""  # "" where none reads it
    unread: str = ""  # what it writes for a call of several arguments, where none reads that alone
    refusal: str = ""  # why it writes none, where it takes tools and fails on calls

    @property
    def is_unread(self) -> bool:
        """Whether the template writes calls that no handler reads, or fails on them."""
        return bool(self.text or self.refusal) and not self.handler

    @property
    def written(self) -> str:
        """Name of the handler that writes calls under the template."""
        return self.handler or PROMPTING.name

    @property
    def handler_name(self) -> str:
        """Name of the handler that reads all call forms and writes the template's."""
        return f"{AUTO}{self.handler}" if self.handler else "auto"

    @property
    def line(self) -> str:
        """Description of the form, in one line."""
        shown = " ".join((self.unread or self.text).split())[:120]
        if self.refusal:
            return f"the chat template takes tools and fails on calls: {self.refusal.rstrip('.')}"
        if self.is_unread:
            return f"no handler reads the calls that the chat template writes: {shown}"
        if self.unread:
            broken = f"of several arguments it writes what none reads: {shown}"
            return f"the chat template writes calls as {self.handler}, but {broken}"
        if self.text:
            return f"the chat template writes calls as {self.handler}: {shown}"
        return f"the chat template writes no calls: BFCL's form is taken ({PROMPTING.name})"


def find_call_form(template: ChatTemplate) -> TemplateForm:
    """Find the form in which a template writes calls, and the handler that reads it."""
    one, several = (_written(template, call) for call in PROBE_CALLS)
    if not one:
        refusal = template.renderer.calls_refusal if template.takes_tools and not several else ""
        return TemplateForm(several, refusal=refusal)
    reads_one = ""
    for handler in _candidates(one):
        if not _reads(handler, one, PROBE_CALLS[0]):
            continue
        if _reads(handler, several, PROBE_CALLS[1]):
            return TemplateForm(one, handler.name)
        reads_one = reads_one or handler.name
    return TemplateForm(one, reads_one, several if reads_one else "")


def _written(template: ChatTemplate, call: Call) -> str:
    from fctncalling.algorithms.policy.message_renderer import TemplateRefusal  # brings torch

    try:
        return template.text_of_calls([call])
    except TemplateRefusal:
        return ""


def _candidates(text: str) -> Iterator[Handler]:
    """Yield handlers, first those that write the same text, then the one that "auto" takes."""
    text = split_thought(text).rest
    known = [each for name, each in HANDLERS.items() if name not in _OF_TASKS]
    bare = "".join(text.split())
    for handler in known:
        try:
            if "".join(handler.render(PROBE_CALLS[:1]).split()) == bare:
                yield handler
        except ValueError:
            continue
    yield detect_handler(text)
    yield from known


def _reads(handler: Handler, text: str, call: Call) -> bool:
    try:
        calls = handler.decode(split_thought(text).rest, [PROBE_DOC])
    except DecodeError:
        return False
    # types count; the order of arguments is the template's, some sort them
    read = [(each.name, sorted(map(repr, each.arguments.items()))) for each in calls]
    return read == [(call.name, sorted(map(repr, call.arguments.items())))]


def resolve_handler_name(handler: str, template: ChatTemplate) -> str:
    """Return a handler's name with "auto" resolved to what the template writes."""
    if handler != "auto":
        return handler
    return find_call_form(template).handler_name
