"""Library of the single-turn functions: tool schemas and phrases, as any own API has them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from fctncalling.data.types import FunctionDoc
from fctncalling.lab.forge.own_api.drawn_call import AskableApi
from fctncalling.lab.forge.own_api.offers import FunctionOffers
from fctncalling.lab.own_api.kinds import MISSING
from fctncalling.lab.own_api.kinds.evidence import infer_argument_kind
from fctncalling.lab.own_api.words.frames import (
    RequestFrame,
    clauses_of_frames,
    frames_of_tables,
    split_held_out_frames,
)
from fctncalling.lab.own_api.words.function_words import FunctionWords
from fctncalling.lab.own_api.words.request_fit import RequestFit
from fctncalling.specification.api import OwnApi

FOLDER = Path(__file__).parent


@dataclass(frozen=True, eq=False)
class FunctionTemplate:
    """Function with its whole pool of parameters, of which a task's document has some.

    `family` and `aspect`: of functions that tell different things of one sort of thing.
    """

    words: FunctionWords
    frames: Sequence[RequestFrame]
    domain: str
    mode: str  # compute, look, find, act or code
    verbs: tuple[str, ...]
    noun: str
    family: str
    aspect: str
    common: frozenset[str]  # options that many functions have
    about: str  # what it deals with, as questions name it; "" for what cannot be named

    @property
    def schemas(self) -> Mapping[str, Any]:
        """The schemas of its parameters."""
        properties: Mapping[str, Any] = self.words.doc.parameters["properties"]
        return properties

    @property
    def slots(self) -> frozenset[str]:
        """The parameters that every request says within its phrase."""
        return frozenset.intersection(*(frozenset(frame.parameters) for frame in self.frames))


def _expanded(rows: Iterator[Mapping[str, Any]], phrases: Mapping[str, Any]) -> Iterator[Any]:
    """Yield (row, phrase table) of each function: of a row with aspects, one for each of them."""
    for row in rows:
        text = json.dumps([row, phrases[row["name"]]])
        for aspect, (ask, words) in row.get("aspects", {"": ("", "")}).items():
            told = text.replace("<ask>", ask).replace("<aspect>", words).replace("*", aspect)
            family = row["noun"] if aspect else ""
            yield *json.loads(told), {"family": family, "aspect": aspect}


@cache
def templates() -> tuple[FunctionTemplate, ...]:
    """Return the functions of the library, those of one domain together."""
    lines = (FOLDER / "functions.jsonl").read_text(encoding="utf-8").splitlines()
    phrases = tomllib.loads((FOLDER / "phrases.toml").read_text(encoding="utf-8"))
    shared, *rows = map(json.loads, lines)
    expanded = list(_expanded(iter(rows), phrases))
    for row, _, _ in expanded:
        properties = row["parameters"]["properties"]
        properties |= {n: shared[e["$ref"]] for n, e in properties.items() if "$ref" in e}
    tables = {"*": phrases["*"], **{row["name"]: table for row, table, _ in expanded}}
    parameters = {row["name"]: row["parameters"]["properties"] for row, _, _ in expanded}
    frames = frames_of_tables(tables, parameters, "phrases.toml")
    return tuple(_template(row, frames[row["name"]], more) for row, _, more in expanded)


def _template(
    row: Mapping[str, Any], frames: Sequence[RequestFrame], more: Mapping[str, str]
) -> FunctionTemplate:
    doc = FunctionDoc(row["name"], row["description"], row["parameters"])
    needed = row["parameters"]["required"]
    kinds = {
        name: infer_argument_kind(name, schema, required=name in needed)
        for name, schema in row["parameters"]["properties"].items()
    }
    words = FunctionWords(doc, kinds, clauses=clauses_of_frames(frames))
    phrases = split_held_out_frames([frame for frame in frames if not frame.says])[0]
    return FunctionTemplate(
        words,
        phrases,
        row["domain"],
        row["mode"],
        tuple(row["verbs"]),
        row["noun"],
        **more,
        common=frozenset(row.get("common", ())),
        about=row.get("about", ""),
    )


@cache
def domains(*, code: bool = False) -> Mapping[str, Sequence[FunctionTemplate]]:
    """Return the functions of each domain; `code`: those of Java and JavaScript in their place."""
    found: dict[str, list[FunctionTemplate]] = {}
    for each in templates():
        if (each.mode == "code") is code:
            found.setdefault(each.domain, []).append(each)
    return found


@cache
def part_of_function(
    template: FunctionTemplate, required: tuple[tuple[str, bool], ...], *, floats: bool
) -> FunctionWords:
    """Return a function with some of its parameters, each required or not.

    `floats`: whether whole numbers are documented as floats.
    """
    kinds = {name: template.words.kinds[name] for name, _ in required}
    for name, is_required in required:
        default = MISSING if is_required else kinds[name].default
        kinds[name] = replace(kinds[name], required=is_required, default=default)
        if floats and kinds[name].kind == "integer":
            kinds[name] = replace(
                kinds[name], type="float", kind="number", step=kinds[name].step or 1
            )
    return FunctionWords(template.words.doc, kinds, clauses=template.words.clauses)


def askable(functions: Sequence[FunctionWords]) -> AskableApi:
    """Return the API that some functions are."""
    return replace(_library(), words={each.doc.name: each for each in functions})


@cache
def _library() -> AskableApi:
    frames = {each.words.doc.name: each.frames for each in templates()}
    api = OwnApi("single turn", (), "")
    return AskableApi(api, {}, frames, {}, FunctionOffers(api, 1), {}, {}, RequestFit(()), False)
