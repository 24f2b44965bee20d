"""Draft of a right single-turn answer, and its mutations: arguments, calls, and their text."""

from __future__ import annotations

import json
import keyword
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

from fctncalling.data.types import Call, Task
from fctncalling.envs.judging.judge import judge
from fctncalling.envs.judging.oracle import OMITTED, oracle_calls
from fctncalling.envs.python_source.call_source import python_literal
from fctncalling.evaluation.accepted_answers import STYLES, render_calls, render_source_value

Literal = Callable[[Any], str]


class VerbatimValue(str):
    """Value that is written verbatim, in place of a literal."""

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
    """Expected calls of a single-turn task, with the values that the truth accepts."""

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
        """Return the calls as a prompted model writes them; ValueError without a literal."""
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


class NothingToChangeError(ValueError):
    """Error of a mutation that a draft gives no occasion for."""


def require(condition: object) -> None:
    """Raise NothingToChangeError unless a condition holds."""
    if not condition:
        raise NothingToChangeError


T = TypeVar("T")


def pick(rng: random.Random, places: Iterable[T]) -> T:
    """Return one of the places that a mutation fits; NothingToChangeError without any."""
    listed = list(places)
    require(listed)
    return rng.choice(listed)


class Mutated(NamedTuple):
    """Response of a mutation."""

    response: Any
    change: str


Make = Callable[[Any, random.Random], Mutated]
"""Change of a draft by random numbers; ValueError where it has nothing to change in that way."""


class Mutation(NamedTuple):
    """Mutation of a right answer, and the group it belongs to."""

    group: str
    make: Make


def mutations_by_name(**groups: Mapping[str, Make]) -> dict[str, Mutation]:
    """Return the mutations of tables of functions, one table a group."""
    return {
        name: Mutation(group, make) for group, made in groups.items() for name, make in made.items()
    }


def stratum_name(group: str, name: str, valid: bool) -> str:
    """Return the stratum of a mutation by its group and the official verdict.

    Where the two differ, a mutation is a leniency or a harshness of BFCL's.
    """
    if valid:
        return f"{group if group in ('valid', 'lenient') else 'lenient'}/{name}"
    return f"{group if group in ('wrong', 'harsh') else 'harsh'}/{name}"


_PUNCTUATION = ",./-_*^ "


def _changed(draft: AnswerDraft, place: ArgumentPlace, value: Any) -> Mutated:
    require(type(value) is not type(place.value) or value != place.value)
    name = draft.calls[place.call].name
    change = f"{name}, argument {place.key!r}: {place.value!r:.60} becomes {value!r:.60}"
    return Mutated(draft.with_value(place, value).text(), change)


def _on_argument(
    fits: Callable[[ArgumentPlace], bool],
    value: Callable[[ArgumentPlace, random.Random], Any],
    *,
    python: bool = False,
) -> Make:
    """Return a mutation that changes one of the arguments that fit; python: there alone."""

    def make(draft: AnswerDraft, rng: random.Random) -> Mutated:
        require(draft.is_python or not python)
        place = pick(rng, filter(fits, draft.places()))
        return _changed(draft, place, value(place, rng))

    return make


def _is_any(place: ArgumentPlace) -> bool:
    return True


def _is_boolean(place: ArgumentPlace) -> bool:
    return isinstance(place.value, bool)


def _is_number(place: ArgumentPlace) -> bool:
    return isinstance(place.value, int | float) and not isinstance(place.value, bool)


def _is_text(place: ArgumentPlace) -> bool:
    return isinstance(place.value, str) and len(place.value) > 1


def _is_list(place: ArgumentPlace) -> bool:
    return isinstance(place.value, list) and len(place.value) > 0


def _other_value(draft: AnswerDraft, rng: random.Random) -> Mutated:
    others = (
        (place, value)
        for place in draft.places()
        for value in place.accepted
        if value not in (OMITTED, place.value) and not isinstance(value, dict | list)
    )
    return _changed(draft, *pick(rng, others))


def _optional_left_out(draft: AnswerDraft, rng: random.Random) -> Mutated:
    left_out = [
        place for place in draft.places() if OMITTED in place.accepted and not place.required
    ]
    require(left_out)
    for place in left_out:
        draft = draft.without(place)
    names = ", ".join(place.key for place in left_out)
    return Mutated(draft.text(), f"left out, as they may be: {names}")


