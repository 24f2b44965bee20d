"""Import of user code named by flags, MODULE:NAME: rewards, algorithms and stateful tools."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fctncalling.algorithms.config import SettingError
from fctncalling.envs.errors import MissingExtra
from fctncalling.envs.named_tools import import_object
from fctncalling.envs.tools.box.callables import ToolDefinitionError
from fctncalling.envs.tools.box.toolbox import with_seed
from fctncalling.training.run_config import RunConfig


def import_user_object(flag: str, target: str) -> Any:
    """Import a user's object, MODULE:NAME; SettingError, naming flag and cure."""
    try:
        return import_object(target)
    except (ImportError, ToolDefinitionError, MissingExtra) as error:
        raise SettingError(f"--{flag} {target}: cannot be imported: {error}") from error


def load_reward(reward: str) -> Any:
    """Return a built-in reward by name, or the user's function MODULE:NAME.

    SettingError for anything else.
    """
    if ":" not in reward:
        return reward
    function = import_user_object("reward", reward)
    if not callable(function):
        raise SettingError(
            f"--reward {reward}: expected a function (StepRecord, Verdict | None) -> float, found "
            f"{function!r:.60}"
        )
    return function


def check_algorithm(name: str) -> None:
    """Raise SettingError if MODULE:NAME is no algorithm."""
    from fctncalling.algorithms.algorithm import Algorithm

    if ":" in name and not isinstance(
        algorithm := import_user_object("algorithm_name", name), Algorithm
    ):
        raise SettingError(
            f"--algorithm_name {name}: expected an Algorithm (fctncalling.algorithms.algorithm), "
            f"found {algorithm!r:.60}"
        )


def run_tool_classes(run_config: RunConfig) -> dict[str, str]:
    """Load a run's tool classes by name; SettingError."""
    return parse_tool_classes((run_config.tools or "").split(","), run_config.tools_seed)


def parse_tool_classes(tools: Iterable[str], seed: str | None = None) -> dict[str, str]:
    """Parse NAME=MODULE:CLASS texts to {name: "MODULE:CLASS"}; SettingError.

    `seed`: the folder that fills {tmp} of MCP servers.
    """
    tools = list(tools)
    if seed is not None and not any("{tmp}" in address for address in tools):
        raise SettingError(f"--tools_seed {seed}: expected {{tmp}} in a server's command (--tools)")
    classes = {}
    for text in filter(None, map(str.strip, tools)):
        name, _, target = text.partition("=")
        module, _, qualname = target.partition(":")
        if not (name and module and qualname):
            raise SettingError(f"--tools: expected NAME=MODULE:CLASS, got {text!r}")
        target = with_seed(target, seed)
        named = import_user_object("tools", target)
        if not isinstance(named, type):
            raise SettingError(f"--tools {text}: expected a class, found {named!r:.60}")
        classes[name] = target
    return classes
