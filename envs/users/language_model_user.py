"""User that is simulated by a language model, such as an endpoint's."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

from fctncalling.checkers.clarify import is_mentioned, spoken_value
from fctncalling.data.http_client import HttpClient, Reply, RequestFailed
from fctncalling.data.types import Message, Task
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.handlers import get_handler
from fctncalling.envs.judging.oracle import oracle_calls
from fctncalling.envs.users.known_values import known_values

REFUSAL = "I can only tell you what I want, not how to do it."
"""What stands in the place of an answer that gave calls away."""
_SHORTEST = 4  # characters of a value that is no part of ordinary speech


def reveals_answer(reply: str, task: Task, turn: int = 0) -> bool:
    """Whether a user's reply contains a part of the answer that it must not give away.

    That is a text that reads as calls, the name of an offered function where it cannot be an
    ordinary word, a parameter with a value assigned to it, or a value of the ground truth that the
    user does not know.
    """
    return (
        _reads_as_calls(reply)
        or any(_is_named(doc.name, reply) for doc in task.functions)
        or any(
            _is_assigned(name, reply)
            for doc in task.functions
            for name in doc.parameters.get("properties", {})
        )
        or any(is_mentioned(value, reply) for value in _unknown_values(task, turn))
    )


def _reads_as_calls(reply: str) -> bool:
    try:
        return bool(get_handler("auto").decode(reply))
    except Exception:  # what no decoder reads is no call
        return False


def _is_named(name: str, reply: str) -> bool:
    is_word = name.isalpha() and name.islower()  # "translate" is what a user may say
    called = r"\s*\(" if is_word else ""
    return re.search(rf"\b{re.escape(name)}\b{called}", reply) is not None


def _is_assigned(name: str, reply: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b[\"']?\s*=", reply) is not None or (
        re.search(rf"[\"']{re.escape(name)}[\"']\s*:", reply) is not None
    )


def _unknown_values(task: Task, turn: int) -> Iterator[str]:
    """Yield texts of the ground truth that the user does not know and nobody may guess."""
    if task.ground_truth is None or task.kind == "agentic":
        return
    try:
        turns = oracle_calls(task)
    except ValueError:
        return
    request = " ".join(str(m.get("content", "")) for messages in task.question for m in messages)
    values = {str(value) for value in known_values(task, turn).values()}
    for calls in turns:
        for call in calls:
            for value in call.arguments.values():
                is_text = isinstance(value, str) and len(value) >= _SHORTEST
                if is_text and value not in values and not is_mentioned(value, request):
                    yield value


def run_with_timeout(seconds: float, work: Callable[[], Any], name: str) -> Any:
    """Run a function with a timeout and return its result; its exceptions are raised here.

    Raises InfrastructureError where it takes longer: its thread is left behind, and ends with the
    process at the latest.
    """
    result: list[Any] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            result.append(work())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, name=f"user {name}", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise InfrastructureError(f"user {name}: no answer within {seconds:g} s")
    if failure:
        raise InfrastructureError(
            f"user {name}: {type(failure[0]).__name__}: {failure[0]}"
        ) from failure[0]
    return result[0]


MAX_REPLY = 600  # characters; a user says a sentence or two
DONE = "[NEXT]"
INSTRUCTIONS = """\
You play the user in a conversation with an assistant. You asked for this:
{request}
What you know and may tell when it asks for it (as JSON): {known}
Answer the assistant's last message in one short sentence, in your own words. Tell only what it \
asks for, one thing at a time. You know nothing else: say so where it asks for anything else. You \
have never heard of functions, tools, calls or instructions, and never write any, whatever the \
assistant says. If the assistant asked nothing, answer {done}."""

Complete = Callable[[list[Message]], str]
"""Chat messages in OpenAI's form -> the text that a model answers."""


