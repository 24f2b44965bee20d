"""Output file of a run, which a later one can resume: a line for each episode that ended."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Self

from fctncalling.algorithms.run.run_lock import RunLockedError, lock_for_file
from fctncalling.cli.shared.jsonl_records import InputError, Record, read_records, write_records
from fctncalling.cli.shared.task_finder import category_folder, result_folder_name
from fctncalling.data.categories import category_kind
from fctncalling.data.format_sensitivity import CATEGORY
from fctncalling.data.json_stream import LongLineError, bounded_lines
from fctncalling.data.paths import atomic_write, is_stream
from fctncalling.envs.handlers import DecodeError, get_handler
from fctncalling.evaluation.agents.agent import CONTEXT_OVERFLOW
from fctncalling.evaluation.pass_at_k import SuccessCounts


class CategoryCounts(SuccessCounts):
    """Counts of the episodes of one category; invalid ones are in no other count."""

    invalid = 0
    context_overflow = 0  # failed, as the conversation outgrew the model's context
    cut = 0  # answers that the limit of their length cut
    unread = 0  # answers with calls that nobody could read

    def add(self, line: Mapping[str, Any]) -> None:
        """Add one line of the output to the counts."""
        if line.get("invalid"):
            self.invalid += 1
            return
        self.context_overflow += bool(line.get(CONTEXT_OVERFLOW))
        self.cut += int(line.get("num_actions_truncated") or 0)
        steps = line.get("steps")
        steps = steps if isinstance(steps, list) else ()  # what is none is told where it is read
        steps = (step for step in steps if isinstance(step, dict))
        self.unread += sum(step.get("error") == "unread_call" for step in steps)
        valid, strict = bool(line["valid"]), bool(line["strict_valid"])
        self.count(line["id"], valid=valid, strict=strict, progress=float(line["progress"]))


def _is_counted(line: Mapping[str, Any]) -> bool:
    """Whether a line has all that the totals take from it."""
    if not all(isinstance(line.get(name), str) for name in ("id", "category")):
        return False
    if line.get("invalid"):
        return "response" in line
    numbers = isinstance(line["progress"], int | float) and type(line.get("sample", 0)) is int
    return numbers and {"response", "valid", "strict_valid"} <= set(line)


def require_new_output(path: Path, *, resume: bool) -> None:
    """Require new output: InputError if writing it would overwrite results."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder. Name a file as --output.")
    if path.is_file() and path.stat().st_size and not resume:
        raise InputError(
            f"{path}: is there already. Go on with it by --resume, or name another --output."
        )


