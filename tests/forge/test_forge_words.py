"""User texts of the forge: every function can be asked for, and the words are true to the plan."""

from __future__ import annotations

import dataclasses
import random
import re
from collections import Counter
from contextlib import suppress
from functools import cache
from itertools import chain

import pytest

from fctncalling.data.function_docs import DOC_FILES
from fctncalling.lab.forge.multi_turn.dials import FUNCTIONS, FUNCTIONS_OF, Dials
from fctncalling.lab.forge.multi_turn.planner import (
    Walk,
    make_plan,
    without_function,
    without_value,
)
from fctncalling.lab.forge.multi_turn.values import make_world
from fctncalling.lab.forge.plan import Plan, PlannedCall, PlannedTurn, Value
from fctncalling.lab.forge.words import faults_of, user_texts
from fctncalling.lab.forge.words.turn_check import text_mentions
from fctncalling.lab.forge.words.turn_texts import function_phrases
from fctncalling.lab.forge.words.value_words import literal
from fctncalling.lab.own_api.english import read_day


def request_of(class_name: str, function: str, seed: int) -> Plan:
    """Return a plan of one turn that asks for one call, drafted in a world and not executed."""
    draw = random.Random(f"{function}/{seed}")
    while True:
        world = make_world(draw, [class_name])
        walk = Walk(draw, [class_name], world, Dials())
        walk.turns.append([])
        with suppress(LookupError):  # a world without such things
            calls = (PlannedCall(class_name, function, walk.drafter.arguments(function)),)
            turns = (PlannedTurn(calls),)
            return Plan(world, (class_name,), turns, seed=f"{function}/{seed}")


REQUESTS = [make_plan(f"requests/{number}") for number in range(80)]


@cache
def texts_of_requests() -> list[list[str]]:
    return [user_texts(plan) for plan in REQUESTS]


def faults(plan: Plan, texts: list[str] | None = None) -> list[str]:
    texts = user_texts(plan) if texts is None else texts
    return [
        f"{fault}: {text}"
        for text, (number, is_second) in zip(texts, plan.messages, strict=True)
        for fault in faults_of(text, plan.turns[number], is_second=is_second)
    ]


def test_every_function_has_phrases_and_each_names_its_own_parameters() -> None:
    for function, table in FUNCTIONS.items():
        _, phrases, conditions = function_phrases(function)
        assert sum(map(len, phrases.values())) >= 5, function
        assert len({*phrases} & {"do", "say", "ask"}) >= 2, function
        assert phrases["aim"], function
        named = {name for each in conditions.values() for name, _, _ in each}
        assert named <= table.takes.keys(), function  # slots are checked as they are read


@pytest.mark.parametrize("class_name", [name for name in DOC_FILES if name in FUNCTIONS_OF])
def test_every_function_is_asked_for_with_any_of_its_arguments(class_name: str) -> None:
    for function in FUNCTIONS_OF[class_name]:
        plans = [request_of(class_name, function, seed) for seed in range(8)]
        assert [fault for plan in plans for fault in faults(plan)] == []


def test_words_are_true_to_plans_that_point_back() -> None:
    pairs = zip(REQUESTS, texts_of_requests(), strict=True)
    assert [fault for plan, texts in pairs for fault in faults(plan, texts)] == []


def variants_of(number: int) -> list[Plan]:
    plan, draw = make_plan(f"words/{number}"), random.Random(number)
    made = [without_function(plan, draw), without_value(plan, draw)]
    return [each for each in (plan, *made) if each is not None]


def test_words_are_true_to_proven_plans_and_their_variants_and_all_differ() -> None:
    plans = [each for number in range(20) for each in variants_of(number)]
    assert {each.variant for each in plans} == {"base", "miss_func", "miss_param"}
    texts = [user_texts(plan) for plan in plans]
    pairs = zip(plans, texts, strict=True)
    assert [fault for plan, said in pairs for fault in faults(plan, said)] == []
    for plan, said in zip(plans, texts, strict=True):
        silent = [
            at
            for at, (turn, is_second) in enumerate(plan.messages)
            if is_second and plan.turns[turn].held_back
        ]
        assert [index for index, text in enumerate(said) if not text] == silent
    assert len({tuple(said) for said in texts}) == len(plans)