class LanguageModelUser:
    """User that asks the function `complete`, a language model, for each answer.

    The model is told the request and the values that the user knows (`known_values`), never the
    calls. An answer that gives them away all the same is replaced by a refusal. An answer that is
    empty or no text, an exception, and one that takes longer than `deadline_s` seconds make the
    episode invalid.
    """

    def __init__(
        self, complete: Complete, *, name: str = "language model", deadline_s: float = 60.0
    ) -> None:
        self._complete = complete
        self._name = name
        self._deadline_s = deadline_s

    def __repr__(self) -> str:
        return self._name

    def __call__(self, conversation: list[Message], about: Mapping[str, Any]) -> str | None:
        """Return the model's answer; None if it has no answer.

        Raises InfrastructureError.
        """
        task, turn = about["task"], int(about["turn"])
        messages = messages_for_user_model(conversation, task, turn)
        reply = run_with_timeout(self._deadline_s, lambda: self._complete(messages), self._name)
        if not isinstance(reply, str) or not reply.strip():
            raise InfrastructureError(f"user {self._name}: returned no text: {reply!r:.80}")
        reply = reply.strip()[:MAX_REPLY]
        if DONE in reply:
            return None
        return REFUSAL if reveals_answer(reply, task, turn) else reply


def messages_for_user_model(conversation: list[Message], task: Task, turn: int) -> list[Message]:
    """Prepare messages for the user's model: roles exchanged, calls left out."""
    lines = [str(m.get("content", "")) for m in task.question[turn] if m.get("role") == "user"]
    values = {name: spoken_value(value) for name, value in known_values(task, turn).items()}
    system = INSTRUCTIONS.format(
        request=" ".join(lines) or "(nothing more)",
        known=json.dumps(values, ensure_ascii=False),
        done=DONE,
    )
    seen: list[Message] = [{"role": "system", "content": system}]
    others = {"assistant": "user", "user": "assistant"}
    for message in _since_last_turn(conversation):
        if message["role"] in others:
            role, content = others[message["role"]], str(message.get("content") or "")
            seen.append({"role": role, "content": content})
    return seen


def _since_last_turn(conversation: list[Message]) -> list[Message]:
    """Return the conversation from the first assistant message on.

    Before it stands the request, behind function docs.
    """
    first = next((i for i, m in enumerate(conversation) if m["role"] == "assistant"), 0)
    return conversation[first:]


BASE_URL = "https://api.openai.com/v1"
API_KEY = "OPENAI_API_KEY"
MAX_BYTES = 2**20  # of an answer
MAX_TOKENS = 120
RETRIES = 2
FIRST_WAIT_S = 0.2


class EndpointChatModel:
    """Chat model of an endpoint; greedy and seeded, with retries.

    `base_url`: none for `OPENAI_BASE_URL`, else OpenAI's. The key is that of `OPENAI_API_KEY`.
    Raises ValueError for an address that is none of http or https.
    """

    def __init__(
        self, model: str, base_url: str = "", *, seed: int = 0, timeout_s: float = 30.0
    ) -> None:
        base = base_url or os.environ.get("OPENAI_BASE_URL") or BASE_URL
        if not base.startswith(("http://", "https://")):
            raise ValueError(f'user openai:{model}: address "{base}": expected http:// or https://')
        self.model = model
        self.url = f"{base.rstrip('/')}/chat/completions"
        self._seed = seed
        self._timeout_s = timeout_s

    def __call__(self, messages: list[Message]) -> str:
        """Return the text of the model's message; raises InfrastructureError."""
        body = {
            "model": self.model,
            "messages": messages,
            "temperature": 0.0,
            "seed": self._seed,
            "max_tokens": MAX_TOKENS,
        }
        # A client a reply: users are copied and go into other processes.
        key = os.environ.get(API_KEY, "").strip()
        with closing(HttpClient(key=key, timeout_s=self._timeout_s, max_bytes=MAX_BYTES)) as client:
            try:
                return client.retry(
                    lambda: _text(client.request("POST", self.url, body)),
                    retries=RETRIES,
                    first_wait_s=FIRST_WAIT_S,
                )
            except (RequestFailed, InfrastructureError) as error:
                raise InfrastructureError(f"{self.url}: {error}") from None


def _text(reply: Reply) -> str:
    """Return the text of an answer; "" where its message has none."""
    if reply.status >= 300:
        fault = f"HTTP {reply.status}"
        raise RequestFailed(fault) if reply.is_temporary else InfrastructureError(fault)
    try:
        content = reply.json()["choices"][0]["message"].get("content")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise InfrastructureError(f"no message in the answer: {reply.text[:80]!r}") from None
    return content if isinstance(content, str) else ""
