"""Each quick reader reads a text as the full parser of its language does, or leaves it alone."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fctncalling.envs.handlers import (
    DecodeError,
    get_handler,
    java_calls,
    javascript_calls,
    python_calls,
    source_calls,
)
from fctncalling.envs.handlers.handler import Handler

QUICK = {
    "python": (python_calls, "parse_plain_calls"),
    "java": (source_calls.SourceCalls, "parse_plain_call"),
    "javascript": (source_calls.SourceCalls, "parse_plain_call"),
}
"""Language -> where the quick reader lies that is asked first, and its name there."""


def outcome(handler: Handler, text: str) -> str:
    try:
        return repr(handler.decode_ast(text))  # as text: types and signs count
    except DecodeError:
        return "no calls"


def by_grammar(language: str, text: str) -> str:
    owner, name = QUICK[language]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, lambda *_, **__: None)
        patch.setattr(
            java_calls, "_PLAIN_CALL", re.compile(r"(?!)")
        )  # nor is the semicolon put that the parser misses
        return outcome(get_handler(f"{language}_calls"), text)


def require_equal(language: str, text: str) -> None:
    assert outcome(get_handler(f"{language}_calls"), text) == by_grammar(language, text), text


def keywords(language: str) -> list[str]:
    """Return every word a grammar treats as one."""
    _, symbols = source_calls.tree_sitter_grammar(language)
    kinds = (symbols.node_kind_for_id(each) for each in range(symbols.node_kind_count))
    return sorted({str(kind) for kind in kinds if kind and kind.isalpha() and kind.islower()})


NAMES = st.sampled_from(
    ["a", "b", "Foo", "b1", "_d", "valueOf", "someKey", "otherKey", "undefined"]
)
CONSTANTS = st.sampled_from(["true", "null", "None", "True"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(".".join)
NUMBERS = st.sampled_from(
    ["0", "7", "-5", "12", "3.25", "-0.5", "10.0", "0.0", "-0", "99999999999999999999", "1e3"]
)
INSIDE = [*"ab 0.,:;=()[]{}<>/*+-#$@", "//", "/*", "null"]
STRINGS = st.tuples(st.sampled_from('""\''), st.lists(st.sampled_from(INSIDE), max_size=5)).map(
    lambda pair: f"{pair[0]}{''.join(pair[1])}{pair[0]}"
)
WORDS = {
    "python": ["if", "lambda", "match", "await", "print", "__debug__", "None", "and"],
    "java": keywords("java"),
    "javascript": keywords("javascript"),
}
ODD = [
    *"()[]{}<>,.:;=+-*/%&|!?~^@#$\\'\"` \n\r\t\0\x0b\x0c\xa0\u2028\u0665é_019xLfnej",
    *(
        "//",
        "/*",
        "*/",
        "/* c */",
        "// c\n",
        "# c\n",
        "=>",
        "->",
        "::",
        "?.",
        "...",
        "**",
        "${",
        '"""',
        "()",
        "[0]",
    ),
    *(
        "0x1F",
        "007",
        "1_000",
        "5L",
        "5n",
        "1.5f",
        "1E-3",
        "1e999",
        "5.",
        ".5",
        " + 1",
        "(int) ",
        "new ",
        "new int[]",
    ),
    *(
        "null",
        "True",
        "f(a=1)",
        "{a: 1}",
        "[1]",
        "\\u0041",
        "\\n",
        "\ud800",
        ", ",
        ",,",
        " if 1 else 2",
        "$c",
        "__e",
    ),
]


def listed(
    items: st.SearchStrategy[str], brackets: str, *, least: int = 0
) -> st.SearchStrategy[str]:
    comma, inside = st.sampled_from([", ", ", ", ","]), st.lists(items, min_size=least, max_size=4)
    return st.tuples(comma, inside).map(
        lambda pair: f"{brackets[0]}{pair[0].join(pair[1])}{brackets[1]}"
    )


