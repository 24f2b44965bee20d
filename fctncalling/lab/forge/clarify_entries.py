"""Clarify tasks, in pairs that differ only in the words that decide if a value is open.

Twins of one sort have the same request, which leaves a value out. One function doc requires that
parameter and has a default for another one, whose value is said; in the other doc the two have
changed places. Twins of the other sort have the same docs; their request names two values, and the
sentence behind it settles which of them is meant, or leaves it open. So lengths, counts and ways of
speaking are the same whether something has to be asked or not.
"""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from fctncalling.checkers import check
from fctncalling.checkers.clarify import ClarifyRecord, is_mentioned, split_words
from fctncalling.data.types import Task
from fctncalling.envs.judging.oracle import oracle_calls
from fctncalling.envs.users.known_values import known_values
from fctncalling.envs.users.rule_user import REGISTERS
from fctncalling.evaluation.scripted_policies import placeholder_value
from fctncalling.lab.forge.forged_entry import (
    ForgedEntry,
    NoTaskDrawn,
    UnprovenTask,
    difficulty,
    entry_task,
    one_turn_entry,
    proof_fault,
    question_fault,
    user_answer,
)
from fctncalling.lab.forge.own_api.drawn_call import (
    DrawnCall,
    draw_call,
    draw_frame,
    draw_value,
    require_apart,
)
from fctncalling.lab.forge.own_api.own_single_turn import FEWEST_VALUES
from fctncalling.lab.forge.single_turn.tasks import (
    OfferedFunction,
    askable,
    distinct_templates,
    domains,
    draw_function,
    draw_number,
    function_document,
    profiles,
)
from fctncalling.lab.own_api.english import NUMBERS
from fctncalling.lab.own_api.kinds import MISSING, ArgumentKind
from fctncalling.lab.own_api.kinds.value_tables import has_table, value_table
from fctncalling.lab.own_api.words.function_words import FunctionWords
from fctncalling.lab.own_api.words.request_text import request_text, said_call
from fctncalling.lab.own_api.words.spoken_values import WordedValue, spoken_value

TOLD = "says elsewhere the value that it leaves open"
UNEVEN = "speaks more of one candidate than of the other"


class Candidate(NamedTuple):
    """A value that a request says or leaves open, its words, and all that is accepted."""

    value: Any
    text: str
    accepted: Sequence[Any]


def guess_chance(kind: ArgumentKind) -> float:
    """Return the chance that a guess at a value is right, for one who knows the distribution.

    It is 0 for decimals, dates, times, codes and addresses, which are drawn from hundreds.
    """
    if kind.values or kind.examples:
        return 1 / len(kind.values or kind.examples)
    if kind.kind in ("place", "free_text") and has_table(kind.topic):
        return 1 / len(value_table(kind.topic))
    if kind.kind == "integer" and kind.minimum is not None and kind.maximum is not None:
        return 1 / len(range(int(kind.minimum), int(kind.maximum) + 1, int(kind.step or 1)))
    return 0.0


def withheld_fault(
    question: str,
    docs: Sequence[dict[str, Any]],
    name: str,
    kind: ArgumentKind,
    value: Candidate,
) -> str | None:
    """Return why a withheld value can be read from the prompt; None if it cannot.

    The values that the doc of the parameter `name` offers do not count, as long as there are
    `FEWEST_VALUES` of them.
    """
    if guess_chance(kind) > 1 / FEWEST_VALUES:
        return f"{name} has fewer than {FEWEST_VALUES} values"
    if _is_told(value, f"{question} {_text_of(docs, name, kind)}"):
        return TOLD
    return None


def revealed_candidate_fault(
    question: str,
    docs: Sequence[dict[str, Any]],
    name: str,
    kind: ArgumentKind,
    candidates: Sequence[Candidate],
) -> str | None:
    """Return why one of two candidates can be picked over the other; None if neither can.

    The question has to say both as often, and no doc either.
    """
    told = [_count(each.text, question) for each in candidates]
    if told[0] != told[1] or not told[0]:
        return UNEVEN
    documented = _text_of(docs, name, kind)
    return UNEVEN if any(_is_told(each, documented) for each in candidates) else None


