"""Single-turn tasks of BFCL's categories: functions by a profile, requests as for a user's API."""

from __future__ import annotations

import json
import random
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from keyword import iskeyword
from pathlib import Path
from typing import Any, NamedTuple

from fctncalling.data.types import FunctionDoc
from fctncalling.lab.forge.forged_entry import (
    ForgedEntry,
    NoTaskDrawn,
    SingleTurnTask,
    UnprovenTask,
    difficulty,
    entry_task,
    one_turn_entry,
    proof_fault,
)
from fctncalling.lab.forge.measures import content_words
from fctncalling.lab.forge.own_api.drawn_call import (
    AskableApi,
    DrawnCall,
    RequestDraft,
    draw_call,
    draw_frame,
)
from fctncalling.lab.forge.own_api.offers import FunctionOffers
from fctncalling.lab.forge.own_api.own_single_turn import (
    calls_in_turn_draft,
    can_be_missing,
    likewise_draft,
    listed_values_draft,
    single_call_draft,
)
from fctncalling.lab.own_api.english import correct_articles
from fctncalling.lab.own_api.kinds import MISSING, ArgumentKind
from fctncalling.lab.own_api.kinds.evidence import infer_argument_kind
from fctncalling.lab.own_api.kinds.value_tables import value_table
from fctncalling.lab.own_api.words.frames import (
    RequestFrame,
    clauses_of_frames,
    frames_of_tables,
    split_held_out_frames,
)
from fctncalling.lab.own_api.words.function_words import FunctionWords
from fctncalling.lab.own_api.words.request_fit import RequestFit
from fctncalling.lab.own_api.words.request_text import request_text, said_call
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


Doc = dict[str, Any]
Shares = Mapping[int, float]
"""Number -> share of tasks (or of functions) that have so many."""
GROUPED_SHARE = 0.08  # of services' functions whose other parameters stand in a dict
NOTED_SHARE = 0.6  # of their required parameters with a second sentence
_SHOWN = ("place", "free_text", "date", "time", "integer", "number")  # kinds with examples


@dataclass(frozen=True)
class CategoryProfile:
    """The shape of one category's tasks, measured on BFCL's."""

    functions: Shares
    parameters: Shares
    calls: Shares = field(default_factory=lambda: {1: 1.0})
    dotted_share: float = 0.4  # of function names with a dot
    float_share: float = 0.1  # of functions that document whole numbers as floats
    default_share: float = 0.4  # of defaults that stand in `default` and not only in words
    enum_share: float = 0.28  # of enumerations that stand in `enum`, not in the description
    common_share: float = 0.06  # of functions with options that many functions have
    optional_share: float = 0.1  # of required parameters that may turn optional
    required_share: float = 0.22  # of optional parameters that are required all the same
    remark_share: float = 0.22  # of functions whose description has a second sentence
    long: bool = False  # whether parameters have examples and notes, as services write them
    class_names: tuple[str, ...] = ()  # endings of the classes that functions belong to
    types: Mapping[str, str] = field(default_factory=dict)  # of a language but Python's


@cache
def profiles() -> Mapping[str, CategoryProfile]:
    """Return the profile of each category."""
    rows = tomllib.loads((FOLDER / "profiles.toml").read_text(encoding="utf-8"))
    found = {}
    for name, row in rows.items():
        whole = {**rows.get(row.pop("like", ""), {}), **row}
        for counted in ("functions", "parameters", "calls"):
            if counted in whole:
                whole[counted] = {int(number): share for number, share in whole[counted].items()}
        found[name] = CategoryProfile(**whole)
    return found


@cache
def texts() -> Mapping[str, Any]:
    """Return sentences of documents, and questions that no function answers, by their use."""
    return tomllib.loads((FOLDER / "texts.toml").read_text(encoding="utf-8"))


def draw_number(shares: Shares, rng: random.Random) -> int:
    """Return a number with the probability its share gives it."""
    return rng.choices(list(shares), weights=list(shares.values()))[0]


class OfferedFunction(NamedTuple):
    """Function as a task offers it, under names that may be others than its template's."""

    template: FunctionTemplate
    words: FunctionWords
    name: str
    names: Mapping[str, str]  # the template's parameter -> its name in the document; "GROUP.NAME"
    doc: Doc

    def truth(self, call: DrawnCall) -> dict[str, dict[str, Any]]:
        """Return the accepted values of a call, by the names of the document."""
        documented = self.doc["parameters"]["properties"]
        accepted: dict[str, Any] = {}
        groups: dict[str, dict[str, Any]] = {}
        for name, path in self.names.items():
            group, _, own = path.rpartition(".")
            schema = (documented[group]["properties"] if group else documented)[own]
            default = [schema["default"]] if "default" in schema else []
            into = groups.setdefault(group, {}) if group else accepted
            into[own] = call.truth.get(name) or ["", *default]
        for group, members in groups.items():
            may_go = all("" in values for values in members.values())
            accepted[group] = [members, ""] if may_go else [members]
        return {self.name: accepted}


