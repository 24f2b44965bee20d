"""Mutations of single-turn answers: arguments, calls, and the text that they are written as."""

from __future__ import annotations

import json
import keyword
import random
from collections.abc import Callable
from typing import Any

from fctncalling.data.types import Call
from fctncalling.envs.judging.oracle import OMITTED
from fctncalling.lab.conformance.drafts import (
    AnswerDraft,
    ArgumentPlace,
    Mutated,
    VerbatimValue,
    double_quoted_python_literal,
    mutations_by_name,
)

Make = Callable[[AnswerDraft, random.Random], Mutated | None]
_PUNCTUATION = ",./-_*^ "


def _changed(draft: AnswerDraft, place: ArgumentPlace, value: Any) -> Mutated | None:
    if type(value) is type(place.value) and value == place.value:
        return None
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

    def make(draft: AnswerDraft, rng: random.Random) -> Mutated | None:
        places = [place for place in draft.places() if fits(place)]
        if not places or (python and not draft.is_python):
            return None
        place = rng.choice(places)
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


def _other_value(draft: AnswerDraft, rng: random.Random) -> Mutated | None:
    places = [
        (place, value)
        for place in draft.places()
        for value in place.accepted
        if value not in (OMITTED, place.value) and not isinstance(value, dict | list)
    ]
    return _changed(draft, *rng.choice(places)) if places else None


def _optional_left_out(draft: AnswerDraft, rng: random.Random) -> Mutated | None:
    left_out = [
        place for place in draft.places() if OMITTED in place.accepted and not place.required
    ]
    shorter = draft
    for place in left_out:
        shorter = shorter.without(place)
    names = ", ".join(place.key for place in left_out)
    return Mutated(shorter.text(), f"left out, as they may be: {names}") if left_out else None


def _optional_written(draft: AnswerDraft, rng: random.Random) -> Mutated | None:
    written = [place.key for place in draft.places() if OMITTED in place.accepted]
    if not written:
        return None
    return Mutated(draft.text(), f"written although they may be left out: {', '.join(written)}")


def _keyword_order(draft: AnswerDraft, rng: random.Random) -> Mutated | None:
    turned = draft
    for index, call in enumerate(draft.calls):
        turned = turned.with_arguments(index, dict(reversed(list(call.arguments.items()))))
    if all(len(call.arguments) < 2 for call in draft.calls):
        return None
    return Mutated(turned.text(), "arguments in another order")


def _other_number(place: ArgumentPlace, rng: random.Random) -> Any:
    number = place.value
    if isinstance(number, float) and number.is_integer() and abs(number) < 1e15:
        return int(number)
    return float(number) if isinstance(number, int) else number


def _missing_required(draft: AnswerDraft, rng: random.Random) -> Mutated | None:
    places = [place for place in draft.places() if place.required]
    if not places:
        return None
    place = rng.choice(places)
    change = f"{draft.calls[place.call].name}, argument {place.key!r} is missing"
    return Mutated(draft.without(place).text(), change)


def _unknown_parameter(draft: AnswerDraft, rng: random.Random) -> Mutated | None:
    if not draft.calls:
        return None
    index = rng.randrange(len(draft.calls))
    call = draft.calls[index]
    value = VerbatimValue("true") if draft.task.language == "java" else 1
    more = draft.with_arguments(index, {**call.arguments, "no_such_option": value})
    return Mutated(more.text(), f"{call.name}, an argument 'no_such_option' that is not documented")


def _repeated_keyword(draft: AnswerDraft, rng: random.Random) -> Mutated | None:
    places = list(draft.places())
    if not places or not draft.is_python:
        return None
    place = rng.choice(places)
    written = f"{place.key}="
    text = draft.text().replace(written, f"{written}None, {written}", 1)
    if text.count(written) < 2:
        return None
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

    def make(draft: AnswerDraft, rng: random.Random) -> Mutated | None:
        if not draft.calls or (python and not draft.is_python):
            return None
        try:
            return Mutated(write(draft), change)
        except (TypeError, ValueError):
            return None

    return make


def _double_quotes(draft: AnswerDraft, rng: random.Random) -> Mutated | None:
    text = draft.text(write=double_quoted_python_literal) if draft.is_python else draft.text()
    return Mutated(text, "strings in double quotes") if text != draft.text() else None


