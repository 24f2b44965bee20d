"""Dialogues: the environment as chat messages; the verdict of a conversation is that of its
actions.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from itertools import islice
from typing import Any

import pytest
from chat_messages import CATEGORIES, FIRST, TASKS, recorded_message, tool_calls_message
from conftest import SharedFolder

from fctncalling import Dialogue, info_to_json, load_tasks, opening, score
from fctncalling.data.types import Call, Task, Verdict
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.handlers import get_handler
from fctncalling.envs.judging.oracle import oracle_calls


def oracle_messages(task: Task, form: str) -> list[dict[str, Any]]:
    """Return the assistant's messages of a perfect answer."""
    messages = []
    for calls in oracle_calls(task):
        if calls and form == "tool_call":
            messages.append(tool_calls_message(calls))
        elif calls:
            text = get_handler("python_calls").render(calls)
            messages.append({"role": "assistant", "content": text})
        if task.executes_calls or not calls:
            messages.append({"role": "assistant", "content": "Done."})
    return messages


@pytest.mark.parametrize("form", ["tool_call", "prompting"])
@pytest.mark.parametrize("task", FIRST, ids=lambda task: task.category)
def test_a_perfect_dialogue_is_valid_and_its_messages_score_alike(task: Task, form: str) -> None:
    dialogue = Dialogue(task, form=form)
    dialogue.open()
    for message in oracle_messages(task, form):
        assert not dialogue.done
        answers = dialogue.reply(message)
        wanted = [call["id"] for call in message.get("tool_calls", ())]
        if not dialogue.done or task.executes_calls:
            assert [m["tool_call_id"] for m in answers if m["role"] == "tool"] == wanted
    assert dialogue.done
    assert dialogue.verdict is not None
    assert dialogue.verdict.valid
    assert dialogue.reward == 1.0
    assert score(dialogue.messages, dialogue.task, form=form).valid


@pytest.mark.parametrize("task", FIRST, ids=lambda task: task.category)
def test_an_opening_has_the_first_turn_and_the_functions(task: Task) -> None:
    messages, tools = opening(task)
    assert messages[-1]["content"] == task.question[0][-1]["content"]
    missing = task.category.endswith("miss_func")
    assert (len(tools) < len(task.functions)) == missing
    prompted = opening(task, "prompting")
    assert prompted.tools == []
    assert prompted.messages[0]["role"] == "system"
    assert all(doc.name in prompted.messages[0]["content"] for doc in task.functions[:1])


def test_every_tool_call_is_answered_where_calls_cannot_be_run() -> None:
    """Chat interfaces refuse a conversation in which a tool call has no result."""
    task = next(task for task in TASKS if task.is_multi_turn)
    dialogue = Dialogue(task)
    dialogue.open()
    broken = {"id": "c7", "type": "function", "function": {"name": "ls", "arguments": "{not json"}}
    answers = dialogue.reply({"role": "assistant", "content": None, "tool_calls": [broken]})
    assert answers[0] | {"content": ""} == {"role": "tool", "tool_call_id": "c7", "content": ""}


@pytest.mark.parametrize("form", ["tool_call", "tools_text"])
@pytest.mark.parametrize(
    "calls",
    [
        [{}],
        ["ls"],
        [None],
        {"function": {"name": "ls", "arguments": "{}"}},
        "ls()",
        [{"function": "ls"}],
        [{"id": "c7", "function": {"name": ["ls"], "arguments": "{}"}}],
        [{"id": "c7", "function": {"name": "ls", "arguments": {1, 2}}}],
        [{"function": {"arguments": "{}"}}],
        [{"function": {"name": "ls", "arguments": "{}"}}, 7],
    ],
    ids=str,
)
def test_tool_calls_of_another_shape_are_the_model_s_mistake(form: str, calls: Any) -> None:
    task = next(task for task in TASKS if task.is_multi_turn)
    dialogue = Dialogue(task, form=form)
    dialogue.open()
    answers = dialogue.reply({"role": "assistant", "content": "", "tool_calls": calls})
    assert dialogue.info["error"] == "malformed"
    assert "malformed tool_calls" in json.dumps([*dialogue.messages])
    answered = [each.get("tool_call_id") for each in answers]
    assert ("c7" in answered) == ("c7" in str(calls))
    assert not dialogue.verdict_so_far().valid


@pytest.mark.parametrize("depth", [900, 2_000, 100_000])
@pytest.mark.parametrize("form", ["tool_call", "tools_text", "prompting"])
def test_arguments_nested_deep_are_the_model_s_mistake(form: str, depth: int) -> None:
    task = next(task for task in TASKS if task.is_multi_turn)
    nested: Any = 1
    for _ in range(depth):
        nested = {"a": [nested]}
    for arguments in (nested, [nested], '{"a": ' * depth + "1" + "}" * depth):
        dialogue = Dialogue(task, form=form)
        dialogue.open()
        call = {"id": "c7", "function": {"name": "ls", "arguments": arguments}}
        dialogue.reply({"role": "assistant", "content": "", "tool_calls": [call]})
        assert not dialogue.verdict_so_far().valid


def test_score_of_a_conversation_cut_short_is_that_of_what_there_is() -> None:
    task = next(task for task in TASKS if task.is_multi_turn)
    messages = oracle_messages(task, "tool_call")
    verdict = score(messages[:1], task)
    assert not verdict.valid
    assert score([], task) == score([], task)
    assert score(messages, task).valid


def test_a_failure_of_tools_is_no_verdict() -> None:
    def broken_user(*_: object) -> str:
        raise InfrastructureError("the user is gone")

    task = next(task for task in TASKS if task.is_multi_turn)
    with pytest.raises(InfrastructureError, match="the user is gone"):
        score([{"role": "assistant", "content": "Hello?"}], task, user=broken_user)


def test_an_unknown_form_is_named() -> None:
    with pytest.raises(LookupError, match=r'no form is called "chat": expected one of prompting'):
        Dialogue(TASKS[0], form="chat")


def test_info_becomes_json() -> None:
    verdict = Verdict(False, 0.0, "multi_turn:instance_state_mismatch", "cwd", ())
    info = {
        "calls": [Call("add", {"a": 1, "b": (2, float("nan"))})],
        "verdict": verdict,
        "error": None,
        "text": "\ud83d",
        3: {"x"},
    }
    plain = info_to_json(info)
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["calls"] == [{"name": "add", "arguments": {"a": 1, "b": [2, "nan"]}}]
    assert plain["verdict"]["error_type"] == "multi_turn:instance_state_mismatch"
    assert plain["3"] == ["x"]


@pytest.mark.parametrize("table", CATEGORIES)
def test_score_equals_the_official_verdict(
    table: str, shared: SharedFolder, verdict_counter: Any
) -> None:
    """25 recorded answers of each category, spread over the table, as assistant messages."""
    category = table.removeprefix("fc_")
    with gzip.open(shared / "bfcl" / "verdicts" / f"{table}.jsonl.gz", "rt") as lines:
        records = [json.loads(line) for line in lines]
    tasks = {
        task.id: task for task in load_tasks(shared / "bfcl" / "data" / f"BFCL_v4_{category}.json")
    }
    seen: Counter[bool] = Counter()
    for record in islice(records, 0, None, max(1, len(records) // 25)):
        form = record["form"]
        message = recorded_message(record["response"], form)
        verdict = score([message], tasks[record["id"]], form=form)
        assert verdict.valid == record["valid"], record
        seen[record["valid"]] += 1
    verdict_counter.add(seen.total())
    assert seen[True]
    assert seen[False]