def _is_told(value: Candidate, text: str) -> bool:
    """Whether a text has the words of a value, in any of its forms."""
    return any(is_mentioned(form, text) for form in _forms(value))


def _forms(value: Candidate) -> Iterable[str]:
    yield value.text
    for each in value.accepted:
        yield str(each)
        if isinstance(each, int | float):
            yield f"{each:g}"
            if 1 <= each < len(NUMBERS) and each == int(each):
                yield NUMBERS[int(each)]


def _count(text: str, question: str) -> int:
    wanted, words = split_words(text), split_words(question)
    return sum(words[start:][: len(wanted)] == wanted for start in range(len(words)))


def _text_of(docs: Sequence[dict[str, Any]], name: str, kind: ArgumentKind) -> str:
    """Return the text of function docs without the values that the parameter's doc offers."""
    kept = copy.deepcopy(list(docs))
    if kind.values:
        for doc in kept:
            documented = doc["parameters"]["properties"].get(name, {})
            documented.pop("enum", None)
            if documented:
                text = documented["description"].replace(str(list(kind.values))[1:-1], "")
                documented["description"] = text
    return json.dumps(kept, ensure_ascii=False)


_WORDS: Mapping[str, Any] = json.loads(
    Path(__file__).with_name("second_thoughts.json").read_text(encoding="utf-8")
)


class HesitationPair(NamedTuple):
    """Two sentences in which a user wavers between {meant} and {other}: settled, or left open.

    In an open one the two values are put in either order, so that their places say nothing.
    """

    settled: str
    open: str


def second_thoughts(rng: random.Random) -> HesitationPair:
    """Return sentences of second thoughts, settled and open, drawn from the table."""
    return rng.choice((_minds, _merits, _people))(rng)


def _minds(rng: random.Random) -> HesitationPair:
    """Return sentences on a mind: "now sure" and "not unsure" settle it, two others do not."""
    template, (yes, no) = rng.choice(_WORDS["minds"]), rng.choice(_WORDS["adverbs"])
    settled = rng.choice(((yes, _WORDS["sure"]), (no, _WORDS["unsure"])))
    unsettled = rng.choice(((no, _WORDS["sure"]), (yes, _WORDS["unsure"])))
    told = (f"{adverb} {rng.choice(states)}" for adverb, states in (settled, unsettled))
    return HesitationPair(*map(template.format, told))


def _merits(rng: random.Random) -> HesitationPair:
    """Return sentences that weigh: one value against the other, or both alike."""
    template = rng.choice(_WORDS["merits"])
    good, bad = rng.sample(_WORDS["good"], 2), rng.sample(_WORDS["bad"], 2)
    parts = [("{meant}", good[0]), ("{other}", bad[0])]
    rng.shuffle(parts)
    first, second = rng.choice((good, bad))
    return HesitationPair(
        template.format(*parts[0], *parts[1]), template.format("{meant}", first, "{other}", second)
    )


def _people(rng: random.Random) -> HesitationPair:
    """Return sentences of the same words: one of two who have a say decides, or a third one."""
    template, (first, second, third) = rng.choice(_WORDS["votes"]), rng.sample(_WORDS["people"], 3)
    voters = (first, second)
    meant = rng.randrange(2)
    slots = ("meant", "other") if meant == 0 else ("other", "meant")
    return HesitationPair(
        template.format(first, second, *slots, voters[meant], third),
        template.format(first, second, *slots, third, voters[meant]),
    )


ASKABLE = frozenset("place free_text enum integer number date time identifier".split())
"""Kinds of values that a user can say in a few words."""
_HANGING = ("and ", "who ", "which ")
Values = Mapping[str, Candidate]  # parameter -> value


