"""Log forms: records of data sets, gateways and traces, recognised by their keys.

Each form is a row: its name, a predicate on the whole record, a reader to lists of messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fctncalling.conversations.conversation import Conversation, Unreadable, loaded, objects
from fctncalling.conversations.message_forms import RawMessage, read_messages, role_of
from fctncalling.specification.api import OwnApi, shown
from fctncalling.specification.tool_list import offered_functions

Record = Mapping[str, Any]


class RawConversation(NamedTuple):
    """Messages in the form of their log, and the record that names tools and system text."""

    messages: Sequence[RawMessage]
    record: Record


class LogForm(NamedTuple):
    """Form of a record: a test for it, and a reader of its conversations."""

    name: str
    holds: Callable[[Record], bool]
    read: Callable[[Record], Iterator[RawConversation]]


def read_record(record: Any, known: OwnApi) -> Iterator[Conversation]:
    """Yield the conversations of a record of a log; a list is one of messages.

    known: the functions on offer where it lists none. Raises Unreadable where the form of the
    record is none of the table's, or not one alone.
    """
    for messages, told in _raw_conversations(record):
        if not messages:
            raise Unreadable(f"no messages: {shown(record)}")
        system = [told[key] for key in _keys(told, _SYSTEM)][:1]
        opening = [
            {"role": "system", **(each if isinstance(each, dict) else {"content": each})}
            for each in system
        ]
        tools = [told[key] for key in _keys(told, _TOOLS)]
        yield read_messages([*opening, *messages], offered_functions(*tools), known)


def forms_of(record: Any) -> list[LogForm]:
    """Return the forms that a record has."""
    record = {"messages": record} if isinstance(record, list) else record
    return [each for each in LOG_FORMS if each.holds(record)] if isinstance(record, dict) else []


def _raw_conversations(record: Any) -> Iterator[RawConversation]:
    forms = forms_of(record)
    if len(forms) == 1:
        yield from forms[0].read({"messages": record} if isinstance(record, list) else record)
    elif forms:
        raise Unreadable(f"reads as {' and '.join(each.name for each in forms)}")
    else:
        what = f"keys {shown(sorted(record)[:6])}" if isinstance(record, dict) else shown(record)
        raise Unreadable(f"is of no form that is read: {what}")


_TOOLS = tuple("tools functions function tool available_tools toolConfig tool_config".split())
_SYSTEM = ("system", "instructions", "systemInstruction", "system_instruction", "system_prompt")
_PROMPTS = tuple(
    "messages conversations conversation contents traj trajectory history chat_history dialogue "
    "prompt input inputs query".split()
)
_ANSWERS = ("completion", "chosen", "chosen_response", "response", "output", "outputs", "answers")
_PATHS = ("path", "url", "uri", "endpoint")
_BODIES = ("request_body", "body", "postData", "content")


def _keys(record: Any, names: Sequence[str]) -> list[str]:
    """Return the keys, of those named, at which a record has something."""
    return [key for key in names if isinstance(record, dict) and record.get(key) not in (None, "")]


def _prompts(record: Any) -> list[str]:
    """Return the keys of a record's messages, or of its one prompt."""
    keys = _keys(record, _PROMPTS)
    return [key for key in keys if not isinstance(loaded(record[key]), str | dict)] or keys


def _messages(value: Any) -> list[RawMessage]:
    """Return messages of a value: a list, the one list in a list, or a user's words."""
    value = loaded(value)
    if isinstance(value, str):
        return [{"role": "user", "content": value}] if value.strip() else []
    nested = isinstance(value, list) and len(value) == 1 and isinstance(value[0], list)
    return list(objects(value[0] if nested else value))


def _is_request(record: Record) -> bool:
    """Whether a record is a request with its response: of a gateway, a proxy, a HAR's entry."""
    is_http = _keys(record, ("method",)) and _keys(record, _PATHS)
    return bool(is_http) or isinstance(loaded(record.get("request")), dict)


