"""The quick reader reads what the full parser reads, or nothing."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fctncalling.envs.handlers import python_calls
from fctncalling.envs.handlers.handler import DecodeError
from fctncalling.envs.handlers.plain_calls import plain_calls

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
]


def full(text: str) -> Any:
    """Return what the full parser makes of a text, as text: types and signs count."""
    quick, python_calls.plain_calls = python_calls.plain_calls, lambda _: None
    try:
        return repr(python_calls.calls_of_expression(text))
    except DecodeError:
        return "no calls"
    finally:
        python_calls.plain_calls = quick


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_any_text_is_read_as_the_full_parser_reads_it_or_not_at_all(inner: str) -> None:
    for text in (inner, f"[{inner}]", f"[f({inner})]", f"[f(a={inner})]", f"[f(a=[{inner}], b={inner})]"):
        found = plain_calls(text)
        assert found is None or repr(found) == full(text), text


VALUES = st.one_of(st.text(max_size=6), st.integers(), st.floats(), st.booleans(), st.none())


@given(st.dictionaries(st.sampled_from(["a", "b_1", "C"]), VALUES | st.lists(VALUES, max_size=3), max_size=3))
def test_written_values_are_read_with_their_types(arguments: dict[str, Any]) -> None:
    text = f"[f({', '.join(f'{key}={value!r}' for key, value in arguments.items())})]"
    found = plain_calls(text)
    assert found is None or repr(found) == full(text)


@pytest.mark.parametrize(
    "text",
    ["[f()]", "[f(a=1)]", "[f(a='x', b=-1.5), g.h(c=True)]", "[f(a=[1, 'x', None], b=[])]", '[ f( a = "x" ) ,\n g() ]'],
)
def test_plain_calls_are_read_quickly(text: str) -> None:
    assert repr(plain_calls(text)) == full(text)


def test_every_recorded_answer_is_read_alike(shared: Path) -> None:
    num_plain = num_texts = 0
    for table in ("simple_python", "live_multiple", "parallel_multiple", "raw_multi_turn_base"):
        with gzip.open(shared / "bfcl/verdicts" / f"{table}.jsonl.gz", "rt", encoding="utf-8") as lines:
            for record in map(json.loads, lines):
                response = record["response"]
                for text in [response] if isinstance(response, str) else [step for turn in response for step in turn]:
                    found = plain_calls(text)
                    num_texts, num_plain = num_texts + 1, num_plain + (found is not None)
                    assert found is None or repr(found) == full(text), text
    assert num_plain > num_texts / 3
