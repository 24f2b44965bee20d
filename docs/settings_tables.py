"""Hook of the site's builder: the tables of settings.md, made from the settings themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.config.config_fields import BASIC, SettingSpec, flags, format_value
from fctncalling.algorithms.config.model_presets import PRESETS
from fctncalling.cli.train_flags import CONFIG_SETTINGS
from fctncalling.training.run_config import EMBEDDED_MODEL_DEFAULTS, ENV_DEFAULTS, RunConfig

MARK = "::: settings"  # the line of the page that gives way to the tables


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page with the tables in place of their mark."""
    return markdown.replace(MARK, "\n".join(tables())) if MARK in markdown else markdown


def tables() -> Iterator[str]:
    """Yield the lines of a table for each group of flags, in the order of --help-all."""
    groups: dict[str, list[SettingSpec]] = {BASIC: []}
    for flag in (*flags(TrainConfig), *flags(RunConfig)):
        groups.setdefault(BASIC if flag.basic else flag.group, []).append(flag)
    for title, members in groups.items():
        yield f"\n## {title[0].upper()}{title[1:]}\n\n| flag | default | what it does |"
        yield "|---|---|---|"
        yield from map(_row, members)
    jobs = {"fctncalling_env, embedded model": EMBEDDED_MODEL_DEFAULTS, **ENV_DEFAULTS}
    for flag_name, sets in (("preset", PRESETS), ("env_name", jobs)):
        yield f"\n## What --{flag_name} sets\n\n| value | flags |\n|---|---|"
        for name, values in sets.items():
            words = " ".join(f"--{key} {shown(value)}" for key, value in values.items())
            yield f"| `{name}` | `{words}` |"


def _row(flag: SettingSpec) -> str:
    names = " ".join(f"`--{name}`" for name in (flag.name, *flag.aliases))
    names += " (of `--config`)" if flag.name in CONFIG_SETTINGS else ""
    expected = f" Expected: {flag.expected}." if flag.choices or flag.base is not str else ""
    sentence = (flag.sentence + expected).replace("|", r"\|").replace("<", "&lt;")
    return f"| {names} | `{shown(flag.default)}` | {sentence} |"


def shown(value: Any) -> str:
    return format_value(value).strip('"') or '""'
