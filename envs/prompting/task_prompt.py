"""A task's prompt, turn by turn (system text, messages), and OpenAI tool schemas of BFCL's docs."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

from fctncalling.data.agentic_tasks import is_memory_prerequisite
from fctncalling.data.types import FunctionDoc, Message, Task
from fctncalling.envs.prompting import prompts

JSON_TYPES = {
    name: kind
    for kind, names in {
        "object": "dict object HashMap",
        "array": "array tuple list Array ArrayList",
        "string": "string String str char",
        "integer": "integer int long short byte Bigint",
        "number": "float double number",
        "boolean": "boolean Boolean bool",
        "null": "null",
    }.items()
    for name in names.split()
}
"""BFCL type -> JSON Schema type. A type that is not here ("any", "") leaves the value unrestricted.
"""

_KEPT = tuple("description enum default format minimum maximum minItems maxItems minLength".split())


def to_openai_tool(doc: FunctionDoc) -> dict[str, Any]:
    """Convert a function doc to an OpenAI tool, fresh.

    Dots in its name stay (an API that forbids them renames).

    Its types (dict, float, tuple, any, ...) become JSON Schema's.
    """
    parameters = to_json_schema(doc.parameters)
    # the arguments themselves are one object, whatever a doc calls it
    parameters["type"] = "object"
    parameters.setdefault("properties", {})
    function = {"name": doc.name, "description": doc.description, "parameters": parameters}
    return {"type": "function", "function": function}


def to_json_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a parameter to JSON Schema, as BFCL describes it, nested ones included; fresh.

    What JSON Schema does not know (`optional`, a `required` that is no list) is left out.
    """
    known = JSON_TYPES.get(str(schema.get("type", "")))
    result: dict[str, Any] = {} if known is None else {"type": known}
    result.update((key, copy.deepcopy(schema[key])) for key in _KEPT if key in schema)
    if isinstance(properties := schema.get("properties"), Mapping):
        result["properties"] = {
            name: to_json_schema(inner) if isinstance(inner, Mapping) else {}
            for name, inner in properties.items()
        }
    if isinstance(required := schema.get("required"), list | tuple):
        result["required"] = list(required)
    for key in ("items", "additionalProperties"):
        if isinstance(inner := schema.get(key), Mapping):
            result[key] = to_json_schema(inner)
        elif isinstance(inner, bool):
            result[key] = inner
    return result


class TaskPrompt:
    """Prompt of one task: messages, tools and functions of each turn, always fresh."""

    def __init__(self, task: Task, handler: object, style: str = "bfcl") -> None:
        self._style = style
        self._question = task.question
        is_agentic = task.kind == "agentic" and not is_memory_prerequisite(task)
        self._answer_form = prompts.AGENTIC_ANSWER if is_agentic else ""
        self._missed = {turn: frozenset(names) for turn, names in task.missed_functions.items()}
        self._docs = prompts.docs_for_prompt(task.functions, task.category)
        self._schemas: dict[frozenset[str], bytes] = {}
        self.system = prompts.system_prompt(
            self._offered(0), handler, many_turns=task.executes_calls, style=style
        )

    def tools(self, turn: int) -> list[dict[str, Any]]:
        """Return the tools offered in a turn, as OpenAI schemas of their functions.

        Those still held out are missing.
        """
        hidden = self._hidden(turn)
        if hidden not in self._schemas:
            # Unpickling our own bytes is the quickest deep copy there is, and every step's `info`
            # needs one.
            self._schemas[hidden] = pickle.dumps(
                [to_openai_tool(doc) for doc in self._offered(turn)]
            )
        tools: list[dict[str, Any]] = pickle.loads(self._schemas[hidden])
        return tools

    def messages(self, turn: int, context: str = "") -> list[Message]:
        """Return the messages that open a turn.

        The one that offers held-out functions carries their schemas as `tools`.

        `context` is what the tools show unasked: it goes first, as a system message, with the form
        of the answer.
        """
        opening = "\n\n".join(filter(None, [context, self._answer_form])) if turn == 0 else ""
        messages: list[Message] = [{"role": "system", "content": opening}] if opening else []
        if offered := [doc for doc in self._docs if doc.name in self._missed.get(turn, ())]:
            tools = [to_openai_tool(doc) for doc in offered]
            messages.append(
                {
                    "role": "user",
                    "content": prompts.held_out_functions_message(offered, self._style),
                    "tools": tools,
                }
            )
        return [*messages, *copy.deepcopy(list(self._question[turn]) if self._question else [])]

    def functions(self, turn: int) -> Sequence[FunctionDoc]:
        """Return the functions offered in a turn, their docs, without those still held out."""
        return self._offered(turn)

    def _hidden(self, turn: int) -> frozenset[str]:
        return frozenset().union(*(names for at, names in self._missed.items() if at > turn))

    def _offered(self, turn: int) -> Sequence[FunctionDoc]:
        hidden = self._hidden(turn)
        return [doc for doc in self._docs if doc.name not in hidden]
