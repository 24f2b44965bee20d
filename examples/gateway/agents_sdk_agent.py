"""Agent of OpenAI's Agents SDK, unchanged; it speaks chat completions by one argument.

pip install openai-agents
fctncalling train --agent_command "python examples/gateway/agents_sdk_agent.py"
"""

import json
import sys
from typing import Any

from agents import (
    Agent,
    AgentsException,
    FunctionTool,
    OpenAIChatCompletionsModel,
    Runner,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

MAX_TURNS = 3


def as_tool(function: dict[str, Any]) -> FunctionTool:
    """Convert a tool schema of OpenAI's to a tool of the SDK."""

    async def done(*_: Any) -> str:
        return "done"

    return FunctionTool(
        function["name"],
        function["description"],
        function["parameters"],
        done,
        strict_json_schema=False,
    )


def answer(client: AsyncOpenAI, task: dict[str, Any]) -> None:
    """Let the agent work on a task."""
    agent = Agent(
        name="caller",
        model=OpenAIChatCompletionsModel("policy", client),
        tools=[as_tool(tool["function"]) for tool in task["tools"]],
    )
    try:
        Runner.run_sync(agent, task["messages"], max_turns=MAX_TURNS)
    except AgentsException:
        return  # tools to the end, or one that there is not: its conversation is judged as it is


set_tracing_disabled(True)
for line in sys.stdin:
    job = json.loads(line)
    answer(AsyncOpenAI(base_url=job["base_url"], api_key=job["api_key"]), job["task"])
    print(json.dumps({"session": job["session"]}), flush=True)
