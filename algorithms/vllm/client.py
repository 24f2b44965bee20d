"""HTTP client of one vLLM server: token-id completions, and run-time loading of weights."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fctncalling.algorithms.generation.engine_api import EngineError, RolloutError
from fctncalling.data.http_client import HttpClient, Reply, RequestFailed

RETRY_STATUSES = (429, 502, 503, 504)  # the server, or a proxy before it, is starting or full
AUTH_STATUSES = (401, 403)
TRIES = 4  # of a request that the server answers with an error
ERROR_WAIT_S = 0.25  # before the second of them, and twice as long before each after it
MAX_ANSWER_BYTES = 2**28  # a long prompt's log-probabilities take megabytes


class Completion(NamedTuple):
    """Completion of a prompt, as the server sampled it."""

    ids: list[int]
    logprobs: list[float]
    reason: str  # "stop" or "length"
    stop: str | int | None  # the string or token that ended it, if the server names it
    version: str = ""  # of the weights that sampled it


class ServerAwayError(EngineError):
    """Error of a server that is away: no answer, starting or full; worth a later attempt."""


class MissingModelError(EngineError):
    """Error of a model missing on the server, or with other weights than expected."""


class VllmClient:
    """Client of one vLLM server, for any thread, one attempt a request.

    Wire format: vLLM's OpenAI-compatible /v1/completions with `return_token_ids`, and its run-time
    LoRA routes (VLLM_ALLOW_RUNTIME_LORA_UPDATING=1). ServerAwayError where the server does not
    answer; a request answered by HTTP 500 is sent again a few times.
    """

    def __init__(self, url: str, *, timeout_s: float = 600.0) -> None:
        self.url = url.rstrip("/").removesuffix("/v1")
        key = os.environ.get("VLLM_API_KEY", "")  # as vLLM itself reads it
        self._client = HttpClient(key=key, timeout_s=timeout_s, max_bytes=MAX_ANSWER_BYTES)

    def complete(self, model: str, prompt: Sequence[int], **sampling: Any) -> Completion:
        """Complete a prompt of token ids; EngineError where the server fails."""
        body = {
            "model": model,
            "prompt": list(prompt),
            "logprobs": 0,
            "return_token_ids": True,
            **sampling,
        }
        reply = self.post("/v1/completions", body)
        if reply.status == 404:
            raise MissingModelError(f"{self.url} does not serve {model}: {reply.text[:200]}")
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
        reason, stop = str(choice.get("finish_reason")), choice.get("stop_reason")
        return Completion(ids, logprobs, reason, stop, model)

    def top_logprob(self, model: str, prompt: Sequence[int], temperature: float) -> float:
        """Return the top logprob after a prompt, that of the most likely token."""
        body = {
            "model": model,
            "prompt": list(prompt),
            "logprobs": 1,
            "max_tokens": 1,
            "temperature": temperature,
        }
        [top] = _json(self.post("/v1/completions", body))["choices"][0]["logprobs"]["top_logprobs"]
        return float(max(top.values()))

    def prompt_logprobs(self, model: str, prompt: Sequence[int]) -> list[float]:
        """Return the logprobs of a prompt's tokens after the first."""
        body = {
            "model": model,
            "prompt": list(prompt),
            "prompt_logprobs": 0,
            "max_tokens": 1,
            "temperature": 0.0,
        }
        told = _json(self.post("/v1/completions", body))["choices"][0]["prompt_logprobs"]
        return [
            float(each[str(token)]["logprob"])
            for token, each in zip(prompt[1:], told[1:], strict=True)
        ]

    def weights_version(self) -> str:
        """Return the version of the weights that the server holds, as it names them.

        RolloutError where it cannot tell.
        """
        reply = self._answered("GET", "/weight_info", timeout_s=60.0)
        if reply.status == 404:
            raise RolloutError(
                f"{self.url} takes no weights while it runs: --rollout_engine vllm without "
                "--lora_r needs vLLM 0.32 or newer, started with VLLM_SERVER_DEV_MODE=1"
            )
        return str(_json(reply)["weight_version"])

    def load_weights(self, folder: str, version: str) -> None:
        """Load a folder's weights in place of the model's, and clear the prefix cache.

        Once requests under way have ended; RolloutError where the server refuses them.
        """
        _json(self._answered("POST", "/pause?mode=wait", {}))
        order = {"method": "reload_weights", "kwargs": {"weights_path": folder}}
        # Once: the server's engine does not survive a folder that it cannot read.
        reply = self._answered("POST", "/collective_rpc", order)
        if reply.status >= 300:
            raise RolloutError(
                f"{self.url} does not take the weights in {folder}: HTTP {reply.status}: "
                f"{reply.text[:300]}. It has to read that folder (--vllm_adapter_dir names "
                "another), and to serve the model that is trained"
            )
        _json(self._answered("POST", "/update_weight_version", {"new_version": version}))
        _json(self._answered("POST", "/resume", {}))

    def models(self, *, timeout_s: float = 60.0) -> list[str]:
        """Return the server's models and adapters by name, the base model first."""
        return [str(each["id"]) for each in self.get("/v1/models", timeout_s=timeout_s)["data"]]

    def load_adapter(self, name: str, folder: str) -> None:
        """Load an adapter (LoRA) under a name; RolloutError where the server refuses it."""
        reply = self.post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": folder})
        if reply.status >= 300 and "already been loaded" not in reply.text:
            raise RolloutError(
                f"{self.url} does not take the adapter in {folder}: HTTP {reply.status}: "
                f"{reply.text[:300]}. It has to read that folder (--vllm_adapter_dir names "
                "another), and to run with --enable-lora, a --max-lora-rank of at least --lora_r "
                "and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"
            )

    def unload_adapter(self, name: str) -> None:
        """Unload an adapter (LoRA); no error where the server does not have it."""
        url, body = f"{self.url}/v1/unload_lora_adapter", {"lora_name": name}
        with contextlib.suppress(RequestFailed):
            self._client.request("POST", url, body, timeout_s=10.0)

    def close(self) -> None:
        """Close the connections; requests under way fail."""
        self._client.close()

    def get(self, path: str, *, timeout_s: float = 60.0) -> Any:
        """Send a GET request to a path; return the JSON."""
        return _json(self._answered("GET", path, timeout_s=timeout_s))

    def post(self, path: str, body: Mapping[str, Any]) -> Reply:
        """Send a POST request to a path; return the reply, also one that refuses."""
        wait_s = ERROR_WAIT_S
        for _ in range(TRIES - 1):
            reply = self._answered("POST", path, body)
            if reply.status < 500 or self._client.closed.wait(wait_s):
                return reply
            wait_s *= 2.0
        return self._answered("POST", path, body)

    def _answered(
        self, method: str, path: str, body: Any = None, *, timeout_s: float | None = None
    ) -> Reply:
        """Return the reply to one attempt.

        ServerAwayError without one, RolloutError for a wrong key.
        """
        try:
            reply = self._client.request(method, self.url + path, body, timeout_s=timeout_s)
        except RequestFailed as error:
            raise ServerAwayError(str(error)) from error
        outcome = f"HTTP {reply.status}: {reply.text[:200]}"
        if reply.status in RETRY_STATUSES:
            raise ServerAwayError(outcome)
        if reply.status in AUTH_STATUSES:
            raise RolloutError(f"{self.url}: {outcome}. Is its key in VLLM_API_KEY?")
        return reply


def _json(reply: Reply) -> Any:
    """Return a reply's JSON; EngineError for an error status."""
    if reply.status >= 300:
        raise EngineError(f"{reply.url}: HTTP {reply.status}: {reply.text[:300]}")
    return reply.json()