@dataclass(frozen=True)
class ClarifyDraft:
    """Draft of a clarify task; parameters have the names of the function document."""

    question: str
    docs: list[dict[str, Any]]
    truth: dict[str, dict[str, Any]]
    values: Values  # what the user says, and what it would say if it were asked
    parameter: str  # which is open, or would be
    kind: ArgumentKind
    candidates: tuple[Candidate, ...]  # its value, and the other one that the request names
    is_open: bool


class Twins(NamedTuple):
    """Two alike tasks: a complete one, and one with an open value."""

    complete: ClarifyDraft
    unclear: ClarifyDraft
    domain: str
    noun: str


class _Scene(NamedTuple):
    """Scene that twins share."""

    function: OfferedFunction
    other_docs: list[dict[str, Any]]
    askable: list[str]
    key: int  # seed of what both draw alike

    def question(self, said: Mapping[str, Any], sentence: str = "") -> str:
        rng, words = random.Random(f"{self.key} words"), self.function.words
        frame = draw_frame(askable([words]), DrawnCall(words, said), rng)
        asked = request_text([said_call(words, frame, said, rng)], rng)
        if not sentence:
            return asked
        return f"{asked}{'' if asked.endswith(('.', '?', '!')) else '.'} {sentence}"

    def draft(
        self,
        question: str,
        values: Values,
        parameter: str,
        candidates: tuple[Candidate, ...],
        arguments: Mapping[str, Any],
        defaults: Mapping[str, Any],
        *,
        is_open: bool,
    ) -> ClarifyDraft:
        """Return a draft; `defaults` of changed parameters, MISSING for one that is required."""
        template, words, name, names, _ = self.function
        kinds = {
            key: replace(kind, required=defaults[key] is MISSING, default=defaults[key])
            if key in defaults
            else kind
            for key, kind in words.kinds.items()
        }
        changed = FunctionWords(words.doc, kinds, clauses=words.clauses)
        rng = random.Random(f"{self.key} doc")
        doc = function_document(template, changed, name, names, profiles()["clarify"], rng)
        docs = [doc, *self.other_docs]
        random.Random(f"{self.key} order").shuffle(docs)
        function = self.function._replace(words=changed, doc=doc)
        return ClarifyDraft(
            question,
            docs,
            function.truth(DrawnCall(changed, arguments)),
            {names[key]: value for key, value in values.items()},
            names[parameter],
            kinds[parameter],
            candidates,
            is_open,
        )


def twins_without_value(rng: random.Random) -> Twins:
    """Return twins with a request that leaves a value out. Raises NoTaskDrawn."""
    scene = _scene(rng)
    if len(scene.askable) < 2:
        raise NoTaskDrawn("fewer than two values to ask for")
    silent, loud = rng.sample(scene.askable, 2)
    arguments, values = _values(scene, (silent, loud), rng)
    _require_no_placeholder(scene, silent, values[silent])
    defaults = {name: _default(scene, name, values[name], rng) for name in (silent, loud)}
    said = {name: value for name, value in arguments.items() if name != silent}
    question = scene.question(_worded(said, values))

    def draft(required: str, optional: str) -> ClarifyDraft:
        is_open = required == silent
        known = values if is_open else {n: v for n, v in values.items() if n != silent}
        return scene.draft(
            question,
            known,
            silent,
            (values[silent],),
            arguments if is_open else said,
            {required: MISSING, optional: defaults[optional]},
            is_open=is_open,
        )

    template = scene.function.template
    return Twins(draft(loud, silent), draft(silent, loud), template.domain, template.noun)


