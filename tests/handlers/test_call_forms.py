"""Every form of the table reads what it writes, and a call that cannot be read pays nowhere."""

from __future__ import annotations

from itertools import islice, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from players import DONE, Replay, doc, shop_env, shop_task, simple_task, user
from test_handlers import IDENTIFIERS, JSON_VALUES, NAMES

from fctncalling.data.bfcl import embedded_path, load_tasks
from fctncalling.data.types import Call, FunctionDoc, StepRecord, Task, Verdict
from fctncalling.envs.episode_runner import parse_message
from fctncalling.envs.handlers import DecodeError, bears_call, get_handler, split_thought
from fctncalling.envs.handlers.call_forms import CALL_FORMS
from fctncalling.envs.handlers.handler import CallFormat, docs_of_calls
from fctncalling.envs.judging.strict import arbitrary_call_fault, strict_verdict
from fctncalling.lab.error_analysis import diagnose

AUTO = get_handler("auto")
MARKS = sorted({mark for form in CALL_FORMS.values() for mark in form.marks})
CALLS = [Call("look_up", {"town": "Bern", "days": 3}), Call("f", {"a": [1, None]})]
DOCS = docs_of_calls(CALLS)
TEXTS = {name: get_handler(name).render(CALLS) for name in CALL_FORMS}
THOUGHTS = ("<think>\n{}\n</think>\n\n", "[THINK]{}[/THINK]", "{}\n</think>\n")
VALUES = JSON_VALUES | st.sampled_from(
    [*MARKS, "12", "true", "null", "123_456", "</think>", " x\n"]
)


@given(
    st.lists(
        st.builds(Call, NAMES, st.dictionaries(IDENTIFIERS, VALUES, max_size=3)),
        min_size=1,
        max_size=2,
    )
)
def test_a_form_reads_what_it_writes_in_every_type_by_the_schema(calls: list[Call]) -> None:
    docs = docs_of_calls(calls)
    for name in CALL_FORMS:
        handler = get_handler(name)
        try:
            text = handler.render(calls)
        except ValueError:
            continue  # such as a text that holds what closes it
        assert repr(handler.decode(text, docs)) == repr(calls), name


@pytest.mark.parametrize("name", CALL_FORMS)
def test_auto_reads_every_form_behind_a_thought_and_the_thought_makes_no_call(name: str) -> None:
    text = TEXTS[name]
    assert AUTO.decode(text, DOCS) == CALLS
    for thought in THOUGHTS:
        said = thought.format("not [TOOL_CALLS] or <functions> here")
        assert AUTO.decode(said + text, DOCS) == CALLS
        assert split_thought(said + text).thought == "not [TOOL_CALLS] or <functions> here"
    unclosed = parse_message(AUTO, f"<think>\nperhaps\n{text}", executes=False)
    assert unclosed.calls == ()


@pytest.mark.parametrize("text", ["12", "true", "null", "123_456", "[1]", '"x"', " x "])
def test_a_value_of_a_text_parameter_stays_the_text_that_it_is(text: str) -> None:
    docs = [FunctionDoc("f", "", {"properties": {"a": {"type": "string"}}})]
    for name in ("qwen_xml_calls", "glm_calls", "seed_calls", "minimax_m2_calls"):
        handler = get_handler(name)
        assert handler.decode(handler.render([Call("f", {"a": text})]), docs)[0].arguments == {
            "a": text
        }


@pytest.mark.parametrize("closing", ["</parameter>", "</function>\n</tool_call>", "</parameter>\n"])
def test_a_closing_mark_in_a_value_is_read_or_refused_and_never_misread(closing: str) -> None:
    docs = [FunctionDoc("f", "", {"properties": {"a": {"type": "string"}}})]
    for value in (f"x{closing}y", closing, f"\n{closing}</function>", f"{closing}</function>"):
        parameter = f"<parameter=a>\n{value}\n</parameter>"
        text = f"<tool_call>\n<function=f>\n{parameter}\n</function>\n</tool_call>"
        try:
            assert AUTO.decode(text, docs) == [Call("f", {"a": value})]
        except DecodeError:
            assert parse_message(AUTO, text, executes=False).error == "unread_call"


def test_of_parallel_calls_one_that_breaks_is_told() -> None:
    good, bad = '{"name": "g", "arguments": {}}', '{"name": "f", "arguments": {"a": 1,}}'
    for first, second in ((good, bad), (bad, good)):
        text = "\n".join(f"<tool_call>\n{each}\n</tool_call>" for each in (first, second))
        for handler in (AUTO, get_handler("hermes_calls")):
            assert parse_message(handler, text, executes=False)[:4:3] == ((), "unread_call")


class OneArgument(CallFormat):
    """A user's handler from before functions were handed over."""

    name = "mine"

    def recognises(self, text: str) -> bool:
        return True

    def decode_ast(self, text: str) -> Any:
        return [{text: {}}]

    def decode_action(self, text: str) -> Any:  # type: ignore[override]
        return super().decode_action(text)

    def candidate_texts(self, calls: Any) -> Any:
        return [calls[0].name]


def test_a_handler_of_one_argument_goes_on_working() -> None:
    assert OneArgument().decode("f", DOCS) == [Call("f", {})]


