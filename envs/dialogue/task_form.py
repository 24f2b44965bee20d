"""Forms of dialogue, and tasks as they are put to an agent in each."""

from __future__ import annotations

from dataclasses import replace

from fctncalling.data.types import FunctionDoc, Task

FORMS = ("prompting", "tool_call", "tools_text")
"""How an agent is asked; tools_text: schemas go to the server, calls are read from the text."""


def task_for_form(task: Task, form: str) -> Task:
    """Return the task as it is put to an agent.

    As tool calls, names of single-turn tasks have no dots.

    Interfaces for tool calls forbid dots, so BFCL sends underscores and expects them back.
    """
    if form not in ("tool_call", "tools_text") or task.executes_calls:
        return task
    truth = task.ground_truth
    if truth is not None:
        truth = [
            {_dots_to_underscores(name): given for name, given in each.items()} for each in truth
        ]
    docs = [
        FunctionDoc(_dots_to_underscores(doc.name), doc.description, doc.parameters, doc.response)
        for doc in task.functions
    ]
    return replace(task, functions=docs, ground_truth=truth)


def _dots_to_underscores(name: str) -> str:
    return name.replace(".", "_")
