"""Plans of multi-turn tasks: the user's wishes, call by call, before any words are written.

A plan is made by `fctncalling.lab.forge.multi_turn`, its user texts by
`fctncalling.lab.forge.words`. It says of every argument where its value comes from, so that the
words know what they must say, what they may leave to be looked up and what they must not repeat.
"""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal

from fctncalling.checkers.multi_turn import LiveTurnResults, turn_fault
from fctncalling.data.types import TurnResults
from fctncalling.envs.handlers.execution import ToolSession
from fctncalling.envs.python_source.call_source import PlainCall, render_call

Provenance = Literal["said_now", "said_before", "result", "state", "inferred", "flag"]
"""Where an argument's value can be read.

- `said_now`: in this turn's words, letter by letter.
- `said_before`: in the words of an earlier turn (`Source.turn`); this turn refers to it ("it", "the
  same file") and does not repeat it.
- `result`: in the result of an earlier call (`Source.turn`, `Source.call`, `Source.path`); the
  words name its role ("that order", "the matching stocks").
- `state`: in the initial state only (`Source.path`); a call that looks it up, or a description of
  it, leads there.
- `inferred`: follows from what the words say: `said` is that ("Boston" for "BOS"). Where `said` is
  None it follows from the function doc alone (pedal 1.0).
- `flag`: a switch that the verb of the request decides (lock: unlock=False; engage, on, buy).
"""

AGAIN = "again"
"""`said_kind` of what an earlier call of the same sort had, as both ends of a flight."""
Purpose = Literal["asked", "needed_step"]
"""`asked`: the words ask for this call. `needed_step`: the call is needed for an asked one and the
words do not mention it (brake before engine, cd before cat, city to zip code). What it takes that
is `said_now` the words bring in as a circumstance ("in the folder drafts", "from Rivermist", "my
login is ...").
"""


@dataclass(frozen=True)
class Source:
    """Earlier place at which a value was known."""

    turn: int = -1  # the turn whose words say it or whose call returned it; -1: initial state
    call: int = -1  # index in that turn's calls, for a result
    path: tuple[str | int, ...] = ()  # keys down into the result or into initial_config


@dataclass(frozen=True)
class Value:
    """One argument's value, its kind and its source.

    `kind` names what it is to a person: "file_name", "city", "airport", "amount" (see
    `fctncalling.lab.forge.multi_turn.dials`), the element's kind for a list ("door" for a list of
    doors).
    """

    kind: str
    value: Any  # a literal, exactly as the truth's call has it
    provenance: Provenance
    said: Any = None  # what it is inferred from
    said_kind: str = ""  # the kind of `said`: "city", "liters", "spoken_date", ...
    source: Source = Source()  # for said_before, result, state

    @property
    def words(self) -> Any:
        """What the words of its turn must carry: itself, or its origin; None for neither."""
        return self.value if self.provenance == "said_now" else self.said


@dataclass(frozen=True)
class PlannedCall:
    """One call of the truth. `result` is the tool's result text."""

    class_name: str
    function: str
    arguments: Mapping[str, Value] = field(default_factory=dict)
    purpose: Purpose = "asked"
    depends_on: tuple[tuple[int, int], ...] = ()  # (turn, call) of earlier calls it cannot do
    # without: their removal changes this call's result
    result: str = ""


@dataclass(frozen=True)
class PlannedTurn:
    """A user's request and the calls of its truth.

    One that leaves a value out, or comes before a function is offered, is answered by no call. A
    second message then says the value or offers the function, and the calls are made.
    """

    calls: tuple[PlannedCall, ...]
    blank: tuple[int, str] | None = None  # (index in `calls`, argument): the value left out
    held_back: str = ""  # the function that is not offered yet


@dataclass(frozen=True)
class Plan:
    """A multi-turn task without words. `path` lists "Class.function" as the asked calls come."""

    initial_config: Mapping[str, Any]
    involved_classes: tuple[str, ...]
    turns: tuple[PlannedTurn, ...]
    variant: str = "base"  # base, miss_func, miss_param, long_context, composite
    difficulty: float = 0.0  # 0 (one call, all said) to 1
    seed: str = ""  # "seed/category/index": makes this very plan again
    tools: Mapping[str, str] = field(default_factory=dict)  # class that is not BFCL's -> its path

    @property
    def messages(self) -> list[tuple[int, bool]]:
        """The messages: a turn, and whether it is the second one of that turn."""
        return [
            (number, is_second)
            for number, turn in enumerate(self.turns)
            for is_second in ((False, True) if turn.blank or turn.held_back else (False,))
        ]

    @property
    def placed_calls(self) -> dict[tuple[int, int], PlannedCall]:
        """All calls of the truth in their order, by (turn, call)."""
        return {
            (t, c): call for t, turn in enumerate(self.turns) for c, call in enumerate(turn.calls)
        }

    @property
    def calls(self) -> list[PlannedCall]:
        """All calls of the truth, in their order."""
        return [*self.placed_calls.values()]

    @property
    def values(self) -> list[Value]:
        """All arguments of these calls."""
        return [value for call in self.calls for value in call.arguments.values()]

    @property
    def long_context(self) -> bool:
        """Whether the tools are loaded with BFCL's long-context tables."""
        return self.variant in ("long_context", "composite")