def test_the_same_plan_has_the_same_words_and_another_variation_others() -> None:
    plans = REQUESTS[:10]
    assert [user_texts(plan) for plan in plans] == texts_of_requests()[:10]
    assert all(user_texts(plan) != user_texts(plan, variation=1) for plan in plans)


def test_no_two_tasks_share_a_long_text_and_no_opening_is_frequent() -> None:
    texts = list(chain.from_iterable(texts_of_requests()))
    repeated = [text for text, count in Counter(texts).items() if count > 1]
    assert [text for text in repeated if len(text.split()) > 12] == []
    openings = Counter(" ".join(text.split()[:2]) for text in texts)
    assert openings.most_common(1)[0][1] <= 0.06 * len(texts)


def test_texts_have_no_marks_of_the_tables_and_no_doubled_ones() -> None:
    for text in chain.from_iterable(texts_of_requests()):
        odd = r"  | [,.?]|\.\.|[.!?]['\"]\.|[{}<>|\ue000-\ue010]|\b[Aa] [aeio]\w+ (file|folder)"
        assert not re.search(odd, text), text
        assert not re.search(r"\ba (that|the|this)\b|\b(of them's|it's own)\b", text), text


def with_value(plan: Plan, turn: int, argument: str, value: Value) -> PlannedTurn:
    """Return a turn of a plan in which one argument is another."""
    old = plan.turns[turn]
    call = old.calls[0]
    changed = dataclasses.replace(call, arguments={**call.arguments, argument: value})
    return dataclasses.replace(old, calls=(changed, *old.calls[1:]))


def test_the_check_sees_a_value_left_out_and_one_said_too_much() -> None:
    plan = request_of("GorillaFileSystem", "grep", 1)
    text = user_texts(plan)[0]
    name = plan.turns[0].calls[0].arguments["file_name"]
    other = dataclasses.replace(name, value="other.txt", said="other.txt")
    assert any(
        "not said" in each for each in faults_of(text, with_value(plan, 0, "file_name", other))
    )
    known = dataclasses.replace(name, provenance="state", said=None)
    assert any(
        "comes from state" in each
        for each in faults_of(text, with_value(plan, 0, "file_name", known))
    )


@pytest.mark.parametrize(
    ("text", "said", "expected"),
    [
        ("pay $1,250 now", 1250, True),
        ("pay 1250.0 dollars", 1250, True),
        ("order #12 please", 12, True),
        ("order 120 please", 12, False),
        ("the last 2.5 lines", 2, False),
        ("fly on the 3rd of May, 2026", "2026-05-03", True),
        ("fly on May 13th, 2026", "2026-05-03", False),
        ("write 'It's done.' there", "It's done.", True),
        ("open plan.txt2", "plan.txt", False),
        ("tag #rain and #sun", ["#rain", "#sun"], True),
        ("tag #rain", ["#rain", "#sun"], False),
    ],
)  # fmt: skip
def test_the_check_reads_numbers_dates_and_texts(text: str, said: object, expected: bool) -> None:
    assert text_mentions(text, said) is expected


def test_every_spoken_date_is_read_back() -> None:
    draw = random.Random(5)
    assert read_day("2026-05-03") is not None
    texts = {literal("May 3, 2026", "spoken_date", "'", draw) for _ in range(200)}
    assert len(texts) >= 8
    assert all(text_mentions(f"on {text}, please", "2026-05-03") for text in texts)


@pytest.mark.parametrize(
    ("function", "purpose", "text", "is_faulty"),
    [
        ("du", "needed_step", "How much space do the files take?", True),
        ("sort", "needed_step", "Sort the lines of the one file in this folder.", True),
        ("sort", "needed_step", "Sort the lines of that file.", False),
        ("du", "asked", "Go up one level. How much space does this folder take?", False),
    ],
)
def test_words_never_mean_the_current_folder_where_another_is_entered_unmentioned(
    function: str, purpose: str, text: str, is_faulty: bool
) -> None:
    step = PlannedCall("GorillaFileSystem", "cd", purpose=purpose)  # type: ignore[arg-type]
    calls = (step, PlannedCall("GorillaFileSystem", function))
    assert bool(faults_of(text, PlannedTurn(calls))) == is_faulty