def draw_function(
    template: FunctionTemplate, profile: CategoryProfile, rng: random.Random
) -> OfferedFunction:
    """Return a function with as many parameters as the profile draws, or near it."""
    required = _drawn_parameters(template, draw_number(profile.parameters, rng), profile, rng)
    floats = template.mode in ("compute", "code") and rng.random() < profile.float_share
    words = part_of_function(template, required, floats=floats)
    taken: dict[str, str] = {}
    for name in words.kinds:
        own = rng.choice((name, *template.schemas[name].get("x-also", ())))
        taken[name] = name if own in taken.values() or own in template.schemas else own
    nested = {each for each, kind in words.kinds.items() if (kind.item or kind).properties}
    loose = [name for name in taken if name not in template.slots | nested]
    if profile.long and len(loose) > 1 and rng.random() < GROUPED_SHARE:
        group = rng.choice([each for each in texts()["groups"] if each not in template.schemas])
        taken |= {each: f"{group}.{taken[each]}" for each in loose}
    name = _function_name(template, profile, rng)
    return OfferedFunction(
        template, words, name, taken, function_document(template, words, name, taken, profile, rng)
    )


def _drawn_parameters(
    template: FunctionTemplate, count: int, profile: CategoryProfile, rng: random.Random
) -> tuple[tuple[str, bool], ...]:
    """Return parameters of the pool and whether they are required: those that phrases say first."""
    kinds, slots = template.words.kinds, template.slots
    needed = [name for name, kind in kinds.items() if kind.required]
    must = {*(slots or needed[:1] or [*kinds][:1])}
    must |= {*needed} if template.mode == "compute" else set()  # a formula needs all its quantities
    sooner = rng.random() < 0.8
    left_out = must if rng.random() < profile.common_share else must | template.common
    rest = [name for name in kinds if name not in left_out]
    if profile.class_names:  # of Java: the official parser loses the body of a literal HashMap
        rest = [name for name in rest if not kinds[name].properties]
    rest.sort(key=lambda name: (kinds[name].required is not sooner, rng.random()))
    must_be = {*must}
    must |= {*rest[: max(0, count - len(must))]}

    def is_required(name: str) -> bool:
        if name in must_be:
            return True
        share = 1 - profile.optional_share if kinds[name].required else profile.required_share
        return rng.random() < share

    return tuple((name, is_required(name)) for name in kinds if name in must)


def _function_name(template: FunctionTemplate, profile: CategoryProfile, rng: random.Random) -> str:
    verb, noun = rng.choice(template.verbs), template.noun
    if template.mode == "code":
        owner = (
            f"{template.domain}{rng.choice(profile.class_names)}." if profile.class_names else ""
        )
        return f"{owner}{verb}{noun}"
    plain = f"{verb}_{noun}"
    if rng.random() < profile.dotted_share:
        dotted = [f"{template.domain}.{plain}", f"{template.domain}.{noun}_{verb}"]
        return rng.choice(dotted if iskeyword(verb) else [*dotted, f"{noun}.{verb}"])
    first, *others = plain.split("_")
    camel = first + "".join(word.capitalize() for word in others)
    return rng.choices((plain, f"{noun}_{verb}", camel), weights=(84, 10, 6))[0]


def function_document(
    template: FunctionTemplate,
    words: FunctionWords,
    name: str,
    names: Mapping[str, str],
    profile: CategoryProfile,
    rng: random.Random,
) -> Doc:
    """Return a function's document in BFCL's form, its wording drawn."""
    text = words.doc.description
    if rng.random() < profile.remark_share:
        remarks = texts()["long_remarks" if profile.long else "remarks"][template.mode]
        text = f"{text} {rng.choice(remarks)}"
    schema: Doc = {"type": "dict", "properties": {}, "required": []}
    for each, kind in words.kinds.items():
        group, _, own = names[each].rpartition(".")
        into = schema
        if group:
            described = f"Further {group} of the request as a dictionary."
            empty = {"type": "dict", "description": described, "properties": {}, "required": []}
            into = schema["properties"].setdefault(group, empty)
        into["properties"][own] = _parameter_document(template.schemas[each], kind, profile, rng)
        into["required"] += [own] if kind.required else []
        if group and into["required"] and group not in schema["required"]:
            schema["required"].append(group)
    return {"name": name, "description": text, "parameters": schema}


