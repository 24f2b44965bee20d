"""--tools and --allow_task_tools."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fctncalling.algorithms.config import SettingError
from fctncalling.cli.shared.jsonl_records import InputError
from fctncalling.cli.shared.parser import add_flag, add_switch
from fctncalling.data.errors import TaskError
from fctncalling.data.paths import official_data_folder
from fctncalling.data.types import Task
from fctncalling.envs.errors import InfrastructureError, MissingExtra
from fctncalling.envs.tools.bfcl.long_context import LongContextError
from fctncalling.envs.tools.box.callables import ToolDefinitionError
from fctncalling.envs.tools.box.toolbox import (
    TIMEOUT_S,
    ToolBox,
    server_isolation_notes,
    with_mcp_scheme,
)
from fctncalling.envs.tools.local_corpus import CorpusError
from fctncalling.training.user_code import parse_tool_classes


def add_tool_arguments(parser: argparse._ActionsContainer) -> None:
    """Add the arguments of tools to a parser: --tools and --allow_task_tools."""
    shape = "NAME=MODULE:CLASS"
    add_flag(parser, "--tools", str, shape, "stateful classes of your own", [], nargs="+")
    seed = "folder whose files fill {tmp} of MCP servers"
    add_flag(parser, "--tools_seed", str, "DIR", seed)
    leave = "import the classes that tasks name by their path, which runs their modules' code"
    add_switch(parser, "--allow_task_tools", leave)


def add_mcp_arguments(parser: argparse._ActionsContainer) -> None:
    """Add the arguments of MCP servers to a parser."""
    servers = (
        "MCP servers whose tools are offered next to the functions of every task whose calls "
        "are executed; PREFIX=COMMAND puts a prefix before their names"
    )
    longest = "longest call of such a tool, after which its episode is invalid; default: "
    add_flag(parser, "--mcp", str, "COMMAND_OR_URL", servers, [], nargs="+")
    add_flag(parser, "--mcp_timeout_s", float, "SECONDS", longest + "%(default)g", TIMEOUT_S)


class TaskTools:
    """Tools of tasks: classes given by --tools or named by tasks, and MCP servers.

    Classes that tasks name are imported only with --allow_task_tools.

    The box of the servers of --mcp, which all environments share.

    Raises SettingError for what is not NAME=MODULE:CLASS, or cannot be imported,
    ToolDefinitionError and MissingExtra for a server that cannot be had.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self._allowed: bool = args.allow_task_tools
        seed = getattr(args, "tools_seed", None)
        self.given: dict[str, Any] = {**parse_tool_classes(args.tools, seed)}
        addresses: list[str] = getattr(args, "mcp", [])
        self.box: ToolBox | None = None
        if addresses:
            self.box = ToolBox(map(with_mcp_scheme, addresses), mcp_timeout_s=args.mcp_timeout_s)

    def classes_for(self, tasks: Iterable[Task], origin: Path | str) -> dict[str, Any]:
        """Return the tool classes for tasks, by name, each as a class or as "module:Class".

        Raises TaskError, naming `origin`, for one that a task names by its path without leave, or
        that is not there.
        """
        naming = [task for task in tasks if task.tool_paths]
        if not naming:
            return self.given
        from fctncalling.envs.user_tools import UserTools

        own = UserTools(self.given)
        own.import_task_tools(naming, str(origin), allowed=self._allowed)
        return own.classes

    def env_tools(self, tasks: Iterable[Task]) -> Any:
        """Return the argument `tools` of an env: classes, and tools of MCP servers."""
        classes = self.classes_for(tasks, "tasks")
        return classes if self.box is None else [classes, self.box]

    def tell_isolation(self, tasks: Iterable[Task]) -> None:
        """Say on standard error what episodes with MCP servers of --tools would share."""
        for line in server_isolation_notes(self.given, tasks):
            print(f"warning: {line}", file=sys.stderr)

    def refuse_name_clashes(self, tasks: Iterable[Task], origin: Path | str) -> None:
        """Refuse name clashes: ToolDefinitionError for an MCP tool named as a task's function."""
        from fctncalling.envs.user_tools import UserTools

        UserTools([self.given, self.box]).refuse_name_clashes(tasks, origin)

    def close(self) -> None:
        """Close the MCP servers."""
        if self.box is not None:
            self.box.close()

    def with_docs(self, task: Task, origin: Path | str) -> Task:
        """Return the task with generated docs for tool classes without.

        Raises as `classes_for`.
        """
        tools = self.classes_for((task,), origin)
        if tools.keys().isdisjoint(task.involved_classes):
            return task
        from fctncalling.envs.user_tools import UserTools

        return UserTools(tools).with_tool_docs(task)


USUAL_TASKS = f"those that the record names, else {official_data_folder()} and the embedded tasks"
"""What a command that reads records takes where no tasks are named."""


def add_dataset_argument(
    parser: argparse._ActionsContainer, default: str = "", *, many: bool = True
) -> None:
    """Add the dataset argument, --dataset_path and its former name --data_dir, to a parser.

    default: what is taken without it, in words.

    Not `many`: one path each time the flag is given, for commands with words of their own.
    """
    several: dict[str, Any] = {"nargs": "+", "action": "extend"} if many else {"action": "append"}
    shared: dict[str, Any] = {"dest": "dataset_path", "type": Path, "metavar": "PATH", **several}
    text = f"task files, or folders of BFCL's; default: {default or official_data_folder()}"
    parser.add_argument("--dataset_path", **shared, help=text)
    parser.add_argument("--data_dir", **shared, help=argparse.SUPPRESS)


MISSING = (MissingExtra, CorpusError, LongContextError)
"""What a category's tools need is not there: told once, for all its tasks would fail alike."""

UNREADABLE = (TaskError, ToolDefinitionError, LookupError, OSError)
"""Tasks that cannot be read, or tools of theirs that are none."""

USER_ERRORS = (
    *(InputError, SettingError, TaskError, ToolDefinitionError),
    *(InfrastructureError, OSError, *MISSING),
)
"""Errors that end a command in one line: what it was given, or needs, cannot be used."""
