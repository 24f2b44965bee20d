"""Canary policies: degenerate baselines whose scores reveal weaknesses of a data set.

A rate well above zero is a way to be rewarded without solving the task; `oracle` below one is a
task nobody can solve.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fctncalling.checkers.clarify import missing_parameters, words_of
from fctncalling.data.categories import CLARIFY
from fctncalling.data.types import Call, Task
from fctncalling.envs.handlers.registry import get_handler, handler_for
from fctncalling.envs.judging.oracle import oracle_calls
from fctncalling.evaluation.accepted_answers import accepted_answer, render_calls

DONE = "Done."
_WORD = re.compile(r"\w+")


class PolicyInput(NamedTuple):
    """Input of a policy for its next message."""

    task: Task
    turn: int
    step_in_turn: int  # 0 is the first message of the turn
    user_text: str  # the newest user message
    tools: Sequence[Mapping[str, Any]]  # OpenAI schemas offered now
    instructions: str  # the system text
    handler: str = ""  # how calls are written; none: as the task's language does


Policy = Callable[[PolicyInput], str]


def noop(_: PolicyInput) -> str:
    """Say nothing."""
    return ""


def echo(situation: PolicyInput) -> str:
    """Repeat the user."""
    return situation.user_text


def first_function(situation: PolicyInput) -> str:
    """Call the first function once a turn, required arguments filled by their type."""
    return always_call(situation) if situation.step_in_turn == 0 else DONE


def always_call(situation: PolicyInput) -> str:
    """Call the first offered function in every message."""
    if not situation.tools:
        return DONE
    return _render(situation, [placeholder_call(situation.tools[0])])


def placeholder_call(tool: Mapping[str, Any]) -> Call:
    """Return a call of an offered function, required arguments filled by their type."""
    function = tool["function"]
    properties = function["parameters"].get("properties", {})
    required = function["parameters"].get("required", [])
    return Call(function["name"], {key: placeholder(properties.get(key, {})) for key in required})


def placeholder(schema: Mapping[str, Any]) -> Any:
    """Return a value that fits a schema and says nothing.

    Its default, the first of its enum, else an empty one.
    """
    if "default" in schema:
        return schema["default"]
    if schema.get("enum"):
        return schema["enum"][0]
    if schema.get("type") == "object":
        return {
            key: placeholder(schema.get("properties", {}).get(key, {}))
            for key in schema.get("required", [])
        }
    return {"integer": 1, "number": 1.0, "boolean": True, "array": []}.get(
        str(schema.get("type")), "value"
    )


def oracle(situation: PolicyInput) -> str:
    """Play the ground truth; an agentic task's is its final message.

    Raises ValueError if calls cannot be written.
    """
    task = situation.task
    if task.kind == "agentic":
        return str(task.ground_truth[0]) if task.ground_truth else DONE
    asked = missing_parameters(task) if task.kind == "clarify" else ()
    if situation.step_in_turn < len(asked):
        return question_about(asked[situation.step_in_turn])
    if situation.step_in_turn > len(asked):
        return DONE
    if (accepted := _accepted(situation)) is not None:
        return accepted
    turns = oracle_calls(task)
    return _render(situation, turns[situation.turn]) if situation.turn < len(turns) else DONE


def question_about(parameter: str) -> str:
    """Return the question for the value of a parameter."""
    return f"which {' '.join(words_of(parameter))}"


def always_ask(situation: PolicyInput) -> str:
    """Ask one question, needed or not, then play the ground truth; a clarify task's canary."""
    missing = missing_parameters(situation.task)
    parameters = [name for doc in situation.task.functions for name in doc.parameters["properties"]]
    if situation.step_in_turn == 0:
        return question_about((*missing, *parameters)[0])
    return _render(situation, oracle_calls(situation.task)[0])


def never_ask(situation: PolicyInput) -> str:
    """Play the ground truth at once, its missing values guessed right; a clarify task's canary."""
    return _render(situation, oracle_calls(situation.task)[0])


