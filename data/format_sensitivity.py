"""BFCL's format sensitivity: entries of other categories under 26 prompt configurations.

An id is `format_sensitivity_<number>:<configuration>:<id of the entry asked>`; docs, answer and
check are that entry's.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fctncalling.data.bfcl import load_tasks
from fctncalling.data.errors import TaskError
from fctncalling.data.types import Task

CATEGORY = "format_sensitivity"
RETURN_FORMATS = ("python", "json", "verbose_xml", "concise_xml")
DOC_FORMATS = ("python", "xml", "json")
_CONFIGURATION = re.compile(
    rf"ret_fmt=(?P<return_format>{'|'.join(RETURN_FORMATS)})&tool_call_tag=(?P<tagged>True|False)"
    rf"&func_doc_fmt=(?P<doc_format>{'|'.join(DOC_FORMATS)})"
    r"&prompt_fmt=(?P<markup>plaintext|markdown)&style=(?P<style>classic|experimental)"
)


@dataclass(frozen=True)
class PromptVariant:
    """Variant of the system prompt: one configuration of BFCL's format sensitivity.

    The defaults are those of every category but format sensitivity.
    """

    return_format: str = "python"  # how calls are to be written: one of RETURN_FORMATS
    tagged: bool = False  # whether they are to stand between <TOOLCALL> and </TOOLCALL>
    doc_format: str = "json"  # how the docs are written: one of DOC_FORMATS
    markup: str = "plaintext"  # or "markdown"
    style: str = "classic"  # or "experimental"

    def __str__(self) -> str:
        """Return the configuration as BFCL writes it into ids."""
        return (
            f"ret_fmt={self.return_format}&tool_call_tag={self.tagged}&func_doc_fmt={self.doc_format}"
            f"&prompt_fmt={self.markup}&style={self.style}"
        )

    @classmethod
    def parse(cls, text: str) -> PromptVariant:
        """Parse a configuration's text to its variant; raises ValueError."""
        match = _CONFIGURATION.fullmatch(text)
        if not match:
            raise ValueError(f'"{text}" is no prompt configuration: expected one like "{cls()}"')
        fields: dict[str, Any] = match.groupdict()
        return cls(**{**fields, "tagged": fields["tagged"] == "True"})


VARIANTS = (
    *(
        PromptVariant(return_format, tagged, doc_format)
        for return_format in RETURN_FORMATS
        for tagged in (True, False)
        for doc_format in DOC_FORMATS
    ),
    PromptVariant(markup="markdown"),
    PromptVariant(style="experimental"),
)
"""The 26 configurations BFCL asks under, in its order."""


def parse_variant_id(entry_id: str) -> tuple[PromptVariant, str]:
    """Parse an id of format sensitivity to a prompt variant and the entry's id.

    Raises ValueError for any other id.
    """
    parts = entry_id.split(":")
    if len(parts) != 3:
        raise ValueError(f'expected "{CATEGORY}_<number>:<configuration>:<id>", got "{entry_id}"')
    return PromptVariant.parse(parts[1]), parts[2]


def load_format_sensitivity_tasks(folder: str | Path) -> list[Task]:
    """Load the format-sensitivity tasks: every entry under the 26 prompt variants.

    They are numbered in BFCL's order.

    Each has the category of the entry it asks, which is what it is judged by. Raises TaskError
    where the folder lacks the list of ids or an entry that it names.
    """
    variants_of_entries = [
        (variant, task) for task in _entries(Path(folder)) for variant in VARIANTS
    ]
    return [
        replace(
            task,
            id=f"{CATEGORY}_{number}:{variant}:{task.id}",
            extra={**task.extra, "prompt_variant": variant},
        )
        for number, (variant, task) in enumerate(variants_of_entries)
    ]


def _entries(folder: Path) -> list[Task]:
    entries = []
    for category, ids in _listed(folder).items():
        file = _newest(folder, category)
        tasks = [task for task in load_tasks(file) if task.id in ids]
        if missing := set(ids) - {task.id for task in tasks}:
            raise TaskError(
                f"{file}: expected entries {sorted(missing)}, which format sensitivity asks"
            )
        entries += tasks
    return entries


def _listed(folder: Path) -> dict[str, list[str]]:
    file = _newest(folder, CATEGORY)
    try:
        listed = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TaskError(f"{file}: cannot be read: {error}") from None
    if not isinstance(listed, dict) or not all(isinstance(ids, list) for ids in listed.values()):
        raise TaskError(f"{file}: expected one object {{category: [ids]}}")
    return {category: ids for category, ids in listed.items() if ids}


def _newest(folder: Path, category: str) -> Path:
    name = re.compile(rf"BFCL_v\d+_{category}\.json")
    files = sorted(file for file in folder.glob("BFCL_v*.json") if name.fullmatch(file.name))
    if not files:
        raise TaskError(f"{folder}: no file of {category}: expected BFCL_v4_{category}.json")
    return files[-1]
