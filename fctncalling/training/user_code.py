"""Code of a user's own that flags name: rewards and stateful tools, as MODULE:NAME."""

from __future__ import annotations

import importlib
from typing import Any

from fctncalling.algorithms.config import SettingError


def imported(flag: str, target: str) -> Any:
    """Return what MODULE:NAME names; SettingError, naming the flag and the cure, where it is not
    there.
    """
    module, _, name = target.partition(":")
    if not (module and name):
        raise SettingError(f"--{flag}: got {target!r}, expected MODULE:NAME")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # whatever the module's own code raises
        raise SettingError(
            f"--{flag} {target}: cannot be imported ({type(error).__name__}: {error}); expected a "
            "name in a module on "
            "Python's path; set PYTHONPATH to its folder"
        ) from error
    return found


def reward_of(reward: str) -> Any:
    """Return a reward's name as it is, and the function that MODULE:NAME names; SettingError where
    it is none.
    """
    if ":" not in reward:
        return reward
    function = imported("reward", reward)
    if not callable(function):
        raise SettingError(
            f"--reward {reward}: expected a function (StepRecord, Verdict | None) -> float, found "
            f"{function!r:.60}"
        )
    return function


def stateful_tools(tools: str | None) -> dict[str, Any]:
    """Return the classes of --tools NAME=MODULE:CLASS by the names that tasks involve them by;
    SettingError.
    """
    found = {}
    for text in (tools or "").split(","):
        if not text.strip():
            continue
        name, _, target = text.strip().partition("=")
        if not (name and ":" in target):
            raise SettingError(f"--tools: got {text!r}, expected NAME=MODULE:CLASS")
        if not isinstance(imported("tools", target), type):
            raise SettingError(f"--tools {text}: expected a class")
        found[name] = target
    return found
