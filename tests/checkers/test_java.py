"""Calls written in Java: BFCL's decoder, its converter and its verdicts, oddities included."""

from __future__ import annotations

import sys
from collections.abc import Iterator
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

from fctncalling.checkers import check
from fctncalling.checkers.java_values import JAVA_ARGUMENTS, parse_java_value
from fctncalling.checkers.python_values import Fault, PreparedArgument
from fctncalling.data.types import Call, FunctionDoc, Task
from fctncalling.envs.episode_runner import parse_message
from fctncalling.envs.errors import MissingExtra
from fctncalling.envs.handlers import DecodeError, get_handler, java_calls, source_calls
from fctncalling.envs.judging.judge import judge

JAVA = get_handler("java_calls")


@pytest.mark.parametrize("name", ["simple_java", "fc_simple_java"])
def test_verdicts_are_the_official_ones(
    shared: Path, verdict_counter: VerdictCounter, name: str
) -> None:
    compare_verdicts(shared, name, verdict_counter)


def test_the_decoder_gives_the_official_values_and_failures(
    shared: Path, verdict_counter: VerdictCounter
) -> None:
    compare_decoded(shared, "java", verdict_counter)


@pytest.mark.parametrize(
    ("text", "record"),
    [
        ('[Desk.open(width=5, label="a b")]', [{"Desk.open": {"width": "5", "label": "a b"}}]),
        ('Desk.open(width=5, label="a b")', [{"Desk.open": {"width": "5", "label": "a b"}}]),
        (
            "```\n[Desk.open(width=5, label='a');]\n```",
            [{"Desk.open": {"width": "5", "label": "a"}}],
        ),
        ("[open(a=1); close(b=2);]", [{"open": {"a": "1"}}]),
        ("[(desk.open(a=1));]", [{"desk.open": {"a": "1"}}]),
        ("[a.b().c(d=1);]", [{"a.b().c": {"d": "1"}}]),
        ("[open();]", [{"open": {}}]),
        ("[open(a.b = x.y , c[0]=1);]", [{"open": {"a.b": "x.y", "c[0]": "1"}}]),
        ("[open(a += 1);]", [{"open": {"a": "1"}}]),
        ('[open(desk, 5, "x", a=1);]', [{"open": {None: "desk", "a": "1"}}]),
        ("[open(a=x instanceof Y);]", [{"open": {"a": "xinstanceofY"}}]),
        ("[open(a=(int) 5);]", [{"open": {"a": "(int)5"}}]),
        ("[open(a=b . c( 1 ));]", [{"open": {"a": "b . c( 1 )"}}]),
        ('[open(a=new String[] { "b" , c });]', [{"open": {"a": 'new String[]{"b",c}'}}]),
        ("[open(a=new Date( 1 ,2 ) {});]", [{"open": {"a": "new Date(1, 2)"}}]),
        (
            '[open(a=new HashMap<String, Object>() {{ put("b", 1); }});]',
            [{"open": {"a": "new HashMap<String,Object>()"}}],
        ),
        ("[open(a=/* b */ 1);]", [{"open": {"a": "/* b */"}}]),
        ('[open(a="\\"b\\"");]', [{"open": {"a": '\\"b\\"'}}]),
        ('[open(a="""\nb "c"\n""");]', [{"open": {"a": '""\nb "c"\n""'}}]),
        ('[open(a="é", b="x");]', [{"open": {"a": 'é"', "=": '"'}}]),
        ("[]", {}),
        ("", {}),
        ("[new Desk(a=1);]", {}),
        ("[int a;]", {}),
    ],
)
def test_the_official_decoder_s_oddities_are_kept(text: str, record: Any) -> None:
    assert JAVA.decode_ast(text) == record


@pytest.mark.parametrize(
    "text",
    [
        "[open(a=1), close(b=2)]",
        "[open(a=1)]",  # too short for the parser to find the missing semicolon worth its price
        "[open(a=[1, 2], b=3);]",
        "[open(a={1, 2}, b=3);]",
        "[open(a: 1, b: 2)]",
        "[open(a=1, a=2);]",
        "[open(b, c);]",
        "[open(a=new int[5]);]",
        "[open(a=1, b=2",
        "Call: [open(a=1, b=2)]",
        "I cannot help with that.",
        "[open(a=\"é, b='x');]",
    ],
)
def test_what_the_official_decoder_refuses_is_refused(text: str) -> None:
    with pytest.raises(DecodeError):
        JAVA.decode_ast(text)


