"""Play of a chat template as in training and the gateway: prompts, growth, findings."""

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
    """Results of a template, played with the stand-in tokenizer."""

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
    """Play a chat template with a byte tokenizer."""
    tokenizer = stand_in_tokenizer(source)
    findings = [finding for finding in template_findings(tokenizer) if finding.is_fault]
    faults = [finding.line for finding in findings]
    try:
        template = ChatTemplate(tokenizer)
    except ValueError:  # no conversation can be rendered: a fault
        return PlayedTemplate(faults)
    named = template.renderer.shape.named_ids
    ids = ("functions.look_up:0", "functions.other:1") if named else ("abcdefgh1", "abcdefgh2")
    compared = list(compare_prompts(template, ids))
    unequal = tuple(pair.kind for pair in compared if pair.gateway != pair.template)
    is_told = any(finding.check == "call form" for finding in findings)
    return PlayedTemplate(
        faults, is_told, template.append_only, _grows(template), len(compared), unequal
    )


def _grows(template: ChatTemplate) -> bool | None:
    """Whether calls, results, words and a question only append to the rendering."""
    tools: list[Any] = TOOLS if template.takes_tools else []
    opening = [{"role": "user", "content": "q"}]
    message = template.calls_message([Call("look_up", {"town": "Bern", "days": 3})])
    results = name_results([{"role": "tool", "content": "r"}], message)
    words = {"role": "assistant", "content": "It rains."}
    question = [{"role": "user", "content": "more"}]
    try:
        called = template.text_of_calls([Call("look_up", {"town": "Bern", "days": 3})], tools)
        whole = template.renderer.render([*opening, message, *results, words, *question], tools)
        text = template.spell(template.render_prompt(opening, tools)) + called
        text += template.spell(template.render_delta(results, UNENDED, message))
        text += template.header + str(words["content"])
        text += template.spell(template.render_delta(question, UNENDED))
    except TemplateRefusal:
        return None
    return text == whole if called else None
