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
from fctncalling.envs.tool_text.tools import InlineTools, search_tool
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

    _marks = (REQUEST, CALL, RESPONSE, SUBMIT)  # those that `syntax` was made of
    _template_of: Any = None  # syntax and tokenizer
    _generator_of: Any = None  # model
    _generator: HistoryGenerator
    _tools: InlineTools | None = None
    _built_tools: Mapping[str, Any]

    def _refresh(self) -> None:
        """Bring the parts up to the attributes, and build those that are missing."""
        self._refresh_syntax()
        if self._template_of != (self.syntax, self.tokenizer):
            self.template = RawTextTemplate(self.tokenizer, tags=self.syntax.tags)
            self._template_of = (self.syntax, self.tokenizer)
        sampling = parse_generation_kwargs(self.generation_kwargs, self.template.stop_ids)
        if self._generator_of is not self.model:
            generator = HistoryGenerator(language_model(self.model), self.template)
            former = None if self._generator_of is None else self._generator.max_positions
            if self.max_length in (None, former):
                self.max_length = generator.max_positions
            self._generator = generator
            self._generator_of = self.model
        self._generator.configure(self.template, self.syntax.stop, sampling, self.on_token)
        self._refresh_tools()

    def _refresh_syntax(self) -> None:
        marks = (self.request_token, self.call_token, self.response_token, self.submit_token)
        if marks == self._marks:
            return
        if not isinstance(self.syntax, TrlRequestCalls):
            raise ValueError(
                f"request_token and its like are marks of handler 'request_call'; this one is "
                f"{self.syntax.name!r}, whose marks stand fast"
            )
        self.syntax = TrlRequestCalls(*marks)
        self._marks = marks

    def _refresh_tools(self) -> None:
        given, former = self.tools, self._tools
        if former is None or not isinstance(given, Mapping) or not _same(given, self._built_tools):
            if isinstance(given, Iterable) and not isinstance(given, Mapping | ToolBox | str):
                given = list(given)  # to iterate twice; InlineTools rejects invalid ones
            self._tools = tools = InlineTools(given, self.syntax)
            if not isinstance(given, Mapping):
                names = (doc.name for doc in tools.box.docs)
                each_given = tools.box.tools if isinstance(given, ToolBox) else given
                self.tools = dict(zip(names, each_given, strict=True))
            self._built_tools = dict(self.tools)
            if former is not None:
                former.close()
        assert self._tools is not None
        self._tools.syntax = self.syntax
        self._tools.max_characters = self.max_tool_response


def is_overridden(environment: object, name: str, own: Any) -> bool:
    """Whether a method is another than the class's own: a subclass's, or one that was assigned."""
    return getattr(getattr(environment, name), "__func__", None) is not own


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
