"""Mended tasks: an office sends files with some luck, and mistakes can be undone.

The ending of a file says where it goes, by a rule that is said once. An unwrapped file may be torn
on its way; wrapping it costs a step. What was sent wrong can be recalled and what was torn
reprinted, each for one of a few coins. Where a turn is to end with something amiss the user may
notice, or not. So there is more than one way to the goal, and a mistake costs chances rather than
the task: to be on the truth's path does not say all.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fctncalling.data.types import Message, StepRecord, Task, Verdict
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.evaluation.scripted_policies import ONE_CALL_A_STEP
from fctncalling.lab.embedded.demonstrator import parse_truth_call
from fctncalling.lab.embedded.stream_tasks import PLACES
from fctncalling.lab.embedded.vocabulary import (
    Entry,
    VocabularyDraw,
    distinct_entries,
    is_reserved,
    render,
)

TEAR_RATE = 0.3  # of an unwrapped file
NOTICE_RATE = 0.5  # of a user who is told that a turn is done and something is amiss
COINS = 2
PRICE = 0.02  # of a coin that is spent, where right files pay 1
TURNS = ((2, 2, 2), (3, 3), (2, 1, 3))  # files of each turn
MAX_STEPS = 12  # of a turn
SENDS = ("file {file}", "put {file} away")


class PostOffice:
    """Office that sends files to folders.

    `sent` is all that the checker compares. Without a random stream, as in the replay of a ground
    truth, nothing is torn.
    """

    def __init__(self) -> None:
        self.sent: dict[str, str] = {}  # file -> folder
        self._wrapped: set[str] = set()
        self._torn: set[str] = set()
        self._coins = COINS
        self._chance: np.random.Generator | None = None

    def _hashed_state(self) -> list[Any]:
        """Return all state that decides later results, except chance."""
        return [self.sent, sorted(self._wrapped), sorted(self._torn), self._coins]

    def wrap(self, file_name: str) -> str:
        """Wrap a file, so that it cannot be torn when it is sent.

        Args:
            file_name (str): Name of the file.
        """
        self._wrapped.add(file_name)
        return "wrapped"

    def send(self, file_name: str, destination: str) -> str:
        """Send a file to a folder; an unwrapped one may be torn on its way.

        Args:
            file_name (str): Name of the file.
            destination (str): Folder to send it to.
        """
        if file_name in self.sent:
            return "not here"
        safe = file_name in self._wrapped or self._chance is None
        if file_name in self._torn or not (safe or self._chance_is_over(TEAR_RATE)):
            self._torn.add(file_name)
            return "torn"
        self.sent[file_name] = destination
        self._wrapped.discard(file_name)  # once recalled it is bare again
        return "done"

    def recall(self, file_name: str) -> str:
        """Recall a file that was sent, for a coin.

        Args:
            file_name (str): Name of the file.
        """
        if file_name not in self.sent:
            return "not there"
        return self._pay(lambda: self.sent.pop(file_name))

    def reprint(self, file_name: str) -> str:
        """Reprint a torn file, for a coin.

        Args:
            file_name (str): Name of the file.
        """
        if file_name not in self._torn:
            return "not torn"
        return self._pay(lambda: self._torn.remove(file_name))

    def _pay(self, mend: Any) -> str:
        if not self._coins:
            return "no coins"
        self._coins -= 1
        mend()
        return "done"

    def _chance_is_over(self, rate: float) -> bool:
        assert self._chance is not None
        return float(self._chance.random()) >= rate


class MendedEnv(FunctionCallingEnv):
    """Environment of mended tasks; chance comes from `np_random`, drawn once per reset."""

    def __init__(self, tasks: Sequence[Task], **rest: Any) -> None:
        tools = {"PostOffice": PostOffice}
        rest = {"reward": pay, "max_steps_per_turn": MAX_STEPS, **rest}
        super().__init__(tasks=tasks, tools=tools, user=self._answer, **rest)
        self.metadata = {**self.metadata, "in_process_tools": True}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Reset as FunctionCallingEnv does, and seed the episode's chance from `np_random`."""
        start = super().reset(seed=seed, options=options)
        self.reseed(int(self.np_random.integers(2**63)))
        return start

    def reseed(self, seed: int) -> None:
        """Reseed the chance to come."""
        self._office()["_chance"] = np.random.default_rng(seed)

    def _office(self) -> dict[str, Any]:
        session = self._required_state("office").session
        assert session is not None
        return session.live_state()["PostOffice"]

    def _answer(self, conversation: list[Message], about: Mapping[str, Any]) -> str | None:
        """Answer a message without calls: report a mistake, or end the turn."""
        office = self._office()
        for text in about["task"].ground_truth[about["turn"]]:
            wanted = parse_truth_call(text)[1]
            name, folder = wanted["file_name"], wanted["destination"]
            if office["sent"].get(name) != folder:
                noticed = office["_chance"].random() < NOTICE_RATE
                return f"{name} is not in {folder}" if noticed else None
        return None


def pay(step: StepRecord, verdict: Verdict | None) -> float:
    """Return a step's reward: 1 for a valid end, less PRICE for each coin spent."""
    spent = sum(
        call.startswith(("recall(", "reprint(")) and result == "done"
        for call, result in zip(step.executed, step.results, strict=True)
    )
    return float(verdict is not None and verdict.valid) - PRICE * spent


def mended_entry(draw: VocabularyDraw) -> Entry | None:
    """Draw an entry without id, with truth; None if its words belong to the other split."""
    folders: dict[str, str] = dict(zip(("csv", "txt"), draw.words("folder", 2), strict=True))
    first, second = draw.rng.sample(sorted(folders), 2)
    slots = {"first": first, "second": second}
    slots |= {f"{key}_folder": folders[ending] for key, ending in slots.items()}
    rules = draw.phrase(list(PLACES), slots, opens=False)
    sizes = draw.rng.choice(TURNS)
    names = iter(draw.words("file", sum(sizes)))
    turns = [[next(names) for _ in range(size)] for size in sizes]
    texts = [
        " then ".join(draw.phrase(list(SENDS), {"file": name}, opens=False) for name in turn)
        for turn in turns
    ]
    texts[0] = f"{rules} . {texts[0]}"
    if is_reserved(" ".join(texts)) != draw.held_out:
        return None
    return {
        "question": [[{"role": "user", "content": text}] for text in texts],
        "initial_config": {},
        "involved_classes": ["PostOffice"],
        "ground_truth": [
            [
                render("send", {"file_name": name, "destination": folders[name[-3:]]})
                for name in turn
            ]
            for turn in turns
        ],
        ONE_CALL_A_STEP: True,
    }


def mended_entries(split: str, num_tasks: int, *, seed: int = 0, first_id: int = 0) -> list[Entry]:
    """Return distinct entries of a split ("train" or "held_out")."""
    rng = random.Random(f"mended_{split} {seed}")
    draw = VocabularyDraw(rng, held_out=split == "held_out")
    made = distinct_entries(
        lambda: mended_entry(draw), num_tasks, "multi_turn_base", first_id=first_id, seen=set()
    )
    return list(made)
