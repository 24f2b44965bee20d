"""An answer written as its decoder wants it: the same calls, the same values, another form."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from fctncalling.data.format_sensitivity import PromptVariant
from fctncalling.data.types import Call, Task
from fctncalling.envs.handlers import HANDLERS, DecodeError, Handler, bears_call
from fctncalling.envs.handlers.handler import IN_JSON, closing_bracket_end
from fctncalling.envs.handlers.lenient import LenientCalls
from fctncalling.envs.handlers.registry import handler_for
from fctncalling.envs.python_source.call_source import parse_expression
from fctncalling.evaluation.accepted_answers import render_calls

MAX_SCANNED_CHARS = 30_000
_CALL = re.compile(r"(?<![\w.])(?P<name>[A-Za-z_][\w.]*)\(")
_OPENING = re.compile(r"[\[{]")
_NAME_KEYS = ("name", "function", "function_name", "tool_name", "tool", "action", "recipient_name")
_ARGUMENT_KEYS = ("arguments", "parameters", "args", "kwargs", "input", "params", "action_input")
_TAGS = ("functions", "TOOLCALL", "tool_call", "function_calls")
_SPELLING = {"tool_call": (".", "_"), "tool_call_dots": ("", "")}
_NESTS = ("tool_calls", "function", "functions", "calls", "function_call", "tool_uses")


def call_spans(text: str, names: Collection[str] | None = None) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of calls written `f(...)` that stand in no other one.

    Of these names only, where given.
    """
    position = 0
    text = text[:MAX_SCANNED_CHARS]
    while found := _CALL.search(text, position):
        position = found.end()
        if text[: found.start()].endswith("def "):
            continue
        if names is not None and found["name"] not in names:
            continue
        end = closing_bracket_end(text, position - 1)
        yield found.start(), end
        position = end


def is_cut(text: str) -> bool:
    """Whether a text ends inside a call, an object or a thought that it opened."""
    if text.count("<think>") > text.count("</think>"):
        return True
    for start, end in call_spans(text):
        if end >= len(text[:MAX_SCANNED_CHARS]) and not text.rstrip("`\n ]").endswith(")"):
            return text[start:].count("(") > text[start:].count(")")
    if any(f"<{tag}>" in text and f"</{tag}>" not in text for tag in _TAGS):
        return True
    opening = re.search(r"\{\s*\"", text)
    return (
        opening is not None
        and closing_bracket_end(text, opening.start(), IN_JSON) == len(text)
        and not text.rstrip("`\n ]").endswith("}")
    )


def json_calls(text: str, names: Collection[str]) -> list[Call]:
    """Return the calls that the JSON values (or Python dicts) of a text hold, in order.

    Read are {"name", "arguments"} under their usual other names, nested as APIs nest them, and
    {function: {arguments}} where the function is one of `names`.
    """
    return [call for value in _values(text[:MAX_SCANNED_CHARS]) for call in _calls(value, names)]


def _values(text: str) -> Iterator[Any]:
    """Yield every JSON object and list of a text, outermost ones only."""
    decoder, position = json.JSONDecoder(), 0
    while found := _OPENING.search(text, position):
        position = found.end()
        try:
            value, end = decoder.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            end = closing_bracket_end(text, found.start())
            try:
                value = ast.literal_eval(parse_expression(text[found.start() : end]))
            except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
                continue
        yield value
        position = end


def _calls(value: Any, names: Collection[str], depth: int = 0) -> Iterator[Call]:
    if depth > 6:
        return
    if isinstance(value, list):
        for each in value:
            yield from _calls(each, names, depth + 1)
    if not isinstance(value, dict):
        return
    name = next((value[key] for key in _NAME_KEYS if isinstance(value.get(key), str)), None)
    if name is not None:
        given: Any = next((value[key] for key in _ARGUMENT_KEYS if key in value), {})
        arguments = _object(given)
        if arguments is not None:
            yield Call(name.removeprefix("functions."), arguments)
        return
    for key, inner in value.items():
        if key in names and isinstance(inner, dict | str) and _object(inner) is not None:
            yield Call(key, _object(inner) or {})
        elif key in _NESTS:
            yield from _calls(inner, names, depth + 1)


