"""Findings on the calls and thoughts of a chat template: whether they are read, and kept."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from inspect import signature
from typing import Any

from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.policy.message_renderer import TemplateRefusal
from fctncalling.algorithms.policy.template_messages import name_results
from fctncalling.call_form import PROBE_CALLS, PROBE_DOC, TemplateForm, find_call_form
from fctncalling.data.types import Call
from fctncalling.envs.handlers import get_handler
from fctncalling.envs.handlers.thoughts import THOUGHTS
from fctncalling.envs.prompting.prompts import to_openai_tool
from fctncalling.lab.doctor.finding import HealthCheck, fault, note, sound

CURE = (
    "Name the form that the model writes with --handler, or give --chat_template FILE that writes "
    "its calls in a known one"
)
RESPONSE_SCHEMAS = ("response_template", "response_schema")
"""Attributes in which releases of transformers keep how answers are parsed."""


def call_findings(template: ChatTemplate, handler: str = "auto") -> Iterator[HealthCheck]:
    """Yield whether a handler reads what the template writes, and the template what is sampled.

    handler: that training is given; under another than "auto" an unread form is no fault.
    """
    form = find_call_form(template)
    if form.is_unread or form.unread:
        yield (
            fault("call form", form.line, CURE)
            if handler == "auto"
            else note("call form", form.line)
        )
    else:
        yield sound("call form", form.line, handler=form.written)
    if form.text and any(getattr(template.tokenizer, each, None) for each in RESPONSE_SCHEMAS):
        yield _schema_finding(template, form)
    refused = [text for text in _own_texts(template, form.text) if not _takes(template, text)]
    if refused:
        shown = " ".join(refused[0].split())[:80]
        message = f"the template refuses an earlier answer such as {shown!r}"
        yield note("own texts", message, "Such an episode is invalid, and counted")
    else:
        yield sound("own texts", "its own calls and thoughts are taken back in the history")
    if form.text and (lost := _lost_words(template, form.text)):
        message = f"what is {lost} before calls is left out of the prompts behind their results"
        yield note("before calls", message, "Later steps are trained without it")


def _schema_finding(template: ChatTemplate, form: TemplateForm) -> HealthCheck:
    """Return whether the tokenizer's response schema reads the template's calls as we do."""
    tools = [to_openai_tool(PROBE_DOC)]
    given = {
        "prefix": template.spell(
            template.render_prompt([{"role": "user", "content": "fctnprobequestion"}], tools)
        ),
        "tools": tools,
    }
    parse, handler = template.tokenizer.parse_response, get_handler(form.handler_name)
    given = {key: given[key] for key in given if key in signature(parse).parameters}
    end = template.spell([template.ends.of_calls])

    def parsed_calls(text: str) -> Iterable[Call]:
        return _calls_of_message(parse(text + end, **given))

    for call in PROBE_CALLS:
        text = template.text_of_calls([call], tools)
        ours = _shown(partial(handler.decode, text, [PROBE_DOC]))
        theirs = _shown(partial(parsed_calls, text))
        if ours != theirs:
            message = (
                f"the tokenizer's response schema reads {text.strip()[:80]!r} as {theirs}, "
                f"{form.written} as {ours}"
            )
            cure = "What a server reads by the schema is not what training reads"
            return note("response schema", message, cure)
    return sound("response schema", f"the tokenizer's own reads calls as {form.written} does")


def _shown(read: Callable[[], Iterable[Call]]) -> str:
    """Return calls as they are shown and compared; what reading them raises, in its place."""
    try:
        calls = [{each.name: dict(each.arguments)} for each in read()]
    except Exception as error:  # whatever a schema of others, or a parser of it, raises
        return f"{type(error).__name__}: {error}".partition("\n")[0][:120]
    return json.dumps(calls, sort_keys=True, default=repr)[:200]


def _calls_of_message(message: Any) -> Iterator[Call]:
    for each in message.get("tool_calls") or ():
        function = each.get("function", each)
        arguments = function.get("arguments") or {}
        yield Call(
            function["name"], json.loads(arguments) if isinstance(arguments, str) else arguments
        )


def _own_texts(template: ChatTemplate, call: str) -> Iterator[str]:
    """Yield answers as a model of the template writes them: calls, and words behind a thought."""
    source = str(template.source or template.tokenizer.get_chat_template())
    marks = ((opens, closes) for opens, closes in THOUGHTS.items() if opens in source)
    yield from (f"{opens}fctnprobethought{closes}{template.header}Done." for opens, closes in marks)
    if call:
        yield call


def _lost_words(template: ChatTemplate, call: str) -> str:
    """Return "thought" or "said", which results of calls push out of a history; else ""."""
    if template.append_only or not template.renderer.behind_calls:
        return ""
    thought = next(_own_texts(template, ""), "")
    said = template.calls_message(PROBE_CALLS[:1])
    said["content"] = (thought.removesuffix(f"{template.header}Done.") or "fctnprobethought") + call
    result = name_results([{"role": "tool", "content": "r"}], said)
    with contextlib.suppress(TemplateRefusal):
        talk = [{"role": "user", "content": "q"}, said, *result]
        if "fctnprobethought" in template.text_of_history(talk, trusted=[1]):
            return ""
    return "thought" if thought else "said"


def _takes(template: ChatTemplate, text: str) -> bool:
    user = {"role": "user", "content": "q"}
    try:
        template.render_full([user, {"role": "assistant", "content": text}, user], trusted=[1])
    except TemplateRefusal:
        return False
    return True
