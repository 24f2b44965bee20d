"""OpenEnv (tested with openenv 0.10 and openenv-core 0.3).

An environment server of chat messages, and its client.

`app = openenv_app(load_tasks(...))` is a FastAPI application; `uvicorn module:app` serves it.
"""

from __future__ import annotations

import ipaddress
import uuid
from collections.abc import Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from openenv.core import EnvClient
from openenv.core.client_types import StepResult
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State
from pydantic import Field

from fctncalling import __version__
from fctncalling.data.types import Task
from fctncalling.envs.dialogue import Dialogue, info_to_json


class ChatAction(Action):
    """The assistant's message in OpenAI's form."""

    content: str | None = Field(default=None, description="Text of the message")
    tool_calls: list[dict[str, Any]] = Field(
        default_factory=list, description="Tool calls in OpenAI's form"
    )


class ChatObservation(Observation):
    """Messages that answer the action, and what can be called now.

    At the end `info` holds `verdict`; `invalid` and `invalid_reason` where infrastructure
    failed: drop that episode.
    """

    messages: list[dict[str, Any]] = Field(default_factory=list)
    tools: list[dict[str, Any]] = Field(default_factory=list)
    info: dict[str, Any] = Field(default_factory=dict)  # its metadata does not reach clients


class NotPlayable(ValueError):
    """A request that no episode can answer, with its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ChatEnvironment(Environment[ChatAction, ChatObservation, State]):
    """One episode after another of the given tasks; `reset(task_id=...)` names the task."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, tasks: Sequence[Task], form: str = "tool_call", **keywords: Any) -> None:
        super().__init__()
        self._tasks = {task.id: task for task in tasks}
        self._form = form
        self._keywords = keywords
        self._state = State(episode_id=None, step_count=0)
        self._dialogue: Dialogue | None = None

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        task_id: str | None = None,
        **_: Any,
    ) -> ChatObservation:
        """Begin a task: the one named, or that of the seed's number."""
        chosen = task_id or list(self._tasks)[(seed or 0) % len(self._tasks)]
        if chosen not in self._tasks:
            raise NotPlayable(404, f"task_id {chosen!r}: no such task")
        self._dialogue = Dialogue(self._tasks[chosen], form=self._form, **self._keywords)
        self._state = State(episode_id=episode_id or uuid.uuid4().hex, step_count=0)
        return self._observation(self._dialogue.open(seed), None)

    def step(self, action: ChatAction, timeout_s: float | None = None, **_: Any) -> ChatObservation:
        """Play the assistant's message."""
        if self._dialogue is None or self._dialogue.done:
            raise NotPlayable(
                409,
                "no episode is running: call reset first, on the same WebSocket (/ws); over plain "
                "HTTP each request has an environment of its own",
            )
        before = self._dialogue.reward
        message: dict[str, Any] = {"role": "assistant", "content": action.content}
        if action.tool_calls:
            message["tool_calls"] = action.tool_calls
        self._state.step_count += 1  # whatever the message is like
        answers = self._dialogue.reply(message)
        invalid = bool(self._dialogue.info.get("invalid"))
        return self._observation(answers, None if invalid else self._dialogue.reward - before)

    @property
    def state(self) -> State:
        """Episode id and number of steps."""
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        """Return name and description."""
        return EnvironmentMetadata(
            name="fctncalling",
            description="BFCL tasks as chat messages, judged by BFCL's rules.",
            version=__version__,
        )

    def _observation(self, messages: list[Any], reward: float | None) -> ChatObservation:
        assert self._dialogue is not None
        shown = ("task_id", "category", "turn", "error", "verdict", "invalid", "invalid_reason")
        info = {key: self._dialogue.info[key] for key in shown if key in self._dialogue.info}
        return ChatObservation(
            messages=messages,
            tools=self._dialogue.tools,
            done=self._dialogue.done,
            reward=reward,
            info=info_to_json(info),
        )


class ChatClient(EnvClient[ChatAction, ChatObservation, State]):
    """Client of a server of `openenv_app`."""

    def _step_payload(self, action: ChatAction) -> dict[str, Any]:
        return {"content": action.content, "tool_calls": action.tool_calls}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[ChatObservation]:
        done, reward = payload.get("done", False), payload.get("reward")
        observation = ChatObservation(**payload["observation"], done=done, reward=reward)
        return StepResult(observation=observation, reward=reward, done=done)

    def _parse_state(self, payload: dict[str, Any]) -> State:
        return State(**payload)


def openenv_app(
    tasks: Sequence[Task],
    *,
    max_concurrent_envs: int = 64,
    allowed_hosts: Sequence[str] = (),
    **keywords: Any,
) -> Any:
    """Return the FastAPI application of an environment server; keywords as for `Dialogue`.

    It answers at addresses (127.0.0.1) and localhost, and at the names of `allowed_hosts` ("*":
    any), so that pages of other sites cannot play through a browser on this machine.
    """
    app = create_fastapi_app(
        partial(ChatEnvironment, tasks, **keywords),
        ChatAction,
        ChatObservation,
        max_concurrent_envs=max_concurrent_envs,
    )
    app.add_exception_handler(NotPlayable, _refusal)
    app.add_middleware(HostCheck, allowed_hosts=allowed_hosts)
    return app


async def _refusal(_request: Any, error: Any) -> Any:
    from starlette.responses import JSONResponse

    return JSONResponse({"detail": str(error)}, status_code=error.status)


class HostCheck:
    """ASGI middleware that refuses requests by other host names, or from pages of other hosts."""

    def __init__(self, app: Any, allowed_hosts: Sequence[str]) -> None:
        self._app = app
        self._allowed = {host.lower() for host in (*allowed_hosts, "localhost", "127.0.0.1", "::1")}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        """Pass a request on, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host = _hostname(f"http://{headers.get(b'host', '')}")
        origin = _hostname(headers[b"origin"]) if b"origin" in headers else host
        if not self._is_own(host) and not _is_address(host):  # an address is nobody's to redirect
            return await _refuse(scope["type"], send, f"host {host!r}")
        if origin != host and not self._is_own(origin):
            return await _refuse(scope["type"], send, f"a page of {origin!r}")
        return await self._app(scope, receive, send)

    def _is_own(self, host: str) -> bool:
        return host in self._allowed or "*" in self._allowed


def _hostname(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


async def _refuse(kind: str, send: Any, given: str) -> Any:
    if kind == "websocket":
        return await send({"type": "websocket.close", "code": 1008})
    text = f"{given} is refused: openenv_app(..., allowed_hosts=[...]) names those that are served"
    start = {"type": "http.response.start", "status": 403}
    await send({**start, "headers": [(b"content-type", b"text/plain; charset=utf-8")]})
    return await send({"type": "http.response.body", "body": text.encode()})
