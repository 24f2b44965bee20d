"""Phrase files: the frames of each function as a user reads and edits them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fctncalling.lab.own_api.api import OwnApi, SpecificationError
from fctncalling.lab.own_api.kinds import ArgumentKind
from fctncalling.lab.own_api.words.act_table import MOODS
from fctncalling.lab.own_api.words.frames import RequestFrame

_HEAD = """\
# Phrases for the functions of an API. {parameter} is where a value of it stands; parameters that a
# phrase leaves out are said behind it. do = orders ("cancel {id}"), want = what follows "I'd like
# to", say = statements, ask = questions without their mark.
"""


def write_phrases(path: Path, frames: Mapping[str, Sequence[RequestFrame]]) -> None:
    """Write the frames of each function, a table a function."""
    lines = [_HEAD]
    for function, each in frames.items():
        lines.append(f"[{json.dumps(function)}]" if "." in function else f"[{function}]")
        for mood in MOODS:
            texts = [frame.text for frame in each if frame.mood == mood]
            if texts:
                items = "".join(f"  {json.dumps(text, ensure_ascii=False)},\n" for text in texts)
                lines.append(f"{mood} = [\n{items}]")
        lines.append("")
    try:
        path.write_text("\n".join(lines), encoding="utf-8")
    except OSError as error:
        raise SpecificationError(f"--write_phrases {path}: {error.strerror}") from None


def read_phrases(
    path: Path, api: OwnApi, kinds: Mapping[tuple[str, str], ArgumentKind]
) -> dict[str, list[RequestFrame]]:
    """Return the user's own frames by function; SpecificationError names what does not fit."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SpecificationError(f"--phrases {path}: cannot be read: {error}") from None
    names = {doc.name for doc in api.functions}
    frames: dict[str, list[RequestFrame]] = {}
    for function, table in found.items():
        where = f"--phrases {path}: {function}"
        if function not in names:
            raise SpecificationError(f"{where}: there is no such function")
        parameters = {parameter for name, parameter in kinds if name == function}
        frames[function] = [
            frame for mood, text in _texts(table, where) for frame in [_frame(function, mood, text)]
        ]
        for frame in frames[function]:
            for slot in frame.parameters:
                if slot not in parameters:
                    raise SpecificationError(f"{where}: {frame.text!r:.60}: no parameter {slot}")
    return frames


def _texts(table: Any, where: str) -> list[tuple[str, str]]:
    if not isinstance(table, dict) or not table.keys() <= set(MOODS):
        raise SpecificationError(f"{where}: expected lists named {', '.join(MOODS)}")
    pairs = []
    for mood, texts in table.items():
        if not isinstance(texts, list) or not all(isinstance(t, str) and t.strip() for t in texts):
            raise SpecificationError(f"{where}.{mood}: expected a list of phrases")
        pairs += [(mood, text.strip().rstrip("?")) for text in texts]
    return pairs


def _frame(function: str, mood: str, text: str) -> RequestFrame:
    return RequestFrame(function, mood, text, "file")
