"""BFCL's key-value memory (`MemoryAPI_kv`): a small core in the prompt, and a larger archive."""

from __future__ import annotations

import json
import re
from typing import Any

from fctncalling.envs.tools.bfcl.memory import (
    ARCHIVAL,
    CORE,
    MemoryLimits,
    Result,
    conversation_openings,
    initial_memory,
    memory_prompt,
    note_keys,
    split_into_notes,
)
from fctncalling.envs.tools.local_corpus import rank_texts

# BFCL's pattern ends in "$", which lets one line break pass.
_KEY = re.compile(r"[a-z]+(_[a-z0-9]+)*\n?")
Entries = dict[str, str]


class MemoryAPI_kv:
    """Memory of texts by key: a core and an archive."""

    core_memory: Entries
    archival_memory: Entries

    def _load_scenario(self, scenario: dict[str, Any], long_context: bool = False) -> None:
        snapshot, conversations = initial_memory(scenario)
        self._scenario = str(scenario.get("scenario", ""))
        self.core_memory = dict((snapshot or {}).get("core_memory", {}))
        self.archival_memory = dict((snapshot or {}).get("archival_memory", {}))
        archived_notes = split_into_notes(conversations, *ARCHIVAL)
        for key, note in zip(
            note_keys(archived_notes, self._scenario), archived_notes, strict=True
        ):
            self.archival_memory_add(key, note)
        for number, note in enumerate(conversation_openings(conversations, *CORE), 1):
            self.core_memory_add(f"conversation_{number}", note)

    def _context(self) -> str:
        content = json.dumps(self.core_memory, indent=4) if self.core_memory else ""
        return memory_prompt(self._scenario, content, two_parts=True)

    def core_memory_add(self, key: str, value: str) -> Result:
        """Add a key and its value to the core.

        A full core, a long value, a malformed or known key is an error.
        """
        return _add(self.core_memory, CORE, str(key), str(value))

    def core_memory_remove(self, key: str) -> Result:
        """Remove a key from the core."""
        return _remove(self.core_memory, key)

    def core_memory_replace(self, key: str, value: str) -> Result:
        """Replace the value of a key in the core."""
        return _replace(self.core_memory, CORE, str(key), str(value))

    def core_memory_clear(self) -> Result:
        """Clear the core."""
        self.core_memory = {}
        return {"status": "Core memory cleared."}

    def core_memory_retrieve(self, key: str) -> Result:
        """Return the value of a key in the core."""
        return _retrieve(self.core_memory, key)

    def core_memory_list_keys(self) -> Result:
        """List the keys of the core."""
        return {"keys": list(self.core_memory)}

    def core_memory_key_search(self, query: str, k: int = 5) -> Result:
        """Return the k keys of the core most similar to a query, with BM25+ scores."""
        return {"ranked_results": rank_texts(query, list(self.core_memory))[:k]}

    def core_memory_retrieve_all(self) -> Result:
        """Return all keys and values of the core."""
        return self.core_memory

    def archival_memory_add(self, key: str, value: str) -> Result:
        """Add a key and its value to the archive.

        A full archive, a long value, a malformed or known key is an error.
        """
        return _add(self.archival_memory, ARCHIVAL, str(key), str(value))

    def archival_memory_remove(self, key: str) -> Result:
        """Remove a key from the archive."""
        return _remove(self.archival_memory, key)

    def archival_memory_replace(self, key: str, value: str) -> Result:
        """Replace the value of a key in the archive."""
        return _replace(self.archival_memory, ARCHIVAL, str(key), str(value))

    def archival_memory_clear(self) -> Result:
        """Clear the archive."""
        self.archival_memory = {}
        return {"status": "Archival memory cleared."}

    def archival_memory_retrieve(self, key: str) -> Result:
        """Return the value of a key in the archive."""
        return _retrieve(self.archival_memory, key)

    def archival_memory_list_keys(self) -> Result:
        """List the keys of the archive."""
        return {"keys": list(self.archival_memory)}

    def archival_memory_key_search(self, query: str, k: int = 5) -> Result:
        """Return the k keys of the archive most similar to a query, with BM25+ scores."""
        return {"ranked_results": rank_texts(query, list(self.archival_memory))[:k]}


def _add(entries: Entries, bounds: MemoryLimits, key: str, value: str) -> Result:
    if len(entries) >= bounds.max_entries:
        return {
            "error": f"This memory is full: it holds {bounds.max_entries} entries. Remove some "
            "first."
        }
    if len(value) > bounds.max_chars:
        return _too_long(bounds)
    if not _KEY.fullmatch(key):
        return {"error": "The key must be in snake_case, without spaces."}
    if key in entries:
        return {"error": "The key exists already."}
    entries[key] = value
    return {"status": "Entry added."}


def _replace(entries: Entries, bounds: MemoryLimits, key: str, value: str) -> Result:
    if key not in entries:
        return _unknown()
    if len(value) > bounds.max_chars:
        return _too_long(bounds)
    entries[key] = value
    return {"status": "Entry replaced."}


def _remove(entries: Entries, key: str) -> Result:
    if key not in entries:
        return _unknown()
    del entries[key]
    return {"status": "Entry removed."}


def _retrieve(entries: Entries, key: str) -> Result:
    return {"value": entries[key]} if key in entries else _unknown()


def _unknown() -> Result:
    return {"error": "There is no such key."}


def _too_long(bounds: MemoryLimits) -> Result:
    return {"error": f"The value is too long: at most {bounds.max_chars} characters are kept."}