def _json_calls(draft: AnswerDraft) -> str:
    return json.dumps([{"name": call.name, "arguments": call.arguments} for call in draft.calls])


def _call_order(draft: AnswerDraft, rng: random.Random) -> Mutated | None:
    turned = draft.with_calls(draft.calls[::-1]).text()
    return Mutated(turned, "the calls in reversed order") if turned != draft.text() else None


def _missing_call(draft: AnswerDraft, rng: random.Random) -> Mutated | None:
    if not draft.calls:
        return None
    lost = rng.randrange(len(draft.calls))
    kept = [call for index, call in enumerate(draft.calls) if index != lost]
    change = f"the call of {draft.calls[lost].name} is missing"
    return Mutated(draft.with_calls(kept).text(), change)


def _call_twice(draft: AnswerDraft, rng: random.Random) -> Mutated | None:
    if not draft.calls:
        return None
    call = rng.choice(draft.calls)
    return Mutated(draft.with_calls((*draft.calls, call)).text(), f"{call.name} is called twice")


def _unused_functions(draft: AnswerDraft) -> list[str]:
    used = {call.name for call in draft.calls}
    return [doc.name for doc in draft.task.functions if doc.name not in used]


def _other_function(draft: AnswerDraft, rng: random.Random) -> Mutated | None:
    unused = _unused_functions(draft)
    if not draft.calls or not unused:
        return None
    name = rng.choice(unused)
    more = draft.with_calls((*draft.calls, Call(name, {})))
    return Mutated(more.text(), f"{name} is called, too")


def _duplicate_for_missing(draft: AnswerDraft, rng: random.Random) -> Mutated | None:
    if len(draft.calls) < 2:
        return None
    twice = draft.with_call(len(draft.calls) - 1, draft.calls[0])
    change = f"the first call stands in the place of the last, {draft.calls[-1].name}"
    return Mutated(twice.text(), change)


def _renamed(rename: Callable[[str], str]) -> Make:
    def make(draft: AnswerDraft, rng: random.Random) -> Mutated | None:
        if not draft.calls:
            return None
        index = rng.randrange(len(draft.calls))
        call = draft.calls[index]
        name = rename(call.name)
        text = draft.with_call(index, Call(name, call.arguments)).text()
        return Mutated(text, f"{call.name} is called {name}") if name != call.name else None

    return make


def _function_exchanged(draft: AnswerDraft, rng: random.Random) -> Mutated | None:
    unused = _unused_functions(draft)
    if not draft.calls or not unused:
        return None
    name, last = rng.choice(unused), draft.calls[-1]
    text = draft.with_call(len(draft.calls) - 1, Call(name, last.arguments)).text()
    return Mutated(text, f"{name} is called with the arguments of {last.name}")


def _words(*texts: str) -> Make:
    def make(draft: AnswerDraft, rng: random.Random) -> Mutated | None:
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


def _call_of(name: str | None, change: str) -> Make:
    """Return a mutation that calls the first function on offer, or one of another name."""

    def make(draft: AnswerDraft, rng: random.Random) -> Mutated | None:
        called = name or next((doc.name for doc in draft.task.functions), None)
        if called is None:
            return None
        return Mutated(draft.with_calls([Call(called, {"a": 1})]).text(), change)

    return make


_CALLED = _call_of(None, "the first function on offer is called")
_UNKNOWN = _call_of("no_such_function", "a function is called that is not on offer")
_MALFORMED = Mutated("[no_such_function(", "a call that does not parse")

IRRELEVANCE_MUTATIONS = mutations_by_name(
    valid={"only_words": _words(*REFUSALS), "empty": _words("", "[]")},
    lenient={
        "malformed_call": lambda draft, rng: _MALFORMED,
        "json_call": lambda draft, rng: _json_of_first(draft),
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
        "malformed_call": lambda draft, rng: _MALFORMED,
    },
)
"""Mutations where some call is expected."""


def _json_of_first(draft: AnswerDraft) -> Mutated | None:
    called = next((Call(doc.name, {"a": 1}) for doc in draft.task.functions), None)
    if called is None:
        return None
    text = _json_calls(draft.with_calls([called]))
    return Mutated(text, "a call as JSON, which BFCL does not read in this form")
