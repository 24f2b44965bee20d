"""A model behind an OpenAI-compatible HTTP interface: `chat/completions`, prompted or with tool calls."""

from __future__ import annotations

import json
import os
import random
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fctncalling.agents.agent import AgentSetupError, AgentUnavailable, Player
from fctncalling.data.surrogates import encodable_value
from fctncalling.data.types import Message, Task
from fctncalling.envs.handlers import DecodeError, get_handler
from fctncalling.envs.prompts import MORE_FUNCTIONS
from fctncalling.envs.tools.extras import MissingExtra, extra_module

BASE_URL = "https://api.openai.com/v1"
REFUSED = (401, 403, 404, 405)  # no repetition mends a wrong key, address or model
TRANSIENT = (408, 409, 425, 429)
MAX_WAIT_S = 60.0


@dataclass(frozen=True)
class EndpointSettings:
    """Where a model is asked, and how."""

    model: str
    base_url: str = ""  # none: OPENAI_BASE_URL, else OpenAI's
    api_key_env: str = "OPENAI_API_KEY"  # name of the environment variable that holds the key
    form: str = "prompting"
    temperature: float | None = 0.0
    max_tokens: int | None = None  # longest answer, in tokens
    timeout_s: float = 120.0  # of one request
    retries: int = 5  # repetitions of a request that failed for a while
    first_wait_s: float = 1.0  # before the first repetition, doubled for each further one


class EndpointAgent:
    """Asks an endpoint; what fails for a while is repeated, what stays away makes the episode invalid."""

    def __init__(self, settings: EndpointSettings) -> None:
        try:
            self._httpx = extra_module("httpx", "openai", "--agent openai:...")
        except MissingExtra as error:
            raise AgentSetupError(str(error)) from None
        self.name, self.settings, self._closed = settings.model, settings, threading.Event()
        base = settings.base_url or os.environ.get("OPENAI_BASE_URL") or BASE_URL
        self._url = f"{base.rstrip('/')}/chat/completions"
        key = os.environ.get(settings.api_key_env, "")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            self._client = self._httpx.Client(timeout=settings.timeout_s, headers=headers)
        except ValueError as error:  # a key with a line break, say
            raise AgentSetupError(
                f"{settings.api_key_env}: cannot be sent as a header: {error}"
            ) from None

    def player(self, task: Task, handler: str, seed: int) -> Player:
        """Return a player for an episode."""
        return _ToolCallPlayer(self) if self.settings.form == "tool_call" else _PromptedPlayer(self)

    def close(self) -> None:
        """Close the connections; players that still wait to repeat a request give up."""
        self._closed.set()
        self._client.close()

    def ask(self, messages: Sequence[Message], tools: Sequence[Any] = ()) -> dict[str, Any]:
        """Return the model's message; raises AgentUnavailable, or AgentSetupError where the endpoint refuses us."""
        body: dict[str, Any] = {"model": self.settings.model, "messages": list(messages)}
        wanted = {"temperature": self.settings.temperature, "max_tokens": self.settings.max_tokens}
        body |= {name: value for name, value in wanted.items() if value is not None}
        if tools:
            body["tools"] = list(tools)
        told, told_s = "", 0.0
        for attempt in range(self.settings.retries + 1):
            wait_s = _wait_s(self.settings.first_wait_s, attempt, told_s) if attempt else 0.0
            if self._closed.wait(wait_s):
                raise AgentUnavailable(f"{self._url}: the run ended before there was an answer")
            message, told, told_s = self._once(body)
            if message is not None:
                return message
        raise AgentUnavailable(
            f"{self._url}: no answer after {self.settings.retries + 1} attempts; the last: {told}"
        )

    def _once(self, body: Mapping[str, Any]) -> tuple[dict[str, Any] | None, str, float]:
        """Return the message, or None, why there is none, and the seconds the endpoint asks us to wait."""
        try:
            reply = self._client.post(self._url, json=encodable_value(body))
        except (self._httpx.UnsupportedProtocol, self._httpx.InvalidURL, ValueError) as error:
            raise AgentSetupError(f"--base_url: {self._url}: {error}") from None
        except self._httpx.TransportError as error:
            return None, f"{type(error).__name__}: {error}", 0.0
        told = f"HTTP {reply.status_code}: {reply.text[:300]}"
        if reply.status_code in REFUSED:
            raise AgentSetupError(f"{self._url}: {told}. Check --base_url, the model's name and the key in "
                                  f"{self.settings.api_key_env}.")  # fmt: skip
        if reply.status_code in TRANSIENT or reply.status_code >= 500:
            return None, told, _seconds(reply.headers.get("retry-after"))
        if reply.status_code >= 300:
            raise AgentUnavailable(f"{self._url}: {told}")
        try:
            message = reply.json()["choices"][0]["message"]
        except (ValueError, LookupError, TypeError):
            message = None
        return (
            (message if isinstance(message, dict) else None),
            f"no message in the answer: {reply.text[:300]}",
            0.0,
        )


