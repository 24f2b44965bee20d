"""Call syntaxes in mid-generation: what is written reads back, and a pause means what it says."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fctncalling.data.types import Call
from fctncalling.envs.handlers import HANDLERS, TEXT_HANDLERS, DecodeError, get_handler
from fctncalling.envs.handlers.handler import MAX_TEXT_CHARS

REQUEST, PYTHON, MARKDOWN, HERMES = (
    TEXT_HANDLERS[name]
    for name in ("request_call", "python_block", "markdown_block", "hermes_text")
)
CODE = "for n in range(3):\n    print(n, '<b>')"


def test_the_registry_finds_them_and_auto_reads_none_of_them() -> None:
    for name, handler in TEXT_HANDLERS.items():
        assert get_handler(name) is handler
        assert handler.continuation == "text"
        assert name not in HANDLERS
    assert not get_handler("auto").recognises("<request><f>1<call>")
    with pytest.raises(LookupError, match="request_call"):
        get_handler("request_calls")


@pytest.mark.parametrize(
    ("name", "call", "text"),
    [
        (
            "request_call",
            Call("Calculator", {"query": "14 + 34"}),
            "<request><Calculator>14 + 34<call>",
        ),
        ("python_block", Call("python_executor", {"code": CODE}), f"<PYTHON>\n{CODE}\n</PYTHON>"),
        ("markdown_block", Call("python_executor", {"code": CODE}), f"```python\n{CODE}\n```"),
        (
            "hermes_text",
            Call("f", {"a": [1, None]}),
            '<tool_call>\n{"name": "f", "arguments": {"a": [1, null]}}\n</tool_call>',
        ),
    ],
)
def test_the_canonical_text_reads_back(name: str, call: Call, text: str) -> None:
    handler = TEXT_HANDLERS[name]
    assert handler.render([call]) == text
    assert handler.decode(text) == [call]
    assert handler.decode(f"So: \n{text}\n and\n{handler.render([call, call])}\n") == [call] * 3
    assert handler.decode_execute(text)[0].startswith(f"{call.name}(")
    assert handler.paused_message(f"Let me see.\n{text}\n").kind == "call"
    assert handler.stop[0] in f"\n{text}\n"


@given(st.text(max_size=40), st.from_regex(r"[A-Za-z_]\w{0,8}", fullmatch=True))
def test_a_request_that_can_be_written_reads_back(query: str, tool: str) -> None:
    call = Call(tool, {"query": query})
    with contextlib.suppress(ValueError):
        assert REQUEST.decode(REQUEST.render([call])) == [call]


@given(st.text(max_size=60))
def test_code_that_can_be_written_reads_back(code: str) -> None:
    call = Call("python_executor", {"code": code})
    for handler in (PYTHON, MARKDOWN):
        with contextlib.suppress(ValueError):
            assert handler.decode(handler.render([call])) == [call]


@pytest.mark.parametrize("code", ["print('</PYTHON>')", " indented()", "", "tail\n"])
def test_code_that_would_not_read_back_is_refused(code: str) -> None:
    with pytest.raises(ValueError, match="cannot write"):
        PYTHON.render([Call("python_executor", {"code": code})])


def test_what_a_form_cannot_say_is_refused() -> None:
    for handler in (REQUEST, PYTHON, MARKDOWN):
        with pytest.raises(ValueError, match=r"has one argument|code block calls"):
            handler.render([Call("f", {"a": 1, "b": 2})])


PIECES = st.lists(
    st.sampled_from(
        [
            "<request>",
            "<call>",
            "<submit>",
            "<T>",
            "<PYTHON>",
            "</PYTHON>",
            "```python\n",
            "```\n",
            "\n",
            "<tool_call>",
            "</tool_call>",
            '{"name": "f", "arguments": {}}',
            "x",
            "é",
            "\ud800",
        ]
    ),
    max_size=12,
).map("".join)


@pytest.mark.parametrize("name", sorted(TEXT_HANDLERS))
@given(text=st.text(max_size=60) | PIECES)
def test_any_text_gives_calls_or_a_decode_error_and_a_pause(name: str, text: str) -> None:
    handler = TEXT_HANDLERS[name]
    for decode in (handler.decode, handler.decode_ast, handler.decode_execute):
        with contextlib.suppress(DecodeError):
            decode(text)
    assert handler.paused_message(text).kind in ("call", "submit", "open", "end")
    assert handler.closed_blocks(handler.text_without_calls(text)) is not None
    assert len(handler.text_without_calls(text)) <= len(text)


def test_a_text_that_is_too_long_is_not_read() -> None:
    for handler in TEXT_HANDLERS.values():
        with pytest.raises(DecodeError) as caught:
            handler.decode("x" * (MAX_TEXT_CHARS + 1))
        assert caught.value.kind == "size"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "end"),
        ("The answer is 4", "end"),
        ("Result=4<submit>", "submit"),
        ("<request><T>1<call>", "call"),
        ("<request>no tool<call>", "call"),  # closed, so it is answered: by a complaint
        ("<call>", "open"),  # generation paused at it, and it means nothing here
        ("<request><T>print('<submit>", "open"),  # inside a request nothing is submitted
        ("<request><T>print('<submit>')<call>", "call"),
        ("Result=4<submit> <request><T>1<call>", "submit"),
        ("<request><T>1", "end"),  # the policy stopped in the middle
    ],
)
def test_a_pause_means_what_stands_outside_of_calls(text: str, kind: str) -> None:
    assert REQUEST.paused_message(text).kind == kind


def test_only_the_last_action_can_be_why_generation_paused() -> None:
    text = "<request><T>a<submit>"
    assert REQUEST.paused_message(f"{text} b", 0).kind == "open"
    assert REQUEST.paused_message(f"{text} b", len(text)).kind == "end"


def test_a_block_that_is_no_call_says_why() -> None:
    block = REQUEST.paused_message("<request>4+4<call>").block
    assert block is not None
    assert block.record is None
    assert "expected <request><tool>" in block.complaint
    with pytest.raises(DecodeError):
        REQUEST.decode("<request>4+4<call>")
    with pytest.raises(DecodeError):
        HERMES.decode("<tool_call>{broken</tool_call>")
    assert PYTHON.paused_message("<PYTHON>  </PYTHON>").block == (
        0,
        19,
        None,
        "the block holds no code",
    )


def test_fences_of_other_languages_are_no_calls() -> None:
    assert MARKDOWN.decode("```json\n{}\n```\n```\nx\n```\n") == []
    assert MARKDOWN.paused_message("```json\n{}\n```\n").kind == "open"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Result=48.0<submit>", "48.0"),
        ("Result = 72 <submit> Result = 1", "72"),
        ("So 48<submit>", "So 48"),
        ("<request><P>print('Result = 72 <submit>')<call>", ""),
        ("<request><P>Result = 72 <submit>", ""),
        ("No <request><P>Result=1<call> Result=2<submit>", "2"),
    ],
)
def test_no_answer_stands_inside_a_call(text: str, answer: str) -> None:
    assert REQUEST.final_answer(text) == answer


def test_results_come_in_the_form_of_each_syntax() -> None:
    assert REQUEST.format_result("48.0") == "48.0<response>"
    assert PYTHON.format_result("1") == "\n<PYTHON-OUTPUT>\n1\n</PYTHON-OUTPUT>\n"
    assert MARKDOWN.format_result("1") == "```output\n1\n```\n"
    assert HERMES.format_result("1") == "\n<tool_response>\n1\n</tool_response>\n"
