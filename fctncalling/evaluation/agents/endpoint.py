"""Model with an OpenAI-compatible HTTP interface, as an agent.

`chat/completions`, prompted or with tools.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from fctncalling.data.http_client import BadAddress, HttpClient, Reply, RequestFailed
from fctncalling.data.types import Message, Task
from fctncalling.envs.conversations import CONVERSATIONS, message_text, reads_as_calls
from fctncalling.envs.handlers import bears_call
from fctncalling.evaluation.agents.agent import (
    AgentSetupError,
    AgentUnavailable,
    ContextOverflow,
    Player,
)

REDACTED = "[redacted]"
_LEAST_IN_ERRORS, _LEAST_IN_ANSWERS = 4, 6
"""Shortest secret that is searched for: a placeholder such as "none" may be a word of an answer."""
_CREDENTIALS = re.compile(r"(?<=://)[^/\s?#\"'<>]+@")


class Redactor:
    """Redactor of secrets in texts, however an endpoint writes them back.

    API keys and URL credentials never reach results, logs or error messages.
    """

    def __init__(self, key: str, url: str) -> None:
        secrets = {key, *_credentials(url)} - {""}
        self._in_errors = _pattern(secrets, _LEAST_IN_ERRORS)
        self._in_answers = _pattern(secrets, _LEAST_IN_ANSWERS)

    def redact_text(self, text: str) -> str:
        """Redact an error text: its secrets, and the credentials of URLs."""
        return _CREDENTIALS.sub(f"{REDACTED}@", _replaced(self._in_errors, text))

    def redact_json(self, value: Any) -> Any:
        """Redact the secrets in a JSON value; RecursionError if it nests too deep."""
        if isinstance(value, str):
            return _replaced(self._in_answers, value)
        if isinstance(value, Mapping):
            return {self.redact_json(key): self.redact_json(item) for key, item in value.items()}
        return [self.redact_json(item) for item in value] if isinstance(value, list) else value


def without_credentials(url: str) -> str:
    """Return a URL without credentials: user, password and query."""
    return _CREDENTIALS.sub("", url).partition("?")[0]


def _credentials(url: str) -> set[str]:
    """Return the password of a URL, and user and password together as HTTP sends them."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return set()
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if not user and not password:
        return set()
    pair = f"{user}:{password}"
    own = {password, pair} if password else {user}  # a token alone
    return {*own, _base64(pair)}


def _pattern(secrets: set[str], least: int) -> re.Pattern[str] | None:
    long_enough = {secret for secret in secrets if len(secret) >= least}
    forms = {*long_enough, *map(_base64, long_enough)}
    longest_first = sorted(forms, key=len, reverse=True)
    written = ("".join(map(_character, form)) for form in longest_first)
    return re.compile("|".join(written)) if forms else None


def _base64(secret: str) -> str:
    return base64.b64encode(secret.encode()).decode().rstrip("=")


def _character(char: str) -> str:
    r"""Return the pattern of a character that may be escaped.

    By backslashes, as JSON in JSON has them, as \u005c, or as %5C.
    """
    plain = char if char.isalnum() else rf"\\*{re.escape(char)}"
    units = char.encode("utf-16-be").hex()
    escaped = "".join(rf"\\+u{units[at : at + 4]}" for at in range(0, len(units), 4))
    percent = "".join(f"%{byte:02x}" for byte in char.encode())
    return f"(?:{plain}|(?i:{escaped}|{percent}))"


def _replaced(pattern: re.Pattern[str] | None, text: str) -> str:
    return text if pattern is None else pattern.sub(REDACTED, text)


