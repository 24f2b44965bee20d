"""Inspect (tested with 0.3.285): tasks as samples, a solver that plays them, BFCL's verdict.

`inspect eval` finds functions with its decorator, so a file of yours has
`@task def bfcl(): return inspect_task(load_tasks(...))`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import inspect_ai
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    get_model,
)
from inspect_ai.scorer import Score, Scorer, Target, accuracy, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import ToolInfo, ToolParams

from fctncalling.data.types import Task, tool_call
from fctncalling.lab.dialogue import Dialogue, opening

VERDICT = "fctncalling_verdict"  # in the sample's store: error type and message, or validity


def inspect_task(tasks: Sequence[Task], form: str = "tool_call", **keywords: Any) -> Any:
    """Make an Inspect task of these tasks; keywords are FunctionCallingEnv's."""
    samples = [
        Sample(
            id=task.id,
            input=[_chat_message(message) for message in opening(task, form).messages],
            metadata={"category": task.category},
        )
        for task in tasks
    ]
    return inspect_ai.Task(
        dataset=MemoryDataset(samples, name="fctncalling"),
        solver=play(tasks, form, **keywords),
        scorer=verdict(),
    )


@solver
def play(tasks: Sequence[Task], form: str = "tool_call", **keywords: Any) -> Solver:
    """Make a solver that plays the sample's task to its end with the evaluated model."""
    by_id = {task.id: task for task in tasks}

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        dialogue = Dialogue(by_id[str(state.sample_id)], form=form, **keywords)
        try:
            dialogue.open()
            while not dialogue.done:
                tools = [_tool_info(tool) for tool in dialogue.tools]
                state.output = await get_model().generate(state.messages, tools=tools)
                state.messages.append(state.output.message)
                answers = dialogue.reply(_openai_message(state.output.message))
                state.messages += [_chat_message(answer) for answer in answers]
            verdict = dialogue.verdict_so_far()  # raises where the tools failed: an error, no score
        finally:
            dialogue.close()
        state.store.set(VERDICT, [verdict.valid, verdict.error_type, verdict.message])
        state.completed = True
        return state

    return solve


@scorer(metrics=[accuracy(), stderr()])
def verdict() -> Scorer:
    """Make a scorer that reports BFCL's verdict, with its error type as explanation."""

    async def score(state: TaskState, target: Target) -> Score:
        valid, error_type, message = state.store.get(VERDICT)
        explanation = ": ".join(filter(None, [error_type, message]))
        return Score(value="C" if valid else "I", explanation=explanation)

    return score


def _openai_message(message: ChatMessageAssistant) -> dict[str, Any]:
    made = message.tool_calls or []
    calls = [
        tool_call(call.id, call.function, call.parse_error or json.dumps(call.arguments))
        for call in made
    ]
    reply = {"role": "assistant", "content": message.text}
    return {**reply, "tool_calls": calls} if calls else reply


def _chat_message(message: Mapping[str, Any]) -> ChatMessage:
    content = str(message.get("content") or "")
    if message["role"] == "tool":
        return ChatMessageTool(content=content, tool_call_id=message["tool_call_id"])
    if message["role"] == "system":
        return ChatMessageSystem(content=content)
    return ChatMessageUser(content=content)


def _tool_info(tool: Mapping[str, Any]) -> ToolInfo:
    function = tool["function"]
    return ToolInfo(
        name=function["name"],
        description=function.get("description") or function["name"],
        parameters=ToolParams.model_validate(
            {key: value for key, value in function["parameters"].items() if key in _PARAMS}
        ),
    )


_PARAMS = ("type", "properties", "required")
