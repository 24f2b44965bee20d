"""A run over an own API: tasks one by one, no text twice."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from fctncalling.lab.forge.forge_run import REPEATED, ForgeFailure, LedgerLine
from fctncalling.lab.forge.forged_entry import NoSuchTask
from fctncalling.lab.forge.official_guard import digest
from fctncalling.lab.forge.own_api.askable_api import AskableApi
from fctncalling.lab.forge.own_api.own_entries import own_entry
from fctncalling.lab.forge.own_api.own_settings import OwnForgeSettings

MAX_ATTEMPTS = 60


class OwnForgeRun:
    """Makes the tasks of a file in their order. The hashes of what is there already go first."""

    def __init__(self, settings: OwnForgeSettings, api: AskableApi) -> None:
        self._settings = settings
        self._api = api
        self._seen = set[int]()

    def remember(self, texts: int) -> None:
        """Take note of the hash of a task that the file holds already."""
        self._seen.add(texts)

    def tasks(self, done: int = 0) -> Iterator[tuple[dict[str, Any], LedgerLine]]:
        """Yield (entry, ledger line) of each task, the first `done` left out.

        Raises ForgeFailure where the API has no further task of a category to give.
        """
        places = (
            (category, index)
            for category, count in self._settings.counts().items()
            for index in range(count)
        )
        for category, index in itertools.islice(places, done, None):
            yield self._task(category, index)

    def _task(self, category: str, index: int) -> tuple[dict[str, Any], LedgerLine]:
        thrown: Counter[str] = Counter()
        for attempt in range(MAX_ATTEMPTS):
            try:
                made = own_entry(self._api, category, self._settings.seed, index, attempt)
            except NoSuchTask as fault:
                raise ForgeFailure(f"{self._settings.api.source}: {fault}") from None
            thrown.update(made.thrown_away)
            texts = digest("\n".join(made.user_texts))
            if texts in self._seen:
                thrown[REPEATED] += 1
                continue
            self._seen.add(texts)
            entry = {**made.entry, "difficulty": made.difficulty}
            sha = f"{digest(json.dumps(entry, ensure_ascii=False)):016x}"
            return entry, LedgerLine(
                entry["id"], attempt, texts, sha, made.difficulty, made.provenance, thrown
            )
        raise ForgeFailure(
            f"{category}: no new text after {MAX_ATTEMPTS} attempts at number {index}: the API "
            f"gives about {index} of them; pass a smaller --num_tasks, or phrases of your own, "
            "--phrases FILE"
        )