class EndpointPlayer:
    """Player of one episode that asks an endpoint for each message."""

    def __init__(self, endpoint: EndpointAgent, form: str) -> None:
        self._endpoint = endpoint
        self._form = form
        self._conversation = CONVERSATIONS[form]()
        self.was_cut = False  # the last message, by a limit of tokens
        self.thought = ""  # of the last message, where the server sets it apart

    def answer(self, observation: str, info: Mapping[str, Any]) -> str:
        """Answer an observation: return the model's next message as an action."""
        conversation = self._conversation
        conversation.observe(observation, info)
        tools = info["tools"] if conversation.sends_tools else ()
        message = self._endpoint.complete(conversation.messages, tools)
        self.was_cut = message.pop("finish_reason", None) == "length"
        thought = message.get("reasoning_content") or message.get("reasoning")
        self.thought = thought if isinstance(thought, str) else ""
        if self._form == "tool_call" and not message.get("tool_calls"):
            if reads_as_calls(message_text(message), tools):
                self._endpoint.print_once(
                    "the endpoint returns calls as text, which --form tool_call takes for chat: "
                    "with --form tools_text they are read (or start the server with a tool-call "
                    "parser)"
                )
            if bears_call(self.thought):
                self._endpoint.print_once(
                    "the endpoint returns calls within reasoning_content, where they are no calls: "
                    "check the server's reasoning parser"
                )
        return conversation.to_action(message)


_OVERFLOW = re.compile(
    r"context[ _-]?(?:length|window|size|limit)|exceed_context|exceeds? the (?:available )?context"
    r"|max(?:imum)?[ _]model[ _]len|maximum (?:input|prompt|sequence) length"
    r"|(?:prompt|input|request|message)s? (?:is|are) too (?:long|large for)"
    r"|(?:prompt|input|token)s?[^.]{0,80} (?:longer than the|exceeds? the maximum number of tokens)"
    r"|max_(?:completion_)?tokens must be at least 1, got (?:0|-\d+)"  # what the prompt leaves
    r"|input[s` ]+tokens?[^.]{0,40}max_new_tokens[^.]{0,20}must be",
    re.IGNORECASE,
)
_NEVER = (401, 403, 404, 405, 429)  # a refusal, or a rate limit counted in tokens


def is_context_overflow(status: int, text: str) -> bool:
    """Whether an HTTP error means that the conversation exceeds the context.

    Servers share no code for it: OpenAI and vLLM answer 400 "maximum context length", llama.cpp
    400 "exceed_context_size_error", text-generation-inference 422 "must be <=", SGLang 400
    "longer than the model's context length".
    """
    return status not in _NEVER and _OVERFLOW.search(text) is not None


BASE_URL = "https://api.openai.com/v1"
REFUSED = (401, 403, 404, 405)  # no repetition mends a wrong key, address or model
FIRST_RETRIES = 2  # of a request that finds nobody, before anything was ever answered
OUTAGE_S = 10.0  # shorter ones cost an episode, never the run
RETRY_NOTE_INTERVAL_S = 5.0  # between two notes about repetitions
MIN_TOKENS = 16  # an answer that is worth asking for
MOST_CHARS_PER_TOKEN = 6  # of schemas, in any tokenizer and form that a template gives them


@dataclass(frozen=True)
class EndpointSettings:
    """Address of an endpoint and parameters of requests."""

    model: str
    base_url: str = ""  # none: OPENAI_BASE_URL, else OpenAI's
    api_key_env: str = "OPENAI_API_KEY"  # name of the environment variable that holds the key
    form: str = "prompting"
    temperature: float | None = 0.0
    max_tokens: int | None = None  # longest answer, in tokens
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float = 120.0  # of one request, from its start to the answer's last byte
    retries: int = 5  # repetitions of a request that failed for a while
    first_wait_s: float = 1.0  # before the first repetition, doubled for each further one


