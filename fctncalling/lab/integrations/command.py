"""Serve a task's tools over MCP: an external agent plays the episode and is judged.

The task's functions are tools of a Model Context Protocol server; start_task returns the user's
first message, end_turn the next one. Without --port the server talks over its standard input and
output, as agents start it; with it, at http://127.0.0.1:PORT/mcp. One server is one episode. The
agent never sees the verdict: it goes to --output, and to standard error.

example:
  fctncalling serve-mcp --dataset_path tasks.json --task_id multi_turn_base_0 \\
      --output result.jsonl
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from fctncalling.cli.shared.jsonl_records import InputError
from fctncalling.cli.shared.parser import add_flag, print_error
from fctncalling.cli.shared.task_finder import use_sibling_long_context_tables
from fctncalling.cli.shared.tool_flags import MISSING, UNREADABLE, TaskTools, add_tool_arguments
from fctncalling.data.bfcl import embedded_path, load_tasks
from fctncalling.data.types import Task
from fctncalling.envs.errors import import_extra
from fctncalling.lab.integrations import mcp

COMMAND = "serve-mcp"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's arguments."""
    add = partial(add_flag, parser)
    limit = "calls after which a turn fails its task; default: %(default)s"
    add("--dataset_path", Path, "FILE", "task file; default: the embedded tasks")
    add("--task_id", str, "ID", "task to play; default: the first")
    add("--output", Path, "FILE", "file that the result is added to: .jsonl")
    add("--port", int, "N", "serve HTTP at this port; default: standard input")
    add("--max_steps_per_turn", int, "N", limit, 20)
    add_tool_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Serve one episode; return 0, or 2 if it cannot start."""

    def report(result: dict[str, Any]) -> None:
        summary = {key: value for key, value in result.items() if key != "messages"}
        print(json.dumps(summary), file=sys.stderr)
        if args.output:
            with args.output.open("a", encoding="utf-8") as output:
                output.write(json.dumps(result) + "\n")

    try:
        task, tools = _task(args)
        if args.output:
            args.output.open("a").close()  # refused now, not after the episode
        episode = mcp.ServedEpisode(
            task, on_end=report, tools=tools, max_steps_per_turn=args.max_steps_per_turn
        )
        server = mcp.mcp_server(episode)
    except (InputError, ValueError, *UNREADABLE, *MISSING) as error:
        return print_error(error)
    with closing(episode):
        if args.port is None:
            _run_stdio(server)
        else:  # on this machine alone, until Ctrl-C
            http = {"host": "127.0.0.1", "port": args.port, "log_level": "warning"}
            uvicorn = import_extra("uvicorn", "mcp", "serving over MCP")
            uvicorn.run(server.streamable_http_app(), **http)
    return 0


def _run_stdio(server: Any) -> None:
    """Serve over standard input and output until the client disconnects."""
    anyio = import_extra("anyio", "mcp", "serving over MCP")
    stdio = import_extra("mcp.server.stdio", "mcp", "serving over MCP")

    async def serve() -> None:
        async with stdio.stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(serve)


def _task(args: argparse.Namespace) -> tuple[Task, dict[str, Any]]:
    tools, path = TaskTools(args), args.dataset_path or Path(embedded_path("train"))
    use_sibling_long_context_tables(path)
    tasks = {task.id: task for task in load_tasks(path, self_documented=tools.given)}
    chosen = args.task_id if args.task_id is not None else next(iter(tasks), None)
    if chosen not in tasks:
        raise InputError(f"--task_id {chosen}: {path} has no such task")
    task = tools.with_docs(tasks[chosen], path)
    return task, tools.classes_for((task,), path)
