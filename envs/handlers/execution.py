"""Tool session: executes call strings on an episode's tools, with BFCL's result texts.

A call string is one Python expression. It is parsed, never evaluated: only the offered tools'
public methods can be called (nested calls and positional arguments too), next to literals and
arithmetic. Names that BFCL's evaluation would find elsewhere (its own variables, the interpreter's
built-ins, modules) are not defined here.
"""

from __future__ import annotations

import ast
import copy
import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from fctncalling.data.timing import time_calls
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.python_source.call_source import (
    CHARS_PER_WEIGHT,
    MAX_WEIGHT,
    LimitExceeded,
    PlainCall,
    parse_expression_cached,
    parse_plain_call,
    render_call,
    require_shallow_arguments,
    value_size,
)
from fctncalling.envs.python_source.evaluator import Evaluator, resolve_allowed_builtin
from fctncalling.envs.tools import tool_class
from fctncalling.envs.tools.bfcl.long_context import JsonCachedList
from fctncalling.envs.tools.tool_state import snapshot

MAX_RESULT_WEIGHT = 200_000
"""Of one result: some two million characters, before anything is written out."""
MAX_RESULTS_CHARS = 20_000_000
"""Of all results of an episode: they are kept for the checker."""
MAX_EPISODE_WEIGHT = 2_000_000
"""Of what an episode's calls compute and hand from tool to tool, which may keep all of it."""

_JSON = json.JSONEncoder(check_circular=False)  # what holds itself is found to nest too deep
# The standard library's encoder, where it is written in C: `_JSON.encode` makes it anew each time.
_MAKE_ENCODER = getattr(json.encoder, "c_make_encoder", None)
_MADE_OF = (None, _JSON.default, json.encoder.encode_basestring_ascii, None, ": ", ", ")
_CHUNKS = _MAKE_ENCODER and _MAKE_ENCODER(*_MADE_OF, False, False, True)


@dataclass
class SizeBudget:
    """Size budget of an episode's calls, which bounds their memory."""

    characters: int = MAX_RESULTS_CHARS
    weight: int = MAX_EPISODE_WEIGHT


def result_text(value: Any, allowance: SizeBudget) -> str:
    """Format a tool's result as BFCL does; LimitExceeded if it is too large."""
    most = min(MAX_RESULT_WEIGHT, allowance.characters)
    if value_size(value, most) > most:
        allowance.characters -= min(most * CHARS_PER_WEIGHT, allowance.characters)
        raise LimitExceeded("the result is too large, or nests too deep, to be shown")
    if type(value) is dict:
        try:
            return _json_text(value)
        except Exception:
            # BFCL falls back on any failure: Decimals, keys that are tuples, cycles, huge integers
            return str(value)
    return str(value)


def _json_text(value: dict[Any, Any]) -> str:
    if JsonCachedList not in map(type, value.values()) or {*map(type, value)} != {str}:
        return "".join(_CHUNKS(value, 0)) if _CHUNKS else _JSON.encode(value)
    listed = (
        f"{_JSON.encode(k)}: {v.json_text() if type(v) is JsonCachedList else _JSON.encode(v)}"
        for k, v in value.items()
    )
    return f"{{{', '.join(listed)}}}"


def _broken(what: str, error: BaseException) -> InfrastructureError:
    return InfrastructureError(f"{what}: {type(error).__name__}: {error}")


def load_tool(name: str, tool: type, scenario: Any, long_context: bool) -> Any:
    """Instantiate a tool and load its scenario; raises InfrastructureError if it cannot load."""
    try:
        instance = tool()
        # BFCL's MathAPI holds no state, so nothing is loaded
        if hasattr(instance, "_load_scenario"):
            if not getattr(tool, "_copies_scenario", False):
                scenario = snapshot(scenario, {})
            instance._load_scenario(scenario, long_context=long_context)
    except Exception as error:
        raise _broken(f'tool "{name}" cannot load its initial_config', error) from error
    return instance


@lru_cache(maxsize=256)
def function_classes(tools: tuple[tuple[str, type], ...]) -> Mapping[str, str]:
    """Map function names to class names; if several classes have one, the last."""
    class_of: dict[str, str] = {}
    for class_name, tool in tools:
        for name in dir(tool):
            value = inspect.getattr_static(tool, name)
            is_method = isinstance(value, classmethod) or inspect.isfunction(value)
            if is_method and not name.startswith("_"):
                class_of[name] = class_name
    return class_of