def broken_texts() -> list[str]:
    """Return texts with calls of every form: whole, cut and broken."""
    texts = ["[look_up(town='Bern')] Sorry.", "[look_up]", "[look_up(town='Bern'), look_up"]
    texts.append("<think>\n[look_up(town='Bern')]")
    texts += [f"<think>perhaps {text}" for text in TEXTS.values() if text[0] in "<]"]
    for text in TEXTS.values():
        body = max(text.find(each) for each in ("Bern", "days"))
        texts += [text, text[:body], text[: len(text) * 2 // 3], text.replace("look_up", "", 1)]
        texts += [text.replace('"', "'"), f"{THOUGHTS[0].format('Hm.')}{text[:body]}"]
    return texts


NAMED = [*(mark for mark in MARKS if mark[0] in "<["), "</tool_call>", "<functions>", "f(a=1)"]
WORDS = (
    "I cannot do that (no function fits, see [1]).",
    "None of the functions fits; `{}` is the mark of a call, and I write none.",
    "Sorry. A call would begin with `{}`, but there is nothing to call.",
    "{} marks a call.",
    "The tags `{}` and </x> mean nothing here: ask me for <something> else.",
    "No tool helps. `x = [1, 2]` is no call, nor is `{}` in a sentence (or so).",
)
REFUSALS = [
    words.format(mark)
    for words, mark in product(WORDS, NAMED)
    if "`{" in words or mark != NAMED[-1]
] + ["[look_up] I have no function for that.", "[1] No function fits.", "[note: none fits] Sorry."]
REFUSALS += ["[None]", "\n\n[ None ]", "[null]", "[]"]
IRRELEVANT = simple_task("irrelevance_0", category="irrelevance", ground_truth=None)
EMPTY_TURN = shop_task(
    [], ["look()"], question=[user("Look."), []], missed_functions={1: ("look",)}
)
CLARIFY = next(
    task
    for task in load_tasks(embedded_path("clarify_held_out"))
    if task.category == "clarify_missing"
)
GIVEN = Verdict(True, 1.0, None, "", ())


def pays(task: Task, text: str) -> bool:
    """Whether a message pays strictly where no call is expected, BFCL forgiving it."""
    parsed = parse_message(AUTO, text, executes=task.executes_calls)
    step = StepRecord(0, text, parsed.calls, parsed.executed, (), parsed.error)
    return strict_verdict(task, [step], GIVEN).valid and not (task is CLARIFY and parsed.calls)


@pytest.mark.parametrize(
    "task", [IRRELEVANT, EMPTY_TURN, CLARIFY], ids=["irrelevance", "empty", "ask"]
)
def test_no_call_pays_where_none_is_expected_and_every_refusal_in_words_does(task: Task) -> None:
    called = broken_texts()
    assert min(len(called), len(REFUSALS)) >= 200
    assert [text for text in called if pays(task, text)] == []
    assert [text for text in REFUSALS if not pays(task, text)] == []


def test_a_name_that_is_missed_may_be_refused_behind_calls_where_a_turn_waits_for_it() -> None:
    text = "[look_up(town='Bern', days=['x']), wc] I have no function for that."
    assert [pays(task, text) for task in (IRRELEVANT, EMPTY_TURN, CLARIFY)] == [False, True, False]


def test_a_broken_call_ends_the_turn_officially_and_is_answered_where_that_is_asked_for() -> None:
    text = '<tool_call>\n{"name": "sell", "arguments": {"item"'
    played = Replay(shop_env(IRRELEVANT, strict=True), [text])
    assert played.valid
    assert played.info["error"] == "unread_call"
    assert played.info["strict_verdict"].error_type == "strict:unread_calls"
    env = shop_env(shop_task(["look()"]), retry_malformed=True)
    env.reset()
    _, _, terminated, _, info = env.step(text)
    assert (terminated, info["error"]) == (False, "unread_call")
    assert "cannot be read" in info["messages"][0]["content"] or info["messages"]
    assert env.step(DONE)[2]


def test_a_text_that_repeats_the_question_is_no_argument_but_a_query() -> None:
    question = "Could you set up a meeting in Bern on Friday with all the people of my team?"
    for name, right in (("book_room", False), ("web_search", True)):
        docs = [doc(name, ["what"], what="string")]
        for said in (question, question[: len(question) * 2 // 3]):
            fault = arbitrary_call_fault([Call(name, {"what": said})], docs, question)
            assert (fault is None) == right
        assert arbitrary_call_fault([Call(name, {"what": "Friday, Bern"})], docs, question) is None


def test_texts_are_looked_at_in_time_that_grows_with_their_length() -> None:
    for piece in islice(MARKS, 0, None, 3):
        assert bears_call(piece * 2000) in (True, False)
        parse_message(AUTO, f"{piece}\n<parameter=a>" * 1000, executes=False)


def test_why_names_a_call_that_cannot_be_read_and_the_transcript_shows_the_thought() -> None:
    text = '<think>\nHm.\n</think>\n<tool_call>\n{"name": bad}\n</tool_call>'
    assert diagnose(simple_task(), text).causes == ("unread call",)
    assert diagnose(simple_task(), TEXTS["qwen_xml_calls"]).causes[0] == "wrong form"
    env = shop_env(shop_task(["look()"]), render_mode="ansi")
    env.reset()
    env.step(text)
    assert "  | (thought) Hm.\n  | <tool_call>" in str(env.render())
