"""A vLLM server's log-probabilities against those of the model here, with and without its
adapter.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from fctncalling.algorithms.generation.engine_api import EngineError, RolloutError
from fctncalling.algorithms.vllm.client import Completion, VllmClient
from fctncalling.doctor.finding import HealthCheck, fault, sound, unchecked
from fctncalling.doctor.logprob_findings import token_logprobs

TOLERANCE = 0.1
"""Mean difference in nats that the rounding of a server in bfloat16 explains."""
MAX_NEW_TOKENS = 24
PATIENCE_S = 10.0


def server_finding(
    url: str, model: Any, adapter: Path | None, prompts: Sequence[Sequence[int]]
) -> HealthCheck:
    """Return whether a server samples from the model here: from its adapter where one is given.

    `model` bears the adapter, if any; `prompts` are token ids.
    """
    server = VllmClient(url, patience_s=PATIENCE_S, timeout_s=120.0)
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
                        name, prompt, max_tokens=MAX_NEW_TOKENS, temperature=1.0, seed=0
                    ),
                )
                for prompt in prompts
            ]
        finally:
            if adapter is not None:
                server.unload_adapter(name)
    except _errors() as error:
        line = (str(error).splitlines() or [""])[0]
        return unchecked("vLLM", f"{url} does not answer: {line}", "Is the server up?")
    finally:
        server.close()
    return _compared(name if adapter is None else str(adapter), model, adapter, written)


def _compared(
    name: str, model: Any, adapter: Path | None, written: Sequence[tuple[Sequence[int], Completion]]
) -> HealthCheck:
    mean = _mean_difference(model, written)
    message = f"log-probabilities of {name} as served against a plain forward here: mean {mean:.1e}"
    base = contextlib.nullcontext() if adapter is None else model.disable_adapter()
    with base:
        of_base = _mean_difference(model, written)
    if mean <= TOLERANCE and (adapter is None or mean <= of_base):
        return sound("vLLM", message, mean=mean)
    if adapter is not None and of_base < mean:
        nearer = f"mean {of_base:.1e} from it, {mean:.1e} from the adapter"
        message = f"the server answers for {name} with the base model ({nearer})"
        return fault("vLLM", message, "Serve with --enable-lora, and the folder that was trained")
    return fault(
        "vLLM", message, "Does it serve this model, in this precision, from this checkpoint?"
    )


def _mean_difference(model: Any, written: Sequence[tuple[Sequence[int], Completion]]) -> float:
    differences: list[float] = []
    for prompt, completion in written:
        plain = token_logprobs(model, [*prompt, *completion.ids])[len(prompt) - 1 :]
        pairs = zip(plain.tolist(), completion.logprobs, strict=True)
        differences += [abs(own - message) for own, message in pairs]
    return sum(differences) / max(1, len(differences))


def _errors() -> tuple[type[Exception], ...]:
    import httpx

    return (EngineError, RolloutError, httpx.TransportError, httpx.InvalidURL, ValueError)