def _optional_written(draft: AnswerDraft, rng: random.Random) -> Mutated:
    written = [place.key for place in draft.places() if OMITTED in place.accepted]
    require(written)
    return Mutated(draft.text(), f"written although they may be left out: {', '.join(written)}")


def _keyword_order(draft: AnswerDraft, rng: random.Random) -> Mutated:
    require(any(len(call.arguments) > 1 for call in draft.calls))
    for index, call in enumerate(draft.calls):
        draft = draft.with_arguments(index, dict(reversed(list(call.arguments.items()))))
    return Mutated(draft.text(), "arguments in another order")


def _other_number(place: ArgumentPlace, rng: random.Random) -> Any:
    number = place.value
    if isinstance(number, float) and number.is_integer() and abs(number) < 1e15:
        return int(number)
    return float(number) if isinstance(number, int) else number


def _missing_required(draft: AnswerDraft, rng: random.Random) -> Mutated:
    place = pick(rng, (place for place in draft.places() if place.required))
    change = f"{draft.calls[place.call].name}, argument {place.key!r} is missing"
    return Mutated(draft.without(place).text(), change)


def _unknown_parameter(draft: AnswerDraft, rng: random.Random) -> Mutated:
    index, call = pick(rng, enumerate(draft.calls))
    value = VerbatimValue("true") if draft.task.language == "java" else 1
    more = draft.with_arguments(index, {**call.arguments, "no_such_option": value})
    return Mutated(more.text(), f"{call.name}, an argument 'no_such_option' that is not documented")


def _repeated_keyword(draft: AnswerDraft, rng: random.Random) -> Mutated:
    require(draft.is_python)
    place = pick(rng, draft.places())
    written = f"{place.key}="
    text = draft.text().replace(written, f"{written}None, {written}", 1)
    require(text.count(written) > 1)
    return Mutated(text, f"argument {place.key!r} stands twice, the right one last")


def _wrong_dict(place: ArgumentPlace, rng: random.Random) -> Any:
    return {**place.value, "no_such_key": 1}


def _punctuated(place: ArgumentPlace, rng: random.Random) -> Any:
    at = rng.randrange(1, len(place.value))
    return f"{place.value[:at]}{rng.choice(_PUNCTUATION)}{place.value[at:]}"


def _is_bare_name(place: ArgumentPlace) -> bool:
    text = place.value
    return isinstance(text, str) and text.isidentifier() and not keyword.iskeyword(text)


def _joined_strings(place: ArgumentPlace, rng: random.Random) -> Any:
    return VerbatimValue(f"{place.value[:1]!r} + {place.value[1:]!r}")


def _declares_float(place: ArgumentPlace) -> bool:
    return place.declared in ("float", "number") and _is_number(place)


