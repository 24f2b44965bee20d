"""What the tests of both source languages share: BFCL's recorded tables, texts made to hang,
decoding as a value.
"""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path
from typing import Any

from conftest import VerdictCounter

from fctncalling.cli.shared.jsonl_records import read_records
from fctncalling.cli.verdicts import RecordJudge
from fctncalling.envs.handlers import DecodeError, Handler, get_handler

TOKENS = [
    *(
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ";",
        "=",
        ".",
        "<",
        ">",
        "/*",
        "*/",
        "//",
        '"',
        "'",
        "`",
        "\\",
        "\n",
        " ",
    ),
    *(
        "f",
        "Foo.bar",
        "a=1",
        "new ",
        "int[]",
        "x => x",
        "x -> x",
        "1",
        "-",
        "!",
        "é",
        "😀",
        "\0",
        "\ud800",
        "null",
    ),
]
"""What random texts are made of: enough grammar to get past the first bracket."""

HOSTILE = {
    "parentheses": "[f(a=" + "(" * 8_000 + ")" * 8_000 + ")]",
    "open brackets": "[f(" + "[" * 16_000,
    "comparisons": "a<" * 8_000,
    "arrows": "x=>" * 5_000,
    "unary": "f(a=" + "!" * 16_000 + "x)",
    "negative": "f(" + "->" * 750,
    "lost operators": "f(a=" + "+," * 750,
    "hidden in a comment": "f(a=" + '/*"*/ a<b' * 1_600,
    "casts": "f(a=" + "(A)" * 5_000 + "x)",
    "lambdas": "f(" + "(a)->" * 3_000 + "b)",
    "templates": "`${" * 5_000,
    "quotes": '"' * 16_000,
    "words": "a b " * 4_000,
    "fields": "a." * 8_000 + "f()",
    "arguments": "f(" + "a=1," * 4_000 + "b=1)",
    "calls": "f(a=1);" * 2_000,
    "null bytes": "\0" * 16_000,
    "megabyte string": 'f(a="' + "x" * 1_000_000 + '")',
    "megabyte brackets": "[" * 1_000_000,
    "half a surrogate pair": 'Foo.bar(a="\ud800", b=2)',
}


def compare_verdicts(shared: Path, name: str, counter: VerdictCounter) -> None:
    """Assert that every record of a table gets its recorded `valid` and `error_type`."""
    judge = RecordJudge(shared / "bfcl" / "data")
    lines = list(read_records(shared / "bfcl" / "verdicts" / f"{name}.jsonl.gz"))
    different = [line for line in lines if judge.judge_record(line) != line.record]
    counter.add(len(lines))
    assert lines
    assert not different, [
        (line.number, line.record["mutation"], judge.judge_record(line)) for line in different[:5]
    ]


def compare_decoded(shared: Path, language: str, counter: VerdictCounter) -> None:
    """Assert that every decoder case of a language gives the recorded value, or fails where it is
    recorded to.
    """
    handler = get_handler(f"{language}_calls")
    with gzip.open(
        shared / "bfcl" / "verdicts" / "decode_cases.jsonl.gz", "rt", encoding="utf-8"
    ) as file:
        cases = [case for case in map(json.loads, file) if case["format"] == language]
    for case in cases:
        # Where no call is found BFCL's JavaScript parser gives None and its Java parser {}: neither
        # is a list of calls.
        official = {"None": "{}"}.get(case.get("ast_repr"), case.get("ast_repr"))
        record = official_record(handler, case["input"])
        assert (None if record is None else repr(record)) == official, case
    counter.add(len(cases))
    assert cases


def official_record(handler: Handler, text: str) -> Any:
    """Return what a text decodes to for the checkers, None where it does not decode."""
    try:
        return handler.decode_ast(text)
    except DecodeError:
        return None


def kinds_of_failure(handler: Handler, text: str) -> set[str]:
    """Return the kinds of the DecodeErrors that the decoders of a handler raise on a text; any
    other error passes.
    """
    kinds = set()
    for decode in (handler.decode, handler.decode_ast, handler.decode_execute):
        try:
            decode(text)
        except DecodeError as error:
            kinds.add(error.kind)
    return kinds


def seconds_to_decode(handler: Handler, text: str) -> float:
    """Return the CPU seconds it takes to decode a text or to refuse it."""
    start = time.process_time()
    official_record(handler, text)
    return time.process_time() - start
