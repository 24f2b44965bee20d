"""Arguments of a call, drafted by `couplings.toml` from earlier words and results.

A draft need not succeed: the walk executes it and drafts another where the tools refuse.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cache
from typing import Any

from fctncalling.lab.forge.multi_turn import inventory
from fctncalling.lab.forge.multi_turn.dials import Dials
from fctncalling.lab.forge.multi_turn.values import draw_value, read_toml
from fctncalling.lab.forge.plan import Source, Value
from fctncalling.lab.own_api.english import date_forms


@dataclass(frozen=True)
class Fact:
    """A value that somebody who read everything so far knows. `call` is -1 for the user's words."""

    kind: str
    value: Any
    turn: int
    call: int = -1
    path: tuple[str | int, ...] = ()
    origin: Value | None = None  # as an argument had it, where words said it in another form


@dataclass
class Knowledge:
    """Facts in the order they came up, newest last, and the arguments of the calls so far."""

    facts: list[Fact] = field(default_factory=list)
    calls: dict[tuple[int, int], Mapping[str, Value]] = field(default_factory=dict)

    def said(self, value: Value, turn: int) -> None:
        """Note the values that a turn's words say."""
        if value.provenance == "said_now":
            items = value.value if isinstance(value.value, list) else [value.value]
            self.facts.extend(Fact(value.kind, item, turn) for item in items)
        elif value.said_kind in ("city", "company"):
            self.facts.append(Fact(value.kind, value.value, turn, origin=value))

    def seen(self, result: Any, kinds: Mapping[str, str], turn: int, call: int) -> None:
        """Note the values in a result; `kinds` maps patterns of paths ("history.*") to kinds."""
        for path, value in leaves_with_paths(result):
            kind = kinds.get(pattern(path))
            if kind is not None:
                self.facts.append(Fact(kind, value, turn, call, path))

    def said_words(self, kind: str, turn: int, *, now: bool) -> list[Fact]:
        """Return the facts of a kind from the words of a turn, or of those before it."""
        said = [each for each in self.facts if each.kind == kind and each.call < 0]
        return [each for each in said if (each.turn == turn) is now]

    def results(self, kind: str) -> list[Fact]:
        """Return the facts of a kind from results."""
        return [each for each in self.facts if each.kind == kind and each.call >= 0]

    def last_result(self, kind: str) -> list[Fact]:
        """Return the fact of a kind from the latest result, if that has only one.

        None where it told several, for nobody could say which is meant.
        """
        told = self.results(kind)
        last = [each for each in told if told and _place(each) == _place(told[-1])]
        return last if len({str(each.value) for each in last}) == 1 else []


def _place(fact: Fact) -> tuple[int, int]:
    return fact.turn, fact.call


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


_REFUSALS = (
    '"error"',
    "'error'",
    "Error",
    "Stock not found",
    "Unknown",
    "00000",
    "Already",
    '_status": false',
    '"success": false',
    "No user is currently",
)


def is_failed_result(text: str) -> bool:
    """Whether a result says that a call failed."""
    return any(each in text for each in _REFUSALS)


_NOTHING = re.compile(r'\[\]|\{"\w+": (\[\]|\{\}|"")\}|\{"count": 0, .*')


def is_empty_result(text: str) -> bool:
    """Whether a result is empty, so that nobody would ask for it."""
    return _NOTHING.fullmatch(text) is not None


def source_of(fact: Fact) -> Source:
    """Return the place of a fact."""
    return Source(fact.turn, fact.call, fact.path)


NUMERIC_KINDS = tuple(
    "number count price pressure gallons liters kilometers miles amount temperature".split()
)
_NUMBERED = frozenset({"order_id", "booking_id", "tweet_id", "ticket_id"})
"""Kinds of which people know the number less often than the thing."""
_LARGEST = 1e7  # nobody goes on from a number beyond
_LIKING_FOR_KNOWN = 50.0  # of a row, for each value of it that is known
Arguments = dict[str, Value]


