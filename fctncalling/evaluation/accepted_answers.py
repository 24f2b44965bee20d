"""Answers a single-turn ground truth allows, in the forms and styles a model could write them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from fctncalling.data.types import Call, Task
from fctncalling.envs.handlers import get_handler
from fctncalling.envs.judging.judge import judge
from fctncalling.envs.judging.oracle import oracle_calls, unwrap_accepted_value

STYLES = ("natural", "bare", "text_block", "bare_text_block")
"""How a value may be written: as anyone would, texts without quotes, or (Java) either of them as a
text block.
"""

_SUFFIX = {"java": {"long": "L", "float": "f"}, "javascript": {"Bigint": "n"}}


def render_source_value(value: Any, declared: Mapping[str, Any], language: str, style: str) -> str:
    """Render a parameter's value as source text, Java or JavaScript."""
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
        if kind == "Array":
            return f"new {name}[]{{{items}}}"
        return f"new ArrayList<{name}>(Arrays.asList({items}))"
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


_MAX_ALTERNATIVES = 4


def accepted_answer_texts(task: Task) -> Iterator[tuple[str, str, str]]:
    """Yield the accepted answer's texts: (form, style, text), natural ones first."""
    language = task.language
    for calls in accepted_calls(task):
        if language == "python":
            with suppress(ValueError):
                yield "prompting", "natural", get_handler("python_calls").render(calls)
            if text := _tool_calls(calls):
                yield "tool_call", "natural", text
            continue
        for style in STYLES if language == "java" else STYLES[:2]:
            yield "prompting", style, render_calls(task, calls, style)
            unquoted = [_as_source(task, call, language, style, quoted=False) for call in calls]
            if not style.endswith("text_block") and (text := _tool_calls(unquoted)):
                yield "tool_call", style, text


def accepted_answer(task: Task, form: str) -> str | None:
    """Return an answer to a task that is accepted, in a form.

    Where none does, the most natural one; None if no call can be written.
    """
    written = form.removesuffix("_dots")
    texts = [text for each, _, text in accepted_answer_texts(task) if each == written]
    if written != form:
        names = {doc.name.replace(".", "_"): doc.name for doc in task.functions}
        texts = [
            json.dumps([{names.get(k, k): v for k, v in call.items()} for call in json.loads(text)])
            for text in texts
        ]
    return next(
        (text for text in texts if judge(task, text, form).valid), texts[0] if texts else None
    )


def render_calls(task: Task, calls: Sequence[Call], style: str = STYLES[0]) -> str:
    """Render calls as a prompted model writes them, values as its language's literals.

    Raises ValueError for values that have none.
    """
    language = task.language
    if language == "python":
        return get_handler("python_calls").render(calls)
    sources = [_as_source(task, call, language, style) for call in calls]
    texts = (
        f"{call.name}({', '.join(f'{k}={v}' for k, v in call.arguments.items())})"
        for call in sources
    )
    return f"[{', '.join(texts)}]"


def accepted_calls(task: Task) -> Iterator[list[Call]]:
    """Yield accepted calls of a task: first accepted values, then later ones."""
    try:
        [first] = oracle_calls(task)
    except (ValueError, TypeError, KeyError, AttributeError, StopIteration):
        return
    yield first
    expected = [
        (name, accepted) for each in task.ground_truth or () for name, accepted in each.items()
    ]
    yield [Call(name, _arguments_at(accepted, 0, omit=True)) for name, accepted in expected]
    for index in range(_MAX_ALTERNATIVES):
        yield [
            Call(name, _arguments_at(accepted, index, omit=False)) for name, accepted in expected
        ]


def _arguments_at(accepted: Mapping[str, Any], index: int, *, omit: bool) -> dict[str, Any]:
    arguments = {}
    for key, values in accepted.items():
        listed = values if isinstance(values, list) else [values]
        if listed and not (omit and "" in listed):
            arguments[key] = unwrap_accepted_value(listed[min(index, len(listed) - 1)], omit=True)
    return arguments


def _tool_calls(calls: list[Call]) -> str | None:
    try:
        return json.dumps(
            [{call.name.replace(".", "_"): json.dumps(dict(call.arguments))} for call in calls]
        )
    except (TypeError, ValueError):
        return None


def _as_source(task: Task, call: Call, language: str, style: str, *, quoted: bool = True) -> Call:
    """Return a call whose arguments are source text.

    Texts unquoted where JSON strings hold them already.
    """
    docs = {doc.name: doc.parameters.get("properties", {}) for doc in task.functions}
    properties = docs.get(call.name, {})
    arguments = {
        key: value
        if isinstance(value, str) and not quoted
        else render_source_value(value, properties.get(key, {}), language, style)
        for key, value in call.arguments.items()
    }
    return Call(call.name, arguments)