def _parameter_document(
    schema: Mapping[str, Any], kind: ArgumentKind, profile: CategoryProfile, rng: random.Random
) -> Doc:
    text = schema["description"]
    document = _typed(schema, kind, profile)
    if kind.kind == "enum" and "x-hidden" not in schema:
        if rng.random() < profile.enum_share:
            document["enum"] = list(kind.values)
        else:
            text += (
                f" {rng.choice(('One of', 'Can be', 'Options:'))} {str(list(kind.values))[1:-1]}."
            )
    if profile.long and kind.kind in _SHOWN:
        drawn = dict.fromkeys(repr(kind.draw(rng)) for _ in range(2))
        text = f"{text.rstrip('.')}, such as {' or '.join(drawn)}."
    if profile.long and kind.required and rng.random() < NOTED_SHARE:
        text += f" {rng.choice(texts()['notes'])}"
    if not kind.required:
        if kind.default is MISSING and profile.long:
            document["default"] = None
            text += f" {rng.choice(texts()['no_value'])}"
        elif kind.default is MISSING:
            text = rng.choice((f"{text} Optional.", f"(Optional) {text}"))
        elif rng.random() < profile.default_share:
            document["default"] = kind.default
        if kind.default is not MISSING:
            said = rng.choice(("Default is {}.", "Defaults to {}.", "Optional, default is {}."))
            text += f" {said.format(repr(kind.default))}"
    return {"type": document.pop("type"), "description": text, **document}


def _typed(schema: Mapping[str, Any], kind: ArgumentKind, profile: CategoryProfile) -> Doc:
    """Return the types of a schema and its parts, in the category's language."""
    own = schema.get("format", kind.type)
    document: Doc = {"type": profile.types.get(own, kind.type)}
    if kind.item is not None:
        inner = _typed(schema["items"], kind.item, profile)
        document["items"] = inner
    if kind.properties:
        document["properties"] = {
            name: {
                **_typed(schema["properties"][name], each, profile),
                "description": each.description,
            }
            for name, each in kind.properties.items()
        }
        document["required"] = list(schema["required"])
    if profile.types and kind.item is not None and "properties" in document["items"]:
        document["items"].pop("required", None)
    return document


SAME_DOMAIN = 0.7  # of the functions offered besides the right one
MODE_WEIGHTS = {"compute": 1.5, "look": 0.5, "find": 0.8, "act": 0.9, "code": 1.0}
LIST_WEIGHT = 3.0  # of functions with a parameter that is a list
SYSTEM_SHARE = 0.04  # of live tasks with a system message
KIN = 4  # functions of a domain among which a near one is drawn
ABOUT_SHARE = 0.4  # of the questions no function answers: about what the function deals with


CATEGORIES = tuple(name for name in profiles() if name != "clarify")
"""The single-turn categories that can be forged."""


def single_turn_entry(category: str, seed: int, index: int, attempt: int = 0) -> ForgedEntry:
    """Return task `index` of a category; another `attempt` gives another task in its place.

    Nothing but these four numbers decides. Raises UnprovenTask.
    """
    rng = random.Random(f"{seed} {category} {index} {attempt}")
    task = None
    while task is None:
        try:
            task = _irrelevant_task(rng) if category == "irrelevance" else _task(category, rng)
        except NoTaskDrawn:
            continue
    drawn = (task.question, task.functions, task.ground_truth, task.system)
    entry = one_turn_entry(f"{category}_{index}", *drawn)
    if fault := proof_fault(entry_task(entry)):
        raise UnprovenTask(f"{entry['id']} (seed {seed}, attempt {attempt}): {fault}: {entry}")
    return ForgedEntry(entry, difficulty(task.functions, task.ground_truth), task.provenance)


def _task(category: str, rng: random.Random) -> SingleTurnTask:
    """Return a task that expects calls. Raises NoTaskDrawn for a draw that gives none."""
    profile = profiles()[category]
    chosen = distinct_templates(
        domains(code=bool(profile.types)), draw_number(profile.functions, rng), rng
    )
    functions = [draw_function(each, profile, rng) for each in chosen]
    if len({each.name for each in functions}) < len(functions):
        raise NoTaskDrawn("two functions of one name")
    draft = _draft(category, functions, draw_number(profile.calls, rng), rng)
    own = {each.words.doc.name: each for each in functions}
    docs = [each.doc for each in functions]
    rng.shuffle(docs)
    system = ""
    if profile.long and rng.random() < SYSTEM_SHARE:
        system = _with_values(rng.choice(texts()["system"]), rng)
    told = task_provenance(chosen[0].domain, [(own[c.function].template, c) for c in draft.calls])
    truth = [own[call.function].truth(call) for call in draft.calls]
    is_open = category == "live_relevance"
    return SingleTurnTask(draft.question, docs, None if is_open else truth, told, system)


