"""Logged conversations: of every form exactly one predicate holds, and its calls are read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from call_templates import HERMES, KIMI
from conversation_examples import ASKED, EXAMPLES, TOOL

from fctncalling.algorithms.config import SettingError
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.cli.evaluate import main
from fctncalling.conversations import (
    ConversationLog,
    Unreadable,
    exchanges,
    holds_conversations,
    logged_tasks,
)
from fctncalling.conversations.log_forms import LOG_FORMS, forms_of, read_record
from fctncalling.data.bfcl import embedded_path
from fctncalling.data.types import Call, Task
from fctncalling.envs.conversations import ToolCallConversation
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.handlers import get_handler
from fctncalling.lab.doctor.examine import ExaminationSettings, examine
from fctncalling.lab.forge.own_api.drawn_call import askable_api
from fctncalling.lab.forge.own_api.logged_requests import LoggedRequests
from fctncalling.lab.own_api.kinds import argument_kinds
from fctncalling.lab.own_api.load import load_api
from fctncalling.specification.tool_list import offered_functions
from fctncalling.training.demonstrations import load_logged_tasks, play_ground_truths

KNOWN = offered_functions([TOOL])
BOOKED = [Call("book_table", {"guests": 4})]


def written(folder: Path, *records: Any) -> Path:
    path = folder / "log.jsonl"
    path.write_text("".join(f"{json.dumps(each)}\n" for each in records), encoding="utf-8")
    return path


def answers_of(record: Any) -> list[list[Call]]:
    found = list[list[Call]]()
    with suppress(Unreadable):  # NESTful's calls that wait for results
        for each in read_record(record, KNOWN):
            assert each.fault == ""
            found += [list(exchange.calls) for exchange in exchanges(each)]
    return found


@pytest.mark.parametrize("name", EXAMPLES)
def test_of_each_form_exactly_one_predicate_holds_and_the_call_is_read(name: str) -> None:
    form, record = EXAMPLES[name]
    assert [each.name for each in forms_of(record)] == [form]
    calls = [each for each in answers_of(record) if each]
    expected = [Call("Table_Booking_API", {"guests": 4})] if name == "toolace" else BOOKED
    assert calls[0][:1] == expected


def test_the_examples_are_of_all_forms() -> None:
    assert {form for form, _ in EXAMPLES.values()} == {each.name for each in LOG_FORMS}


def test_every_exchange_is_read_with_results_by_the_ids_of_their_calls() -> None:
    [conversation] = read_record(EXAMPLES["openai"][1], KNOWN)
    found = list(exchanges(conversation))
    assert [[call.arguments["guests"] for call in each.calls] for each in found] == [
        [4, 2],
        [],
        [2],
    ]
    assert [each.words for each in found] == ["", "Booked.", ""]
    [call, other], (first, second) = conversation.messages[2]["tool_calls"], found[1].history[3:]
    assert (first["tool_call_id"], first["content"]) == (other["id"], "two")
    assert (second["tool_call_id"], second["content"]) == (call["id"], "ok")


@pytest.mark.parametrize(
    ("record", "told"),
    [
        ({"prompt": ASKED, "completion": "x", "request": {}}, "prompt and answer and request"),
        ({"chat": "USER: x", "messages": [{"role": "user", "content": "x"}]}, "chat and glaive"),
        ({"text": "x"}, "is of no form that is read: keys ['text']"),
        ([{"role": "user", "content": "x"}, {"type": "x"}], "a message whose role is 'x'"),
        ({"request": {"messages": [{}]}, "response": {"error": "x"}}, "a request that failed"),
        ({"request": {"input": "x"}, "response": "data: {}"}, "streamed in pieces"),
        ({"request": {"model": "m"}, "response": {}}, "a request without messages"),
        ({"prompt": "x", "completion": {"choices": []}}, "holds no message"),
        ({"messages": [{"role": "assistant"}], "output": "x"}, "an answer behind an answer"),
        ([{"role": "judge", "content": "x"}], "a message whose role is 'judge'"),
        ([{"role": "tool", "content": "x"}], "a result that answers no call"),
        ([{"role": "user", "content": [{"type": "image"}]}], "a part of type 'image'"),
        ([{"role": "assistant", "tool_calls": [{"name": 5}]}], "a call whose name is 5"),
        ([{"role": "assistant", "content": "<tool_call>\n{"}], "calls as text that cannot be read"),
        ([{"role": "user", "content": "x"}], "nothing that an assistant answered"),
        ({"query": "x", "answers": [{"name": "mow"}]}, "calls 'mow', which is not on offer"),
        (
            {"query": "x", "answers": [{"name": "book_table", "arguments": {"cat": 1}}]},
            "gives book_table 'cat', which it does not take",
        ),
    ],
)
def test_what_is_not_read_is_counted_by_its_reason(record: Any, told: str, tmp_path: Path) -> None:
    log = ConversationLog(written(tmp_path, EXAMPLES["trl"][1], record), KNOWN)
    assert len(list(logged_tasks(log))) == 1
    assert log.num_left_out == 1
    assert log.left_out().startswith("1 (line 2) ")
    assert told in log.left_out()


def test_what_stands_before_a_fault_is_used_and_what_it_may_be_a_part_of_is_not() -> None:
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    broken = {"role": "assistant", "tool_calls": [{"name": "f", "arguments": "{"}]}
    [read] = read_record([*said, said[0], said[1], broken, *said], KNOWN)
    assert [each["content"] for each in read.messages] == ["Hi", "Hello", "Hi"]
    assert "arguments that are no JSON object" in read.fault


@pytest.mark.parametrize(
    "text",
    [
        lambda them: "\n".join(map(json.dumps, them)),
        lambda them: "\n\n".join(json.dumps(each["messages"]) for each in them),
        json.dumps,
        lambda them: "\ufeff" + json.dumps(them, indent=1),
    ],
    ids=["lines", "lists", "array", "array on lines"],
)
def test_lines_and_arrays_hold_the_same_conversations(text: Any, tmp_path: Path) -> None:
    talks = [
        {"messages": [{"role": "user", "content": str(n)}, {"role": "assistant", "content": "a"}]}
        for n in range(3)
    ]
    path = tmp_path / "log"
    path.write_text(text(talks), encoding="utf-8")
    for most in (1 << 25, 128):  # bytes that are read at once
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("fctncalling.conversations.conversation_log.MAX_WHOLE", most)
            assert holds_conversations(path)
            assert len(read_log(path)) == 3
    read = [(number, each.messages[0]["content"]) for number, each in read_log(path)]
    assert [content for _, content in read] == ["0", "1", "2"]
    assert [number for number, _ in read] in ([1, 2, 3], [1, 3, 5])
    path.write_text(json.dumps(talks[1], indent=1), encoding="utf-8")
    assert [each.messages[0]["content"] for _, each in read_log(path)] == ["1"]
    path.write_text(json.dumps(talks[2]["messages"], indent=1), encoding="utf-8")
    assert [each.messages[0]["content"] for _, each in read_log(path)] == ["2"]


def read_log(path: Path) -> list[Any]:
    return list(ConversationLog(path).conversations())


def test_tasks_are_no_conversations() -> None:
    assert not holds_conversations(embedded_path("train"))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("int", "integer"),
        ("str, optional", "string"),
        ("List[int]", ("array", "integer")),
        ("Optional[float]", "float"),
        ("Union[int, str]", "any"),
        ("Dict[str, int]", "dict"),
        (["number", "null"], "float"),
        (None, "any"),
        ("OBJECT", "dict"),
    ],
)
def test_types_of_python_and_none_at_all_are_those_of_bfcl(kind: Any, expected: Any) -> None:
    listed = {"name": "f", "description": "", "parameters": {"a": {"type": kind, "default": 1}}}
    [doc] = offered_functions(json.dumps([json.dumps(listed)])).functions
    read = doc.parameters["properties"]["a"]
    found = (read["type"], read["items"]["type"]) if "items" in read else read["type"]
    assert found == expected
    assert doc.parameters["required"] == []


def all_tasks(folder: Path) -> tuple[list[Task], ConversationLog]:
    texts = [json.dumps(record) for _, record in EXAMPLES.values()]
    records = [json.loads(text.replace(ASKED, f"{ASKED} {n}")) for n, text in enumerate(texts)]
    log = ConversationLog(written(folder, *records), KNOWN)
    return list(logged_tasks(log)), log


@pytest.mark.parametrize("shape", [None, HERMES, KIMI], ids=["embedded", "hermes", "kimi"])
def test_logged_answers_are_demonstrations_behind_all_that_stood_before_them(
    shape: Any, tmp_path: Path
) -> None:
    from transformers import AutoTokenizer

    tokenizer = (
        AutoTokenizer.from_pretrained(embedded_path("model"))
        if shape is None
        else shape.tokenizer()
    )
    template = ChatTemplate(tokenizer)
    tasks, log = all_tasks(tmp_path)
    assert {task.id.split("_")[-2] for task in tasks} == {
        str(number) for number, _ in enumerate(EXAMPLES, 1)
    }
    assert log.left_out().endswith("calls that wait for results, which the log does not hold")
    handler = {None: "", HERMES: "hermes_calls", KIMI: "kimi_k2_calls"}[shape]

    def make_env(some: Sequence[Task]) -> FunctionCallingEnv:
        return FunctionCallingEnv(tasks=some, handler=handler or "auto", strict=True)

    played = play_ground_truths(tasks, make_env, template, handler, 100_000)
    assert all(each.success and each.strict_success for each in played)
    written_calls = get_handler(handler or "python_calls")
    for task, each in zip(tasks, played, strict=True):
        (row,) = each.rows
        context, said = (
            template.spell([i for i, acts in zip(row.ids, row.acted, strict=True) if acts is acted])
            for acted in (False, True)
        )
        logged = task.extra["logged_answer"]
        calls = [Call(*call) for call in logged] if isinstance(logged, list) else []
        assert (written_calls.render(calls) if calls else logged).split()[0] in said
        for message in task.question[0]:
            if message.get("tool_calls"):
                assert message["tool_calls"][0]["function"]["name"] in context
                assert context.count('"guests": 4') + context.count("guests=4") == 1
            else:
                assert message["content"] in context


def test_a_log_is_offered_the_training_tasks_functions_and_told_what_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [listed] = logged_tasks(ConversationLog(written(tmp_path, EXAMPLES["trl"][1])))
    path = written(tmp_path, EXAMPLES["tau-bench"][1], {"text": "x"})
    [task] = load_logged_tasks(path, [listed])
    assert task.functions == listed.functions
    assert "1 answers of" in (told := capsys.readouterr().out)
    assert "left out: 1 (line 2) is of no form" in told
    with pytest.raises(SettingError, match=r"0 answers of .*1 \(line 1\) offers no function"):
        load_logged_tasks(path, [])


def test_an_interface_is_sent_the_calls_of_a_history_with_their_results(tmp_path: Path) -> None:
    [*_, task] = logged_tasks(ConversationLog(written(tmp_path, EXAMPLES["openai"][1])))
    conversation = ToolCallConversation()
    conversation.observe("", {"messages": task.question[0]})
    roles = [each["role"] for each in conversation.messages]
    assert roles == ["system", "user", "assistant", "tool", "tool", "assistant", "user"]
    calls = conversation.messages[2]["tool_calls"]
    assert [call["function"]["arguments"] for call in calls] == ['{"guests": 4}', '{"guests": 2}']
    assert {each["id"] for each in calls} == {
        each["tool_call_id"] for each in conversation.messages[3:5]
    }


def test_doctor_tells_what_it_left_out_of_a_log_as_unchecked(tmp_path: Path) -> None:
    path = written(tmp_path, EXAMPLES["openai"][1], {"text": "x"})
    settings = ExaminationSettings(str(embedded_path("model")), dataset_path=path, quick=True)
    found = examine(settings)
    [left_out] = [each for each in found.findings if each.check == "tasks"]
    assert left_out.level == "unchecked"
    assert "1 (line 2) is of no form" in left_out.message
    said = "".join(span.text for span in found.spans)
    assert "[book_table(guests=4), book_table(guests=2)]" in said


@pytest.fixture
def api(tmp_path: Path) -> Path:
    """Return a specification whose function no call can name as it is."""
    path = tmp_path / "api.json"
    path.write_text(json.dumps([{**TOOL, "name": "book-table"}]), encoding="utf-8")
    return path


def requests_of(api: Path, log: Path) -> tuple[list[dict[str, Any]], str]:
    loaded = load_api(str(api))
    requests = LoggedRequests(log, askable_api(loaded, argument_kinds(loaded, None), {}))
    return list(requests.tasks()), requests.left_out()


@pytest.mark.parametrize("name", [each for each in EXAMPLES if each != "toolace"])
def test_a_call_of_each_form_is_a_request_with_its_truth(
    name: str, api: Path, tmp_path: Path
) -> None:
    record = json.loads(json.dumps(EXAMPLES[name][1]).replace("book_table", "book-table"))
    found, left_out = requests_of(api, written(tmp_path, record, record))
    last = found[-1]
    assert last["question"][0][-1]["role"] == "user"
    assert set(last["ground_truth"][0]) == {"book_table"}
    if name != "nestful":
        assert left_out == f"{len(found)} (line 2) is there twice"


@pytest.mark.parametrize("name", ["D20", "D21", "D22"])
def test_a_log_that_once_gave_no_request_gives_one(
    name: str, shared: Path, api: Path, tmp_path: Path
) -> None:
    cases = map(json.loads, (shared / "cases/apis_answers_logs.jsonl").read_text().splitlines())
    [given] = [each["input"] for each in cases if each["id"] == name]
    if "tool" in given:  # D21, in words
        api.write_text(json.dumps([{**TOOL, "name": given["tool"]}]), encoding="utf-8")
        given = {"query": ASKED, "answers": [{"name": given["log_calls"], "arguments": {}}]}
        given["answers"][0]["arguments"]["guests"] = 4
    else:
        given = json.loads(json.dumps(given).replace("book_table", "book-table"))
    [task], _ = requests_of(api, written(tmp_path, given))
    assert task["question"][0][-1]["content"] == "A table for 4, please."
    [call] = task["ground_truth"]
    assert [values["guests"] for values in call.values()] == [[4]]


def test_a_log_without_a_request_ends_in_exit_code_2_with_the_reasons(
    api: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = written(tmp_path, [{"role": "user", "content": "Hello"}], {"text": "x"})
    flags = ["--from_logs", str(log), "--output", str(tmp_path / "o.jsonl")]
    assert main(["forge", "--api", str(api), *flags]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "holds no request that calls answered" in error
    assert "1 (line 1) no user message that is answered by calls" in error
    assert "1 (line 2) is of no form that is read" in error
    assert not list(tmp_path.glob("o.jsonl*"))
