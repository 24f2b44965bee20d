"""A chat template played as training and the gateway do: its prompts, its growth, its findings."""

from __future__ import annotations

from typing import Any, NamedTuple

from gateway_prompts import TOOLS, compare_prompts
from stand_in import stand_in_tokenizer

from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.policy.message_renderer import TemplateRefusal
from fctncalling.algorithms.policy.template_messages import name_results
from fctncalling.data.types import Call
from fctncalling.lab.doctor.template_findings import UNENDED, template_findings


class PlayedTemplate(NamedTuple):
    """What became of a template; everything is of the tokenizer that stands in."""

    faults: list[str]  # lines of the doctor
    is_told: bool = False  # a fault says that its calls are not read back
    append_only: bool = False
    grows: bool | None = None  # a talk appends to what the template writes; None: not rendered
    prompts: int = 0  # conversations that the gateway and the template wrote
    unequal: tuple[str, ...] = ()  # kinds of those that differ

    @property
    def has_fault(self) -> bool:
        """Whether the doctor finds a fault."""
        return bool(self.faults)


def play_template(source: str) -> PlayedTemplate:
    """Play a chat template of a tokenizer of bytes."""
    tokenizer = stand_in_tokenizer(source)
    found = [each for each in template_findings(tokenizer) if each.is_fault]
    faults = [each.line for each in found]
    try:
        template = ChatTemplate(tokenizer)
    except ValueError:  # no conversation can be rendered: a fault
        return PlayedTemplate(faults)
    named = template.renderer.shape.named_ids
    ids = ("functions.look_up:0", "functions.other:1") if named else ("abcdefgh1", "abcdefgh2")
    compared = list(compare_prompts(template, ids))
    unequal = tuple(each.kind for each in compared if each.gateway != each.template)
    is_told = any(each.check == "call form" for each in found)
    return PlayedTemplate(
        faults, is_told, template.append_only, _grows(template), len(compared), unequal
    )


def _grows(template: ChatTemplate) -> bool | None:
    """Whether calls, their results, words and a question append to what the template writes."""
    tools: list[Any] = TOOLS if template.takes_tools else []
    opening = [{"role": "user", "content": "q"}]
    said = template.calls_message([Call("look_up", {"town": "Bern", "days": 3})])
    results = name_results([{"role": "tool", "content": "r"}], said)
    words = {"role": "assistant", "content": "It rains."}
    question = [{"role": "user", "content": "more"}]
    try:
        called = template.text_of_calls([Call("look_up", {"town": "Bern", "days": 3})], tools)
        whole = template.renderer.render([*opening, said, *results, words, *question], tools)
        text = template.spell(template.render_prompt(opening, tools)) + called
        text += template.spell(template.render_delta(results, UNENDED, said))
        text += template.header + str(words["content"])
        text += template.spell(template.render_delta(question, UNENDED))
    except TemplateRefusal:
        return None
    return text == whole if called else None
