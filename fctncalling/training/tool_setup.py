"""Build the ToolBox that the flags ask for."""

from __future__ import annotations

import contextlib
from typing import Any

from fctncalling.algorithms.config import SettingError
from fctncalling.envs.errors import MissingExtra
from fctncalling.envs.tool_text.tools import search_tool
from fctncalling.envs.tools.box.callables import ToolDefinitionError
from fctncalling.envs.tools.box.mcp import TIMEOUT_S, with_scheme
from fctncalling.envs.tools.box.toolbox import MAX_CALLS, ToolBox, calculator_tool, python_tool
from fctncalling.envs.tools.python_executor import (
    ConfigError,
    ExecutorConfig,
    PythonExecutor,
    SandboxUnavailable,
    load_config,
)


def make_toolbox(
    *,
    enabled: bool,
    num_executors: int | None,
    config_path: str | None,
    mcp: str | None = None,
    mcp_timeout_s: float = TIMEOUT_S,
) -> ToolBox | None:
    """Return the tools that a configuration file in OpenRLHF's form enables.

    Without a file the Python executor and the calculator; and the tools of the MCP servers of `mcp`
    (an address a line). None without any.

    All environments of a run share the box: its limits on calls at once hold for all of them
    together. `num_executors`, where given, wins over the file's.

    Raises SettingError naming the flag, and the file and key where it is the configuration's fault.
    """
    if enabled:
        try:
            config = _configured(num_executors, config_path)
            tools = _tools(config, config_path)
        except ConfigError as error:
            raise SettingError(
                f"--{'tool_config_path' if config_path else 'enable_tool_use'}: {error}"
            ) from error
        except SandboxUnavailable as error:
            raise SettingError(f"--enable_tool_use: {error}") from error
        max_calls = config.max_tools_per_generation or MAX_CALLS
        return _box(
            tools, mcp, mcp_timeout_s, num_processes=config.max_running, max_calls=max_calls
        )
    for name, value in (("num_tool_executors", num_executors), ("tool_config_path", config_path)):
        if value is not None:
            raise SettingError(f"--{name}: has no effect without --enable_tool_use")
    return _box([], mcp, mcp_timeout_s) if mcp else None


def _box(tools: list[Any], mcp: str | None, mcp_timeout_s: float, **limits: Any) -> ToolBox:
    """Return a box with the tools and the MCP servers.

    SettingError for a server that cannot be had.
    """
    addresses = map(with_scheme, (mcp or "").splitlines())
    try:
        return ToolBox([*tools, *addresses], mcp_timeout_s=mcp_timeout_s, **limits)
    except (ToolDefinitionError, MissingExtra) as error:
        raise SettingError(f"--mcp: {error}") from error


def make_inline_toolbox(
    *, num_executors: int | None, config_path: str | None
) -> tuple[ToolBox, int | None]:
    """Return the tools of a job that calls them in mid-generation, and the calls it allows.

    They are the executor, the calculator and, where what ranks pages is installed, the local
    search; those that a configuration file enables, where there is one. Raises SettingError naming
    the flag.
    """
    try:
        config = _configured(num_executors, config_path)
        tools = _tools(config, config_path)
    except ConfigError as error:
        raise SettingError(
            f"--{'tool_config_path' if config_path else 'num_tool_executors'}: {error}"
        ) from error
    except SandboxUnavailable as error:
        raise SettingError(f"--env_name: its tools need the Python executor: {error}") from error
    if config_path is None:
        with contextlib.suppress(MissingExtra):  # an extra: the other tools do without it
            tools.append(search_tool())
    return ToolBox(tools, num_processes=config.max_running), config.max_tools_per_generation


def _configured(num_executors: int | None, config_path: str | None) -> ExecutorConfig:
    config = ExecutorConfig() if config_path is None else load_config(config_path)
    return config.with_keywords(num_executors=num_executors)


def _tools(config: ExecutorConfig, config_path: str | None) -> list[Any]:
    tools: list[Any] = []
    if config.enabled:
        tools.append(python_tool(PythonExecutor(config)))
    if config.calculator:
        tools.append(calculator_tool())
    if not tools:
        where = "--enable_tool_use" if config_path is None else config_path
        raise ConfigError(
            f"{where}: tools enables no tool; expected python_executor or calculator, or no tool "
            "use"
        )
    return tools
