"""Registers the environments with Gymnasium, without importing Gymnasium for those who only judge
answers.
"""

from __future__ import annotations

import sys
from typing import Any

ENTRY_POINTS = {
    "FunctionCalling-v0": "fctncalling.envs.function_calling:FunctionCallingEnv",
    "ToolText-v0": "fctncalling.envs.tool_text.env:ToolTextEnv",
    "calculator": "fctncalling.envs.tool_text.presets:calculator",
    "python_math": "fctncalling.envs.tool_text.presets:python_math",
}
"""Environment's id -> what makes it."""


def register_environment() -> None:
    """Register now where Gymnasium is loaded, else as soon as it is."""
    if "gymnasium" in sys.modules:
        _register(sys.modules["gymnasium"])
    else:
        from fctncalling.when_loaded import WhenLoaded

        sys.meta_path.insert(0, WhenLoaded("gymnasium", _register))


def _register(gymnasium: Any) -> None:
    for env_id, entry_point in ENTRY_POINTS.items():
        if env_id not in gymnasium.registry:
            gymnasium.register(id=env_id, entry_point=entry_point)
