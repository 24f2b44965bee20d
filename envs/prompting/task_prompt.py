"""A task's prompt, turn by turn: system text, messages, tool schemas."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from typing import Any

from fctncalling.data.agentic_tasks import is_prerequisite
from fctncalling.data.types import FunctionDoc, Message, Task
from fctncalling.envs.prompting import prompts
from fctncalling.envs.prompting.tool_schemas import openai_tool


class TaskPrompt:
    """What the model is shown of one task, per turn; every value is fresh and may be changed."""

    def __init__(self, task: Task, handler: object, style: str = "bfcl") -> None:
        self._style = style
        self._question = task.question
        is_agentic = task.kind == "agentic" and not is_prerequisite(task)
        self._answer_form = prompts.AGENTIC_ANSWER if is_agentic else ""
        self._missed = {turn: frozenset(names) for turn, names in task.missed_functions.items()}
        self._docs = prompts.docs_for_prompt(task.functions, task.category)
        self._schemas: dict[frozenset[str], bytes] = {}
        self.system = prompts.instructions(
            self._offered(0), handler, many_turns=task.executes_calls, style=style
        )

    def tools(self, turn: int) -> list[dict[str, Any]]:
        """Return the OpenAI schemas of the functions offered in a turn.

        Those still held out are missing.
        """
        hidden = self._hidden(turn)
        if hidden not in self._schemas:
            # Unpickling our own bytes is the quickest deep copy there is, and every step's `info`
            # needs one.
            self._schemas[hidden] = pickle.dumps([openai_tool(doc) for doc in self._offered(turn)])
        tools: list[dict[str, Any]] = pickle.loads(self._schemas[hidden])
        return tools

    def messages(self, turn: int, context: str = "") -> list[Message]:
        """Return a turn's messages.

        The one that offers held-out functions carries their schemas as `tools`.

        `context` is what the tools show unasked: it goes first, as a system message, with the form
        of the answer.
        """
        opening = "\n\n".join(filter(None, [context, self._answer_form])) if turn == 0 else ""
        messages: list[Message] = [{"role": "system", "content": opening}] if opening else []
        if offered := [doc for doc in self._docs if doc.name in self._missed.get(turn, ())]:
            tools = [openai_tool(doc) for doc in offered]
            messages.append(
                {
                    "role": "user",
                    "content": prompts.held_out_functions_message(offered, self._style),
                    "tools": tools,
                }
            )
        return [*messages, *copy.deepcopy(list(self._question[turn]) if self._question else [])]

    def functions(self, turn: int) -> Sequence[FunctionDoc]:
        """Return the docs of the functions offered in a turn: those still held out are missing."""
        return self._offered(turn)

    def _hidden(self, turn: int) -> frozenset[str]:
        return frozenset().union(*(names for at, names in self._missed.items() if at > turn))

    def _offered(self, turn: int) -> Sequence[FunctionDoc]:
        hidden = self._hidden(turn)
        return [doc for doc in self._docs if doc.name not in hidden]
