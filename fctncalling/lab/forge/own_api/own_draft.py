"""OwnDraft: a request with its calls, before it is an entry of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fctncalling.lab.forge.own_api.drawn_call import DrawnCall
from fctncalling.lab.own_api.words.frames import RequestFrame


@dataclass(frozen=True)
class OwnDraft:
    """A request, the calls that it asks for (none: it is to be declined) and where it is from."""

    question: str
    calls: Sequence[DrawnCall]
    frames: Sequence[RequestFrame] = ()
    missing: str = ""  # the parameter that is not said
    left_out: str = ""  # the function that is not offered
    source: str = ""
    turns: Sequence[str] = ()  # what the user says, turn by turn, where there are several
    turn_calls: Sequence[Sequence[str]] = ()
    scenario: dict[str, Any] = field(default_factory=dict)
