"""BFCL's memory with search by meaning (`MemoryAPI_vector`).

Entries found by the likeness of their sentence embeddings.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fctncalling.envs.errors import import_extra
from fctncalling.envs.tools.bfcl.memory import (
    ARCHIVAL,
    CORE,
    ENCODER,
    MemoryLimits,
    Result,
    conversation_openings,
    initial_memory,
    memory_prompt,
    split_into_notes,
)

Encoder = Callable[[Sequence[str]], Any]
"""Texts -> their embeddings, (texts, dimensions), each of length 1."""


@lru_cache(maxsize=1)
def sentence_encoder() -> Encoder:
    """Load BFCL's sentence encoder, once per process.

    Raises MissingExtra where its library is not installed.
    """
    library = import_extra("sentence_transformers", "memory-vector", "MemoryAPI_vector")
    model = library.SentenceTransformer(ENCODER, device="cpu")
    return lambda texts: model.encode(list(texts), normalize_embeddings=True)


class MemoryAPI_vector:
    """Memory of numbered texts, retrieved by similarity: a core and an archive.

    A subclass may set `_encoder` to embed texts in another way.

    A store is {"next_id", "store": {number: text}}, as BFCL writes its snapshots; numbers are never
    used twice.
    """

    core_memory: dict[str, Any]
    archival_memory: dict[str, Any]
    _encoder: Encoder | None = None

    def _load_scenario(self, scenario: dict[str, Any], long_context: bool = False) -> None:
        snapshot, conversations = initial_memory(scenario)
        self._scenario = str(scenario.get("scenario", ""))
        self._vectors: dict[str, Any] = {}  # text -> its embedding
        # A missing library is told before the first call, not in the middle of an episode.
        self._encode([""])
        self.core_memory = _taken((snapshot or {}).get("core_memory"))
        self.archival_memory = _taken((snapshot or {}).get("archival_memory"))
        for note in split_into_notes(conversations, *ARCHIVAL):
            self.archival_memory_add(note)
        for note in conversation_openings(conversations, *CORE):
            self.core_memory_add(note)

    def _context(self) -> str:
        store = self.core_memory["store"]
        return memory_prompt(
            self._scenario, json.dumps(store, indent=4) if store else "", two_parts=True
        )

    def _hashed_state(self) -> list[Any]:
        """Return all state but the embeddings: their last digits differ between machines."""
        return [self._scenario, self.core_memory, self.archival_memory]

    def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        encoder = type(self)._encoder or sentence_encoder()
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            self._vectors.update(zip(new, np.asarray(encoder(new), dtype=np.float32), strict=True))
        return np.stack([self._vectors[text] for text in texts])

    def _retrieve(self, part: dict[str, Any], query: str, top_k: int) -> Result:
        store: dict[int, str] = part["store"]
        if not store:
            return {"result": []}
        likeness = self._encode(list(store.values())) @ self._encode([query])[0]
        best = np.argsort(-likeness, kind="stable")[: max(0, top_k)]
        ids = list(store)
        return {
            "result": [
                {"id": ids[at], "similarity_score": float(likeness[at]), "text": store[ids[at]]}
                for at in best.tolist()
            ]
        }

    def core_memory_add(self, text: str) -> Result:
        """Add a text to the core and return its number."""
        return _add(self.core_memory, CORE, text)

    def core_memory_remove(self, vec_id: int) -> Result:
        """Remove a text from the core."""
        return _remove(self.core_memory, vec_id)

    def core_memory_update(self, vec_id: int, new_text: str) -> Result:
        """Replace a text of the core."""
        return _update(self.core_memory, CORE, vec_id, new_text)

    def core_memory_clear(self) -> Result:
        """Clear the core; numbers restart at 0."""
        self.core_memory = _taken(None)
        return {"status": "Core memory cleared."}

    def core_memory_retrieve(self, query: str, top_k: int = 5) -> Result:
        """Return the texts of the core most similar to a query, best first."""
        return self._retrieve(self.core_memory, query, top_k)

    def core_memory_retrieve_all(self) -> Result:
        """Return all texts of the core."""
        return _everything(self.core_memory)

    def archival_memory_add(self, text: str) -> Result:
        """Add a text to the archive and return its number."""
        return _add(self.archival_memory, ARCHIVAL, text)

    def archival_memory_remove(self, vec_id: int) -> Result:
        """Remove a text from the archive."""
        return _remove(self.archival_memory, vec_id)

    def archival_memory_update(self, vec_id: int, new_text: str) -> Result:
        """Replace a text of the archive."""
        return _update(self.archival_memory, ARCHIVAL, vec_id, new_text)

    def archival_memory_clear(self) -> Result:
        """Clear the archive; numbers restart at 0."""
        self.archival_memory = _taken(None)
        return {"status": "Archival memory cleared."}

    def archival_memory_retrieve(self, query: str, top_k: int = 5) -> Result:
        """Return the texts of the archive most similar to a query, best first."""
        return self._retrieve(self.archival_memory, query, top_k)

    def archival_memory_retrieve_all(self) -> Result:
        """Return all texts of the archive."""
        return _everything(self.archival_memory)


def _taken(part: dict[str, Any] | None) -> dict[str, Any]:
    """Copy a memory store from a snapshot; text ids become int."""
    store = {int(number): text for number, text in (part or {}).get("store", {}).items()}
    return {"next_id": (part or {}).get("next_id", max(store, default=-1) + 1), "store": store}


def _add(part: dict[str, Any], bounds: MemoryLimits, text: str) -> Result:
    if len(text) > bounds.max_chars:
        return _too_long(bounds)
    if len(part["store"]) >= bounds.max_entries:
        return {
            "error": f"This memory is full: it holds {bounds.max_entries} entries. Remove some "
            "first."
        }
    number: int = part["next_id"]
    part["next_id"] = number + 1
    part["store"][number] = text
    return {"id": number}


def _remove(part: dict[str, Any], number: int) -> Result:
    if number not in part["store"]:
        return _unknown(number)
    del part["store"][number]
    return {"status": f"Entry {number} removed."}


def _update(part: dict[str, Any], bounds: MemoryLimits, number: int, text: str) -> Result:
    if number not in part["store"]:
        return _unknown(number)
    if len(text) > bounds.max_chars:
        return _too_long(bounds)
    part["store"][number] = text
    return {"status": f"Entry {number} updated."}


def _everything(part: dict[str, Any]) -> Result:
    return {"result": [{"id": number, "text": text} for number, text in part["store"].items()]}


def _unknown(number: int) -> Result:
    return {"error": f"There is no entry {number}."}


def _too_long(bounds: MemoryLimits) -> Result:
    return {"error": f"The text is too long: at most {bounds.max_chars} characters are kept."}
