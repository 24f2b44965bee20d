"""Environments: tasks, tools and handlers. Gymnasium is imported only with FunctionCallingEnv."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# At once, not lazily: importing the module of the same name would otherwise put the module in the
# function's place.
from fctncalling.envs.judging.judge import judge, judge_turns, replay_ground_truth

if TYPE_CHECKING:
    from fctncalling.envs.function_calling import FunctionCallingEnv
    from fctncalling.envs.judging.oracle import oracle_calls
    from fctncalling.envs.spaces import UnicodeText

__all__ = [
    "FunctionCallingEnv",
    "UnicodeText",
    "judge",
    "judge_turns",
    "oracle_calls",
    "replay_ground_truth",
]

_MODULES = {
    "FunctionCallingEnv": "function_calling",
    "UnicodeText": "spaces",
    "oracle_calls": "judging.oracle",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
