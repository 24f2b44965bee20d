"""Lenient modes: what a model meant is read, what was repaired is told, and nothing that is prose
becomes a call.
"""

from __future__ import annotations

import contextlib
import random
import time

import pytest
from players import DONE, Replay, shop_env, shop_task

from fctncalling.data.types import Call
from fctncalling.envs import errors
from fctncalling.envs.errors import MissingExtra
from fctncalling.envs.handlers import HANDLERS, DecodeError, get_handler
from fctncalling.envs.handlers.lenient import LenientCalls

CALLS = (Call("f", {"a": 1}),)
JSON = '{"name": "f", "arguments": {"a": 1}}'
REPAIRED = {
    "fence": ("python_calls", "```python\n[f(a=1)]\n```", ("code fence dropped",)),
    "around": (
        "python_calls",
        "Sure: [f(a=1)]. Anything else [or not]?",
        ("text around the calls dropped",),
    ),
    "lines": ("python_calls", "I call\nf(a=1)\nnow", ("text around the calls dropped",)),
    "thought": ("python_calls", "<think>[g()]</think>[f(a=1)]", ("reasoning dropped",)),
    "json around": ("json_calls", f"Sure: [{JSON}] is it", ("text around the calls dropped",)),
    "untagged": ("bfcl_python_tagged", "[f(a=1)]", ("<TOOLCALL> put around the calls",)),
}
BROKEN_JSON = {
    "quotes": ("json_calls", "[{'name': 'f', 'arguments': {'a': 1}}]"),
    "comma": ("mistral_calls", '[TOOL_CALLS][{"name": "f", "arguments": {"a": 1,}}]'),
    "hermes": ("hermes_calls", "<tool_call>\n{'name': 'f', 'arguments': {'a': 1}}\n</tool_call>"),
    "text": ("json_calls", '{"name": "f", "arguments": "{\\"a\\": 1}"}'),
    "cut off": ("llama_json_calls", '{"name": "f", "parameters": {"a": 1'),
}
PROSE = [
    "No function fits.",
    "Sorry (no).",
    "",
    "I think f is what you want; shall I?",
    "[1, 2]",
    "{}",
]


@pytest.mark.parametrize(("name", "text", "repairs"), REPAIRED.values(), ids=REPAIRED.keys())
def test_what_stands_around_calls_is_dropped_and_told(
    name: str, text: str, repairs: tuple[str, ...]
) -> None:
    reading = LenientCalls(get_handler(name), repair_json=False).decode_action(text)
    assert (reading.calls, reading.repairs) == (CALLS, repairs)


@pytest.mark.parametrize(("name", "text"), BROKEN_JSON.values(), ids=BROKEN_JSON.keys())
def test_broken_json_is_repaired_and_told(name: str, text: str) -> None:
    pytest.importorskip("json_repair")
    reading = get_handler(f"lenient:{name}")
    assert isinstance(reading, LenientCalls)
    assert reading.decode_action(text).calls == CALLS
    assert reading.decode_action(text).repairs[-1] == "JSON repaired"
    with contextlib.suppress(DecodeError):
        assert get_handler(name).decode(text) == []


@pytest.mark.parametrize("name", sorted(set(HANDLERS) - {"java_calls", "javascript_calls"}))
@pytest.mark.parametrize("text", PROSE)
def test_text_without_calls_is_read_as_the_strict_handler_reads_it(name: str, text: str) -> None:
    mode = LenientCalls(get_handler(name), repair_json=_installed())
    outcomes = []
    for handler in (get_handler(name), mode):
        try:
            outcomes.append(handler.decode(text))
        except DecodeError as error:
            outcomes.append([Call(error.kind, {})])
    assert outcomes[0] == outcomes[1]


def test_a_missing_library_is_told_and_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(errors, "import_module", missing)
    with pytest.raises(MissingExtra, match=r"fctncalling\[repair\]"):
        get_handler("lenient:json_calls")
    assert LenientCalls(get_handler("json_calls"), repair_json=False).decode(
        f"```\n{JSON}\n``` ok"
    ) == list(CALLS)
    assert get_handler("lenient:python_calls").decode("Sure: [f(a=1)]") == list(CALLS)


SLOW = {
    "quotes": '{"' * 20_000,
    "brackets": "(}[" * 13_000,
    "braces": "{" * 40_000,
    "fences": "```json\n" * 5_000,
    "tags": "<tool_call>\n" * 3_300,
    "words": "a." * 20_000,
    "calls": "f(" * 20_000,
}


@pytest.mark.parametrize("text", SLOW.values(), ids=SLOW.keys())
def test_no_text_takes_long_to_repair(text: str) -> None:
    for name in ("python_calls", "json_calls", "hermes_calls", "mistral_calls", "bfcl_json"):
        mode = LenientCalls(get_handler(name), repair_json=_installed())
        start = time.process_time()
        with contextlib.suppress(DecodeError):
            mode.decode(text)
        assert time.process_time() - start < 2  # seconds; most take milliseconds


def _installed() -> bool:
    try:
        get_handler("lenient:json_calls")
    except MissingExtra:
        return False
    return True


def test_the_environment_tells_what_was_repaired_and_a_strict_one_has_nothing_to_tell() -> None:
    texts = ["Sure:\n```python\n[sell(item='apple')]\n```", "[look()]", DONE]
    task = shop_task(["sell(item='apple')"])
    played = Replay(shop_env(task, handler="lenient:python_calls"), texts)
    assert [step[4]["repairs"] for step in played.steps] == [["code fence dropped"], [], []]
    assert played.valid
    strict = Replay(shop_env(task, handler="python_calls"), texts)
    assert not strict.valid
    assert all("repairs" not in step[4] for step in strict.steps)


SLOW_TO_REPAIR = {
    "braces, words": "{" * 100 + "x " * 9750,
    "lists, words": "[" * 70 + "a," * 14000,
    "open quotes": '{"' + "a " * 14000,
    "curly quotes": "{“" + "a " * 14000 + "”",
    "brackets": "[{" * 40 + "x y: z, " * 3500,
    "parentheses": "{(" * 7000,
    "colons": '{"a": "' + 'b" "c": ' * 3000,
    "escapes": '{"a": "' + '\\"' * 14000,
    "blocks": ("<tool_call>\n{" + "x " * 300 + "\n</tool_call>\n") * 45,
    "mixed": "".join(random.Random(5).choices("{}[]\"',: ax1\\/#`", k=29000)),
}


@pytest.mark.parametrize("text", SLOW_TO_REPAIR.values(), ids=SLOW_TO_REPAIR)
@pytest.mark.parametrize("name", ["lenient:json_calls", "lenient:hermes_calls"])
def test_a_repair_takes_a_quarter_of_a_second_whatever_the_text(name: str, text: str) -> None:
    handler = get_handler(name)
    started = time.process_time()
    for _ in range(3):  # as one step asks about its message
        with contextlib.suppress(DecodeError):
            handler.decode(text)
    assert time.process_time() - started < 3 * 0.25  # the machine may be busy


def test_a_bounded_repair_repairs_what_models_write() -> None:
    handler = get_handler("lenient:json_calls")
    text = '[{"name": "say", "arguments": {text: "' + 'he said "hello" and ' * 200 + '",}}]'
    [call] = handler.decode(text)
    assert call.arguments["text"].count("hello") == 200
    assert handler.decode(text) == [call]  # the second look, which remembers