def difficulty(plan: Plan) -> float:
    """Return how hard a plan is, from 0 (one call, all said) to 1.

    Calls, unsaid steps, values from elsewhere than this turn's words, and what is held back, in
    equal parts but for the last.
    """
    calls = plan.calls
    unread = ("said_before", "result", "state", "inferred")
    elsewhere = sum(value.provenance in unread for value in plan.values)
    parts: Sequence[float] = (
        min(1.0, (len(calls) - 1) / 11),
        min(1.0, sum(call.purpose == "needed_step" for call in calls) / 4),
        elsewhere / max(1, len(plan.values)),
        min(1.0, sum(len(call.depends_on) for call in calls) / 6),
    )
    harder = 0.0 if plan.variant == "base" else 0.15
    return round(min(1.0, harder + 0.85 * sum(parts) / len(parts)), 3)


def plan_provenance(plan: Plan) -> dict[str, Any]:
    """Return the sources of the arguments, and the number of unmentioned steps."""
    sources = Counter(value.provenance for value in plan.values)
    steps = sum(call.purpose == "needed_step" for call in plan.calls)
    return {"arguments": dict(sorted(sources.items())), "needed_steps": steps}


def task_entry(plan: Plan, texts: Sequence[str], task_id: str) -> dict[str, Any]:
    """Return a plan's entry, without function docs: whoever has `involved_classes` adds them.

    `texts` has one text a message; that of a message which only offers a function is not read.
    """
    entry: dict[str, Any] = {
        "id": task_id,
        "question": [],
        "initial_config": dict(plan.initial_config),
        "path": [f"{c.class_name}.{c.function}" for c in plan.calls if c.purpose == "asked"],
        "involved_classes": [
            plan.tools.get(name, name).replace(":", ".") for name in plan.involved_classes
        ],
        "ground_truth": [],
    }
    for (number, is_second), text in zip(plan.messages, texts, strict=True):
        turn = plan.turns[number]
        if is_second and turn.held_back:
            missed = entry.setdefault("missed_function", {})
            missed[str(len(entry["question"]))] = [turn.held_back]
            text = ""
        entry["question"].append([{"role": "user", "content": text}] if text else [])
        waits = not is_second and (turn.blank or turn.held_back)
        entry["ground_truth"].append([] if waits else [call_text(call) for call in turn.calls])
    return entry


def parse_result(text: str) -> Any:
    """Return a result text as data; any other text stays a text."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def call_text(call: PlannedCall) -> str:
    """Return a planned call as a truth writes it."""
    return render_call(call.function, {name: each.value for name, each in call.arguments.items()})


def plain_call(call: PlannedCall) -> PlainCall:
    """Return a planned call in the form that tools take, with copies of its lists and dicts."""
    return PlainCall(
        call.function, (), {key: deepcopy(v.value) for key, v in call.arguments.items()}
    )


class PlanSession:
    """Session of live tools that executes each call of a plan as it is drawn."""

    def __init__(
        self,
        classes: Sequence[str],
        config: Mapping[str, Any],
        tools: Mapping[str, str] | None = None,
        *,
        long_context: bool = False,
    ) -> None:
        """`tools`: class that is not BFCL's -> its path."""
        self.classes = classes
        self.config = config
        self.tools = tools or {}
        self.turns: list[list[PlannedCall]] = []
        self.session = ToolSession(
            classes, config, long_context=long_context, extra_tools=self.tools
        )

    @classmethod
    def of_plan(cls, plan: Plan) -> PlanSession:
        """Return the tools of a plan in their initial state."""
        classes, config = plan.involved_classes, plan.initial_config
        return cls(classes, config, plan.tools, long_context=plan.long_context)

    def execute(self, call: PlannedCall) -> str:
        """Return a call's result text; the tools keep its effects."""
        return self.session.execute(plain_call(call))

    def results(self, *calls: PlannedCall) -> list[str]:
        """Return the results of calls, one after the other, on a copy of the state."""
        saved = self.session.get_state()
        found = [self.execute(call) for call in calls]
        self.session.set_state(saved)
        return found

    def plan(self, seed: str = "") -> Plan:
        """Return what was said and done so far."""
        turns = tuple(PlannedTurn(tuple(calls)) for calls in self.turns)
        return Plan(self.config, tuple(self.classes), turns, seed=seed, tools=self.tools)


# Replays of plans on fresh tools: as planned, and with calls left out or changed.
Place = tuple[int, int]
"""(turn, call): a call's place in a plan."""
Changes = Mapping[Place, PlannedCall | None]
"""Place -> the call made there instead; None: it is left out."""


def replay(plan: Plan) -> list[TurnResults]:
    """Return the results and states of each turn."""
    talk = PlanSession.of_plan(plan)
    return [
        TurnResults(_executed(talk, plan, t, {}), talk.session.public_state())
        for t in range(len(plan.turns))
    ]


def changed_replay(
    plan: Plan, changes: Changes, truth: Sequence[TurnResults]
) -> tuple[bool, list[tuple[str, ...]]]:
    """Return whether the checker passes a changed plan, and its results by turn.

    `truth` is what the plan leaves behind unchanged.
    """
    talk = PlanSession.of_plan(plan)
    passes, seen, results = True, Counter[str](), list[tuple[str, ...]]()
    for t, record in enumerate(truth):
        made = _executed(talk, plan, t, changes)
        results.append(made)
        seen.update(made)
        # The live states are compared before the next turn changes them, and never copied.
        live = LiveTurnResults(made, talk.session.live_state())
        passes = passes and not turn_fault(live, record, seen)
    return passes, results


def _executed(talk: PlanSession, plan: Plan, number: int, changes: Changes) -> tuple[str, ...]:
    """Return the results of a turn's calls."""
    calls = (changes.get((number, c), call) for c, call in enumerate(plan.turns[number].calls))
    return tuple(talk.execute(call) for call in calls if call is not None)