@dataclass
class Drafter:
    """Drafter of values for the calls of one turn."""

    draw: random.Random
    dials: Dials
    knowledge: Knowledge
    state: inventory.State
    turn: int = 0

    def arguments(self, function: str, kinds: Mapping[str, str]) -> Arguments:
        """Return arguments for a call; LookupError if the world has none."""
        tables = _couplings().get(function)
        if tables is None:
            return {name: self.value(kind) for name, kind in kinds.items()}
        for table in tables:
            made: Arguments = {}
            try:
                for names, text in table.items():
                    values = self._drafted(text, names, made)
                    if values is not None:
                        made.update(zip(names, values, strict=True))
            except LookupError:
                continue
            return made
        raise LookupError(function)

    def _drafted(self, text: str, names: tuple[str, ...], made: Arguments) -> list[Value] | None:
        """Return the values of one line of the table, by the first of its ways that can be made."""
        for way in text.split(" | "):
            chance, _, rest = way.partition(" ")
            try:
                if chance[0].isdigit():
                    if self.draw.random() >= float(chance):
                        continue
                    way = rest
                if way == "none":
                    return None
                if way == "again":
                    return self._again(names)
                head, _, rest = way.partition(" ")
                value = getattr(self, f"_{head}")(rest, made)
                return value if isinstance(value, list) else [value]
            except (LookupError, ValueError):
                continue
        raise LookupError(text)

    def value(self, kind: str, exclude: Collection[Any] = ()) -> Value:
        """Return a value of a kind, by a source that the dials prefer.

        Raises LookupError where the world has none.
        """
        options = [*self._known(kind, exclude), *self._fresh_options(kind, exclude)]
        if not options:
            raise LookupError(kind)
        return self._drawn(options)

    def _drawn(self, options: list[tuple[float, Value]]) -> Value:
        return self.draw.choices([o for _, o in options], [w for w, _ in options])[0]

    def known(self, kind: str) -> Value | None:
        """Return a value met before, None if there is none of the kind."""
        options = self._known(kind, ())
        return self._drawn(options) if options else None

    def _known(self, kind: str, exclude: Collection[Any]) -> list[tuple[float, Value]]:
        """Return the latest said or shown values of a kind that still exist, by weight."""
        exist = (
            inventory.nameable_values(kind, self.state)
            if kind in inventory.REFERENCE_KINDS
            else None
        )
        found = []
        groups = (
            (self.dials.said_again, self.knowledge.said_words(kind, self.turn, now=True)),
            (self.dials.said_before, self.knowledge.said_words(kind, self.turn, now=False)),
            (self.dials.result, self.knowledge.last_result(kind)),
        )
        for weight, facts in groups:
            for fact in facts[-1:]:
                lives = (exist is None or fact.value in exist) and fact.value != ""
                if lives and fact.value not in exclude and weight:
                    found.append((weight, self._from_fact(fact)))
        return found

    def _fresh_options(self, kind: str, exclude: Collection[Any]) -> list[tuple[float, Value]]:
        if kind not in inventory.REFERENCE_KINDS:
            return [(self.dials.said_now, self.spoken(kind, draw_value(kind, self.draw)))]
        exist = [e for e in inventory.nameable_values(kind, self.state) if e not in exclude]
        if not exist:
            return []
        rarely = 0.6 if kind in _NUMBERED else 1.0
        options = [(rarely * self.dials.said_now, self.spoken(kind, self.draw.choice(exist)))]
        if len(exist) == 1 and kind in inventory.LOOK_UPS:
            options.append((self.dials.state, looked_up_value(kind, exist[0], self.state)))
        return options

    def spoken(self, kind: str, value: Any) -> Value:
        """Return a value in words: now and then in a form that implies it."""
        other = inventory.other_words(kind)
        if other is None or self.draw.random() >= self.dials.inferred:
            return verbatim_value(kind, value)
        said_kind, words = other
        said = words.get(value) if words else date_forms(date.fromisoformat(value))[0]
        return inferred_value(kind, value, said, said_kind) if said else verbatim_value(kind, value)

    def _from_fact(self, fact: Fact) -> Value:
        """Return a known fact as an argument."""
        if fact.call >= 0:
            return Value(fact.kind, fact.value, "result", source=source_of(fact))
        if fact.turn == self.turn:
            return fact.origin or verbatim_value(fact.kind, fact.value)
        return Value(fact.kind, fact.value, "said_before", source=source_of(fact))

    def _repeated(self, value: Value, turn: int) -> Value:
        """Return an argument of an earlier call as one of this turn's."""
        if turn == self.turn or value.provenance not in ("said_now", "inferred"):
            return value
        return replace(
            value, provenance="said_before", said=None, said_kind="", source=Source(turn)
        )

    def _again(self, names: tuple[str, ...]) -> list[Value]:
        for (turn, _), arguments in reversed(self.knowledge.calls.items()):
            if set(names) <= set(arguments):
                return [self._repeated(arguments[name], turn) for name in names]
        raise LookupError("no such call")

    # Ways: each takes the rest of its text, and the arguments made before it.

    def _of(self, text: str, made: Arguments) -> Value:
        kind, _, rest = text.partition(" ")
        how, *paths = rest.split() or [""]
        listed = [
            each
            for path in paths
            for each in (
                [made[path].value] if path in made else inventory.values_at(path, self.state)
            )
        ]
        if how != "in":
            return self.value(kind, listed)
        known = self.known(kind)
        if known is not None and known.value in listed:
            return known
        return self.spoken(kind, self.draw.choice(listed))

    def _fresh(self, text: str, made: Arguments) -> Value:
        kind, _, name = text.partition(" ")
        return verbatim_value(kind, draw_value(name or kind, self.draw))

    def _some(self, text: str, made: Arguments) -> Value:
        kind, low, high, *name = text.split()
        count = self.draw.randint(int(low), int(high))
        if name:
            return verbatim_value(kind, [draw_value(name[0], self.draw) for _ in range(count)])
        return verbatim_value(
            kind, self.draw.sample(inventory.nameable_values(kind, self.state), count)
        )

    def _marked(self, text: str, made: Arguments) -> Value:
        kind, said_kind, mark, name = text.split()
        said = [draw_value(name, self.draw) for _ in range(self.draw.choice((1, 1, 2)))]
        return inferred_value(kind, [f"{mark}{each}" for each in said], said, said_kind)

    def _derived(self, text: str, made: Arguments) -> Value:
        kind, said_kind, *pairs = text.split()
        value, _, said = self.draw.choice(pairs).partition("=")
        plain = json.loads(value) if value[0].isdigit() else value
        return inferred_value(kind, plain, said or None, said_kind if said else "")

    def _said(self, text: str, made: Arguments) -> Value:
        kind, *paths = text.split()
        words = [inventory.values_at(path, self.state)[0] for path in paths]
        return verbatim_value(kind, " ".join(words))

    def _text(self, name: str, made: Arguments) -> Value:
        shown = [fact for fact in self.knowledge.results("text")[-1:] if _is_short(fact.value)]
        if shown and self.draw.random() < 0.2 * self.dials.result:
            return self._from_fact(shown[0])
        return verbatim_value("text", draw_value(name, self.draw))

    def _word(self, text: str, made: Arguments) -> Value:
        kind, *paths = text.split()
        names = {name: value.value for name, value in made.items()}
        texts = [t for path in paths for t in inventory.values_at(path, self.state, names)]
        words = [w.strip(".!?,") for t in texts for w in t.replace("_", " ").split()]
        if kind == "name_part":
            words = [word.partition(".")[0] for word in words]
        return verbatim_value(kind, self.draw.choice([w for w in words if len(w) > 4]))

    def _result(self, kind: str, made: Arguments) -> Value:
        return self._from_fact(self.knowledge.last_result(kind)[-1])

    def _giving(self, text: str, made: Arguments) -> Value:
        kind, _, shown = text.split()
        fact = self.knowledge.last_result(shown)[-1]
        values = self.knowledge.calls[fact.turn, fact.call].values()
        given = [value for value in values if value.kind == kind]
        return self._repeated(given[0], fact.turn)

    def _listed(self, kind: str, made: Arguments) -> Value:
        facts = newest_listed(self.knowledge, NUMERIC_KINDS if kind == "number" else (kind,))
        first = facts[0]
        path: tuple[str | int, ...] = ("*",) if kind == "number" else first.path[:-1]
        return Value(
            kind, [f.value for f in facts], "result", source=Source(first.turn, first.call, path)
        )

    def _shown_number(self, text: str, made: Arguments) -> Value:
        """Return the number that the last result with numbers shows, if it shows one."""
        facts = [f for f in self.knowledge.facts if f.kind in NUMERIC_KINDS and f.call >= 0]
        facts = [f for f in facts if abs(f.value) < _LARGEST]
        [last] = [f for f in facts if (f.turn, f.call) == (facts[-1].turn, facts[-1].call)]
        return self._from_fact(last)

    def _row(self, text: str, made: Arguments) -> list[Value]:
        kind, name = text.split()
        known = {fact.value: fact for fact in self.knowledge.facts if fact.kind == kind}
        listed = inventory.rows(name)
        likings = [_LIKING_FOR_KNOWN ** ((a in known) + (b in known)) for a, b in listed]
        return [
            self._from_fact(known[each]) if each in known else self.spoken(kind, each)
            for each in self.draw.choices(listed, likings)[0]
        ]

    def _row_back(self, text: str, made: Arguments) -> list[Value]:
        return self._row(text, made)[::-1]

    def _beside(self, text: str, made: Arguments) -> Value:
        kind, name = text.split()
        last = [fact.value for fact in self.knowledge.facts if fact.kind == kind][-1:]
        pairs = [pair for pair in inventory.rows(name) if not last or last[0] in pair]
        others = [each for pair in pairs or inventory.rows(name) for each in pair]
        return verbatim_value(kind, self.draw.choice([each for each in others if each not in last]))

    def _renamed(self, text: str, made: Arguments) -> Value:
        """Return a new name for the file `source`, with its ending."""
        stem, dot, ending = str(made["source"].value).rpartition(".")
        name = draw_value("file_stems", self.draw) + (f".{ending}" if stem and dot else "")
        if name in inventory.nameable_values("file_name", self.state):
            raise LookupError(name)
        return verbatim_value("new_file", name)

    def _room(self, text: str, made: Arguments) -> Value:
        """Return the amount that fills the tank up."""
        room = 50.0 - self.state["VehicleControlAPI"]["fuelLevel"]
        return inferred_value("gallons", room, "full", "fill_level")

    def _doors(self, text: str, made: Arguments) -> list[Value]:
        """Return whether to unlock, and which doors: all of them, or some that are unlocked."""
        doors = self.state["VehicleControlAPI"]["doorStatus"]
        unlock = all(status == "locked" for status in doors.values())
        which = looked_up_value("door", list(doors), self.state)
        if not unlock and self.draw.random() < 0.12:
            some = [door for door, status in doors.items() if status == "unlocked"]
            which = verbatim_value("door", some[:2])
        return [verb_implied_value("switch", unlock), which]

    def _flag(self, text: str, made: Arguments) -> Value:
        kind, _, value = text.partition(" ")
        return verb_implied_value(kind, json.loads(value))

    def _fixed(self, text: str, made: Arguments) -> Value:
        kind, _, value = text.partition(" ")
        return verbatim_value(kind, json.loads(value))


