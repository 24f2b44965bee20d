"""Executor of Python snippets that are confined by the kernel; see `PythonExecutor`.

Unix only: Windows cannot confine them.
"""

from fctncalling.envs.tools.python_executor.config import ConfigError, ExecutorConfig, load_config
from fctncalling.envs.tools.python_executor.link import SandboxUnavailable
from fctncalling.envs.tools.python_executor.pool import PythonExecutor
from fctncalling.envs.tools.python_executor.result import STATUSES, ToolResult
from fctncalling.envs.tools.python_executor.session import PythonSession

__all__ = [
    "STATUSES",
    "ConfigError",
    "ExecutorConfig",
    "PythonExecutor",
    "PythonSession",
    "SandboxUnavailable",
    "ToolResult",
    "load_config",
]
