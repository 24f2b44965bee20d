"""Whether the trained tokens spell the logged answers: a shifted mask or tool text shows here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fctncalling.data.token_file import TokenFile
from fctncalling.viewer.token_lanes import EpisodeLanes

_SHOWN = 40
_UNKNOWN = "\N{REPLACEMENT CHARACTER}"  # part of a character: no text of its own


def spelling_findings(
    tokens: TokenFile, lanes: EpisodeLanes, steps: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[int, str]]:
    """Yield (acted token, what is wrong) for actions whose tokens do not spell the logged text."""
    ends = np.flatnonzero(tokens.ends_action[lanes.acted])
    if not len(lanes.acted) or not steps:
        return
    if len(ends) != len(steps):
        yield 0, f"{len(ends)} trained actions, but the log has {len(steps)} answers"
        return
    texts = tokens.texts
    start = 0
    for number, (end, step) in enumerate(zip(ends.tolist(), steps, strict=True)):
        spelled = "".join(texts[place] for place in lanes.acted[start : end + 1])
        shown = [*(steps[number - 1].get("results") or () if number else ())]
        shown += step.get("results") or ()
        fault = _fault(spelled, str(step.get("text", "")), shown)
        if fault:
            yield start, f"action {number}: {fault}"
        start = end + 1


def _fault(spelled: str, text: str, results: Sequence[Any]) -> str | None:
    """Return why the trained text is not the answer; special tokens may follow it."""
    if _UNKNOWN in spelled or _UNKNOWN in text:
        return None
    trained, answer = _plain(spelled), _plain(text)
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