@cache
def _couplings() -> dict[str, list[dict[tuple[str, ...], str]]]:
    """Return function -> tables of drafts: names of arguments -> ways to draft them."""
    return {
        function: [
            {tuple(names.split(", ")): text for names, text in table.items()}
            for table in (entry if isinstance(entry, list) else [entry])
        ]
        for owner, functions in read_toml("couplings").items()
        if owner != "rows"
        for function, entry in functions.items()
    }


def newest_listed(knowledge: Knowledge, kinds: Collection[str]) -> list[Fact]:
    """Return the values of the newest result that shows several, all of one of these kinds.

    Nobody takes the mean of a price and its moving averages.
    """
    shown: dict[tuple[int, int], list[Fact]] = {}
    for fact in knowledge.facts:
        if fact.kind in kinds and fact.call >= 0:
            shown.setdefault((fact.turn, fact.call), []).append(fact)
    alike = (each for each in shown.values() if len({fact.kind for fact in each}) == 1)
    return next((facts for facts in reversed(list(alike)) if len(facts) > 1), [])


def verbatim_value(kind: str, value: Any) -> Value:
    """Return a value that this turn's words say literally."""
    return Value(kind, value, "said_now", said=value, said_kind=kind)


def verb_implied_value(kind: str, value: Any) -> Value:
    """Return a switch that the verb decides."""
    return Value(kind, value, "flag")


def inferred_value(kind: str, value: Any, origin: Any = None, said_kind: str = "") -> Value:
    """Return a value that follows from the words, or from the docs alone."""
    return Value(kind, value, "inferred", said=origin, said_kind=said_kind)


def looked_up_value(kind: str, value: Any, state: inventory.State) -> Value:
    """Return a value that a look-up shows and the words describe: the only one there is."""
    attribute = inventory.LOOK_UPS[kind]
    owner = next(name for name, attributes in state.items() if attribute in attributes)
    source = Source(path=(owner, attribute))
    return Value(kind, value, "state", source=source)


def _is_short(shown: Any) -> bool:
    return isinstance(shown, str) and 8 < len(shown) < 200 and "\n" not in shown
