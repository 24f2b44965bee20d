"""Registry of the tools of BFCL's multi-turn and agentic tasks, imported on demand.

A tool class has a constructor without arguments, `_load_scenario(scenario, long_context=False)`,
and public methods, all of them callable from a call string. What begins with "_" is neither
callable nor compared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

TOOL_CLASSES: dict[str, str] = {
    "GorillaFileSystem": "fctncalling.envs.tools.bfcl.gorilla_file_system:GorillaFileSystem",
    "MathAPI": "fctncalling.envs.tools.bfcl.math_api:MathAPI",
    "MessageAPI": "fctncalling.envs.tools.bfcl.message_api:MessageAPI",
    "TwitterAPI": "fctncalling.envs.tools.bfcl.posting_api:TwitterAPI",
    "TicketAPI": "fctncalling.envs.tools.bfcl.ticket_api:TicketAPI",
    "TradingBot": "fctncalling.envs.tools.bfcl.trading_bot:TradingBot",
    "TravelAPI": "fctncalling.envs.tools.bfcl.travel_booking:TravelAPI",
    "VehicleControlAPI": "fctncalling.envs.tools.bfcl.vehicle_control:VehicleControlAPI",
    "MemoryAPI_kv": "fctncalling.envs.tools.bfcl.memory_kv:MemoryAPI_kv",
    "MemoryAPI_vector": "fctncalling.envs.tools.bfcl.memory_vector:MemoryAPI_vector",
    "MemoryAPI_rec_sum": "fctncalling.envs.tools.bfcl.memory:MemoryAPI_rec_sum",
    "WebSearchAPI": "fctncalling.envs.tools.bfcl.web_search:WebSearchAPI",
}
"""BFCL class name -> "module:Class"."""

AGENTIC_TOOLS = frozenset({"MemoryAPI_kv", "MemoryAPI_vector", "MemoryAPI_rec_sum", "WebSearchAPI"})
"""Tools of the agentic categories: never in a task with one another, and their state is never
compared.
"""


def tool_class(name: str, extra: Mapping[str, type | str] | None = None) -> type:
    """Return the tool class of a name; the user's classes in `extra` take precedence.

    Raises LookupError, naming the known tools, for a name in neither.
    """
    extra_tools = extra or {}
    if name not in extra_tools and name not in TOOL_CLASSES:
        names = ", ".join(sorted({*TOOL_CLASSES, *extra_tools}))
        raise LookupError(
            f'no tool is called "{name}". Known tools: {names}. '
            "Pass a class of your own as tools={name: class}, or drop the tasks that involve it."
        )
    target = extra_tools[name] if name in extra_tools else TOOL_CLASSES[name]
    return target if isinstance(target, type) else _imported(name, target)


@lru_cache(maxsize=256)
def _imported(name: str, target: str) -> type:
    module, _, qualname = target.partition(":")
    if module == "mcp":
        return mcp_tool_class(target)
    cls = getattr(import_module(module), qualname)
    if not isinstance(cls, type):
        raise TypeError(
            f'tool "{name}" is registered as "{target}", which is {cls!r}; expected a class'
        )
    return cls


def mcp_tool_class(address: str) -> type:
    """Return the tool class of an MCP server; each instance starts a server process."""
    cls: type = import_module("fctncalling.lab.mcp_client.mcp_server").mcp_class(address)
    return cls


def load_bfcl_table(name: str) -> dict[str, Any]:
    """Load a table of BFCL's figures, `tables/<name>.json`, as a fresh copy.

    What one caller changes no other sees.
    """
    table: dict[str, Any] = json.loads(
        (Path(__file__).parent / "bfcl" / "tables" / f"{name}.json").read_text("utf-8")
    )
    return table
