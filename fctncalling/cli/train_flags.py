"""Settings of `train`: flags over the file of --config, over presets, over defaults."""

from __future__ import annotations

import argparse
import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.config.config_fields import settings_of
from fctncalling.algorithms.config.model_presets import PRESETS
from fctncalling.training.run_config import EMBEDDED_MODEL_DEFAULTS, ENV_DEFAULTS, RunConfig

SETTINGS = {each.name: each for each in (*settings_of(TrainConfig), *settings_of(RunConfig))}
"""All settings of `train` by name."""

_BY_FLAG: dict[str, str] = json.loads(
    Path(__file__).with_name("names_elsewhere.json").read_text(encoding="utf-8")
)
NAMES_ELSEWHERE = {name: flag for flag, names in _BY_FLAG.items() for name in names.split()}
"""A flag's name in another trainer -> its name here; neither with dashes."""

FORMER_SETTINGS: dict[str, tuple[Any, str]] = {
    "env_processes": (0, "torchrun and --num_rollout_workers play in several processes"),
    "replay_arrivals": (None, "wait_for_tools: always makes a seed repeat a run"),
    "cut_patience": (5, "the alarm cut_actions tells, and no run is ended"),
    "normalize_rewards": (False, "reward_scale multiplies them by a constant"),
    "entropy_target": (None, "--entropy_coef is a constant"),
    "entropy_coef_step": (0.001, "--entropy_coef is a constant"),
    "loss_token_divisor": (None, "the divisor of token_sum is --max_episode_tokens"),
    "sft_warmup_share": (0.05, "it is 0.05"),
    "sft_final_lr_share": (0.05, "it is 0.05"),
    "starts": ("none", "a trial found no gain"),
}
"""Setting that went with version 0.3 -> what it was where nobody gave it, and what is there now."""

NEVER_FLAGS = frozenset({"adam_fused", "tf32", "tree_mask_price"})
FORMER_FLAGS = {name: f"went with version 0.3: {now}" for name, (_, now) in FORMER_SETTINGS.items()}
"""What is no flag -> since when, and what is there now."""
for _name in (name for name, setting in SETTINGS.items() if not setting.has_flag):
    _since = "was never one" if _name in NEVER_FLAGS else "went with version 0.4"
    FORMER_FLAGS[_name] = f"{_since}: a file has it, {_name}: ..., for --config FILE"
FORMER_FLAGS["critic_warmup_updates"] = (
    "went with version 0.4: --critic_warmup_episodes is its number of episodes"
)

DESCRIPTION_KEYS = ("command", "machine", "num_processes", "resolved", "versions")
"""Entries of a run's config.json that are no settings."""
MAX_CHARS = 1 << 18
MAX_DEPTH = 8


class CommandLine(NamedTuple):
    """Settings of a command line, and the names of those given explicitly."""

    settings: argparse.Namespace
    named: set[str]  # by flags or the file of --config
    given: set[str]  # to have an effect: by flags, or by one's own file where they have no flag

    def configs(self) -> tuple[TrainConfig, RunConfig]:
        """Return the checked settings; SettingError for those that contradict each other."""
        return TrainConfig.from_args(self.settings), RunConfig.from_args(self.settings)


def layer_settings(flags: Mapping[str, Any]) -> CommandLine:
    """Merge command-line settings over presets, files and defaults.

    That is as in the file of --config, then as its --preset, then as its --env_name or the
    embedded model has it. SettingError for a file that cannot be.
    """
    file, is_of_a_run = read_config_file(flags.get("config"))
    named = file | dict(flags)
    env_name = named.get("env_name", TrainConfig.env_name)
    is_embedded = env_name == TrainConfig.env_name and named.get("model_name_or_path") is None
    settings = {"config": None} | {name: each.default for name, each in SETTINGS.items()}
    settings |= EMBEDDED_MODEL_DEFAULTS if is_embedded else ENV_DEFAULTS.get(env_name, {})
    settings |= PRESETS.get(named.get("preset", ""), {}) | named
    without_flag = {name for name in file if not (is_of_a_run or SETTINGS[name].has_flag)}
    given = flags.keys() - {"config"} | without_flag
    return CommandLine(argparse.Namespace(**settings), set(named), given)


def read_config_file(path: str | None) -> tuple[dict[str, Any], bool]:
    """Read a config file: its settings by name, and whether it is the config.json of a run.

    Raises SettingError, naming file and setting, for what cannot be read, for unknown names and
    for values out of range.
    """
    entries = {} if path is None else _entries(Path(path))
    is_of_a_run = "command" in entries
    by_name = {each.alias: each for each in SETTINGS.values() if each.alias} | SETTINGS
    settings = {}
    for name, value in entries.items():
        if name in DESCRIPTION_KEYS or (name == "resume" and is_of_a_run):
            continue  # that a run was resumed is no setting of another one
        if name in FORMER_SETTINGS:
            usual, successor = FORMER_SETTINGS[name]
            if value != usual:
                raise SettingError(f"--config {path}: {name} went with version 0.3: {successor}")
            continue  # as every config.json of earlier versions has it
        if name not in by_name:
            near = difflib.get_close_matches(str(name), by_name, n=1, cutoff=0.75)
            hint = f"; is {near[0]} meant?" if near else ""
            raise SettingError(f"--config {path}: no setting is called {name!r}{hint}")
        setting = by_name[name]
        # as the command line would have it: YAML reads 1e-5 as text, say
        given = setting.joined(value)
        if isinstance(given, Mapping):  # of --chat_template_kwargs
            given = json.dumps(given)
        if given is None and setting.base is float and not setting.optional:
            given = "inf"  # for which JSON has no number
        plain = given is None or isinstance(given, bool)
        try:
            settings[setting.name] = setting.parse(str(given).lower() if plain else str(given))
        except argparse.ArgumentTypeError:
            mistake = setting.mistake(value)
            raise SettingError(f"--config {path}: {name}: {mistake}") from None
    return settings, is_of_a_run


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
