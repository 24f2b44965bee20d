"""PlayedTask: an episode between a task and a model behind OpenAI's client."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

from fctncalling.data.types import Message, Task, Verdict
from fctncalling.envs.dialogue.dialogue import Dialogue


class PlayedTask(NamedTuple):
    """What came of an episode."""

    verdict: Verdict
    reward: float
    messages: list[Message]


def play(
    task: Task,
    client: Any,
    model: str,
    *,
    sampling: Mapping[str, Any] | None = None,
    **keywords: Any,
) -> PlayedTask:
    """Play a task with a model behind `openai.OpenAI`, or any client of that form.

    sampling: further arguments of each request. keywords: as for `Dialogue`, `form` among them.
    What the client raises is raised; InfrastructureError where the tools failed.
    """
    dialogue = Dialogue(task, **keywords)
    try:
        dialogue.open()
        while not dialogue.done:
            asked = _request(dialogue, model, sampling)
            dialogue.reply(_message(client.chat.completions.create(**asked)))
        return _played(dialogue)
    finally:
        dialogue.close()


async def aplay(
    task: Task,
    client: Any,
    model: str,
    *,
    sampling: Mapping[str, Any] | None = None,
    **keywords: Any,
) -> PlayedTask:
    """Play a task with a model behind `openai.AsyncOpenAI`, as `play` does; tools run in a thread.

    Several at once: asyncio.gather.
    """
    dialogue = Dialogue(task, **keywords)
    try:
        dialogue.open()
        while not dialogue.done:
            asked = _request(dialogue, model, sampling)
            said = _message(await client.chat.completions.create(**asked))
            await asyncio.to_thread(dialogue.reply, said)
        return _played(dialogue)
    finally:
        dialogue.close()


def _request(dialogue: Dialogue, model: str, sampling: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the arguments of the next request; `tools` only where there are some."""
    tools = {"tools": dialogue.tools} if dialogue.tools else {}
    return {"model": model, "messages": dialogue.messages, **tools, **(sampling or {})}


def _message(completion: Any) -> Mapping[str, Any]:
    """Return the message of a completion's first choice as a dict."""
    message = completion.choices[0].message
    return message if isinstance(message, Mapping) else message.model_dump(exclude_none=True)


def _played(dialogue: Dialogue) -> PlayedTask:
    verdict = dialogue.verdict
    assert verdict is not None
    return PlayedTask(verdict, dialogue.reward, dialogue.messages)
