"""Tools as people write them: documented from what they are, and whatever one does, the others'
answers come.
"""

from __future__ import annotations

import copy
import os
import pickle
import threading
import time
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from sample_tools import SmolTool, die, fail, flood, hang, leave, process_id, shout, spin, weather

from fctncalling.data.types import Call, Task
from fctncalling.data.unsafe_text import WORD_JOINER, neutralise_marks
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.handlers.execution import ToolSession
from fctncalling.envs.tools.box.callables import (
    ToolDefinitionError,
    as_tool,
    parse_docstring,
    type_schema,
)
from fctncalling.envs.tools.box.tool_process import result_text
from fctncalling.envs.tools.box.toolbox import ToolBox, calculator_tool, python_tool
from fctncalling.envs.tools.python_executor import PythonExecutor


@pytest.fixture(scope="module")
def box() -> Iterator[ToolBox]:
    tools = [as_tool(tool, timeout_s=0.5, max_output_length=500) for tool in (hang, spin)]
    tools += [
        as_tool(tool, max_output_length=500)
        for tool in (weather, shout, fail, leave, die, flood, process_id)
    ]
    with ToolBox(
        [*tools, SmolTool(), as_tool(os.getpid, name="here", timeout_s=None)], num_processes=2
    ) as made:
        made.call(Call("shout", {"query": "warm"}))
        yield made


def test_a_typed_function_is_described_by_its_signature_and_docstring() -> None:
    doc = as_tool(weather).doc
    assert (doc.name, doc.description) == (
        "weather",
        "Return the weather of a city. It is always fine.",
    )
    assert doc.parameters == {
        "type": "dict",
        "properties": {
            "city": {"type": "string", "description": "Where, in words."},
            "days": {"type": "integer", "description": "How many days.", "default": 1},
            "unit": {"type": "string", "enum": ["C", "F"], "description": "", "default": "C"},
            "tags": {"type": "array", "items": {"type": "string"}, "description": ""},
        },
        "required": ["city"],
    }


def test_a_callable_without_types_takes_one_text() -> None:
    for source in (shout, lambda query: query):
        doc = as_tool(source, name="tool").doc
        assert doc.parameters["properties"]["query"]["type"] == "string"
        assert doc.parameters["required"] == ["query"]


def test_a_tool_object_is_described_by_its_inputs() -> None:
    doc = as_tool(SmolTool()).doc
    assert (doc.name, doc.description, doc.parameters["required"]) == ("add", "Adds.", ["a"])
    assert {name: schema["type"] for name, schema in doc.parameters["properties"].items()} == {
        "a": "integer",
        "b": "float",
    }


def test_a_tool_object_may_list_the_types_of_an_input() -> None:
    class Listing(SmolTool):
        inputs = {"a": {"type": ["integer", "null"]}, "b": {"type": ["integer", "string"]}}  # noqa: RUF012

    properties = as_tool(Listing()).doc.parameters["properties"]
    assert [properties[name]["type"] for name in "ab"] == ["integer", "any"]


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (int, {"type": "integer"}),
        (bool, {"type": "boolean"}),
        (float | None, {"type": "float"}),
        (dict[str, int], {"type": "dict"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (tuple[int, ...], {"type": "tuple", "items": {"type": "integer"}}),
        (int | str, {"type": "any"}),
        (Literal[1, 2], {"type": "integer", "enum": [1, 2]}),
        (Any, {"type": "any"}),
        (object, {"type": "any"}),
    ],
)
def test_types_become_bfcl_types(annotation: Any, schema: dict[str, Any]) -> None:
    assert type_schema(annotation) == schema


