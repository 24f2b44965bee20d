"""Environment of tools called inside one assistant message."""

from fctncalling.envs.tool_text.env import ToolTextEnv

__all__ = ["ToolTextEnv"]
