"""Whether the trained tokens spell the logged answers: a shifted mask or tool text shows here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fctncalling.data.token_file import TokenFile
from fctncalling.lab.viewer.token_lanes import EpisodeLanes

_SHOWN = 40
_UNKNOWN = "\N{REPLACEMENT CHARACTER}"  # part of a character: no text of its own


def spelling_findings(
    tokens: TokenFile, lanes: EpisodeLanes, record: Mapping[str, Any]
) -> Iterator[tuple[int, str]]:
    """Yield (acted token, what is wrong) for actions whose tokens are not the logged text's."""
    ends = np.flatnonzero(tokens.ends_action[lanes.acted])
    steps = record.get("steps") or ()
    if not len(lanes.acted) or not steps:
        return
    if len(ends) != len(steps):
        yield 0, f"{len(ends)} trained actions, but the log has {len(steps)} answers"
        return
    found = list(_by_action(tokens, lanes, ends.tolist(), steps))
    yield from found or _other_ids(tokens, lanes, record.get("tokens") or ())


def _by_action(
    tokens: TokenFile, lanes: EpisodeLanes, ends: list[int], steps: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[int, str]]:
    texts = tokens.texts
    start = 0
    for number, end in zip(lanes.steps, ends, strict=True):
        pieces = [texts[place] for place in lanes.acted[start : end + 1]]
        spelled = "".join(_UNKNOWN if _is_name(piece) else piece for piece in pieces)
        shown = [*(steps[number - 1].get("results") or () if number else ())]
        shown += steps[number].get("results") or ()
        fault = _fault(spelled, str(steps[number].get("text", "")), shown)
        if fault:
            yield start, f"action {number}: {fault}"
        start = end + 1


def _is_name(piece: str) -> bool:
    """Whether a piece is the name of a token that is a part of a character: "[##Ã]", "[<0xC3>]"."""
    named = piece[:1] == "[" and piece[-1:] == "]" and len(piece) > 2
    return named and ("<0x" in piece or not piece.isascii())


def _other_ids(
    tokens: TokenFile, lanes: EpisodeLanes, rows: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[int, str]]:
    """Yield the first trained token that is not the sampled one of the log."""
    logged: list[int] = []
    before: list[int] = []
    for row in rows:
        before = [*before[: row.get("shared") or 0], *(row.get("ids") or ())]
        place = 0
        for number, length in enumerate(row.get("runs") or ()):
            logged += before[place : place + length] if number % 2 else ()
            place += length
    trained: list[int] = tokens.ids[lanes.acted].tolist()
    if logged and logged != trained:
        pairs = enumerate(zip(logged, trained, strict=False))
        first = next((at for at, (old, new) in pairs if old != new), len(trained) - 1)
        yield first, f"token {first} is not the sampled one: {len(logged)} tokens are logged"


def _fault(spelled: str, text: str, results: Sequence[Any]) -> str | None:
    """Return why the trained text is not the answer; special tokens may follow it."""
    if _UNKNOWN in spelled or _UNKNOWN in text:
        return None
    trained, answer = _plain(spelled), _plain(text)
    if not trained.startswith(answer):  # a piece that goes on with a word bears a mark on its own
        answer = answer.removeprefix("##")
    if trained.startswith(answer) and _is_special(trained[len(answer) :]):
        return None
    tool_text = [_plain(str(each)) for each in results]
    if any(each and each in trained.replace(answer, "", 1) for each in tool_text):
        return f"text of a tool is trained on: {_short(spelled)}"
    if answer and answer in trained:
        return f"more than the answer is trained on: {_short(spelled)}"
    return f"{_short(spelled)} is trained on, the answer is {_short(text)}"


def _is_special(rest: str) -> bool:
    """Whether a text can be an end of turn: nothing, or one special token."""
    return not rest or (rest[0] in "<[" and rest[-1] in ">]" and rest.count(rest[-1]) == 1)


def _plain(text: str) -> str:
    return "".join(text.split())


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
