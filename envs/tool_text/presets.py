"""Preset environments: calculator, python_math."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fctncalling.envs.tool_text.env import ToolTextEnv
from fctncalling.envs.tool_text.math_tasks import CalculatorTasks, MathTasks


def calculator(**keywords: Any) -> ToolTextEnv:
    """Return TRL's "learning to use a calculator".

    Generated sums, its call syntax, reward 1 for the right result.

    Keywords are ToolTextEnv's, and win.
    """
    defaults = {"handler": "request_call", "tools": ("calculator",), "reward": "numeric"}
    return ToolTextEnv(**_with_tasks(CalculatorTasks, {**defaults, **keywords}))


def python_math(**keywords: Any) -> ToolTextEnv:
    """Return ToolGRPO's job: problems with whole answers from 0 to 999, solved by writing Python.

    Keywords are ToolTextEnv's, and win: handler="markdown_block" takes fenced blocks,
    "request_call" several tools.
    """
    defaults = {"handler": "python_block", "tools": ("python_executor",), "reward": "aime"}
    return ToolTextEnv(**_with_tasks(MathTasks, {**defaults, **keywords}))


JOBS: dict[str, Callable[..., ToolTextEnv]] = {
    "calculator": calculator,
    "python_math": python_math,
    "tool_text": ToolTextEnv,
}
"""`--env_name` -> what makes the environment."""


def _with_tasks(maker: Callable[[], Any], keywords: dict[str, Any]) -> dict[str, Any]:
    if keywords.get("tasks") is None and keywords.get("dataset_path") is None:
        keywords["tasks"] = maker()
    return keywords
