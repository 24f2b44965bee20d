"""Draft of a right single-turn answer, and ways to write its calls."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from fctncalling.data.types import Call, Task
from fctncalling.envs.judging.judge import judge
from fctncalling.envs.judging.oracle import oracle_calls
from fctncalling.envs.python_source.render import python_literal
from fctncalling.evaluation.accepted_answers import STYLES, render_calls, render_source_value

Literal = Callable[[Any], str]


class VerbatimValue(str):
    """Value that is written as it stands, in place of a literal."""

    __slots__ = ()


class ArgumentPlace(NamedTuple):
    """One argument of a draft."""

    call: int
    key: str
    value: Any
    declared: str  # documented type, "" where there is none
    accepted: Sequence[Any]
    required: bool


@dataclass(frozen=True)
class AnswerDraft:
    """Expected calls of a single-turn task, with what the truth accepts in their place."""

    task: Task
    calls: tuple[Call, ...]
    style: str = STYLES[0]  # of Java's and JavaScript's literals

    @property
    def is_python(self) -> bool:
        """Whether its arguments are Python literals."""
        return self.task.language == "python"

    def places(self) -> Iterator[ArgumentPlace]:
        """Yield every argument that is given."""
        for index, call in enumerate(self.calls):
            accepted, parameters = self.truth(index), self.parameters(call.name)
            properties, required = parameters.get("properties", {}), parameters.get("required", ())
            for key, value in call.arguments.items():
                values = accepted.get(key, ())
                listed = values if isinstance(values, list) else [values]
                declared = str(properties.get(key, {}).get("type", ""))
                yield ArgumentPlace(index, key, value, declared, listed, key in required)

    def truth(self, index: int) -> Mapping[str, Any]:
        """Return the accepted values of a call's arguments."""
        truths = self.task.ground_truth or ()
        return next(iter(truths[index].values()), {}) if index < len(truths) else {}

    def parameters(self, name: str) -> Mapping[str, Any]:
        """Return a function's documented parameters."""
        found = (doc.parameters for doc in self.task.functions if doc.name == name)
        return next(found, {})

    def with_value(self, place: ArgumentPlace, value: Any) -> AnswerDraft:
        """Return the draft with another value of one argument."""
        call = self.calls[place.call]
        return self.with_arguments(place.call, {**call.arguments, place.key: value})

    def without(self, place: ArgumentPlace) -> AnswerDraft:
        """Return the draft without one argument."""
        given = self.calls[place.call].arguments
        kept = {key: value for key, value in given.items() if key != place.key}
        return self.with_arguments(place.call, kept)

    def with_arguments(self, index: int, arguments: Mapping[str, Any]) -> AnswerDraft:
        """Return the draft with other arguments of one call."""
        return self.with_call(index, Call(self.calls[index].name, arguments))

    def with_call(self, index: int, call: Call) -> AnswerDraft:
        """Return the draft with another call in the place of one."""
        return self.with_calls((*self.calls[:index], call, *self.calls[index + 1 :]))

    def with_calls(self, calls: Sequence[Call]) -> AnswerDraft:
        """Return the draft with other calls."""
        return replace(self, calls=tuple(calls))

    def text(
        self,
        *,
        equals: str = "=",
        comma: str = ", ",
        opening: str = "(",
        write: Literal = python_literal,
        around: str = "[{}]",
    ) -> str:
        """Return the calls as a prompted model writes them; ValueError for what has no literal."""
        written = []
        for call in self.calls:
            given = self._sources(call, write).items()
            arguments = comma.join(f"{key}{equals}{value}" for key, value in given)
            written.append(f"{call.name}{opening}{arguments})")
        return around.format(comma.join(written))

    def positional_text(self) -> str:
        """Return the calls with arguments that have no names."""
        written = (
            f"{call.name}({', '.join(self._sources(call, python_literal).values())})"
            for call in self.calls
        )
        return f"[{', '.join(written)}]"

    def _sources(self, call: Call, write: Literal) -> dict[str, str]:
        properties = self.parameters(call.name).get("properties", {})
        language = self.task.language

        def source(key: str, value: Any) -> str:
            if isinstance(value, VerbatimValue):
                return str(value)
            if self.is_python:
                return write(value)
            return render_source_value(value, properties.get(key, {}), language, self.style)

        return {key: source(key, value) for key, value in call.arguments.items()}


def right_answer_draft(task: Task) -> AnswerDraft | None:
    """Return the right answer of a single-turn task.

    In Java and JavaScript in the first style of literals that BFCL accepts. None where the truth
    cannot be written as calls.
    """
    try:
        [calls] = oracle_calls(task)
        style = STYLES[0]
        if task.language != "python":
            accepted = (
                each
                for each in STYLES[: 4 if task.language == "java" else 2]
                if judge(task, render_calls(task, calls, each)).valid
            )
            style = next(accepted, style)
        draft = AnswerDraft(task, tuple(calls), style)
        draft.text()
    except (ValueError, TypeError, KeyError, AttributeError, StopIteration):
        return None
    return draft


def double_quoted_python_literal(value: Any) -> str:
    """Return a Python literal with double quotes around its strings."""
    if isinstance(value, str):
        return json.dumps(value) if value.isascii() else python_literal(value)
    if isinstance(value, list):
        return f"[{', '.join(map(double_quoted_python_literal, value))}]"
    if isinstance(value, dict):
        pairs = (
            f"{double_quoted_python_literal(key)}: {double_quoted_python_literal(each)}"
            for key, each in value.items()
        )
        return "{" + ", ".join(pairs) + "}"
    return python_literal(value)


GROUPS = ("valid", "lenient", "wrong", "harsh")
"""Strata: right answers that count, sloppy ones that BFCL lets pass, wrong ones, and right ones
that BFCL refuses.
"""


class Mutated(NamedTuple):
    """Response of a mutation."""

    response: Any
    change: str


class Mutation(NamedTuple):
    """Way to change a right answer, with the group that it is made for.

    `make` returns None where the answer has nothing to change in that way.
    """

    group: str
    make: Callable[[Any, random.Random], Mutated | None]


def mutations_by_name(
    **groups: Mapping[str, Callable[[Any, random.Random], Mutated | None]],
) -> dict[str, Mutation]:
    """Return the mutations of tables of functions, one table a group."""
    return {
        name: Mutation(group, make) for group, made in groups.items() for name, make in made.items()
    }


def stratum_name(group: str, name: str, valid: bool) -> str:
    """Return the stratum of a mutation by what it was made for and the official verdict.

    Where the two differ, a mutation is a leniency or a harshness of BFCL's.
    """
    if valid:
        return f"{group if group in ('valid', 'lenient') else 'lenient'}/{name}"
    return f"{group if group in ('wrong', 'harsh') else 'harsh'}/{name}"
