"""BFCL's memory as a running summary (`MemoryAPI_rec_sum`).

One bounded text that the model keeps rewriting.
"""

from __future__ import annotations

from typing import Any

from fctncalling.envs.tools.bfcl.memory import (
    MAX_SUMMARY_CHARS,
    Result,
    initial_memory,
    memory_prompt,
    summarize_conversations,
)


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
