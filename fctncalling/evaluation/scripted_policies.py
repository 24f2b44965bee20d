"""Scripted policies: the ground truth, silence, random calls."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from fctncalling.checkers.clarify import missing_parameters, split_words
from fctncalling.data.types import Call, Task
from fctncalling.envs.handlers.handler import DecodeError
from fctncalling.envs.handlers.registry import get_handler, handler_for, resolve_handler
from fctncalling.envs.judging.oracle import oracle_calls
from fctncalling.evaluation.accepted_answers import accepted_answer, render_calls

if TYPE_CHECKING:
    from fctncalling.algorithms.policy.answer_ends import AnswerEnds

DONE = "Done."
ONE_CALL_A_STEP = "one_call_a_step"
"""Field of a task of several turns whose calls follow from results: its truth is played so."""
LOGGED_ANSWER = "logged_answer"
"""Field of a task of a log: its calls, as [name, arguments], or its words, as they were."""


class PolicyInput(NamedTuple):
    """Input of a scripted policy for its next message."""

    task: Task
    turn: int
    step_in_turn: int  # 0 is the first message of the turn
    user_text: str  # the newest user message
    tools: Sequence[Mapping[str, Any]]  # OpenAI schemas offered now
    instructions: str  # the system text
    handler: str = ""  # how calls are written; none: as the task's language does
    heard: str = ""  # all that users said and tools returned so far


Policy = Callable[[PolicyInput], str]


def message_end(
    ends: AnswerEnds, tasks: Iterable[Task], handler: str = ""
) -> int | Callable[[str, str], int]:
    """Return the id that ends a scripted message, of (task id, text) if calls differ from texts."""
    if ends.of_calls == ends.of_words:
        return ends.of_words
    form = get_handler(handler or "auto")
    forms = {task.id: resolve_handler(form, task) for task in tasks}

    def end(task_id: str, text: str) -> int:
        try:
            return ends.of_calls if forms[task_id].decode(text) else ends.of_words
        except DecodeError:
            return ends.of_words

    return end


def noop(_: PolicyInput) -> str:
    """noop: an empty message."""
    return ""


def placeholder_call(tool: Mapping[str, Any]) -> Call:
    """Return a placeholder call: an offered function, placeholders as required arguments."""
    function = tool["function"]
    properties = function["parameters"].get("properties", {})
    required = function["parameters"].get("required", [])
    return Call(
        function["name"], {key: placeholder_value(properties.get(key, {})) for key in required}
    )


def placeholder_value(schema: Mapping[str, Any]) -> Any:
    """Return a placeholder value of a schema: its default, its enum's first, else empty."""
    if "default" in schema:
        return schema["default"]
    if schema.get("enum"):
        return schema["enum"][0]
    if schema.get("type") == "object":
        return {
            key: placeholder_value(schema.get("properties", {}).get(key, {}))
            for key in schema.get("required", [])
        }
    return {"integer": 1, "number": 1.0, "boolean": True, "array": []}.get(
        str(schema.get("type")), "value"
    )


def oracle(situation: PolicyInput) -> str:
    """Oracle policy: play the ground truth.

    Raises ValueError if calls cannot be written.
    """
    task = situation.task
    if (logged := task.extra.get(LOGGED_ANSWER)) is not None:
        return logged if isinstance(logged, str) else render(situation, [Call(*c) for c in logged])
    if task.kind == "agentic":
        return str(task.ground_truth[0]) if task.ground_truth else DONE
    asked = missing_parameters(task) if task.kind == "clarify" else ()
    if situation.step_in_turn < len(asked):
        return question_about(asked[situation.step_in_turn])
    if task.extra.get(ONE_CALL_A_STEP):
        calls = oracle_calls(task)[situation.turn][situation.step_in_turn :]
        return render(situation, calls[:1])
    if situation.step_in_turn > len(asked):
        return DONE
    if (accepted := _accepted(situation)) is not None:
        return accepted
    turns = oracle_calls(task)
    return render(situation, turns[situation.turn]) if situation.turn < len(turns) else DONE


def question_about(parameter: str) -> str:
    """Return a question about the value of a parameter."""
    return f"which {' '.join(split_words(parameter))}"


def _accepted(situation: PolicyInput) -> str | None:
    """Return an answer in BFCL's form that passes: some truths do in one spelling only."""
    task, handler = situation.task, situation.handler
    if task.is_multi_turn or task.ground_truth is None or "prompt_variant" in task.extra:
        return None
    form = "tool_call" if handler == "tool_calls" else "prompting"
    if handler not in ("", handler_for(task, form).name):
        return None
    return accepted_answer(task, form)


class RandomCalls:
    """Random calls, a policy: placeholders in arguments; at even odds it ends the turn."""

    def __init__(self, seed: str) -> None:
        self._draw = random.Random(seed)

    def __call__(self, situation: PolicyInput) -> str:
        """Return the next message; what no call can say ends the turn."""
        if not situation.tools or self._draw.random() < 0.5:
            return DONE
        try:
            return render(situation, [placeholder_call(self._draw.choice(situation.tools))])
        except ValueError:
            return DONE


def render(situation: PolicyInput, calls: Sequence[Call]) -> str:
    """Render calls as the handler writes them, or as the task's language does."""
    if not calls:
        return DONE
    if situation.handler:
        return get_handler(situation.handler).render(calls)
    return render_calls(situation.task, calls)