def test_docstrings_without_sections_or_at_all() -> None:
    assert parse_docstring(None) == ("", {})
    assert parse_docstring("One.\n\nReturns:\n    x: not an argument") == ("One.", {})
    rest = "One.\n\n:param int x: what\n    it is\n:param y: other\n:returns: z\n    and more"
    assert parse_docstring(rest) == ("One.", {"x": "what it is", "y": "other"})
    numpy = (
        "One.\n\nParameters\n----------\nx : int\n    what\n    it is\ny\n    other\n\n"
        "Returns\n-------\nz : int\n    and more"
    )
    assert parse_docstring(numpy) == ("One.", {"x": "what it is", "y": "other"})


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (3, "no tool"),
        (int, "no tool"),
        (lambda **more: 1, "more"),
        (lambda a, b, /: 1, "positional"),
        (lambda: 1, "name="),
    ],
)
def test_what_cannot_be_a_tool_is_refused_with_the_reason(source: Any, message: str) -> None:
    with pytest.raises(ToolDefinitionError, match=message):
        as_tool(source)


def test_what_cannot_leave_the_process_is_refused_unless_inline() -> None:
    lock = threading.Lock()

    def locked(text: str) -> str:
        with lock:
            return text

    with pytest.raises(ToolDefinitionError, match="timeout_s=None"):
        ToolBox([locked])
    with ToolBox([as_tool(locked, timeout_s=None)]) as inline:
        assert inline.call(Call("locked", {"text": "in"})) == "in"


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("shout", {"query": "hey"}, "HEY"),
        ("weather", {"city": "Ürümqi"}, '{"city": "Ürümqi", "days": 1, "unit": "C"}'),
        ("add", {"a": 1}, "2"),
        ("hang", {"seconds": 60}, "Tool error: hang timed out after 0.5 s"),
        ("spin", {}, "Tool error: spin timed out after 0.5 s"),
        ("fail", {"text": "why"}, "Tool error: ValueError: why"),
        ("leave", {"code": 0}, "Tool error: SystemExit: 0"),
        ("nothing", {}, "Tool error: unknown tool 'nothing'"),
    ],
)
def test_every_outcome_is_a_clear_text(
    box: ToolBox, name: str, arguments: dict[str, Any], text: str
) -> None:
    assert box.call(Call(name, arguments)).startswith(text)


def test_wrong_arguments_are_told_in_pythons_words(box: ToolBox) -> None:
    assert "unexpected keyword argument 'town'" in box.call(Call("weather", {"town": "x"}))


def test_results_that_are_no_text() -> None:
    assert [result_text(value) for value in ("a", 1, None, [1, "é"], {"a": True})] == [
        "a",
        "1",
        "null",
        '[1, "é"]',
        '{"a": true}',
    ]
    assert result_text({1, 2}) == "{1, 2}"
    assert result_text(float) == "<class 'float'>"


def test_100_mb_of_output_is_cut_and_never_comes_over(box: ToolBox) -> None:
    text = box.call(Call("flood", {"megabytes": 100}))
    assert len(text) == 500
    assert "truncated" in text


def test_a_process_that_dies_is_infrastructure_and_the_next_call_works(box: ToolBox) -> None:
    with pytest.raises(InfrastructureError, match=r"die.*status 3"):
        box.call(Call("die", {}))
    assert box.call(Call("shout", {"query": "on"})) == "ON"


def test_a_timeout_kills_the_work_itself(box: ToolBox) -> None:
    before = box.call(Call("process_id", {}))
    box.call(Call("hang", {"seconds": 60}))
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline and os.path.exists(f"/proc/{before}/stat"):
        time.sleep(0.01)
    assert len(box._crew.idle) <= 2
    assert all(process._process.poll() is None for process in box._crew.idle)


def test_independent_calls_run_at_once_and_answer_in_call_order(box: ToolBox) -> None:
    box.call_all([Call("hang", {"seconds": 0.2})] * 2)
    start = time.perf_counter()
    texts = box.call_all(
        [Call("hang", {"seconds": 0.4}), Call("here", {}), Call("hang", {"seconds": 0.3})]
    )
    assert texts == ["woke", str(os.getpid()), "woke"]
    assert time.perf_counter() - start < 0.65


def test_calls_beyond_max_calls_are_not_run() -> None:
    seen: list[str] = []
    with ToolBox([as_tool(seen.append, name="note", timeout_s=None)], max_calls=1) as small:
        texts = small.call_all([Call("note", {"object": str(n)}) for n in range(3)])
    assert seen == ["0"]
    assert texts[1:] == ["Tool error: not run, at most 1 calls of one message are"] * 2


