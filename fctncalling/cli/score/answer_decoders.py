"""Decoders of the leaderboard's model handlers: an answer, put into a form that `judge` takes.

Most handlers of bfcl-eval read lists of calls as interfaces return them ("tool_call") or Python
text ("prompting"). Those that read in a way of their own stand here, bug for bug, under the name of
their class there. What a handler fails to read, or reads as something else than calls, becomes an
answer without calls: the verdict is the same. Text is never evaluated.
"""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from fctncalling.data.types import FunctionDoc
from fctncalling.envs.handlers import DecodeError, Handler, get_handler
from fctncalling.envs.handlers.handler import require_readable_text
from fctncalling.envs.handlers.python_calls import calls_of_expression
from fctncalling.envs.judging.judge import ANSWER_FORMS
from fctncalling.envs.python_source.call_source import parse_expression, require_small_source

_FAILURES = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    RecursionError,
    SyntaxError,
    MemoryError,
)


class AnswerDecoder(NamedTuple):
    """Decoder of a model's answers: how a step of one becomes text in one of BFCL's two forms.

    `read` gets the answer and whether its calls are to be executed; it returns text of the form
    "prompting", or pairs of name and arguments for "tool_call", and may fail.
    """

    name: str
    form: str
    read: Callable[[Any, bool], Any] | None = None
    takes_text: bool = False  # lines hold the model's own text; else what an interface returned
    handler: Handler | None = None  # of the table of call forms, in place of `read`

    @property
    def is_default(self) -> bool:
        """Whether answers stay unchanged, for BFCL's default decoder of the form."""
        return self.read is None and self.handler is None

    def decode(
        self, answer: Any, functions: Sequence[FunctionDoc] = (), *, executes: bool = False
    ) -> Any:
        """Return an answer, or one step of it, in the form; without calls where it has none."""
        try:
            if self.takes_text:
                require_readable_text(answer)
            found = self.read(answer, executes) if self.read else self._calls(answer, functions)
            if self.form == "prompting":
                return found
            return json.dumps([{name: json.dumps(given)} for name, given in found])
        except _FAILURES:
            return _without_calls(answer) if self.form == "tool_call" else None

    def _calls(self, answer: Any, functions: Sequence[FunctionDoc]) -> list[tuple[Any, Any]]:
        text = answer if isinstance(answer, str) else json.dumps(answer)
        calls = self.handler.decode_action(text, functions).calls if self.handler else ()
        return [(each.name, dict(each.arguments)) for each in calls]


def _without_calls(answer: Any) -> str:
    """Return an answer as text in which the decoder of tool calls finds none."""
    is_plain = isinstance(answer, str) and answer.lstrip()[:1] not in ("[", "{", '"')
    return str(answer) if is_plain else json.dumps(str(answer))


def _object(given: Any, *, as_text: bool = False) -> dict[str, Any]:
    """Return a call's arguments; an interface may have left them as JSON text."""
    if as_text and isinstance(given, str):
        given = json.loads(given)
    if not isinstance(given, dict):
        raise DecodeError("shape", "expected an object of arguments")
    return given


def _named(
    calls: Any, name: str = "name", arguments: str = "arguments", *, as_text: bool = False
) -> list[tuple[Any, Any]]:
    """Return the calls of a list of objects with a name and arguments."""
    return [(each[name], _object(each[arguments], as_text=as_text)) for each in calls]


def _objects(answer: Any, executes: bool) -> list[tuple[Any, Any]]:
    """Return the calls of a list of {name: arguments}: one each, where they are not executed."""
    if not isinstance(answer, list):
        raise DecodeError("shape", "expected a list of calls")
    if not executes and any(len(each) != 1 for each in answer):
        raise DecodeError("shape", "expected one name in each call")
    pairs = (pair for each in answer for pair in each.items())
    return [(name, _object(given, as_text=executes)) for name, given in pairs]


def _openai_objects(answer: Any, executes: bool) -> list[tuple[Any, Any]]:
    """Return the calls of a message's `tool_calls`, as OpenAI's interface returns them."""
    calls = json.loads(answer) if isinstance(answer, str) else answer
    return _named([each["function"] for each in calls], as_text=True)


def is_openai_call(value: Any) -> bool:
    """Whether a value is a call as OpenAI's interface returns it."""
    function = value.get("function") if isinstance(value, dict) else None
    return isinstance(function, dict) and {"name", "arguments"} <= function.keys()


def _gemini_objects(answer: Any, executes: bool) -> list[tuple[Any, Any]]:
    if not executes:
        return _objects(answer if isinstance(answer, list) else [answer], False)
    return [(name, _object(given)) for each in answer for name, given in each.items()]


