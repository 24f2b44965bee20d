"""Single-turn forge: truths prove themselves, docs are well formed, wrong answers fail."""

from __future__ import annotations

import copy
import keyword
import random
import re
from functools import cache
from typing import Any

import pytest

from fctncalling.data.types import FunctionDoc, Task
from fctncalling.data.validation import is_function_doc, is_task
from fctncalling.envs.judging.judge import judge
from fctncalling.evaluation.accepted_answers import accepted_answer_texts
from fctncalling.lab.forge.forged_entry import proof_fault
from fctncalling.lab.forge.measures import (
    OVERLAPPING,
    content_words,
    measure_single_turn,
    word_overlap,
)
from fctncalling.lab.forge.own_api.own_single_turn import single_call_draft
from fctncalling.lab.forge.single_turn import CATEGORIES, single_turn_entry
from fctncalling.lab.forge.single_turn.tasks import (
    askable,
    domains,
    draw_function,
    profiles,
    related_nouns,
    templates,
)
from fctncalling.lab.own_api.english import correct_articles
from fctncalling.lab.own_api.kinds import ArgumentKind
from fctncalling.lab.own_api.kinds.evidence import infer_argument_kind
from fctncalling.lab.own_api.words.request_text import own_clause
from fctncalling.lab.own_api.words.spoken_values import spoken_value


def task_of(entry: dict[str, Any]) -> Task:
    docs = [FunctionDoc(d["name"], d["description"], d["parameters"]) for d in entry["function"]]
    category = entry["id"].rpartition("_")[0]
    return Task(
        entry["id"],
        category,
        entry["question"],
        functions=docs,
        ground_truth=entry.get("ground_truth"),
    )


UNREADABLE = re.compile(r"\b(?:an?|the) (?:an?|the|some) |\ba [aeio]\w|\"|[{}|<>*]|\b(\w+) \1\b")
"""What no description may hold: marks of the tables, two determiners, a word twice."""


@cache
def entries(category: str, count: int, seed: int = 1) -> list[dict[str, Any]]:
    return [single_turn_entry(category, seed, index).entry for index in range(count)]


@pytest.mark.parametrize("category", CATEGORIES)
def test_entries_are_well_formed_and_prove_themselves(category: str) -> None:
    for entry in entries(category, 60):
        assert is_task(entry)
        assert all(map(is_function_doc, entry["function"]))
        names = [doc["name"] for doc in entry["function"]]
        assert len(set(names)) == len(names)
        assert proof_fault(task_of(entry)) is None


def test_every_function_can_be_called_by_its_names_and_asked_for_in_its_phrases() -> None:
    for template in templates():
        profile = profiles()["simple_java" if template.mode == "code" else "multiple"]
        for number in range(3):
            rng = random.Random(f"{template.words.doc.name} {number}")
            function = draw_function(template, profile, rng)
            words = [*function.name.split("."), *function.names.values()]
            assert all(map(str.isidentifier, words))
            assert template.mode == "code" or not any(map(keyword.iskeyword, words))
            described = function.doc["description"]
            assert not UNREADABLE.search(described), (function.name, described)
            draft = single_call_draft(askable([function.words]), rng, template.words.doc.name)
            assert not {"{", "}", "|", "~", "<"} & set(draft.question), draft.question
            marks = re.search(r"\b(?:true|false|\d+) = |  |the the ", draft.question)
            assert not marks, draft.question


def test_the_library_holds_many_domains_and_functions() -> None:
    assert len(domains()) >= 30
    assert len(templates()) >= 600
    assert sum(map(len, domains(code=True).values())) >= 100


def with_change(entry: dict[str, Any], change: Any) -> Task:
    changed = copy.deepcopy(entry)
    [accepted] = changed["ground_truth"][0].values()
    change(accepted)
    return task_of(changed)


def test_a_truth_that_is_wrong_proves_nothing() -> None:
    [entry] = [
        each
        for each in entries("simple_python", 40)
        if [type(values[0]) for [call] in [each["ground_truth"]] for values in next(
            iter(call.values())
        ).values()][:2] == [int, int]
    ][:1]  # fmt: skip
    first = next(iter(next(iter(entry["ground_truth"][0].values()))))
    assert proof_fault(task_of(entry)) is None
    missing = with_change(entry, lambda accepted: accepted.pop(first))
    assert "the truth is refused" in str(proof_fault(missing))
    unknown = with_change(entry, lambda accepted: accepted.update({"no_such_parameter": [1]}))
    assert "the truth is refused" in str(proof_fault(unknown))
    value = next(iter(entry["ground_truth"][0].values()))[first][0]
    twice = with_change(entry, lambda accepted: accepted.update({first: [value, value + 1]}))
    assert proof_fault(twice) is None  # the next wrong value is taken


