"""Registers the environment with Gymnasium, without importing Gymnasium for those who only judge answers."""

from __future__ import annotations

import sys
from typing import Any

ENV_ID = "FunctionCalling-v0"
ENTRY_POINT = "fctncalling.envs.function_calling:FunctionCallingEnv"


def register_environment() -> None:
    """Register now where Gymnasium is loaded, else as soon as it is."""
    if "gymnasium" in sys.modules:
        _register(sys.modules["gymnasium"])
    else:
        from fctncalling.when_loaded import WhenLoaded

        sys.meta_path.insert(0, WhenLoaded("gymnasium", _register))


def _register(gymnasium: Any) -> None:
    if ENV_ID not in gymnasium.registry:
        gymnasium.register(id=ENV_ID, entry_point=ENTRY_POINT)
