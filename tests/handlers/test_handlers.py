"""Handlers read what they write, and read nothing but calls out of anything else."""

from __future__ import annotations

import contextlib
import keyword
import time
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fctncalling.data.types import Call
from fctncalling.envs.handlers import HANDLERS, DecodeError, get_handler
from fctncalling.envs.handlers.handler import MAX_TEXT_CHARS
from fctncalling.envs.python_source.call_source import MAX_TOKENS

PYTHON, TOOL_CALLS = get_handler("python_calls"), get_handler("tool_calls")

IDENTIFIERS = st.from_regex(r"[a-z_][a-zA-Z0-9_é]{0,8}", fullmatch=True).filter(
    lambda name: not keyword.iskeyword(name) and unicodedata.normalize("NFKC", name) == name
)
NAMES = st.lists(IDENTIFIERS, min_size=1, max_size=3).map(".".join)
ATOMS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
)
PYTHON_VALUES = st.recursive(
    ATOMS | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)
JSON_VALUES = st.recursive(
    ATOMS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


def calls_with(
    names: st.SearchStrategy[str], values: st.SearchStrategy[Any]
) -> st.SearchStrategy[list[Call]]:
    return st.lists(
        st.builds(Call, names, st.dictionaries(IDENTIFIERS, values, max_size=3)), max_size=3
    )


@given(calls_with(NAMES, PYTHON_VALUES))
def test_python_calls_read_what_they_write(calls: list[Call]) -> None:
    assert PYTHON.decode(PYTHON.render(calls)) == calls


@given(calls_with(st.text(max_size=8), JSON_VALUES))
def test_tool_calls_read_what_they_write(calls: list[Call]) -> None:
    assert TOOL_CALLS.decode(TOOL_CALLS.render(calls)) == calls


PIECES = st.lists(
    st.sampled_from(
        [
            *"[](){}'\"`,=+-*/:.#\\\n 01",
            "f",
            "a=",
            "True",
            "...",
            "**",
            "lambda:",
            "f(a=",
            "\0",
            "é",
        ]
    ),
    max_size=30,
).map("".join)


@given(text=st.text(max_size=60) | PIECES)
@example(text="[f(a='\ud800')]")
@example(text="[f(a='\0')]")
@example(text='[{"f": "{\\"a\\": 1e999}"}]')
def test_any_text_gives_calls_or_a_decode_error(text: str) -> None:
    for name in HANDLERS:
        handler = get_handler(name)
        for decode in (handler.decode, handler.decode_ast, handler.decode_execute):
            with contextlib.suppress(DecodeError):
                decode(text)


def test_nothing_in_a_text_is_executed(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    run = f"__import__('os').system('touch {touched}')"
    for text in (
        f"[{run}]",
        f"[f(a={run})]",
        f"[f(a={run}+1)]",
        f"[f(a=x[{run}])]",
        f"[f(a=(lambda: {run})())]",
    ):
        for name in HANDLERS:
            with contextlib.suppress(DecodeError):
                get_handler(name).decode_execute(text)
    assert not touched.exists()


HOSTILE = {
    "long": "x" * (MAX_TEXT_CHARS + 1),
    "parentheses": "[f(a=" + "(" * 40_000 + ")" * 40_000 + ")]",
    "minus": "[f(a=" + "-" * 90_000 + "1)]",
    "sum": "[f(a=" + "1+" * 45_000 + "1)]",
    "attributes": "[f" + ".a" * 45_000 + "()]",
    "tower": "[f(a=9**9**9**9)]",
    "shift": "[f(a=1<<10**9)]",
    "repeated": "[f(a=[[[[0]*1000]*1000]*1000]*1000)]",
    "many repeated": "[f(a=[" + "'a'*99999," * 8_000 + "1])]",
    "wide format": "[f(a='%9999999999d' % 1)]",
    "given width": "[f(a='%*d' % (10**9, 1))]",
    "digits": "[f(a=" + "9" * 90_000 + ")]",
    "hexadecimal": "[f(a=0x" + "f" * 90_000 + ")]",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_texts_made_to_hang_or_crash_fail_to_decode_at_once(text: str) -> None:
    start = time.process_time()
    with pytest.raises(DecodeError):
        PYTHON.decode(text)
    assert time.process_time() - start < 3  # seconds; most take milliseconds


def test_the_longest_text_that_is_read_is_read_in_bounded_time() -> None:
    text, many = f"[f(a='{'x' * (MAX_TEXT_CHARS - 9)}')]", MAX_TOKENS // 7
    start = time.process_time()
    assert PYTHON.decode(text) == [Call("f", {"a": text[6:-3]})]
    assert len(PYTHON.decode(f"[{'f(a=1), ' * (many - 1)}f(a=2)]")) == many
    assert time.process_time() - start < 3  # seconds


@pytest.mark.parametrize("filling", ['"', "'", '"""', "#", "\\", "\n", "x, " * MAX_TOKENS])
def test_so_many_words_and_marks_are_parsed_and_no_more(filling: str) -> None:
    # A string is one of them, whatever stands in it.
    text = f"[f(a=[{filling!r}, 0x1, " + "1, " * (MAX_TOKENS // 2 - 10)
    assert PYTHON.decode(f"{text}1])]")
    for too_long in (f"{text}{'1, ' * 20}1])]", f"[f(a=[1{', 1' * (MAX_TOKENS // 2)}])]"):
        with pytest.raises(DecodeError, match="words and marks"):
            PYTHON.decode(too_long)


def test_f_strings_are_parsed_as_long_as_they_are_few() -> None:
    assert PYTHON.decode("[f(f'{x}', a=1)]") == [Call("f", {"a": 1})]
    with pytest.raises(DecodeError, match="f-strings"):
        PYTHON.decode(f"[f(rF'{'{x}' * 5000}')]")


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("2*3+1", 7),
        ("7//2-2**3", -5),
        ("1/4", 0.25),
        ("'a'+'b'", "ab"),
        ("'ab'*2", "abab"),
        ("[1]+[2, 'x']", [1, 2, "x"]),
        ("(1,)+(2,)", (1, 2)),
        ("'%s-%d' % ('a', 5)", "a-5"),
        ("+5-(-3)", 8),  # inside arithmetic signs mean what they mean in Python
        ("len('abc')+1", 4),
    ],
)
def test_arithmetic_agrees_with_python(source: str, value: Any) -> None:
    [call] = PYTHON.decode(f"[f(a={source})]")
    assert call.arguments["a"] == value
    assert type(call.arguments["a"]) is type(value)


@pytest.mark.parametrize(
    "source", ["x+1", "1/0", "1+'a'", "abs(x)+1", "a.b+1", "f(a=1)+1", "-x", "not f()", "-'a'"]
)
def test_arithmetic_on_what_has_no_value_fails_to_decode(source: str) -> None:
    with pytest.raises(DecodeError):
        PYTHON.decode(f"[f(a={source})]")


@pytest.mark.parametrize(
    ("text", "official"),
    [
        ("f(1, 2, a=3)", [{"f": {"a": 3}}]),
        ("f(a=1, a=2)", [{"f": {"a": 2}}]),
        ("f(**{'a': 1}, b=2)", [{"f": {None: {"a": 1}, "b": 2}}]),
        ("x[0].g(a=1)", [{"g": {"a": 1}}]),
        ("f().g(a=1)", [{"g": {"a": 1}}]),
        ("f(a=not True, b=~5, c=+5)", [{"f": {"a": -1, "b": -5, "c": -5}}]),
        ("f(a=x[1, 2], b=x['k'])", [{"f": {"a": "x[(1, 2)]", "b": "x['k']"}}]),
        ("f(a='x' 'y', b=b'z', c=2j)", [{"f": {"a": "xy", "b": b"z", "c": 2j}}]),
        ("f(a='\\d')", [{"f": {"a": "\\d"}}]),
        ("[f(a=1)] # done", [{"f": {"a": 1}}]),
        ("{f(a=1)}", None),
        ("\t[f(a=1)]", None),
        ("[f(a=1)]\r\n", None),
    ],
)
@pytest.mark.filterwarnings("error")
def test_the_official_decoder_s_oddities_are_kept(text: str, official: Any) -> None:
    if official is None:
        with pytest.raises(DecodeError):
            PYTHON.decode_ast(text)
    else:
        assert PYTHON.decode_ast(text) == official


@pytest.mark.parametrize(
    ("text", "executed"),
    [
        ("f(a={'x': {'y': 1}}, b='c')", ["f(a=x(y=1), b='c')"]),
        ("f(a={1: 2})", ["f(a={'1': 2})"]),
        ("f(a=[{}], b={'x': {}})", ["f(a=[{}], b=x())"]),
        ("f(a={'x': {'y': {}}})", None),
        ("f(a={'x': {}, 'y': 1})", None),
    ],
)
def test_dicts_are_executed_as_bfcl_renders_them(text: str, executed: list[str] | None) -> None:
    if executed is None:
        with pytest.raises(DecodeError):
            PYTHON.decode_execute(text)
    else:
        assert PYTHON.decode_execute(text) == executed


def test_tool_calls_are_executed_without_blanks_between_arguments() -> None:
    assert TOOL_CALLS.decode_execute('[{"f": "{\\"a\\": 1, \\"b\\": [null, true]}"}]') == [
        "f(a=1,b=[None, True])"
    ]


@pytest.mark.parametrize(
    "text", ['"a"', "null", "5", '[["f"]]', "[{}]", '[{"f": {}}]', '[{"f": "5"}]', '{"f": "{}"}']
)
def test_json_that_is_no_list_of_calls_does_not_decode(text: str) -> None:
    with pytest.raises(DecodeError) as caught:
        TOOL_CALLS.decode(text)
    assert caught.value.kind in ("shape", "syntax")


def test_auto_tells_the_forms_apart() -> None:
    auto = get_handler("auto")
    expected = [Call("f", {"a": 1})]
    assert auto.decode('[{"f": "{\\"a\\": 1}"}]') == expected
    assert auto.decode("[f(a=1)]") == expected
    assert auto.decode(auto.render(expected)) == expected


@pytest.mark.parametrize(
    "call", [Call("f g", {}), Call("f", {"from": 1}), Call("f", {"a": {1, 2}}), Call("", {})]
)
def test_what_the_form_cannot_say_is_refused_by_render(call: Call) -> None:
    with pytest.raises(ValueError, match=r"call|literal"):
        PYTHON.render([call])


def test_an_unknown_handler_is_named_with_the_known_ones() -> None:
    with pytest.raises(LookupError, match=r"hermez.*tool_calls, .*python_calls, auto"):
        get_handler("hermez")


def test_a_surrogate_pair_that_would_read_back_as_a_character_is_not_written() -> None:
    handler = get_handler("tool_calls")
    with pytest.raises(ValueError, match="surrogate"):
        handler.render([Call("f", {"x": "\ud83d\ude00"})])
    for text in ("\ud83d", "\U0001f600"):
        calls = [Call("f", {"x": text})]
        assert handler.decode(handler.render(calls)) == calls