def test_a_truth_that_passes_with_another_function_is_refused() -> None:
    [entry] = entries("simple_python", 1)
    task = task_of({**entry, "ground_truth": [*entry["ground_truth"], *entry["ground_truth"]]})
    assert proof_fault(task) is not None  # a simple task expects one call


def test_what_may_serve_instead_is_not_offered_with_a_question_nobody_can_answer() -> None:
    for entry in (single_turn_entry("irrelevance", 2, index) for index in range(200)):
        if entry.provenance["irrelevance"] in ("unsaid", "unanswerable"):
            continue
        [wanted] = (frame.partition("/")[2] for frame in entry.provenance["frames"])
        offered = entry.provenance["offered"].partition("/")[2]
        assert wanted != offered
        assert not any({wanted, offered} <= group for group in related_nouns())


def test_irrelevant_functions_come_near_and_none_can_answer() -> None:
    ways: dict[str, list[float]] = {}
    for index in range(400):
        forged = single_turn_entry("irrelevance", 3, index)
        task = task_of(forged.entry)
        ways.setdefault(forged.provenance["irrelevance"], []).append(word_overlap(task))
    assert len(ways) == 7
    overlaps = [overlap for of_way in ways.values() for overlap in of_way]
    near = sum(overlap >= OVERLAPPING for overlap in overlaps) / len(overlaps)
    assert 0.2 < near < 0.5
    assert sum(not overlap for overlap in overlaps) > 0.4 * len(overlaps)  # easy ones remain


def test_what_a_task_leaves_unsaid_is_a_value_that_the_function_needs() -> None:
    left_open = 0
    for index in range(300):
        forged = single_turn_entry("irrelevance", 4, index)
        if forged.provenance["irrelevance"] == "unsaid":
            left_open += 1
            assert forged.provenance["left_open"]
            [doc] = forged.entry["function"]
            assert set(forged.provenance["left_open"]) <= set(doc["parameters"]["required"])
    assert left_open > 15


def test_word_overlap_counts_content_words_of_names_and_descriptions() -> None:
    question = [[{"role": "user", "content": "What is the area of a triangle in Rome?"}]]
    properties = {"sideLength": {"type": "integer", "description": "Sides of the Triangles."}}
    doc = FunctionDoc("square_area", "Area of a square.", {"properties": properties})
    task = Task("irrelevance_0", "irrelevance", question, functions=[doc])
    assert content_words("sideLength of the Sides, an_area") == {"side", "length", "area"}
    assert word_overlap(task) == pytest.approx(2 / 3)  # area, triangle; not rome


def test_numbers_follow_from_words_and_from_other_units() -> None:
    texts = {
        own_clause(template.words, name, value, random.Random(seed))
        for template in templates()
        for name in ("duration", "days", "mass", "hours", "initial_speed", "initial_velocity")
        if name in template.words.kinds and name in (template.words.clauses or {})
        for value in (0, 7, 30, 48, 500)
        for seed in range(30)
    }
    told = " / ".join(texts)
    for text in ("for half an hour", "for a week", "half a metric ton", "past two days"):
        assert text in told
    assert "from rest" in told
    assert "last a " not in told
    rate = infer_argument_kind(
        "rate", {"type": "float", "x-kind": "number fraction", "minimum": 0.01, "maximum": 0.2},
        required=True,
    )  # fmt: skip
    for seed in range(20):
        drawn = rate.draw(random.Random(seed))
        assert 0.01 <= drawn <= 0.2
        assert float(spoken_value(rate, drawn, random.Random(1)).rstrip("%")) == 100 * drawn