class EndpointAgent:
    """Agent that plays through chat completions and retries temporary failures.

    A failure that persists makes the episode invalid; an unreachable endpoint ends the run.
    """

    def __init__(self, settings: EndpointSettings) -> None:
        self.name = settings.model
        self.settings = settings
        base = settings.base_url or os.environ.get("OPENAI_BASE_URL") or BASE_URL
        self._address = f"{base.rstrip('/')}/chat/completions"
        self._url = without_credentials(self._address)  # as it is shown
        key = os.environ.get(settings.api_key_env, "").strip()
        if not key.isascii() or not key.isprintable():
            raise AgentSetupError(
                f"{settings.api_key_env}: the key cannot be sent as a header: expected printable "
                "ASCII in one line"
            )
        self._redactor = Redactor(key, self._address)
        try:
            self._client = HttpClient(key=key, timeout_s=settings.timeout_s)
        except (OSError, ValueError) as error:  # certificates that cannot be read, say
            raise AgentSetupError(
                f"{self._url}: {self._redactor.redact_text(str(error))}"
            ) from None
        self._lock = threading.Lock()
        self._last_answer: float | None = None  # when anything came back
        self._has_called = False  # in any answer
        self._last_retry_note = 0.0
        self._printed = set[str]()

    def make_player(self, task: Task, handler: str, seed: int) -> Player:
        """Make a player for an episode."""
        return EndpointPlayer(self, self.settings.form)

    def close(self) -> None:
        """Close the connections; players that wait to repeat a request give up."""
        self._client.close()

    def print_once(self, text: str, about: str = "") -> None:
        """Print a note once per run."""
        with self._lock:
            if (about or text) in self._printed:
                return
            self._printed.add(about or text)
        print(f"note: {text}", file=sys.stderr)

    def complete(self, messages: Sequence[Message], tools: Sequence[Any] = ()) -> dict[str, Any]:
        """Complete a conversation: return the message, with finish_reason "length" if cut.

        Where --max_new_tokens does not fit into what the context has left, less is asked for.
        Raises AgentUnavailable, ContextOverflow, or AgentSetupError if the endpoint refuses us
        or is not there.
        """
        body: dict[str, Any] = {"model": self.settings.model, "messages": list(messages)}
        if self.settings.temperature is not None:
            body["temperature"] = self.settings.temperature
        if tools:
            body["tools"] = list(tools)
        if self.settings.chat_template_kwargs:
            body["chat_template_kwargs"] = dict(self.settings.chat_template_kwargs)
        max_tokens = self.settings.max_tokens
        while True:
            if max_tokens is not None:
                body["max_tokens"] = max_tokens
            try:
                message, prompt_tokens = self._request_with_retries(body)
            except ContextOverflow:
                if max_tokens is None or max_tokens <= MIN_TOKENS:
                    raise
                max_tokens = max(MIN_TOKENS, max_tokens // 4)
                continue
            self._has_called = self._has_called or bool(message.get("tool_calls"))
            # A compact template writes little more than names; a model that calls has seen them.
            if tools and not self._has_called and prompt_tokens is not None:
                num_chars = len(json.dumps(list(tools)))
                if prompt_tokens * MOST_CHARS_PER_TOKEN < num_chars:
                    self.print_once(
                        f"{self._url}: the prompt has {prompt_tokens} tokens, too few for the "
                        f"{num_chars} characters of the tools' schemas in it, and no answer has "
                        "called one: the server's chat template seems to leave `tools` out, so "
                        "that the model cannot know them. --form prompting writes them into the "
                        "system message",
                        about="tools left out",
                    )
            return message

    def _request_with_retries(self, body: Any) -> tuple[dict[str, Any], int | None]:
        started, retries = time.monotonic(), self.settings.retries
        try:
            return self._client.retry(
                lambda: self._request_once(body),
                retries=retries,
                first_wait_s=self.settings.first_wait_s,
                on_failure=self._note_failure,
            )
        except RequestFailed as failure:
            if self._client.closed.is_set():
                fault = "the run ended before there was an answer"
                raise AgentUnavailable(f"{self._url}: {fault}") from None
            self._require_endpoint(failure, started)
            raise AgentUnavailable(
                f"{self._url}: no answer after {retries + 1} attempts; the last: {failure}"
            ) from None

    def _require_endpoint(self, failure: RequestFailed, started: float) -> None:
        """Raise AgentSetupError if the endpoint is unreachable; other failures end no run."""
        if not failure.unreachable:
            return
        if self._last_answer is None:
            raise AgentSetupError(
                f"{self._url}: no endpoint is reached there ({failure}). Start the server, or name "
                "its address by --base_url"
            )
        away_s = time.monotonic() - self._last_answer
        if self._last_answer < started and away_s >= OUTAGE_S:
            raise AgentSetupError(
                f"{self._url}: the endpoint has not been there for {away_s:.0f} s ({failure}). "
                "Start it again, and go on by --resume"
            )

    def _note_failure(self, failure: RequestFailed, repetition: int, wait_s: float) -> None:
        """Print that a request is repeated; raise the failure where nobody was ever reached."""
        gives_up = repetition > FIRST_RETRIES or failure.timed_out
        if failure.unreachable and self._last_answer is None and gives_up:
            raise failure
        now = time.monotonic()
        with self._lock:
            if now - self._last_retry_note < RETRY_NOTE_INTERVAL_S:
                return
            self._last_retry_note = now
        print(
            f"note: {self._url}: {failure}; trying again in {wait_s:.1f} s (repetition "
            f"{repetition} of {self.settings.retries})",
            file=sys.stderr,
        )

    def _request_once(self, body: Any) -> tuple[dict[str, Any], int | None]:
        """Return the message of one attempt, and the number of prompt tokens if reported.

        Raises RequestFailed where another may help.
        """
        try:
            reply = self._client.request("POST", self._address, body)
        except BadAddress as error:
            message = self._redactor.redact_text(str(error))
            raise AgentSetupError(f"--base_url: {self._url}: {message}") from None
        except RequestFailed as error:
            if not error.unreachable:
                self._last_answer = time.monotonic()
            error.args = (self._redactor.redact_text(str(error)),)
            raise
        self._last_answer = time.monotonic()
        return self._message(reply)

    def _message(self, reply: Reply) -> tuple[dict[str, Any], int | None]:
        text = self._redactor.redact_text(reply.text)
        message = f"HTTP {reply.status}: {text[:300]}"
        if reply.status in REFUSED:
            raise AgentSetupError(
                f"{self._url}: {message}. Check --base_url, the model's name and the key in "
                f"{self.settings.api_key_env}."
            )
        if reply.status >= 300 and is_context_overflow(reply.status, text):
            raise ContextOverflow(message)
        if reply.is_temporary:
            raise RequestFailed(message, wait_s=_seconds(reply.headers.get("retry-after")))
        if reply.status >= 300:
            raise AgentUnavailable(f"{self._url}: {message}")
        try:
            answer = reply.json()
            if "choices" not in answer and "error" in answer and is_context_overflow(200, text):
                raise ContextOverflow(message)  # some gateways answer 200 whatever happened
            choice = answer["choices"][0]
            raw = self._redactor.redact_json(choice["message"])
            for repaired in mend_calls(raw):
                self.print_once(f"the endpoint returns {repaired}: read all the same")
            reply_message = _validated_message(raw)
            if choice.get("finish_reason") == "length":
                reply_message["finish_reason"] = "length"
            usage = answer.get("usage")
            tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
            return reply_message, tokens if isinstance(tokens, int) and tokens > 0 else None
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            why = f" ({error})" if isinstance(error, _MalformedMessage) else ""
            raise RequestFailed(f"no message in the answer{why}: {text[:300]}") from None


class _MalformedMessage(ValueError):
    """Error of a reply that is no message."""


def mend_calls(message: Any) -> list[str]:
    """Repair the calls of a message, in place, if their meaning is clear; return the faults."""
    faults = list[str]()
    if not isinstance(message, dict):
        return faults
    legacy = message.pop("function_call", None)
    if isinstance(legacy, dict) and not message.get("tool_calls"):
        message["tool_calls"] = [{"id": "call_0", "type": "function", "function": legacy}]
        faults.append("the older function_call in place of tool_calls")
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            continue
        name, arguments = function.get("name"), function.get("arguments")
        if isinstance(name, str) and name != name.strip():
            function["name"] = name.strip()
            faults.append("names of functions with blanks around them")
        if isinstance(arguments, str) and arguments.lstrip().startswith('"'):
            with contextlib.suppress(ValueError, RecursionError, TypeError):
                inner = json.loads(arguments)
                if isinstance(json.loads(inner), dict):
                    function["arguments"] = inner
                    faults.append("arguments encoded twice, as JSON in a JSON text")
    return faults


def _validated_message(message: Any) -> dict[str, Any]:
    """Check the types of a message's parts; raises ValueError, RecursionError."""
    if not isinstance(message, dict):
        raise _MalformedMessage("expected an object")
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise _MalformedMessage(f"tool_calls: expected a list, got {str(calls)[:40]}")
    for call in calls:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise _MalformedMessage("a tool call without a function's name")
        arguments = function.get("arguments")
        if not isinstance(arguments, str | dict | None):
            raise _MalformedMessage("arguments of a tool call: expected JSON text or an object")
        if not isinstance(arguments, str):
            function["arguments"] = json.dumps(arguments or {})
    return message


def _seconds(text: str | None) -> float:
    try:
        return max(0.0, float(text or 0))
    except ValueError:  # a date
        return 0.0
