"""Learns by trying what BFCL's functions do, on our own tools in sampled worlds.

Run as a module, it writes `moves.json`; a test holds the file to what probing gives.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from contextlib import suppress
from typing import Any

from fctncalling.lab.forge.multi_turn import inventory
from fctncalling.lab.forge.multi_turn.dials import (
    PARAMETER_KINDS,
    TABLE,
    Dials,
    FunctionMoves,
    refusal_signature,
)
from fctncalling.lab.forge.multi_turn.drafter import (
    is_failed_result,
    leaves_with_paths,
    pattern,
)
from fctncalling.lab.forge.multi_turn.planner import DeadEnd, Walk
from fctncalling.lab.forge.multi_turn.values import make_world
from fctncalling.lab.forge.plan import parse_result

WORLDS = 36
_PASSES = 3
_REDRAWS = 6
_ROOM = 5  # calls of a prelude
_SURE = 0.7  # share of a result's values at a place that must be of a kind


def learn(seed: int = 0, num_worlds: int = WORLDS) -> dict[str, dict[str, Any]]:
    """Return what probing found of every function.

    {function: {"changes", "cures": {refusal: [functions]}, "produces": {path: kind}, "seen_by":
    [functions]}}.
    """
    learned: dict[str, dict[str, Any]] = {}
    for _ in range(_PASSES):  # what the first pass cured, the second starts from
        known = FunctionMoves(learned)
        for owner, names in PARAMETER_KINDS.items():
            probe = _Probe(owner, seed, known)
            for index in range(num_worlds):
                probe.visit(index)
            learned.update({name: probe.learned(name) for name in names})
    return learned


def mark(walk: Walk) -> tuple[Any, ...]:
    """Return what `rewind` needs to come back to this moment of a walk."""
    turns, facts = [list(turn) for turn in walk.turns], list(walk.knowledge.facts)
    return walk.session.get_state(), turns, facts, set(walk._seen)


def rewind(walk: Walk, to: tuple[Any, ...]) -> None:
    """Undo everything since a mark, which may be used again."""
    state, turns, facts, seen = to
    walk.session.set_state(state)
    walk.turns[:] = [list(turn) for turn in turns]
    walk.knowledge.facts[:] = facts
    walk._seen = set(seen)


class _Probe:
    """Counts of what happened to one class's functions."""

    def __init__(self, owner: str, seed: int, known: FunctionMoves) -> None:
        self._known = known
        self.owner = owner
        self.names = list(PARAMETER_KINDS[owner])
        self._seed = seed
        self.changed: set[str] = set()
        self.cured: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.shown: dict[str, Counter[str]] = defaultdict(Counter)
        self.leaves: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)

    def visit(self, index: int) -> None:
        """Try every function in one world, first in its own state, then after every other."""
        draw = random.Random(f"{self._seed}/{self.owner}/{index}")
        world = make_world(draw, [self.owner])
        walk = Walk(draw, [self.owner], world, Dials(inferred=0.0))
        walk.moves = self._known
        walk.turns.append([])
        with suppress(DeadEnd):
            for _ in range(index % 4):
                walk.request(draw.choice(self.names), _ROOM)
        for name in self.names:
            start = mark(walk)
            before = self._reads(walk)
            text = self._call(walk, name)
            if text is not None and not is_failed_result(text):
                self._compare(walk, name, before)
            rewind(walk, start)
            if text is not None and is_failed_result(text) and refusal_signature(text):
                self._cure(walk, name, text)
            rewind(walk, start)

    def _reads(self, walk: Walk) -> dict[str, tuple[Any, str]]:
        """Return what reads show now, those that show something else each time left out."""
        shown, start = {}, mark(walk)
        for name in self.names:
            with suppress(LookupError):
                if self._known.changes_state(name):
                    continue
                arguments = walk.draft_arguments(name)
                text = walk.execute(name, arguments)
                if not is_failed_result(text) and text == walk.execute(name, arguments):
                    shown[name] = arguments, text
                else:
                    rewind(walk, start)  # no read, or one that was refused half-way
        return shown

    def _compare(self, walk: Walk, name: str, before: dict[str, tuple[Any, str]]) -> None:
        for other, (arguments, text) in before.items():
            after = walk.execute(other, arguments)
            self.shown[name][other] += after != text and not is_failed_result(after)

    def _call(self, walk: Walk, name: str) -> str | None:
        before = walk.session.public_state()
        try:
            text = walk.execute(name, walk.draft_arguments(name))
        except LookupError:
            return None
        if not is_failed_result(text):
            if walk.session.public_state() != before:
                self.changed.add(name)
            self._note(walk, name, text)
        return text

    def _note(self, walk: Walk, name: str, text: str) -> None:
        state = walk.session.live_state()
        for path, value in leaves_with_paths(parse_result(text)):
            kinds = [
                kind
                for kind in inventory.REFERENCE_KINDS
                if kind not in ("sector", "entry_name")
                and value in inventory.nameable_values(kind, state)
            ]
            self.leaves[name, pattern(path)].update([*kinds, "all"])

    def _cure(self, walk: Walk, name: str, refusal: str) -> None:
        """Note which other calls help.

        Those after which the refused one succeeds, perhaps by further steps that are known already.
        Where other arguments help, no step is needed.
        """
        if any(self._succeeds(walk, name) for _ in range(_REDRAWS)):
            return
        start, calls = mark(walk), len(walk.turns[-1])
        helped = dict[str, int]()  # what helps -> calls that it took
        for other in self.names:
            made = other != name and walk._attempt(other, "needed_step", _ROOM - 1)
            if made and self._helped(walk, name, refusal_signature(refusal)):
                helped[other] = len(walk.turns[-1]) - calls
            rewind(walk, start)
        fewest = min(helped.values(), default=0)
        self.cured[name, refusal_signature(refusal)].update(
            o for o, n in helped.items() if n == fewest
        )

    def _helped(self, walk: Walk, name: str, refusal: str) -> bool:
        after = mark(walk)
        text = self._call(walk, name)
        rewind(walk, after)
        if text is None or refusal_signature(text) == refusal:
            return False
        return not is_failed_result(text) or self._succeeds(walk, name, cured=True)

    def _succeeds(self, walk: Walk, name: str, *, cured: bool = False) -> bool:
        """Whether a call of freshly drafted arguments succeeds; the state is put back."""
        start = mark(walk)
        try:
            if cured:
                return walk._attempt(name, "asked", _ROOM)
            text = self._call(walk, name)
            return text is not None and not is_failed_result(text)
        finally:
            rewind(walk, start)

    def learned(self, name: str) -> dict[str, Any]:
        """Return one function's entry of the table."""
        cures = {
            refusal: _leading(counts)
            for (function, refusal), counts in sorted(self.cured.items())
            if function == name
        }
        produces = {}
        for (function, path), counts in sorted(self.leaves.items()):
            if function != name or counts["all"] < 5:
                continue
            sure = [
                k for k, n in sorted(counts.items()) if n >= _SURE * counts["all"] and k != "all"
            ]
            if sure:
                produces[path] = sure[0]
        return {
            "changes": name in self.changed,
            "cures": {refusal: names for refusal, names in cures.items() if names},
            "produces": produces,
            "seen_by": sorted(n for n, times in self.shown[name].items() if times > 1),
        }


def _leading(counts: Counter[str]) -> list[str]:
    """Return what helped more than once and at least half as often as what helped most."""
    top = max(counts.values(), default=0)
    return [name for name, times in counts.most_common() if times > 1 and 2 * times >= top]


def main() -> None:
    """Write the table."""
    lines = [f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in learn().items()]
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main()
