"""Arguments of a call, drafted by `couplings.toml` from earlier words and results.

A draft need not succeed: the walk executes it and drafts another where the tools refuse.
"""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cache
from itertools import groupby
from typing import Any

from fctncalling.lab.forge.multi_turn import inventory
from fctncalling.lab.forge.multi_turn.dials import FUNCTIONS, MADE_BY_CALLS, NEW_KINDS, Dials
from fctncalling.lab.forge.multi_turn.values import draw_value, read_toml
from fctncalling.lab.forge.plan import AGAIN, PlannedCall, Source, Value, parse_result
from fctncalling.lab.own_api.english import date_forms

Arguments = dict[str, Value]


@dataclass(frozen=True)
class Fact:
    """A value that somebody who read everything so far knows."""

    kind: str
    value: Any
    source: Source  # without a call: the user's words
    origin: Value | None = None  # as an argument had it, where words said it in another form


@dataclass
class Knowledge:
    """Facts in the order they came up, newest last, and the arguments of the calls so far."""

    facts: list[Fact] = field(default_factory=list)
    calls: dict[tuple[int, int], Mapping[str, Value]] = field(default_factory=dict)

    def add(self, call: PlannedCall, turn: int, index: int) -> None:
        """Note what the words for a call say, and what its result shows."""
        self.calls[turn, index] = call.arguments
        for value in call.arguments.values():
            if value.provenance == "said_now":
                items = value.value if isinstance(value.value, list) else [value.value]
                self.facts += [Fact(value.kind, item, Source(turn)) for item in items]
            elif value.said_kind in ("city", "company"):
                self.facts.append(Fact(value.kind, value.value, Source(turn), value))
            if value.kind in NEW_KINDS:
                self.facts.append(Fact(NEW_KINDS[value.kind], value.value, Source(turn)))
        given = {name: value.value for name, value in call.arguments.items()}
        kinds = FUNCTIONS[call.function].kinds_in_result(given)
        for path, shown in leaves_with_paths(parse_result(call.result)):
            if (kind := kinds.get(pattern(path))) is not None:
                self.facts.append(Fact(kind, shown, Source(turn, index, path)))

    def of_kind(self, *kinds: str, shown: bool) -> list[Fact]:
        """Return the facts of some kinds from results, or from words."""
        return [e for e in self.facts if e.kind in kinds and (e.source.call >= 0) is shown]

    def results(self, *kinds: str) -> list[list[Fact]]:
        """Return the facts of some kinds, grouped by the result that they come from."""
        shown = groupby(self.of_kind(*kinds, shown=True), _place)
        return [list(facts) for _, facts in shown]

    def last_result(self, *kinds: str) -> list[Fact]:
        """Return the facts of the latest result that shows some of these kinds.

        None where it shows several values, for nobody could say which is meant.
        """
        last = (self.results(*kinds) or [[]])[-1]
        return last if len({str(each.value) for each in last}) == 1 else []

    def newest_listed(self, *kinds: str) -> list[Fact]:
        """Return the values of the newest result that shows several, all of one of these kinds.

        Nobody takes the mean of a price and its moving averages.
        """
        listed = (e for e in reversed(self.results(*kinds)) if len({fact.kind for fact in e}) == 1)
        return next((facts for facts in listed if len(facts) > 1), [])


def _place(fact: Fact) -> tuple[int, int]:
    return fact.source.turn, fact.source.call


def pattern(path: tuple[str | int, ...]) -> str:
    """Return a path with "*" for each index and each key that is a number or an id."""
    return ".".join(
        "*" if isinstance(key, int) or (any(c.isdigit() for c in key) and "MA" not in key) else key
        for key in path
    )


