"""Generation engine: continuous batching, KV caches that persist between an episode's steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from fctncalling.algorithms.generation.decoder import Decoder
from fctncalling.algorithms.generation.engine_api import (
    Action,
    Engine,
    Request,
    ScriptedEngine,
    TokenCounts,
)
from fctncalling.algorithms.generation.fused_decoder import FusedDecoder
from fctncalling.algorithms.generation.sequence import Slot
from fctncalling.algorithms.generation.slot_prefixes import SlotPrefixes, min_tokens_worth_sharing
from fctncalling.algorithms.generation.transformers_decoder import (
    TransformersDecoder,
    check_supported_cache,
)
from fctncalling.algorithms.policy.sparse_forward import supports_fused_decoder
from fctncalling.data.timing import time_calls

# Largest uniform sample used: in fp32 one closer to 1 may round to 1, past the last likely token.
BELOW_ONE = 1 - 2**-23


class SampledTokens(NamedTuple):
    """Sampled token of each of n rows, with its log-probability."""

    tokens: Tensor  # (n,) int64
    logprobs: Tensor  # (n,) float32, at the sampling temperature


__all__ = ["Action", "CacheBudgetError", "Engine", "GenerationEngine", "Request", "ScriptedEngine"]


class CacheBudgetError(ValueError):
    """Error of a cache budget that the running episodes' caches do not fit into."""