def plain(language: str) -> st.SearchStrategy[str]:
    """Return calls as a model writes them."""
    scalars = st.one_of(
        STRINGS, STRINGS, NUMBERS, CONSTANTS if language == "python" else CONSTANTS | PATHS
    )
    lists, colon = listed(scalars, "[]"), st.sampled_from([": ", ":"])
    pairs = st.tuples(STRINGS if language == "python" else NAMES, colon, scalars | lists).map(
        "".join
    )
    values = scalars if language == "java" else st.one_of(scalars, lists, listed(pairs, "{}"))
    arguments = listed(st.tuples(NAMES, st.just("="), values).map("".join), "()", least=1)
    return st.tuples(st.just("someDesk."), PATHS, arguments).map("".join)


def nearly_plain(language: str) -> st.SearchStrategy[str]:
    """Return plain calls of which most are changed in one place or two."""
    pieces = st.sampled_from(ODD) | st.sampled_from(WORDS[language])
    edits = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 2), pieces), max_size=2)

    def edited(pair: tuple[str, list[tuple[float, int, str]]]) -> str:
        text, changes = pair
        for where, num_lost, piece in changes:
            at = int(where * len(text))
            text = text[:at] + piece + text[at + num_lost :]
        return text

    return st.tuples(plain(language), edits).map(edited)


TEXTS = {language: nearly_plain(language) for language in QUICK}
LANGUAGES = pytest.mark.parametrize("language", TEXTS)


@LANGUAGES
@given(data=st.data())
def test_a_call_is_read_as_its_grammar_reads_it(language: str, data: Any) -> None:
    require_equal(language, f"[{data.draw(TEXTS[language])}]")


@pytest.mark.prove
@LANGUAGES
@settings(max_examples=5_000)
@given(data=st.data())
def test_many_calls_are_read_as_their_grammar_reads_them(language: str, data: Any) -> None:
    require_equal(language, f"[{data.draw(TEXTS[language])}]")


@pytest.mark.parametrize("language", ["java", "javascript"])
def test_every_word_of_a_grammar_is_read_wherever_a_name_may_stand(language: str) -> None:
    for word in keywords(language):
        for source in (
            f"{word}(someValue=1, someOther=2)",
            f"{word}.place(someValue=1, someOther=2)",
            f"place.{word}(someValue=1, someOther=2)",
            f"place({word}=1, someValue=2, other=3)",
            f"place(someValue={word}, someOther=2)",
            f"place(someValue={word}.x, someOther=2)",
            f"place(someValue=x.{word}, someOther=2)",
            f"place(someValue=[{word}], someOther=2)",
            f"place(someValue={{{word}: 1}}, some=2)",
            f"place(someValue={{a: {word}}}, some=2)",
        ):
            require_equal(language, f"[{source}]")


@pytest.mark.parametrize("language", TEXTS)
def test_no_character_is_read_otherwise_inside_a_string(language: str) -> None:
    for code in (*range(256), 0x2028, 0x2029, 0xFEFF, 0xD800, 0x1F600):
        for quote in "\"'":
            require_equal(
                language,
                f"[place(someValue={quote}a{chr(code)}b{quote}, someOther={quote}{quote})]",
            )


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("python", "[f(a='x', b=[1, -2.5], c={'k': True})]"),
        ("java", '[Desk.place(width=-5.25, label="a, b", kind=Kind.OAK)]'),
        ("javascript", "[desk.place(sizes=[1, 'a', x], by={a: 1, b: [true, null]})]"),
    ],
)
def test_plain_calls_need_no_parser(
    language: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = by_grammar(language, text)

    def unasked(*_: Any) -> Any:
        raise AssertionError("the full parser was asked")

    for module, name in (
        (python_calls, "parse_expression"),
        (java_calls, "syntax_tree_root"),
        (javascript_calls, "syntax_tree_root"),
    ):
        monkeypatch.setattr(module, name, unasked)
    assert outcome(get_handler(f"{language}_calls"), text) == expected
