"""BFCL's result tree: the answers of a run, for the official evaluator and `score`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from fctncalling.cli.shared.category_files import folder_name, folder_of
from fctncalling.cli.shared.jsonl_records import InputError, Record, read_records, write_records
from fctncalling.data.categories import kind_of
from fctncalling.data.format_sensitivity import CATEGORY
from fctncalling.envs.handlers import DecodeError, get_handler

_NUMBER = re.compile(r"(\d+)")


def write_result_tree(output: Path, result_dir: Path, model: str) -> None:
    """Write <result_dir>/<model>/<group>/BFCL_v4_<category>_result.json from a run's output.

    Invalid episodes are left out: they have no answer. Raises InputError for what cannot be
    written.
    """
    if result_dir.exists() and not result_dir.is_dir():
        raise InputError(f"--result_dir {result_dir}: is a file: name a folder")
    by_category: dict[str, list[Record]] = {}
    for line in read_records(output):
        category = by_category.setdefault(line.record["category"], [])
        if not line.record.get("invalid"):
            category.append(_entry(line.record))
    for name, entries in by_category.items():
        path = result_dir / folder_name(model) / folder_of(name) / f"BFCL_v4_{name}_result.json"
        write_records(path, sorted(entries, key=_order))


def _entry(line: Record) -> Record:
    named = ("latency", "dataset_path")
    more: Record = {key: line[key] for key in named if key in line}
    return {"id": line["id"], "result": _result(line), **more}


def _result(line: Record) -> Any:
    """Return an answer as BFCL stores it: prompted as text, tool calls as [{name: arguments}]."""
    response, category = line["response"], line["category"]
    if category == CATEGORY:
        return response
    executes = kind_of(category) in ("multi_turn", "agentic")
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
