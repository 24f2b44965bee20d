"""Types as Python, or prose, writes them: "List[int]", "str, optional", as JSON Schema."""

from __future__ import annotations

import ast
import re
from typing import Any

MAX_TEXT = 300  # characters of a type
JSON_TYPES = frozenset({"object", "number", "integer", "string", "boolean", "array"})
NAMES = {name: name for name in JSON_TYPES} | {
    **dict.fromkeys(("dict", "mapping", "map", "struct", "json"), "object"),
    **dict.fromkeys(("float", "double", "decimal", "num"), "number"),
    **dict.fromkeys(("int", "long", "int32", "int64"), "integer"),
    **dict.fromkeys(("str", "text", "char"), "string"),
    "bool": "boolean",
    **dict.fromkeys(("list", "tuple", "set", "frozenset", "sequence", "iterable"), "array"),
}
_FORMATS = {"date": "date", "datetime": "date-time", "time": "time", "uuid": "uuid", "url": "uri"}
_OPTIONAL = re.compile(r"[,;(\s]\s*optional\b(?!\s*\[).*$|^\s*optional\s+(?=\w)", re.IGNORECASE)
_LIST_OF = re.compile(r"(?:list|array) of (\w+?)s?", re.IGNORECASE)
_GENERIC = re.compile(r"(?:typing\.)?(\w+)\s*\[(.*)\]", re.DOTALL)
_FIRST_WORD = re.compile(r"(\w+)\s*(?:[(,;:]|\s-|$)")


def schema_of_type(text: str) -> dict[str, Any] | None:
    """Return the schema that a type means, {} for any value, None for an unknown type."""
    return _schema(_OPTIONAL.sub("", text.strip())) if len(text) <= MAX_TEXT else None


def is_optional_type(text: Any) -> bool:
    """Whether a type marks its parameter as optional: "str, optional", "Optional[str]"."""
    if not isinstance(text, str) or len(text) > MAX_TEXT:
        return False
    choices = [each.strip().lower() for each in _parts(text, "|")]
    named = bool(re.match(r"\s*(?:typing\.)?Optional\s*\[", text))
    return named or bool(_OPTIONAL.search(text)) or "none" in choices


def _schema(text: str) -> dict[str, Any] | None:
    text = text.strip()
    if text in JSON_TYPES:
        return {"type": text}
    if len(choices := _parts(text, "|")) > 1:
        return _union(choices)
    if text.endswith("[]"):
        return {"type": "array", "items": _schema(text[:-2]) or {}}
    if of := _LIST_OF.fullmatch(text):
        return {"type": "array", "items": _schema(of[1]) or {}}
    if generic := _GENERIC.fullmatch(text):
        return _generic(generic[1].lower(), generic[2])
    name = text.lower().removeprefix("typing.").removeprefix("datetime.")
    if name in NAMES:
        return {"type": NAMES[name]}
    if name in _FORMATS:
        return {"type": "string", "format": _FORMATS[name]}
    if name in ("any", "none", "null"):
        return {}
    first = _FIRST_WORD.match(text)
    return _schema(first[1]) if first and first[1] != text else None


def _generic(name: str, inner: str) -> dict[str, Any] | None:
    """Return the schema of NAME[INNER]."""
    if name in ("optional", "annotated", "final"):
        return _schema(_parts(inner, ",")[0])
    if name == "union":
        return _union(_parts(inner, ","))
    if name == "literal":
        try:
            return {"enum": list(ast.literal_eval(f"[{inner}]"))}
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return None
    kind = NAMES.get(name)
    if kind == "array":
        return {"type": kind, "items": _schema(_parts(inner, ",")[0]) or {}}
    return {"type": kind} if kind else None


def _union(texts: list[str]) -> dict[str, Any] | None:
    choices = [_schema(each) for each in texts if each.strip().lower() not in ("none", "null")]
    known = [each for each in choices if each is not None]
    return known[0] if len(known) == 1 else {"anyOf": known} if known else None


def _parts(text: str, mark: str) -> list[str]:
    """Return the parts of a text between marks that stand in no bracket; "or" is a mark too."""
    text = text.replace(" or ", "|")
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[(") - (letter in "])")
        if letter == mark and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
