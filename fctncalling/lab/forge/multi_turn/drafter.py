"""Arguments of a call, drafted: each value with where it comes from.

A draft need not succeed: the walk executes it and drafts another where the tools refuse.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from fctncalling.lab.forge.multi_turn import inventory, make_world
from fctncalling.lab.forge.multi_turn.dials import Dials
from fctncalling.lab.forge.multi_turn.knowledge import Fact, Knowledge, source_of
from fctncalling.lab.forge.plan import Source, Value
from fctncalling.lab.own_api.english import date_forms

NUMERIC_KINDS = tuple(
    "number count price pressure gallons liters kilometers miles amount temperature".split()
)
_FRESH: dict[str, Callable[[random.Random], Any]] = {
    "new_folder": lambda draw: draw.choice(inventory.FOLDERS),
    "new_file": inventory.draw_file_name,
    "text": inventory.draw_sentence,
    "title": inventory.draw_title,
    "keyword": lambda draw: draw.choice(inventory.TOPICS),
    "new_contact": lambda draw: draw.choice(inventory.FIRST_NAMES),
    "account": inventory.draw_account,
    "username": inventory.draw_account,
    "password": inventory.draw_password,
    "priority": lambda draw: draw.randint(1, 5),
    "amount": lambda draw: float(draw.randint(4, 240) * 25),
    "price": lambda draw: float(draw.randint(10, 400)),
    "share_count": lambda draw: draw.choice((5, 10, 15, 20, 25, 30, 40, 50, 60, 75, 100)),
    "percent": lambda draw: draw.choice((0.5, 1.0, 1.5, 2.0, 2.5, 3.0)),
    "date": make_world.draw_date,
    "client_id": lambda draw: f"client_{draw.randint(100, 9999)}",
    "client_secret": lambda draw: f"secret_{inventory.draw_code(draw, 6)}",
    "refresh_token": lambda draw: f"refresh_{inventory.draw_code(draw, 6)}",
    "card_number": lambda draw: str(draw.randint(4 * 10**15, 5 * 10**15)),
    "expiry_date": lambda draw: f"{draw.randint(1, 12):02d}/{draw.randint(2027, 2033)}",
    "person_name": inventory.draw_full_name,
    "card_verification_number": lambda draw: draw.randint(100, 999),
    "birth_date": lambda draw: (
        f"{draw.randint(1950, 2002)}-{draw.randint(1, 12):02d}-{draw.randint(1, 28):02d}"
    ),
    "passport_number": lambda draw: f"US{draw.randint(10**6, 10**8 - 1)}",
    "temperature": lambda draw: float(draw.randint(16, 28)),
    "fan_speed": lambda draw: draw.randrange(10, 100, 5),
    "miles": lambda draw: float(draw.randint(4, 160) * 5),
    "gallons": lambda draw: float(draw.randint(4, 24)),
    "liters": lambda draw: draw.randint(3, 16) * 5,
    "place": inventory.draw_address,
    "number": lambda draw: draw.choice((draw.randint(2, 900), round(draw.uniform(1, 500), 2))),
    "precision": lambda draw: draw.randint(1, 5),
    "first_name": lambda draw: draw.choice(inventory.FIRST_NAMES),
    "last_name": lambda draw: draw.choice(inventory.LAST_NAMES),
    "speed": lambda draw: float(draw.randrange(40, 121, 5)),
    "meters": lambda draw: float(draw.randrange(30, 150, 10)),
    "headlight_mode": lambda draw: "on",
    "car_part": lambda draw: draw.choice(
        ("fuel", "battery", "doors", "climate", "headlights", "engine")
    ),
}


def _fresh_value(kind: str, draw: random.Random) -> Any:
    if kind in inventory.POOLS:
        return draw.choice(inventory.POOLS[kind])
    return _FRESH[kind](draw)


_NUMBERED = frozenset({"order_id", "booking_id", "tweet_id", "ticket_id"})
"""Kinds of which people know the number less often than the thing."""


@dataclass
class Drafter:
    """Drafter of values for the calls of one turn."""

    draw: random.Random
    dials: Dials
    knowledge: Knowledge
    state: inventory.State
    turn: int = 0

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

    def each(self, kinds: Mapping[str, str]) -> dict[str, Value]:
        """Return a value for each parameter, each by its kind alone."""
        return {name: self.value(kind) for name, kind in kinds.items()}

    def fresh(self, kind: str) -> Value:
        """Return a value that this turn's words say for the first time."""
        return verbatim_value(kind, _fresh_value(kind, self.draw))

    def known(self, kind: str) -> Value | None:
        """Return a value met before, none where nothing of the kind was."""
        options = self._known(kind, ())
        return self._drawn(options) if options else None

    def _known(self, kind: str, exclude: Collection[Any]) -> list[tuple[float, Value]]:
        """Return what was said or seen last of a kind, while it exists, by weight."""
        exist = (
            inventory.nameable_values(kind, self.state)
            if kind in inventory.REFERENCE_KINDS
            else None
        )
        found = []
        groups = (
            (self.dials.said_again, self.knowledge.said_in(kind, self.turn), "said_now"),
            (self.dials.said_before, self.knowledge.said_before(kind, self.turn), "said_before"),
            (self.dials.result, self.knowledge.last_result(kind), "result"),
        )
        for weight, facts, provenance in groups:
            for fact in facts[-1:]:
                lives = (exist is None or fact.value in exist) and fact.value != ""
                if lives and fact.value not in exclude and weight:
                    found.append((weight, value_from_fact(fact, provenance)))
        return found

    def _fresh_options(self, kind: str, exclude: Collection[Any]) -> list[tuple[float, Value]]:
        if kind not in inventory.REFERENCE_KINDS:
            return [(self.dials.said_now, self.spoken(kind, _fresh_value(kind, self.draw)))]
        exist = [e for e in inventory.nameable_values(kind, self.state) if e not in exclude]
        if not exist:
            return []
        rarely = 0.6 if kind in _NUMBERED else 1.0
        options = [(rarely * self.dials.said_now, self.spoken(kind, self.draw.choice(exist)))]
        if len(exist) == 1 and kind in inventory.LOOK_UPS:
            options.append((self.dials.state, looked_up_value(kind, exist[0], self.state)))
        return options

    def spoken(self, kind: str, value: Any) -> Value:
        """Return a value as words say it: now and then in a form that it is inferred from."""
        if self.draw.random() < self.dials.inferred:
            if kind == "airport":
                return inferred_value(
                    kind, value, "airport_of_city", inventory.CITY_OF_AIRPORT[value], "city"
                )
            if kind == "date":
                return inferred_value(kind, value, "iso_date", spoken_date(value), "spoken_date")
            if kind == "symbol" and value in inventory.COMPANY_OF_SYMBOL:
                company = inventory.COMPANY_OF_SYMBOL[value]
                return inferred_value(kind, value, "symbol_of_company", company, "company")
        return verbatim_value(kind, value)