def twins_naming_two_values(rng: random.Random) -> Twins:
    """Return twins with a request that names two values of a parameter. Raises NoTaskDrawn."""
    scene = _scene(rng)
    words = scene.function.words
    names = [name for name in scene.askable if not _quotes((words.clauses or {})[name])]
    if not names:
        raise NoTaskDrawn("no value to ask for")
    name = rng.choice(names)
    arguments, values = _values(scene, (name,), rng)
    meant = values[name]
    _require_no_placeholder(scene, name, meant)
    other = _candidate(words.kinds[name], draw_value(askable([words]), words.kinds[name], rng), rng)
    require_apart(words, {**arguments, name: other.value})
    if not set(map(str, meant.accepted)).isdisjoint(map(str, other.accepted)):
        raise NoTaskDrawn("two candidates that are the same")
    if _style(meant.text) != _style(other.text):
        raise NoTaskDrawn("two candidates that nobody would name in one breath")
    texts = [meant.text, other.text]
    named, again = rng.sample(texts, 2), rng.sample(texts, 2)
    said = {**_worded(arguments, values), name: WordedValue(" or ".join(named))}
    thoughts = second_thoughts(rng)

    def draft(sentence: str, *, is_open: bool) -> ClarifyDraft:
        first, second = again if is_open else texts
        question = scene.question(said, sentence.format(meant=first, other=second))
        pair = (meant, other)
        return scene.draft(question, values, name, pair, arguments, {}, is_open=is_open)

    complete, unclear = draft(thoughts.settled, is_open=False), draft(thoughts.open, is_open=True)
    template = scene.function.template
    return Twins(complete, unclear, template.domain, template.noun)


def _style(text: str) -> tuple[bool, ...]:
    """Return how a value is written: a number in words or digits, a date in one form or another."""
    if any(map(str.isdigit, text)):
        return (any(map(str.isalpha, text)), "," in text, "-" in text)
    return (text in NUMBERS,)


def _scene(rng: random.Random) -> _Scene:
    profile = profiles()["clarify"]
    chosen = distinct_templates(domains(), draw_number(profile.functions, rng), rng)
    function, *others = (draw_function(each, profile, rng) for each in chosen)
    docs = [each.doc for each in others]
    if len({function.name, *(doc["name"] for doc in docs)}) <= len(docs):
        raise NoTaskDrawn("two functions of one name")
    return _Scene(function, docs, list(_askable(function)), rng.getrandbits(64))


def _askable(function: OfferedFunction) -> Iterator[str]:
    """Yield the parameters that a request can leave out, and a user can be asked for.

    A clause that begins with "and" or "who" needs the one before it.
    """
    kinds, clauses = function.words.kinds, function.words.clauses or {}
    slots = {slot for frame in function.template.frames for slot in frame.parameters}
    hanging = {
        each
        for pair in pairwise((None, *kinds))
        if any(text == "{}" or text.startswith(_HANGING) for text in clauses.get(pair[1] or "", ()))
        for each in pair
    }
    for name, kind in kinds.items():
        can_go = name not in slots and name not in hanging and name in clauses
        if can_go and kind.kind in ASKABLE and guess_chance(kind) <= 1 / FEWEST_VALUES:
            yield name


def _quotes(clauses: Sequence[str]) -> bool:
    """Whether clauses quote a value: two values in one quotation would read as one."""
    return any(mark in clause for clause in clauses for mark in "\"'")


def _values(
    scene: _Scene, always: Sequence[str], rng: random.Random
) -> tuple[dict[str, Any], dict[str, Candidate]]:
    """Return values of some parameters, all that are required, and the words that say them.

    Truth values and what is said in clauses of its own have no words here.
    """
    words = scene.function.words
    api = askable([words])
    drawn = draw_call(api, words.doc.name, rng).arguments
    arguments = {
        name: drawn[name] if name in drawn else draw_value(api, kind, rng)
        for name, kind in words.kinds.items()
        if name in drawn or name in always
    }
    require_apart(words, arguments)
    slots = {slot for frame in scene.function.template.frames for slot in frame.parameters}
    candidates = {}
    for name, value in arguments.items():
        said = name in slots or any("{}" in text for text in (words.clauses or {}).get(name, ()))
        if said and not isinstance(value, dict) and "dict" not in str(words.kinds[name].item):
            candidates[name] = _candidate(words.kinds[name], value, rng)
        elif not isinstance(value, bool):
            raise NoTaskDrawn("a value without words of its own")
    return arguments, candidates


def _candidate(kind: ArgumentKind, value: Any, rng: random.Random) -> Candidate:
    accepted = [each for each in kind.accepted(value) if each != ""]
    return Candidate(value, spoken_value(kind, value, rng), accepted)