@given(st.lists(st.sampled_from(TOKENS), max_size=25).map("".join) | st.text(max_size=60))
@example("[Foo.bar(a=1, b=\ud800)]")
def test_any_text_gives_calls_or_a_decode_error(text: str) -> None:
    assert kinds_of_failure(JAVA, text) <= {"syntax", "shape", "value", "size"}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_texts_made_to_hang_are_read_or_refused_at_once(text: str) -> None:
    # A median keeps other processes out of it; ten times the 50 milliseconds this takes at most on
    # an idle machine.
    assert sorted(seconds_to_decode(JAVA, text) for _ in range(3))[1] < 0.5


def test_text_that_says_it_holds_no_call_holds_none() -> None:
    assert JAVA.decode("[]") == []
    with pytest.raises(DecodeError) as caught:
        JAVA.decode("[int a;]")
    assert caught.value.kind == "shape"


names = st.from_regex(r"[a-z][a-zA-Z]{0,8}(\.[A-Z][a-z]{0,5})?", fullmatch=True)
plain_values = st.one_of(
    st.integers(-(10**6), 10**6).map(str),
    st.floats(-1e3, 1e3).map(lambda value: f"{value:.3f}"),
    st.sampled_from(
        ["true", "false", "null", "new ArrayList<>(Arrays.asList(1, 2))", "new int[]{1, 2}"]
    ),
    st.text(
        st.characters(min_codepoint=32, max_codepoint=126, exclude_characters='"\\'), max_size=20
    ),
    st.just('""new HashMap<String, Object>() {{ put("a", 1); }}""'),
)


@settings(max_examples=50)
@given(
    names,
    st.dictionaries(st.from_regex(r"arg[A-Z]{0,3}", fullmatch=True), plain_values, max_size=4),
)
def test_what_is_written_is_read_back(name: str, arguments: dict[str, str]) -> None:
    assume(java_calls._RESERVED.isdisjoint(name.split(".")))
    calls = [Call(name, arguments)]
    text = JAVA.render(calls)
    assert JAVA.decode(text) == calls
    assert JAVA.render(JAVA.decode(text)) == text
    assert JAVA.decode(text[1:-1]) == calls


def test_canonical_text_is_ended_as_java_and_quotes_what_is_no_literal() -> None:
    arguments: dict[Any, str] = {
        "width": "5",
        "on": "true",
        "label": "a b",
        "kind": "Kind.OAK",
        None: "x",
    }
    assert (
        JAVA.render([Call("Desk.open", arguments)])
        == '[Desk.open(width=5, on=true, label="a b", kind="Kind.OAK", x);]'
    )
    assert JAVA.render([]) == "[]"


@pytest.mark.parametrize(
    "calls",
    [
        [Call("open", {}), Call("close", {})],
        [Call("open", {"a": 5})],
        [Call("open", {"a": 'say "no", don\'t'})],
        [Call("open", {"a": "é", "b": "x"})],
        [Call("open desk", {})],
        [Call("", {})],
    ],
)
def test_what_the_form_cannot_say_is_refused_by_render(calls: list[Call]) -> None:
    with pytest.raises(ValueError, match="java_calls"):
        JAVA.render(calls)