ARGUMENT_MUTATIONS = mutations_by_name(
    valid={
        "other_value": _other_value,
        "optional_left_out": _optional_left_out,
        "optional_written": _optional_written,
        "keyword_order": _keyword_order,
        "int_or_float": _on_argument(_declares_float, _other_number, python=True),
    },
    lenient={
        "upper_case": _on_argument(
            lambda place: _is_text(place) and place.value.isascii(),
            lambda place, _: place.value.upper(),
        ),
        "punctuation": _on_argument(_is_text, _punctuated),
        "blanks_removed": _on_argument(
            lambda place: _is_text(place) and " " in place.value.strip(),
            lambda place, _: place.value.replace(" ", ""),
        ),
        "bare_name": _on_argument(
            _is_bare_name, lambda place, _: VerbatimValue(place.value), python=True
        ),
        "joined_strings": _on_argument(_is_text, _joined_strings, python=True),
        "empty_for_optional": _on_argument(
            lambda place: _is_text(place) and OMITTED in place.accepted, lambda *_: "---"
        ),
        "repeated_keyword": _repeated_keyword,
    },
    wrong={
        "wrong_number": _on_argument(_is_number, lambda place, _: place.value + 7),
        "wrong_string": _on_argument(_is_text, lambda place, _: f"{place.value} not this"),
        "wrong_boolean": _on_argument(_is_boolean, lambda place, _: not place.value),
        "item_lost": _on_argument(_is_list, lambda place, _: place.value[:-1]),
        "item_added": _on_argument(_is_list, lambda place, _: [*place.value, place.value[0]]),
        "items_reversed": _on_argument(
            lambda place: _is_list(place) and place.value[::-1] != place.value,
            lambda place, _: place.value[::-1],
        ),
        "unknown_key": _on_argument(lambda place: isinstance(place.value, dict), _wrong_dict),
        "number_as_string": _on_argument(
            _is_number, lambda place, _: str(place.value), python=True
        ),
        "string_as_number": _on_argument(_is_text, lambda *_: 42, python=True),
        "wrapped_in_list": _on_argument(_is_any, lambda place, _: [place.value], python=True),
        "float_for_integer": _on_argument(
            lambda place: place.declared == "integer" and type(place.value) is int,
            lambda place, _: float(place.value),
            python=True,
        ),
        "boolean_as_string": _on_argument(
            _is_boolean, lambda place, _: str(place.value).lower(), python=True
        ),
        "none": _on_argument(_is_any, lambda *_: None, python=True),
        "missing_required": _missing_required,
        "unknown_parameter": _unknown_parameter,
    },
)
"""Name -> mutation of a draft's arguments."""


REFUSALS = (
    "I cannot do that with the functions that I have.",
    "None of the functions fits; could you tell me more?",
    "Nothing to call here.",
)


def _form(change: str, write: Callable[[AnswerDraft], str], *, python: bool = False) -> Make:
    """Return a mutation that writes the right calls in another form."""

    def make(draft: AnswerDraft, rng: random.Random) -> Mutated:
        require(draft.calls and (draft.is_python or not python))
        return Mutated(write(draft), change)

    return make


def _double_quotes(draft: AnswerDraft, rng: random.Random) -> Mutated:
    text = draft.text(write=double_quoted_python_literal) if draft.is_python else draft.text()
    require(text != draft.text())
    return Mutated(text, "strings in double quotes")


def _json_calls(draft: AnswerDraft) -> str:
    return json.dumps([{"name": call.name, "arguments": call.arguments} for call in draft.calls])


def _call_order(draft: AnswerDraft, rng: random.Random) -> Mutated:
    turned = draft.with_calls(draft.calls[::-1]).text()
    require(turned != draft.text())
    return Mutated(turned, "the calls in reversed order")


def _missing_call(draft: AnswerDraft, rng: random.Random) -> Mutated:
    lost, name = pick(rng, ((index, call.name) for index, call in enumerate(draft.calls)))
    kept = [call for index, call in enumerate(draft.calls) if index != lost]
    return Mutated(draft.with_calls(kept).text(), f"the call of {name} is missing")


def _call_twice(draft: AnswerDraft, rng: random.Random) -> Mutated:
    call = pick(rng, draft.calls)
    return Mutated(draft.with_calls((*draft.calls, call)).text(), f"{call.name} is called twice")


def _unused_function(draft: AnswerDraft, rng: random.Random) -> str:
    require(draft.calls)
    used = {call.name for call in draft.calls}
    return pick(rng, (doc.name for doc in draft.task.functions if doc.name not in used))


def _other_function(draft: AnswerDraft, rng: random.Random) -> Mutated:
    name = _unused_function(draft, rng)
    more = draft.with_calls((*draft.calls, Call(name, {})))
    return Mutated(more.text(), f"{name} is called, too")


def _duplicate_for_missing(draft: AnswerDraft, rng: random.Random) -> Mutated:
    require(len(draft.calls) > 1)
    twice = draft.with_call(len(draft.calls) - 1, draft.calls[0])
    change = f"the first call stands in the place of the last, {draft.calls[-1].name}"
    return Mutated(twice.text(), change)


def _renamed(rename: Callable[[str], str]) -> Make:
    def make(draft: AnswerDraft, rng: random.Random) -> Mutated:
        index, call = pick(rng, enumerate(draft.calls))
        name = rename(call.name)
        require(name != call.name)
        text = draft.with_call(index, Call(name, call.arguments)).text()
        return Mutated(text, f"{call.name} is called {name}")

    return make


