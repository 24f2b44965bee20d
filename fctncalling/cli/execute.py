"""Run recorded calls on fresh tools.

Writes every record again, in order, with our own result texts.

A record is either one call of a task, {"category", "id", "call", "result"} with "cwd" at the end of
a turn (the calls of a task share their tools), or a whole sequence, {"category", "id", "calls":
[{"call", "result"}, ...]}. Results over 3,000 characters are written as sha256, length and first
300 characters, in sequences only. A record on which tools of ours fail is "invalid": true, with the
reason and without results; so are the task's later calls, and the exit code is 1.

example:
  fctncalling execute multi_turn_exec.jsonl.gz --dataset_path data/bfcl --output results.jsonl
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fctncalling.cli.shared.convert_records import add_arguments, convert_file, mark_invalid
from fctncalling.cli.shared.jsonl_records import Record, SourceRecord, read_records
from fctncalling.cli.shared.task_finder import TaskFinder
from fctncalling.cli.shared.tool_flags import TaskTools
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.handlers.execution import ToolSession

__all__ = ["add_arguments", "run"]

MAX_RESULT_CHARS = 3000
HEAD_CHARS = 300
MAX_SESSIONS = 256
"""How many tasks may be under way at once; the one that began longest ago gives way."""


def run(args: argparse.Namespace) -> int:
    """Run the subcommand `execute`: execute every record.

    Return 0, 1 if some are invalid, 2 if a record or a task cannot be used.
    """
    executor = RecordExecutor(args.dataset_path or (), TaskTools(args))
    return convert_file(args, "executing", read_records(args.input), executor.execute_record)


class RecordExecutor:
    """Executor of records, one by one, with the tools of the newest tasks."""

    def __init__(self, tasks: Path | Sequence[Path], tools: TaskTools | None = None) -> None:
        self._finder = TaskFinder(tasks, tools.given if tools else ())
        self._tools = tools
        self._sessions: dict[tuple[str, str], ToolSession] = {}
        self._lost: dict[tuple[str, str], str] = {}  # why later calls of a task cannot be executed

    def execute_record(self, line: SourceRecord) -> Record:
        """Execute a record; return it with our results. InputError if it cannot be executed."""
        try:
            if "calls" in line.record:
                return self._sequence(line)
            return self._one_call(line)
        except InfrastructureError as error:
            results = ("result", "cwd", "calls")
            record = {key: value for key, value in line.record.items() if key not in results}
            return mark_invalid(record, str(error))
        except LookupError as error:
            raise line.error("id", f"cannot be executed: {error}") from None

    def _one_call(self, line: SourceRecord) -> Record:
        call = line.field("call", str, "a call as text")
        category = line.field("category", str, "a category's name")
        key = (category, line.field("id", str, "a task's id"))
        begins = line.record.get("turn") == 0 and line.record.get("call_index") == 0
        if key in self._lost and not begins:
            raise InfrastructureError(self._lost[key])
        try:
            if begins or key not in self._sessions:
                self._sessions.pop(key, None)
                self._lost.pop(key, None)
                self._sessions[key] = self._session(line)
                if len(self._sessions) > MAX_SESSIONS:
                    reason = f"more than {MAX_SESSIONS} tasks began before this call"
                    self._lose(next(iter(self._sessions)), reason)
            session = self._sessions[key]
            record = {**line.record, "result": session.execute(call)}
            if "cwd" in record:  # none for tools without a file system
                has_folder = session.has_function("pwd")
                place = json.loads(session.execute("pwd()")) if has_folder else {}
                record["cwd"] = place.get("current_working_directory")
            return record
        except InfrastructureError as error:
            self._lose(key, f"an earlier call of the task failed: {error}")
            raise

    def _lose(self, key: tuple[str, str], reason: str) -> None:
        self._sessions.pop(key, None)
        self._lost[key] = reason

    def _sequence(self, line: SourceRecord) -> Record:
        session = self._session(line)
        results = []
        for index, each in enumerate(line.field("calls", list, "a list of calls")):
            if not isinstance(each, dict) or not isinstance(each.get("call"), str):
                raise line.error(f"calls[{index}]", 'expected {"call": text}')
            results.append({"call": each["call"], **result_fields(session.execute(each["call"]))})
        return {**line.record, "calls": results}

    def _session(self, line: SourceRecord) -> ToolSession:
        task = self._finder.find_task(line)
        origin = self._finder.path
        user_classes = self._tools.classes_for((task,), origin) if self._tools else None
        return ToolSession(
            task.involved_classes,
            task.initial_config,
            long_context=task.long_context,
            extra_tools=user_classes,
        )


def result_fields(result: str) -> dict[str, Any]:
    """Return the fields of a record for a result text: whole, or a hash of a long one."""
    if len(result) <= MAX_RESULT_CHARS:
        return {"result": result}
    digest = hashlib.sha256(result.encode("utf-8", "surrogatepass")).hexdigest()
    return {"result_sha256": digest, "result_len": len(result), "result_head": result[:HEAD_CHARS]}
