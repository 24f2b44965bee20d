"""Attributes of a TextEnvironment, and tools under the names of TRL's hub examples.

Attributes assigned later take effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fctncalling.envs.handlers.inline import (
    CALL,
    REQUEST,
    RESPONSE,
    SUBMIT,
    InlineCalls,
    TrlRequestCalls,
)
from fctncalling.envs.tool_text.tools import InlineTools, InlineToolsArgument, search_tool
from fctncalling.envs.tools.box.calculator import calculate
from fctncalling.envs.tools.box.toolbox import ToolBox
from fctncalling.envs.tools.python_executor import PythonExecutor
from fctncalling.lab.text_environment.history_generator import (
    HistoryGenerator,
    OnToken,
    RawTextTemplate,
    language_model,
    parse_generation_kwargs,
)


class FollowsAssignments:
    """Public attributes that anybody may assign, and private parts that `_refresh` renews.

    Nothing is checked where it is assigned: plain attributes and dicts are what users of such
    environments expect, and a dict that is changed in place tells nobody. `_refresh` compares
    before every use, which takes microseconds.
    """

    request_token, call_token, response_token, submit_token = REQUEST, CALL, RESPONSE, SUBMIT
    model: Any
    tokenizer: Any
    tools: dict[str, Any]
    generation_kwargs: dict[str, Any]
    max_tool_response: int
    max_length: int | None
    on_token: OnToken | None
    syntax: InlineCalls
    template: RawTextTemplate

    def _build(self, syntax: InlineCalls, tools: InlineToolsArgument) -> None:
        """Build every part for the first time."""
        self.syntax = syntax
        self._built_syntax = syntax
        self._built_marks = (REQUEST, CALL, RESPONSE, SUBMIT)
        self.template = RawTextTemplate(self.tokenizer, tags=syntax.tags)
        self._built_tokenizer = self.tokenizer
        self._built_model = self.model
        given = tools if isinstance(tools, Mapping | ToolBox) else _listed(tools)
        self._tools = InlineTools(given, syntax, max_characters=self.max_tool_response)
        self.tools = _by_name(given, self._tools.box)
        self._built_tools = dict(self.tools)
        self._build_generator()
        self._refresh()

    def _refresh(self) -> None:
        """Bring the parts up to the attributes."""
        self._refresh_syntax()
        if self.model is not self._built_model:
            bounded = self.max_length != self._generator.max_positions
            self._built_model = self.model
            self.max_length = self.max_length if bounded else None
            self._build_generator()
        self._generator.on_token = self.on_token
        self._generator.set_sampling(
            parse_generation_kwargs(self.generation_kwargs, self.template.stop_ids)
        )
        self._refresh_tools()

    def _refresh_syntax(self) -> None:
        marks = (self.request_token, self.call_token, self.response_token, self.submit_token)
        if marks != self._built_marks:
            if not isinstance(self.syntax, TrlRequestCalls):
                raise ValueError(
                    f"request_token and its like are marks of handler 'request_call'; this one is "
                    f"{self.syntax.name!r}, whose marks stand fast"
                )
            self.syntax = TrlRequestCalls(*marks)
            self._built_marks = marks
        if self.syntax is not self._built_syntax or self.tokenizer is not self._built_tokenizer:
            self._built_syntax = self.syntax
            self._built_tokenizer = self.tokenizer
            self.template = RawTextTemplate(self.tokenizer, tags=self.syntax.tags)
            self._generator.set_template(self.template, self.syntax.stop)
            self._tools.syntax = self.syntax

    def _refresh_tools(self) -> None:
        if not isinstance(self.tools, Mapping):
            given = _listed(self.tools)
            self.tools = _by_name(given, InlineTools(given, self.syntax).box)
        if not _same(self.tools, self._built_tools):
            old, self._tools = self._tools, InlineTools(self.tools, self.syntax)
            self._built_tools = dict(self.tools)
            old.close()
        self._tools.max_characters = self.max_tool_response

    def _build_generator(self) -> None:
        sampling = parse_generation_kwargs(self.generation_kwargs, self.template.stop_ids)
        self._generator = HistoryGenerator(
            language_model(self.model), self.template, sampling, self.syntax.stop, self.on_token
        )
        if self.max_length is None:
            self.max_length = self._generator.max_positions


def is_overridden(environment: object, name: str, own: Any) -> bool:
    """Whether a method is another than the class's own: a subclass's, or one that was assigned."""
    return getattr(getattr(environment, name), "__func__", None) is not own


def _listed(tools: Any) -> Any:
    """Return iterable tools as a list, to iterate twice; InlineTools rejects invalid ones."""
    return list(tools) if isinstance(tools, Iterable) and not isinstance(tools, str) else tools


def _by_name(given: Any, box: ToolBox) -> dict[str, Any]:
    """Return name -> tool, each as it was given."""
    if isinstance(given, Mapping):
        return dict(given)
    names = [doc.name for doc in box.docs]
    return dict(zip(names, box.tools if isinstance(given, ToolBox) else given, strict=True))


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return one.keys() == other.keys() and all(one[name] is other[name] for name in one)


TextTool = Callable[[str], str]


def load_tool(name: str) -> TextTool:
    """Return our tool for a hub name such as "ybelkada/simple-calculator", whoever its owner is.

    Nothing is downloaded. Raises LookupError for names without a counterpart here, naming those
    that have one.
    """
    short = name.rpartition("/")[2]
    if short not in _TOOLS:
        raise LookupError(f'no tool stands for "{name}" here: there are {", ".join(_TOOLS)}')
    return _TOOLS[short]()


def _python() -> TextTool:
    executor = PythonExecutor()

    def python_interpreter(code: str) -> str:
        """Run Python code, confined, and return what it prints."""
        return executor.run(code).text

    return python_interpreter


def _search() -> TextTool:
    function: TextTool = search_tool().function
    return function


_TOOLS: dict[str, Callable[[], TextTool]] = {
    "simple-calculator": lambda: calculate,
    "python-interpreter": _python,
    "pyserini-wikipedia-kilt-doc": _search,
}
