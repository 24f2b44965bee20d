"""The checkers' rules, one claim each, where BFCL's tables would not tell which rule failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from fctncalling.checkers import check
from fctncalling.data.categories import UnsupportedCategory, category_kind
from fctncalling.data.types import FunctionDoc, Task, TurnResults, Verdict


def task(category: str = "simple_python", truth: Any = None, **parameters: dict[str, Any]) -> Task:
    required = [name for name, declared in parameters.items() if declared.pop("required", False)]
    doc = {"type": "dict", "properties": parameters, "required": required}
    return Task("t_0", category, [[]], [FunctionDoc("a.f", "", doc)], truth)


def verdict_on(given: Any, accepted: Sequence[Any], **declared: Any) -> Verdict:
    return check(task(truth=[{"a.f": {"x": accepted}}], x=declared), [{"a.f": {"x": given}}])


STRING, INTEGER, FLOAT, ANY = ({"type": name} for name in ("string", "integer", "float", "any"))
INTEGERS = {"type": "array", "items": {"type": "integer"}}
TUPLE = {"type": "tuple", "items": {"type": "integer"}}
DICTS = {"type": "array", "items": {"type": "dict"}}


@pytest.mark.parametrize(
    ("declared", "accepted", "given", "error_type"),
    [
        (STRING, ["New York"], "new-york.", None),
        (STRING, ["it's"], 'IT"S', None),
        (STRING, ["New York"], "New\tYork", "value_error:string"),
        (STRING, ["New York"], "New York!", "value_error:string"),
        (STRING, ["x", ""], "...", None),  # what reduces to nothing equals the mark of omission
        (STRING, ["x"], b"x", "type_error:simple"),
        (INTEGER, [5], 5.0, "type_error:simple"),
        (INTEGER, [1], True, "type_error:simple"),
        (INTEGER, [5], 6, "value_error:others"),
        (INTEGER, ["count"], "count", None),  # the ground truth names a variable
        (
            INTEGER,
            ["count"],
            "Count",
            "value_error:others",
        ),  # and a variable's name is compared raw
        (INTEGER, ["count"], 5, "value_error:others"),
        (FLOAT, [5.0], 5, None),
        (FLOAT, [5], 5, None),
        ({"type": "number"}, [5.5, 5.0], 5, None),  # as of "float", though no official file has it
        (FLOAT, [5.0], 10**400, "type_error:simple"),
        (ANY, [5], 5, None),
        (ANY, ["five"], 5, "type_error:simple"),
        (STRING, [None], None, None),
        (INTEGERS, [[1, 2]], [1, 2], None),
        (INTEGERS, [[1, 2]], (1, 2), "type_error:simple"),
        (INTEGERS, [[1, 2]], [1, 2.0], "type_error:nested"),
        (
            INTEGERS,
            [[1, 2], ""],
            [1, 2.0],
            None,
        ),  # an alternative that is no list lets the type pass: 2.0 equals 2
        (INTEGERS, [[1, 2]], [2, 1], "value_error:list/tuple"),
        (INTEGERS, [[1, 2]], [], "value_error:list/tuple"),
        (INTEGERS, [[1, 2], ""], [], None),
        (TUPLE, [[1, 2]], (1, 2), None),
        ({"type": "array", "items": {"type": "string"}}, [["A b"]], ["a-B"], None),
        (
            {"type": "array", "items": {"type": "array"}},
            [[["A"]]],
            [["a"]],
            "value_error:list/tuple",
        ),
        ({"type": "dict"}, [{"k": ["A b"]}], {"k": "ab"}, None),
        ({"type": "dict"}, [{"k": [1], "o": [2, ""]}], {"k": 1}, None),
        ({"type": "dict"}, [{"k": [1]}], {}, "value_error:dict_key"),
        ({"type": "dict"}, [{"k": [1]}], {"k": 1, "z": 2}, "value_error:dict_key"),
        ({"type": "dict"}, [{"k": [1]}], {"k": 2}, "value_error:dict_value"),
        (
            {"type": "dict"},
            [{"k": [1], "m": [1]}],
            {"k": 2},
            "value_error:dict_key",
        ),  # the fault found last
        ({"type": "dict"}, [{"k": [1]}, {"k": [2]}], {"k": 2}, None),
        ({"type": "dict"}, [""], {}, "dict_checker:unclear"),
        (
            {"type": "dict"},
            [{"k": "word"}],
            {"k": "w"},
            None,
        ),  # a plain string is read letter by letter
        ({"type": "dict"}, [{"k": "word"}], {}, None),
        (DICTS, [[{"k": [1]}, {"k": [2]}]], [{"k": 1}, {"k": 2}], None),
        (DICTS, [[{"k": [1]}, {"k": [2]}]], [{"k": 2}, {"k": 1}], "value_error:dict_value"),
        (DICTS, [[{"k": [1]}]], [{"k": 1}, {"k": 1}], "value_error:list_dict_count"),
        (
            DICTS,
            [[{"k": [1]}], ""],
            [{"k": 2}],
            "value_error:list_dict_count",
        ),  # the last alternative's fault
    ],
)
def test_a_value_is_judged_by_the_rule_of_its_type(
    declared: dict[str, Any], accepted: list[Any], given: Any, error_type: str | None
) -> None:
    verdict = verdict_on(given, accepted, **declared)
    assert (verdict.valid, verdict.score, verdict.error_type) == (
        error_type is None,
        error_type is None,
        error_type,
    )
    assert (verdict.message == "") is verdict.valid


@pytest.mark.parametrize(
    ("arguments", "error_type"),
    [
        ({"x": 1}, None),
        ({"x": 1, "o": 2}, None),
        ({}, "missing_required"),
        ({"x": 1, "p": 3}, "unexpected_param"),  # documented, but not in the ground truth
        ({"x": 1, "z": 3}, "unexpected_param"),
        ({"x": 1, None: 3}, "unexpected_param"),
        ({"z": 3, "x": 1}, "unexpected_param"),
    ],
)
def test_parameters_are_judged_in_bfcl_s_order(
    arguments: dict[Any, Any], error_type: str | None
) -> None:
    one = task(
        truth=[{"a.f": {"x": [1], "o": [2, ""]}}],
        x={**INTEGER, "required": True},
        o=INTEGER,
        p=INTEGER,
    )
    expected = error_type and f"simple_function_checker:{error_type}"
    assert check(one, [{"a.f": arguments}]).error_type == expected


def test_a_parameter_without_an_accepted_default_must_be_given() -> None:
    one = task(truth=[{"a.f": {"x": [1]}}], x=dict(INTEGER))
    assert check(one, [{"a.f": {}}]).error_type == "simple_function_checker:missing_optional"


def test_dots_of_names_become_underscores_only_where_the_interface_needs_it() -> None:
    one = task(truth=[{"a.f": {"x": [1]}}], x=dict(INTEGER))
    dotted, underscored = [{"a.f": {"x": 1}}], [{"a_f": {"x": 1}}]
    assert check(one, dotted).valid
    assert not check(one, underscored).valid
    assert check(one, underscored, underscore_to_dot=True).valid
    assert not check(one, dotted, underscore_to_dot=True).valid


def test_parallel_calls_are_matched_greedily() -> None:
    # Either call fits the first expectation, only the first call fits the second: a matching
    # exists, greed misses it.
    truth = [{"a.f": {"x": [1, 2]}}, {"a.f": {"x": [1]}}]
    one = task("parallel", truth, x=dict(INTEGER))
    assert check(one, [{"a.f": {"x": 2}}, {"a.f": {"x": 1}}]).valid
    greedy = check(one, [{"a.f": {"x": 1}}, {"a.f": {"x": 2}}])
    assert greedy.error_type == "parallel_function_checker_no_order:cannot_find_match"


@pytest.mark.parametrize(
    "record", [5, {"f": {}}, [5], [{}], [{"f": 1}], [{"f": {}, "g": {}}], ({"f": {}},)]
)
def test_what_is_no_list_of_calls_is_a_wrong_format(record: Any) -> None:
    one = task(truth=[{"a.f": {}}])
    assert check(one, record).error_type == "ast_decoder:decoder_wrong_output_format"
    assert check(task("irrelevance"), record).valid
    assert not check(task("live_relevance"), record).valid


@pytest.mark.parametrize("category", ["rest", "exec_simple", "sql"])
def test_a_category_without_a_checker_is_named(category: str) -> None:
    with pytest.raises(UnsupportedCategory, match=rf'"{category}".*multi_turn.*python'):
        category_kind(category)


@pytest.mark.parametrize("declared", [{"type": "spaceship"}, {}])
def test_a_documented_type_we_do_not_know_is_named_with_its_place(declared: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"t_0.*a\.f.*x.*expected one of string"):
        verdict_on(1, [1], **declared)


def turn(*results: str, **state: Any) -> TurnResults:
    return TurnResults(results, {"Tool": state})


TRUTH = (turn("a", "b", n=1), turn(n=1), turn("c", n=2))


@pytest.mark.parametrize(
    ("turns", "error_type", "per_turn"),
    [
        ((turn("b", "a", n=1), turn(n=1), turn("c", n=2)), None, (True, True, True)),
        (
            (turn("b", "x", "a", n=1.0), turn("y", n=7), turn("z", "c", n=2)),
            None,
            (True, True, True),
        ),
        (
            (turn("a", "b", "c", n=1), turn(n=1), turn("z", n=2)),
            None,
            (True, True, True),
        ),  # seen earlier is seen
        (
            (turn("a", "a", n=1), turn(n=1), turn("c", n=2)),
            "execution_response_mismatch",
            (False, True, True),
        ),
        (
            (turn("a", n=5), turn(n=1), turn("c", n=2)),
            "instance_state_mismatch",
            (False, True, True),
        ),
        (
            (turn("a", "b", n=1), turn(n=1), turn(n=2)),
            "empty_turn_model_response",
            (True, True, False),
        ),
        ((turn("a", "b", n=1), turn(n=1)), "force_terminated", (True, True, False)),
        (
            (turn("a", "b", n=1), turn(n=1), turn("c", n=2), turn()),
            "force_terminated",
            (True, True, True),
        ),
        ((), "force_terminated", (False, False, False)),
        (None, "inference_error", (False, False, False)),
        ("text", "inference_error", (False, False, False)),
    ],
)
def test_turns_are_judged_one_by_one(
    turns: Any, error_type: str | None, per_turn: tuple[bool, ...]
) -> None:
    verdict = check(task("multi_turn_base", truth=[]), turns, TRUTH)
    assert verdict.error_type == (error_type and f"multi_turn:{error_type}")
    assert verdict.valid is (error_type is None)
    assert verdict.per_turn == per_turn


def test_only_the_truth_s_attributes_are_compared_and_all_that_differ_are_named() -> None:
    truth = (TurnResults(["a"], {"T": {"x": 1, "y": 2}, "U": {"z": float("nan")}}),)
    record = (TurnResults(["a"], {"T": {"x": 1, "extra": 9}, "U": {"z": float("nan")}}),)
    verdict = check(task("multi_turn_base", truth=[]), record, truth)
    assert "T.y, U.z" in verdict.message


def test_states_that_nest_deeper_than_python_compares_are_not_called_equal() -> None:
    state, truth = list[Any](), list[Any]()
    for _ in range(100_000):
        state, truth = [state], [truth]
    judged = [TurnResults(["a"], {"T": {"x": 1, "y": value}}) for value in (state, truth)]
    verdict = check(task("multi_turn_base", truth=[]), (judged[0],), (judged[1],))
    assert verdict.error_type == "multi_turn:instance_state_mismatch"
    assert "T.y" in verdict.message
