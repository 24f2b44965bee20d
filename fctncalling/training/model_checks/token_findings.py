"""What a tokenizer does with prompts, actions and untrusted text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.training.model_checks.conversations import tool, user
from fctncalling.training.model_checks.finding import HealthCheck, fault, note, sound

SAMPLES = (
    "[weather.get(city='Rome', days=3, celsius=True)]",
    "[f(a=[1, 2.5], b={'c': 'x  y'}), g(text=\"it's\")]",
    '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>',
    "naïve 漢字 — 1,000.5\n\n\tIndented  text",
)
"""Actions as policies write them; none of them may be lost by the tokenizer."""


def token_findings(tokenizer: Any, template: ChatTemplate) -> Iterator[HealthCheck]:
    """Yield what there is to say of a tokenizer under its chat template."""
    yield _begin_of_text(tokenizer, template)
    yield _padding(tokenizer, template)
    yield _lossless(template)
    yield _untrusted(tokenizer, template)


def _begin_of_text(tokenizer: Any, template: ChatTemplate) -> HealthCheck:
    bos = tokenizer.bos_token_id
    ids = template.render_prompt([user("q")])
    own = bos is not None and list(tokenizer("a").input_ids[:1]) == [bos]
    if bos is not None and ids[:2] == [bos, bos]:
        return fault(
            "begin of text", f"prompts begin with {tokenizer.bos_token!r} twice", "Mend it"
        )
    if own and ids[:1] != [bos]:
        message = (
            f"prompts begin without {tokenizer.bos_token!r}, which the tokenizer puts before texts"
        )
        return fault("begin of text", message, "Give --chat_template FILE that writes bos_token")
    message = (
        f"prompts begin with {tokenizer.bos_token!r}" if ids[:1] == [bos] else "none is wanted"
    )
    return sound("begin of text", message)


def _padding(tokenizer: Any, template: ChatTemplate) -> HealthCheck:
    pad, eos = tokenizer.pad_token_id, tokenizer.eos_token_id
    if pad is None:
        return note(
            "padding", "the tokenizer has no pad token: masks count positions, none is needed"
        )
    if pad in (eos, template.end_of_turn_id):
        name = "eos" if pad == eos else "the end of turn"
        message = (
            f"pad equals {name} ({tokenizer.pad_token!r}): masks count positions and not ids, so"
        )
        return note("padding", f"{message} the end of turn is trained all the same")
    if eos != template.end_of_turn_id and eos is not None:
        end = template.spell([template.end_of_turn_id])
        message = f"answers end with {end!r}, the tokenizer's eos is {tokenizer.eos_token!r}"
        return note("padding", f"{message}: both are stops")
    return sound("padding", f"{tokenizer.pad_token!r}, apart from the end of turn")


def _lossless(template: ChatTemplate) -> HealthCheck:
    for text in SAMPLES:
        back = template.spell(template.encode(text))
        if back != text:
            message = f"the tokenizer does not give back what it read: {text!r} became {back!r}"
            return fault("lossless", message, "Calls are read from decoded text: mend its decoder")
    return sound("lossless", f"{len(SAMPLES)} of {len(SAMPLES)} texts come back as they were")


def _untrusted(tokenizer: Any, template: ChatTemplate) -> HealthCheck:
    special = {id_: str(token) for id_, token in tokenizer.added_tokens_decoder.items()}

    def count(content: str) -> int:
        return sum(id_ in special for id_ in template.render_delta([tool(content)]))

    harmless = count("ab")
    alive = [text for text in special.values() if text.strip() and count(f"a{text}b") != harmless]
    if alive:
        message = f"{len(alive)} special strings stay special in tool text: {', '.join(alive[:3])}"
        return fault("untrusted text", message, "A tool could end the policy's turn")
    return sound("untrusted text", f"{len(special)} special strings are broken in tool text")
