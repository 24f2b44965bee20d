"""Registration of the environments with Gymnasium, under ids with namespace and version."""

from __future__ import annotations

from gymnasium import register, registry

ENTRY_POINTS = {
    "FunctionCalling-v0": "fctncalling.envs.function_calling:FunctionCallingEnv",
    "fctncalling/Team-v0": "fctncalling.envs.team:TeamEnv",
    "fctncalling/ToolText-v0": "fctncalling.envs.tool_text.env:ToolTextEnv",
    "fctncalling/Calculator-v0": "fctncalling.envs.tool_text.env:calculator_env",
    "fctncalling/PythonMath-v0": "fctncalling.envs.tool_text.env:python_math_env",
}
"""Environment's id -> what makes it, imported when it is first made."""


def register_environments() -> None:
    """Register the Gymnasium environments that are not registered yet."""
    for env_id, entry_point in ENTRY_POINTS.items():
        if env_id not in registry:
            register(id=env_id, entry_point=entry_point)