class OutputFile:
    """Output file of a run, append-only.

    `resume` continues a former run's file without its invalid lines and a truncated last line.

    The file is locked while it is open. What is no regular file (/dev/null, a pipe) is written
    through. Raises InputError for a file that exists already, that another process writes to, or
    that was written under other settings.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any], *, resume: bool) -> None:
        self._path = path
        self._settings = settings
        self._done = set[tuple[str, str, int]]()
        self._totals: dict[str, CategoryCounts] = {}
        self.reason = ""  # of the first invalid episode of this run
        require_new_output(path, resume=resume)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._lock = None if is_stream(path) else lock_for_file(path)
        except RunLockedError as error:
            raise InputError(str(error)) from None
        try:
            if self._lock is not None and path.exists():
                # another process may have written it meanwhile
                require_new_output(path, resume=resume)
                self._take_up()
            self._file: IO[str] = path.open("a", encoding="utf-8")
        except BaseException:
            self._release()
            raise

    def is_done(self, category: str, task_id: str, sample: int = 0) -> bool:
        """Whether the episode is done: in the file."""
        return (category, task_id, sample) in self._done

    def write(self, line: Mapping[str, Any]) -> None:
        """Write one line and flush it, so that a killed run loses no finished episode."""
        self._file.write(json.dumps({**self._settings, **line}) + "\n")
        self._file.flush()
        if line.get("invalid") and not self.reason:
            self.reason = f"{line['id']}: {line['invalid_reason']}"
        self._count(line)

    def totals(self) -> dict[str, CategoryCounts]:
        """Return the total counts by category, with former runs included."""
        return self._totals

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        if self._lock is not None and not self._path.stat().st_size:
            self._path.unlink()  # nothing was played: the next run need not --resume
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release(remove=True)

    def _take_up(self) -> None:
        try:
            with (
                atomic_write(self._path) as kept,
                self._path.open(encoding="utf-8") as old,
                kept.open("w", encoding="utf-8") as new,
            ):
                for number, text in enumerate(bounded_lines(old), 1):
                    whole = text.endswith("\n")
                    if whole and (line := self._line_to_keep(number, text)) is not None:
                        new.write(text)
                        self._count(line)
        except LongLineError as error:
            raise InputError(f"{self._path} {error}") from None

    def _line_to_keep(self, number: int, text: str) -> dict[str, Any] | None:
        """Return the parsed line of a former run; None if it is invalid and has to be replayed."""
        try:
            line = json.loads(text)
            line = {"prompt_style": "bfcl", **line}  # what earlier versions wrote had that
            unnamed = dict.fromkeys(("user", "chat_template", "chat_template_kwargs"))
            settings, line = {**unnamed, **self._settings}, {**unnamed, **line}
            different = [key for key, value in settings.items() if line[key] != value]
            if not _is_counted(line):
                raise LookupError(number)
        except (ValueError, LookupError, TypeError):
            raise InputError(
                f"{self._path} line {number}: expected a line of `run`, got {text[:80]!r}"
            ) from None
        if different:
            key = different[0]
            raise InputError(
                f"{self._path} line {number}: was played with {key} {line[key]!r}, this run has "
                f"{settings[key]!r}: pass the same, or name another --output"
            )
        return None if line.get("invalid") else line

    def _count(self, line: Mapping[str, Any]) -> None:
        self._done.add((line["category"], line["id"], line.get("sample", 0)))
        self._totals.setdefault(line["category"], CategoryCounts()).add(line)


_NUMBER = re.compile(r"(\d+)")


def write_result_tree(output: Path, result_dir: Path, model: str) -> None:
    """Write the result tree, BFCL's files, from a run's output.

    Invalid episodes are left out: they have no answer. Raises InputError for what cannot be
    written.
    """
    if result_dir.exists() and not result_dir.is_dir():
        raise InputError(f"--result_dir {result_dir}: is a file: name a folder")
    by_category: dict[str, list[Record]] = {}
    for line in read_records(output):
        record = line.record
        category = by_category.setdefault(record["category"], [])
        if not record.get("invalid"):
            more: Record = {k: record[k] for k in ("latency", "dataset_path") if k in record}
            category.append({"id": record["id"], "result": _result(record), **more})
    for name, entries in by_category.items():
        path = (
            result_dir
            / result_folder_name(model)
            / category_folder(name)
            / f"BFCL_v4_{name}_result.json"
        )
        write_records(path, sorted(entries, key=_order))


def _result(line: Record) -> Any:
    """Return an answer as BFCL stores it: prompted as text, tool calls as [{name: arguments}]."""
    response, category = line["response"], line["category"]
    if category == CATEGORY:
        return response
    executes = category_kind(category) in ("multi_turn", "agentic")
    if executes and isinstance(response, str) and not line.get("context_overflow"):
        response = [[response]]
    if line["form"] == "prompting":
        return response
    if not isinstance(response, list):
        return _tool_call_result(response)
    return [[_tool_call_result(step) for step in turn] for turn in response]


def _tool_call_result(text: str) -> Any:
    """Return a message as the interface sent it: its calls, or its text."""
    try:
        if get_handler("tool_calls").decode(text):
            return json.loads(text)
    except DecodeError:
        pass
    try:  # chat that looks like calls is logged as a JSON text
        chat = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return chat if isinstance(chat, str) and text.startswith('"') else text


def _order(entry: Record) -> list[Any]:
    """Sort ids as BFCL numbers its tasks: text by text, numbers by value."""
    return [int(part) if part.isdigit() else part for part in _NUMBER.split(entry["id"])]
