"""Judging puts decoding, running and checking together, on tools of its own."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from fctncalling.data.types import Task, TurnResults
from fctncalling.envs.judging.judge import judge, judge_turns, replay_ground_truth

SCENARIO = {"MessageAPI": {}, "MathAPI": {}}
TRUTH = [
    ["add(a=1, b=2)"],
    [],
    ["message_login(user_id='USR001')", "send_message('USR002', 'Total (USD)')"],
]


def task(truth: Any = None) -> Task:
    return Task(
        "multi_turn_base_900",
        "multi_turn_base",
        [[], [], []],
        ground_truth=TRUTH if truth is None else truth,
        initial_config=copy.deepcopy(SCENARIO),
        involved_classes=["MathAPI", "MessageAPI"],
    )


CALLS = [["add(b=2, a=1)"], ["get_user_id(user='Alice')"], TRUTH[2]]
TEXTS = [
    ["[add(a=1, b=2)]", "That makes 3."],
    ["Which one?"],
    [
        "message_login(user_id='USR001')",
        "[send_message(receiver_id='USR002', message='Total (USD)')]",
        "Sent.",
    ],
]
TOOL_CALLS = [
    ['[{"add": "{\\"a\\": 1, \\"b\\": 2}"}]', "That makes 3."],
    [None],
    [
        '[{"message_login": "{\\"user_id\\": \\"USR001\\"}"},'
        ' {"send_message": "{\\"receiver_id\\": \\"USR002\\", \\"message\\": \\"Total (USD)\\"}"}]'
    ],
]


@pytest.mark.parametrize(
    ("response", "form"),
    [(CALLS, "decoded_calls"), (TEXTS, "prompting"), (TOOL_CALLS, "tool_call")],
)
def test_the_same_answer_passes_in_every_form(response: Any, form: str) -> None:
    verdict = judge(task(), response, form)
    assert (verdict.valid, verdict.per_turn) == (True, (True, True, True)), verdict.message


def test_judging_again_gives_the_same_and_leaves_the_task_as_it_was() -> None:
    one = task()
    assert judge(one, CALLS, "decoded_calls") == judge(
        one, CALLS, "decoded_calls", truth=replay_ground_truth(one)
    )
    assert one.initial_config == SCENARIO


def test_a_registered_name_in_front_of_a_parenthesis_never_matches_itself() -> None:
    # BFCL puts the instance's name in front of it, and the truth's instance has another name.
    spoken = ["message_login(user_id='USR001')", "send_message('USR002', 'use add(1, 2)')"]
    verdict = judge(task([[], [], spoken]), [[], [], spoken], "decoded_calls")
    assert verdict.error_type == "multi_turn:instance_state_mismatch"


def test_too_few_and_too_many_turns_keep_the_verdicts_of_the_turns_played() -> None:
    fewer, more = (
        judge(task(), CALLS[:2], "decoded_calls"),
        judge(task(), [*CALLS, []], "decoded_calls"),
    )
    assert fewer.error_type == more.error_type == "multi_turn:force_terminated"
    assert (fewer.per_turn, more.per_turn) == ((True, True, False), (True, True, True))


def test_turns_that_were_played_are_judged_without_running_anything() -> None:
    truth = replay_ground_truth(task())
    played = [TurnResults(tuple(turn.results), turn.states) for turn in truth]
    assert judge_turns(task(), played, truth).valid
    assert judge_turns(task(), played[:1], truth).per_turn == (True, False, False)


def test_what_cannot_be_judged_is_named() -> None:
    with pytest.raises(LookupError, match=r'"telepathy".*prompting, tool_call, tool_call_dots'):
        judge(task(), CALLS, "telepathy")
    unknown = Task(
        "multi_turn_base_1",
        "multi_turn_base",
        [[]],
        ground_truth=[[]],
        involved_classes=["SpaceAPI"],
    )
    with pytest.raises(LookupError, match=r'"multi_turn_base_1".*"SpaceAPI".*MathAPI'):
        judge(unknown, [[]], "decoded_calls")
    with pytest.raises(ValueError, match=r"multi_turn_base_2.*ground truth"):
        replay_ground_truth(Task("multi_turn_base_2", "multi_turn_base", [[]]))
