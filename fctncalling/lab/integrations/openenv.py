"""OpenEnv (tested with 0.10): server of chat messages with a Task API, and its client.

`app = openenv_app({"train": load_tasks(...), "test": load_tasks(...)})` is a FastAPI application;
`uvicorn module:app` serves it. `examples/openenv_package` is a package with its manifest.
"""

from __future__ import annotations

import ipaddress
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
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
from fctncalling.lab.dialogue import Dialogue, info_to_json


class ChatAction(Action):
    """Assistant's message in OpenAI's form."""

    content: str | None = Field(default=None, description="Text of the message")
    tool_calls: list[dict[str, Any]] = Field(
        default_factory=list, description="Tool calls in OpenAI's form"
    )


class ChatObservation(Observation):
    """Messages that answer the action, and the tools offered now.

    At the end `info` holds `verdict`; `invalid` and `invalid_reason` where infrastructure
    failed: drop that episode.
    """

    messages: list[dict[str, Any]] = Field(default_factory=list)
    tools: list[dict[str, Any]] = Field(default_factory=list)
    info: dict[str, Any] = Field(default_factory=dict)  # its metadata does not reach clients


class NotPlayable(ValueError):
    """Error of a request for no playable episode, with its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ChatEnvironment(Environment[ChatAction, ChatObservation, State]):
    """Environment of consecutive episodes of given tasks, with the Task API of their splits.

    `reset(task_id=...)` or `reset(split=..., index=...)` names the task.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(
        self, splits: Mapping[str, Sequence[Task]], form: str = "tool_call", **keywords: Any
    ) -> None:
        super().__init__()
        self._splits = splits
        self._form = form
        self._keywords = keywords
        self._state = State(episode_id=None, step_count=0)
        self._dialogue: Dialogue | None = None

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        task_id: str | None = None,
        split: str | None = None,
        index: int | None = None,
        **_: Any,
    ) -> ChatObservation:
        """Begin the named task, or the one of the (first) split with the seed's number."""
        task = self._chosen(task_id, split, index, seed or 0)
        self.close()
        self._dialogue = Dialogue(task, form=self._form, **self._keywords)
        self._state = State(episode_id=episode_id or uuid.uuid4().hex, step_count=0)
        return self._observation(self._dialogue.open(seed), None)

    def _chosen(self, task_id: str | None, split: str | None, index: Any, seed: int) -> Task:
        if split is not None and split not in self._splits:
            raise NotPlayable(404, f"split {split!r}: expected one of {', '.join(self._splits)}")
        tasks = self._splits[split or next(iter(self._splits))]
        if task_id is not None:
            searched = [tasks] if split else self._splits.values()
            matching = [task for split in searched for task in split if task.id == task_id]
            if not matching:
                raise NotPlayable(404, f"task_id {task_id!r}: no such task")
            return matching[0]
        index = seed % len(tasks) if index is None else index
        if not isinstance(index, int) or not 0 <= index < len(tasks):
            raise NotPlayable(404, f"index {index!r}: expected 0 to {len(tasks) - 1}")
        return tasks[index]

    def list_splits(self) -> list[str]:
        """Return the names of the splits."""
        return list(self._splits)

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """List the public fields of a split's tasks."""
        return self.get_task_range(split)

    def num_tasks(self, split: str) -> int:
        """Return the number of tasks of a split."""
        return len(self.get_task_range(split))

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """Return one task's entry; IndexError if there is none."""
        if index < 0:
            raise IndexError(index)
        return self.get_task_range(split)[index]

    def get_task_range(
        self, split: str, start: int | None = None, stop: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the entries of a slice, without answers; IndexError if there is no such split."""
        if split not in self._splits:
            raise IndexError(split)  # answered 400
        entries = []
        for index, task in enumerate(self._splits[split]):
            about = {"category": task.category, "num_turns": len(task.question)}
            entries.append({"id": task.id, "split": split, "index": index, **about})
        return entries[start:stop]

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

    def close(self) -> None:
        """End the processes of an episode's tools."""
        if self._dialogue is not None:
            self._dialogue.close()

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
        fields = ("task_id", "category", "turn", "error", "verdict", "invalid", "invalid_reason")
        info = {key: self._dialogue.info[key] for key in fields if key in self._dialogue.info}
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
    tasks: Mapping[str, Sequence[Task]] | Sequence[Task],
    *,
    max_concurrent_envs: int = 64,
    allowed_hosts: Sequence[str] = (),
    **keywords: Any,
) -> Any:
    """Make the FastAPI application of an environment server; keywords are `Dialogue`'s.

    tasks: by split, or of one split, "test". The server answers at addresses (127.0.0.1) and
    localhost, and at the names of `allowed_hosts` ("*": any), so that pages of other sites cannot
    play through a browser on this machine.
    """
    splits = tasks if isinstance(tasks, Mapping) else {"test": tasks}
    if not splits or not all(splits.values()):
        raise ValueError(f"openenv_app needs a task in each split, and got {len(splits)} splits")
    app = create_fastapi_app(
        partial(ChatEnvironment, splits, **keywords),
        ChatAction,
        ChatObservation,
        max_concurrent_envs=max_concurrent_envs,
        env_name="fctncalling",
    )
    app.add_exception_handler(NotPlayable, _refusal)
    app.add_middleware(HostCheck, allowed_hosts=allowed_hosts)
    return app


async def _refusal(_request: Any, error: Any) -> Any:
    from starlette.responses import JSONResponse

    return JSONResponse({"detail": str(error)}, status_code=error.status)


class HostCheck:
    """ASGI middleware that refuses requests for other host names, or from other sites' pages."""

    def __init__(self, app: Any, allowed_hosts: Sequence[str]) -> None:
        self._app = app
        self._allowed = {host.lower() for host in (*allowed_hosts, "localhost", "127.0.0.1", "::1")}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        """Pass a request on, or refuse it."""
        is_checked = scope["type"] in ("http", "websocket")
        if is_checked and (fault := self._fault(dict(scope["headers"]))):
            return await _refuse(scope["type"], send, fault)
        return await self._app(scope, receive, send)

    def _fault(self, headers: Mapping[bytes, bytes]) -> str:
        host = _hostname(b"//" + headers.get(b"host", b""))
        origin = _hostname(headers[b"origin"]) if b"origin" in headers else host
        if not self._is_own(host) and not _is_address(host):  # an address is nobody's to redirect
            return f"host {host!r}"
        return "" if origin == host or self._is_own(origin) else f"a page of {origin!r}"

    def _is_own(self, host: str) -> bool:
        return host in self._allowed or "*" in self._allowed


def _hostname(url: bytes) -> str:
    with suppress(ValueError):
        return (urlsplit(url.decode("latin-1")).hostname or "").lower()
    return ""


def _is_address(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host) is not None
    return False


async def _refuse(kind: str, send: Any, fault: str) -> Any:
    if kind == "websocket":
        return await send({"type": "websocket.close", "code": 1008})
    text = f"{fault} is refused: openenv_app(..., allowed_hosts=[...]) names those that are served"
    start = {"type": "http.response.start", "status": 403}
    await send({**start, "headers": [(b"content-type", b"text/plain; charset=utf-8")]})
    return await send({"type": "http.response.body", "body": text.encode()})
