"""CompletionRequest: the checked body of /v1/chat/completions or /v1/completions."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fctncalling.algorithms.config.template_kwargs import TAKEN
from fctncalling.data.types import Message
from fctncalling.data.unsafe_text import encodable_text

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "server_error",
    504: "server_error",
    507: "server_error",
}


class GatewayError(Exception):
    """Refusal of a request: an HTTP status, and one line that names the cure."""

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code

    def body(self) -> dict[str, Any]:
        """Return the error as OpenAI's clients read it."""
        return {
            "error": {
                "message": str(self),
                "type": _TYPES.get(self.status, "invalid_request_error"),
                "param": self.param,
                "code": self.code,
            }
        }


def invalid_field(name: str, message: str) -> GatewayError:
    """Return the refusal of a field of a request; `message` names the cure."""
    return GatewayError(400, f"{name}: {message}", param=name)


MAX_CHOICES = 16
MAX_STOPS = 8
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("top_p", "repetition_penalty"), (1,)),
    **dict.fromkeys(("min_p", "presence_penalty", "frequency_penalty"), (0,)),
    "top_k": (-1, 0),
    "logit_bias": ({},),
    "response_format": ({"type": "text"},),
    "parallel_tool_calls": (True,),
    "functions": ([],),
    "function_call": ("none",),
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
}
"""What would change what is sampled or answered, and has no effect -> values that say nothing."""


@dataclass(frozen=True)
class CompletionRequest:
    """Request of a completion: messages, or a raw prompt in their place."""

    messages: tuple[Message, ...] = ()
    as_sent: tuple[Any, ...] = ()  # the messages before they were brought into one form
    prompt: str | tuple[int, ...] = ""  # of /v1/completions
    tools: tuple[Any, ...] = ()
    reads_calls: bool = False  # calls in the answer become `tool_calls`
    n: int = 1
    stream: bool = False
    include_usage: bool = False  # a last chunk of a stream that counts tokens
    temperature: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    logprobs: bool = False
    return_token_ids: bool = False  # an extension, as vLLM has it
    seed: int | None = None
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)  # of the chat template
    ignored: tuple[str, ...] = ()  # fields that were given and have no effect

    @property
    def is_chat(self) -> bool:
        """Whether messages were given."""
        return bool(self.messages)


def chat_request(body: Mapping[str, Any]) -> CompletionRequest:
    """Parse a body of /v1/chat/completions; raises GatewayError."""
    tools, choice = checked_tools(body.get("tools")), body.get("tool_choice")
    if choice not in (None, "auto", "none"):
        raise invalid_field(
            "tool_choice",
            f"got {choice!r:.60}, but nothing is forced on the policy, which learns from what it "
            'samples: send "auto" or "none", or leave it out',
        )
    if body.get("top_logprobs"):
        message = "expected 0; only sampled tokens have log-probabilities here"
        raise invalid_field("top_logprobs", message)
    return CompletionRequest(
        messages=tuple(checked_messages(body.get("messages"))),
        as_sent=tuple(body["messages"]),
        tools=tuple(tools),
        reads_calls=bool(tools) and choice != "none",
        logprobs=_boolean(body, "logprobs"),
        template_kwargs=_template_kwargs(body),
        **_common(body),
    )