def _draft(
    category: str, functions: Sequence[OfferedFunction], num_calls: int, rng: random.Random
) -> RequestDraft:
    api = askable([each.words for each in functions])
    names = [*api.words]
    if category == "parallel":
        draw = rng.choices((listed_values_draft, likewise_draft, None), weights=(36, 27, 37))[0]
        if draw is not None:
            return draw(api, rng, names[0], num_calls)
        return calls_in_turn_draft(api, rng, names * num_calls)
    if category == "parallel_multiple":
        used = names[:num_calls]
        return calls_in_turn_draft(api, rng, [*used, *rng.choices(used, k=num_calls - len(used))])
    return single_call_draft(api, rng, names[0])


def distinct_templates(
    by_domain: Mapping[str, Sequence[FunctionTemplate]], count: int, rng: random.Random
) -> list[FunctionTemplate]:
    """Return functions that do different things: most of one domain, some of another one."""
    names = [*by_domain]
    domain = rng.choice(names)
    chosen: list[FunctionTemplate] = []
    while len(chosen) < count:
        same = not chosen or rng.random() < SAME_DOMAIN
        of_domain = by_domain[domain if same else rng.choice(names)]
        [one] = rng.choices(of_domain, weights=[_weight(each) for each in of_domain])
        if not any(may_serve_each_other(one, other) for other in chosen):
            chosen.append(one)
    return chosen


@cache
def _weight(template: FunctionTemplate) -> float:
    """Return how often a function is drawn, by its mode and the kinds of its parameters."""
    lists = any(kind.kind == "array" for kind in template.words.kinds.values())
    return MODE_WEIGHTS[template.mode] * (LIST_WEIGHT if lists else 1.0)


def may_serve_each_other(one: FunctionTemplate, other: FunctionTemplate) -> bool:
    """Whether who wants one of two functions may be served by the other."""
    same = one.domain == other.domain and one.schemas.keys() == other.schemas.keys()
    if one.noun == other.noun or (same and not one.family):
        return True
    return any({one.noun, other.noun} <= group for group in related_nouns())


@cache
def related_nouns() -> tuple[frozenset[str], ...]:
    """Return groups of nouns: who wants one may be served by another of the group."""
    return tuple(frozenset(line.split()) for line in texts()["related"])


def task_provenance(
    domain: str, calls: Sequence[tuple[FunctionTemplate, DrawnCall]]
) -> dict[str, Any]:
    """Return the origin of a task: its domain, functions, and the source of each argument."""
    said = sum(len(call.arguments) for _, call in calls)
    every = sum(len(call.words.kinds) for _, call in calls)
    return {
        "domain": domain,
        "frames": [f"{template.domain}/{template.noun}" for template, _ in calls],
        "arguments": {"said": said, "default": every - said},
    }


def _with_values(text: str, rng: random.Random) -> str:
    """Return a text in which a value of its table takes the place of each `{table}`."""
    said = re.sub(r"\{(\w+)\}", lambda slot: rng.choice(value_table(slot[1])), text)
    return correct_articles(said)


def _irrelevant_task(rng: random.Random) -> SingleTurnTask:
    """Return a question and one function that cannot answer it.

    Near misses: another aspect of what the function tells, a function that resembles the one that
    is wanted, the same fact of another thing, the right function without a value that it needs.
    Others: a question that no function answers, a function of the domain, any function.
    """
    domain = rng.choice([*domains()])
    [how] = rng.choices([*_WAYS], weights=[weight for weight, _ in _WAYS.values()])
    task = _WAYS[how][1](domain, rng)
    return replace(task, provenance=task.provenance | {"irrelevance": how})


def _other_aspect(domain: str, rng: random.Random) -> SingleTurnTask:
    """Return a question for one thing that a family of functions tells, with another offered."""
    family = [each for each in domains()[domain] if each.family]
    if not family:
        raise NoTaskDrawn("no family")
    asked = rng.choice(family)
    return _offering(asked, rng.choice([e for e in family if e.family == asked.family]), rng)


