"""Sampling actions for many running episodes at once, with every episode's attention cache kept between its steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from fctncalling.algorithms.cache import RaggedCache, attention_mask, check_supported


@dataclass
class Request:
    """What a slot's sequence grows by before the next action is sampled; the rest is for scripted actors."""

    slot: int
    new_ids: list[int]
    max_new_tokens: int | None = None  # a tighter limit than the engine's, where an episode's budget runs out
    stop: Sequence[str] = ()  # strings at which the action pauses
    task_id: str = ""
    turn: int = 0
    step_in_turn: int = 0
    info: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Action:
    """The sampled tokens, their log-probabilities at the sampling temperature, and whether a limit cut them."""

    ids: list[int]
    logprobs: list[float]
    truncated: bool


class Actor(Protocol):
    """Who answers requests: a model behind a `GenerationEngine`, or a `ScriptedActor`."""

    def start(self, num_slots: int) -> None:
        """Forget everything and offer slots 0..num_slots-1."""

    def begin(self, slot: int, seed: int | None = None) -> None:
        """Empty a slot for a new sequence, with a random stream of its own where a seed is given."""

    def restart(self, slot: int) -> None:
        """Empty a slot for a sequence that is rendered again, and go on with its random stream."""

    def generate(self, requests: Sequence[Request]) -> list[Action]:
        """Return one action a request, in their order."""
        ...


