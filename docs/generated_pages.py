"""Makes the pages of settings, commands and names: `python docs/generated_pages.py`.

Settings, presets, flags and docstrings are said once, in the code; these pages show them where no
site is built.
"""

# ruff: noqa: E501 - paragraphs of a page

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from fctncalling.algorithms.config.config_fields import BASIC, Setting, format_value
from fctncalling.algorithms.config.model_presets import PRESETS
from fctncalling.cli.registry import subcommands
from fctncalling.cli.train_flags import NAMES_ELSEWHERE, SETTINGS
from fctncalling.data.paths import official_data_folder
from fctncalling.training.run_config import EMBEDDED_MODEL_DEFAULTS, ENV_DEFAULTS

DOCS = Path(__file__).parent

SETTINGS_HEAD = """# Settings

Every setting of `fctncalling train`, with its default. `--help` shows the basic flags, `--help-all` all; those *of `--config`*
are none. `--config FILE` takes all from YAML, JSON or a run's config.json, and in Python each is a field of `TrainConfig` or
`RunConfig`:

```python
from fctncalling import TrainConfig

TrainConfig(num_updates=100, lr=1e-5)  # a wrong name or value is told, with its range
```

This page is made from the settings themselves by `docs/generated_pages.py`.
"""

COMMANDS_HEAD = """# Commands

Every command but `fctncalling train`, whose flags are [Settings](settings.md): what it does, an example, and its flags.

`fctncalling` alone lists the commands; `fctncalling COMMAND --help` says what stands here. This page is made from the commands
themselves by `docs/generated_pages.py`.
"""

ELSEWHERE_HEAD = """
## Names in other libraries

TRL, verl, OpenRLHF, Stable-Baselines3 and RLlib call some settings by other names. `fctncalling train` answers such a flag with the
one here.

| here | there |
|---|---|"""

REFERENCE_HEAD = """# Reference

The public names of `fctncalling`, from their docstrings, by `docs/generated_pages.py`.

```python
import fctncalling

print(fctncalling.__all__)  # every name can be imported from `fctncalling` itself
help(fctncalling.FunctionCallingEnv.step)
```
"""

REFERENCE = {
    "fctncalling.envs.function_calling": "FunctionCallingEnv",
    "fctncalling.lab.dialogue": "Dialogue opening score info_to_json play aplay",
    "fctncalling.envs.judging.judge": "judge",
    "fctncalling.data.bfcl": "load_tasks iter_tasks",
    "fctncalling.data.types": "Task FunctionDoc Call StepRecord Episode Verdict",
    "fctncalling.envs.tools.python_executor": "PythonExecutor",
    "fctncalling.training.trainer": "Trainer",
    "fctncalling.evaluation.episode_log": "play_episodes",
    "fctncalling.lab.text_environment.text_environment": "TextEnvironment",
    "fctncalling.lab.text_environment.text_history": "TextHistory",
    "fctncalling.algorithms.algorithm": "Algorithm Trajectories AdvantageEstimate returns_to_go",
    "fctncalling.algorithms.advantages": "decomposed_gae action_gae",
}
"""Module -> names that the reference shows of it."""
SPECIAL = re.compile(r"(`[^`]*`)|(?<![\w-])(--[a-z]\w*)|(\*)")
"""Code of a text; a flag, or a star, outside of code."""
MEMBERS = {"FunctionCallingEnv": "reset step get_state set_state tasks executes_calls".split()}
"""Class -> its members that are shown; others show all that are public."""


def settings_page() -> str:
    """Return the page of the settings: a table for each group, in the order of --help-all."""
    return SETTINGS_HEAD + "\n".join(settings_tables()) + "\n"


def settings_tables() -> Iterator[str]:
    """Yield the lines of the tables of settings, presets and jobs."""
    groups: dict[str, list[Setting]] = {BASIC: []}
    for setting in SETTINGS.values():
        groups.setdefault(BASIC if setting.basic else setting.group, []).append(setting)
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
    yield ELSEWHERE_HEAD
    names: dict[str, list[str]] = {}
    for there, here in NAMES_ELSEWHERE.items():
        names.setdefault(here, []).append(f"`{there}`")
    for here, others in names.items():
        dashes = "--" * (here not in SETTINGS or SETTINGS[here].has_flag)
        yield f"| `{dashes}{here}` | {', '.join(others)} |"


def commands_page() -> str:
    """Return the page of the commands: docstring, example and flags of each."""
    return COMMANDS_HEAD + "".join(
        f"\n## {name}\n\n{_command(import_module(module))}"
        for name, module in subcommands().items()
    )


