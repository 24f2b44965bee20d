"""Tools that users supply: callables, Tool objects, stateful classes.

Callables, Tool objects, an executor go into a box: they keep no state of an episode, so the calls
of one message run at once. A class is one set of instances an episode, as BFCL's own tools are. A
task may name one by its path, which is imported only where the user allows it: importing a module
runs its code, and a task file is data.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fctncalling.data.errors import TaskError
from fctncalling.data.types import Call, FunctionDoc, Task
from fctncalling.envs.handlers.execution import MAX_CALL_CHARS, ToolSession
from fctncalling.envs.named_tools import import_tool_class, tool_paths_of_tasks
from fctncalling.envs.python_source.call_source import parse_expression
from fctncalling.envs.python_source.evaluator import Evaluator
from fctncalling.envs.tools import TOOL_CLASSES, tool_class
from fctncalling.envs.tools.box.callables import ToolDefinitionError, as_tool
from fctncalling.envs.tools.box.toolbox import ToolBox

ToolsArgument = Mapping[str, Any] | ToolBox | Iterable[Any] | None


class UserTools:
    """The `tools=` argument, split into stateful classes and a ToolBox.

    Raises ToolDefinitionError for an object that is no tool. A mapping names classes for the
    `involved_classes` of tasks, and offers nothing by itself. Everything in a list is offered as
    well, beside the functions of every task whose calls are executed; the task's own functions win
    where names clash. Classes in a list bear their own names; a mapping in a list is as a mapping
    alone. "mcp:COMMAND" and "mcp:URL" in a list are the tools of an MCP server
    (`fctncalling.lab.mcp_client`). Where a task documents no method of a class that is given, docs
    of all its public methods are made from signatures and docstrings.
    """

    def __init__(self, tools: ToolsArgument) -> None:
        self.classes: dict[str, Any] = {}  # class name -> class, or "module:Class"
        self._offered: dict[str, type] = {}
        self.box: ToolBox | None = None
        self._owns_box = False
        if isinstance(tools, Mapping):
            self.classes = {name: _as_class(name, tool) for name, tool in tools.items()}
        elif isinstance(tools, ToolBox):
            self.box = tools
        elif tools is not None:
            self._sort(tools)
        self.specified = frozenset(self.classes)
        self._docs_of_class: dict[str, tuple[FunctionDoc, ...]] = {}
        offered = [doc for name in self._offered for doc in self._made_docs(name)]
        self._docs = [*(self.box.docs if self.box else ()), *offered]

    def _sort(self, tools: Iterable[Any]) -> None:
        if isinstance(tools, str) or not isinstance(tools, Iterable):
            raise ToolDefinitionError(
                f"tools={tools!r:.100}: expected a list of tools, a mapping of classes, or a "
                "ToolBox"
            )
        others = []
        for tool in tools:
            if isinstance(tool, type) and not isinstance(getattr(tool, "inputs", None), Mapping):
                self._offered[tool.__name__] = tool
            elif isinstance(tool, Mapping):
                self.classes |= {name: _as_class(name, cls) for name, cls in tool.items()}
            else:
                others.append(tool)
        self.classes |= self._offered
        if len(others) == 1 and isinstance(others[0], ToolBox):
            self.box = others[0]
        elif others:
            self.box = ToolBox(others)
            self._owns_box = True

    def import_task_tools(self, tasks: Iterable[Task], origin: str, *, allowed: bool) -> None:
        """Import the tools that tasks name by path, unless the user specified them.

        Raises TaskError. `allowed`: whether the user asked for it. `origin`: where the tasks come
        from, for the messages.
        """
        paths: dict[str, str] = {}
        for name, path, place in tool_paths_of_tasks(
            tasks, origin, allowed=allowed, specified=self.specified
        ):
            if paths.get(name, path) != path:
                raise TaskError(
                    f'{place} is a second class called "{name}": expected "{paths[name]}" '
                    "everywhere"
                )
            if name not in paths:
                paths[name], self.classes[name] = path, import_tool_class(path, place)

    def refuse_name_clashes(self, tasks: Iterable[Task], origin: Path | str) -> None:
        """Raise ToolDefinitionError for an MCP tool with the name of a task's function.

        The server's author chose the name, so the user may not know of it.
        """
        remote = self.box.mcp_addresses if self.box else {}
        for task in tasks if remote else ():
            if not task.executes_calls:
                continue
            classes = [name for name in task.involved_classes if self._is_known(name)]
            functions = {doc.name for doc in task.functions} | self._functions_of(classes)
            if clashing := sorted(functions & remote.keys()):
                address = remote[clashing[0]]
                raise ToolDefinitionError(
                    f"{address}: its tool {clashing[0]} has the name of a function of task "
                    f'"{task.id}" of {origin}: put a prefix before the names of its tools, '
                    f"mcp:PREFIX={address.removeprefix('mcp:')}"
                )

    def _is_known(self, class_name: str) -> bool:
        return class_name in self.classes or class_name in TOOL_CLASSES

    def with_tool_docs(self, task: Task) -> Task:
        """Add the docs of its tools to a task: generated ones and the extra tools'.

        Raises ToolDefinitionError for a class of which docs cannot be made, TaskError for a
        function held out by a name that none has.
        """
        if not task.executes_calls:
            return task
        functions = (*task.functions, *self._missing_docs(task))
        taken = {doc.name for doc in functions} | self._functions_of(
            task.involved_classes if self._docs else ()
        )
        more = [doc for doc in self._docs if doc.name not in taken]
        if len(functions) > len(task.functions) or more:
            return replace(task, functions=(*functions, *more))
        return task

    def _missing_docs(self, task: Task) -> list[FunctionDoc]:
        documented = {doc.name for doc in task.functions}
        lacking = [name for name in task.involved_classes if name in self.classes]
        lacking = [name for name in lacking if documented.isdisjoint(self._functions_of([name]))]
        made = [doc for name in lacking for doc in self._made_docs(name)]
        documented.update(doc.name for doc in made)
        for turn, names in task.missed_functions.items():
            if unknown := sorted(set(names) - documented):
                raise TaskError(
                    f'task "{task.id}": missed_function["{turn}"]: "{unknown[0]}" is no function '
                    f"of this task: expected one of {', '.join(sorted(documented))}"
                )
        return made

    def _made_docs(self, name: str) -> tuple[FunctionDoc, ...]:
        if name not in self._docs_of_class:
            self._docs_of_class[name] = tuple(_docs_of_class(name, tool_class(name, self.classes)))
        return self._docs_of_class[name]

    def tool_session(self, task: Task) -> ToolSession | None:
        """Start a tool session for a task that executes calls; None for other tasks.

        Raises LookupError for a class that is not known, InfrastructureError where one cannot load.
        """
        if not task.executes_calls:
            return None
        involved = [name for name in self._offered if name not in task.involved_classes]
        try:
            return ToolSession(
                (*involved, *task.involved_classes),  # the later ones' functions win
                task.initial_config,
                long_context=task.long_context,
                extra_tools=self.classes,
            )
        except LookupError as error:
            raise LookupError(f'task "{task.id}": {error}') from None

    def call_box(self, calls: Sequence[str], session: ToolSession) -> dict[int, str]:
        """Execute those calls of a message that are the box's, at once; return results by index.

        They bypass the session: it puts names into text arguments, as BFCL does, and a snippet's
        code must arrive as it was written. Raises InfrastructureError.
        """
        boxed = {index: self._boxed(text, session) for index, text in enumerate(calls)}
        run = {index: call for index, call in boxed.items() if isinstance(call, Call)}
        results = self.box.call_all(list(run.values())) if self.box is not None and run else []
        errors = {index: error for index, error in boxed.items() if isinstance(error, str)}
        return errors | dict(zip(run, results, strict=True))

    def close(self) -> None:
        """Close the tools: end the processes of those passed as a list."""
        if self.box is not None and self._owns_box:
            self.box.close()

    def _functions_of(self, class_names: Iterable[str]) -> set[str]:
        classes = [tool_class(name, self.classes) for name in class_names]
        return {name for cls in classes for name in dir(cls) if not name.startswith("_")}

    def _boxed(self, text: str, session: ToolSession) -> Call | str | None:
        """Parse a call string as a call of the box; an error text if its arguments are wrong.

        None if it is a call of the session.
        """
        name = text.partition("(")[0].strip()
        if (
            self.box is None
            or name not in self.box
            or session.has_function(name)
            or len(text) > MAX_CALL_CHARS
        ):
            return None
        try:
            body = parse_expression(text.strip())
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None  # the session has the interpreter's words for it
        if not isinstance(body, ast.Call) or ast.unparse(body.func) != name:
            return None
        try:
            return Call(name, _arguments(body, self.box.parameters(name)))
        except Exception as error:
            return f"Tool error: {name}(): {error}"


def _arguments(call: ast.Call, parameters: Sequence[str]) -> dict[str, Any]:
    """Evaluate a call's arguments by name; raises TypeError, or what an expression raises."""
    if len(call.args) > len(parameters):
        raise TypeError(f"takes {len(parameters)} arguments but {len(call.args)} were given")
    value = Evaluator().value
    arguments = {name: value(node) for name, node in zip(parameters, call.args, strict=False)}
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in arguments:
            raise TypeError("takes each argument once, by its name")
        arguments[keyword.arg] = value(keyword.value)
    return arguments


def _as_class(name: str, tool: Any) -> Any:
    if isinstance(tool, ToolBox):
        return tool.as_class(name)
    if isinstance(tool, type) or (isinstance(tool, str) and ":" in tool):
        return tool
    raise ToolDefinitionError(
        f"tools[{name!r}] is {tool!r:.100}: expected a class or a ToolBox; callables are given as "
        "a list, tools=[...]"
    )


def _docs_of_class(name: str, tool: type) -> Iterator[FunctionDoc]:
    if docs := getattr(tool, "_docs", None):  # of an MCP server
        yield from docs
        return
    instance = tool()
    for method in dir(tool):
        value = inspect.getattr_static(tool, method)
        if method.startswith("_") or not (
            inspect.isfunction(value) or isinstance(value, classmethod)
        ):
            continue
        try:
            yield as_tool(getattr(instance, method), name=method, timeout_s=None).doc
        except ToolDefinitionError as error:
            raise ToolDefinitionError(f"class {name}: {error}") from None
