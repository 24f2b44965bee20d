"""Lines of conversation logs that no reader expects."""

from __future__ import annotations

import json
from typing import Any

ZONES = ("lawn", "beds", "roses")


def hostile_logs() -> dict[str, bytes]:
    """Return name -> one line that makes no task."""
    calls = {name: _line(calls) for name, calls in _odd_calls().items()}
    return {**_odd_lines(), **calls, **_odd_messages()}


def _line(calls: Any, text: Any = "water the lawn", **more: Any) -> bytes:
    user = {"role": "user", "content": text}
    return json.dumps([user, {"role": "assistant", "tool_calls": calls, **more}]).encode()


def _call(arguments: Any, name: Any = "water_zone") -> list[dict[str, Any]]:
    return [{"function": {"name": name, "arguments": arguments}}]


def _odd_lines() -> dict[str, bytes]:
    return {
        "noise": bytes(each for each in range(256) if each != 10),
        "zeros": b"\0" * 100_000,
        "latin": '{"messages": "Gr\u00fc\u00dfe"}'.encode("latin-1"),
        "utf_16": '{"messages": []}'.encode("utf-16").replace(b"\n", b""),
        "nested_lists": b"[" * 100_000,
        "nested_objects": b'{"messages":' * 50_000,
        "half": b'{"messages": [',
        "number": b"5",
        "digits": b"9" * 10_000,
        "text": b'"messages"',
        "null": b"null",
        "not_a_number": b"NaN",
        "empty_list": b"[]",
        "empty_object": b"{}",
        "messages_number": b'{"messages": 5}',
        "messages_text": b'{"messages": "hello"}',
        "messages_object": b'{"messages": {"role": "user"}}',
        "messages_of_texts": b'{"messages": ["a", "b"]}',
        "long": b'{"messages": "' + b"x" * 9_000_000 + b'"}',
        "many_lists": b"[" + b"[]," * 1_300_000 + b"[]]",
        "escapes": b'{"messages": "\x1b[2J"}',
    }


def _odd_calls() -> dict[str, Any]:
    deep: Any = "lawn"
    for _ in range(400):
        deep = [deep]
    return {
        "calls_number": 5,
        "calls_text": "water_zone",
        "calls_object": {"function": {"name": "water_zone"}},
        "calls_of_texts": ["water_zone"],
        "calls_true": True,
        "calls_thousand": _call({"zone": "lawn"}) * 1_000,
        "function_text": [{"function": "ls"}],
        "function_null": [{"function": None}],
        "function_list": [{"function": []}],
        "name_null": _call({}, None),
        "name_object": _call({}, {"a": 1}),
        "name_escapes": _call({}, "\x1b[2J\x07evil\n\n"),
        "name_long": _call({}, "x" * 1_000_000),
        "name_foreign": _call({}, "mow"),
        "arguments_number": _call(7),
        "arguments_list": _call([1]),
        "arguments_broken": _call('{"zone": '),
        "arguments_nested": _call("[" * 100_000),
        "arguments_digits": _call('{"minutes": ' + "9" * 10_000 + "}"),
        "arguments_foreign": _call({"\x1b]0;x": 1}),
        "arguments_deep": _call({"zone": deep}),
        "arguments_surrogate": _call({"zone\ud800": "lawn"}),
        "arguments_infinite": _call('{"minutes": Infinity}'),
    }


def _odd_messages() -> dict[str, bytes]:
    good = _call({"zone": "lawn"})
    return {
        "content_null": _line(good, None),
        "content_list": _line(good, [{"type": "image", "source": {"data": "lawn"}}]),
        "content_blank": _line(good, " \n"),
        "content_long": _line(good, "water " * 50_000),
        "role_list": _line(good, role=["assistant"]),
        "only_user": json.dumps([{"role": "user", "content": "hello"}]).encode(),
    }
