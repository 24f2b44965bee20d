"""LangGraph agent, unchanged; the loop over lines at the end talks to the trainer.

    pip install langgraph langchain-openai
    fctncalling train --agent_command "python examples/gateway/langgraph_agent.py"

Tools are those of the task, and say "done"; the task's own verdict is the reward.
"""

import json
import sys
from typing import Any

from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.errors import GraphRecursionError
from langgraph.prebuilt import create_react_agent

MAX_GRAPH_STEPS = 5


def as_tool(function: dict[str, Any]) -> StructuredTool:
    """Convert a tool schema of OpenAI's to a tool of LangChain."""
    return StructuredTool.from_function(
        lambda **arguments: "done",
        name=function["name"],
        description=function["description"] or function["name"],
        args_schema=function["parameters"],
    )


def answer(model: ChatOpenAI, task: dict[str, Any]) -> None:
    """Let the agent work on a task."""
    tools = [as_tool(tool["function"]) for tool in task["tools"]]
    agent = create_react_agent(model, tools)
    try:
        agent.invoke({"messages": task["messages"]}, {"recursion_limit": MAX_GRAPH_STEPS})
    except GraphRecursionError:
        return  # it called tools to the end: its conversation is judged as it is


for line in sys.stdin:
    told = json.loads(line)
    answer(
        ChatOpenAI(model="policy", base_url=told["base_url"], api_key=told["api_key"]),
        told["task"],
    )
    print(json.dumps({"session": told["session"]}), flush=True)