def _template_kwargs(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments for the chat template; raises GatewayError."""
    given, effort = body.get("chat_template_kwargs"), body.get("reasoning_effort")
    expected = "expected an object of texts, numbers and booleans, by names that are free"
    if given is not None and not isinstance(given, dict):
        raise invalid_field("chat_template_kwargs", expected)
    for name, value in (given or {}).items():
        if name in TAKEN or not isinstance(value, str | int | float | None):
            raise invalid_field(f"chat_template_kwargs.{name:.60}", expected)
    if effort is not None and not isinstance(effort, str):
        raise invalid_field("reasoning_effort", "expected a text")
    return {**({} if effort is None else {"reasoning_effort": effort}), **(given or {})}


def text_request(body: Mapping[str, Any]) -> CompletionRequest:
    """Parse a body of /v1/completions; raises GatewayError."""
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, list) and all(type(token) is int for token in prompt):
        prompt = tuple(prompt)
    if not isinstance(prompt, str | tuple) or not prompt:
        raise invalid_field("prompt", "expected a text or a list of token ids")
    logprobs = body.get("logprobs") is not None and body.get("logprobs") is not False
    return CompletionRequest(prompt=prompt, logprobs=logprobs, **_common(body))


def _common(body: Mapping[str, Any]) -> dict[str, Any]:
    limit = "max_completion_tokens" if body.get("max_completion_tokens") else "max_tokens"
    options = body.get("stream_options")
    return {
        "ignored": _ignored(body),
        "n": _integer(body, "n", 1, MAX_CHOICES) or 1,
        "stream": _boolean(body, "stream"),
        "include_usage": isinstance(options, dict) and bool(options.get("include_usage")),
        "temperature": _temperature(body.get("temperature")),
        "max_tokens": _integer(body, limit, 1, 2**31),
        "stop": _stops(body.get("stop")),
        "return_token_ids": _boolean(body, "return_token_ids"),
        "seed": _integer(body, "seed", -(2**63), 2**63),
    }


def _temperature(value: Any) -> float | None:
    if value is None:
        return None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not 0 <= value <= 2:
        raise invalid_field("temperature", f"got {value!r:.60}, expected a number from 0 to 2")
    return float(value)


def _integer(body: Mapping[str, Any], name: str, low: int, high: int) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if type(value) is not int or not low <= value <= high:
        raise invalid_field(name, f"got {value!r:.60}, expected an integer from {low} to {high}")
    return value


def _boolean(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise invalid_field(name, f"got {value!r:.60}, expected true or false")
    return bool(value)


def _stops(value: Any) -> tuple[str, ...]:
    stops = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or len(stops) > MAX_STOPS:
        raise invalid_field("stop", f"expected a text or a list of at most {MAX_STOPS}")
    if not all(isinstance(each, str) and 0 < len(each) <= 256 for each in stops):
        raise invalid_field("stop", "expected texts of 1 to 256 characters")
    return tuple(stops)


def _ignored(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the fields that would change an answer, and do not."""
    return tuple(
        name
        for name, neutral in _NEUTRAL.items()
        if body.get(name) is not None and body[name] not in neutral
    )


ROLES = {"developer": "system", "function": "tool"}
"""Roles of newer and older interfaces -> the role that chat templates know."""
_NO_DOC: dict[str, Any] = {"description": "", "parameters": {"type": "object", "properties": {}}}
KNOWN_ROLES = ("system", "user", "assistant", "tool")


def checked_messages(value: Any) -> list[Message]:
    """Return the messages of a request in one form; GatewayError names the first that is none.

    Content is a text, calls are {"id", "name", "arguments"} with arguments as the text that came.
    """
    if not isinstance(value, list) or not value:
        raise invalid_field("messages", "expected a list with at least one")
    return [_checked(each, f"messages[{index}]") for index, each in enumerate(value)]


def message_key(message: Mapping[str, Any]) -> str:
    """Return the identity of an assistant message: its text and calls, without their ids."""
    listed = message.get("tool_calls", ())
    calls = [[call["name"], canonical_arguments(call["arguments"])] for call in listed]
    return json.dumps([message["content"], calls])


def canonical_arguments(text: str) -> str:
    """Return JSON arguments in canonical spelling; other text unchanged."""
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return text


def _checked(value: Any, where: str) -> Message:
    if not isinstance(value, dict):
        raise invalid_field(where, "expected an object")
    role = ROLES.get(str(value.get("role")), str(value.get("role")))
    if role not in KNOWN_ROLES:
        expected = f"got {role!r:.60}, expected one of {', '.join(KNOWN_ROLES)}"
        raise invalid_field(f"{where}.role", expected)
    message: Message = {"role": role, "content": _text(value.get("content"), f"{where}.content")}
    if isinstance(value.get("name"), str):
        message["name"] = encodable_text(value["name"])
    thought = value.get("reasoning_content", value.get("reasoning"))
    if role == "assistant" and isinstance(thought, str) and thought:
        message["reasoning_content"] = encodable_text(thought)
    if role == "assistant" and value.get("tool_calls"):
        message["tool_calls"] = _calls(value["tool_calls"], f"{where}.tool_calls")
    if role == "tool" and isinstance(value.get("tool_call_id"), str):
        message["tool_call_id"] = encodable_text(value["tool_call_id"])
    if value.get("tools"):  # functions that a turn adds, where the chat template shows them
        message["tools"] = checked_tools(value["tools"], f"{where}.tools")
    return message


def checked_tools(value: Any, where: str = "tools") -> list[Any]:
    """Return the tools of a request, with optional fields filled in.

    GatewayError for one of another shape than OpenAI's.
    """
    if value is None:
        return []
    if not isinstance(value, list):
        raise invalid_field(where, "expected a list")
    for index, each in enumerate(value):
        function = each.get("function") if isinstance(each, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            expected = 'expected {"type": "function", "function": {"name": ...}}}'
            raise invalid_field(f"{where}[{index}]", expected)
    tools = []
    for each in value:  # with all that chat templates read of a function, in its own order
        lacking = {k: v for k, v in _NO_DOC.items() if each["function"].get(k) is None}
        tools.append({**each, "function": {**each["function"], **lacking}})
    return tools


def _text(value: Any, where: str) -> str:
    """Return content as one text; parts that are no text are refused."""
    if value is None:
        return ""
    if isinstance(value, str):
        return encodable_text(value)
    if not isinstance(value, list):
        raise invalid_field(where, "expected a text or a list of parts")
    texts = []
    for index, part in enumerate(value):
        text = part.get("text", part.get("refusal")) if isinstance(part, dict) else part
        if not isinstance(text, str):
            raise GatewayError(
                400,
                f"{where}[{index}]: expected a part of text; this model reads nothing else",
                param=where,
            )
        texts.append(text)
    return encodable_text("".join(texts))


def _calls(value: Any, where: str) -> list[dict[str, str]]:
    if not isinstance(value, list):
        raise invalid_field(where, "expected a list")
    found = []
    for index, each in enumerate(value):
        function = each.get("function") if isinstance(each, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise GatewayError(
                400,
                f'{where}[{index}]: expected {{"id", "function": {{"name", "arguments"}}}}',
                param=where,
            )
        arguments = function.get("arguments") or "{}"
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        name, call_id = encodable_text(function["name"]), encodable_text(str(each.get("id", "")))
        found.append({"id": call_id, "name": name, "arguments": text})
    return found
