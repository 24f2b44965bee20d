"""NeMo Gym (tested with 0.4): tasks as a resources server for its gymnasium agent.

The `app.py` of a folder in `resources_servers/` has two lines: `Server = resources_server(tasks)`
and `Server.run_webserver()`. Its data file has one line of JSON for each of `dataset_rows(tasks)`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from resources_servers.gymnasium import GymnasiumServer, extract_text

from fctncalling.data.types import Message, Task, tool_call
from fctncalling.lab.dialogue import Dialogue, info_to_json, opening


def dataset_rows(
    tasks: Sequence[Task], form: str = "tool_call", **columns: Any
) -> list[dict[str, Any]]:
    """Return a row of each task, with extra `columns` such as `agent_ref`.

    Raises ValueError for a task that offers functions in a later turn: NeMo Gym's agent has the
    same tools all the time. In the form "prompting" they are in the text.
    """
    rows = []
    for task in tasks:
        if form != "prompting" and task.missed_functions:
            raise ValueError(
                f'task "{task.id}" offers functions in a later turn, which NeMo Gym\'s agent '
                'cannot pass on as tools: take the form "prompting".'
            )
        messages, tools = opening(task, form)
        request = {"input": messages, "tools": [_responses_tool(tool) for tool in tools]}
        rows.append({"responses_create_params": request, "task_id": task.id, **columns})
    return rows


class DialogueServer(GymnasiumServer):
    """Server of a subclass's tasks: one dialogue per session."""

    tasks: ClassVar[Mapping[str, Task]]
    form: ClassVar[str]
    keywords: ClassVar[Mapping[str, Any]]

    async def reset(
        self, metadata: dict[str, Any], session_id: str | None = None
    ) -> tuple[str | None, dict[str, Any]]:
        """Begin the task of the row; its messages are in the row."""
        task = self.tasks[metadata["task_id"]]
        dialogue = Dialogue(task, form=self.form, **self.keywords)
        await asyncio.to_thread(dialogue.open)
        self.session_state[session_id] = dialogue
        return None, {}

    async def step(
        self, action: Any, metadata: dict[str, Any], session_id: str | None = None
    ) -> tuple[str | None, float, bool, bool, dict[str, Any]]:
        """Play the model's response.

        Raises InfrastructureError where the tools failed: the rollout fails, and has no reward.
        """
        dialogue = self.session_state[session_id]
        before = dialogue.reward
        answers = await asyncio.to_thread(dialogue.reply, _chat_message(action))
        verdict = dialogue.verdict
        info = info_to_json({"verdict": verdict}) if verdict else {}
        info["tool_outputs"] = [
            {"call_id": answer["tool_call_id"], "output": answer["content"]}
            for answer in answers
            if answer["role"] == "tool"
        ]
        return _observation(answers), dialogue.reward - before, dialogue.done, False, info

    async def close_session(self, session_id: str | None) -> None:
        """Drop the dialogue."""
        dialogue = self.session_state.pop(session_id, None)
        if dialogue is not None:
            dialogue.close()


def resources_server(
    tasks: Sequence[Task], form: str = "tool_call", **keywords: Any
) -> type[DialogueServer]:
    """Make the class of servers for these tasks; `keywords` are `Dialogue`'s.

    `info` of the last step holds BFCL's verdict.
    """
    by_id = {task.id: task for task in tasks}
    played = {"tasks": by_id, "form": form, "keywords": keywords}
    return type("Server", (DialogueServer,), played)


def _responses_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a tool schema to OpenAI's Responses interface."""
    function = tool["function"]
    schema = {key: function.get(key) for key in ("name", "description", "parameters")}
    return {"type": "function", **schema, "strict": False}


def _chat_message(response: Any) -> dict[str, Any]:
    """Convert a response to an assistant's message."""
    calls = [
        tool_call(item.call_id, item.name, item.arguments)
        for item in response.output
        if item.type == "function_call"
    ]
    message = {"role": "assistant", "content": extract_text(response)}
    return {**message, "tool_calls": calls} if calls else message


def _observation(answers: Sequence[Message]) -> str | None:
    """Return the user's next text, if any."""
    texts = [str(answer["content"]) for answer in answers if answer["role"] != "tool"]
    return "\n\n".join(texts) or None