MAX_CALL_CHARS = 262_144
"""The longest call string executed: four times the longest text decoded, whose escapes may grow."""

NESTED_TOO_DEEP: Mapping[str, Any] = {"": "nested too deep"}
"""The public state of a tool that cannot be copied."""

_ALLOWANCE = ""  # its place in a saved state, where no class can stand

_CALLEE = re.compile(r"\b([a-zA-Z_]\w*)\s*(?=\()")
_DENIED = frozenset({"kill", "exit", "quit", "remove", "unlink", "popen", "Popen", "run"})
_TOOL_ERRORS = (
    *(TypeError, ValueError, KeyError, IndexError, AttributeError),
    *(NameError, SyntaxError, ArithmeticError, RecursionError),
)
"""What BFCL's methods raise on arguments they do not expect; anything else is our own failure."""


class ToolSession:
    """Tools of one episode: fresh, private instances that execute call strings.

    `owner` names whose tools they are ("model", "ground_truth"). As in BFCL the name shows in one
    place: a registered function's name before "(" inside a string argument gets the name of the
    instance put in front.
    """

    def __init__(
        self,
        involved_classes: Sequence[str],
        initial_config: Mapping[str, Any],
        *,
        long_context: bool = False,
        extra_tools: Mapping[str, type | str] | None = None,
        owner: str = "model",
    ) -> None:
        tools = {name: tool_class(name, extra_tools) for name in involved_classes}
        self._owner = owner
        self._extra_tools = frozenset(extra_tools or ())
        self._class_of = function_classes(tuple(tools.items()))
        self._allowance = SizeBudget()
        self._instances = {
            name: load_tool(name, tool, initial_config.get(name, {}), long_context)
            for name, tool in tools.items()
        }

    def hashed_state(self) -> list[Any]:
        """Return all state that decides later results: the tools, and limits that may run out.

        It is not copied: hash it at once.
        """
        left, most = self._allowance, SizeBudget()
        pairs = ((left.characters, most.characters), (left.weight, most.weight))
        return [self._instances, *(rest if rest < limit // 4 else None for rest, limit in pairs)]

    def has_function(self, name: str) -> bool:
        """Whether the session has a function of this name."""
        return name in self._class_of

    @time_calls("tools")
    def execute(self, call: str | PlainCall) -> str:
        """Execute one call and return its result text, worded as by BFCL's executor.

        Errors are texts, too. A plain call has the result of its call string. Raises
        InfrastructureError if a tool breaks in a way that no call can be blamed for.
        """
        try:
            value = self._evaluate(call)
            text = value if type(value) is str else result_text(value, self._allowance)
        except InfrastructureError:
            raise
        except Exception as error:
            text = f"Error during execution: {error}"
        if len(text) > self._allowance.characters:
            return (
                f"Error during execution: all results together have at most {MAX_RESULTS_CHARS} "
                "characters"
            )
        self._allowance.characters -= len(text)
        return text

    def prompt_context(self) -> str:
        """Return the text that the tools add to the prompt, such as a memory's core; mostly ""."""
        tools = self._instances.values()
        return "\n\n".join(tool._context() for tool in tools if hasattr(tool, "_context"))

    def public_state(self) -> dict[str, dict[str, Any]]:
        """Copy the tools' public state: {class: {public attribute: value}}.

        Attributes are in the order in which they were set. A class whose state calls have nested
        deeper than it can be copied has NESTED_TOO_DEEP alone, which equals no state that a truth
        leaves behind.
        """
        memo: dict[int, Any] = {}
        states = dict[str, dict[str, Any]]()
        for name, attributes in self.live_state().items():
            try:
                states[name] = {
                    attribute: snapshot(value, memo)
                    for attribute, value in attributes.items()
                    if attribute[:1] != "_"
                }
            except RecursionError:
                states[name] = dict(NESTED_TOO_DEEP)
        return states

    def live_state(self) -> dict[str, dict[str, Any]]:
        """Return the tools' attributes, private ones too, without a copy.

        Compare them at once, never change them.
        """
        return {
            name: getattr(instance, "__dict__", {}) for name, instance in self._instances.items()
        }

    def get_state(self) -> dict[str, Any]:
        """Copy the tools' state, random streams and private attributes included."""
        try:
            # All at once: what instances share, their copies share.
            return copy.deepcopy({**self._instances, _ALLOWANCE: self._allowance})
        except RecursionError as error:
            raise InfrastructureError(
                f"the state of {', '.join(self._instances)} nests too deep to copy"
            ) from error

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `get_state`; the state stays unchanged."""
        instances = copy.deepcopy(dict(state))
        allowance = instances.pop(_ALLOWANCE, None) or SizeBudget()
        if (names := list(instances)) != list(self._instances):
            raise ValueError(f"state of tools {names}: expected one of {list(self._instances)}")
        self._instances = instances
        self._allowance = allowance

    def _evaluate(self, call: str | PlainCall) -> Any:
        if isinstance(call, str) and len(call) > MAX_CALL_CHARS:
            raise ValueError(
                f"the call has {len(call)} characters; at most {MAX_CALL_CHARS} are executed"
            )
        plain = parse_plain_call(call) if isinstance(call, str) else call
        if plain is not None and plain.name in self._class_of and plain.name not in _DENIED:
            return self._invoke(plain.name, call, plain.positional, plain.keywords)
        source = call if isinstance(call, str) else render_call(call.name, call.keywords)
        return self._evaluate_source(source)

    def _evaluate_source(self, call: str) -> Any:
        source = _CALLEE.sub(self._qualified, call)
        word = source.split("(")[0]
        word = word.split(".")[1] if "." in word else word
        if word in _DENIED:
            raise ValueError(f"Function call {word} is not allowed.")
        body = parse_expression_cached(source)
        allowance = min(MAX_WEIGHT, self._allowance.weight)
        evaluator = Evaluator(partial(self._callee, call), allowance)
        try:
            return evaluator.value(body)
        finally:
            self._allowance.weight -= allowance - evaluator.left

    def _qualified(self, match: re.Match[str]) -> str:
        name = match[1]
        owner = self._class_of.get(name)
        return name if owner is None else f"{self._instance_name(owner)}.{name}"

    def _instance_name(self, class_name: str) -> str:
        return f"{self._owner}_{class_name}_instance"

    def _callee(self, call: str, callee: ast.expr, evaluator: Evaluator) -> Callable[..., Any]:
        """Resolve a callee of a call string: a registered method by its qualified name only."""
        if isinstance(callee, ast.Attribute) and isinstance(callee.value, ast.Name):
            class_name = self._class_of.get(callee.attr)
            if class_name is not None and callee.value.id == self._instance_name(class_name):
                return partial(self._invoke_weighed, evaluator, callee.attr, call)
        return resolve_allowed_builtin(callee, evaluator)

    def _invoke_weighed(
        self, evaluator: Evaluator, method: str, call: str, /, *positional: Any, **keywords: Any
    ) -> Any:
        """Call a tool's method and charge the size of objects passed between tools."""
        arguments = (*positional, *keywords.values())
        evaluator.charge(value_size(arguments, evaluator.left))
        if evaluator.hands_on:
            require_shallow_arguments(self._instances[self._class_of[method]], arguments)
        result = self._invoke(method, call, positional, keywords)
        if evaluator.is_nested:
            evaluator.charge(value_size(result, evaluator.left))
            evaluator.hands_on = True
        return result

    def _invoke(
        self,
        method: str,
        call: str | PlainCall,
        positional: Sequence[Any],
        keywords: Mapping[str, Any],
    ) -> Any:
        """Call a tool's method; bad arguments and a broken tool raise different errors."""
        class_name = self._class_of[method]
        try:
            return getattr(self._instances[class_name], method)(*positional, **keywords)
        except _TOOL_ERRORS:
            raise
        except (Exception, SystemExit) as error:
            # Users raise as they like.
            a_result = class_name in self._extra_tools and isinstance(error, Exception)
            if a_result or isinstance(error, InfrastructureError):
                raise
            text = call if isinstance(call, str) else render_call(method, keywords)
            raise _broken(f"tool {class_name}, call {text[:200]!r}", error) from error