def _object(given: Any) -> dict[str, Any] | None:
    if isinstance(given, str):
        try:
            given = json.loads(given or "{}")
        except (ValueError, RecursionError):
            return None
    return given if isinstance(given, dict) else None


_FENCE = re.compile(r"```[\w+-]*[ \t]*\n?(.*?)(?:```|\Z)", re.DOTALL)
_STRING = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""")
_UNQUOTED = re.compile(r"""\0\w|['"]|=[^\0,()\[\]{}=]*(?:\w\s+\w|\b0\d|\d[A-Za-z_])""")
"""A fault of quotation in a text with \\0 for its strings: `'M'artinez'`, `=New York`, `=3pak7`."""
_COLON = re.compile(rf"({_STRING.pattern})|(?<=[(,])(\s*\w+)\s*:\s*")
_Slip = tuple[str, re.Pattern[str], str | Callable[[re.Match[str]], str]]
_SLIPS: tuple[_Slip, ...] = (
    ("colon in place of =", _COLON, lambda match: match[1] or f"{match[2]}="),
    ("brackets", re.compile(r"(?<!\))(\]\s*)$"), r")\1"),
    ("arguments in a dict", re.compile(r"\(\{(\s*\w+=.*)\}\)", re.DOTALL), r"(\1)"),
)
"""(cause, pattern, replacement) of slips in a call's punctuation that spoil the whole answer."""
_BETWEEN_CALLS = re.compile(r"(?:[\s;,|&\[\](){}*`'\"•-]|\band\b|\bthen\b|\d+[.)])*")
_BRACKETS = re.compile(r"[\s,\[\](){}`'\"]*")
_BRACKETED = re.compile(r"(?:<[^<>]*>\s*)*[\[{(].*[\]})]", re.DOTALL)
_ARGUMENT = re.compile(r"\w['\"]?\s*[=:]")
_PROGRAM = re.compile(
    r"(?m)^[\s\[(]*(?:[\w, ]+ = |print\($|await |return |import |from \w+ import|def )"
)


class FormRepair(NamedTuple):
    """Repaired text; `text` is None if no call could be read."""

    causes: tuple[str, ...]
    text: str | None
    complaint: str = ""  # of the decoder, about the text as it was


def repair_form(task: Task, form: str, text: Any) -> FormRepair:
    """Repair a text until the task's decoder reads it; return it with the repairs.

    No cause: the decoder found calls in it already. Names and values are never changed.
    """
    handler = handler_for(task, form)
    outcome = decode_or_error(handler, text)
    complaint = outcome.message if isinstance(outcome, DecodeError) else ""
    if not isinstance(text, str):
        return FormRepair(("unreadable call",), None, complaint)
    if outcome and not isinstance(outcome, DecodeError):
        inner = _calls_within(task, form, text, outcome)
        return FormRepair(("code instead of calls",), inner) if inner else FormRepair((), text)
    if (
        isinstance(outcome, DecodeError)
        and outcome.kind == "value"
        and not form.startswith("tool_call")
    ):
        return FormRepair(("unreadable call",), None, complaint)
    current, causes = text, list[str]()
    for cause, changed in _unwrapped(text):
        current = changed
        causes.append(cause)
        if _decoded(handler, current):
            return FormRepair(tuple(causes), current, complaint)
    for cause, changed in _rewritten(task, form, handler, current):
        if _decoded(handler, changed):
            return FormRepair((*causes, cause), changed, complaint)
    return FormRepair((_cause_of_nothing(task, current),), None, complaint)


def name_positional_arguments(task: Task, text: str) -> tuple[str, str] | None:
    """Return (cause, text): Python calls with documented names for their positional arguments.

    A dict of parameters as the only argument is unpacked. None where no argument is positional, or
    more are than parameters.
    """
    try:
        body = parse_expression(text.strip("`\n "))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    nodes = body.elts if isinstance(body, ast.List | ast.Tuple) else [body]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    if len(calls) != len(nodes) or not any(call.args for call in calls):
        return None
    docs = {doc.name: list(doc.parameters.get("properties", {})) for doc in task.functions}
    cause = "arguments in a dict"
    for call in filter(lambda call: call.args, calls):
        free = docs.get(ast.unparse(call.func), [])
        named = _unpacked(call, free)
        if named is None:
            if len(call.args) > len(free):
                return None
            cause = "positional arguments"
            named = [ast.keyword(key, value) for key, value in zip(free, call.args, strict=False)]
        call.keywords = [*named, *call.keywords]
        call.args = []
    return cause, f"[{', '.join(map(ast.unparse, calls))}]"


def _unpacked(call: ast.Call, parameters: Sequence[str]) -> list[ast.keyword] | None:
    """Return the arguments that stand in a call's only one, a dict; None where they do not."""
    [given, *others] = call.args
    if others or call.keywords or not isinstance(given, ast.Dict) or not given.keys:
        return None
    keys = [key.value if isinstance(key, ast.Constant) else None for key in given.keys]
    if not set(keys) <= set(parameters) or len(set(keys)) < len(keys):
        return None
    return [ast.keyword(str(key), value) for key, value in zip(keys, given.values, strict=True)]


def decode_or_error(handler: Handler, text: Any) -> list[Call] | DecodeError:
    """Return the calls of a text, or the decoder's error message."""
    try:
        if not isinstance(text, str):
            raise DecodeError("shape", f"expected text, got {type(text).__name__}")
        return handler.decode(text)
    except DecodeError as error:
        return error
    except ImportError:
        raise
    except Exception as error:  # whatever reading the text raises is a failed decode
        return DecodeError("value", f"{type(error).__name__}: {error}")


def documented_function_names(task: Task) -> frozenset[str]:
    """Return the names of a task's functions, as they are and with underscores for dots."""
    names = {doc.name for doc in task.functions}
    return frozenset(names | {name.replace(".", "_") for name in names})


def _calls_within(task: Task, form: str, text: str, calls: Sequence[Call]) -> str | None:
    """Return the documented calls inside others that are not, as in print(f(a=1)); else None."""
    names = documented_function_names(task)
    if form.startswith("tool_call") or any(call.name in names for call in calls):
        return None
    spans = list(call_spans(text, names))
    return _listed(text, spans) if spans else None


def _decoded(handler: Handler, text: str) -> list[Call]:
    """Return the calls of a text; [] if it cannot be decoded."""
    outcome = decode_or_error(handler, text)
    return [] if isinstance(outcome, DecodeError) else outcome


def _unwrapped(text: str) -> Iterator[tuple[str, str]]:
    """Yield a text without its reasoning, then without its code fence too."""
    if "</think>" in text:
        text = text.rpartition("</think>")[2].strip()
        yield "reasoning in the answer", text
    found = _FENCE.search(text)
    if found and found[1].strip():
        outside = text[: found.start()] + text[found.end() :]
        joined = "\n".join(part.strip() for part in _FENCE.findall(text))
        if outside.strip():
            yield "text around the calls", joined
        else:
            yield "fenced code", joined


def _rewritten(task: Task, form: str, handler: Handler, text: str) -> Iterator[tuple[str, str]]:
    """Yield (cause, text) of other ways to read the calls of a text, the nearest first."""
    names = documented_function_names(task)
    if isinstance(task.extra.get("prompt_variant"), PromptVariant):
        calls = _decoded(LenientCalls(handler, repair_json=False), text)
        if calls != _decoded(handler, text):
            yield "tags missing", _written(task, form, handler, calls) or ""
    if not form.startswith("tool_call"):
        for cause, pattern, replacement in _SLIPS:
            yield cause, pattern.sub(replacement, text)
        yield from _joined(text, names, task.language)
    calls = _decoded(HANDLERS["auto"], text) or json_calls(text, names)
    if form.startswith("tool_call") and not calls:
        spans = [text[start:end] for start, end in call_spans(text, names)]
        calls = _decoded(HANDLERS["python_calls"], f"[{', '.join(spans)}]")
    if calls and task.language != "python" and not form.startswith("tool_call"):
        yield "wrong form", f"[{', '.join(map(_as_source, calls))}]"
    if calls and (written := _written(task, form, handler, calls)):
        yield "wrong form", written


def _as_source(call: Call) -> str:
    """Return a call whose texts are source text already, as those of Java and JavaScript are."""
    given = (
        f"{key}={value if isinstance(value, str) else json.dumps(value)}"
        for key, value in call.arguments.items()
    )
    return f"{call.name}({', '.join(given)})"


def _joined(text: str, names: frozenset[str], language: str) -> Iterator[tuple[str, str]]:
    """Yield the Python calls of a text as one list, message by what stands between them."""
    spans = list(call_spans(text))
    outside = _outside(text, spans)
    if spans and _BETWEEN_CALLS.fullmatch(outside):
        listed = _BRACKETS.fullmatch(outside) and (len(spans) == 1 or "\n" not in text.strip())
        commas = len(spans) == 1 or "," in outside
        cause = "quoted calls" if re.search("['\"]", outside) else "brackets"
        yield cause if listed and commas else "separator", _listed(text, spans)
    for chosen in (list(call_spans(text, names)), spans):
        if chosen:
            outside = _outside(text, chosen)
            cause = "text around the calls"
            cause = "code instead of calls" if _PROGRAM.search(outside) else cause
            yield cause, _listed(text, chosen)
    if len(spans) > 1 and language != "python":  # those answers hold one call
        yield "too many calls", _listed(text, spans[:1])


def _outside(text: str, spans: Sequence[tuple[int, int]]) -> str:
    ends = [0, *(end for _, end in spans)]
    starts = [*(start for start, _ in spans), len(text)]
    return "\n".join(text[end:start] for end, start in zip(ends, starts, strict=True))


def _listed(text: str, spans: Sequence[tuple[int, int]]) -> str:
    return f"[{', '.join(text[start:end] for start, end in spans)}]"


def _written(task: Task, form: str, handler: Handler, calls: Sequence[Call]) -> str | None:
    try:
        if form.startswith("tool_call"):
            spelled = (each.name.replace(*_SPELLING[form]) for each in calls)
            given = (json.dumps(dict(each.arguments)) for each in calls)
            return json.dumps([{name: text} for name, text in zip(spelled, given, strict=True)])
        if task.language == "python":
            return handler.render(calls)
        return render_calls(task, calls)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _cause_of_nothing(task: Task, text: str) -> str:
    """Return why no call can be read from a text."""
    names = documented_function_names(task)
    if is_cut(text):
        return "truncated"
    if any(f"def {name}(" in text for name in names):
        return "code instead of calls"
    marked = any(f'"{name}"' in text or f"<{name}" in text for name in names)
    if marked or any(call_spans(text, names)):
        bare = _STRING.sub("\0", text)
        return "quotation marks" if _UNQUOTED.search(bare) else "unreadable call"
    if bears_call(text):
        return "unread call"
    is_bracketed = _BRACKETED.fullmatch(text.strip()) is not None
    return "broken call" if is_bracketed and _names_something(text, names) else "never called"


def _names_something(text: str, names: Collection[str]) -> bool:
    return _ARGUMENT.search(text) is not None or any(name in text for name in names)