def verbatim_value(kind: str, value: Any) -> Value:
    """Return a value that this turn's words say as it is."""
    return Value(kind, value, "said_now", said=value, said_kind=kind)


def verb_implied_value(kind: str, value: Any) -> Value:
    """Return a switch that the verb decides."""
    return Value(kind, value, "flag")


def inferred_value(
    kind: str, value: Any, rule: str, origin: Any = None, said_kind: str = ""
) -> Value:
    """Return a value that follows from what the words say, or from the docs alone."""
    return Value(kind, value, "inferred", said=origin, said_kind=said_kind, rule=rule)


def looked_up_value(kind: str, value: Any, state: inventory.State) -> Value:
    """Return a value that a look-up shows and the words describe: the only one there is."""
    function, attribute = inventory.LOOK_UPS[kind]
    owner = next(name for name, attributes in state.items() if attribute in attributes)
    source = Source(path=(owner, attribute))
    return Value(kind, value, "state", rule=f"look_up:{function}", source=source)


def value_from_fact(fact: Fact, provenance: str) -> Value:
    """Return a known fact as an argument."""
    if provenance == "said_now":
        return fact.origin or verbatim_value(fact.kind, fact.value)
    return Value(fact.kind, fact.value, provenance, source=source_of(fact))  # type: ignore[arg-type]


def spoken_date(iso: str) -> str:
    """Return a date as people say it: "July 4, 2026"."""
    return date_forms(date.fromisoformat(iso))[0]


def own_text(drafter: Drafter, make: Callable[[random.Random], str]) -> Value:
    """Return a text of the user's own, now and then one that a result shows."""
    shown = [fact for fact in drafter.knowledge.results("text")[-1:] if _is_short(fact.value)]
    if shown and drafter.draw.random() < 0.2 * drafter.dials.result:
        return value_from_fact(shown[0], "result")
    return verbatim_value("text", make(drafter.draw))


def _is_short(shown: Any) -> bool:
    return isinstance(shown, str) and 8 < len(shown) < 200 and "\n" not in shown


Arguments = dict[str, Value]
Draft = Callable[[Drafter], Arguments]
Part = Callable[[Drafter], Value | None]
"""Draft of one argument; None where a call leaves it out."""
