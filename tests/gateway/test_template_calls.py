"""Calls, results and roles stand in a conversation as the chat template itself writes them."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from call_templates import (
    CALL_SHAPES,
    GLM,
    HARMONY,
    HERMES,
    KIMI,
    MISTRAL3,
    PARTS,
    QWEN3,
    UNREAD,
)
from chat_templates import TemplateShape
from gateways import TokenScript

from fctncalling.algorithms.config import SettingError
from fctncalling.algorithms.generation.engine_api import ScriptedEngine
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.policy.message_renderer import TemplateRefusal
from fctncalling.algorithms.rollout.collect import collect
from fctncalling.call_form import find_call_form
from fctncalling.data.bfcl import embedded_path, load_tasks
from fctncalling.data.types import Call
from fctncalling.envs import FunctionCallingEnv
from fctncalling.envs.handlers import get_handler
from fctncalling.evaluation.agents.endpoint import mend_calls
from fctncalling.lab.doctor import exit_code
from fctncalling.lab.doctor.template_findings import template_findings
from fctncalling.lab.gateway.action_forest import ActionForest
from fctncalling.lab.gateway.completion_request import chat_request
from fctncalling.lab.gateway.gateway import Gateway, GatewaySettings
from fctncalling.lab.gateway.openai_answers import (
    answer_body,
    answer_message,
    final_chunks,
)
from fctncalling.lab.gateway.rendering import AnsweredMessages, ContextCallForm, MessageRendering
from fctncalling.lab.gateway.sampler import Sampler
from fctncalling.training.demonstrations import play_ground_truths
from fctncalling.training.prepare_run import check_template
from fctncalling.training.resume import keep_form
from fctncalling.training.run_config import RunConfig

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "look_up",
        "description": "d",
        "parameters": {"type": "object", "properties": {"town": {"type": "string"}}},
    },
}
ARGUMENTS = {"town": "Bern", "days": 3, "also": ["b", "a"]}
USER = {"role": "user", "content": "q"}
NEXT = {"role": "user", "content": "n"}


def official(shape: TemplateShape, messages: list[Any], tools: Any = None) -> str:
    """Return what the template itself writes; arguments are handed to it as objects."""
    copies = json.loads(json.dumps(messages))
    for message in copies:
        message["content"] = message.get("content") or ""
        for call in message.get("tool_calls", ()):
            if isinstance(call["function"]["arguments"], str):
                call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    text: str = shape.tokenizer().apply_chat_template(
        copies, tools=tools, tokenize=False, add_generation_prompt=True
    )
    return text


def called(call_id: str, arguments: Any = ARGUMENTS) -> dict[str, Any]:
    text = json.dumps(arguments)
    function = {"name": "look_up", "arguments": text}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


def gateway_prompt(shape: TemplateShape, messages: list[Any], tools: Any = None) -> str:
    template = ChatTemplate(shape.tokenizer())
    form, request = ContextCallForm(template), chat_request({"messages": messages, "tools": tools})
    parts = (template, form, ActionForest(), AnsweredMessages())
    rendered = MessageRendering(request.messages, request.tools, 0, *parts).prompt()
    return template.spell(rendered.ids)


@pytest.mark.parametrize("handler", CALL_SHAPES)
def test_the_form_of_a_template_is_found_by_rendering_a_call(handler: str) -> None:
    template = ChatTemplate(CALL_SHAPES[handler].tokenizer())
    form = find_call_form(template)
    assert (form.handler, form.is_unread) == (handler, False)
    calls = [Call("look_up", {"town": "Bern"})]
    assert get_handler(form.handler_name).decode(template.text_of_calls(calls)) == calls
    written = get_handler(form.handler_name).render(calls)
    assert get_handler(handler).decode(written) == calls


@pytest.mark.parametrize("handler", CALL_SHAPES)
def test_the_gateways_prompt_is_what_the_template_writes(handler: str) -> None:
    shape = CALL_SHAPES[handler]
    for call_id in ("functions.look_up:0", "abcdefgh1"):
        result = {"role": "tool", "tool_call_id": call_id, "content": "r"}
        talk = [USER, called(call_id), result]
        for messages in (talk, [*talk, {"role": "assistant", "content": "a"}, NEXT]):
            assert gateway_prompt(shape, messages, [TOOL]) == official(shape, messages, [TOOL])
    assert '"town": "Bern", "days": 3' in gateway_prompt(HERMES, talk, [TOOL])


@pytest.mark.parametrize("handler", CALL_SHAPES)
def test_an_episode_grows_to_what_the_template_writes_whole(handler: str) -> None:
    shape = CALL_SHAPES[handler]
    template = ChatTemplate(shape.tokenizer())
    calls = template.calls_message([Call("look_up", ARGUMENTS)])
    call_id = calls["tool_calls"][0]["id"]
    results = [{"role": "tool", "name": "look_up", "tool_call_id": call_id, "content": "r"}]
    text = template.spell(template.render_prompt([USER], [TOOL]))
    text += template.text_of_calls([Call("look_up", ARGUMENTS)], [TOOL])
    text += template.spell(template.render_delta(results, -1, calls))
    assert text == official(shape, [USER, calls, *results], [TOOL])


class _CallingEnv(gymnasium.Env[str, str]):
    """Two turns; a call is answered by a tool, words by the next question."""

    def reset(self, **_: Any) -> tuple[str, dict[str, Any]]:
        self.steps = 0
        return "", {"messages": [USER], "tools": [TOOL]}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        calls = [Call("look_up", ARGUMENTS)] if "Bern" in action else []
        result = {"role": "tool", "name": "look_up(town='Bern')", "content": "r"}
        info = {"messages": [result if calls else NEXT], "tools": [TOOL], "calls": calls}
        return "", 0.0, self.steps == 3, False, info


def test_a_text_that_the_template_refuses_makes_its_episode_invalid_with_the_reason() -> None:
    result = "{{ m.content | tojson }}<|end|>"
    forgets = HARMONY.source.replace(result, "{{ m.content | tojson if loop.last }}<|end|>")
    rewrites = HARMONY._replace(source=forgets).tokenizer()
    template = ChatTemplate(rewrites, listed_ends=rewrites.encode("<|call|>"))
    final = "<|channel|>final<|message|>words"

    def script(task_id: str, turn: int, step: int, info: Mapping[str, Any]) -> str:
        call = template.text_of_calls([Call("look_up", ARGUMENTS)])
        said = {"words": final, "calls": call, "thought": "<|channel|>analysis<|message|>hm"}
        return said[task_id]

    engine = ScriptedEngine(script, template.encode, template.end_of_turn_id)
    envs: list[Any] = [_CallingEnv()]
    tasks = ["words", "calls", "thought"]
    words, calls, thought = collect(envs, engine, template, tasks, max_episode_tokens=4000)
    assert (words.invalid, calls.invalid, thought.invalid) == (False, False, True)
    assert "channel in content" in thought.invalid_reason
    told = template.spell(calls.rows[-1].ids)
    assert '<|start|>functions.look_up to=assistant<|channel|>commentary<|message|>"r"' in told
    assert calls.num_steps == words.num_steps == 3


@pytest.mark.parametrize("shape", [HERMES, QWEN3, KIMI, MISTRAL3, HARMONY, *CALL_SHAPES.values()])
def test_the_doctor_calls_sound_templates_sound(shape: TemplateShape) -> None:
    found = template_findings(shape.tokenizer())
    assert [each.line for each in found if each.level == "fault"] == []
    assert exit_code(found) == 0


def test_what_is_said_before_calls_stays_in_a_history_or_is_noted_at_the_start(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rewrites = MISTRAL3._replace(source="{{ 'x' if messages[2:] }}" + MISTRAL3.source)
    shows = rewrites.source.replace("[TOOL_CALLS] [", "{{ m.content }}[TOOL_CALLS] [")
    for shape, lost in ((rewrites, True), (rewrites._replace(source=shows), False)):
        template = ChatTemplate(shape.tokenizer())
        calls = [Call("look_up", ARGUMENTS)]
        text = f"Not [TOOL_CALLS] yet</think>So.{template.text_of_calls(calls)}"
        said = template.calls_message(calls, text=text)
        result = {"role": "tool", "tool_call_id": "000000000", "content": "r"}
        history = [USER, {**said, "content": text}, result]
        shown = template.text_of_history(history, trusted=[1])
        assert (text in shown) is not lost
        assert template.text_of_calls(calls) in shown
        notes = [
            each for each in template_findings(shape.tokenizer()) if each.check == "before calls"
        ]
        assert [each.level for each in notes] == ["note"] * lost
        check_template(template)
        assert capsys.readouterr().out.count("before a call leaves the prompt") == lost


def test_a_form_that_nobody_reads_is_a_fault_unless_another_is_named() -> None:
    template = ChatTemplate(UNREAD.tokenizer())
    assert find_call_form(template).is_unread
    [named] = [each for each in template_findings(UNREAD.tokenizer()) if each.level == "fault"]
    assert "<call-me>" in named.line
    assert "--handler" in named.line
    with pytest.raises(SettingError, match="no handler reads"):
        check_template(template)
    check_template(template, "hermes_calls")
    python = "{{ c.function.name }}({% for k, v in c.function.arguments.items() %}{{ k }}={{ v }}"
    python = "[" + python + "{{ ', ' if not loop.last }}{% endfor %})]"
    source = HERMES.source.replace(
        '<tool_call>\n{"name": "{{ c.function.name }}", "arguments": ', ""
    )
    source = source.replace("{{ c.function.arguments | tojson }}}\n</tool_call>", python)
    template = ChatTemplate(HERMES._replace(source=source).tokenizer())
    with pytest.raises(SettingError, match=r"of several arguments .*town=x y, days=12.*--handler"):
        check_template(template)
    check_template(template, "llama_pythonic_calls")
    fails = HERMES.source.replace("<tool_call>\n{", "{{ [].append(1) }}<tool_call>\n{")
    tokenizer = HERMES._replace(source=fails).tokenizer()
    [named] = [each for each in template_findings(tokenizer) if each.is_fault]
    assert "takes tools and fails on calls: SecurityError" in named.line
    assert "--handler" in named.line


@pytest.mark.parametrize("value", ["json", "text"])
def test_a_response_schema_of_the_tokenizer_is_compared_with_ours(value: str) -> None:
    field = {"open": "<tool_call>", "close": "</tool_call>", "repeats": True, "content": value}
    field["transform"] = {"type": "function", "function": "{content}"}
    if value == "text":  # what a call is written as is its name
        field["transform"] = {"type": "function", "function": {"name": "{content}"}}
    tokenizer = HERMES.tokenizer()
    tokenizer.response_template = {
        "start_anchor": "<|im_start|>assistant\n",
        "fields": {"tool_calls": field, "content": {"close": "<|im_end|>", "content": "text"}},
    }
    [found] = [each for each in template_findings(tokenizer) if each.check == "response schema"]
    assert found.level == ("sound" if value == "json" else "note")
    assert "hermes_calls" in found.line
    if value == "text":
        assert 'hermes_calls as [{"fctnprobe_look_up": {"town": "Bern"}}]' in found.line
        assert "<tool_call>" in found.line


def test_a_template_with_tools_elsewhere_takes_them() -> None:
    own = TemplateShape(
        "{% if my_functions %}<|im_start|>{{ my_functions | tojson }}<|im_end|>{% endif %}"
        "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}",
    )
    in_system = TemplateShape(
        "{% for m in messages %}<|im_start|>{{ m.role }} {{ m.content }}"
        "{% if m.role == 'system' and m.tools %}{{ '<|tool|>' + m.tools + '<|/tool|>' }}{% endif %}"
        "<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant {% endif %}"
    )
    under_system = TemplateShape(
        "{% for m in messages %}<|im_start|>{{ m.role }} {{ m.content }}"
        "{% if m.role == 'system' and tools %}{{ tools | tojson }}{% endif %}<|im_end|>{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant {% endif %}"
    )
    for shape in (own, in_system, under_system):
        template = ChatTemplate(shape.tokenizer())
        text = template.spell(template.render_prompt([USER], [TOOL], "Instructions."))
        assert template.takes_tools
        assert "look_up" in text
        assert "Instructions." not in text


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ("{% for c in m.tool_calls or [] %}", "{% for c in m.tool_calls if tools %}"),
        ("{{ c.function.arguments | tojson }}", "{{ c.function.arguments }}"),
    ],
    ids=["calls where tools are given alone", "arguments as they come"],
)
def test_the_call_form_is_found_however_calls_and_arguments_have_to_be_given(
    written: str, instead: str
) -> None:
    assert written in HERMES.source
    shape = HERMES._replace(source=HERMES.source.replace(written, instead))
    template = ChatTemplate(shape.tokenizer())
    assert find_call_form(template).handler == "hermes_calls"
    assert [each.line for each in template_findings(shape.tokenizer()) if each.is_fault] == []
    said = called("1")
    result = {"role": "tool", "tool_call_id": "1", "content": "r"}
    assert '{"town": "Bern", "days": 3' in gateway_prompt(shape, [USER, said, result], [TOOL])


def test_named_templates_that_want_a_list_of_tools_render_without_one() -> None:
    tokenizer = HERMES.tokenizer()
    wants_list = HERMES.source.replace("{% if tools %}", "{% if tools | length %}")
    tokenizer.chat_template = {"default": HERMES.source, "tool_use": wants_list}
    template = ChatTemplate(tokenizer)
    assert template.source == wants_list
    assert template.append_only
    assert "look_up" in template.spell(template.render_prompt([USER], [TOOL]))


def test_contents_are_given_as_parts_where_the_template_wants_them() -> None:
    template = ChatTemplate(PARTS.tokenizer())
    text = template.spell(template.render_prompt([USER]))
    assert text == "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n"
    found = template_findings(PARTS.tokenizer())
    assert any("as a list of parts" in each.line for each in found)
    assert exit_code(found) == 0


def test_a_blank_before_an_answer_is_noted_and_no_fault() -> None:
    found = template_findings(MISTRAL3.tokenizer())
    [named] = [each for each in found if "' ' before an answer" in each.line]
    assert named.level == "note"


@pytest.mark.parametrize("handler", ["hermes_calls", "mistral_calls", "glm_calls"])
def test_demonstrations_are_written_in_the_form_that_the_prompt_asks_for(handler: str) -> None:
    template = ChatTemplate(CALL_SHAPES[handler].tokenizer())
    tasks = [each for each in load_tasks(embedded_path("train")) if each.kind != "clarify"][:3]
    name = find_call_form(template).handler_name

    def make_env(tasks: Any) -> Any:
        return FunctionCallingEnv(tasks=tasks, handler=name)

    for record in play_ground_truths(tasks, make_env, template, name, 20_000):
        assert record.success
        texts = [step.text for step in record.episode.steps if step.calls]
        assert texts
        assert all(get_handler(handler).recognises(text) for text in texts)


def test_words_and_thought_before_calls_come_whole() -> None:
    call = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
    text = f"<think>\nmaybe <tool_call> is right\n</think>\n\nSo, <b>: {call}"
    answer = answer_message(text, get_handler("auto:hermes_calls"), "s", 0)
    assert answer.message["content"] == "So, <b>:"
    assert answer.message["reasoning_content"] == "maybe <tool_call> is right"
    assert len(answer.calls) == 1


@pytest.mark.parametrize("shape", [HERMES, GLM, HARMONY])
def test_an_agent_gets_typed_calls_thoughts_apart_and_word_of_a_broken_call(
    shape: TemplateShape,
) -> None:
    template, engine, over = ChatTemplate(shape.tokenizer()), TokenScript(), threading.Event()
    sampler = Sampler(1)
    thread = threading.Thread(target=sampler.run, args=(engine, over.is_set))
    thread.start()
    gateway = Gateway(template, sampler, GatewaySettings())
    session = gateway.open("")
    messages: list[Any] = [{**USER, "content": [{"type": "text", "text": "q"}]}]
    call = template.text_of_calls([Call("look_up", {"town": "12"})])
    opens, closes = ("<think>", "</think>\n\n")
    if shape is HARMONY:
        opens, closes = ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant")
    texts = [call, call[: call.rindex("12")], f"{opens}hm{closes}{template.header}Done.", "So."]
    answers = []
    try:
        for text in texts:
            engine.answers.append([*template.encode(text), template.end_of_turn_id])
            request = chat_request({"messages": messages, "tools": [TOOL]})
            answers.append(gateway.complete(session, request))
            said = answers[-1].messages[0].message
            results = [
                {"role": "tool", "name": "look_up", "tool_call_id": each["id"], "content": "r"}
                for each in said.get("tool_calls", ())
            ]
            messages += [said, *(results or [NEXT])]
    finally:
        over.set()
        sampler.wake()
        thread.join()
    typed, broken, thought, _ = answers
    [sent] = typed.messages[0].message["tool_calls"]
    assert json.loads(sent["function"]["arguments"]) == {"town": "12"}  # a text by its schema
    chunks = list(final_chunks(broken, template, [""]))
    assert answer_body(broken, template)["choices"][0]["unread_call"]
    assert chunks[-1]["choices"][0]["unread_call"]
    message = thought.messages[0].message
    assert (message["content"], message["reasoning_content"]) == ("Done.", "hm")
    assert {each.kind for each in session.drift} <= {"rewritten"}  # each answer is known again
    rows = session.to_record().rows
    trained = [t for row in rows for t, own in zip(row.ids, row.acted, strict=True) if own]
    assert trained == [t for action in session.forest.actions for t in action.ids]


def test_a_broken_call_beside_a_sound_one_is_told() -> None:
    calls = ['{"name": "one", "arguments": {"a": 1, "b": }}', '{"name": "two", "arguments": {}}']
    text = "\n".join(f"<tool_call>\n{each}\n</tool_call>" for each in calls)
    answer = answer_message(text, get_handler("auto:hermes_calls"), "s", 0)
    assert not answer.calls
    assert answer.has_unread_call
    assert answer.message["content"] == text


def test_a_resumed_run_keeps_its_form(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoints" / "last"
    checkpoint.mkdir(parents=True)
    for before, kept in (({"handler": "auto"}, "auto"), ({"handler": "auto:glm_calls"},) * 2):
        (tmp_path / "config.json").write_text(json.dumps(before), encoding="utf-8")
        expected = kept if isinstance(kept, str) else kept["handler"]
        assert keep_form(RunConfig(), checkpoint).handler == expected
        assert keep_form(RunConfig(handler="json_calls"), checkpoint).handler == "json_calls"


def test_refusals_are_one_line() -> None:
    template = ChatTemplate(MISTRAL3.tokenizer())
    bad = [{"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}]
    with pytest.raises(TemplateRefusal) as refusal:
        template.render_prompt([USER, *bad, {"role": "tool", "content": object()}])
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "sent",
    [
        {"function_call": {"name": "f", "arguments": '{"a": 1}'}},
        {"tool_calls": [{"function": {"name": "f\n", "arguments": '{"a": 1}'}}]},
        {"tool_calls": [{"function": {"name": "f", "arguments": json.dumps('{"a": 1}')}}]},
    ],
)
def test_answers_of_endpoints_that_say_clearly_what_they_mean_are_read(sent: Any) -> None:
    [fault] = mend_calls(sent)
    assert fault
    [call] = sent["tool_calls"]
    assert call["function"] == {"name": "f", "arguments": '{"a": 1}'}
    assert mend_calls(sent) == []
    text = {"tool_calls": [{"function": {"name": "f", "arguments": '"a'}}]}
    assert mend_calls(text) == []
