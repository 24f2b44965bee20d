"""Canary policies: degenerate baselines whose scores reveal weaknesses of a data set.

A rate well above zero is a way to be rewarded without solving the task; `oracle` below one is a
task nobody can solve.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fctncalling.checkers.clarify import missing_parameters
from fctncalling.data.categories import CLARIFY
from fctncalling.data.types import Call, Task
from fctncalling.envs.judging.oracle import oracle_calls
from fctncalling.evaluation.scripted_policies import (
    DONE,
    Policy,
    PolicyInput,
    noop,
    oracle,
    placeholder_call,
    question_about,
    render,
)

_WORD = re.compile(r"\w+")


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
    return render(situation, [placeholder_call(situation.tools[0])])


def always_ask(situation: PolicyInput) -> str:
    """Ask one question, needed or not, then play the ground truth; a clarify task's canary."""
    missing = missing_parameters(situation.task)
    parameters = [name for doc in situation.task.functions for name in doc.parameters["properties"]]
    if situation.step_in_turn == 0:
        return question_about((*missing, *parameters)[0])
    return render(situation, oracle_calls(situation.task)[0])


def never_ask(situation: PolicyInput) -> str:
    """Play the ground truth at once, its missing values guessed right; a clarify task's canary."""
    return render(situation, oracle_calls(situation.task)[0])


class HistoryBlind:
    """Policy that plays the ground truth from the newest message alone, earlier values guessed.

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
        return render(situation, guessed)

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


def canary_policies(tasks: Sequence[Task], seed: int) -> dict[str, Policy]:
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
