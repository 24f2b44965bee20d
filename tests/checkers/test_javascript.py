"""Calls written in JavaScript: BFCL's decoder, its converter and its verdicts,
oddities included.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import VerdictCounter
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from source_tables import (
    HOSTILE,
    TOKENS,
    compare_decoded,
    compare_verdicts,
    kinds_of_failure,
    official_record,
    seconds_to_decode,
)

from fctncalling.checkers.javascript_values import JAVASCRIPT_ARGUMENTS, parse_javascript_value
from fctncalling.checkers.python_values import Fault, PreparedArgument
from fctncalling.data.types import Call, FunctionDoc, Task
from fctncalling.envs.errors import MissingExtra
from fctncalling.envs.handlers import DecodeError, get_handler, javascript_calls, source_calls
from fctncalling.envs.judging.judge import judge

JAVASCRIPT = get_handler("javascript_calls")


@pytest.mark.parametrize("name", ["simple_javascript", "fc_simple_javascript"])
def test_verdicts_are_the_official_ones(
    shared: Path, verdict_counter: VerdictCounter, name: str
) -> None:
    compare_verdicts(shared, name, verdict_counter)


def test_the_decoder_gives_the_official_values_and_failures(
    shared: Path, verdict_counter: VerdictCounter
) -> None:
    compare_decoded(shared, "javascript", verdict_counter)


@pytest.mark.parametrize(
    ("text", "record"),
    [
        ('[desk.open(width=5, label="a b")]', [{"desk.open": {"width": "5", "label": "a b"}}]),
        ("```\n[open(a='x', b=y,); // c\n]\n```", [{"open": {"a": "x", "b": "y"}}]),
        ("open(a=1)\nclose(b=2)", [{"open": {"a": "1"}}]),
        ("[let a = 1; open(b=2)]", [{"open": {"b": "2"}}]),
        ('[open(a={b: [1, "c"]}, d=[1, 2])]', [{"open": {"a": '{b: [1, "c"]}', "d": "[1, 2]"}}]),
        ("[open(a=\"é\", b='ü')]", [{"open": {"a": "é", "b": "ü"}}]),
        ('[open(a="b" + "c")]', [{"open": {"a": 'b" + "c'}}]),
        ("[open(a=`b`, c=x => x + 1)]", [{"open": {"a": "`b`", "c": "x => x + 1"}}]),
        ("[open(desk, 5, 'x', false, a=1)]", [{"open": {None: "desk", "a": "1"}}]),
        ("[open(true)]", [{"open": {None: "true"}}]),
        ("[open(a += 1, b=2)]", [{"open": {"b": "2"}}]),
        ("[open({a: 1})]", [{"open": {}}]),
        ("[open?.(a=1)]", [{"open": {}}]),
        ("[open(a=/* b */ 1)]", [{"open": {"a": "/* b */"}}]),
        ("[open(default=1, in=for)]", [{"open": {"default": "1", "in": "for"}}]),
        ("[open(a=1; close()]", [{"open": {"a": "1"}}]),
        ("[open(a=1), close(b=2)]", {}),
        ("[(open(a=1))]", {}),
        ("[new open(a=1)]", {}),
        ("<functions><function name='open'/></functions>", {}),
        ("[]", {}),
        ("text", {}),
    ],
)
def test_the_official_decoder_s_oddities_are_kept(text: str, record: Any) -> None:
    assert JAVASCRIPT.decode_ast(text) == record


@pytest.mark.parametrize(
    "text",
    [
        "[open(a: 1)]",
        "[open(a=1, a=2)]",
        "[open(b, c)]",
        "[open(a=1",
        "[open(a=1.5f)]",
        "[open(a={}; close()]",
        "Call: [open(a=1)]",
        "I cannot help with that.",
    ],
)
def test_what_the_official_decoder_refuses_is_refused(text: str) -> None:
    with pytest.raises(DecodeError):
        JAVASCRIPT.decode_ast(text)


@given(st.lists(st.sampled_from(TOKENS), max_size=25).map("".join) | st.text(max_size=60))
@example("[foo.bar(a=1, b=\ud800)]")
def test_any_text_gives_calls_or_a_decode_error(text: str) -> None:
    assert kinds_of_failure(JAVASCRIPT, text) <= {"syntax", "shape", "value", "size"}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_texts_made_to_hang_are_read_or_refused_at_once(text: str) -> None:
    # A median keeps other processes out of it; ten times the 50 milliseconds this takes at most on
    # an idle machine.
    assert sorted(seconds_to_decode(JAVASCRIPT, text) for _ in range(3))[1] < 0.5


names = st.from_regex(r"[a-z][a-zA-Z]{0,8}(\.[A-Z][a-z]{0,5})?", fullmatch=True)
plain_values = st.one_of(
    st.integers(-(10**6), 10**6).map(str),
    st.floats(-1e3, 1e3).map(lambda value: f"{value:.3f}"),
    st.sampled_from(["true", "null", "[1, 'a']", "{a: {b: 1}}", "() => { return 1; }", "/a+/g"]),
    st.text(
        st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp"), exclude_characters='"\\'),
        max_size=20,
    ),
)


@settings(max_examples=50)
@given(
    names,
    st.dictionaries(st.from_regex(r"arg[A-Z]{0,3}", fullmatch=True), plain_values, max_size=4),
)
def test_what_is_written_is_read_back(name: str, arguments: dict[str, str]) -> None:
    assume(javascript_calls._RESERVED.isdisjoint(name.split(".")))
    calls = [Call(name, arguments)]
    text = JAVASCRIPT.render(calls)
    assert JAVASCRIPT.decode(text) == calls
    assert JAVASCRIPT.render(JAVASCRIPT.decode(text)) == text
    assert JAVASCRIPT.decode(text[1:-1]) == calls


def test_canonical_text_quotes_what_is_no_literal() -> None:
    arguments: dict[Any, str] = {
        "width": "5",
        "label": "a b",
        "size": "[1, 2]",
        "by": 'say "no"',
        None: "x",
    }
    written = '[desk.open(width=5, label="a b", size=[1, 2], by=\'say "no"\', x)]'
    assert JAVASCRIPT.render([Call("desk.open", arguments)]) == written
    assert JAVASCRIPT.render([]) == "[]"


@pytest.mark.parametrize(
    "calls",
    [
        [Call("open", {}), Call("close", {})],
        [Call("open", {"a": [1]})],
        [Call("open", {"a": "two\nlines of words"})],
        [Call("open desk", {})],
        [Call("new Desk", {"a": "1"})],
    ],
)
def test_what_the_form_cannot_say_is_refused_by_render(calls: list[Call]) -> None:
    with pytest.raises(ValueError, match="javascript_calls"):
        JAVASCRIPT.render(calls)


@given(
    st.lists(
        st.sampled_from(
            [
                "a",
                "foo",
                "b1",
                "$c",
                "_d",
                "true",
                "this",
                "of",
                "await",
                "new",
                "using",
                "class",
                "é",
            ]
        ),
        min_size=1,
        max_size=2,
    ).map(".".join),
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c1", "false", "this", "let", "in"]),
            st.sampled_from(
                [
                    *(
                        "1",
                        "-1.5",
                        "007",
                        "1.",
                        '"x, y"',
                        '"//"',
                        "''",
                        "'xy'",
                        "a.b",
                        "true",
                        "null",
                        "super",
                    ),
                    *(
                        "x.new",
                        "é",
                        "[]",
                        "{}",
                        '[1, "a", -2.5, x]',
                        "[true, x.true]",
                        "[[1]]",
                        '["//", null,]',
                    ),
                    *(
                        "[in]",
                        "{a: 1, b:[x]}",
                        '{k: "v, }", m: true}',
                        "{true: 1}",
                        "{new: 1}",
                        "{a: new}",
                    ),
                    *('{"a": 1}', "{a}", "{a: {b: 1}}"),
                ]
            ),
        ),
        min_size=1,
        max_size=4,
    ),
)
def test_plain_calls_are_read_as_the_grammar_reads_them(
    name: str, pairs: list[tuple[str, str]]
) -> None:
    source = f"{name}({', '.join(f'{key}={value}' for key, value in pairs)})"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_calls.SourceCalls, "parse_plain_call", lambda *_: None)
        by_grammar = official_record(JAVASCRIPT, source)
    assert official_record(JAVASCRIPT, source) == by_grammar


@pytest.mark.parametrize(
    ("text", "name", "item", "value"),
    [
        ("'a'", "String", None, "a"),
        ("\"a'", "String", None, "\"a'"),
        ('"', "String", None, ""),
        ("5", "integer", None, 5),
        ("5.0", "integer", None, "5.0"),
        ("9" * 5_000, "integer", None, "9" * 5_000),
        ("5", "float", None, 5.0),
        ("1e3", "float", None, "1e3"),
        ("5n", "Bigint", None, 5),
        ("5", "Bigint", None, "5"),
        ("false", "Boolean", None, False),
        ("False", "Boolean", None, "False"),
        ("5", "any", None, "5"),
        ("[1, 2]", "array", "integer", [1, 2]),
        ("[1, 2.5, x]", "array", "float", [1.0, 2.5, "x"]),
        ("[1, 'a, b', true]", "array", None, [1, "'a", "b'", True]),
        ("['a', \"b\", c]", "array", "String", ["a", "b", "c"]),
        ("[1, 2,]", "array", "integer", [1, 2, ""]),
        ("[ ]", "array", "integer", []),
        ("new Array(1, 2)", "array", "integer", [1, 2]),
        ("[1, 2] and more", "array", "integer", [1, 2]),
        ("[1,\n2]", "array", "integer", "[1,\n2]"),
        ("[[1, 2], ['a']]", "array", "array", [[1, 2], ["a"]]),
        ("[ [1],\n[2] ]", "array", "array", [[1], [2]]),
        ("new Array([1], [2, 3])", "array", "integer", [[1], [2, 3]]),
        ("[[1], 2]", "array", "integer", ["[1"]),
        ("[[]]", "array", "integer", [[""]]),
        ("[1, " + "9" * 5_000 + "]", "array", "integer", "[1, " + "9" * 5_000 + "]"),
        ("{}", "dict", None, {}),
        (
            "{a: 1, 'b': '5', \"c d\": [1, x], e: true}",
            "dict",
            None,
            {"a": 1, "b": 5, "c d": [1, "x"], "e": True},
        ),
        ("{a: 'x, y', b: 'u: v, w: z'}", "dict", None, {"a": "x, y", "b": "u: v", "w": "z"}),
        ("{a: {b: 1}, c: 2}", "dict", None, {"a": "{b: 1"}),
        ("{a: 1,\n b: 2}", "dict", None, "{a: 1,\n b: 2}"),
        ("{a, b: 1, ...c}", "dict", None, {"a, b": "1, ...c"}),
        ("{a: 1, : 2}", "dict", None, {"a": 1, "": 2}),
        ("x", "dict", None, "x"),
    ],
)
def test_texts_become_values_as_bfcl_converts_them(
    text: str, name: str, item: str | None, value: Any
) -> None:
    converted = parse_javascript_value(text, name, item)
    assert type(converted) is type(value)
    assert converted == value


def test_only_text_is_converted_and_the_documented_type_must_be_known() -> None:
    assert JAVASCRIPT_ARGUMENTS.prepare_argument("5", {"type": "float"}) == PreparedArgument(
        5.0, float
    )
    assert JAVASCRIPT_ARGUMENTS.prepare_argument(
        "[]", {"type": "array", "items": {"type": "String"}}
    ) == PreparedArgument([], list, str)
    fault = JAVASCRIPT_ARGUMENTS.prepare_argument(None, {"type": "String"})
    assert isinstance(fault, Fault)
    assert fault.error_type == "type_error:js"
    with pytest.raises(
        ValueError, match="documented JavaScript type 'string': expected one of String"
    ):
        JAVASCRIPT_ARGUMENTS.prepare_argument("5", {"type": "string"})


pieces = st.sampled_from(
    ["[", "]", "[1]", "[a, b]", ",", ", ", " ", "\n", "1", "x", "[[", "]]", ")", "new Array("]
)


@given(st.lists(pieces, max_size=14).map("".join), st.sampled_from(["[", "new Array("]))
def test_arrays_of_arrays_end_where_the_backtracking_pattern_ends_them(
    middle: str, opening: str
) -> None:
    # The pattern is exponential in the worst case, so the texts are short; the walk that replaces
    # it is not.
    text = f"{opening}{middle}{']' if opening == '[' else ')'}".strip()
    rest = r"\[.*?\]\s*(,\s*\[.*?\]\s*)*"
    found = re.match(rf"\[\s*{rest}\]|new\s+Array\(\s*{rest}\)", text)
    expected = text if found is None else len(re.findall(r"\[(.*?)\]", found[0]))
    converted = parse_javascript_value(text, "array", "any")
    if found:
        assert [type(inner) for inner in converted] == [list] * int(expected)
    else:
        assert not isinstance(converted, list) or all(isinstance(inner, str) for inner in converted)


@pytest.mark.parametrize(
    "text",
    ["[[1]" + ",[1]" * 5_000, "{" + "a:1," * 5_000 + "}", "{" + ", :" * 5_000 + "}", "[" * 20_000],
)
def test_values_made_to_hang_are_converted_at_once(text: str) -> None:
    start = time.process_time()
    for name in ("array", "dict"):
        parse_javascript_value(text, name)
    assert time.process_time() - start < 1


def test_a_missing_grammar_is_told_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tree_sitter_javascript", None)
    source_calls.tree_sitter_grammar.cache_clear()
    with pytest.raises(MissingExtra, match=r"pip install 'fctncalling\[javascript\]'"):
        JAVASCRIPT.decode("[open(width=5, label=1, on=true)]")
    source_calls.tree_sitter_grammar.cache_clear()


TASK = Task(
    id="simple_javascript_0",
    category="simple_javascript",
    question=(({"role": "user", "content": "Open it."},),),
    functions=(
        FunctionDoc(
            "open",
            "",
            {"type": "dict", "properties": {"width": {"type": "float"}}, "required": ["width"]},
        ),
    ),
    ground_truth=({"open": {"width": [5.0]}},),
)


@pytest.mark.parametrize(
    ("response", "error_type"),
    [
        ("[open(width=5)]", None),
        ("[open(width='5.0')]", None),
        ("[open(width=5n)]", "type_error:simple"),
        ("[open({width: 5})]", "simple_function_checker:missing_required"),
        ("[open(width: 5)]", "ast_decoder:decoder_failed"),
        ("desk", "ast_decoder:decoder_wrong_output_format"),
    ],
)
def test_an_answer_is_judged_from_its_text(response: str, error_type: str | None) -> None:
    assert judge(TASK, response).error_type == error_type