def _command(module: Any) -> str:
    text, _, example = (module.__doc__ or "").partition("\nexample:\n")
    parser = argparse.ArgumentParser(add_help=False)
    module.add_arguments(parser)
    helped = parser._get_formatter()._expand_help
    rows = [
        f"| {_flag(action)} | {_plain(helped(action)) if action.help else ''} |"
        for action in parser._actions
        if action.help != argparse.SUPPRESS  # a former name
    ]
    shown = [f"```\n{inspect.cleandoc(example)}\n```\n"] if example else []
    table = "| flag | what it does |\n|---|---|\n" + "\n".join(rows) + "\n" if rows else ""
    return "\n".join([_plain(text.strip()) + "\n", *shown, table])


def _flag(action: argparse.Action) -> str:
    names = ", ".join(f"`{name}`" for name in action.option_strings or [action.metavar or "?"])
    values = action.metavar if action.option_strings and action.nargs != 0 else None
    return f"{names} `{values}`" if isinstance(values, str) else names


def _plain(text: str) -> str:
    here = str(official_data_folder())
    text = text.replace(here, "data/bfcl").replace("|", r"\|").replace("<", "&lt;")
    return SPECIAL.sub(_marked, text)


def _marked(match: re.Match[str]) -> str:
    code, flag, star = match.groups()
    return code or (f"`{flag}`" if flag else rf"\{star}")


def _row(flag: Setting) -> str:
    names = " ".join(f"`--{name}`" for name in filter(None, (flag.name, flag.alias)))
    names = names if flag.has_flag else f"`{flag.name}` (of `--config`)"
    expected = f" Expected: {flag.expected}." if flag.choices or flag.base is not str else ""
    sentence = _plain(flag.sentence + expected)
    return f"| {names} | `{shown(flag.default)}` | {sentence} |"


def shown(value: Any) -> str:
    """Return a value as the tables show it."""
    return format_value(value).strip('"') or '""'


def reference_page() -> str:
    """Return the page of the public names: signature and docstring, members too."""
    return REFERENCE_HEAD + "".join(
        f"\n{level} {name}\n\n{text}\n" for level, name, text in reference_entries()
    )


def reference_entries() -> Iterator[tuple[str, str, str]]:
    """Yield heading marks, name and text of each entry."""
    for module, names in REFERENCE.items():
        for name in names.split():
            thing = getattr(import_module(module), name)
            yield "##", name, _entry(name, thing, f"from {module} import {name}\n\n")
            members = MEMBERS.get(name, list(vars(thing))) if inspect.isclass(thing) else []
            for member in members:
                found = inspect.getattr_static(thing, member)
                if member.startswith("_") or not _is_shown(found):
                    continue
                yield "###", f"{name}.{member}", _entry(member, getattr(thing, member))


def _is_shown(member: Any) -> bool:
    kinds = (property, classmethod, staticmethod)
    return inspect.isfunction(member) or isinstance(member, kinds)


def _entry(name: str, thing: Any, before: str = "") -> str:
    """Return signature and docstring of a function, class or property."""
    if not callable(thing):
        return inspect.getdoc(thing) or ""
    texts = [inspect.getdoc(thing) or ""]
    if inspect.isclass(thing) and inspect.isfunction(vars(thing).get("__init__")):
        texts.append(inspect.cleandoc(thing.__init__.__doc__ or ""))
    text = "\n\n".join(each for each in texts if each and not each.startswith(f"{name}("))
    text = re.sub(r"^## ", "#### ", text, flags=re.MULTILINE)
    return f"```py\n{before}{_signature(name, thing)}\n```\n\n{text}".rstrip()


class _Annotation(str):
    """An annotation printed as written in the source."""

    def __repr__(self) -> str:
        return str(self)


def _as_written(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return a parameter with annotation and default as the source has them."""
    written = getattr(parameter.annotation, "__forward_arg__", parameter.annotation)
    if isinstance(written, str):
        parameter = parameter.replace(annotation=_Annotation(written))
    if inspect.isfunction(parameter.default):
        parameter = parameter.replace(default=_Annotation(parameter.default.__name__))
    return parameter


def _signature(name: str, thing: Any) -> str:
    signature = inspect.signature(thing)
    known = [_as_written(each) for each in signature.parameters.values()]
    returned = signature.return_annotation
    if isinstance(returned, str):
        returned = _Annotation(returned)
    if inspect.isclass(thing) or returned in (None, "None"):
        returned = inspect.Signature.empty
    line = f"{name}{signature.replace(parameters=known, return_annotation=returned)}"
    if len(line) <= 96:
        return line
    parts, star = [], False
    for each in known:
        if each.kind == each.KEYWORD_ONLY and not star:
            parts.append("*")
        star = star or each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        parts.append(str(each))
    end = "" if returned is inspect.Signature.empty else f" -> {returned}"
    return f"{name}(\n    " + ",\n    ".join(parts) + f",\n){end}"


PAGES = {
    "settings.md": settings_page,
    "commands.md": commands_page,
    "reference.md": reference_page,
}
"""Page -> what makes it."""

if __name__ == "__main__":
    for page, make in PAGES.items():
        (DOCS / page).write_text(make(), encoding="utf-8")
