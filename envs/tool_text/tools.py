"""Tools of calls inside a message: lookup, time limits, sanitised output."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from fctncalling.data.types import Call
from fctncalling.data.unsafe_text import neutralise_marks
from fctncalling.envs.errors import InfrastructureError, MissingExtra
from fctncalling.envs.handlers.handler import DecodeError, parse_json
from fctncalling.envs.handlers.inline import QUERY, CallBlock, InlineCalls
from fctncalling.envs.python_source.call_source import render_call
from fctncalling.envs.tools.box.callables import Tool, ToolDefinitionError, as_tool
from fctncalling.envs.tools.box.toolbox import ToolBox, calculator_tool, python_tool
from fctncalling.envs.tools.local_corpus import CorpusError, LocalCorpus, default_corpus
from fctncalling.envs.tools.python_executor import PythonExecutor

InlineToolsArgument = Mapping[str, Any] | ToolBox | Iterable[Any]
_TRACEBACK = re.compile(  # a syntax error has no line of the first kind
    r'^Traceback \(most recent call last\):|^ *File "<tool>", line \d+|^(?:Timed out|Killed|Not '
    r"run)\b",
    re.MULTILINE,
)


class InlineToolResult(NamedTuple):
    """Result of one tool call inside a message."""

    text: str  # for the model: neutralised, cut
    executed: str = ""  # the call as it is logged; "" where nothing ran
    error: str | None = None  # unknown_function, bad_arguments, malformed, tool_error


class InlineTools:
    """Tools that calls inside a message may use: a ToolBox.

    `tools`: a mapping from names to tools, a list of tools (functions, callables, Tool objects, a
    PythonExecutor, or the names in NAMED_TOOLS), or a ToolBox, which environments may share.
    What tools say is neutralised (no mark of the syntax, of a chat template, stands in it) and then
    cut to `max_characters`.
    """

    def __init__(
        self, tools: InlineToolsArgument, syntax: InlineCalls, *, max_characters: int | None = None
    ) -> None:
        self.syntax = syntax
        self.max_characters = max_characters
        self._executors: list[PythonExecutor] = []
        self._owns_box = not isinstance(tools, ToolBox)
        self.box = tools if isinstance(tools, ToolBox) else ToolBox(self._tools(tools))

    def run_block(self, block: CallBlock) -> InlineToolResult:
        """Run the call of one block and return its result.

        Raises InfrastructureError where a tool's process died.
        """
        if block.record is None:
            return InlineToolResult(
                self._truncate(f"Tool error: {block.complaint}"), error="malformed"
            )
        [(name, arguments)] = block.record.items()
        if name not in self.box:
            names = ", ".join(doc.name for doc in self.box.docs)
            return InlineToolResult(
                self._truncate(f"Unknown tool {name}. There are: {names}"), error="unknown_function"
            )
        keywords = self._bind_arguments(name, arguments)
        if isinstance(keywords, str):
            return InlineToolResult(
                self._truncate(f"Tool error: {keywords}"), error="bad_arguments"
            )
        text = self.box.call(Call(name, keywords))
        failed = text.startswith("Tool error: ") or _TRACEBACK.search(text) is not None
        return InlineToolResult(
            self._truncate(text), render_call(name, keywords), "tool_error" if failed else None
        )

    def close(self) -> None:
        """Close the tools that were started here; a ToolBox that was passed in stays open."""
        if self._owns_box:
            self.box.close()
        for executor in self._executors:
            executor.close()

    def _bind_arguments(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any] | str:
        """Bind a call's arguments to the tool's parameters; return them, or an error text."""
        parameters = self.box.parameters(name)
        query = arguments.get(QUERY)
        if list(arguments) != [QUERY] or parameters == (QUERY,) or not isinstance(query, str):
            unknown = [key for key in arguments if key not in parameters]
            if unknown:
                return f"{name} takes {', '.join(parameters)}, not {unknown[0]}"
            return dict(arguments)
        if len(parameters) == 1:
            return {parameters[0]: query}
        try:
            value = parse_json(query or "{}")
        except DecodeError:
            value = None
        if not isinstance(value, dict) or not set(value) <= set(parameters):
            return f"{name} takes a JSON object of {', '.join(parameters)}"
        return value

    def _truncate(self, text: str) -> str:
        text = neutralise_marks(text, self.syntax.tags)
        limit = self.max_characters
        if limit is None or len(text) <= limit:
            return text
        return text[: max(0, limit - 3)] + "..."[:limit]

    def _tools(self, tools: Any) -> list[Tool]:
        if isinstance(tools, Mapping):
            named = [(name, self._tool(tool)) for name, tool in tools.items()]
            return [replace(tool, doc=replace(tool.doc, name=name)) for name, tool in named]
        if isinstance(tools, str) or not isinstance(tools, Iterable):
            raise ToolDefinitionError(
                f"tools={tools!r:.100}: expected a list or mapping of tools, or a ToolBox"
            )
        return [self._tool(tool) for tool in tools]

    def _tool(self, source: Any) -> Tool:
        if isinstance(source, str):
            if source not in NAMED_TOOLS:
                raise ToolDefinitionError(
                    f"no tool is called {source!r}: there are {', '.join(NAMED_TOOLS)}"
                )
            source = NAMED_TOOLS[source]()
            if isinstance(source, PythonExecutor):
                self._executors.append(source)
        if isinstance(source, PythonExecutor):
            return python_tool(source)
        nameless = not isinstance(source, Tool) and getattr(source, "__name__", "") == "<lambda>"
        return as_tool(source, name="tool" if nameless else None)


def search_tool(corpus: LocalCorpus | None = None, *, max_results: int = 1) -> Tool:
    """Make the tool `search(query)`: keyword search in a local corpus.

    Raises CorpusError or MissingExtra where the corpus, or what ranks its pages, is not there.
    """
    pages = corpus or default_corpus()
    pages.search("probe")  # what is missing is missed now, not in the middle of an episode

    def search(query: str) -> str:
        try:
            hits = pages.search(query, max_results)
        except (CorpusError, MissingExtra) as error:
            raise InfrastructureError(str(error)) from error
        return "\n".join(f"{page['title']}: {page['body']}" for page in hits) or "Nothing found."

    return as_tool(
        search,
        description="Search pages by keywords and return the best one's beginning.",
        timeout_s=None,
    )


NAMED_TOOLS: dict[str, Callable[[], Any]] = {
    "calculator": calculator_tool,
    "python_executor": PythonExecutor,
    "search": search_tool,
}
"""Tools that may be given by name."""