@given(
    st.lists(
        st.sampled_from(
            [
                "a",
                "Foo",
                "b1",
                "$c",
                "_d",
                "true",
                "null",
                "int",
                "yield",
                "new",
                "record",
                "var",
                "é",
            ]
        ),
        min_size=1,
        max_size=2,
    ).map(".".join),
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c1", "false", "this", "to", "enum"]),
            st.sampled_from(
                [
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
                    "x.new",
                    "é",
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
        by_grammar = official_record(JAVA, source)
    assert official_record(JAVA, source) == by_grammar


@pytest.mark.parametrize(
    ("text", "name", "item", "value"),
    [
        ("5", "integer", None, 5),
        ("-5\n", "integer", None, -5),
        ("5.0", "integer", None, "5.0"),
        ("9" * 5_000, "integer", None, "9" * 5_000),
        ("5L", "long", None, 5),
        ("5", "long", None, "5"),
        ("5", "double", None, 5.0),
        ("1.5e3", "double", None, 1500.0),
        ("1.5f", "double", None, "1.5f"),
        ("1.5F", "float", None, 1.5),
        ("1.5", "float", None, "1.5"),
        ("true", "boolean", None, True),
        ("True", "boolean", None, "True"),
        ("'a'", "char", None, "'a'"),
        ("5", "any", None, "5"),
        ("new int[]{1, 2,, 3}", "Array", "integer", [1, 2, 3]),
        ("x = new int[] {1}; y", "Array", "integer", [1]),
        ('new String[]{"a", b}', "Array", "String", ['"a"', "b"]),
        ("new int[]{1,\n2}", "Array", "integer", "new int[]{1,\n2}"),
        ("[1, 2]", "Array", "integer", "[1, 2]"),
        ('new ArrayList<>(Arrays.asList("a", b))', "ArrayList", "String", ["a", ""]),
        ("new ArrayList<Long>(Arrays.asList(1L, 2))", "ArrayList", "long", [1, "2"]),
        ("new ArrayList<Integer>() {{ add(1); add(2); }}", "ArrayList", "integer", [1, 2]),
        ("new ArrayList<>() {{ }}", "ArrayList", "integer", []),
        ("new ArrayList<Map<A>>()", "ArrayList", "any", "new ArrayList<Map<A>>()"),
        ("Arrays.asList(1)", "ArrayList", "integer", "Arrays.asList(1)"),
        (
            'new HashMap<String, Object>() {{ put("a", 1L); put("b", "c)"); put("d", nan); put(e, '
            "1); }}",
            "HashMap",
            None,
            {"a": 1, "b": '"c', "d": pytest.approx(float("nan"), nan_ok=True)},
        ),
        ('new HashMap<>() { put("a", true); }', "HashMap", None, {"a": True}),
        ('new HashMap<>() {{ put("a", "}"); put("b", 1); }}', "HashMap", None, {}),
        ("new HashMap<>()", "HashMap", None, {}),
        ("Map.of()", "HashMap", None, "Map.of()"),
    ],
)
def test_texts_become_values_as_bfcl_converts_them(
    text: str, name: str, item: str | None, value: Any
) -> None:
    converted = parse_java_value(text, name, item)
    assert type(converted) is type(value)
    assert converted == value


def test_only_text_is_converted_and_the_documented_type_must_be_known() -> None:
    assert JAVA_ARGUMENTS.prepare_argument("5", {"type": "integer"}) == PreparedArgument(5, int)
    assert JAVA_ARGUMENTS.prepare_argument(
        "new int[]{}", {"type": "Array", "items": {"type": "char"}}
    ) == PreparedArgument([], list, str)
    fault = JAVA_ARGUMENTS.prepare_argument(5, {"type": "integer"})
    assert isinstance(fault, Fault)
    assert fault.error_type == "type_error:java"
    for unknown in ("Set", "int", None):
        with pytest.raises(ValueError, match=r"documented Java type .*: expected one of byte"):
            JAVA_ARGUMENTS.prepare_argument("5", {"type": unknown})


@given(st.sampled_from(["Array", "ArrayList", "HashMap", "long", "double"]), st.text(max_size=40))
@example("HashMap", "new HashMap<>() {{ " + 'put("' * 3_000)
@example("ArrayList", "new ArrayList<>(Arrays.asList(\n" * 3_000)
def test_any_text_has_a_value(name: str, text: str) -> None:
    parse_java_value(text, name, None)


def test_a_missing_grammar_is_told_with_its_cure_and_is_no_answer_s_fault(
    without_grammar: None,
) -> None:
    for use in (
        lambda: JAVA.decode("[Desk.open(width=5, label=1)]"),
        lambda: parse_message(JAVA, "[Desk.open(width=5, label=1)]", executes=False),
        lambda: judge(TASK, "[Desk.open(width=5, label=1)]"),
    ):
        with pytest.raises(MissingExtra, match=r"pip install 'fctncalling\[java\]'") as told:
            use()
        assert told.value.__suppress_context__, "one traceback, not two"


@pytest.fixture
def without_grammar(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "tree_sitter_java", None)
    source_calls.tree_sitter_grammar.cache_clear()
    yield
    source_calls.tree_sitter_grammar.cache_clear()


TASK = Task(
    id="simple_java_0",
    category="simple_java",
    question=(({"role": "user", "content": "Open it."},),),
    functions=(
        FunctionDoc(
            "Desk.open",
            "",
            {"type": "dict", "properties": {"width": {"type": "integer"}}, "required": ["width"]},
        ),
    ),
    ground_truth=({"Desk.open": {"width": [5]}},),
)


@pytest.mark.parametrize(
    ("response", "error_type"),
    [
        ("[Desk.open(width=5);]", None),
        ('[Desk.open(width="5")]', None),
        ("[Desk.open(width=5L);]", "type_error:simple"),
        ("[Desk.open(width=6);]", "value_error:others"),
        ("[Desk.open(5, a=1);]", "simple_function_checker:missing_required"),
        ("Desk", "ast_decoder:decoder_failed"),
        ("[]", "ast_decoder:decoder_wrong_output_format"),
    ],
)
def test_an_answer_is_judged_from_its_text(response: str, error_type: str | None) -> None:
    assert judge(TASK, response).error_type == error_type
    assert check(TASK, official_record(JAVA, response)).error_type == error_type
