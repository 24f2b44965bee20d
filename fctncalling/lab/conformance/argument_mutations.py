"""Mutations of arguments: other accepted values, wrong values, wrong types, missing and unknown."""

from __future__ import annotations

import keyword
import random
from collections.abc import Callable
from typing import Any

from fctncalling.envs.judging.oracle import OMITTED
from fctncalling.lab.conformance.drafts import AnswerDraft, ArgumentPlace, VerbatimValue
from fctncalling.lab.conformance.mutated import Mutated, Mutation

_PUNCTUATION = ",./-_*^ "


def _changed(draft: AnswerDraft, place: ArgumentPlace, value: Any) -> Mutated | None:
    if type(value) is type(place.value) and value == place.value:
        return None
    name = draft.calls[place.call].name
    change = f"{name}, argument {place.key!r}: {place.value!r:.60} becomes {value!r:.60}"
    return Mutated(draft.with_value(place, value).text(), change)


def _on_argument(
    fits: Callable[[ArgumentPlace], bool], value: Callable[[ArgumentPlace, random.Random], Any]
) -> Callable[[AnswerDraft, random.Random], Mutated | None]:
    """Return a mutation that changes one of the arguments that fit."""

    def make(draft: AnswerDraft, rng: random.Random) -> Mutated | None:
        places = [place for place in draft.places() if fits(place)]
        if not places:
            return None
        place = rng.choice(places)
        return _changed(draft, place, value(place, rng))

    return make


def _in_python(
    make: Callable[[AnswerDraft, random.Random], Mutated | None],
) -> Callable[[AnswerDraft, random.Random], Mutated | None]:
    return lambda draft, rng: make(draft, rng) if draft.is_python else None


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


def _other_number(place: ArgumentPlace) -> Any:
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
    if not places:
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


def _declared(*names: str) -> Callable[[ArgumentPlace], bool]:
    return lambda place: place.declared in names and _is_number(place)


ARGUMENT_MUTATIONS = {
    "other_value": Mutation("valid", _other_value),
    "optional_left_out": Mutation("valid", _optional_left_out),
    "optional_written": Mutation("valid", _optional_written),
    "keyword_order": Mutation("valid", _keyword_order),
    "int_or_float": Mutation(
        "valid",
        _in_python(
            _on_argument(_declared("float", "number"), lambda place, _: _other_number(place))
        ),
    ),
    "upper_case": Mutation(
        "lenient",
        _on_argument(
            lambda place: _is_text(place) and place.value.isascii(),
            lambda place, _: place.value.upper(),
        ),
    ),
    "punctuation": Mutation("lenient", _on_argument(_is_text, _punctuated)),
    "blanks_removed": Mutation(
        "lenient",
        _on_argument(
            lambda place: _is_text(place) and " " in place.value.strip(),
            lambda place, _: place.value.replace(" ", ""),
        ),
    ),
    "bare_name": Mutation(
        "lenient",
        _in_python(_on_argument(_is_bare_name, lambda place, _: VerbatimValue(place.value))),
    ),
    "joined_strings": Mutation(
        "lenient",
        _in_python(
            _on_argument(
                _is_text,
                lambda place, _: VerbatimValue(f"{place.value[:1]!r} + {place.value[1:]!r}"),
            )
        ),
    ),
    "empty_for_optional": Mutation(
        "lenient",
        _on_argument(lambda place: _is_text(place) and OMITTED in place.accepted, lambda *_: "---"),
    ),
    "repeated_keyword": Mutation("lenient", _in_python(_repeated_keyword)),
    "wrong_number": Mutation("wrong", _on_argument(_is_number, lambda place, _: place.value + 7)),
    "wrong_string": Mutation(
        "wrong", _on_argument(_is_text, lambda place, _: f"{place.value} not this")
    ),
    "wrong_boolean": Mutation(
        "wrong",
        _on_argument(lambda place: isinstance(place.value, bool), lambda place, _: not place.value),
    ),
    "item_lost": Mutation("wrong", _on_argument(_is_list, lambda place, _: place.value[:-1])),
    "item_added": Mutation(
        "wrong", _on_argument(_is_list, lambda place, _: [*place.value, place.value[0]])
    ),
    "items_reversed": Mutation(
        "wrong",
        _on_argument(
            lambda place: _is_list(place) and place.value[::-1] != place.value,
            lambda place, _: place.value[::-1],
        ),
    ),
    "unknown_key": Mutation(
        "wrong", _on_argument(lambda place: isinstance(place.value, dict), _wrong_dict)
    ),
    "number_as_string": Mutation(
        "wrong", _in_python(_on_argument(_is_number, lambda place, _: str(place.value)))
    ),
    "string_as_number": Mutation("wrong", _in_python(_on_argument(_is_text, lambda *_: 42))),
    "wrapped_in_list": Mutation(
        "wrong", _in_python(_on_argument(lambda place: True, lambda place, _: [place.value]))
    ),
    "float_for_integer": Mutation(
        "wrong",
        _in_python(
            _on_argument(
                lambda place: place.declared == "integer" and type(place.value) is int,
                lambda place, _: float(place.value),
            )
        ),
    ),
    "boolean_as_string": Mutation(
        "wrong",
        _in_python(
            _on_argument(
                lambda place: isinstance(place.value, bool),
                lambda place, _: str(place.value).lower(),
            )
        ),
    ),
    "none": Mutation("wrong", _in_python(_on_argument(lambda place: True, lambda *_: None))),
    "missing_required": Mutation("wrong", _missing_required),
    "unknown_parameter": Mutation("wrong", _unknown_parameter),
}
"""Name -> mutation of a draft's arguments."""