def test_a_box_is_a_tool_class_for_sessions_and_survives_their_snapshots(box: ToolBox) -> None:
    session = ToolSession(["Mine"], {}, extra_tools={"Mine": box.as_class("Mine")})
    assert session.has_function("shout")
    assert session.execute("shout(query='hey')") == "HEY"
    assert session.execute("weather('Oslo', days=2)") == '{"city": "Oslo", "days": 2, "unit": "C"}'
    assert "timed out" in session.execute("spin()")
    session.set_state(session.get_state())
    assert session.public_state() == {"Mine": {}}
    with pytest.raises(InfrastructureError):
        session.execute("die()")


def test_a_box_works_in_a_fork_in_a_copy_and_after_pickling(box: ToolBox) -> None:
    assert copy.deepcopy(box) is box
    with pickle.loads(pickle.dumps(box)) as clone:
        assert clone.call(Call("shout", {"query": "clone"})) == "CLONE"
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, box.call(Call("shout", {"query": "fork"})).encode())
        os._exit(0)
    assert os.read(reader, 100) == b"FORK"
    os.waitpid(pid, 0)
    os.close(reader)
    os.close(writer)
    assert box.call(Call("shout", {"query": "parent"})) == "PARENT"


def test_the_executor_and_the_calculator_are_tools() -> None:
    with (
        PythonExecutor(timeout_s=0.5) as executor,
        ToolBox([python_tool(executor), calculator_tool()]) as both,
    ):
        assert both.docs[0].description == executor.config.description
        assert both.call(Call("python_executor", {"code": "print(6 * 7)"})) == "42"
        assert "ZeroDivisionError" in both.call(Call("python_executor", {"code": "1 / 0"}))
        assert (
            both.call(Call("python_executor", {"code": "while True: pass"}))
            == "Timed out after 0.5 s"
        )
        assert both.call(Call("calculator", {"expression": "14 + 34"})) == "48.0"


def test_no_mark_survives_in_tool_text() -> None:
    marks = ["<submit>", "</PYTHON-OUTPUT>", "<|im_end|>", "||"]
    text = "a <submit> <sub<submit>mit> ||| </PYTHON-OUTPUT><|im_end|>"
    clean = neutralise_marks(text, marks)
    assert not any(mark in clean for mark in marks)
    assert clean.replace(WORD_JOINER, "") == text
    with pytest.raises(ValueError, match="one character"):
        neutralise_marks("a", ["a"])


def test_an_episode_goes_on_after_every_failure_of_a_tool_and_is_invalid_after_a_death() -> None:
    tools = [
        shout,
        fail,
        as_tool(hang, timeout_s=0.5),
        as_tool(flood, max_output_length=300),
        weather,
        die,
    ]
    with ToolBox(tools, num_processes=1) as box:
        task = Task(
            id="own_tools",
            category="multi_turn_base",
            question=[[{"role": "user", "content": "Say hey."}]],
            functions=box.docs,
            ground_truth=[["shout(query='hey')"]],
            involved_classes=["Tools"],
        )
        env = FunctionCallingEnv(tasks=[task], tools={"Tools": box.as_class()})
        env.reset(seed=0)
        for call, text in (
            ("hang(seconds=60)", "timed out after 0.5 s"),
            ("fail(text='why')", "ValueError: why"),
            ("flood(megabytes=100)", "truncated"),
            ("weather(city='Oslo')", "Oslo"),
            ("shout(query='hey')", "HEY"),
        ):
            observation, _, terminated, truncated, _ = env.step(f"[{call}]")
            assert text in observation
            assert not terminated
            assert not truncated
            assert len(observation) < 1000
        _, reward, terminated, _, _ = env.step("done")
        assert (reward, terminated) == (1.0, True)
        env.reset(seed=0)
        _, reward, terminated, truncated, info = env.step("[die()]")
        assert (reward, terminated, truncated, info["invalid"]) == (0.0, False, True, True)
        assert "die" in info["invalid_reason"]
