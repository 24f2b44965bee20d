"""Every handler reads and writes what the conformance vectors say: `handler_vectors.json`, handler
-> texts.

A vector is a text and the calls it holds (name, arguments) or the kind of its DecodeError; a
canonical one is also what the calls are written as.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_handlers import IDENTIFIERS, JSON_VALUES, NAMES, PYTHON_VALUES, calls_with

from fctncalling.data.types import Call
from fctncalling.envs.handlers import HANDLERS, DecodeError, get_handler
from fctncalling.envs.handlers.call_forms import CALL_FORMS
from fctncalling.envs.handlers.execution import ToolSession
from fctncalling.envs.handlers.lenient import LenientCalls

VECTORS: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[1] / "support" / "handler_vectors.json").read_text(encoding="utf-8")
)
CASES = [
    pytest.param(name, vector, id=f"{name}-{number}")
    for name in VECTORS
    for number, vector in enumerate(VECTORS[name])
]
# Their calls are source text of another language, with vectors of their own.
OTHER_LANGUAGES = {"java_calls", "javascript_calls"}
NO_VECTORS = set(CALL_FORMS) - set(VECTORS)  # `test_call_forms.py` has all forms
JSON_FORMS = sorted(
    name for name in VECTORS if "python" not in name and "xml" not in name and name != "bfcl_json"
)


@pytest.mark.parametrize(("name", "vector"), CASES)
def test_a_text_holds_the_calls_of_its_vector(name: str, vector: dict[str, Any]) -> None:
    handler = get_handler(name)
    if "error" in vector:
        with pytest.raises(DecodeError) as caught:
            handler.decode(vector["text"])
        assert caught.value.kind == vector["error"]
        return
    calls = [Call(*call) for call in vector["calls"]]
    assert repr(handler.decode(vector["text"])) == repr(calls)
    assert [next(iter(each.items())) for each in handler.decode_ast(vector["text"])] == [
        (call.name, call.arguments) for call in calls
    ]
    assert len(handler.decode_execute(vector["text"])) == len(calls)
    if vector.get("canonical"):
        assert handler.render(calls) == vector["text"]


@pytest.mark.parametrize("name", sorted(set(HANDLERS) - OTHER_LANGUAGES - {"auto", *NO_VECTORS}))
def test_every_handler_has_vectors_of_each_kind(name: str) -> None:
    vectors = VECTORS[name]
    assert sum("error" in vector for vector in vectors) >= 2
    assert [] in [vector.get("calls") for vector in vectors if vector.get("canonical")]
    assert any(len(vector.get("calls", [])) > 1 for vector in vectors if vector.get("canonical"))


@pytest.mark.parametrize(("name", "vector"), CASES)
def test_the_lenient_mode_reads_what_the_strict_one_reads_and_repairs_nothing(
    name: str, vector: dict[str, Any]
) -> None:
    if vector.get("calls"):
        reading = LenientCalls(get_handler(name), repair_json=False).decode_action(vector["text"])
        assert [[call.name, call.arguments] for call in reading.calls] == vector["calls"]
        assert reading.repairs == ()


@pytest.mark.parametrize("name", sorted(VECTORS))
def test_auto_reads_the_canonical_text_of_every_form(name: str) -> None:
    handler, calls = (
        get_handler(name),
        [Call("f", {"a": 1}), Call("g.h", {"b": "<tool_call>", "c": [True, None]})],
    )
    assert get_handler("auto").decode(handler.render(calls)) == calls
    assert handler.recognises(handler.render(calls))


KEYS = [
    "name",
    "function",
    "arguments",
    "parameters",
    "tool_calls",
    "type",
    "role",
    "<TOOLCALL>",
    "[TOOL_CALLS]",
]


@given(
    arguments=st.dictionaries(
        st.sampled_from(KEYS).filter(str.isidentifier), st.sampled_from(KEYS), max_size=4
    )
)
def test_auto_is_not_misled_by_names_and_strings_inside_calls(arguments: dict[str, str]) -> None:
    calls = [Call("f", arguments)]
    for name in VECTORS:
        assert get_handler("auto").decode(get_handler(name).render(calls)) == calls, name


@pytest.mark.parametrize("name", sorted(VECTORS))
def test_calls_are_executed_with_the_arguments_they_were_written_with(name: str) -> None:
    handler, session = get_handler(name), ToolSession(["MathAPI"], {})
    [call] = handler.decode_execute(handler.render([Call("add", {"a": 2, "b": 3.5})]))
    assert session.execute(call) == '{"result": 5.5}'


@given(calls=calls_with(st.text(max_size=8), JSON_VALUES))
def test_json_forms_read_what_they_write(calls: list[Call]) -> None:
    for name in JSON_FORMS:
        handler = get_handler(name)
        try:
            text = handler.render(calls)
        except ValueError:  # BFCL's cut lists; names that are no names
            assert "[" in str(calls) or name == "mistral_named_calls"
            continue
        assert repr(handler.decode(text)) == repr(calls), name


@given(calls=calls_with(NAMES, JSON_VALUES))
def test_json_forms_can_write_every_call_with_a_name(calls: list[Call]) -> None:
    for name in JSON_FORMS:
        if name != "bfcl_json_tagged":
            handler = get_handler(name)
            assert repr(handler.decode(handler.render(calls))) == repr(calls), name


@given(calls=calls_with(NAMES, PYTHON_VALUES))
def test_python_and_xml_forms_read_what_they_write(calls: list[Call]) -> None:
    for name in VECTORS:
        if "xml" in name or "python" in name:
            handler = get_handler(name)
            assert repr(handler.decode(handler.render(calls))) == repr(calls), name


@given(
    texts=st.lists(
        st.text(max_size=6) | st.sampled_from(["</TOOLCALL>", "}]", "[{", "`"]), max_size=3
    )
)
def test_marks_inside_strings_never_end_the_calls(texts: list[str]) -> None:
    calls = [Call("f", {"a": texts, "b": "".join(texts)})]
    for name in VECTORS:
        assert repr(get_handler(name).decode(get_handler(name).render(calls))) == repr(calls)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("hermes_calls", Call("f", {"a": (1, 2)})),
        ("json_calls", Call("f", {"a": {1: 2}})),
        ("openai_messages", Call("f", {"a": b"x"})),
        ("bfcl_json", Call("f", {"a": [{"b": 1}]})),
        ("mistral_named_calls", Call("f[ARGS]", {})),
        ("bfcl_concise_xml", Call("f", {"a": [float("nan")]})),
        ("bfcl_verbose_xml", Call("f\0", {})),
    ],
)
def test_what_a_form_cannot_say_is_refused_by_render(name: str, call: Call) -> None:
    with pytest.raises(ValueError, match=name):
        get_handler(name).render([call])


@given(names=st.lists(IDENTIFIERS, max_size=2))
def test_a_prompt_configuration_names_a_handler(names: list[str]) -> None:
    handler = get_handler(
        "ret_fmt=json&tool_call_tag=True&func_doc_fmt=xml&prompt_fmt=plaintext&style=classic"
    )
    calls = [Call(name, {}) for name in names]
    assert handler.render(calls) == get_handler("bfcl_json_tagged").render(calls)
