"""Base of BFCL's memory tools: limits, initial content, and its text in the prompt.

Earlier conversations are replayed into a memory. The memory of one running text
(`MemoryAPI_rec_sum`), which the model keeps rewriting, is here too.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from fctncalling.envs.tools import load_bfcl_table

Conversations = tuple[tuple[str, ...], ...]

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_WORD = re.compile(r"[a-z]{4,}")
_NAME_OR_NUMBER = re.compile(r"(?<=[\w,;:] )[A-Z][\w'-]+|\S*\d\S*|%|\$")
_KEY_WORDS = 6
_PREFIX = re.compile(r"[a-z]+")


def make_conversations_hashable(conversations: Iterable[Iterable[str]]) -> Conversations:
    """Convert conversations to tuples, which can be keys of a cache."""
    return tuple(tuple(texts) for texts in conversations)


@lru_cache(maxsize=16)
def split_into_notes(
    conversations: Conversations, max_notes: int, max_chars: int
) -> tuple[str, ...]:
    """Split conversations between sentences into notes of at most `max_chars` characters.

    A note begins anew with each conversation, or, where that makes more than `max_notes`, only
    where one is full.
    """
    apart = [note for texts in conversations for note in _packed(_sentences(texts), max_chars)]
    if len(apart) <= max_notes:
        return tuple(apart)
    return tuple(
        _packed([sentence for texts in conversations for sentence in _sentences(texts)], max_chars)
    )


@lru_cache(maxsize=16)
def note_keys(texts: tuple[str, ...], prefix: str) -> tuple[str, ...]:
    """Return a key in snake_case for each note, of its number and its most telling words."""
    counts = [Counter(_WORD.findall(text.lower())) for text in texts]
    spread = Counter(word for count in counts for word in count)
    prefix = prefix if _PREFIX.fullmatch(prefix) else "note"
    made = []
    for number, count in enumerate(counts, 1):
        weight = {word: n * math.log((1 + len(texts)) / spread[word]) for word, n in count.items()}
        telling = sorted(weight, key=lambda word: (-weight[word], word))[:_KEY_WORDS]
        made.append("_".join([prefix, str(number), *telling]))
    return tuple(made)


@lru_cache(maxsize=16)
def conversation_openings(
    conversations: Conversations, max_notes: int, max_chars: int
) -> tuple[str, ...]:
    """Return the openings of conversations, in which people introduce themselves, as notes."""
    beginnings = (next(iter(_packed(_sentences(texts), max_chars)), "") for texts in conversations)
    return tuple(islice(filter(None, beginnings), max_notes))


@lru_cache(maxsize=16)
def summarize_conversations(conversations: Conversations, max_chars: int) -> str:
    """Select the sentences richest in names and numbers, as many as fit."""
    sentences = [sentence for texts in conversations for sentence in _sentences(texts)]
    richness = [len(_NAME_OR_NUMBER.findall(text)) / (20 + len(text)) for text in sentences]
    chosen, used = set[int](), 0
    for index in sorted(range(len(sentences)), key=lambda index: (-richness[index], index)):
        if used + len(sentences[index]) + 1 <= max_chars:
            chosen.add(index)
            used += len(sentences[index]) + 1
    return "\n".join(sentences[index] for index in sorted(chosen))


def _sentences(texts: Sequence[str]) -> list[str]:
    return [
        sentence for text in texts for sentence in _SENTENCE_END.split(text.strip()) if sentence
    ]


def _packed(sentences: Iterable[str], max_chars: int) -> Iterable[str]:
    note = ""
    for sentence in sentences:
        for start in range(0, len(sentence), max_chars):
            piece = sentence[start : start + max_chars]
            if note and len(note) + 1 + len(piece) > max_chars:
                yield note
                note = ""
            note = f"{note} {piece}" if note else piece
    if note:
        yield note


Result = dict[str, Any]

_TABLE = load_bfcl_table("memory")


class MemoryLimits(NamedTuple):
    """Size limits of one part of a memory."""

    max_entries: int
    max_chars: int  # of one entry


CORE = MemoryLimits(**_TABLE["core"])
ARCHIVAL = MemoryLimits(**_TABLE["archival"])
MAX_SUMMARY_CHARS: int = _TABLE["rec_sum"]["max_chars"]
ENCODER: str = _TABLE["encoder"]

_TWO_PARTS = (
    "You have a memory that outlasts this conversation, in two parts. Core memory is small and "
    "always shown to you; archival memory holds far more and is read by calls only. Keep in it "
    "whatever later conversations may need, and look there before you answer what was said in "
    "earlier ones."
)
_ONE_TEXT = (
    "You have a memory that outlasts this conversation: one text, shown to you here. Keep in it "
    "whatever later conversations may need, and look there before you answer what was said in "
    "earlier ones."
)


def initial_memory(scenario: dict[str, Any]) -> tuple[dict[str, Any] | None, Conversations]:
    """Return the initial memory: a snapshot's content, or notes of conversations.

    Raises ValueError where the snapshot is no object or the conversations are no lists of texts.

    BFCL has the tested model itself hold those conversations and keep notes, then asks its
    questions in a new one. Where no such notes are given (as a `snapshot`), a scripted note-taker
    takes their place: the same for every policy, without a model, within the memory's bounds. What
    a bound refuses is lost, as it is for a model.
    """
    snapshot, conversations = scenario.get("snapshot"), scenario.get("conversations", [])
    if snapshot is not None and not isinstance(snapshot, dict):
        raise ValueError(
            f"snapshot: expected an object, the public state of such a memory, got {snapshot!r:.80}"
        )
    if not all(isinstance(text, str) for texts in conversations for text in texts):
        raise ValueError(
            "conversations: expected a list of conversations, each a list of the user's messages"
        )
    return snapshot, () if snapshot is not None else make_conversations_hashable(conversations)


def memory_prompt(scenario_name: str, content: str, *, two_parts: bool) -> str:
    """Return the prompt text about a memory, which a model gets before its first call."""
    role: str = _TABLE["roles"].get(scenario_name, "")
    held = "Core memory" if two_parts else "Memory"
    text = f"{held} holds:\n{content}" if content else f"{held} is empty."
    return "\n\n".join(filter(None, [role, _TWO_PARTS if two_parts else _ONE_TEXT, text]))


class MemoryAPI_rec_sum:
    """Memory of one text of bounded length.

    Not where a replacement repeats.
    """

    memory: str

    def _load_scenario(self, scenario: dict[str, Any], long_context: bool = False) -> None:
        snapshot, conversations = initial_memory(scenario)
        self._scenario = str(scenario.get("scenario", ""))
        self.memory = str((snapshot or {}).get("memory", ""))
        self.memory_append(summarize_conversations(conversations, MAX_SUMMARY_CHARS))

    def _context(self) -> str:
        return memory_prompt(self._scenario, self.memory, two_parts=False)

    def memory_append(self, text: str) -> Result:
        """Append a text to the memory."""
        if len(self.memory) + len(str(text)) > MAX_SUMMARY_CHARS:
            return _too_long()
        self.memory += str(text)
        return {"status": "Text appended."}

    def memory_update(self, text: str) -> Result:
        """Replace the whole memory by a text."""
        if len(str(text)) > MAX_SUMMARY_CHARS:
            return _too_long()
        self.memory = str(text)
        return {"status": "Memory updated."}

    def memory_clear(self) -> Result:
        """Clear the memory."""
        self.memory = ""
        return {"status": "Memory cleared."}

    def memory_replace(self, old_text: str, new_text: str) -> Result:
        """Replace all occurrences of an old text by a new one.

        As in BFCL only the new text's length is bounded.
        """
        if str(old_text) not in self.memory:
            return {"error": f"The memory does not hold the text '{old_text}'."}
        if len(str(new_text)) > MAX_SUMMARY_CHARS:
            return _too_long()
        self.memory = self.memory.replace(str(old_text), str(new_text))
        return {"status": "Memory updated."}

    def memory_retrieve(self) -> Result:
        """Return the whole memory; an empty one is an error."""
        return {"memory_content": self.memory} if self.memory else {"error": "The memory is empty."}


def _too_long() -> Result:
    return {
        "error": f"The memory would get too long: at most {MAX_SUMMARY_CHARS} characters are kept."
    }