def _wait_s(first_s: float, attempt: int, told_s: float) -> float:
    """Return what the endpoint asked for, or twice as long as before, spread so that threads come apart."""
    grown_s: float = first_s * 2.0 ** (attempt - 1) * random.uniform(0.75, 1.25)
    return min(MAX_WAIT_S, max(told_s, grown_s))


def _seconds(text: str | None) -> float:
    try:
        return max(0.0, float(text or 0))
    except ValueError:  # a date
        return 0.0


class _PromptedPlayer:
    """BFCL's prompting form: docs in the system message, results as one user message."""

    def __init__(self, agent: EndpointAgent) -> None:
        self._agent, self._messages = agent, list[Message]()

    def answer(self, observation: str, info: Mapping[str, Any]) -> str:
        new = [{"role": m["role"], "content": m.get("content") or ""} for m in info["messages"]]
        if not self._messages:
            own = new.pop(0)["content"] if new and new[0]["role"] == "system" else ""
            system = "\n\n".join(filter(None, [info["instructions"], own]))
            self._messages.append({"role": "system", "content": system})
        elif any(message["role"] == "tool" for message in new):
            new = [{"role": "user", "content": observation}]
        self._messages += new
        text = _content(self._agent.ask(self._messages))
        self._messages.append({"role": "assistant", "content": text})
        return text


class _ToolCallPlayer:
    """The form of tool calls: schemas beside the messages, one tool message for each result."""

    def __init__(self, agent: EndpointAgent) -> None:
        self._agent, self._messages = agent, list[Message]()
        self._pending: dict[str, Any] | None = (
            None  # our last message, until it is known whether its calls ran
        )

    def answer(self, observation: str, info: Mapping[str, Any]) -> str:
        self._read(info["messages"])
        message = self._agent.ask(self._messages, info["tools"])
        self._pending = message
        calls = _tool_calls(message)
        if calls:
            return json.dumps([{call["name"]: call["arguments"]} for call in calls])
        text = _content(message)
        return json.dumps(text) if _would_be_read(text) else text

    def _read(self, messages: Sequence[Message]) -> None:
        results = [message for message in messages if message["role"] == "tool"]
        if self._pending is not None:
            asked = self._pending.get("tool_calls") or []
            kept: Message = {"role": "assistant", "content": _content(self._pending)}
            if asked and len(asked) == len(results):
                self._messages.append({**kept, "tool_calls": asked})
                self._messages += [
                    {
                        "role": "tool",
                        "tool_call_id": str(call.get("id", "")),
                        "content": each["content"],
                    }
                    for call, each in zip(asked, results, strict=True)
                ]
            else:  # calls that were not run have no results, and an interface rejects calls without results
                self._messages.append({**kept, "content": kept["content"] or json.dumps(asked)})
        for message in messages:
            if message["role"] != "tool":
                content = MORE_FUNCTIONS if message.get("tools") else message.get("content") or ""
                self._messages.append({"role": message["role"], "content": content})


def _content(message: Mapping[str, Any]) -> str:
    """Return a message's text; some interfaces send it in parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _tool_calls(message: Mapping[str, Any]) -> list[dict[str, str]]:
    calls = []
    for each in message.get("tool_calls") or []:
        function = each.get("function") if isinstance(each, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise AgentUnavailable(
                f"a tool call without a function's name: {json.dumps(each)[:300]}"
            )
        arguments = function.get("arguments")
        text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
        calls.append({"name": function["name"], "arguments": text or "{}"})
    return calls


def _would_be_read(text: str) -> bool:
    """Whether chat looks like the calls it is not: only what an interface returns as calls counts as such."""
    try:
        return bool(get_handler("tool_calls").decode(text))
    except DecodeError:
        return False
