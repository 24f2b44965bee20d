"""Single-turn tasks: one user message, answered by one message with or without calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fctncalling.lab.embedded.vocabulary import (
    Entry,
    RejectedDraw,
    VocabularyDraw,
    is_reserved,
    wording,
)

BFCL_CALL = tuple[str, dict[str, Any]]
TYPES = {"string": "string", "integer": "integer"}


def function_doc(name: str) -> Entry:
    """Return the BFCL doc of one of our single-turn functions."""
    function = wording()["functions"][name]
    properties = {
        key: {"type": TYPES[kind], "description": text}
        for key, (kind, _, text) in function["parameters"].items()
    }
    parameters = {"type": "dict", "properties": properties, "required": list(properties)}
    return {"name": name, "description": function["description"], "parameters": parameters}


def draw_request(draw: VocabularyDraw, name: str, *, opens: bool) -> tuple[str, BFCL_CALL]:
    """Draw a request to a function: (text, call)."""
    function = wording()["functions"][name]
    kinds = {key: vocabulary for key, (_, vocabulary, _) in function["parameters"].items()}
    call = draw.call(name, lambda: {key: draw.word(kind) for key, kind in kinds.items()})
    return draw.phrase(function["phrases"], call[1], opens=opens), call


def single_turn_task(draw: VocabularyDraw, category: str) -> Entry:
    """Draw an entry, without id, of a single-turn BFCL category."""
    if category == "irrelevance":
        return irrelevance_task(draw)
    several = "parallel" in category
    num_calls = (3 if draw.chance(0.2) else 2) if several else 1
    functions = sorted(wording()["functions"])
    offered = (
        draw.rng.sample(functions, draw.rng.randint(3, 4))
        if "multiple" in category
        else [draw.rng.choice(functions)]
    )
    chosen = [draw.rng.choice(offered) for _ in range(num_calls)]
    if category == "parallel_multiple" and len(set(chosen)) == 1:
        raise RejectedDraw(category)  # several calls, but not of several functions
    texts, calls = [], []
    for position, name in enumerate(chosen):
        text, call = draw_request(draw, name, opens=position == 0)
        texts.append(text)
        calls.append(call)
    if len({repr(call) for call in calls}) < num_calls:
        raise RejectedDraw(category)  # the same request twice
    question = texts[0] + "".join(
        draw.rng.choice(wording()["joiners"]) + text for text in texts[1:]
    )
    truth = [ground_truth_of_call(call) for call in calls]
    return {**single_turn_entry(question, offered), "ground_truth": truth}


def irrelevance_task(draw: VocabularyDraw) -> Entry:
    """Draw a question that no offered function can answer."""
    words = wording()["chatter_words"]
    slots = {kind: draw.rng.choice(choices) for kind, choices in words.items()}
    question = draw.phrase(wording()["chatter"]["irrelevance"], slots)
    if is_reserved(question) != draw.held_out:
        raise RejectedDraw("irrelevance")
    return single_turn_entry(
        question, draw.rng.sample(sorted(wording()["functions"]), draw.rng.randint(1, 3))
    )


def single_turn_entry(question: str, offered: Sequence[str]) -> Entry:
    """Return a BFCL single-turn entry without id."""
    return {
        "question": [[{"role": "user", "content": question}]],
        "function": [function_doc(name) for name in offered],
    }


def ground_truth_of_call(call: tuple[str, Mapping[str, Any]]) -> Entry:
    """Convert a call to BFCL's ground-truth form.

    Every parameter with the list of values accepted.
    """
    name, arguments = call
    return {name: {key: [value] for key, value in arguments.items()}}
