"""Plans of multi-turn tasks: what the user wants, call by call, before any words are written.

A plan is made by `fctncalling.lab.forge.multi_turn`, its user texts by
`fctncalling.lab.forge.words`. It says of every argument where its value comes from, so that the
words know what they must say, what they may leave to be looked up and what they must not repeat.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Provenance = Literal["said_now", "said_before", "result", "state", "inferred", "flag"]
"""Where an argument's value can be read.

- `said_now`: in this turn's words, letter by letter.
- `said_before`: in the words of an earlier turn (`Source.turn`); this turn refers to it ("it", "the
  same file") and does not repeat it.
- `result`: in the result of an earlier call (`Source.turn`, `Source.call`, `Source.path`); the
  words name its role ("that order", "the matching stocks").
- `state`: in the initial state only (`Source.path`); a call that looks it up, or a description of
  it, leads there.
- `inferred`: follows by a rule from what the words say: `said` is that ("Boston" for "BOS"), and
  `rule` the rule. Where `said` is None it follows from the function doc alone (pedal 1.0).
- `flag`: a switch that the verb of the request decides (lock: unlock=False; engage, on, buy).
"""

Purpose = Literal["asked", "needed_step"]
"""`asked`: the words ask for this call. `needed_step`: the call is needed for an asked one and the
words do not mention it (brake before engine, cd before cat, city to zip code). What it takes that
is `said_now` the words bring in as a circumstance ("in the folder drafts", "from Rivermist", "my
login is ...").
"""

Role = Literal[
    "request", "request_without_value", "missing_value", "request_without_function",
    "function_returns", "request_out_of_scope",
]  # fmt: skip
"""What a turn's words do.

- `request`: ask for `calls`, which are `requested` too.
- `request_without_value`: ask for `requested` but leave out `blank`; nothing is called.
- `missing_value`: say only the value of `blank` (an entry of `requested`, which the turn before
  asked for); `calls` are then made.
- `request_without_function`: ask for `requested`; a function it needs is not offered yet, nothing
  is called.
- `function_returns`: no words; the function is offered again and `calls` are made.
- `request_out_of_scope`: ask for `requested`, calls of a class that is not offered; nothing is
  called.
"""


@dataclass(frozen=True)
class Source:
    """Place where a value was known before this turn's words."""

    turn: int = -1  # the turn whose words say it or whose call returned it; -1: initial state
    call: int = -1  # index in that turn's calls, for a result
    path: tuple[str | int, ...] = ()  # keys down into the result or into initial_config


@dataclass(frozen=True)
class Value:
    """One argument's value, its kind and where it comes from.

    `kind` names what it is to a person: "file_name", "city", "airport", "amount" (see
    `fctncalling.lab.forge.multi_turn.kinds`), the element's kind for a list ("door" for a list of
    doors).
    """

    kind: str
    value: Any  # a literal, exactly as the truth's call has it
    provenance: Provenance
    said: Any = None  # what the words must carry: `value` for said_now, the origin for inferred
    said_kind: str = ""  # the kind of `said`: "city", "liters", "spoken_date", ...
    rule: str = ""  # for inferred: airport_of_city, gallons_of_liters, iso_date, hashtag, ...
    source: Source | None = None  # for said_before, result, state


@dataclass(frozen=True)
class PlannedCall:
    """One call of the truth. `result` is the tool's own result text."""

    class_name: str
    function: str
    arguments: Mapping[str, Value] = field(default_factory=dict)
    purpose: Purpose = "asked"
    depends_on: tuple[tuple[int, int], ...] = ()  # (turn, call) of earlier calls it cannot do
    # without: their removal changes this call's result
    result: str = ""


@dataclass(frozen=True)
class PlannedTurn:
    """One user turn: the calls of its truth and what its words ask for."""

    calls: tuple[PlannedCall, ...]
    role: Role = "request"
    requested: tuple[PlannedCall, ...] = ()  # what the words ask for; `calls` in a request
    blank: tuple[int, str] | None = None  # (index in `requested`, argument): the value left out


@dataclass(frozen=True)
class Plan:
    """A multi-turn task without words. `path` lists "Class.function" as the asked calls come."""

    initial_config: Mapping[str, Any]
    involved_classes: tuple[str, ...]
    turns: tuple[PlannedTurn, ...]
    variant: str = "base"  # base, miss_func, miss_param, long_context, composite, irrelevance
    difficulty: float = 0.0  # 0 (one call, all said) to 1
    missed_functions: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    excluded_functions: tuple[str, ...] = ()  # offered never: another way to the same end
    ambiguous: int = 0  # plans thrown away in its place: another way led to the same end
    seed: str = ""  # "seed/category/index": makes this very plan again

    @property
    def long_context(self) -> bool:
        """Whether the tools are loaded with BFCL's long-context tables."""
        return self.variant in ("long_context", "composite")