def _accepted(situation: PolicyInput) -> str | None:
    """Return an answer in BFCL's own form that passes: some truths do in one spelling only."""
    task, handler = situation.task, situation.handler
    if task.is_multi_turn or task.ground_truth is None or "prompt_variant" in task.extra:
        return None
    form = "tool_call" if handler == "tool_calls" else "prompting"
    if handler not in ("", handler_for(task, form).name):
        return None
    return accepted_answer(task, form)


class RandomCalls:
    """Calls one offered function with placeholder arguments, or ends the turn, at even odds."""

    def __init__(self, seed: str) -> None:
        self._draw = random.Random(seed)

    def __call__(self, situation: PolicyInput) -> str:
        """Return the next message; what no call can say ends the turn."""
        if not situation.tools or self._draw.random() < 0.5:
            return DONE
        try:
            return _render(situation, [placeholder_call(self._draw.choice(situation.tools))])
        except ValueError:
            return DONE


class HistoryBlind:
    """Player of what it is told of the truth, which guesses the rest.

    By the newest user message and the instructions.

    A value counts as told where its text occurs in the newest user message (a number: as a number
    of its own), in the enum or default of its parameter, or among the words of the instructions.
    What is not told is replaced by a value of the same type which the same parameter has somewhere
    in the data set.
    """

    def __init__(self, tasks: Iterable[Task], seed: int) -> None:
        self._seed = seed
        self._values: dict[tuple[str, str, type], list[Any]] = defaultdict(list)
        for task in tasks:
            for call in _calls(task):
                for key, value in call.arguments.items():
                    pool = self._values[call.name, key, type(value)]
                    if value not in pool:
                        pool.append(value)

    def __call__(self, situation: PolicyInput) -> str:
        """Return the turn's calls, untold values guessed.

        The same guesses for the same seed and task.
        """
        if situation.step_in_turn:
            return DONE
        draw = random.Random(f"{self._seed} {situation.task.id} {situation.turn}")
        words = set(_WORD.findall(situation.instructions.casefold()))
        guessed = [
            self._guess_unknown_values(call, situation, words, draw)
            for call in _calls_of_turn(situation)
        ]
        return _render(situation, guessed)

    def _guess_unknown_values(
        self, call: Call, situation: PolicyInput, words: set[str], draw: random.Random
    ) -> Call:
        docs = {
            tool["function"]["name"]: tool["function"]["parameters"] for tool in situation.tools
        }
        properties = docs.get(call.name, {}).get("properties", {})
        arguments = {}
        for key, value in call.arguments.items():
            schema = properties.get(key, {})
            known = [*schema.get("enum", []), schema.get("default")]
            is_known = value in known or all(
                _occurs(leaf, situation.user_text, words) for leaf in _leaves(value)
            )
            arguments[key] = (
                value if is_known else draw.choice(self._values[call.name, key, type(value)])
            )
        return Call(call.name, arguments)


def _occurs(leaf: Any, text: str, words: set[str]) -> bool:
    leaf_text, text = str(leaf).casefold(), text.casefold()
    if leaf_text in words:
        return True
    if isinstance(leaf, int | float):
        return (
            re.search(
                rf"(?<![\w.]){re.escape(leaf_text.removesuffix('.0'))}(?:\.0+)?(?!\w|\.\d)", text
            )
            is not None
        )
    return leaf_text in text


def _leaves(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]


def _calls(task: Task) -> list[Call]:
    try:
        return [call for turn in oracle_calls(task) for call in turn]
    except ValueError:  # a ground truth that no call can express has no values to draw from
        return []


def _calls_of_turn(situation: PolicyInput) -> list[Call]:
    return oracle_calls(situation.task)[situation.turn]


def _render(situation: PolicyInput, calls: Sequence[Call]) -> str:
    if not calls:
        return DONE
    if situation.handler:
        return get_handler(situation.handler).render(calls)
    return render_calls(situation.task, calls)


def policies(tasks: Sequence[Task], seed: int) -> dict[str, Policy]:
    """Return every canary by name; those of questions where a task is made for asking."""
    asks = any(task.category in CLARIFY for task in tasks)
    return {
        "noop": noop,
        "echo": echo,
        "first_function": first_function,
        "always_call": always_call,
        "history_blind": HistoryBlind(tasks, seed),
        **({"always_ask": always_ask, "never_ask": never_ask} if asks else {}),
        "oracle": oracle,
    }