def _read_request(record: Record) -> Iterator[RawConversation]:
    request = loaded(record.get("request"))
    request = _body(request if isinstance(request, dict) else record)
    response = _body(record.get("response_body", record.get("response")))
    keys = _prompts(request)
    if len(keys) != 1:
        raise Unreadable("a request without messages")
    answer = [] if response is None else _answer(response)
    yield RawConversation(_joined(_messages(request[keys[0]]), answer), {**record, **request})


def _body(value: Any) -> Any:
    """Return the body of a request or a response over HTTP, parsed; a HAR's has a type."""
    value = loaded(value)
    for key in _keys(value, _BODIES):
        inner = loaded(value[key])
        if isinstance(inner, dict) and "mimeType" in inner:
            return loaded(inner.get("text"))
        if key != "content":
            return inner
    return value


def _is_chat(record: Record) -> bool:
    keys = _prompts(record)
    is_answered = bool(keys and _keys(record, _ANSWERS))
    keys = keys or _keys(record, ("chosen",))  # a preference's
    is_list = len(keys) == 1 and isinstance(loaded(record[keys[0]]), list)
    return is_list and not is_answered and not _is_request(record)


def _read_chat(record: Record) -> Iterator[RawConversation]:
    keys = _prompts(record) or ["chosen"]
    yield RawConversation(_messages(record[keys[0]]), record)


def _is_answered(record: Record) -> bool:
    """Whether a record is a prompt and its answer: TRL's, Responses', a trace's, xLAM's."""
    num_keys = len(_prompts(record)), len(_keys(record, _ANSWERS))
    return num_keys == (1, 1) and "instruction" not in record


_REFERENCE = re.compile(r"\$\w+(?:[.\[][^$]*)?\$")


def _read_answered(record: Record) -> Iterator[RawConversation]:
    """Read a prompt and its answer: messages, a response, or calls alone.

    Of calls alone (NESTful's) those are read that wait for no other's result: what results tell is
    not in the log.
    """
    [prompt], [answer] = _prompts(record), _keys(record, _ANSWERS)
    inner = loaded(record[prompt])
    asked = RawConversation(_messages(inner), record)
    if isinstance(inner, dict):
        asked = next(_raw_conversations(inner))
    calls = objects(record[answer])
    if not calls or any("name" not in each or {"role", "type"} & each.keys() for each in calls):
        answers = _joined(asked.messages, _answer(record[answer]))
        yield RawConversation(answers, {**record, **asked.record})
        return
    calls = [each for each in calls if each["name"] != "var_result"]
    ready = [each for each in calls if not _REFERENCE.search(repr(each.get("arguments")))]
    if ready:
        yield RawConversation([*asked.messages, _calling(ready)], record)
    if len(ready) < len(calls):
        raise Unreadable("calls that wait for results, which the log does not hold")


def _calling(calls: Sequence[Record]) -> RawMessage:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def _joined(asked: Sequence[RawMessage], answer: Sequence[RawMessage]) -> Sequence[RawMessage]:
    """Return a prompt with its answer, which may begin with the prompt's messages again."""
    if not asked or list(answer[: len(asked)]) == list(asked):
        return answer if asked else []
    if answer and role_of(asked[-1]) in ("assistant", "call"):
        raise Unreadable("an answer behind an answer")
    return [*asked, *answer]


_SHAPES: Mapping[str, Callable[[Any], Any]] = {
    "choices": lambda choices: choices[0]["message"],  # OpenAI
    "candidates": lambda candidates: candidates[0]["content"],  # Gemini
    "output": lambda output: output["message"] if isinstance(output, dict) else output,
    "message": lambda message: message,  # Ollama
    "generations": lambda lists: lists[0][0]["message"],  # LangChain
    "messages": lambda messages: messages,
}
"""Key of a response -> its messages, or its message."""


