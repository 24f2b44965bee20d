"""Arrival order of slow environments' responses, recorded and replayed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fctncalling.algorithms.rollout.env_pool import EnvPool, EnvResponse


class Arrival(NamedTuple):
    """One fetch: which slots' responses arrived after how many decode steps."""

    # decode steps since the last fetch, if that interrupted generation; 0: it did not
    passes: int
    slots: tuple[int, ...]  # whose responses arrived


class ArrivalLogError(ValueError):
    """The rollout does not fit the arrival order to be replayed."""


class ArrivalOrder:
    """Fetches environment responses and records when each arrived, or replays a recorded order."""

    def __init__(self, envs: EnvPool, recorded: Sequence[Arrival] | None = None) -> None:
        self._envs = envs
        self._recorded = recorded
        self._arrivals: list[Arrival] = []
        self._passes = 0
        self._interrupted = False
        self._early: dict[int, EnvResponse] = {}  # arrived before their turn in the record

    @property
    def arrivals(self) -> list[Arrival]:
        """Recorded arrivals; empty where all responses came in slot order and replay needs none."""
        return [] if self._envs.in_order else self._arrivals

    def interrupted(self, wanted: int) -> bool:
        """Whether generation should pause because `wanted` responses have arrived.

        Called after each decode step.
        """
        self._passes += 1
        if self._recorded is not None:
            self._interrupted = self._next(self._recorded).passes == self._passes
        else:
            self._interrupted = not self._envs.in_order and self._envs.num_arrived >= wanted
        return self._interrupted

    def recv(self, *, wait: bool) -> list[EnvResponse]:
        """Fetch the responses that are due now."""
        found = (
            self._due(self._recorded) if self._recorded is not None else self._envs.recv(wait=wait)
        )
        passes = self._passes if self._interrupted else 0
        self._arrivals.append(Arrival(passes, tuple(answer.slot for answer in found)))
        self._passes = 0
        self._interrupted = False
        return found

    def _due(self, recorded: Sequence[Arrival]) -> list[EnvResponse]:
        """Wait for the responses of the slots next in the record, and return these alone."""
        slots = self._next(recorded).slots
        while missing := [slot for slot in slots if slot not in self._early]:
            if not (came := self._envs.recv(wait=True)):
                raise ArrivalLogError(
                    f"the arrival order has environments {missing} answer, which were asked nothing"
                )
            self._early |= {answer.slot: answer for answer in came}
        return [self._early.pop(slot) for slot in slots]

    def _next(self, recorded: Sequence[Arrival]) -> Arrival:
        if len(self._arrivals) >= len(recorded):
            raise ArrivalLogError(
                f"the arrival order ends after {len(recorded)} fetches, and the episodes have not"
            )
        return recorded[len(self._arrivals)]


class ArrivalLog:
    """Arrival orders of a run's rollouts, one JSON line each: written, or read to replay them."""

    def __init__(self, path: Path, *, replayed: bool) -> None:
        self._path = path
        self._lines = dict[str, list[Arrival]]()
        self.replayed = replayed
        if replayed:
            for line in path.read_text(encoding="utf-8").splitlines():
                entry = json.loads(line)
                # "meetings": the key in logs of older versions
                arrivals = entry["arrivals"] if "arrivals" in entry else entry["meetings"]
                self._lines[entry["rollout"]] = [
                    Arrival(passes, tuple(slots)) for passes, slots in arrivals
                ]

    def recorded(self, name: str) -> list[Arrival] | None:
        """Return the arrival order of a rollout to replay.

        None if all its responses came in slot order.
        """
        return self._lines.get(name)

    def append(self, name: str, arrivals: Sequence[Arrival]) -> None:
        """Append the arrivals of a rollout, if there are any to replay."""
        if arrivals and not self.replayed:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"rollout": name, "arrivals": arrivals}) + "\n")