def _mining(answer: Any, executes: bool) -> list[tuple[Any, Any]]:
    if not executes:
        return _named(answer)
    found = [each for each in answer if isinstance(each, dict)]
    return [(each.get("name", ""), _object(each.get("arguments", {}))) for each in found]


def _json_list(text: str) -> list[Any]:
    value = json.loads(text)
    return value if isinstance(value, list) else [value]


def _salesforce(text: str, executes: bool) -> list[tuple[Any, Any]]:
    try:
        calls = _json_list(text)
    except json.JSONDecodeError:
        calls = [json.loads(each.strip()) for each in text.split(";")]
    return _named(calls)


def _hammer(text: str, executes: bool) -> list[tuple[Any, Any]]:
    calls = json.loads(text.replace("```", ""))
    if executes and isinstance(calls, dict):
        calls = calls.get("tool_calls", [])
        calls = calls if isinstance(calls, list) else [calls]
    return _mining(calls if isinstance(calls, list) else [], executes)


def _think_agent(text: str, executes: bool) -> list[tuple[Any, Any]]:
    if executes:  # a slip in its class: no call of it is ever executed
        return []
    return _named(json.loads(text.strip().replace("'", '"').split("</think>", 1)[1]))


def _llama_31(text: str, executes: bool) -> list[tuple[Any, Any]]:
    text = text.replace("<|python_tag|>", "")
    if ";" in text:
        return _named([json.loads(each) for each in text.split(";")], arguments="parameters")
    require_small_source(text)
    calls = ast.literal_eval(parse_expression(text.strip()))
    return _named([calls] if isinstance(calls, dict) else calls, arguments="parameters")


def _between(text: str, opening: str, closing: str) -> Iterator[str]:
    """Yield the texts between marks, in time linear in the text, unclosed marks included."""
    start = text.find(opening)
    while start >= 0:
        start += len(opening)
        end = text.find(closing, start)
        if end < 0:
            return
        yield text[start:end]
        start = text.find(opening, end + len(closing))


def _tagged(text: str, executes: bool) -> list[tuple[Any, Any]]:
    """Return the calls between tags on lines of their own; what is no JSON there is left out."""
    calls = []
    for each in _between(text, "<tool_call>\n", "\n</tool_call>"):
        try:
            calls.append(json.loads(each))
        except ValueError:
            continue
    return _named(calls, as_text=executes)


def _falcon(text: str, executes: bool) -> list[tuple[Any, Any]]:
    inner = text.split("<tool_call>")[1].split("</tool_call>")[0].strip()
    if inner.startswith("```") and inner.endswith("```"):
        inner = inner.strip("`").strip().removeprefix("json").strip()
    return _named(_json_list(inner))


def _granite_20b(text: str, executes: bool) -> list[tuple[Any, Any]]:
    calls = [json.loads(each) for each in text.split("<function_call>") if each.strip()]
    if not executes and any(each.get("name", "").strip() == "no_function" for each in calls):
        raise DecodeError("shape", "a call of no function")
    return [(each.get("name", "").strip(), _object(each.get("arguments", {}))) for each in calls]


def _glm_4(text: str, executes: bool) -> list[tuple[Any, Any]]:
    name, arguments = text.split("\n")[:2]
    return [(name, _object(json.loads(arguments)))]


def _minicpm(text: str, executes: bool) -> list[tuple[Any, Any]]:
    if "<|thought_start|>" in text and "<|thought_end|>" in text:
        text = text.rsplit("<|thought_end|>", 1)[1]
    source = text.rsplit("<|tool_call_end|>", 1)[0].split("<|tool_call_start|>", 1)[1].strip()
    if source.startswith("```"):
        source = source.lstrip("`").strip()
        source = source.lstrip("python").strip() if source.startswith("python") else source
    source = source.rstrip("`").strip() if source.endswith("```") else source
    require_small_source(source)
    values = [each.value for each in ast.parse(source).body]  # type: ignore[attr-defined]  # else it fails
    calls = [call for each in values for call in calls_of_expression(ast.unparse(each))]
    return [pair for each in calls for pair in each.items()]


def _gemini_text(text: str, executes: bool) -> str:
    return text.replace("```tool_code\n", "").replace("\n```", "")


def _phi(text: str, executes: bool) -> str:
    text = text if executes else text.strip()
    return text.removeprefix("```json").removeprefix("```python")


def _raven(text: str, executes: bool) -> str | None:
    if executes or "out_of_domain" in text:
        return None
    return f"[{text.removesuffix(';').replace(';', ',')}]"


# Handlers of the release of 2024-08 that the package has no more.


def _hermes_2024(text: str, executes: bool) -> list[tuple[Any, Any]]:
    inside, calls = False, []
    for line in text.split("\n"):
        if line in ("<tool_call>", "</tool_call>"):
            inside = line == "<tool_call>"
        elif inside:
            calls.append(json.loads(line.replace("'", '"')))
    return _named(calls)


