"""Findings on the calls and thoughts of a chat template: whether they are read, and kept."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.policy.message_renderer import TemplateRefusal
from fctncalling.algorithms.policy.template_messages import name_results
from fctncalling.call_form import PROBE_CALLS, find_call_form
from fctncalling.envs.handlers.thoughts import THOUGHTS
from fctncalling.lab.doctor.finding import HealthCheck, fault, note, sound

CURE = "Name the form that the model writes with --handler"


def call_findings(template: ChatTemplate, handler: str = "auto") -> Iterator[HealthCheck]:
    """Yield whether a handler reads what the template writes, and the template what is sampled.

    handler: that training is given; under another than "auto" an unread form is no fault.
    """
    form = find_call_form(template)
    if form.is_unread and handler == "auto":
        yield fault("call form", form.line, CURE)
    elif form.is_unread or form.unread:
        yield note("call form", form.line)
    else:
        yield sound("call form", form.line, handler=form.written)
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
