"""Check that processes of a server share no state, by calls that tasks make anyway.

One process makes the calls of some truths. What the server says of its state is looked at before,
and in another process after. Nothing but the tasks' own calls and tools that only read is called.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from fctncalling.data.types import Call, Task
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.judging.oracle import oracle_calls
from fctncalling.lab.mcp_client.mcp_server import McpInstance, mcp_class

MAX_TRUTHS, MAX_TASKS = 3, 100
LOOK_S = 4.0
CLOCK_S = 1.1  # longer than a clock of seconds stands still
_READS = re.compile(r"(?:[a-z]+_)?(?:get|list|read|show|search|find|view|describe|count)(?:_|$)")
CURE = (
    "say {tmp} for the folder in its command or environment (--tools_seed DIR fills it), or give "
    "it a tool that resets it"
)


def isolation_notes(classes: Mapping[str, Any], tasks: Iterable[Task]) -> list[str]:
    """Describe state that episodes of MCP servers share, and results that change by themselves.

    `classes`: name -> "mcp:COMMAND" or the class of a server.
    """
    servers = {
        name: target if isinstance(target, type) else mcp_class(target)
        for name, target in classes.items()
    }
    notes = list[str]()
    involving = (task for task in tasks if not servers.keys().isdisjoint(task.involved_classes))
    first = list(islice(involving, MAX_TASKS))
    for name, tools in servers.items():
        truths = [_truth(task, tools) for task in first if name in task.involved_classes]
        truths = [truth for truth in truths if truth][:MAX_TRUTHS]
        try:
            notes += _notes(name, tools, truths)
        except InfrastructureError as error:
            notes.append(f"{name}: was not checked for what its processes share: {error}")
    return notes


def _truth(task: Task, tools: type[McpInstance]) -> list[Call]:
    """Return a truth's calls of the server; none if they cannot be parsed."""
    with suppress(ValueError):
        calls = [call for turn in oracle_calls(task) for call in turn]
        return [call for call in calls if hasattr(tools, call.name)]
    return []


def _notes(name: str, tools: type[McpInstance], truths: Sequence[Sequence[Call]]) -> list[str]:
    first, fresh = tools(), tools()
    looks = _quick_ones(first, _looks(tools, truths))
    before = _results(first, looks)
    time.sleep(CLOCK_S if looks else 0)
    moved = _changed(before, _results(first, looks)) | _changed(before, _results(fresh, looks))
    calls = [call for truth in truths for call in truth]
    results = _results(first, calls)
    second = tools()
    leaks, unclear = _changed(before, _results(second, looks)) - moved, set[str]()
    if not leaks:  # what no look shows: the same calls, answered otherwise
        again, third = _results(second, calls), _results(fresh, calls)
        changed = _changed(results, again)
        leaks = changed - _changed(again, third)
        unclear = changed - leaks - moved
    notes = []
    if leaks:
        what = "share their state: after one process wrote, another answers otherwise to"
        notes.append(f"{name}: episodes {what} {', '.join(sorted(leaks))}: {CURE}")
    if moved:
        what = "change by themselves, as a clock's: no truth that calls it is met"
        notes.append(f"{name}: results of {', '.join(sorted(moved))} {what}")
    if unclear:
        what = "differ from process to process: by a clock or by chance, and no truth that calls it"
        notes.append(
            f"{name}: results of {', '.join(sorted(unclear))} {what} is met, or by a state that "
            f"they share: {CURE}"
        )
    return notes


def _looks(tools: type[McpInstance], truths: Sequence[Sequence[Call]]) -> list[Call]:
    """Return read-only calls: those of truths, and of their arguments' folders.

    Tools without needed arguments are called as they are.
    """
    calls: dict[str, Call] = {}
    items = [item for truth in truths for call in truth for item in call.arguments.items()]
    for doc, listed in zip(tools._server.tools, tools._server.listed, strict=True):
        only_reads = listed.only_reads
        if not (bool(_READS.match(doc.name)) if only_reads is None else only_reads):
            continue
        needed = doc.doc.parameters["required"]
        every = [call.arguments for truth in truths for call in truth if call.name == doc.name]
        if not needed:
            every.append({})
        elif len(needed) == 1:
            values = {text for key, value in items if key == needed[0] for text in _folders(value)}
            every += [{needed[0]: value} for value in sorted(values)]
        for arguments in every:
            call = Call(doc.name, arguments)
            calls[json.dumps([doc.name, arguments], sort_keys=True, default=str)] = call
    return list(calls.values())


def _quick_ones(instance: McpInstance, calls: Sequence[Call]) -> list[Call]:
    """Return the fast calls, as many as can be made in LOOK_S."""
    _results(instance, calls[:1])  # which starts the process
    quick, begun = list[Call](), time.monotonic()
    for call in calls:
        started = time.monotonic()
        if started - begun < LOOK_S:
            _results(instance, [call])
            quick += [call] * (time.monotonic() - started < LOOK_S / 2)
    return quick


def _folders(value: Any) -> list[str]:
    """Return a text and, for a path, its folder."""
    if not isinstance(value, str):
        return []
    return [value, value.rpartition("/")[0]] if "/" in value.strip("/") else [value]


def _results(instance: McpInstance, calls: Sequence[Call]) -> dict[int, tuple[str, str]]:
    """Make calls; return number -> (tool, result), with errors of the tool as texts."""
    results = {}
    for number, call in enumerate(calls):
        call_tool: Callable[..., Any] = getattr(instance, call.name)
        try:
            result = str(call_tool(**call.arguments))
        except InfrastructureError:
            raise
        except Exception as error:  # whatever a tool makes of its arguments
            result = f"error: {error}"
        results[number] = call.name, result
    return results


def _changed(old: Mapping[int, tuple[str, str]], new: Mapping[int, tuple[str, str]]) -> set[str]:
    return {name for number, (name, result) in old.items() if new[number][1] != result}