def _unescaped(text: str, executes: bool) -> str | None:
    """Return a text without escaped underscores; a fence was not taken off then."""
    return None if text.strip()[:1] == "`" else text.replace("\\_", "_")


def _fenced_list(text: str, executes: bool) -> str:
    fenced = text.split("```")[1]
    start = fenced.index("[")
    return fenced[start : fenced.index("]", start) + 1]


def _quoted_calls(text: str, executes: bool) -> str:
    """Return a list of quoted calls as one of calls."""
    text = re.sub(r"\)',\s*'", "), ", text)
    return re.sub(r"""^\s*\[\s*["']|["']\s*\]\s*$""", lambda e: "[" if "[" in e[0] else "]", text)


OPENAI = AnswerDecoder("tool_calls of OpenAI", "tool_call", _openai_objects)
DEFAULTS = {form: AnswerDecoder(form, form) for form in ANSWER_FORMS}
"""Form -> BFCL's default decoder of it."""


_READERS: tuple[tuple[str, str, dict[str, Callable[[Any, bool], Any]]], ...] = (
    (
        "tool_call",
        "lists",
        {
            "NovaHandler ArchHandler Granite3FCHandler PhiFCHandler MistralFCHandler": _objects,
            "CohereHandler_2024": _objects,
            "CohereHandler": lambda answer, _: _named(
                answer if isinstance(answer, list) else [], "tool_name", "parameters"
            ),
            "GeminiHandler": _gemini_objects,
            "MiningHandler DMCitoHandler": _mining,
        },
    ),
    (
        "tool_call",
        "text",
        {
            "QwenFCHandler NanbeigeFCHandler Granite4FCHandler PelicanVLFCHandler": _tagged,
            "SalesforceLlamaHandler SalesforceQwenHandler": _salesforce,
            "BitAgentHandler": lambda text, _: _named(_json_list(text)),
            "HammerHandler": _hammer,
            "ThinkAgentHandler": _think_agent,
            "LlamaHandler_3_1": _llama_31,
            "Falcon3FCHandler": _falcon,
            "GraniteFunctionCallingHandler": _granite_20b,
            "GLMHandler": _glm_4,
            "MiniCPMFCHandler": _minicpm,
            "HermesHandler": _hermes_2024,
            "xLAMHandler": lambda text, _: _named(json.loads(text)["tool_calls"]),
        },
    ),
    (
        "prompting",
        "text",
        {
            "GeminiHandler": _gemini_text,
            "PhiHandler": _phi,
            # a slip in its class: no call is ever executed
            "GorillaHandler": lambda text, executes: None if executes else f"[{text}]",
            "NexusHandler": _raven,
            "NemotronHandler": lambda text, _: next(
                _between(text, "<TOOLCALL>", "</TOOLCALL>"), None
            ),
            "CohereHandler_2024": lambda text, _: text,
            "MistralHandler_2024": _unescaped,
            "ArcticHandler DatabricksHandler": _quoted_calls,
            "DeepseekCoderHandler": _fenced_list,
            "GemmaHandler_2024": lambda text, _: text[text.index("[") : text.rindex("]") + 1],
        },
    ),
)
_OWN: dict[str, dict[str, AnswerDecoder]] = defaultdict(dict)
"""Name of a handler's class -> what its lines hold -> its decoder."""
for _form, _holds, _reads in _READERS:
    for _names, _read in _reads.items():
        for _name in _names.split():
            _OWN[_name][_holds] = AnswerDecoder(_name, _form, _read, _holds == "text")
_LIKE_OURS = {"FunctionGemmaHandler": "function_gemma_calls"}
_OF_DEFAULTS = {"python_calls": "prompting", "tool_calls": "tool_call"}


def own_text_decoders() -> list[AnswerDecoder]:
    """Return the decoders of classes with special ways to read calls in a text."""
    return [
        each["text"]
        for each in _OWN.values()
        if "text" in each and each["text"].form == "tool_call"
    ]


def answer_decoder(name: str, holds: str) -> AnswerDecoder:
    """Return the decoder of a handler's class in bfcl-eval, or of a handler of ours.

    `holds`: "text" or "lists", as lines do; it tells apart what one class reads in two ways. A
    class without a way of its own reads by the default. Raises LookupError for an unknown name.
    """
    if name in _OF_DEFAULTS:
        return DEFAULTS[_OF_DEFAULTS[name]]
    own = _OWN.get(name, {})
    if own:
        return own.get(holds) or next(iter(own.values()))
    if name in _LIKE_OURS or "Handler" not in name:
        handler = get_handler(_LIKE_OURS.get(name, name))
        return AnswerDecoder(name, "tool_call", handler=handler)
    return DEFAULTS["tool_call" if holds == "lists" else "prompting"]._replace(name=name)