def _function_exchanged(draft: AnswerDraft, rng: random.Random) -> Mutated:
    name, last = _unused_function(draft, rng), draft.calls[-1]
    text = draft.with_call(len(draft.calls) - 1, Call(name, last.arguments)).text()
    return Mutated(text, f"{name} is called with the arguments of {last.name}")


def _words(*texts: str) -> Make:
    def make(draft: AnswerDraft, rng: random.Random) -> Mutated:
        text = rng.choice(texts)
        return Mutated(text, f"no call, only the text {text!r}")

    return make


CALL_MUTATIONS = mutations_by_name(
    valid={
        "canonical": _form("the right calls as they are", AnswerDraft.text),
        "spacing": _form(
            "blanks around every sign",
            lambda draft: draft.text(equals=" = ", comma=" , ", opening=" ( ", around=" [ {} ] "),
        ),
        "line_breaks": _form(
            "a line for each argument", lambda draft: draft.text(comma=",\n  "), python=True
        ),
        "double_quotes": _double_quotes,
        "trailing_comma": _form(
            "a comma behind the last call", lambda draft: draft.text(around="[{},]"), python=True
        ),
        "call_order": _call_order,
    },
    lenient={
        "no_brackets": _form("no brackets around the calls", lambda draft: draft.text(around="{}")),
        "plain_fence": _form(
            "a plain fence around", lambda draft: draft.text(around="```\n[{}]\n```")
        ),
    },
    harsh={
        "words_before": _form("words before the calls", lambda draft: f"Sure! {draft.text()}"),
        "words_behind": _form("words behind the calls", lambda draft: f"{draft.text()} Done."),
        "python_fence": _form(
            "a fence of Python around",
            lambda draft: draft.text(around="```python\n[{}]\n```"),
            python=True,
        ),
        "json_calls": _form("the calls as JSON where a list was asked for", _json_calls),
    },
    wrong={
        "unclosed": _form("the last parenthesis is missing", lambda draft: draft.text()[:-2]),
        "positional": _form("arguments without names", AnswerDraft.positional_text),
        "missing_call": _missing_call,
        "spurious_twice": _call_twice,
        "spurious_other": _other_function,
        "duplicate_for_missing": _duplicate_for_missing,
        "function_name": _renamed(lambda name: f"{name}_v2"),
        "function_exchanged": _function_exchanged,
        "name_without_dots": _renamed(lambda name: name.replace(".", "_")),
        "only_words": _words(*REFUSALS),
        "empty_object": _words("I do not know. {}"),
        "empty": _words("", "[]"),
    },
)
"""Name -> mutation of a draft's calls and of their text."""


def _call_of(
    name: str | None, change: str, write: Callable[[AnswerDraft], str] = AnswerDraft.text
) -> Make:
    """Return a mutation that calls the first function on offer, or one of another name."""

    def make(draft: AnswerDraft, rng: random.Random) -> Mutated:
        names = [name] if name else [doc.name for doc in draft.task.functions]
        require(names)
        return Mutated(write(draft.with_calls([Call(names[0], {"a": 1})])), change)

    return make


def _malformed(draft: AnswerDraft, rng: random.Random) -> Mutated:
    return Mutated("[no_such_function(", "a call that does not parse")


_CALLED = _call_of(None, "the first function on offer is called")
_UNKNOWN = _call_of("no_such_function", "a function is called that is not on offer")

IRRELEVANCE_MUTATIONS = mutations_by_name(
    valid={"only_words": _words(*REFUSALS), "empty": _words("", "[]")},
    lenient={
        "malformed_call": _malformed,
        "json_call": _call_of(
            None, "a call as JSON, which BFCL does not read in this form", _json_calls
        ),
    },
    wrong={"call_where_none_fits": _CALLED, "unknown_function": _UNKNOWN},
)
"""Mutations where no function fits."""

RELEVANCE_MUTATIONS = mutations_by_name(
    valid={"any_call": _CALLED},
    lenient={"unknown_function": _UNKNOWN},
    wrong={
        "only_words": _words(*REFUSALS),
        "empty_object": _words("I do not know. {}"),
        "malformed_call": _malformed,
    },
)
"""Mutations where some call is expected."""