def leaves_with_paths(
    value: Any, path: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield (path, value) of every atom below, and of every key that is an id."""
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, dict) and pattern((key,)) == "*":
                yield (*path, key), key  # a table by id: its keys are values, too
            yield from leaves_with_paths(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from leaves_with_paths(item, (*path, index))
    else:
        yield path, value


NUMERIC_KINDS = tuple(
    "number count price pressure gallons liters kilometers miles amount temperature".split()
)
_LARGEST = 1e7
_LIKING_FOR_KNOWN = 50.0  # of a row, for each value of it that is known


@dataclass
class Drafter:
    """Drafter of values for one call."""

    draw: random.Random
    dials: Dials
    knowledge: Knowledge
    state: inventory.State
    turn: int = 0
    made: Arguments = field(default_factory=dict)  # what is drafted already
    names: tuple[str, ...] = ()  # what is being drafted

    def arguments(self, function: str) -> Arguments:
        """Return arguments for a call; LookupError if the world has none."""
        for table in _couplings()[function]:
            self.made = {}
            try:
                for self.names, ways in table.items():
                    self.made.update(zip(self.names, self._drafted(ways), strict=False))
            except LookupError:
                continue
            return self.made
        raise LookupError(function)

    def _drafted(self, ways: str) -> list[Value]:
        """Return values by the first way that can be made; of `none` there are none."""
        for way in ways.split(" | "):
            head, *words = way.split(" ")
            try:
                if head[0].isdigit():
                    if self.draw.random() >= float(head):
                        continue
                    head, *words = words
                made = getattr(self, f"_{head}")(*words)
                return made if isinstance(made, list) else [made]
            except (LookupError, ValueError):
                continue
        raise LookupError(ways)

    def value(self, kind: str, exclude: Collection[Any] = ()) -> Value:
        """Return a value of a kind, by a source that the dials prefer; LookupError for none."""
        return self._drawn([*self._known(kind, exclude), *self._fresh_options(kind, exclude)])

    def _drawn(self, options: list[tuple[float, Value]]) -> Value:
        return self.draw.choices([o for _, o in options], [w for w, _ in options])[0]

    def known(self, kind: str) -> Value | None:
        """Return a value met before, None if there is none of the kind."""
        options = self._known(kind, ())
        return self._drawn(options) if options else None

    def _known(self, kind: str, exclude: Collection[Any]) -> list[tuple[float, Value]]:
        """Return the latest said or shown values of a kind that still exist, by weight."""
        said = self.knowledge.of_kind(kind, shown=False)
        groups = (
            (self.dials.said_again, [fact for fact in said if fact.source.turn == self.turn]),
            (self.dials.said_before, [fact for fact in said if fact.source.turn != self.turn]),
            (self.dials.result, self.knowledge.last_result(kind)),
        )
        latest = [(weight, facts[-1]) for weight, facts in groups if facts and weight]
        exist = None
        if latest and kind in inventory.REFERENCE_KINDS:
            exist = inventory.nameable_values(kind, self.state)
        return [
            (weight, self._from_fact(fact))
            for weight, fact in latest
            if (exist is None or fact.value in exist) and fact.value not in ("", *exclude)
        ]

    def _fresh_options(self, kind: str, exclude: Collection[Any]) -> list[tuple[float, Value]]:
        if kind not in inventory.REFERENCE_KINDS:
            return [(self.dials.said_now, self.spoken(kind, draw_value(kind, self.draw)))]
        exist = [e for e in inventory.nameable_values(kind, self.state) if e not in exclude]
        if not exist:
            return []
        rarely = 0.6 if kind in MADE_BY_CALLS else 1.0
        options = [(rarely * self.dials.said_now, self.spoken(kind, self.draw.choice(exist)))]
        source = inventory.look_up(kind, self.state)
        if len(exist) == 1 and source.path:
            options.append((self.dials.state, Value(kind, exist[0], "state", source=source)))
        return options

    def spoken(self, kind: str, value: Any) -> Value:
        """Return a value in words: now and then in a form that implies it."""
        said_kind, words = inventory.other_words(kind)
        if said_kind and self.draw.random() < self.dials.inferred:
            said = words.get(value) if words else date_forms(date.fromisoformat(value))[0]
            if said:
                return Value(kind, value, "inferred", said, said_kind)
        return Value(kind, value, "said_now")

    def _from_fact(self, fact: Fact) -> Value:
        """Return a known fact as an argument."""
        if fact.source.call >= 0:
            return Value(fact.kind, fact.value, "result", source=fact.source)
        if fact.source.turn == self.turn:
            return fact.origin or Value(fact.kind, fact.value, "said_now")
        return Value(fact.kind, fact.value, "said_before", source=fact.source)

    # Ways, by the first word of each in `couplings.toml`.

    def _none(self) -> list[Value]:
        return []

    def _again(self) -> list[Value]:
        for (turn, _), arguments in reversed(self.knowledge.calls.items()):
            if set(self.names) <= set(arguments):
                return [self._repeated(arguments[name], turn) for name in self.names]
        raise LookupError("no such call")

    def _giving(self, kind: str, shown: str) -> Value:
        place = _place(self.knowledge.last_result(shown)[-1])
        given = [v.value for v in self.knowledge.calls[place].values() if v.kind == kind]
        known = self.known(kind)
        return known if known and known.value == given[0] else self.spoken(kind, given[0])

    def _repeated(self, value: Value, turn: int) -> Value:
        """Return an argument of an earlier call as one of this turn's."""
        if turn == self.turn or value.words is None:
            return value
        return Value(value.kind, value.value, "said_before", None, AGAIN, Source(turn))

    def _of(self, kind: str, how: str = "", *paths: str) -> Value:
        listed = [
            each
            for path in paths
            for each in (
                [self.made[path].value]
                if path in self.made
                else inventory.values_at(path, self.state)
            )
        ]
        if how != "in":
            return self.value(kind, listed)
        known = self.known(kind)
        if known is not None and known.value in listed:
            return known
        return self.spoken(kind, self.draw.choice(listed))

    def _fresh(self, kind: str, name: str = "") -> Value:
        return Value(kind, draw_value(name or kind, self.draw), "said_now")

    def _some(self, kind: str, low: str, high: str, name: str = "") -> Value:
        count = self.draw.randint(int(low), int(high))
        if name:
            return Value(kind, [draw_value(name, self.draw) for _ in range(count)], "said_now")
        there = inventory.nameable_values(kind, self.state)
        return Value(kind, self.draw.sample(there, count), "said_now")

    def _marked(self, kind: str, said_kind: str, mark: str, name: str) -> Value:
        said = [draw_value(name, self.draw) for _ in range(self.draw.choice((1, 1, 2)))]
        return Value(kind, [f"{mark}{each}" for each in said], "inferred", said, said_kind)

    def _derived(self, kind: str, said_kind: str, *pairs: str) -> Value:
        value, _, said = self.draw.choice(pairs).partition("=")
        plain = json.loads(value) if value[0].isdigit() else value
        return Value(kind, plain, "inferred", said or None, said_kind if said else "")

    def _said(self, kind: str, *paths: str) -> Value:
        words = [inventory.values_at(path, self.state)[0] for path in paths]
        return Value(kind, " ".join(words), "said_now")

    def _text(self, name: str) -> Value:
        shown = self.knowledge.of_kind("text", shown=True)[-1:]
        if shown and _is_short(shown[0].value) and self.draw.random() < 0.2 * self.dials.result:
            return self._from_fact(shown[0])
        return Value("text", draw_value(name, self.draw), "said_now")

    def _word(self, kind: str, *paths: str) -> Value:
        names = {name: value.value for name, value in self.made.items()}
        texts = [t for path in paths for t in inventory.values_at(path, self.state, names)]
        words = [w.strip(".!?,") for t in texts for w in t.replace("_", " ").split()]
        if kind == "name_part":
            words = [word.partition(".")[0] for word in words]
        return Value(kind, self.draw.choice([w for w in words if len(w) > 4]), "said_now")

    def _result(self, kind: str) -> Value:
        return self._from_fact(self.knowledge.last_result(kind)[-1])

    def _listed(self, kind: str) -> Value:
        is_number = kind == "number"
        facts = self.knowledge.newest_listed(*(NUMERIC_KINDS if is_number else (kind,)))
        source = replace(facts[0].source, path=("*",) if is_number else facts[0].source.path[:-1])
        return Value(kind, [fact.value for fact in facts], "result", source=source)

    def _shown_number(self) -> Value:
        """Return the number that the last result with numbers shows, if it shows one."""
        [last] = self.knowledge.results(*NUMERIC_KINDS)[-1]
        if abs(last.value) > _LARGEST:
            raise LookupError("a number that nobody goes on from")
        return self._from_fact(last)

    def _row(self, kind: str, name: str, order: str = "") -> list[Value]:
        known = {fact.value: fact for fact in self.knowledge.of_kind(kind, shown=True)}
        listed = inventory.rows(name)
        likings = [_LIKING_FOR_KNOWN ** ((a in known) + (b in known)) for a, b in listed]
        row = self.draw.choices(listed, likings)[0]
        return [
            self._from_fact(known[each]) if each in known else self.spoken(kind, each)
            for each in (row[::-1] if order == "back" else row)
        ]

    def _beside(self, kind: str, name: str) -> Value:
        last = [fact.value for fact in self.knowledge.facts if fact.kind == kind][-1:]
        pairs = [pair for pair in inventory.rows(name) if not last or last[0] in pair]
        others = [each for pair in pairs or inventory.rows(name) for each in pair]
        return Value(kind, self.draw.choice([e for e in others if e not in last]), "said_now")

    def _renamed(self) -> Value:
        """Return a new name for the file `source`, with its ending."""
        stem, dot, ending = str(self.made["source"].value).rpartition(".")
        name = draw_value("file_stems", self.draw) + (f".{ending}" if stem and dot else "")
        if name in inventory.nameable_values("file_name", self.state):
            raise LookupError(name)
        return Value("new_file", name, "said_now")

    def _room(self) -> Value:
        """Return the amount that fills the tank up."""
        room = 50.0 - self.state["VehicleControlAPI"]["fuelLevel"]
        return Value("gallons", room, "inferred", "full", "fill_level")

    def _doors(self) -> list[Value]:
        """Return whether to unlock, and which doors: all of them, or some that are unlocked."""
        doors = self.state["VehicleControlAPI"]["doorStatus"]
        unlock = all(status == "locked" for status in doors.values())
        which = Value("door", list(doors), "state", source=inventory.look_up("door", self.state))
        if not unlock and self.draw.random() < 0.12:
            some = [door for door, status in doors.items() if status == "unlocked"]
            which = Value("door", some[:2], "said_now")
        return [Value("switch", unlock, "flag"), which]

    def _flag(self, kind: str, value: str) -> Value:
        return Value(kind, json.loads(value), "flag")

    def _fixed(self, kind: str, value: str) -> Value:
        return Value(kind, json.loads(value), "said_now")


@cache
def _couplings() -> dict[str, list[dict[tuple[str, ...], str]]]:
    """Return function -> tables of drafts: names of arguments -> ways to draft them."""
    owners = read_toml("couplings").items()
    coupled = {name: e for owner, rows in owners if owner != "rows" for name, e in rows.items()}
    found = {}
    for name, function in FUNCTIONS.items():
        entry = coupled.get(name, {each: f"of {kind}" for each, kind in function.takes.items()})
        tables = entry if isinstance(entry, list) else [entry]
        found[name] = [{tuple(n.split(", ")): ways for n, ways in t.items()} for t in tables]
    return found


def _is_short(shown: Any) -> bool:
    return isinstance(shown, str) and 8 < len(shown) < 200 and "\n" not in shown
