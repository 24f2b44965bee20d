"""AskableApi: an API with kinds, words and frames, parted into what is learned and held out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fctncalling.lab.own_api.api import OwnApi
from fctncalling.lab.own_api.kinds import ArgumentKind
from fctncalling.lab.own_api.words.frames import (
    Act,
    RequestFrame,
    acts_of_function,
    frames_of_function,
    split_held_out_frames,
    without_shared_frames,
)
from fctncalling.lab.own_api.words.function_words import FunctionWords


@dataclass(frozen=True)
class AskableApi:
    """API with argument kinds and request phrases, and why some functions are not asked for."""

    api: OwnApi
    words: Mapping[str, FunctionWords]
    frames: Mapping[str, Sequence[RequestFrame]]  # of the part that is made
    acts: Mapping[str, Sequence[Act]]
    docs: tuple[dict[str, Any], ...]  # as entries have them
    unasked: Mapping[str, str]  # function -> why no request can be made for it
    left_out: Mapping[tuple[str, str], str]  # parameter -> why it is in no request
    thrown_away: Counter[str]
    held_out: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The functions that can be asked for."""
        return tuple(name for name in self.words if name not in self.unasked)


def askable_api(
    api: OwnApi,
    kinds: Mapping[tuple[str, str], ArgumentKind],
    own_phrases: Mapping[str, Sequence[RequestFrame]],
    *,
    held_out: bool = False,
) -> AskableApi:
    """Return an API with its words; the user's own phrases stand before ours."""
    words = {
        doc.name: FunctionWords(
            doc, {name: kind for (function, name), kind in kinds.items() if function == doc.name}
        )
        for doc in api.functions
    }
    made = {name: frames_of_function(each) for name, each in words.items()}
    kept, gone = without_shared_frames(made, words)
    frames: dict[str, Sequence[RequestFrame]] = {}
    for name, each in kept.items():
        every = [*own_phrases.get(name, ()), *each]
        frames[name] = split_held_out_frames(every)[held_out]
    return AskableApi(
        api,
        words,
        frames,
        {name: acts_of_function(each) for name, each in words.items()},
        tuple(
            {"name": doc.name, "description": doc.description, "parameters": doc.parameters}
            for doc in api.functions
        ),
        _unasked(words),
        {key: _why(kind) for key, kind in kinds.items() if not kind.can_be_asked},
        gone,
        held_out,
    )


def _unasked(words: Mapping[str, FunctionWords]) -> dict[str, str]:
    """Return the functions that no request can be made for, with the parameter that prevents it."""
    found: dict[str, str] = {}
    for name, each in words.items():
        for parameter, kind in each.kinds.items():
            if kind.required and not kind.can_be_asked:
                found[name] = f"{parameter} is demanded, but {_why(kind)}"
    return found


def _why(kind: ArgumentKind) -> str:
    return (
        "no document says which values it has: --kinds FILE can"
        if kind.kind == "unknown"
        else f"no request can name a value of this {kind.kind}"
    )
