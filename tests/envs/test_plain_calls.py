"""The quick reader reads what the full parser reads, or nothing."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fctncalling.envs.handlers import execution, python_calls
from fctncalling.envs.handlers.execution import ToolSession
from fctncalling.envs.handlers.handler import DecodeError
from fctncalling.envs.handlers.python_calls import PythonCalls
from fctncalling.envs.python_source.call_source import (
    PlainCall,
    parse_plain_call,
    parse_plain_calls,
)

PIECES = [
    "f",
    "a.b",
    "x=",
    "(",
    ")",
    "[",
    "]",
    ",",
    " ",
    "\n",
    "\t",
    "'s'",
    '"',
    "'",
    "1",
    "-1",
    "0",
    "007",
    "1.5",
    ".",
]
PIECES += [
    "True",
    "None",
    "if",
    "lambda",
    "__debug__",
    "\\",
    "#",
    "é",
    "\x0c",
    "\u00a0",
    "\0",
    "\ud800",
    "{",
    "}",
    "-",
    "_",
    ":",
    "1e5",
    "-2.5e-3",
    "'k': 1",
    "f(",
]


def full(text: str) -> Any:
    """Return what the full parser makes of a text, as text: types and signs count."""
    quick, python_calls.parse_plain_calls = python_calls.parse_plain_calls, lambda _: None
    try:
        return repr(python_calls.calls_of_expression(text))
    except DecodeError:
        return "no calls"
    finally:
        python_calls.parse_plain_calls = quick


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_any_text_is_read_as_the_full_parser_reads_it_or_not_at_all(inner: str) -> None:
    values = (
        f"[f(a={inner})]",
        f"[f(a=[{inner}], b={inner})]",
        f"[f(a={{'x': {inner}, 'y': [{inner}]}})]",
    )
    for text in (inner, f"[{inner}]", f"[f({inner})]", *values):
        found = parse_plain_calls(text)
        assert found is None or repr(found) == full(text), text


VALUES = st.one_of(st.text(max_size=6), st.integers(), st.floats(), st.booleans(), st.none())


@given(
    st.dictionaries(
        st.sampled_from(["a", "b_1", "C"]), VALUES | st.lists(VALUES, max_size=3), max_size=3
    )
)
def test_written_values_are_read_with_their_types(arguments: dict[str, Any]) -> None:
    text = f"[f({', '.join(f'{key}={value!r}' for key, value in arguments.items())})]"
    found = parse_plain_calls(text)
    assert found is None or repr(found) == full(text)


@pytest.mark.parametrize(
    "text",
    [
        "[f()]",
        "[f(a=1)]",
        "[f(a='x', b=-1.5), g.h(c=True)]",
        "[f(a=[1, 'x', None], b=[])]",
        '[ f( a = "x" ) ,\n g() ]',
        "[f(a={'x': 8.854e-12, \"y\": [True, 'z']}, b={})]",
    ],
)
def test_plain_calls_are_read_quickly(text: str) -> None:
    assert repr(parse_plain_calls(text)) == full(text)


class Recorder:
    """Tells what it is called with."""

    def f(self, *positional: Any, **named: Any) -> str:
        return repr((positional, named))


def told(call: str | PlainCall, *, through_trees: bool = False) -> str:
    session = ToolSession(["Recorder"], {}, extra_tools={"Recorder": Recorder})
    if not through_trees:
        return session.execute(call)
    quick, execution.parse_plain_call = execution.parse_plain_call, lambda _: None
    try:
        return session.execute(call)
    finally:
        execution.parse_plain_call = quick


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_any_call_string_is_executed_as_its_tree_is(inner: str) -> None:
    for call in (
        inner,
        f"f({inner})",
        f"f(1, 'x', {inner})",
        f"f(a={inner}, b=[{inner}])",
        f"f({{'x': {inner}}})",
    ):
        assert told(call) == told(call, through_trees=True), call


@pytest.mark.parametrize(
    "call", ["f()", "f(1, -2.5, 'x', a=None)", "f( [1, 'x'] , a = {'b': [True]} )"]
)
def test_plain_call_strings_are_read_quickly(call: str) -> None:
    assert parse_plain_call(call) is not None
    assert told(call) == told(call, through_trees=True)


@pytest.mark.parametrize(
    "call", ["f('g(x)')", "f(a=1, 2)", "f(a=1, a=2)", "f(if=1)", "f(f(1))", "f(1)(2)", "f('\\n')"]
)
def test_what_means_something_else_to_the_executor_is_not_plain(call: str) -> None:
    assert parse_plain_call(call) is None


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_answers_run_as_read_have_the_results_of_their_call_strings(inner: str) -> None:
    for text in (
        f"[{inner}]",
        f"[f({inner})]",
        f"f(a={inner}), f(b=[{inner}])",
        f"[f(a={{'x': {inner}}}), g.f(b=1)]",
    ):
        assert outcome(
            text, lambda text: PythonCalls().decode_action(text).executable_calls
        ) == outcome(text, PythonCalls().decode_execute), text


def test_a_number_beyond_all_floats_runs_as_its_call_string() -> None:
    """BFCL hands the tools the text `inf`, which is a name that nobody has defined."""
    text = "[f(a=1e999), f(b=[-1e400])]"
    ran = outcome(text, lambda text: PythonCalls().decode_action(text).executable_calls)
    assert ran == ["Error during execution: name 'inf' is not defined"] * 2


def outcome(text: str, decode: Callable[[str], Sequence[str | PlainCall]]) -> list[str] | str:
    try:
        return [told(call) for call in decode(text)]
    except DecodeError:
        return "no calls"


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.prove)])
def test_every_recorded_answer_is_read_alike(shared: Path, step: int) -> None:
    num_plain = num_texts = 0
    for table in ("simple_python", "live_multiple", "parallel_multiple", "raw_multi_turn_base"):
        with gzip.open(
            shared / "bfcl/verdicts" / f"{table}.jsonl.gz", "rt", encoding="utf-8"
        ) as lines:
            for record in map(json.loads, islice(lines, 0, None, step)):
                response = record["response"]
                for text in (
                    [response]
                    if isinstance(response, str)
                    else [step for turn in response for step in turn]
                ):
                    found = parse_plain_calls(text)
                    num_texts, num_plain = num_texts + 1, num_plain + (found is not None)
                    assert found is None or repr(found) == full(text), text
    assert num_plain > num_texts / 3


def test_no_pattern_keeps_a_group_possessively() -> None:
    """Python 3.11.0 to 3.11.4 match "aca" by (?:ab?c)*+ (python/cpython#106052), (?>...) does not.

    So an unclosed call was plain there.
    """
    root = Path(__file__).parents[2]
    possessive = re.compile(r"(?<!\\)\)(?:[*+?]|\{+\d*,?\d*\}+)\+")
    found = [
        f"{file.relative_to(root)}: {line.strip()}"
        for folder in ("data", "checkers", "envs", "algorithms", "fctncalling")
        for file in sorted((root / folder).rglob("*.py"))
        for line in file.read_text("utf-8").splitlines()
        if possessive.search(line) and not line.lstrip().startswith("#")
    ]
    assert not found
    assert possessive.search(r"(?:ab?c)*+")
    assert parse_plain_calls("[f(a=1), g(b='x']") is None
