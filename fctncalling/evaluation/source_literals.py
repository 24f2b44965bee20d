"""Accepted values as Java and JavaScript source text: what a model would have to write for them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

STYLES = ("natural", "bare", "text_block", "bare_text_block")
"""How a value may be written: as anyone would, texts without quotes, or (Java) either of them as a
text block.
"""

_SUFFIX = {"java": {"long": "L", "float": "f"}, "javascript": {"Bigint": "n"}}


def source_of(value: Any, declared: Mapping[str, Any], language: str, style: str) -> str:
    """Return a documented parameter's value as source text of Java or JavaScript."""
    write = _java if language == "java" else _javascript
    items = declared.get("items")
    item = str(items.get("type", "")) if isinstance(items, Mapping) else ""
    text = write(value, str(declared.get("type", "any")), item, style)
    return f'"""{text}"""' if style.endswith("text_block") and not isinstance(value, str) else text


def _java(value: Any, kind: str, item: str, style: str) -> str:
    if isinstance(value, str):
        return (
            value if style.startswith("bare") else f"'{value}'" if kind == "char" else f'"{value}"'
        )
    if isinstance(value, Sequence):
        items = ", ".join(_java(each, item or _type_of(each), "", style) for each in value)
        name = item.capitalize() if item else "Object"
        return (
            f"new {name}[]{{{items}}}"
            if kind == "Array"
            else f"new ArrayList<{name}>(Arrays.asList({items}))"
        )
    if isinstance(value, Mapping):
        puts = "".join(
            f'put("{key}", {_java(each, _type_of(each), "", style)}); '
            for key, each in value.items()
        )
        return f"new HashMap<String, Object>() {{{{ {puts}}}}}"
    return _scalar(value, _SUFFIX["java"].get(kind, ""))


def _javascript(value: Any, kind: str, item: str, style: str) -> str:
    if isinstance(value, str):
        return value if style.startswith("bare") else json.dumps(value, ensure_ascii=False)
    if isinstance(value, Sequence):
        return f"[{', '.join(_javascript(each, item, '', style) for each in value)}]"
    if isinstance(value, Mapping):
        items = ", ".join(
            f"{key}: {_javascript(each, '', '', style)}" for key, each in value.items()
        )
        return f"{{{items}}}"
    return _scalar(value, _SUFFIX["javascript"].get(kind, ""))


def _scalar(value: Any, suffix: str) -> str:
    return json.dumps(value) + (suffix if not isinstance(value, bool) else "")


def _type_of(value: Any) -> str:
    return (
        "HashMap" if isinstance(value, Mapping) else "ArrayList" if isinstance(value, list) else ""
    )
