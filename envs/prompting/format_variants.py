"""System prompts of BFCL's 26 prompt configurations, reworded.

Parts: who the model is, its task, the form of calls, turns, the functions. Plain text joins the
first two; Markdown puts a heading over each but the first. BFCL says how turns go on even where
there is one turn only, and so do we.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from fctncalling.data.format_sensitivity import PromptVariant
from fctncalling.data.types import FunctionDoc

_PYTHON_TYPES = {"string": "str", "number": "float", "integer": "int", "boolean": "bool"}
_PYTHON_LISTS = ("array", "list", "tuple")


@cache
def load_prompt_wording() -> Mapping[str, Any]:
    """Load the wording of prompt variants from its JSON file.

    Part -> style -> text, the skeletons of return formats and of tool-call formats.
    """
    words: dict[str, Any] = json.loads(
        Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
    )
    return words


def format_instructions(handler_name: str) -> str | None:
    """Return a handler's instructions on how to write calls; None if it has none."""
    if handler_name.startswith("bfcl_"):
        name = handler_name.removeprefix("bfcl_").removesuffix("_tagged")
        return variant_format_instructions(
            PromptVariant(name, tagged=handler_name.endswith("_tagged"))
        )
    form: str | None = load_prompt_wording()["tool_call_forms"].get(handler_name)
    return form


def variant_format_instructions(variant: PromptVariant) -> str:
    """Return a prompt variant's instructions on how to write calls."""
    words = load_prompt_wording()
    skeleton = words["return_formats"][variant.return_format]
    if variant.tagged:
        skeleton = f"<TOOLCALL>{skeleton}</TOOLCALL>"
    types = [words["types"]] if variant.return_format.endswith("xml") else []
    return "\n".join(
        [words["output"][variant.style], skeleton, *types, words["only"][variant.style]]
    )


def variant_system_prompt(variant: PromptVariant, docs: Sequence[FunctionDoc]) -> str:
    """Return the system prompt of a prompt variant for the functions offered."""
    words, style = load_prompt_wording(), variant.style
    functions_text = words["functions"][style].replace("{format}", variant.doc_format)
    parts = {
        "task": words["task"][style],
        "output": variant_format_instructions(variant),
        "turns": words["turns"][style],
        "functions": f"{functions_text}\n{format_docs(docs, variant.doc_format)}",
    }
    if variant.markup == "markdown":
        return "\n\n".join(
            [words["persona"][style], *(f"{words['headings'][key]}\n{parts[key]}" for key in parts)]
        )
    return "\n\n".join([f"{words['persona'][style]} {parts.pop('task')}", *parts.values()])


def format_docs(docs: Sequence[FunctionDoc], doc_format: str) -> str:
    """Format docs of functions as "json" (indented by 4), "xml" or "python"."""
    if doc_format == "json":
        return json.dumps([function_doc_json(doc) for doc in docs], indent=4)
    return "\n".join(_xml(doc) if doc_format == "xml" else _python(doc) for doc in docs)


def function_doc_json(doc: FunctionDoc) -> dict[str, Any]:
    """Return a function doc as JSON, as BFCL's files hold it."""
    result = {"name": doc.name, "description": doc.description, "parameters": doc.parameters}
    return result if doc.response is None else {**result, "response": doc.response}


def _xml(doc: FunctionDoc) -> str:
    properties, required = doc.parameters.get("properties", {}), doc.parameters.get("required")
    params = [
        line
        for name, schema in properties.items()
        for line in _xml_param(name, schema, required, 2)
    ]
    opening = [
        f"<function name={quoteattr(doc.name)}>",
        f"  <desc>{escape(doc.description)}</desc>",
        "  <params>",
    ]
    return "\n".join([*opening, *params, "  </params>", "</function>", ""])


def _xml_param(name: str, schema: Mapping[str, Any], required: Any, depth: int) -> Iterator[str]:
    """Yield the XML lines of one parameter; without a list of required ones, all are required."""
    indent, kind = "  " * depth, schema.get("type", "string")
    items = schema.get("items") or schema.get("additionalProperties")
    kind = f"{kind}[{items['type']}]" if isinstance(items, dict) and "type" in items else kind
    attributes = {
        "name": name,
        "type": kind,
        "required": str(required is None or name in required).lower(),
    }
    if "default" in schema:
        attributes["default"] = repr(schema["default"])
    yield (
        f"{indent}<param "
        f"{' '.join(f'{key}={quoteattr(str(value))}' for key, value in attributes.items())}>"
    )
    yield f"{indent}  <desc>{escape(_description(schema))}</desc>"
    if inner := schema.get("properties"):
        yield f"{indent}  <params>"
        for key, field in inner.items():
            yield from _xml_param(key, field, schema.get("required"), depth + 2)
        yield f"{indent}  </params>"
    yield f"{indent}</param>"


def _python(doc: FunctionDoc) -> str:
    lines = [f"# Function: {doc.name}", '    """', f"    {_quoted(doc.description)}", ""]
    if properties := doc.parameters.get("properties", {}):
        lines += ["    Args:"]
        lines += [
            line for name, schema in properties.items() for line in _python_param(name, schema, 2)
        ]
    return "\n".join([*lines, '    """', ""])


def _python_param(name: str, schema: Mapping[str, Any], depth: int) -> Iterator[str]:
    default = f", default={schema['default']!r}" if "default" in schema else ""
    yield (
        f"{'    ' * depth}{name} ({_python_type(schema)}{default}): {_quoted(_description(schema))}"
    )
    for key, parameter in (schema.get("properties") or {}).items():
        yield from _python_param(key, parameter, depth + 1)


def _python_type(schema: Mapping[str, Any]) -> str:
    kind = str(schema.get("type", "string"))
    if kind in _PYTHON_LISTS and isinstance(schema.get("items"), dict):
        return f"list[{_python_type(schema['items'])}]"
    if kind in ("object", "dict"):
        values = schema.get("additionalProperties")
        return f"dict[str, {_python_type(values)}]" if isinstance(values, dict) else "dict"
    return _PYTHON_TYPES.get(kind, kind)


def _description(schema: Mapping[str, Any]) -> str:
    description = str(schema.get("description", ""))
    return f"{description} Enum values: {schema['enum']}." if "enum" in schema else description


def _quoted(text: str) -> str:
    return text.replace('"""', "'''")  # a description cannot close the docstring that it stands in