class GenerationEngine:
    """Samples from any transformers causal language model with a hand-written loop around its forward.

    All requested slots read their new ids, then decode together until each has its end token; a row that ended leaves
    the batch at once. Sampling is by inverse distribution function from a random stream of each slot's own, so what a
    slot says does not depend on which others run beside it (beyond rounding). Temperature 0 is greedy, its
    log-probabilities are those at temperature 1. There is no top-k or top-p: the loss sees the sampled distribution.
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
        max_prefill_tokens: int = 8192,
    ) -> None:
        if temperature < 0 or max_new_tokens < 1:
            raise ValueError(f"want temperature >= 0 and max_new_tokens >= 1, got {temperature} and {max_new_tokens}")
        check_supported(model)
        self.model, self.stop_ids, self.decode = model, frozenset(stop_ids), decode
        self.temperature, self.max_new_tokens = temperature, max_new_tokens
        self.max_prefill_tokens = max_prefill_tokens
        self.generator = generator or torch.Generator().manual_seed(0)
        self.num_forward_tokens = self.num_sampled_tokens = 0  # since construction; the first with padding
        self._cache = RaggedCache(0)

    def start(self, num_slots: int) -> None:
        """Forget everything and offer slots 0..num_slots-1; call it whenever the weights changed."""
        self._cache = RaggedCache(num_slots) if self._cache.num_rows != num_slots else self._cache.emptied()
        self._row = list(range(num_slots))  # slot -> its row in the cache
        self._slot = list(range(num_slots))  # row -> its slot
        self._unread: list[list[int]] = [[] for _ in range(num_slots)]  # sampled, not yet passed through the model
        self._streams = [self.generator] * num_slots

    def begin(self, slot: int, seed: int | None = None) -> None:
        """Empty a slot for a new sequence, with a random stream of its own where a seed is given."""
        self.restart(slot)
        self._streams[slot] = self.generator if seed is None else torch.Generator().manual_seed(seed)

    def restart(self, slot: int) -> None:
        """Empty a slot for a sequence that is rendered again, and go on with its random stream."""
        self._cache.lengths[self._row[slot]] = 0
        self._unread[slot] = []

    def generate(self, requests: Sequence[Request]) -> list[Action]:
        """Return one action a request, in their order."""
        if not requests:
            return []
        training = self.model.training
        if training:
            self.model.eval()
        try:
            with torch.inference_mode():
                return self._generate(requests)
        finally:
            if training:
                self.model.train()

    def _generate(self, requests: Sequence[Request]) -> list[Action]:
        order = sorted(range(len(requests)), key=lambda i: self._row[requests[i].slot])  # row -> request
        for row, i in enumerate(order):
            self._swap(row, self._row[requests[i].slot])
        limits = [min(r.max_new_tokens or self.max_new_tokens, self.max_new_tokens) for r in requests]
        noise = self._draw(requests, max(limits))
        logits = self._read([requests[i] for i in order])
        actions = [Action([], [], True) for _ in requests]
        step = 0
        while order:
            tokens, logprobs = self._sample(logits, noise[order, step] if noise is not None else None)
            step += 1
            for row in range(len(order) - 1, -1, -1):
                action, request = actions[order[row]], requests[order[row]]
                action.ids.append(tokens[row])
                action.logprobs.append(logprobs[row])
                action.truncated = not self._ends(action, request)
                if not action.truncated or step >= limits[order[row]]:
                    self._unread[request.slot] = [tokens[row]]
                    self._leave(row, order, tokens)
            if order:
                logits = self._forward(torch.tensor(tokens[: len(order)]).unsqueeze(1), [1] * len(order), None)
        self.num_sampled_tokens += sum(len(action.ids) for action in actions)
        return actions

    def _leave(self, row: int, order: list[int], tokens: list[int]) -> None:
        """Take a row out of the decoding batch: the batch's last row takes its place."""
        last = len(order) - 1
        self._swap(row, last)
        tokens[row] = tokens[last]
        order[row] = order[last]
        order.pop()

    def _ends(self, action: Action, request: Request) -> bool:
        if action.ids[-1] in self.stop_ids:
            return True
        if not request.stop or self.decode is None:
            return False
        text = self.decode(action.ids)
        return any(stop in text for stop in request.stop)

    def _swap(self, one: int, other: int) -> None:
        if one == other:
            return
        self._cache.swap(one, other)
        self._slot[one], self._slot[other] = self._slot[other], self._slot[one]
        self._row[self._slot[one]], self._row[self._slot[other]] = one, other

    def _draw(self, requests: Sequence[Request], limit: int) -> Tensor | None:
        """Return uniform numbers (requests, limit), each row from its slot's own stream; None where greedy."""
        if self.temperature == 0:
            return None
        # Always max_new_tokens numbers an action: a stream must not depend on the limits of the slots beside it.
        streams = [self._streams[request.slot] for request in requests]
        rows = [torch.rand(self.max_new_tokens, generator=stream, dtype=torch.float64) for stream in streams]
        return torch.stack(rows)[:, :limit]

    def _sample(self, logits: Tensor, noise: Tensor | None) -> tuple[list[int], list[float]]:
        """Return a token and its log-probability for each row of logits (n, V); noise (n,) uniform in [0, 1)."""
        scaled = logits.float() if noise is None else logits.float() / self.temperature
        logprobs = scaled.log_softmax(-1)
        if noise is None:
            tokens = logprobs.argmax(-1)
        else:
            below = logprobs.double().exp().cumsum(-1)
            threshold = noise.to(below.device).unsqueeze(-1) * below[:, -1:]
            tokens = (below <= threshold).sum(-1).clamp(max=logits.shape[-1] - 1)
        return tokens.tolist(), logprobs.gather(-1, tokens.unsqueeze(-1)).squeeze(-1).tolist()

    def _read(self, requests: Sequence[Request]) -> Tensor:
        """Pass each slot's unread and new ids through the model; return the logits (n, V) behind the last of each."""
        news = [self._unread[r.slot] + r.new_ids for r in requests]
        for new, request in zip(news, requests, strict=True):
            if not new:
                raise ValueError(f"slot {request.slot} has nothing to read: an action needs at least one prompt token")
            self._unread[request.slot] = []
        by_length = sorted(range(len(news)), key=lambda i: len(news[i]))
        logits: list[Tensor | None] = [None] * len(news)
        while by_length:
            width = len(news[by_length[-1]])
            # Rows shorter than half the block would be mostly padding, which costs as much as text.
            group = [i for i in by_length if 2 * len(news[i]) > width][-max(1, self.max_prefill_tokens // width) :]
            del by_length[-len(group) :]
            block = torch.tensor([[0] * (width - len(news[i])) + news[i] for i in group])
            out = self._forward(block, [len(news[i]) for i in group], group)
            for i, row in zip(group, out, strict=True):
                logits[i] = row
        return torch.stack([row for row in logits if row is not None])

    def _forward(self, block: Tensor, counts: Sequence[int], rows: Sequence[int] | None) -> Tensor:
        """Return the logits (n, V) behind the last column of a left-padded block (n, q) of new ids.

        Row i of the block has `counts[i]` ids and belongs to cache row `rows[i]`; None stands for the first n rows.
        """
        parameter = next(self.model.parameters())
        places = self._cache.place(counts, block.shape[1], rows, parameter.device)
        self.num_forward_tokens += block.numel()
        output = self.model(
            input_ids=block.to(parameter.device),
            attention_mask=attention_mask(self.model, places, parameter.dtype),
            position_ids=places.positions.clamp(min=0),
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: Tensor = output.logits
        return logits[:, -1]


class ScriptedActor:
    """Answers with the texts of a callable (task_id, turn, step_in_turn, info) -> text, encoded, end of turn included.

    Played through the same rollout as a model, it makes demonstrations with the ids and masks that learning will see.
    """

    def __init__(
        self,
        script: Callable[[str, int, int, Mapping[str, Any]], str],
        encode: Callable[[str], list[int]],
        end_of_turn_id: int,
    ) -> None:
        self.script, self.encode, self.end_of_turn_id = script, encode, end_of_turn_id

    def start(self, num_slots: int) -> None:
        """Do nothing: a script keeps no sequences."""

    def begin(self, slot: int, seed: int | None = None) -> None:
        """Do nothing: a script keeps no sequences."""

    def restart(self, slot: int) -> None:
        """Do nothing: a script keeps no sequences."""

    def generate(self, requests: Sequence[Request]) -> list[Action]:
        """Return one action a request, in their order; log-probabilities are 0."""
        actions = []
        for request in requests:
            text = self.script(request.task_id, request.turn, request.step_in_turn, request.info)
            ids = [*self.encode(text), self.end_of_turn_id]
            actions.append(Action(ids, [0.0] * len(ids), False))
        return actions
