"""What is known of one vLLM server."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from fctncalling.algorithms.generation.engine_api import RolloutError
from fctncalling.algorithms.vllm.client import VllmClient

FIRST_WAIT_S = 0.25  # before a server that failed is tried again; twice as long after each failure
MAX_WAIT_S = 5.0


@dataclass
class ServerState:
    """One server: whether requests go to it, and since when it fails."""

    client: VllmClient
    ready: bool = True
    away_since: float | None = None
    failure: str = ""
    refusal: RolloutError | None = None  # it answers, but cannot be brought up to date
    wait_s: float = 0.0  # before the next try
    next_try: float = 0.0
    back_at: float = 0.0
    slots: set[int] = field(default_factory=set)

    def postpone(self) -> None:
        """Set when the server is tried next."""
        self.wait_s = min(MAX_WAIT_S, 2.0 * self.wait_s) or FIRST_WAIT_S
        self.next_try = time.monotonic() + self.wait_s
