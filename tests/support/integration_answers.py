"""Answers for the integrations: 25 of each of 8 categories, right, wrong and malformed, as an
assistant's messages and as BFCL's own layout.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fctncalling import embedded_path, judge, load_tasks
from fctncalling.data.types import Call, Task
from fctncalling.envs import oracle_calls
from fctncalling.envs.handlers import get_handler

EACH = 25
KINDS = ("right", "wrong", "malformed")


class Step(NamedTuple):
    """One message: calls, cut off before their end if `broken`; or a text."""

    calls: Sequence[Call] = ()
    text: str = ""
    broken: bool = False


class ScriptedAnswer(NamedTuple):
    """The steps of each turn of a task."""

    task: Task
    kind: str
    turns: list[list[Step]]


def answers(seed: int = 0) -> list[ScriptedAnswer]:
    """Return the answers, each to a task of its own."""
    draw = random.Random(seed)
    by_category: dict[str, list[Task]] = {}
    for task in load_tasks(embedded_path("held_out")):
        by_category.setdefault(task.category, []).append(task)
    drawn = [task for tasks in by_category.values() for task in draw.sample(tasks, EACH)]
    return answers_to(drawn, draw)


def answers_to(tasks: Sequence[Task], draw: random.Random) -> list[ScriptedAnswer]:
    """Return an answer to each task: right, wrong, malformed and so on."""
    return [
        ScriptedAnswer(task, kind, _turns(task, kind, draw))
        for number, task in enumerate(tasks)
        for kind in (KINDS[number % len(KINDS)],)
    ]


def chat_messages(answer: ScriptedAnswer, form: str) -> list[dict[str, Any]]:
    """Return the assistant's messages in OpenAI's form."""
    messages = []
    for number, step in enumerate(step for turn in answer.turns for step in turn):
        message: dict[str, Any] = {"role": "assistant", "content": _text(step)}
        if form == "tool_call" and step.calls:
            message["content"] = None
            message["tool_calls"] = [
                {"id": f"c{number}_{index}", "type": "function", "function": function}
                for index, function in enumerate(_functions(answer.task, step))
            ]
        messages.append(message)
    return messages


def valid(answer: ScriptedAnswer, form: str) -> bool:
    """Return this project's verdict on the answer in BFCL's layout."""
    if form == "tool_call":
        turns = [[_json_calls(answer.task, step) for step in turn] for turn in answer.turns]
    else:
        turns = [[_text(step) for step in turn] for turn in answer.turns]
    response = turns if answer.task.is_multi_turn else turns[0][0]
    return judge(answer.task, response, form).valid


def _turns(task: Task, kind: str, draw: random.Random) -> list[list[Step]]:
    calls = [list(turn) for turn in oracle_calls(task)]
    if kind == "wrong":
        calls = _changed(task, calls, draw)
    if not task.executes_calls:
        [turn] = calls
        turn = turn or [Call(task.functions[0].name, {})] * (kind == "malformed")
        return [[Step(turn, "No function helps here.", broken=kind == "malformed")]]
    turns = [[*([Step(turn)] if turn else []), Step(text="Done.")] for turn in calls]
    if kind == "malformed":
        hit = draw.choice([index for index, turn in enumerate(calls) if turn])
        broken = Step(calls[hit], broken=True)
        # What cannot be read ends a turn, as a text does.
        turns[hit] = draw.choice([[broken], [Step(text="ls() is what I would call.")]])
    return turns


def _changed(task: Task, turns: list[list[Call]], draw: random.Random) -> list[list[Call]]:
    """Return the calls with one change, which nearly always makes them wrong."""
    if not any(turns):
        return [[Call(task.functions[0].name, {})], *turns[1:]]
    hit = draw.choice([index for index, turn in enumerate(turns) if turn])
    turn = list(turns[hit])
    at = draw.randrange(len(turn))
    changes: list[Callable[[Call], list[Call]]] = [
        lambda call: [],
        lambda call: [Call(f"{call.name}_s", call.arguments)],
        lambda call: [call, call],
        lambda call: [Call(call.name, {**call.arguments, "unheard_of": 1})],
    ]
    if turn[at].arguments:
        changes += [lambda call: [Call(call.name, _other_value(call.arguments, draw))]] * 4
    turn[at : at + 1] = draw.choice(changes)(turn[at])
    return [*turns[:hit], turn, *turns[hit + 1 :]]


def _other_value(arguments: Any, draw: random.Random) -> dict[str, Any]:
    key = draw.choice(list(arguments))
    value = arguments[key]
    if isinstance(value, bool):
        return {**arguments, key: not value}
    if isinstance(value, int | float):
        return {**arguments, key: value + 1}
    if isinstance(value, str):
        return {**arguments, key: value + "x"}
    return {**arguments, key: None}


def _functions(task: Task, step: Step) -> list[dict[str, str]]:
    """Return name and arguments of each call, as interfaces for tool calls have them."""
    functions = []
    for call in step.calls:
        arguments = json.dumps(dict(call.arguments))
        name = call.name if task.executes_calls else call.name.replace(".", "_")
        functions.append({"name": name, "arguments": arguments[: -1 if step.broken else None]})
    return functions


def _json_calls(task: Task, step: Step) -> str:
    if not step.calls:
        return step.text
    return json.dumps([{each["name"]: each["arguments"]} for each in _functions(task, step)])


def _text(step: Step) -> str:
    if not step.calls:
        return step.text
    text = get_handler("python_calls").render(list(step.calls))
    return text[: -2 if step.broken else None]
