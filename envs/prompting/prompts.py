"""Prompt of a task by turns, laid out as in BFCL, and OpenAI schemas of its tools.

BFCL's layout: one system text (task, output form, docs as JSON indented by 4), put before a task's
own system message; results as ONE user message, the Python repr of a list of {"role": "tool",
"name", "content"}; functions that were held out as the repr of their docs, a newline and a fixed
sentence. Tool text only ever stands inside a repr, where quotes and line breaks are escaped: it
cannot close the list it stands in, nor pose as a message.
"""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from fctncalling.data.categories import category_language
from fctncalling.data.format_sensitivity import PromptVariant
from fctncalling.data.types import Call, FunctionDoc, Message, StepRecord, Task
from fctncalling.envs.handlers.form_calls import FormCalls
from fctncalling.envs.handlers.lenient import PREFIX as LENIENT
from fctncalling.envs.prompting import compact, format_variants
from fctncalling.envs.prompting.format_variants import function_doc_json

MORE_FUNCTIONS = "I have updated some more functions you can choose from. What about now?"
"""BFCL's user message of the turn at which held-out functions are offered."""

_SYNTAX = {"python": "Python 3", "java": "Java 8 SDK", "javascript": "JavaScript"}
_TASK = (
    "You answer requests by composing function calls. You get a question and the functions that "
    "may be called. Decide which calls fulfil the request. If none of the functions fits, or a "
    "required argument is neither given nor to be inferred, say so in plain words and call nothing."
)
CALL_INSTRUCTIONS = {
    "python_calls": (
        "To call functions, answer with nothing but a list of calls with named arguments, in this "
        "form:\n"
        "[first_function(name1=value1, name2=value2), second_function(name=value)]\n"
        "Add no other text to an answer that calls functions."
    ),
    "tool_calls": (
        "To call functions, answer with nothing but a JSON list of calls, arguments as JSON text, "
        "in this form:\n"
        '[{"first_function": "{\\"name1\\": value1, \\"name2\\": value2}"}, {"second": '
        '"{\\"name\\": value}"}]\n'
        "Add no other text to an answer that calls functions."
    ),
}
"""Handler's name -> how it wants calls written. A handler of your own may carry the text as its
`form`.
"""
_TURNS = (
    "In every turn go on until the request is fulfilled as far as the functions allow: the results "
    "of your calls are shown to you, and you may call again. An answer without calls ends your "
    "turn."
)
AGENTIC_ANSWER = (
    "When you have found out what you are asked, or cannot, give your final answer in this form: "
    "{'answer': <the answer, short and precise>, 'context': <in brief, how you came by it>}. "
    "If you do not know the answer, write 'I do not know' in its place."
)
"""How an agentic task's last message is to be written; BFCL asks for the same two parts."""
_DOCS = "The functions you may call, as JSON:"


def docs_for_prompt(functions: Sequence[FunctionDoc], category: str) -> list[FunctionDoc]:
    """Return function docs for the prompt, as BFCL changes them; checkers use the originals.

    Each description names the syntax; for Java and JavaScript every parameter becomes a string that
    holds source text, its true type (and that of its items) told in words.
    """
    language = category_language(category)
    note = f" Note that the provided function is in {_SYNTAX[language]} syntax."
    return [
        FunctionDoc(
            doc.name,
            doc.description + note,
            doc.parameters if language == "python" else _as_source_text(doc.parameters, language),
            doc.response,
        )
        for doc in functions
    ]


def _as_source_text(parameters: Mapping[str, Any], language: str) -> dict[str, Any]:
    result = copy.deepcopy(dict(parameters))
    language_name = {"java": "Java", "javascript": "JavaScript"}[language]
    for schema in result.get("properties", {}).values():
        true_type = schema.get("type", "any")
        note = f" Written as {language_name} source text of type {true_type}"
        for key in ("items", "properties"):
            if key in schema:
                note += f", {key}: {json.dumps(schema.pop(key))}"
        schema["description"] = schema.get("description", "") + note + "."
        schema["type"] = "string"
    return result


def system_prompt(
    functions: Sequence[FunctionDoc], handler: object, *, many_turns: bool, style: str = "bfcl"
) -> str:
    """Return the system prompt: task, form of calls, and function docs in a style.

    "bfcl" writes docs as JSON, "compact" as signatures. The handler of a prompt variant has BFCL's
    text of that configuration.
    """
    variant = getattr(handler, "variant", None)
    if isinstance(variant, PromptVariant):
        return format_variants.variant_system_prompt(variant, functions)
    handler = getattr(handler, "own", handler)  # of a chat template
    name = str(getattr(handler, "name", "")).removeprefix(LENIENT)
    form = (
        _form_by_example(handler)
        or getattr(handler, "form", None)
        or CALL_INSTRUCTIONS.get(name)
        or format_variants.format_instructions(name)
        or CALL_INSTRUCTIONS["python_calls"]
    )
    return PROMPT_STYLES[style].instructions(functions, form, many_turns)


