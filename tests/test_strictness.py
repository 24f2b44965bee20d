"""Strict verdicts report what BFCL forgives, beside an official verdict that stays as it is."""

from __future__ import annotations

import pytest
from players import DONE, Played, shop_env, shop_task, simple_task, user

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
    played = Played(shop_env(simple_task(), strict=True), [text])
    if not played.valid:
        assert played.info["strict_verdict"] == played.info["verdict"]
        return
    assert played.info["strict_verdict"].error_type == strict_error
    assert played.info["strict_verdict"].valid == (strict_error is None)
    assert played.total == 1.0


def test_calls_in_an_empty_turn_are_forgiven_officially_and_reported() -> None:
    played = Played(
        shop_env(shop_task([], ["look()"]), strict=True), ["[look()]", DONE, "[look()]", DONE]
    )
    assert played.valid
    assert played.info["strict_verdict"].error_type == "strict:call_in_empty_turn"
    assert played.info["strict_verdict"].per_turn == (True, True)


@pytest.mark.parametrize("extra", ["nothing()", "burrow(deep=1)"])
def test_calls_of_unknown_functions_are_reported(extra: str) -> None:
    played = Played(shop_env(shop_task(["look()"]), strict=True), [f"[look(), {extra}]", DONE])
    assert played.valid
    assert played.info["strict_verdict"].error_type == "strict:function_not_offered"


def test_functions_still_held_out_are_reported() -> None:
    task = shop_task(
        ["look()"], ["look()"], question=[user("Look."), []], missed_functions={1: ("look",)}
    )
    played = Played(shop_env(task, strict=True), ["[look()]", DONE, "[look()]", DONE])
    assert played.valid
    assert played.info["strict_verdict"].error_type == "strict:function_not_offered"


def test_without_strict_nothing_is_reported() -> None:
    assert "strict_verdict" not in Played(shop_env(simple_task()), [SELL]).info


def test_a_failure_stays_the_official_failure() -> None:
    info = Played(shop_env(simple_task(), strict=True), ["[sell(item=pear)]"]).info
    assert info["strict_verdict"] == info["verdict"]
    assert info["verdict"].error_type == "value_error:string"
