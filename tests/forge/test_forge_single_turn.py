"""Single-turn forge: truths prove themselves, docs are well formed, wrong answers fail."""

from __future__ import annotations

import copy
import json
import keyword
import random
import re
from pathlib import Path
from typing import Any

import pytest

from fctncalling.data.types import FunctionDoc, Task
from fctncalling.data.validation import is_function_doc, is_task
from fctncalling.envs.judging.judge import judge
from fctncalling.evaluation.accepted_answers import possible_texts
from fctncalling.forge.single_turn import CATEGORIES, single_turn_entry
from fctncalling.forge.single_turn.category_profiles import PROFILES
from fctncalling.forge.single_turn.forged_task import NoSuchTask
from fctncalling.forge.single_turn.frames import code_domains, domains
from fctncalling.forge.single_turn.made_calls import MadeCall, make_call
from fctncalling.forge.single_turn.made_functions import MadeFunction, make_function
from fctncalling.forge.single_turn.proof import proof_fault
from fctncalling.forge.single_turn.requests import request
from fctncalling.forge.single_turn.table_files import related_nouns


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


UNREADABLE = re.compile(r"are:|\b(?:an?|the) (?:an?|the|some) |\ba [aeio]\w|\"|[{}|~]|\b(\w+) \1\b")
"""What no description may hold: marks of the tables, two determiners, a word twice."""


def sensible_call(function: MadeFunction, rng: random.Random) -> MadeCall:
    while True:
        try:
            return make_call(function, rng)
        except NoSuchTask:
            continue


FRAMES = [frame for domain in domains() for frame in domain.frames]


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


def test_every_frame_makes_functions_that_can_be_called_by_their_names() -> None:
    profile = PROFILES["multiple"]
    for frame in FRAMES:
        for number in range(4):
            rng = random.Random(f"{frame.noun} {number}")
            function = make_function(frame, 3, profile, rng)
            words = [*function.name.split("."), *(each.name for each in function.parameters)]
            assert all(word.isidentifier() and not keyword.iskeyword(word) for word in words)
            described = function.doc["description"]
            assert not UNREADABLE.search(described), (frame.noun, described)
            text = request(sensible_call(function, rng), rng)
            assert not {"{", "}", "|", "~"} & set(text), (frame.noun, text)
            assert "  " not in text, (frame.noun, text)
            assert text[-1] in ".?", (frame.noun, text)


def test_the_tables_hold_many_domains_and_frames() -> None:
    assert len(domains()) >= 30
    assert len(FRAMES) >= 450
    assert sum(len(domain.frames) for domain in code_domains()) >= 25


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
        [wanted] = (frame.partition("/")[2] for frame in entry.provenance["frames"])
        offered = entry.provenance["offered"].partition("/")[2]
        assert wanted != offered
        assert not any({wanted, offered} <= group for group in related_nouns())


def test_no_call_goes_from_a_place_to_the_same_place() -> None:
    for index in range(300):
        for call in single_turn_entry("simple_python", 6, index).entry["ground_truth"]:
            [accepted] = call.values()
            words = [values[0] for values in accepted.values() if isinstance(values[0], str)]
            names = [word for word in words if word[:1].isupper()]
            assert len(set(names)) == len(names), call


def test_calls_of_a_parallel_task_differ() -> None:
    for entry in (*entries("parallel", 80), *entries("parallel_multiple", 80)):
        calls = [repr(call) for call in entry["ground_truth"]]
        assert len(set(calls)) == len(calls) > 1


def test_what_goes_unsaid_may_be_left_out_and_its_default_may_be_given() -> None:
    unsaid = 0
    for entry in entries("simple_python", 200):
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
        [text, *_] = (text for form, _, text in possible_texts(task) if form == "prompting")
        assert judge(task, text).valid, (task.id, text)


def test_the_single_turn_examples_of_the_documentation_are_what_seed_1_gives() -> None:
    page = (Path(__file__).parents[2] / "docs/forge.md").read_text(encoding="utf-8")
    shown = re.findall(r"`((?!multi_turn)\w+)_(\d+)`\*\*\n\n> (.*)\n", page)
    assert len(shown) == 10
    for category, index, question in shown:
        entry = single_turn_entry(category, 1, int(index)).entry
        assert entry["question"][0][0]["content"] == question
        for call in entry.get("ground_truth", ()):
            assert f"`{json.dumps(call, ensure_ascii=False)}`" in page