def _kin(domain: str, rng: random.Random) -> SingleTurnTask:
    """Return a question with one of the functions offered that are most similar to its target."""
    asked = rng.choice(domains()[domain])
    words = content_words(asked.words.doc.description)
    others = [each for each in domains()[domain] if not may_serve_each_other(asked, each)]
    others.sort(key=lambda each: -len(words & content_words(each.words.doc.description)))
    return _offering(asked, rng.choice(others[:KIN]), rng)


def _other_thing(_: str, rng: random.Random) -> SingleTurnTask:
    """Return a question with a function offered that tells the same of another sort of thing."""
    asked = rng.choice([each for each in templates() if each.aspect])
    alike = [e for e in templates() if e.aspect == asked.aspect and e.family != asked.family]
    if not alike:
        raise NoTaskDrawn("an aspect of one thing alone")
    return _offering(asked, rng.choice(alike), rng)


def _of_domain(domain: str, rng: random.Random) -> SingleTurnTask:
    asked, offered = distinct_templates({domain: domains()[domain]}, 2, rng)
    return _offering(asked, offered, rng)


def _far(domain: str, rng: random.Random) -> SingleTurnTask:
    offered = rng.choice(domains()[rng.choice([*domains()])])
    return _offering(rng.choice(domains()[domain]), offered, rng)


def _offering(
    asked: FunctionTemplate, offered: FunctionTemplate, rng: random.Random
) -> SingleTurnTask:
    """Return a request for one function with another one offered."""
    if may_serve_each_other(asked, offered):
        raise NoTaskDrawn("the function fits")
    words = draw_function(asked, profiles()["irrelevance"], rng).words
    draft = single_call_draft(askable([words]), rng, words.doc.name)
    return _declined(draft.question, offered, [(asked, draft.calls[0])], rng)


def _declined(
    question: str,
    offered: FunctionTemplate,
    calls: Sequence[tuple[FunctionTemplate, DrawnCall]],
    rng: random.Random,
) -> SingleTurnTask:
    doc = draw_function(offered, profiles()["irrelevance"], rng).doc
    told = task_provenance(offered.domain, calls)
    told |= {"offered": f"{offered.domain}/{offered.noun}"}
    return SingleTurnTask(question, [doc], None, told)


def _unsaid(domain: str, rng: random.Random) -> SingleTurnTask:
    """Return a request for the function that is offered, without a value that it needs."""
    template = rng.choice(domains()[domain])
    function = draw_function(template, profiles()["irrelevance"], rng)
    words = function.words
    api = askable([words])
    call = draw_call(api, words.doc.name, rng)
    frame = draw_frame(api, call, rng)
    needed = [
        name
        for name, kind in words.kinds.items()
        if kind.required and can_be_missing(kind) and name not in frame.parameters
        if template.words.kinds[name].required
    ]
    if not needed:
        raise NoTaskDrawn("nothing to leave out")
    left_out = needed[rng.randrange(len(needed)) :]
    said = {name: value for name, value in call.arguments.items() if name not in left_out}
    text = request_text([said_call(words, frame, said, rng)], rng)
    told = task_provenance(domain, [(template, DrawnCall(words, said))])
    told |= {"offered": f"{domain}/{template.noun}"}
    told["left_open"] = sorted(function.names[name] for name in left_out)
    return SingleTurnTask(text, [function.doc], None, told)


def _unanswerable(domain: str, rng: random.Random) -> SingleTurnTask:
    """Return a question that no function answers, maybe about the subject of the function."""
    if rng.random() < ABOUT_SHARE:
        template = rng.choice(domains()[domain])
        if not template.about:
            raise NoTaskDrawn("a subject that cannot be asked about")
        question = rng.choice(texts()["about"][template.mode]).format(template.about)
        return _declined(correct_articles(question), template, [], rng)
    question = _with_values(rng.choice(texts()["questions"][domain]), rng)
    of_domain = domain if rng.random() < SAME_DOMAIN else rng.choice([*domains()])
    return _declined(question, rng.choice(domains()[of_domain]), [], rng)


_WAYS: dict[str, tuple[float, Callable[[str, random.Random], SingleTurnTask]]] = {
    "other aspect": (0.12, _other_aspect),
    "kin": (0.12, _kin),
    "other thing": (0.05, _other_thing),
    "unsaid": (0.12, _unsaid),
    "unanswerable": (0.32, _unanswerable),
    "domain": (0.15, _of_domain),
    "far": (0.12, _far),
}
"""Way to an irrelevant function -> its share, and what draws it."""
