"""Environments that wait, hang, fail and kill their process where a test tells them to; no torch in
here.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import gymnasium


class TwoStepEnv(gymnasium.Env[str, str]):
    """Two steps; `faults` maps a task to what its first step does: raise, kill,
    or what is called.
    """

    observation_space = gymnasium.spaces.Text(1000)
    action_space = gymnasium.spaces.Text(1000)

    def __init__(self, faults: dict[str, Any] | None = None) -> None:
        self.faults = faults or {}
        self.thread = threading.get_ident()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.task_id, self.count = str((options or {})["task_id"]), 0
        return f"task {self.task_id}", {"task_id": self.task_id, "pid": os.getpid()}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.count += 1
        fault = self.faults.get(self.task_id) if self.count == 1 else None
        if fault == "raise":
            raise OSError("the disk is gone")
        if fault == "interrupt":
            raise KeyboardInterrupt
        if callable(fault):
            fault()
        ended = self.count == 2
        return (
            f"answer {self.count}",
            float(ended),
            ended,
            False,
            {"task_id": self.task_id, "is_success": ended},
        )


class Gate:
    """Holds a step up until so many others were counted."""

    def __init__(self, needed: int) -> None:
        self.needed, self.seen, self._open = needed, 0, threading.Event()

    def count(self, *_: object) -> None:
        self.seen += 1
        if self.seen >= self.needed:
            self._open.set()

    def open(self) -> None:
        self._open.set()

    def __call__(self) -> None:
        assert self._open.wait(120), "nobody else went on meanwhile"