class GenerationEngine(Engine):
    """Generation engine with continuous batching, for any transformers causal language model.

    Every token passes through the model once: a slot's KV cache stays between its requests, a
    request's new ids are prefilled, and the slot then decodes one token a step with all other busy
    slots until its action ends. Slots join and leave at any step. A prompt with which several slots
    begin (a group) is prefilled once; with `share_prefixes` other slots too share the longest
    prefix of token blocks, and blocks of sequences that ended are kept (see slot_prefixes).
    Sampling is by inverse CDF from each slot's own random stream, so a slot's tokens do not depend
    on the other slots (beyond rounding). Temperature 0 is greedy, with log-probabilities at
    temperature 1. There is no top-k or top-p: the loss sees the sampled distribution.

    `decode` turns tokens into text for stop strings. `max_cache_tokens` bounds slots times the
    longest sequence (CacheBudgetError) plus the kept blocks; None: no more blocks than that
    product. `generator` serves slots begun without a seed. `fast_path` selects the fused decoder;
    None: if it supports the model.
    """

    def __init__(
        self,
        model: nn.Module,
        stop_ids: Iterable[int],
        *,
        temperature: float = 1.0,
        max_new_tokens: int = 128,
        generator: torch.Generator | None = None,
        decode: Callable[[Sequence[int]], str] | None = None,
        max_prefill_tokens: int = 4096,
        max_cache_tokens: int | None = None,
        fast_path: bool | None = None,
        share_prefixes: bool = True,
    ) -> None:
        if temperature < 0 or max_new_tokens < 1:
            raise ValueError(
                f"want temperature >= 0 and max_new_tokens >= 1, got {temperature} and "
                f"{max_new_tokens}"
            )
        self.fast_path = supports_fused_decoder(model) if fast_path is None else fast_path
        if not self.fast_path:
            check_supported_cache(model)
        self.model = model
        self.stop_ids = frozenset(stop_ids)
        self.decode = decode
        self.temperature = temperature
        self.max_new_tokens = max_new_tokens
        self.max_prefill_tokens = max_prefill_tokens
        self.max_cache_tokens = max_cache_tokens
        self.share_prefixes = share_prefixes
        self.generator = generator or torch.Generator().manual_seed(0)
        self.num_sampled_tokens = 0
        self.num_prompt_tokens = 0  # given to slots to read, since construction
        self.num_shared_tokens = 0  # of them, those that did not pass through the model
        self._num_prefilled = 0
        self._slots: list[Slot] = []
        self._decoder: Decoder[Any] = self._new_decoder(0)
        self.release()

    @property
    def num_forward_tokens(self) -> int:
        """Number of tokens of all forward passes since construction, without padding."""
        return self._num_prefilled + self._decoder.num_tokens

    @property
    def token_counts(self) -> TokenCounts:
        """Counts of tokens since construction."""
        return TokenCounts(
            self.num_sampled_tokens,
            self.num_forward_tokens,
            self.num_prompt_tokens,
            self.num_shared_tokens,
        )

    def allocate_slots(self, num_slots: int) -> None:
        """Allocate slots 0..num_slots-1, empty ones, in place of those before.

        Call it whenever the weights changed.
        """
        self._num_prefilled += self._decoder.num_tokens
        self._decoder = self._new_decoder(num_slots)
        self._slots = [Slot(number, self.generator) for number in range(num_slots)]
        self._row = list(range(num_slots))  # slot -> its row in the cache
        self._slot = list(range(num_slots))  # row -> its slot
        self._busy: set[int] = set()  # slots with a request
        # Busy slots with more to read than the token they sampled last.
        self._prefilling: set[int] = set()
        self._finished: list[tuple[int, Action]] = []  # not returned yet
        self._failed: list[Exception] = []  # not raised yet
        shared = min_tokens_worth_sharing(self.model) if self.share_prefixes else None
        self._prefixes = SlotPrefixes(self._decoder, self._row, shared)
        self._longest = 0  # tokens that a slot has held so far

    def begin_sequence(
        self, slot: int, seed: int | None = None, *, stream: torch.Generator | None = None
    ) -> None:
        """Clear a slot and begin a sequence in it, with its random seed.

        A seed gives it its own random stream, `stream` is one that it shares with others.
        """
        self.restart_sequence(slot)
        if seed is not None:
            stream = torch.Generator().manual_seed(seed)
        self._slots[slot].stream = self.generator if stream is None else stream

    def restart_sequence(self, slot: int) -> None:
        """Restart the sequence of a slot: clear it but keep its random stream."""
        self._prefixes.forget_slot(slot)
        self._slots[slot] = Slot(slot, self._slots[slot].stream)
        self._busy.discard(slot)
        self._prefilling.discard(slot)
        self._finished = [(number, action) for number, action in self._finished if number != slot]
        self._decoder.cache.clear_row(self._row[slot])

    def submit(self, request: Request) -> None:
        """Submit a request; its slot must have no pending one."""
        self._slots[request.slot].start_request(
            request, self.stop_ids, self.decode, self.max_new_tokens, self.temperature
        )
        self._busy.add(request.slot)
        self._prefilling.add(request.slot)

    def advance(self) -> list[tuple[int, Action]]:
        """Advance until at least 1/8 of the requests finished, or `interrupted`.

        Return (slot, action) pairs.

        An eighth, because a prefill of one slot costs nearly as much as one of several. An error
        in a request's `on_token` or `on_stop` is raised after the other slots got their tokens:
        begin that slot again and go on.
        """
        target = max(1, len(self._busy) // 8)
        training = self.model.training
        if training:
            self.model.eval()
        try:
            with torch.inference_mode():
                while self._busy and len(self._finished) < target:
                    if self._prefilling:
                        self._prefill()
                    else:
                        self._step()
                    if self._failed:
                        raise self._failed.pop()
                    if self.interrupted(target):
                        break
        finally:
            if training:
                self.model.train()
        finished, self._finished = self._finished, []
        return finished

    @time_calls("prefill")
    def _prefill(self) -> None:
        """Prefill the pending tokens of slots and sample a token for each."""
        joining = [
            self._slots[number]
            for number in sorted(self._prefilling, key=lambda number: self._row[number])
        ]
        lengths = [self._decoder.cache.length(self._row[slot.number]) for slot in joining]
        self._check_budget(
            [length + len(slot.pending) for length, slot in zip(lengths, joining, strict=True)]
        )
        self._prefilling.clear()
        asked, before = sum(len(slot.pending) for slot in joining), self._decoder.num_tokens
        opened = self._prefixes.start_slots(
            [s for s, length in zip(joining, lengths, strict=True) if not (length or s.prefix)]
        )
        for is_opened in (False, True):
            slots = [slot for slot in joining if (slot.number in opened) is is_opened]
            if slots:
                numbers = [self._row[slot.number] for slot in slots]
                pending = [slot.pending for slot in slots]
                self._sample(slots, self._decoder.prefill(numbers, pending))
        self._prefixes.keep_prompts()
        self.num_prompt_tokens += asked
        self.num_shared_tokens += asked - (self._decoder.num_tokens - before)

    @time_calls("decode")
    def _step(self) -> None:
        """Decode one token for each busy slot."""
        span = self._compact()
        rows: list[Slot | None] = [
            self._slots[number] if number in self._busy else None for number in self._slot[:span]
        ]
        self._check_budget([self._decoder.cache.length(row) + 1 for row in range(span)])
        tokens = [slot.pending[0] if slot else 0 for slot in rows]
        self._sample(rows, self._decoder.decode(tokens, [slot is not None for slot in rows]))

    def _sample(self, rows: Sequence[Slot | None], logits: Tensor) -> None:
        """Sample a token for each row that has a slot."""
        tokens, logprobs = _sample(rows, logits)
        for slot, token, logprob in zip(rows, tokens.tolist(), logprobs.tolist(), strict=True):
            if slot is None:
                continue
            self.num_sampled_tokens += 1
            try:
                ended = slot.append(token, logprob)
            except Exception as error:  # of a callback; the others' tokens must not be lost with it
                self._failed.append(error)
                continue
            if ended:
                self._busy.discard(slot.number)
                self._finished.append((slot.number, slot.action))
            elif len(slot.pending) > 1:
                self._prefilling.add(slot.number)

    def _compact(self) -> int:
        """Return how many first rows hold all busy slots.

        If over 1/8 of them are idle, compact them first.
        """
        rows = sorted(self._row[number] for number in self._busy)
        if rows[-1] + 1 - len(rows) > len(rows) // 8:
            free = iter([row for row in range(len(rows)) if self._slot[row] not in self._busy])
            for row in rows:
                if row >= len(rows):
                    self._swap(row, next(free))
            return len(rows)
        return rows[-1] + 1

    def _swap(self, one: int, other: int) -> None:
        self._decoder.cache.swap_rows(one, other)
        self._slot[one], self._slot[other] = self._slot[other], self._slot[one]
        self._row[self._slot[one]], self._row[self._slot[other]] = one, other

    def _check_budget(self, lengths: Sequence[int]) -> None:
        budget, longest = self.max_cache_tokens, max(self._longest, *lengths)
        held = longest * len(self._slots)
        if budget is not None and held > budget:
            raise CacheBudgetError(
                f"{len(self._slots)} episodes side by side, the longest of {longest} tokens, want "
                f"{held} tokens of cache, over --max_cache_tokens {budget}: raise it, or lower "
                "--n_rollout_threads or --max_episode_tokens"
            )
        self._longest = longest
        self._prefixes.tree.set_limit(held if budget is None else budget - held)

    def _new_decoder(self, num_rows: int) -> Decoder[Any]:
        kind: Any = FusedDecoder if self.fast_path else TransformersDecoder
        decoder: Decoder[Any] = kind(self.model, num_rows, max_tokens=self.max_prefill_tokens)
        return decoder


def _sample(rows: Sequence[Slot | None], logits: Tensor) -> SampledTokens:
    """Sample a token for each row of logits (n, V) that has a slot, at its request's temperature.

    By the inverse distribution function. Temperature 0 is greedy, with log-probabilities at 1.
    """

    def column(numbers: list[float]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.float64, device=logits.device).unsqueeze(-1)

    wanted = {slot.temperature for slot in rows if slot}
    # Nobody reads the token of a row without a slot.
    temperatures = [slot.temperature if slot else max(wanted) for slot in rows]
    scaled = logits.float()
    if not wanted <= {0.0, 1.0}:
        scaled = scaled / column([temperature or 1.0 for temperature in temperatures]).to(scaled)
    logprobs = scaled.log_softmax(-1)
    if not max(wanted):
        tokens = _likeliest(logprobs)
    else:
        below = logprobs.exp().cumsum(-1)
        noise = column([slot.uniform if slot and slot.temperature else 0.0 for slot in rows])
        threshold = noise.to(below).clamp_(max=BELOW_ONE) * below[:, -1:]
        tokens = torch.searchsorted(below, threshold, right=True).clamp_(max=logits.shape[-1] - 1)
        if not min(wanted):
            tokens = tokens.where(column(temperatures) > 0, _likeliest(logprobs))
    return SampledTokens(tokens.squeeze(-1), logprobs.gather(-1, tokens).squeeze(-1))


def _likeliest(logprobs: Tensor) -> Tensor:
    if logprobs.device.type == "cpu":  # where numpy's is ten times as fast
        return torch.from_numpy(logprobs.numpy().argmax(-1, keepdims=True))
    return logprobs.argmax(-1, keepdim=True)