def _worded(arguments: Mapping[str, Any], values: Values) -> dict[str, Any]:
    """Return arguments in their words, if these are known."""
    return {
        name: WordedValue(values[name].text) if name in values else value
        for name, value in arguments.items()
    }


def _require_no_placeholder(scene: _Scene, name: str, value: Candidate) -> None:
    """Raise NoTaskDrawn for a value that an agent fills in without reading: 1, for an integer."""
    if placeholder_value({"type": scene.function.words.kinds[name].type}) in value.accepted:
        raise NoTaskDrawn("a placeholder would be right")


def _default(scene: _Scene, name: str, value: Candidate, rng: random.Random) -> Any:
    """Return a default that differs from the value: the function's default, or a drawn one."""
    kind = scene.function.words.kinds[name]
    default: Any = scene.function.template.words.kinds[name].default
    if default is MISSING:
        default = draw_value(askable([scene.function.words]), kind, rng)
    if kind.type == "float":
        default = float(default)
    if default in value.accepted:
        raise NoTaskDrawn("the default is the value")
    return default


QUESTIONS = (
    "which {}",
    "What {} do you have in mind?",
    "Could you please tell me the {}?",
    "I still need the {}.",
)
"""Ways to ask for a value, each put to a user of another register."""


def draft_fault(draft: ClarifyDraft) -> str | None:
    """Return why a draft is thrown away: a value is said that must not be, or is not said."""
    for name, each in draft.values.items():
        if name != draft.parameter and not is_mentioned(each.text, draft.question):
            return "does not say a value"
    asked = (draft.question, draft.docs, draft.parameter, draft.kind)
    if len(draft.candidates) > 1:
        return revealed_candidate_fault(*asked, draft.candidates)
    return withheld_fault(*asked, *draft.candidates)


def find_misunderstood_question(task: Task, draft: ClarifyDraft) -> str | None:
    """Return a question that the rule-based user misunderstands; None if there is none.

    Asked for the value that is open, it has to say it; asked for another one, it must not.
    """
    if not draft.is_open:
        return None
    record = _record(task)
    pair = " or ".join(sorted(each.text for each in draft.candidates))
    offers = [f"{pair}?"] if len(draft.candidates) == 2 else []
    for name in (draft.parameter, *(known_values(task).keys() - {draft.parameter})):
        is_open = name == draft.parameter
        for question, answer in _answers(task, name, offers if is_open else ()):
            if check(task, ClarifyRecord(record, 1, [answer])).valid is not is_open:
                return f"{question!r} is answered {answer!r}"
    return None


def clarify_proof_fault(task: Task, draft: ClarifyDraft) -> str | None:
    """Return why the proof of a task fails; None if it holds.

    Its calls are proven as those of other single-turn tasks. Without a question they have to be a
    guess where a value is open, and right where none is; one question more is needless, and a call
    with the other candidate is wrong.
    """
    if fault := proof_fault(replace(task, category="multiple")):
        return fault
    record = _record(task)
    if fault := question_fault(task, record, is_open=draft.is_open):
        return fault
    name = draft.parameter
    for other in draft.candidates[1:]:
        [(function, arguments)] = record[0].items()
        wrong = [{function: {**arguments, name: other.value}}]
        if check(task, ClarifyRecord(wrong, int(draft.is_open))).valid:
            return f"{name}={other.value!r} passes too"
    return None


def _record(task: Task) -> list[dict[str, dict[str, Any]]]:
    """Return the expected calls as a decoder gives them."""
    [calls] = oracle_calls(task)
    return [{call.name: dict(call.arguments)} for call in calls]