def is_implied(value: Any, question: str) -> bool:
    """Whether a number does not stand in a question: 4 for "quarterly"."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    number = re.escape(f"{value:.12g}")
    return not re.search(rf"(?<![\d.]){number}(?!\.?\d)", question.replace(",", ""))


def test_shares_of_derived_numbers_and_forms_are_near_the_official_ones() -> None:
    made = [*entries("simple_python", 700), *entries("multiple", 700)]
    assert measure_single_turn(map(task_of, made))["arguments left unsaid"] > 0.12
    given = [
        is_implied(values[0], entry["question"][0][-1]["content"])
        for entry in made
        for call in entry["ground_truth"]
        for accepted in call.values()
        for values in accepted.values()
        if values[0] != ""
    ]
    assert 0.05 < sum(given) / len(given) < 0.1
    lists = [
        values[0]
        for entry in made
        for call in entry["ground_truth"]
        for accepted in call.values()
        for values in accepted.values()
        if values[0] and isinstance(values[0], list)
    ]
    assert sum(isinstance(each[0], dict) for each in lists) > 5
    decimals = [each for each in lists if isinstance(each[0], float)]
    assert {item.is_integer() for each in decimals for item in each} == {True, False}


def test_a_value_is_accepted_in_every_form_and_said_with_its_article() -> None:
    place = ArgumentKind("place", topic="us_place")
    for seed in range(30):
        value = place.draw(random.Random(seed))
        accepted = place.accepted(value)
        assert accepted[0] == value
        assert len(accepted) == len(set(accepted)) > 1
    league = ArgumentKind("place", topic="league")
    assert not any(league.draw(random.Random(seed)).startswith("the ") for seed in range(60))
    assert spoken_value(league, "Premier League", random.Random(1)) == "the Premier League"
    assert league.accepted("Premier League")[:2] == ["Premier League", "the Premier League"]


def test_live_docs_are_long_mostly_optional_and_nested_now_and_then() -> None:
    made = [*entries("live_simple", 200), *entries("live_multiple", 100)]
    figures = measure_single_turn(map(task_of, made))
    assert 0.45 < figures["required parameters"] < 0.7
    assert figures["parameters with default"] > 0.3
    assert figures["words of a parameter description"][0] > 13
    nested, nulls = 0, 0
    for entry in made:
        [(name, accepted)] = entry["ground_truth"][0].items()
        [doc] = [each for each in entry["function"] if each["name"] == name]
        properties = doc["parameters"]["properties"]
        assert set(accepted) <= set(properties)
        for key, values in accepted.items():
            nulls += values == ["", None]
            if isinstance(values[0], dict):
                nested += 1
                assert set(values[0]) == set(properties[key]["properties"])
        for each in properties.values():
            assert not re.search(r"[{};~|]|\.\.", each["description"])
    assert nested > 5
    assert nulls > 30
    assert any(len(entry["question"][0]) == 2 for entry in made)  # with a system message


def test_texts_read_as_written_and_no_call_goes_from_a_place_to_the_same_place() -> None:
    assert correct_articles("the winner of Serie A in 2012") == "the winner of Serie A in 2012"
    assert correct_articles("A egg. A apple, a owl") == "An egg. An apple, an owl"
    ours = "an URL, an user, an unique UUID, an one-off, an European and a urgent urn, an unset id"
    right = "a URL, a user, a unique UUID, a one-off, a European and an urgent urn, an unset id"
    assert correct_articles(ours) == right
    assert correct_articles(right) == right
    for entry in entries("simple_python", 300, 5):
        assert "Help me tell me" not in entry["question"][0][0]["content"]
        [doc], [[accepted]] = entry["function"], (each.values() for each in entry["ground_truth"])
        for parameter in doc["parameters"]["properties"].values():
            assert not re.match(r"The (?:how|what|where|who) ", parameter["description"])
        words = [values[0] for values in accepted.values() if isinstance(values[0], str)]
        names = [word for word in words if word[:1].isupper() and len(word) > 3]
        assert len(set(names)) == len(names), entry


def test_calls_of_a_parallel_task_differ() -> None:
    for entry in (*entries("parallel", 60), *entries("parallel_multiple", 60)):
        calls = [repr(call) for call in entry["ground_truth"]]
        assert len(set(calls)) == len(calls) > 1


def test_what_goes_unsaid_may_be_left_out_and_its_default_may_be_given() -> None:
    unsaid = 0
    for entry in entries("simple_python", 300, 5):
        [doc], [truth] = entry["function"], entry["ground_truth"]
        for key, values in truth[doc["name"]].items():
            if values[0] != "":
                assert key in doc["parameters"]["required"] or values
                continue
            unsaid += 1
            assert key not in doc["parameters"]["required"]
            assert len(values) <= 2
            stated = doc["parameters"]["properties"][key].get("default", values[-1])
            assert values[-1] in (stated, "")
    assert unsaid > 20


@pytest.mark.parametrize("category", ["simple_java", "simple_javascript"])
def test_answers_in_source_text_pass(category: str) -> None:
    pytest.importorskip(f"tree_sitter_{category.removeprefix('simple_')}")
    for task in map(task_of, entries(category, 60)):
        [text, *_] = (text for form, _, text in accepted_answer_texts(task) if form == "prompting")
        assert judge(task, text).valid, (task.id, text)
