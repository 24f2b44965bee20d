"""Strict verdicts report what BFCL forgives, beside an official verdict that stays as it is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from players import DONE, Replay, doc, shop_env, shop_task, simple_task, user

from fctncalling.checkers.agentic import answer_fault
from fctncalling.cli.score.score_files import steps_of_messages
from fctncalling.cli.shared.jsonl_records import read_records
from fctncalling.cli.shared.task_finder import TaskIndex
from fctncalling.data.types import StepRecord, Task, Verdict
from fctncalling.envs.judging.strict import first_leniency_in_turn, strict_verdict

SELL = "[sell(item='apple')]"


@pytest.mark.parametrize(
    ("text", "strict_error"),
    [
        (SELL, None),
        ('[sell(item = "apple",price=1,)]', None),
        ("sell(item='apple')", None),
        ("[sell(item='app' 'le')]", None),
        ("[sell(item=apple)]", "strict:lenient_syntax"),
        ("[sell('pear', item='apple')]", "strict:lenient_syntax"),
        ("[sell(item='app' + 'le')]", "strict:lenient_syntax"),
        (
            "[sell(item='apple', price=~-1)]",
            None,
        ),  # BFCL reads ~ as minus; of what it cannot negate it fails
        ("```\n[sell(item='apple')]\n```", "strict:lenient_syntax"),
        ("[sell(item='apple')", "strict:lenient_syntax"),
    ],
)
def test_single_turn_answers_that_only_bfcl_accepts(text: str, strict_error: str | None) -> None:
    played = Replay(shop_env(simple_task(), strict=True), [text])
    if not played.valid:
        assert played.info["strict_verdict"] == played.info["verdict"]
        return
    assert played.info["strict_verdict"].error_type == strict_error
    assert played.info["strict_verdict"].valid == (strict_error is None)
    assert played.total == 1.0


@pytest.mark.parametrize(
    "text",
    [
        "<|python_start|>[sell(item='apple')]<|python_end|>",
        '<|python_tag|>{"name": "sell", "parameters": {"item": "(apple)"}}',
        '```json\n[{"name": "sell", "arguments": {"item": "(apple)"}}]\n```',
        '<functions><function name="sell"><param name="item">(apple)</param></function>'
        "</functions>",
        "<TOOLCALL>[sell(item='apple')]</TOOLCALL>",
        '(so:) [TOOL_CALLS][{"name": "sell", "arguments": {"item": "apple"}}]',
    ],
)
def test_brackets_in_other_forms_than_python_calls_are_no_syntax_of_theirs(text: str) -> None:
    task = simple_task(ground_truth=[{"sell": {"item": ["apple", "(apple)"], "price": [""]}}])
    played = Replay(shop_env(task, strict=True), [text])
    assert played.valid
    assert played.info["strict_verdict"].valid


@pytest.mark.parametrize(
    ("handler", "text"),
    [
        ("python_calls", "sell(item=apple,\n# <tool_call>\n)"),
        ("python_calls", "sell(item=apple,\n# <TOOLCALL>[sell(item='apple')]</TOOLCALL>\n)"),
        ("auto", "<|python_start|>[sell(item=apple)]<|python_end|>"),
        ("auto", "<TOOLCALL>[sell(item=apple)]</TOOLCALL>"),
    ],
)
def test_marks_of_another_form_hide_no_syntax(handler: str, text: str) -> None:
    played = Replay(shop_env(simple_task(), strict=True, handler=handler), [text])
    assert played.valid
    assert played.info["strict_verdict"].error_type == "strict:lenient_syntax"


def test_calls_in_an_empty_turn_are_forgiven_officially_and_reported() -> None:
    played = Replay(
        shop_env(shop_task([], ["look()"]), strict=True), ["[look()]", DONE, "[look()]", DONE]
    )
    assert played.valid
    assert played.info["strict_verdict"].error_type == "strict:call_in_empty_turn"
    assert played.info["strict_verdict"].per_turn == (True, True)


@pytest.mark.parametrize("extra", ["nothing()", "burrow(deep=1)"])
def test_calls_of_unknown_functions_are_reported(extra: str) -> None:
    played = Replay(shop_env(shop_task(["look()"]), strict=True), [f"[look(), {extra}]", DONE])
    assert played.valid
    assert played.info["strict_verdict"].error_type == "strict:function_not_offered"


def test_functions_still_held_out_are_reported() -> None:
    task = shop_task(
        [SELL[1:-1]], ["look()"], question=[user("Sell."), []], missed_functions={1: ("look",)}
    )
    played = Replay(shop_env(task, strict=True), ["[look()]", SELL, DONE, "[look()]", DONE])
    assert played.valid
    assert played.info["strict_verdict"].error_type == "strict:function_not_offered"


def test_without_strict_nothing_is_reported() -> None:
    assert "strict_verdict" not in Replay(shop_env(simple_task()), [SELL]).info


def test_a_failure_stays_the_official_failure() -> None:
    info = Replay(shop_env(simple_task(), strict=True), ["[sell(item=pear)]"]).info
    assert info["strict_verdict"] == info["verdict"]
    assert info["verdict"].error_type == "value_error:string"


def verdict_of(task: Task, *texts: str) -> Verdict:
    """Return the strict verdict on an episode that BFCL calls solved."""
    played = Replay(shop_env(task, strict=True), texts)
    assert played.valid, played.info["verdict"]
    strict: Verdict = played.info["strict_verdict"]
    assert (strict.error_type is None) == strict.valid
    assert strict.valid or strict.message
    return strict


def test_any_call_where_the_right_function_is_withheld_is_named() -> None:
    asked = [user("Sell an apple."), []]
    task = shop_task([], ["sell('apple')"], question=asked, missed_functions={1: ("sell",)})
    for text in ("[look()]", "[sell(item='pear')]"):
        verdict = verdict_of(task, text, DONE, SELL, DONE)
        assert verdict.error_type == "strict:call_while_function_withheld"
    assert verdict_of(task, "I have no function for that.", SELL, DONE).valid


def test_a_call_of_the_truth_s_own_is_no_leniency_before_its_function_is_offered() -> None:
    task = shop_task(["look()"], ["look()"], missed_functions={1: ("look",)})
    assert verdict_of(task, "[look()]", DONE, "[look()]", DONE).valid


@pytest.mark.parametrize("handler", ["auto", "bfcl_json"])
@pytest.mark.parametrize(
    ("held_out", "error"), [(True, "function_not_offered"), (False, "nested_call")]
)
def test_calls_nested_in_arguments_are_named(held_out: bool, error: str, handler: str) -> None:
    # Both forms hand the tools `shout(text=sell(item='apple'))`, of which a call's name tells
    # nothing.
    missed = {1: ("sell",)} if held_out else {}
    task = shop_task(["sell('apple')"], [], missed_functions=missed)
    task = replace(task, ground_truth=[["shout(text=sell('apple'))"], []])
    arguments = {"text": {"sell": {"item": "apple"}}}
    text = (
        json.dumps([{"function": "shout", "parameters": arguments}])
        if handler == "bfcl_json"
        else f"[shout(text={arguments['text']})]"
    )
    played = Replay(shop_env(task, strict=True, handler=handler), [text, DONE, DONE])
    assert played.valid
    assert played.info["strict_verdict"].error_type == f"strict:{error}"


@pytest.mark.parametrize(("extra", "valid"), [(8, True), (9, False), (160, False)])
def test_far_more_calls_than_the_truth_s_are_named(extra: int, valid: bool) -> None:
    looks = ", ".join(["look()"] * extra)
    verdict = verdict_of(shop_task(["look()"]), f"[{looks}]", DONE)
    assert verdict.error_type == (None if valid else "strict:needless_calls")


@pytest.mark.parametrize(("tries", "valid"), [(1, True), (4, True), (5, False), (8, False)])
def test_every_option_tried_instead_of_the_one_asked_for_is_named(tries: int, valid: bool) -> None:
    options = ["apple", "pear", "plum", "fig", "kiwi", "lime", "date", "nut"][:tries]
    shouts = [f"shout(text={each!r})" for each in options]
    again = [shouts[0]] * 3  # the same once more is no other try
    verdict = verdict_of(
        shop_task([shouts[0]]), f"[{', '.join([*shouts, *again[: 8 - tries]])}]", DONE
    )
    assert verdict.error_type == (None if valid else "strict:needless_calls")


ONE, TWO = '{"item": "(", "price": 1}', '{"item": "pear", "item": "("}'


@pytest.mark.parametrize(("arguments", "error"), [(ONE, None), (TWO, "repeated_key")])
@pytest.mark.parametrize(
    "form",
    [
        '[{{"name": "sell", "arguments": {}}}]',
        '{{"name": "sell", "arguments": {}}}',
        '<tool_call>\n{{"name": "sell", "arguments": {}}}\n</tool_call>',
        '[TOOL_CALLS][{{"name": "sell", "arguments": {}}}]',
    ],
)
def test_a_key_that_stands_twice_in_a_call_is_named(
    form: str, arguments: str, error: str | None
) -> None:
    task = simple_task(ground_truth=[{"sell": {"item": ["("], "price": [1, ""]}}])
    verdict = verdict_of(task, form.format(arguments))
    assert verdict.error_type == (None if error is None else f"strict:{error}")


def test_a_key_that_stands_twice_in_arguments_that_are_a_text_is_named() -> None:
    text = json.dumps([{"sell": '{"item": "pear", "item": "apple"}'}])
    played = Replay(shop_env(simple_task(), strict=True, handler="tool_calls"), [text])
    assert played.valid
    assert played.info["strict_verdict"].error_type == "strict:repeated_key"


@pytest.mark.parametrize(
    ("kind", "accepted", "given", "error"),
    [
        ("string", ["12", "twelve"], "12", None),
        ("string", ["12", "twelve"], "1.2", "changed_number"),
        ("string", ["2024-10-25"], "20241025", "changed_number"),
        ("string", ["San Francisco, CA"], "san  francisco,CA", None),
        ("string", ["San Francisco, CA"], " San Francisco, CA.", None),
        ("string", ["San Francisco, CA"], "SanFranciscoCA", "dropped_punctuation"),
        ("string", ["units", ""], "---", "punctuation_for_nothing"),
        ("string", ["units", ""], "", None),
        ("array", [["New York", "Los Angeles"]], ["new york", "Los Angeles"], None),
        ("array", [["New York", "Los Angeles"]], ["newyork", "Los Angeles"], "dropped_punctuation"),
        ("dict", [{"city": ["New York"], "days": [3, ""]}], {"city": "New York"}, None),
        ("dict", [{"city": ["New York"]}], {"city": "New-York"}, "dropped_punctuation"),
        ("float", [5.0], 5, None),
    ],
)
def test_texts_that_are_right_only_without_blanks_and_punctuation_are_named(
    kind: str, accepted: list[Any], given: Any, error: str | None
) -> None:
    truth = [{"f": {"a": accepted}}]
    task = simple_task(functions=[doc("f", ["a"], a=kind)], ground_truth=truth)
    verdict = verdict_of(task, f"[f(a={given!r})]")
    assert verdict.error_type == (None if error is None else f"strict:{error}")


def test_each_of_several_calls_in_any_order_is_looked_at() -> None:
    truth = [{"f": {"a": ["a b"]}}, {"f": {"a": ["c d"]}}]
    docs = [doc("f", ["a"], a="string")]
    task = simple_task("parallel_0", category="parallel", functions=docs, ground_truth=truth)
    assert verdict_of(task, "[f(a='c d'), f(a='a b')]").valid
    verdict = verdict_of(task, "[f(a='c d'), f(a='ab')]")
    assert verdict.error_type == "strict:dropped_punctuation"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[sell(item='green apples')]", None),
        ("[sell(item='apple', price=4)]", None),
        ("[sell()]", "arbitrary_call"),
        ("[sell(item='value')]", "arbitrary_call"),
        ("[sell(item='Please')]", "arbitrary_call"),
        ("[sell(item='apples')]", "arbitrary_call"),
        ("[sell(item='for Maria')]", None),
        ("[sell(item=1)]", "arbitrary_call"),
        ("[sell(item='apples', colour='red')]", "arbitrary_call"),
        ("[buy(item='apples')]", "function_not_offered"),
    ],
)
def test_arbitrary_calls_where_none_is_written_down_are_named(text: str, error: str | None) -> None:
    question = [user("Please sell 4 green apples for Maria.")]
    task = simple_task(
        "live_relevance_0", category="live_relevance", question=question, ground_truth=None
    )
    if "apple'" in text:
        assert verdict_of(task, text).valid  # the price is told
        return
    verdict = verdict_of(task, text)
    assert verdict.error_type == (None if error is None else f"strict:{error}")


AGENTIC = simple_task(
    "web_search_0",
    category="web_search_base",
    question=[user("Which lake is the largest one of Connecticut, and how long is it?")],
    ground_truth=["Candlewood", "Candlewood Lake"],
)
NUMBER = replace(AGENTIC, ground_truth=["12"], question=[user("How many miles long is the lake?")])

THOUSANDS = replace(NUMBER, ground_truth=["19000"], question=[user("How many feet is it?")])


@pytest.mark.parametrize(
    ("task", "text", "error"),
    [
        (AGENTIC, "{'answer': 'Candlewood Lake', 'context': 'anything at all, ' * 3}", None),
        (AGENTIC, "{'answer': \"Candlewood, Connecticut's largest lake\", 'context': ''}", None),
        (AGENTIC, "The largest lake of Connecticut is Candlewood Lake.", None),
        (AGENTIC, "**candlewood**", None),
        (AGENTIC, "It is not Candlewood.", "answer_denied"),
        (AGENTIC, "Squantz, Bantam, Candlewood, Twin, Waramaug", "answer_among_others"),
        (
            AGENTIC,
            f"{{'answer': 'Candlewood {'lake ' * 80}', 'context': ''}}",
            "answer_among_others",
        ),
        (AGENTIC, "{'answer': 'Bantam', 'context': 'or Candlewood'}", "answer_outside_field"),
        (NUMBER, "{'answer': 12, 'context': ''}", None),
        (NUMBER, "It is 12 miles long.", None),
        (NUMBER, "It is 1.2 miles long.", "changed_number"),
        (NUMBER, "10 11 12 13 14 15", "answer_among_others"),
        (NUMBER, "12 7", "answer_among_others"),
        (NUMBER, "twelve or rather 12 and seven", "answer_among_others"),
        (NUMBER, "12 nautical miles", None),
        (AGENTIC, "Bantam Twin Candlewood", "answer_among_others"),
        (THOUSANDS, "It is 19,000 feet.", None),
    ],
)
def test_agentic_answers_that_are_mentioned_but_not_given_are_named(
    task: Task, text: str, error: str | None
) -> None:
    assert answer_fault(text, task.ground_truth or ()) is None  # BFCL accepts each
    verdict = strict_verdict(task, [StepRecord(0, text)], Verdict(True, 1.0))
    assert verdict.error_type == (None if error is None else f"strict:{error}")
    assert first_leniency_in_turn(task, [StepRecord(0, text)], 0) is None


@pytest.mark.parametrize("category", ["simple_java", "simple_javascript"])
def test_texts_of_other_languages_are_compared_as_the_values_they_stand_for(category: str) -> None:
    pytest.importorskip(f"tree_sitter_{category.removeprefix('simple_')}")
    truth = [{"f": {"a": ["Main Street 12"]}}]
    docs = [doc("f", ["a"], a="String")]
    task = simple_task(f"{category}_0", category=category, functions=docs, ground_truth=truth)
    assert verdict_of(task, '[f(a="Main Street 12")]').valid
    assert verdict_of(task, '[f(a="Main Street 1.2")]').error_type == "strict:changed_number"
    assert verdict_of(task, '[f(a="Main-Street 12")]').error_type == "strict:dropped_punctuation"


PLAIN_TABLES = ("simple_python", "parallel", "live_simple", "simple_java", "fc_live_simple")


@pytest.mark.parametrize("name", [*PLAIN_TABLES, "memory", "web_search"])
def test_right_answers_of_official_tables_are_strictly_right(shared: Path, name: str) -> None:
    path = shared / "bfcl" / "verdicts" / f"{name}.jsonl.gz"
    if not path.exists():
        pytest.skip(f"no table {path}")
    folder = TaskIndex(shared / "bfcl" / "data")
    right = ("correct", "fc_correct", "ag_correct", "ag_bare")
    lines = [
        line
        for line in read_records(path)
        if line.record["mutation"] in right and line.record["valid"]
    ]
    fallen = []
    for line in lines[::3]:
        record = line.record
        task = folder.find_task(line)
        steps = steps_of_messages(task, record["response"], record["form"])
        verdict = strict_verdict(task, steps, Verdict(True, 1.0))
        fallen += [] if verdict.valid else [(record["id"], verdict)]
    assert len(lines) > 15
    assert fallen == []