def _answer(value: Any) -> list[RawMessage]:
    """Return the messages of an answer or a response; Unreadable where it has none."""
    value = loaded(value)
    if isinstance(value, str):
        if value.lstrip().startswith(("data:", "event:")):
            raise Unreadable("a response that is streamed in pieces")
        return [{"role": "assistant", "content": value}]
    keys = _keys(value, tuple(_SHAPES))
    if _keys(value, ("error",)) and not keys:
        raise Unreadable("a request that failed")
    try:
        found = _SHAPES[keys[0]](value[keys[0]]) if len(keys) == 1 else value
    except (LookupError, TypeError):
        found = None
    listed = objects(found if isinstance(found, list) else [found])
    if not listed or len(keys) > 1:
        raise Unreadable(f"a response that holds no message: {shown(value)}")
    return list(listed)


# Data sets with fields of their own


def _read_when2call(record: Record) -> Iterator[RawConversation]:
    kind, answers = record["correct_answer"], record["answers"]
    right = answers.get(kind) if isinstance(answers, dict) else None
    answer = {"role": "tool_call" if kind == "tool_call" else "assistant", "content": right}
    yield RawConversation([*_messages(record["question"]), answer], record)


_GLAIVE = re.compile(r"(?:^|(?<=[\s>]))(USER|ASSISTANT|FUNCTION RESPONSE|SYSTEM):(?=\s)")
_GLAIVE_ROLES = {"USER": "user", "FUNCTION RESPONSE": "tool", "SYSTEM": "system"}
_ACE = re.compile(r"^(user|system): ?", re.MULTILINE)


def _is_glaive(record: Record) -> bool:
    texts = [record[key] for key in _keys(record, ("chat", "sample"))]
    return len(texts) == 1 and isinstance(texts[0], str) and "USER:" in texts[0]


def _read_glaive(record: Record) -> Iterator[RawConversation]:
    text = re.sub("(?m)^A:", "ASSISTANT:", record.get("chat") or record["sample"])
    yield RawConversation(_split(text, _GLAIVE, _GLAIVE_ROLES), record)


def _split(text: str, marks: re.Pattern[str], roles: Mapping[str, str]) -> list[RawMessage]:
    """Return the messages of a text in which each begins with its speaker."""
    _, *pieces = marks.split(text)
    return [
        {"role": roles.get(who, "assistant"), "content": said.replace("<|endoftext|>", "").strip()}
        for who, said in zip(pieces[::2], pieces[1::2], strict=True)
    ]


def _is_acebench(record: Record) -> bool:
    is_text = isinstance(record.get("question"), str)
    return is_text and "function" in record and "answers" not in record


def _read_acebench(record: Record) -> Iterator[RawConversation]:
    """Read a talk in one text, in which "system" is the assistant, and the calls that are right.

    Calls of one function are numbered.
    """
    truth = record.get("ground_truth")
    truth = truth[0] if isinstance(truth, list) and truth else truth
    listed = objects(record["function"])
    names = {each.get("name") for each in listed}
    calls = [
        {"name": name if name in names else re.sub(r"_\d+$", "", name), "arguments": given}
        for name, given in (truth.items() if isinstance(truth, dict) else ())
    ]
    talk = _split(record["question"], _ACE, {"user": "user"}) or _messages(record["question"])
    answer = [_calling(calls)] if calls else []
    yield RawConversation([*talk, *answer], {**record, "system": record.get("time")})


def _several(record: Record) -> list[Record]:
    """Return the records in a record: the simulations of tau2-bench, the entries of a HAR."""
    found = objects(record.get("simulations"))
    log = record.get("log")
    return list(found or objects(log.get("entries") if isinstance(log, dict) else None))


def _read_several(record: Record) -> Iterator[RawConversation]:
    for each in _several(record):
        yield from _raw_conversations({**each, "tools": each.get("tools", record.get("tools"))})


LOG_FORMS = (
    LogForm("chat", _is_chat, _read_chat),
    LogForm("prompt and answer", _is_answered, _read_answered),
    LogForm("request and response", _is_request, _read_request),
    LogForm("several", lambda record: bool(_several(record)), _read_several),
    LogForm(
        "When2Call",
        lambda record: len(_keys(record, ("question", "correct_answer", "answers"))) == 3,
        _read_when2call,
    ),
    LogForm("glaive", _is_glaive, _read_glaive),
    LogForm("ACEBench", _is_acebench, _read_acebench),
)
"""Forms of records; of a record that is read exactly one holds."""
