"""Several vLLM servers of one policy: requests spread over them, outages waited out.

A server that fails is left out at once, and its requests go to the others. A thread in the
background tries it again, brings it up to the current weights, and only then is it used again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

from fctncalling.algorithms.generation.engine_api import EngineError, RolloutError
from fctncalling.algorithms.vllm.client import (
    TRIES,
    Completion,
    MissingModelError,
    ServerAwayError,
    VllmClient,
)

FIRST_WAIT_S = 0.25  # before a server that failed is tried again; twice as long after each failure
MAX_WAIT_S = 5.0


@dataclass
class ServerHealth:
    """State of one server: whether requests go to it, and since when it fails."""

    client: VllmClient
    ready: bool = True
    away_since: float | None = None
    failure: str = ""
    refusal: RolloutError | None = None  # it answers, but cannot be brought up to date
    wait_s: float = 0.0  # before the next try
    next_try: float = 0.0
    back_at: float = 0.0
    slots: set[int] = field(default_factory=set)

    def postpone_retry(self) -> None:
        """Postpone the next retry of the server."""
        self.wait_s = min(MAX_WAIT_S, 2.0 * self.wait_s) or FIRST_WAIT_S
        self.next_try = time.monotonic() + self.wait_s


class WeightPublication(Protocol):
    """Interface of weight publication: versions of the policy that servers hold."""

    def update_server(self, client: VllmClient) -> None:
        """Update a server to the current version; RolloutError where it refuses that."""

    def complete(
        self, client: VllmClient, version: str, prompt: Sequence[int], **sampling: Any
    ) -> Completion:
        """Complete a prompt with a version of the weights.

        MissingModelError where the server does not hold it.
        """
        ...


logger = logging.getLogger(__name__)

PROBE_TIMEOUT_S = 10.0
SETTLED_S = 10.0  # after which a failure of a server that came back is another outage


class VllmServers:
    """vLLM servers that sample from one policy; all methods are for any thread.

    A slot stays with its server, whose prefix cache holds the episode so far. Without any server
    that answers, requests wait up to `patience_s`, then RolloutError. `offset` (a process's rank)
    is the server that gets the first slot.
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        patience_s: float = 600.0,
        timeout_s: float = 600.0,
        offset: int = 0,
    ) -> None:
        self.clients = [VllmClient(url, timeout_s=timeout_s) for url in urls]
        self.patience_s = patience_s
        servers = [ServerHealth(client) for client in self.clients]
        self._servers = servers[offset % len(servers) :] + servers[: offset % len(servers)]
        self.publication: WeightPublication | None = None
        # Held while weights change or a server is brought up to them, so that no server comes back
        # with the version before.
        self._publishing = threading.RLock()
        self._changed = threading.Condition()  # guards the fields of all servers
        self._closed = False
        self._recovery: threading.Thread | None = None

    @property
    def urls(self) -> str:
        """URLs of all servers, for messages."""
        return ", ".join(client.url for client in self.clients)

    def connect(self) -> None:
        """Connect to the servers; leave out those that do not answer.

        Raise what the first one failed with if none does.
        """
        failures: list[tuple[ServerHealth, Exception]] = []
        for server in self._servers:
            try:
                server.client.models(timeout_s=PROBE_TIMEOUT_S)
            except (EngineError, RolloutError, KeyError, TypeError, ValueError) as error:
                failures.append((server, error))
        if len(failures) == len(self._servers):
            raise failures[0][1]
        for server, failure in failures:
            self._note_outage(server, failure)

    def complete(
        self, slot: int, version: str, prompt: Sequence[int], **sampling: Any
    ) -> Completion:
        """Complete a prompt with a version of the weights, on the slot's server if it answers.

        EngineError where it fails for this request.
        """
        misses = 0
        while True:
            server = self._server_of(slot)
            try:
                completion = self._published.complete(server.client, version, prompt, **sampling)
            except ServerAwayError as error:
                self._note_outage(server, error)
            except MissingModelError as error:
                if (misses := misses + 1) == TRIES:
                    raise
                self._prepare(server, error)
            else:
                self._note_recovery(server)
                return completion

    def release_slot(self, slot: int) -> None:
        """Release a slot from its server: its next sequence may go to another."""
        with self._changed:
            for server in self._servers:
                server.slots.discard(slot)

    def update_weights(self, change: Callable[[], None]) -> None:
        """Update the published weights by a change, on every server that answers.

        Waits for a server where none answers; RolloutError where one refuses the weights.
        """
        with self._publishing:
            change()
            with self._changed:
                ready = [server for server in self._servers if server.ready]
            with ThreadPoolExecutor(max(1, len(ready)), "vllm-update") as pool:
                list(pool.map(self._try_prepare, ready))
        self._wait_for_ready()

    def ready_clients(self) -> list[VllmClient]:
        """Return the clients of the servers that are ready."""
        with self._changed:
            return [server.client for server in self._servers if server.ready]

    def close(self) -> None:
        """Close all connections; requests that wait for a server fail."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for client in self.clients:
            client.close()

    @property
    def _published(self) -> WeightPublication:
        if self.publication is None:
            raise EngineError("no weights were published to the servers yet")
        return self.publication

    def _server_of(self, slot: int) -> ServerHealth:
        """Return the slot's server, or the one with the fewest slots if it has none that answers.

        Waits while no server answers.
        """
        with self._changed:
            ready = self._wait_for_ready()
            for server in self._servers:
                if slot in server.slots and server.ready:
                    return server
                server.slots.discard(slot)
            chosen = min(ready, key=lambda server: len(server.slots))
            chosen.slots.add(slot)
            return chosen

    def _wait_for_ready(self) -> list[ServerHealth]:
        """Return the servers that answer, once there are any.

        RolloutError once all have failed for longer than `patience_s`, or refuse the weights.
        """
        with self._changed:
            while True:
                if self._closed:
                    raise EngineError(f"{self.urls}: the run ended before there was an answer")
                if ready := [server for server in self._servers if server.ready]:
                    return ready
                self._check_patience()
                self._changed.wait(min(1.0, self.patience_s))

    def _check_patience(self) -> None:
        """Raise RolloutError if no server has answered a request for longer than `patience_s`."""
        refusals = [server.refusal for server in self._servers if server.refusal is not None]
        if len(refusals) == len(self._servers):
            raise refusals[0]
        since = [server.away_since for server in self._servers if server.away_since is not None]
        if len(since) < len(self._servers):
            return
        away_s = time.monotonic() - max(since)
        if away_s > self.patience_s:
            last = max(self._servers, key=lambda server: server.away_since or 0.0)
            one = len(self._servers) == 1
            raise RolloutError(
                f"the vLLM {'server' if one else 'servers'} at {self.urls} "
                f"{'has' if one else 'have all'} been away for {away_s:.0f} s; the last: "
                f"{last.failure}"
            )

    def _prepare(self, server: ServerHealth, reason: Exception) -> None:
        """Bring a server up to the current weights that turned out not to hold them."""
        with self._publishing:
            logger.warning("a vLLM server gets its weights again: %s", reason)
            self._try_prepare(server)

    def _try_prepare(self, server: ServerHealth) -> None:
        """Bring a server up to the current weights, or leave it out while it is away."""
        try:
            self._published.update_server(server.client)
        except ServerAwayError as error:
            self._note_outage(server, error)

    def _note_outage(self, server: ServerHealth, error: Exception) -> None:
        """Leave a server out; warn at the first failure of an outage.

        An outage lasts until a request is answered; to come back and fail at once goes on with it.
        """
        with self._changed:
            now = time.monotonic()
            settled = server.ready and now - server.back_at > SETTLED_S
            if server.away_since is None or settled:
                server.away_since = now
                others = sum(each.ready for each in self._servers) - server.ready
                plan = f"waiting for it up to {self.patience_s:.0f} s"
                plan = f"going on with {others} other server(s)" if others else plan
                logger.warning(
                    "the vLLM server at %s does not answer (%s); %s, no episode is lost",
                    *(server.client.url, error, plan),
                )
            server.failure = str(error)
            if server.ready:
                server.ready = False
                server.slots.clear()
                server.postpone_retry()
            if self._recovery is None and not self._closed:
                self._recovery = threading.Thread(
                    target=self._recover, name="vllm-recovery", daemon=True
                )
                self._recovery.start()
            self._changed.notify_all()

    def _note_recovery(self, server: ServerHealth) -> None:
        """Report the end of an outage, if there was one: a request was answered."""
        if server.away_since is None:
            return
        with self._changed:
            since, server.away_since = server.away_since, None
            server.wait_s = 0.0
        if since is not None:
            logger.warning(
                "the vLLM server at %s answers again after %.1f s",
                server.client.url,
                time.monotonic() - since,
            )

    def _recover(self) -> None:
        """Bring servers back that were left out, until none is (the background thread)."""
        while True:
            with self._changed:
                away = [server for server in self._servers if not server.ready]
                if self._closed or not away:
                    self._recovery = None
                    return
                server = min(away, key=lambda each: each.next_try)
                pause_s = server.next_try - time.monotonic()
                if pause_s > 0:
                    self._changed.wait(pause_s)
                    continue
            self._bring_back(server)

    def _bring_back(self, server: ServerHealth) -> None:
        """Let a server take part again if it answers and takes the current weights."""
        refusal: RolloutError | None = None
        with self._publishing:
            try:
                server.client.models(timeout_s=PROBE_TIMEOUT_S)
                self._published.update_server(server.client)
                failure = ""
            except RolloutError as error:
                refusal, failure = error, str(error)
            except (EngineError, OSError, KeyError, TypeError, ValueError) as error:
                failure = str(error)
            with self._changed:
                if refusal is not None and server.refusal is None:
                    logger.warning("a vLLM server is left out: %s", refusal)
                server.refusal = refusal
                server.ready = not failure
                server.back_at = time.monotonic()
                if failure:
                    server.failure = failure
                    server.postpone_retry()
                self._changed.notify_all()
