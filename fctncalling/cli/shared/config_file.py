"""--config FILE: settings from a YAML or JSON file, or from the config.json of a run."""

from __future__ import annotations

import argparse
import difflib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fctncalling.algorithms.config.config_fields import Flag, SettingError, format_value

DESCRIPTION_KEYS = ("command", "machine", "num_processes", "resolved", "versions")
"""Entries of a run's config.json that are no settings."""


MAX_CHARS = 1 << 18
MAX_DEPTH = 8


def read_config_file(path: Path, known: Sequence[Flag]) -> dict[str, Any]:
    """Return the settings of a file: flag name (or an alias of it) -> value.

    Raises SettingError, naming file and setting, for what cannot be read, for unknown names and
    for values out of range.
    """
    entries = _entries(path)
    by_name = {name: flag for flag in known for name in (flag.name, *flag.aliases)}
    settings = {}
    for name, value in entries.items():
        if name in DESCRIPTION_KEYS or (name == "resume" and "command" in entries):
            continue  # that a run was resumed is no setting of another one
        if name not in by_name:
            near = difflib.get_close_matches(str(name), by_name, n=1, cutoff=0.75)
            hint = f"; is {near[0]} meant?" if near else ""
            raise SettingError(f"--config {path}: no setting is called {name!r}{hint}")
        flag = by_name[name]
        settings[flag.name] = _value(path, str(name), value, flag)
    return settings


def _entries(path: Path) -> Mapping[Any, Any]:
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_CHARS + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise SettingError(f"--config {path}: cannot be read: {reason}") from None
    if len(text) > MAX_CHARS:
        raise SettingError(f"--config {path}: has more than {MAX_CHARS:,} characters")
    try:
        entries = json.loads(text) if path.suffix == ".json" else _yaml(text)
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise SettingError(f"--config {path}: cannot be parsed: {reason}") from None
    if not isinstance(entries, Mapping):
        raise SettingError(
            f"--config {path}: expected settings by name, such as lr: 1e-5, got "
            f"{type(entries).__name__}"
        )
    return entries


def _yaml(text: str) -> Any:
    import yaml

    try:
        depth = 0
        for event in yaml.parse(text, yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):  # a few lines of them stand for gigabytes
                raise ValueError("aliases (*name) are not read: write the values out")
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise ValueError("it is nested too deep")
        return yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def _value(path: Path, name: str, value: Any, flag: Flag) -> Any:
    """Return a value as the command line would have it: YAML reads 1e-5 as text, say."""
    if flag.many and isinstance(value, list):
        value = flag.separator.join(map(str, value))
    if value is None and flag.base is float and not flag.optional:
        value = "inf"  # for which JSON has no number
    plain = value is None or isinstance(value, bool)
    try:
        return flag.parse(str(value).lower() if plain else str(value))
    except argparse.ArgumentTypeError:
        raise SettingError(
            f"--config {path}: {name}: got {format_value(value)}, expected "
            f"{flag.expected}{flag.suggestion(value)}"
        ) from None
