"""Engine that samples from vLLM servers."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

import numpy as np

from fctncalling.algorithms.generation.engine_api import (
    Action,
    Engine,
    EngineError,
    Request,
    TokenCounts,
)
from fctncalling.algorithms.vllm.client import Completion
from fctncalling.algorithms.vllm.servers import VllmServers

POLL_S = 0.02  # how often environments may break in while answers are waited for


class VllmEngine(Engine):
    """Engine on vLLM servers: token ids in, token ids with log-probs out.

    Each request sends the slot's whole sequence, to the slot's server, whose prefix cache holds its
    keys and values. Seeds come from the slot's own stream, and actions end as `GenerationEngine`'s
    do, but samples and rounding are the server's. An action that failed has `failure` set.
    """

    def __init__(
        self,
        servers: VllmServers,
        version: str,
        stop_ids: Iterable[int],
        *,
        temperature: float = 1.0,
        max_new_tokens: int = 128,
    ) -> None:
        self.servers = servers
        self.version = version  # of the weights, as `publish` names it
        self.stop_ids = frozenset(stop_ids)
        self.temperature = temperature
        self.max_new_tokens = max_new_tokens
        self.num_sampled_tokens = 0
        self._threads: ThreadPoolExecutor | None = None
        self.release()

    @property
    def token_counts(self) -> TokenCounts:
        """Counts of tokens since construction."""
        return TokenCounts(self.num_sampled_tokens)

    def allocate_slots(self, num_slots: int) -> None:
        """Allocate slots 0..num_slots-1, empty ones, in place of those before."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        self._threads = ThreadPoolExecutor(num_slots, "vllm") if num_slots else None
        self._ids: list[list[int]] = [[] for _ in range(num_slots)]
        self._streams = [np.random.default_rng(slot) for slot in range(num_slots)]
        self._pending: dict[int, Future[Action]] = {}

    def begin_sequence(self, slot: int, seed: int | None = None) -> None:
        """Begin a sequence in a slot; with a seed it has a separate random stream."""
        self.restart_sequence(slot)
        self.servers.release_slot(slot)
        if seed is not None:
            self._streams[slot] = np.random.default_rng(seed)

    def restart_sequence(self, slot: int) -> None:
        """Restart the sequence of a slot: drop a pending request but keep the random stream."""
        self._ids[slot] = []
        if slot in self._pending:
            self._pending.pop(slot).cancel()

    def submit(self, request: Request) -> None:
        """Submit a request to a server; ValueError if the slot has a pending one."""
        if request.slot in self._pending or self._threads is None:
            raise ValueError(
                f"slot {request.slot} has a request already: wait for its action, or begin the "
                "slot again"
            )
        self._ids[request.slot] += request.new_ids
        if not self._ids[request.slot]:
            raise ValueError(
                f"slot {request.slot} has nothing to read: an action needs at least one prompt "
                "token"
            )
        seed = int(self._streams[request.slot].integers(2**31))
        prompt = list(self._ids[request.slot])
        self._pending[request.slot] = self._threads.submit(
            self._generate_action, prompt, request, seed
        )

    def advance(self) -> list[tuple[int, Action]]:
        """Advance: wait until requests finished or environments responded.

        Return finished (slot, action) pairs.
        """
        while self._pending:
            wait(self._pending.values(), timeout=POLL_S, return_when=FIRST_COMPLETED)
            finished = [
                (slot, self._take_result(slot))
                for slot, future in list(self._pending.items())
                if future.done()
            ]
            if finished or self.interrupted(1):
                return finished
        return []

    def _take_result(self, slot: int) -> Action:
        try:
            action = self._pending.pop(slot).result()
        except EngineError as error:
            return Action(failure=error)
        self._ids[slot] += action.ids
        self.num_sampled_tokens += sum(action.acted)
        return action

    def _generate_action(self, prompt: list[int], request: Request, seed: int) -> Action:
        """Sample an action, with a further completion after each stop that `on_stop` answers."""
        action = Action()
        limit = min(request.max_new_tokens or self.max_new_tokens, self.max_new_tokens)
        temperature = self.temperature if request.temperature is None else request.temperature
        while True:
            completion = self.servers.complete(
                request.slot,
                self.version,
                [*prompt, *action.ids],
                max_tokens=limit - len(action.ids),
                temperature=temperature,
                seed=(seed + len(action.ids)) % 2**31,
                stop_token_ids=sorted({*self.stop_ids, *request.stop_ids}),
                # an action ends where the template's turns do, which are among the ids above
                ignore_eos=True,
                stop=list(request.stop),
                include_stop_str_in_output=True,
                skip_special_tokens=False,
            )
            for token, logprob in zip(completion.ids, completion.logprobs, strict=True):
                action.append(token, logprob)
                if request.on_token is not None:
                    request.on_token(token, logprob)
            if self._ended(action, completion, request, limit):
                return action

    def _ended(self, action: Action, completion: Completion, request: Request, limit: int) -> bool:
        """Set the stop reason and return True; or append the ids of `on_stop` and return False."""
        if not completion.ids:
            raise EngineError(f"{self.servers.urls}: an answer without a token")
        action.stop_reason = "length"
        if completion.reason == "length" and action.ids[-1] not in self.stop_ids:
            return True
        if action.ids[-1] in self.stop_ids:
            action.stop_reason = "end"
            return True
        action.stop_reason = "stop"
        action.stop = completion.stop if isinstance(completion.stop, str) else ""
        if request.on_stop is None or (ids := request.on_stop(action)) is None:
            return True
        if len(action.ids) + len(ids) >= limit:
            action.stop_reason = "length"
            return True
        for forced in ids:
            action.append(forced, None)
            if request.on_token is not None:
                request.on_token(forced, None)
        return False