def _form_by_example(handler: object) -> str | None:
    """Return an instruction with an example of a table form; None for other handlers."""
    if not isinstance(handler, FormCalls):
        return None
    example = Call("first_function", {"name1": "value1", "name2": "value2"})
    return (
        f"To call functions, answer with nothing but calls in this form:\n"
        f"{handler.render([example])}"
    )


def _bfcl_instructions(functions: Sequence[FunctionDoc], form: str, many_turns: bool) -> str:
    docs = json.dumps([function_doc_json(doc) for doc in functions], indent=4)
    return "\n\n".join([_TASK, form, *([_TURNS] if many_turns else []), f"{_DOCS}\n{docs}"])


def _bfcl_docs(functions: Sequence[FunctionDoc]) -> str:
    return repr([function_doc_json(doc) for doc in functions])


def _compact_instructions(functions: Sequence[FunctionDoc], form: str, many_turns: bool) -> str:
    form = compact.CALL_INSTRUCTION if form == CALL_INSTRUCTIONS["python_calls"] else form
    return compact.compact_system_prompt(functions, form, many_turns=many_turns)


class PromptStyle(NamedTuple):
    """Style of a prompt: functions that write the system text and later docs."""

    instructions: Callable[[Sequence[FunctionDoc], str, bool], str]
    """(functions, form of calls, whether there are many turns) -> the system text."""
    docs: Callable[[Sequence[FunctionDoc]], str]


PROMPT_STYLES = {
    "bfcl": PromptStyle(_bfcl_instructions, _bfcl_docs),
    "compact": PromptStyle(_compact_instructions, compact.compact_docs),
}


def tool_messages(executed: Sequence[str], results: Sequence[str]) -> list[Message]:
    """Return the tool messages of a step, one per executed call."""
    return [
        {"role": "tool", "name": call, "content": result}
        for call, result in zip(executed, results, strict=True)
    ]


def results_message(step: StepRecord) -> str:
    """Return a step's results as one text, for a model without a tool role."""
    return repr(tool_messages(step.executed, step.results)) if step.executed else ""


def held_out_functions_message(functions: Sequence[FunctionDoc], style: str = "bfcl") -> str:
    """Return the user message that offers held-out functions."""
    return f"{PROMPT_STYLES[style].docs(functions)}\n{MORE_FUNCTIONS}"


def join_contents(messages: Sequence[Message]) -> str:
    """Join the contents of user messages to one observation."""
    return "\n\n".join(str(message.get("content") or "") for message in messages)


def unreadable_message(complaint: str) -> str:
    """Return the reply to unreadable calls, if the agent may try again."""
    return (
        f"Your message could not be read as function calls: {complaint}. Nothing was executed. "
        "Write the calls again."
    )


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
    """Convert a function doc to an OpenAI tool schema.

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
    """Convert BFCL's doc of a parameter to JSON Schema, nested parameters included.

    What JSON Schema does not know (`optional`, a `required` that is no list) is left out.
    """
    json_type = JSON_TYPES.get(str(schema.get("type", "")))
    result: dict[str, Any] = {} if json_type is None else {"type": json_type}
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
    """Prompt of one task: fresh messages, tools and functions of each turn."""

    def __init__(self, task: Task, handler: object, style: str = "bfcl") -> None:
        self._style = style
        self._question = task.question
        is_agentic = task.kind == "agentic" and not task.is_memory_prerequisite
        self._answer_form = AGENTIC_ANSWER if is_agentic else ""
        self._missed = {turn: frozenset(names) for turn, names in task.missed_functions.items()}
        self._docs = docs_for_prompt(task.functions, task.category)
        self._schemas: dict[frozenset[str], bytes] = {}
        self.system = system_prompt(
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
                    "content": held_out_functions_message(offered, self._style),
                    "tools": tools,
                }
            )
        return [*messages, *copy.deepcopy(list(self._question[turn]) if self._question else [])]

    def functions(self, turn: int) -> Sequence[FunctionDoc]:
        """Return the docs of the functions offered in a turn, without those held out."""
        return self._offered(turn)

    def _hidden(self, turn: int) -> frozenset[str]:
        return frozenset().union(*(names for at, names in self._missed.items() if at > turn))

    def _offered(self, turn: int) -> Sequence[FunctionDoc]:
        hidden = self._hidden(turn)
        return [doc for doc in self._docs if doc.name not in hidden]
