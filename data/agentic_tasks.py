"""BFCL's agentic task variants: memory back ends and web search, from one task file.

`BFCL_v4_memory.json` is asked with three memory backends, `BFCL_v4_web_search.json` with and
without snippets. A variant is named like a file beside it, `BFCL_v4_memory_kv.json`, which need not
exist; so are the conversations that come before the questions, `BFCL_v4_memory_kv_prereq.json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from fctncalling.data.json_stream import read_entries
from fctncalling.data.types import Task

BACKENDS = ("kv", "vector", "rec_sum")
MEMORY = tuple(f"memory_{backend}" for backend in BACKENDS)
WEB_SEARCH = ("web_search_base", "web_search_no_snippet")
PREREQUISITES = tuple(f"{category}_prereq" for category in MEMORY)
CONVERSATIONS = "memory_prereq_conversation"
"""Folder of the conversations that fill the memory, one file for each scenario."""


@dataclass(frozen=True)
class AgenticVariant:
    """Variant of an agentic task file: a category, its files, and how its entries become tasks."""

    root: Path
    category: str
    base: str  # the category its entries are written for: "memory", "memory_prereq", "web_search"
    prefix: str = "BFCL_v4_"
    suffix: str = ".json"

    @property
    def files(self) -> list[Path]:
        """The files that hold the entries."""
        if self.category in PREREQUISITES:
            return sorted((self.root / CONVERSATIONS).glob("memory_*.json"))
        return [self.root / f"{self.prefix}{self.base}{self.suffix}"]

    @cached_property
    def prerequisite_conversations(self) -> dict[str, list[list[str]]]:
        """Prerequisite conversations, which fill a memory: user messages by scenario, in order."""
        by_scenario: dict[str, list[list[str]]] = {}
        for file in sorted((self.root / CONVERSATIONS).glob("memory_*.json")):
            for _, entry in read_entries(file):
                texts = [message["content"] for turn in entry["question"] for message in turn]
                by_scenario.setdefault(entry["scenario"], []).append(texts)
        return by_scenario

    def with_settings(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Add a variant's class and initial config to a raw entry.

        `raw` is not changed.
        """
        if self.base == "web_search":
            settings: dict[str, Any] = {"show_snippet": self.category != "web_search_no_snippet"}
            return {**raw, "initial_config": {"WebSearchAPI": settings}}
        name = f"MemoryAPI_{self.category.removeprefix('memory_').removesuffix('_prereq')}"
        settings = {"scenario": raw.get("scenario", "")}
        if self.base == "memory":
            settings["conversations"] = self.prerequisite_conversations.get(
                settings["scenario"], []
            )
        return {**raw, "involved_classes": [name], "initial_config": {name: settings}}

    def with_variant_id(self, task: Task) -> Task:
        """Return a task with the variant's id and category, as in BFCL's result files."""
        return replace(
            task, id=task.id.replace(self.base, self.category, 1), category=self.category
        )


def find_agentic_variant(path: Path) -> AgenticVariant | None:
    """Return the agentic variant of a task file, by its name.

    None for other names, and for a file that exists.
    """
    for category in (*PREREQUISITES, *MEMORY, *WEB_SEARCH):
        if path.stem == category or path.stem.endswith(f"_{category}"):
            base = "web_search" if category in WEB_SEARCH else "memory"
            base += "_prereq" if category in PREREQUISITES else ""
            variant = AgenticVariant(
                path.parent, category, base, path.stem.removesuffix(category), path.suffix
            )
            if path.exists() or not all(map(Path.exists, variant.files)) or not variant.files:
                return None
            return variant
    return None
