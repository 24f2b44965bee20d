"""HTTP client for vLLM: token-id completions, LoRA loading, retries."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from fctncalling.algorithms.generation.engine_api import EngineError, RolloutError

logger = logging.getLogger(__name__)

RETRY_STATUSES = (429, 502, 503, 504)  # the server, or a proxy before it, is starting or full
AUTH_STATUSES = (401, 403)
MAX_WAIT_S = 5.0  # between two attempts
TRIES = 4  # of a request that the server answers with an error


class Completion(NamedTuple):
    """Sampled continuation of a prompt."""

    ids: list[int]
    logprobs: list[float]
    reason: str  # "stop" or "length"
    stop: str | int | None  # the string or token that ended it, if the server names it


class VllmClient:
    """Asks a server, from any thread. While it is away, everyone waits up to `patience_s`, then
    RolloutError.

    `missing` is called with a model's name that the server does not know, such as an adapter's
    after a restart, before it is asked again. Wire format: vLLM's OpenAI-compatible /v1/completions
    with `return_token_ids`, and its run-time LoRA routes (VLLM_ALLOW_RUNTIME_LORA_UPDATING=1).
    """

    def __init__(
        self,
        url: str,
        *,
        patience_s: float = 600.0,
        timeout_s: float = 600.0,
        first_wait_s: float = 0.25,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        import httpx

        self.url = url.rstrip("/").removesuffix("/v1")
        self.patience_s = patience_s
        self._first_wait_s = first_wait_s
        self._clock = clock
        self.on_missing_model: Callable[[str], None] = lambda name: None
        key = os.environ.get("VLLM_API_KEY", "")  # as vLLM itself reads it
        self._client = httpx.Client(
            timeout=httpx.Timeout(timeout_s, connect=10.0),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
            headers={"Authorization": f"Bearer {key}"} if key else {},
        )
        self.errors: Any = httpx.TransportError
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._away_since: float | None = None

    def complete(self, model: str, prompt: Sequence[int], **sampling: Any) -> Completion:
        """Sample a continuation of a prompt of token ids; EngineError where the server fails."""
        body = {
            "model": model,
            "prompt": list(prompt),
            "logprobs": 0,
            "return_token_ids": True,
            **sampling,
        }
        reply = self._post("/v1/completions", body)
        for _ in range(TRIES - 1):
            if reply.status_code == 404:
                self.on_missing_model(model)
                reply = self._post("/v1/completions", body)
        try:
            [choice] = _json(reply)["choices"]
            ids, logprobs = list(choice["token_ids"]), list(choice["logprobs"]["token_logprobs"])
        except (KeyError, TypeError, ValueError) as error:
            raise EngineError(
                f"{self.url}: no token ids with their log-probabilities in the answer ({error!r})"
            ) from None
        if len(ids) != len(logprobs):
            raise EngineError(
                f"{self.url}: {len(ids)} token ids came with {len(logprobs)} log-probabilities"
            )
        return Completion(
            ids, logprobs, str(choice.get("finish_reason")), choice.get("stop_reason")
        )

    def best_logprob(self, model: str, prompt: Sequence[int], temperature: float) -> float:
        """Return the log-probability of the most likely token after a prompt."""
        body = {
            "model": model,
            "prompt": list(prompt),
            "logprobs": 1,
            "max_tokens": 1,
            "temperature": temperature,
        }
        [top] = _json(self._post("/v1/completions", body))["choices"][0]["logprobs"]["top_logprobs"]
        return float(max(top.values()))

    def models(self) -> list[str]:
        """Return the names of the models and adapters served; httpx.TransportError without a
        server.
        """
        return [
            str(each["id"]) for each in _json(self._client.get(f"{self.url}/v1/models"))["data"]
        ]

    def load_adapter(self, name: str, folder: str) -> None:
        """Load an adapter under a name; RolloutError where the server refuses it."""
        reply = self._post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": folder})
        if reply.status_code >= 300 and "already been loaded" not in reply.text:
            raise RolloutError(
                f"{self.url} does not take the adapter in {folder}: HTTP {reply.status_code}: "
                f"{reply.text[:300]}. It "
                "has to read that folder (--vllm_adapter_dir names another), and to run with "
                "--enable-lora, a "
                "--max-lora-rank of at least --lora_r and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"
            )

    def unload_adapter(self, name: str) -> None:
        """Unload an adapter; no error where the server is away or does not have it."""
        with contextlib.suppress(self.errors, RuntimeError):
            self._client.post(
                f"{self.url}/v1/unload_lora_adapter", json={"lora_name": name}, timeout=10.0
            )

    def close(self) -> None:
        """Close the connections; requests that wait for the server fail."""
        self._closed.set()
        self._client.close()

    def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the server's reply, retrying while it is away."""
        wait_s, failures = self._first_wait_s, 0
        while True:
            try:
                reply = self._client.post(self.url + path, json=body)
                outcome = f"HTTP {reply.status_code}: {reply.text[:200]}"
            except (self.errors, RuntimeError) as error:  # RuntimeError: the client was closed
                reply, outcome = None, f"{type(error).__name__}: {error}"
            if reply is None or reply.status_code in RETRY_STATUSES:
                self._note_outage(outcome)
            elif reply.status_code in AUTH_STATUSES:
                raise RolloutError(f"{self.url}: {outcome}. Is its key in VLLM_API_KEY?")
            elif reply.status_code >= 500 and failures + 1 < TRIES:
                failures += 1
            else:
                self._note_recovery()
                return reply
            if self._closed.wait(wait_s):
                raise EngineError(f"{self.url}: the run ended before there was an answer")
            wait_s = min(MAX_WAIT_S, 2.0 * wait_s)

    def _note_outage(self, failure: str) -> None:
        """Warn at the first failure of an outage; RolloutError once it lasts over `patience_s`."""
        with self._lock:
            if self._away_since is None:
                self._away_since = self._clock()
                logger.warning(
                    "the vLLM server at %s does not answer (%s); waiting for it up to %.0f s, no "
                    "episode is lost",
                    *(self.url, failure, self.patience_s),
                )
            away_s = self._clock() - self._away_since
        if away_s > self.patience_s:
            raise RolloutError(
                f"the vLLM server at {self.url} has been away for {away_s:.0f} s; "
                f"the last: {failure}"
            )

    def _note_recovery(self) -> None:
        """Report the end of an outage, if there was one."""
        with self._lock:
            since, self._away_since = self._away_since, None
        if since is not None:
            logger.warning(
                "the vLLM server at %s answers again after %.1f s", self.url, self._clock() - since
            )


def _json(reply: Any) -> Any:
    """Return a reply's JSON; EngineError for an error status."""
    if reply.status_code >= 300:
        raise EngineError(f"{reply.url}: HTTP {reply.status_code}: {reply.text[:300]}")
    return reply.json()
