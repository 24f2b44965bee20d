"""MCP (mcp 2): an episode as the tools of a Model Context Protocol server.

An agent outside plays it: the task's functions are tools, `start_task` returns the user's first
message, `end_turn` the next one. The other direction, tools of MCP servers in an environment, is
`tools=["mcp:COMMAND"]`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from fctncalling.data.types import Message, Task
from fctncalling.envs.errors import InfrastructureError, MissingExtra, import_extra
from fctncalling.lab.dialogue import CallByCall, info_to_json

INSTRUCTIONS = (
    "Call start_task for the user's first message. Do what it asks for with the other tools, then "
    "call end_turn with your answer to the user; it returns the user's next message, or says that "
    "the task has ended."
)
ENDED = "The task has ended."
FAILED = "The environment failed, so this episode does not count. The task has ended."
RECORDED = "Recorded. Calls of this task are not executed; end_turn hands them in."
ANSWER = {"type": "string", "description": "What you say to the user."}
START: dict[str, Any] = {
    "name": "start_task",
    "description": "Return the user's first message.",
    "parameters": {"type": "object", "properties": {}},
}
END: dict[str, Any] = {
    "name": "end_turn",
    "description": "End the turn; return the user's next message, or that the task has ended.",
    "parameters": {"type": "object", "properties": {"answer": ANSWER}, "required": ["answer"]},
}
OnEnd = Callable[[dict[str, Any]], object]


class ServedEpisode(CallByCall):
    """Episode of a task that is played by tool calls; keywords are `Dialogue`'s.

    `on_end` is called once, with `result()`.
    """

    def __init__(self, task: Task, *, on_end: OnEnd | None = None, **keywords: Any) -> None:
        super().__init__(task, **keywords)
        self._on_end = on_end

    def tools(self) -> list[dict[str, Any]]:
        """Return name, description and parameters (JSON Schema) of the tools offered now."""
        return [START, END, *(tool["function"] for tool in self.dialogue.tools)]

    def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Answer a call; after the end, with a note that the task has ended."""
        if name == START["name"]:
            return _texts(self.opening)
        if self.dialogue.done:
            return ENDED
        answers: list[Message] | None
        if name == END["name"]:
            answers = self.end_turn(str(arguments.get("answer", "")))
        elif (answers := self.play(name, arguments)) is None:
            return RECORDED
        if not self.dialogue.done:
            return _texts(answers)
        self._report()
        end = FAILED if self.dialogue.info.get("invalid") else ENDED
        return "\n\n".join(filter(None, (_texts(answers), end)))

    def result(self) -> dict[str, Any]:
        """Return task, verdict (so far, if the agent stopped early) and messages.

        `invalid` where infrastructure failed: no verdict on the agent.
        """
        dialogue = self.dialogue
        result: dict[str, Any] = {"task_id": dialogue.task.id, "category": dialogue.task.category}
        try:
            verdict = dialogue.verdict_so_far()
            result |= {"invalid": False, "valid": verdict.valid, "error_type": verdict.error_type}
        except InfrastructureError as error:
            result |= {"invalid": True, "invalid_reason": str(error)}
        return info_to_json(result | {"ended": dialogue.done, "messages": dialogue.messages})

    def close(self) -> None:
        """Report the result if the end has not; end the processes of tools."""
        self._report()
        self.dialogue.close()

    def _report(self) -> None:
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(self.result())


def mcp_server(episode: ServedEpisode) -> Any:
    """Make the SDK's server of an episode, as `fctncalling serve-mcp` serves it."""
    sdk = import_extra("mcp", "mcp", "serving over MCP")
    if not hasattr(sdk, "Client"):
        raise MissingExtra(
            "serving over MCP needs version 2 of the library mcp, and an older one is installed. "
            "Serve from an environment of its own (`pip install fctncalling 'mcp>=2'`): agents of "
            "any version start it by the path of its command."
        )
    lowlevel = import_extra("mcp.server.lowlevel", "mcp", "serving over MCP")
    subscriptions = import_extra("mcp.server.subscriptions", "mcp", "serving over MCP")
    changes = subscriptions.InMemorySubscriptionBus()

    async def list_tools(_context: Any, _params: Any) -> Any:
        tools = []
        for tool in episode.tools():
            schema, about = {"type": "object", **tool["parameters"]}, tool["description"]
            tools.append(sdk.types.Tool(name=tool["name"], description=about, input_schema=schema))
        return sdk.types.ListToolsResult(tools=tools)

    async def call_tool(context: Any, params: Any) -> Any:
        before = [tool["name"] for tool in episode.tools()]
        text = episode.call(params.name, params.arguments or {})
        if before != [tool["name"] for tool in episode.tools()]:  # a function that was held out
            await changes.publish(subscriptions.ToolsListChanged())
            await context.session.send_tool_list_changed()  # protocols before 2026
        return sdk.types.CallToolResult(content=[sdk.types.TextContent(type="text", text=text)])

    server = lowlevel.Server(
        "fctncalling",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_subscriptions_listen=subscriptions.ListenHandler(changes),
    )
    options = lowlevel.NotificationOptions(tools_changed=True)
    server.create_initialization_options = partial(server.create_initialization_options, options)
    return server


def _texts(messages: list[Message]) -> str:
    return "\n\n".join(str(message.get("content") or "") for message in messages)