def _answers(task: Task, name: str, offers: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield (question, answer) for every way to ask for a parameter, and for the offers."""
    asked = [pattern.format(" ".join(split_words(name))) for pattern in QUESTIONS]
    for register, question in zip([*REGISTERS, *REGISTERS], [*asked, *offers], strict=False):
        yield question, user_answer(task, question, register)


_TWINS = {"missing": twins_without_value, "ambiguous": twins_naming_two_values}
_SORTS = ("missing", "missing", "missing", "ambiguous", "ambiguous")  # of each ten tasks, in pairs
MISUNDERSTOOD = "has a question that the user does not understand"
COMPLETE = "clarify_complete"


def clarify_entry(category: str, seed: int, index: int, attempt: int = 0) -> ForgedEntry:
    """Return task `index`; another `attempt` gives another task in its place.

    Nothing but these four decides. The id names the category that the task is of:
    clarify_complete, clarify_missing or clarify_ambiguous. Raises UnprovenTask.
    """
    sort, is_open = _place(category, seed, index)
    rng = random.Random(f"{seed} {category} {index} {attempt}")
    of = f"clarify_{sort}" if is_open else COMPLETE
    thrown: Counter[str] = Counter()
    while True:
        try:
            twins = _TWINS[sort](rng)
        except NoTaskDrawn:
            continue
        if fault := _fault(twins, f"clarify_{sort}", index):
            thrown[fault] += 1
            continue
        draft = twins.unclear if is_open else twins.complete
        entry = _entry(draft, of, index)
        return ForgedEntry(entry, _difficulty(draft), _provenance(twins, draft, sort), thrown)


def _place(category: str, seed: int, index: int) -> tuple[str, bool]:
    """Return which twins a place of the file is for, and which of the two.

    Of each two neighbours one leaves a value open; six of ten are of the sort "missing".
    """
    block, place = divmod(index, 2 * len(_SORTS))
    rng = random.Random(f"{seed} {category} places {block}")
    sorts = rng.sample(_SORTS, len(_SORTS))
    opens_first = [rng.random() < 0.5 for _ in sorts]
    return sorts[place // 2], (place % 2 == 0) == opens_first[place // 2]


def _fault(twins: Twins, category: str, index: int) -> str | None:
    """Return why twins are thrown away, whichever is wanted; None if they are sound.

    Raises UnprovenTask for a defect of the forge.
    """
    drafts = (twins.complete, twins.unclear)
    if fault := next(filter(None, map(draft_fault, drafts)), None):
        return fault
    for draft in drafts:
        entry = _entry(draft, category if draft.is_open else COMPLETE, index)
        task = entry_task(entry)
        if find_misunderstood_question(task, draft) is not None:
            return MISUNDERSTOOD
        if fault := clarify_proof_fault(task, draft):
            raise UnprovenTask(f"{entry['id']}: {fault}: {entry}")
    return None


def _entry(draft: ClarifyDraft, category: str, index: int) -> dict[str, Any]:
    entry = one_turn_entry(f"{category}_{index}", draft.question, draft.docs, [draft.truth])
    missing = [draft.parameter] if draft.is_open else []
    return {**entry, "user_knows": _known(draft), "missing_parameters": missing}


def _known(draft: ClarifyDraft) -> dict[str, Any]:
    """Return the values that the user knows, as the request or an answer says them."""
    return {
        name: each.value
        if name == draft.parameter and each.text not in each.accepted
        else each.text
        for name, each in draft.values.items()
    }


def _difficulty(draft: ClarifyDraft) -> float:
    """Return the difficulty of the call; a question counts as another one."""
    truth = [draft.truth, *([{}] if draft.is_open else [])]
    return difficulty(draft.docs, truth)


def _provenance(twins: Twins, draft: ClarifyDraft, sort: str) -> dict[str, Any]:
    [accepted] = draft.truth.values()
    sources = Counter(
        "default" if values[0] == "" else "said"
        for name, values in accepted.items()
        if not draft.is_open or name != draft.parameter
    )
    chance = guess_chance(draft.kind) if len(draft.candidates) == 1 else 0.5
    return {
        "domain": twins.domain,
        "frames": [f"{twins.domain}/{twins.noun}"],
        "arguments": dict(sorted(sources.items())) | ({"asked": 1} if draft.is_open else {}),
        "twins": sort,
        "guess_chance": round(chance, 3) if draft.is_open else None,
    }
