"""Coverage: functions and parameters that a file's tasks ask for, and why others are missing."""

from __future__ import annotations

import html
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from fctncalling.lab.forge.own_api.drawn_call import AskableApi, optional_shares
from fctncalling.lab.own_api.kinds import ArgumentKind
from fctncalling.lab.own_api.kinds.find import guessed_kind_notes
from fctncalling.lab.own_api.words.function_words import FunctionWords
from fctncalling.lab.own_api.words.labelled_values import can_be_said

COVERED = 0.05  # of what may stay unsaid
MOST_CALLS = 1_000_000
COUNTED = ("functions", "parameters")
SAID, COVERAGE_PAGE = "said: ", ".coverage.md"  # how the line begins; what the page's name ends in
MOST_SHOWN, EXAMPLES = 40, 3  # functions whose requests are shown, and of each how many
LONGEST_SHOWN = 240  # characters of a request or its calls
MOST_NAMED = 40  # places of notes of one sort
SOUGHT = 12  # values that are drawn to see whether any can be said
_LEGEND = """\
`said`: requests that say the parameter; `left open`: requests that lack it, so that the model has
to ask. A truth in the tasks lists the values that are accepted of a parameter, `""` among them
where it may be left out: `"limit": ["", 10]`.
"""


class Coverage:
    """Coverage of an API by a file's tasks, computed from its ledger."""

    def __init__(self, api: AskableApi, ledger: Path) -> None:
        self._api = api
        self._calls: Counter[str] = Counter()
        self._said: Counter[tuple[str, str]] = Counter()
        self._left_open: Counter[tuple[str, str]] = Counter()
        categories: Counter[str] = Counter()
        lines = ledger_lines(ledger)
        self._lines = lines
        self._file = ledger.with_name(ledger.name.removesuffix(LEDGER))
        for line in lines:
            told = line["provenance"]
            categories[line["id"].rpartition("_")[0]] += bool(told["functions"])
            for function, names in zip(told["functions"], told["said"], strict=True):
                self._calls[function] += 1
                self._said.update((function, name) for name in names if name != told.get("missing"))
                if "missing" in told:
                    self._left_open[function, told["missing"]] += 1
        self._tasks = len(lines)
        self._turns = max(categories.values(), default=0)  # of functions, each a call

    def record(self) -> dict[str, Any]:
        """Return covered and total functions and parameters, and the tasks needed for the rest."""
        words, names = self._api.words, self._api.names
        askable = [(f, p) for f in names for p, k in words[f].kinds.items() if k.can_be_asked]
        said = [key for key in askable if self._said[key]]
        kinds = [{words[f].kinds[p].kind for f, p in keys} for keys in (askable, said)]
        return {
            "functions": (sum(self._calls[name] > 0 for name in names), len(names)),
            "parameters": (len(said), len(askable)),
            "kinds_never_drawn": sorted(kinds[0] - kinds[1]),
            "tasks_that_cover": self._tasks_that_cover(askable),
        }

    def _tasks_that_cover(self, askable: Sequence[tuple[str, str]]) -> int:
        """Return how many tasks say everything with a probability of 95 %, about.

        How often a call says a parameter is what the file has, and what is to be, as of two calls.
        """
        names = self._api.names
        shares = {name: optional_shares(self._api.words[name]) for name in names}
        silent = [
            1 - (self._said[f, p] + 2 * shares[f].get(p, 1.0)) / (self._calls[f] + 2)
            for f, p in askable
        ]
        calls = 1
        while sum(each**calls for each in silent) > COVERED and calls < MOST_CALLS:
            calls += max(1, calls // 20)
        turns = max(1 / max(1, self._turns), calls / max(1, self._calls.total()))
        return math.ceil(self._tasks * len(names) * turns)

    def page(self) -> str:
        """Return a Markdown page: example requests, and a line per function and parameter."""
        api = self._api
        rows = [
            "| function | parameter | kind | evidence | calls | said | left open | why not |",
            "|---|---|---|---|---:|---:|---:|---|",
        ]
        for name, words in api.words.items():
            why = api.unasked.get(name) or ("" if self._calls[name] else NOT_DRAWN)
            rows.append(f"| {name} | | | | {self._calls[name]} | | | {_escaped(why)} |")
            for parameter, kind in words.kinds.items():
                key = (name, parameter)
                told_kind = f"{kind.kind} {kind.topic}".strip()
                evidence = f"{kind.evidence}{' (guessed)' if kind.guessed else ''}"
                rows.append(
                    f"| | {parameter} | {told_kind} | {evidence} | | {self._said[key]} | "
                    f"{self._left_open[key]} | {_escaped(self._why_unsaid(name, parameter))} |"
                )
        head = f"# {_escaped(api.api.name)}: what {self._calls.total()} calls ask for\n"
        notes = coverage_notes(api)
        tail = ["", "## Notes", "", *(f"- {_escaped(note)}" for note in notes)] if notes else []
        said = [f"{coverage_line(self.record())}\n", "## Requests and their calls\n"]
        return "\n".join([head, *said, *self._examples(), _LEGEND, *rows, *tail, ""])

    def _why_unsaid(self, function: str, parameter: str) -> str:
        """Return why no request says a parameter, with the cure; "" if one does."""
        key, calls = (function, parameter), self._calls[function]
        if self._said[key]:
            return ""
        if why := self._api.left_out.get(key):
            return why
        if not calls:
            return "its function is not asked for"
        why = why_unsayable(self._api.words[function], parameter)
        return why or f"by chance in {calls} calls: more --num_tasks"

    def _examples(self) -> Iterator[str]:
        """Yield a few requests of each function with their calls, and of those to be declined."""
        asked = defaultdict[str, list[int]](list)
        for number, line in enumerate(self._lines):
            for name in {*line["provenance"]["functions"]} or {""}:
                asked[name].append(number)
        names = [name for name in self._api.words if asked[name]]
        last = [""] if asked[""] else []
        shown = {name: asked[name][:EXAMPLES] for name in (*names[:MOST_SHOWN], *last)}
        texts = self._texts({number for numbers in shown.values() for number in numbers})
        more = len(names) - MOST_SHOWN
        for name, numbers in shown.items():
            yield f"**{name or 'to be declined'}**\n"
            yield "\n".join([*(texts[number] for number in numbers), ""])
        if more > 0:
            yield f"… {more} more functions\n"

    def _texts(self, numbers: set[int]) -> dict[int, str]:
        """Return tasks of the file by their numbers, each as a line: request and calls."""
        with self._file.open(encoding="utf-8") as file:
            return {n: _shown(json.loads(line)) for n, line in enumerate(file) if n in numbers}


LEDGER = ".ledger.jsonl"
NOT_DRAWN = "no task of this file draws it: more --num_tasks"


def _shown(entry: Mapping[str, Any]) -> str:
    """Return a task as one line: the user's words and the calls."""
    asked = " / ".join(str(message["content"]) for turn in entry["question"] for message in turn)
    calls = [_call_text(call) for call in entry.get("ground_truth") or ()]
    ends = [f"asks for the {name}" for name in entry.get("missing_parameters", ())]
    between = " / " if len(entry["question"]) > 1 else "; "
    answer = between.join(ends or calls) or "no call"
    if calls and not ends:
        answer = f"`{html.escape(_cut(answer), quote=False).replace('`', chr(39))}`"
    return f"- {_escaped(_cut(asked))} → {answer}"


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_SHOWN else f"{line[:LONGEST_SHOWN]} …"


def _call_text(call: Any) -> str:
    """Return a call of a truth with the first values that are accepted, those unsaid left out."""
    if not isinstance(call, Mapping):
        return "; ".join(map(str, call))  # of one turn
    [(name, accepted)] = call.items()
    said = {key: _first(values) for key, values in accepted.items() if values[:1] != [""]}
    arguments = ", ".join(f"{key}={value!r}" for key, value in said.items())
    return f"{name}({arguments})"


def _first(values: Sequence[Any]) -> Any:
    """Return the first accepted value, of an object its keys' first ones."""
    value = values[0]
    if isinstance(value, Mapping):
        return {key: _first(each) for key, each in value.items() if each[:1] != [""]}
    return value


def why_unsayable(words: FunctionWords, name: str) -> str:
    """Return why no request of an HTTP operation says a parameter, with the cure; "" if some do."""
    kind = words.kinds[name]
    if not words.method or name in (words.clauses or {}):
        return ""
    if len(kind.values) == 1 and not kind.required:
        return "its only value is what goes unsaid"
    if kind.kind == "boolean":
        cure = f'--phrases FILE can: clauses.{name} = ["true = with it", "false = without it"]'
        return "" if can_be_said(words, name, True) else f"no words say it: {cure}"
    values = [value for seed in range(SOUGHT) if (value := _drawn(kind, seed)) is not None]
    if any(can_be_said(words, name, value) for value in values):
        return ""
    cure = f'--phrases FILE can: clauses.{name} = ["with {{}}"]'
    return f"more nested keys than a request says, or keys without a noun: {cure}"


def _drawn(kind: ArgumentKind, seed: int) -> Any:
    try:
        return kind.draw(Random(seed))
    except ValueError:
        return None


def coverage_line(covered: Mapping[str, Any]) -> str:
    """Return a record of coverage as one line."""
    told = [f"{covered[kind][0]} of {covered[kind][1]} {kind}" for kind in COUNTED]
    never = ", ".join(covered["kinds_never_drawn"])
    return (
        f"{SAID}{' and '.join(told)}; {f'never drawn: {never}; ' if never else ''}"
        f"about {covered['tasks_that_cover']:,} tasks are needed to say each at least once"
    )


def _escaped(text: str) -> str:
    """Return a stranger's text as Markdown shows it: no tag, no cell, no link begins in it."""
    return re.sub(r"[\\`*\[\]|]", r"\\\g<0>", html.escape(text, quote=False))


def coverage_notes(api: AskableApi, *, most_named: int = MOST_NAMED) -> list[str]:
    """Return notes on guessed and missing parts of an API, one line a sort of note.

    `most_named`: of how many further places a line names them.
    """
    kinds = {(name, p): k for name, words in api.words.items() for p, k in words.kinds.items()}
    groups: dict[str, list[str]] = {}
    bare = [
        f"{name}: demands none of its arguments, so that a request may say none: `required` in the "
        "document changes that"
        for name, words in api.words.items()
        if words.method not in ("", "GET", "DELETE") and words.kinds
        if not any(kind.required for kind in words.kinds.values())
    ]
    for note in (*api.offers.notes(), *api.api.notes, *bare, *guessed_kind_notes(kinds)):
        groups.setdefault(_sort_of_note(note), []).append(note)
    return [_joined_notes(notes, most_named) for notes in groups.values()]


def _sort_of_note(note: str) -> str:
    """Return a note without its subject: "has no operationId"."""
    parts = note.split(": ")
    told = parts[-2] if parts[-1].startswith("called ") and len(parts) > 1 else parts[-1]
    return re.sub(r"'[^']*'", "", told)


def _joined_notes(notes: Sequence[str], most_named: int) -> str:
    """Return the first of several alike notes, with the places of the others."""
    first, *others = notes
    if not others:
        return first
    places = list(dict.fromkeys(note.partition(": ")[0] for note in others))[:most_named]
    named = f": {', '.join(places)}" if places else ""
    return f"{first} ({len(others)} more of this sort{named})"


def ledger_lines(ledger: Path) -> list[dict[str, Any]]:
    """Return the lines of a ledger that tell of tasks."""
    with ledger.open(encoding="utf-8") as file:
        found = [json.loads(line) for line in file]
    return [line for line in found if "provenance" in line]
