"""A vLLM server's log-probabilities against the model's here, with and without adapter."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.generation.engine_api import EngineError, RolloutError
from fctncalling.algorithms.vllm.client import Completion, VllmClient
from fctncalling.lab.doctor.finding import HealthCheck, fault, sound, unchecked
from fctncalling.lab.doctor.logprob_findings import token_logprobs

TOLERANCE = 0.1
"""Mean difference in nats that the rounding of a server in bfloat16 explains."""
MAX_NEW_TOKENS = 24
MAX_PROMPTS = 6


class TurnPrompt(NamedTuple):
    """Prompt that the policy had read before an action, and that action's number from 0."""

    ids: list[int]
    turn: int


Written = Sequence[tuple[TurnPrompt, Completion]]


def turn_prompts(episodes: Sequence[EpisodeRecord]) -> list[TurnPrompt]:
    """Return a few prompts out of episodes, early turns first, with every episode in."""
    found: list[TurnPrompt] = []
    for episode in episodes:
        turn = 0
        for row in episode.rows:
            for at, acted in enumerate(row.acted):
                if acted and at and (not row.acted[at - 1] or row.ends_action[at - 1]):
                    found.append(TurnPrompt(row.ids[:at], turn))
                turn += row.ends_action[at]
    return sorted(found, key=lambda each: each.turn)[:MAX_PROMPTS]


def server_finding(
    url: str, model: Any, adapter: Path | None, prompts: Sequence[TurnPrompt]
) -> HealthCheck:
    """Return whether a server samples from the model here: from its adapter where one is given.

    `model` bears the adapter, if any; `prompts` are what it is asked to go on from.
    """
    server = VllmClient(url, timeout_s=120.0)
    try:
        names = server.models()
        name = names[0] if adapter is None else f"doctor-{uuid4().hex[:8]}"
        if adapter is not None:
            server.load_adapter(name, str(adapter.resolve()))
        try:
            written = [
                (
                    prompt,
                    server.complete(
                        name, prompt.ids, max_tokens=MAX_NEW_TOKENS, temperature=1.0, seed=0
                    ),
                )
                for prompt in prompts
            ]
        finally:
            if adapter is not None:
                server.unload_adapter(name)
    except (EngineError, RolloutError, ValueError) as error:
        line = (str(error).splitlines() or [""])[0]
        return unchecked("vLLM", f"{url} does not answer: {line}", "Is the server up?")
    finally:
        server.close()
    return _compared(name if adapter is None else str(adapter), model, adapter, written)


def _compared(name: str, model: Any, adapter: Path | None, written: Written) -> HealthCheck:
    by_turn = _differences(model, written)
    mean = _mean(by_turn)
    turns = ", ".join(f"turn {turn} {_mean({turn: each}):.1e}" for turn, each in by_turn.items())
    message = (
        f"log-probabilities of {name} as served against a plain forward here: mean {mean:.1e} "
        f"({turns})"
    )
    base = contextlib.nullcontext() if adapter is None else model.disable_adapter()
    with base:
        of_base = _mean(_differences(model, written))
    if mean <= TOLERANCE and (adapter is None or mean <= of_base):
        return sound("vLLM", message, mean=mean)
    if adapter is not None and of_base < mean:
        nearer = f"mean {of_base:.1e} from it, {mean:.1e} from the adapter"
        message = f"the server answers for {name} with the base model ({nearer})"
        return fault("vLLM", message, "Serve with --enable-lora, and the folder that was trained")
    return fault(
        "vLLM", message, "Does it serve this model, in this precision, from this checkpoint?"
    )


def _differences(model: Any, written: Written) -> dict[int, list[float]]:
    """Return by turn how far each token's log-probability is from that of a plain forward."""
    by_turn: dict[int, list[float]] = {}
    for prompt, completion in written:
        plain = token_logprobs(model, [*prompt.ids, *completion.ids])[len(prompt.ids) - 1 :]
        pairs = zip(plain.tolist(), completion.logprobs, strict=True)
        by_turn.setdefault(prompt.turn, []).extend(abs(own - served) for own, served in pairs)
    return by_turn


def _mean(by_turn: Mapping[int, Sequence[float]]) -> float:
    differences = [each for turn in by_turn.values() for each in turn]
    return sum(differences) / max(1, len(differences))
