"""Compact prompt, an alternative to BFCL's.

Function docs as Python-like signatures, in a fifth (multi-turn) to a half (live) of the tokens.

    algebra.roots( # Find the roots of an equation.
     a: int # Coefficient of x^2.
     unit: 'm' | 'km' = ... # Unit of the result.
    ) -> roots

`= ...` marks a parameter that may be left out and has no documented default. White space in
descriptions is squeezed, so that no description can pose as a function of its own. Checkers never
see any of this: they judge by the docs as they are in the files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fctncalling.data.types import FunctionDoc

_TASK = (
    "Answer with function calls alone, or in plain words where no function fits or a required "
    "argument is neither given nor to be inferred."
)
CALL_INSTRUCTION = "Form: [first_function(name1=value1, name2=value2), second_function(name=value)]"
"""The form of calls where the handler's is Python's."""
_TURNS = "You are shown the results and may call again; an answer without calls ends your turn."
_DOCS = "Functions:"
_TYPES = {
    "string": "str",
    "String": "str",
    "integer": "int",
    "boolean": "bool",
    "number": "float",
    "object": "dict",
    "array": "list",
}
_SYNTAX_NOTE = " Note that the provided function is in Python 3 syntax."
_CLASS_PREAMBLE = "Tool description: "  # behind what BFCL repeats for each function of a class


def compact_system_prompt(docs: Sequence[FunctionDoc], form: str, *, many_turns: bool) -> str:
    """Return the compact system prompt: task, form of calls, and docs as signatures."""
    parts = [_TASK, form, *([_TURNS] if many_turns else []), f"{_DOCS}\n{compact_docs(docs)}"]
    return "\n".join(parts)


def compact_docs(docs: Sequence[FunctionDoc]) -> str:
    """Return compact docs of functions: signatures with descriptions."""
    return "\n".join(_function(doc) for doc in docs)


def _function(doc: FunctionDoc) -> str:
    properties = doc.parameters.get("properties") or {}
    results = doc.response.get("properties") if doc.response else None
    returned = f" -> {', '.join(results)}" if results else ""
    description = doc.description.removesuffix(_SYNTAX_NOTE).rpartition(_CLASS_PREAMBLE)[2]
    lines = _parameters(properties, doc.parameters.get("required"), " ")
    opening = f"{doc.name}({'' if lines else ')' + returned}{_comment(description)}"
    return "\n".join([opening, *lines, *([f"){returned}"] if lines else [])])


def _parameters(properties: Mapping[str, Any], required: Any, indent: str) -> list[str]:
    """Return a line for each parameter; those of nested dictionaries are indented.

    Where no doc says what is required, all are.
    """
    lines = []
    for name, schema in properties.items():
        text = f"{indent}{name}: {_type(schema)}"
        if "default" in schema:
            text += f" = {schema['default']!r}"
        elif required is not None and name not in required:
            text += " = ..."
        lines.append(text + _comment(str(schema.get("description") or "")))
        inner = schema.get("items") if isinstance(schema.get("items"), Mapping) else schema
        if isinstance(nested := inner.get("properties"), Mapping):
            lines += _parameters(nested, inner.get("required"), indent + " ")
    return lines


def _type(schema: Any) -> str:
    if not isinstance(schema, Mapping):
        return "any"
    if choices := schema.get("enum"):
        return " | ".join(repr(choice) for choice in choices)
    kind = str(schema.get("type", "any"))
    kind = _TYPES.get(kind, kind)
    items = schema.get("items")
    return f"{kind}[{_type(items)}]" if isinstance(items, Mapping) and items else kind


def _comment(text: str) -> str:
    return f" # {squeezed}" if (squeezed := " ".join(text.split())) else ""
