"""Timed pass: rough seconds of a training step and of an answer, measured before training."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fctncalling.lab.adapt.adapt_plan import BATCH, PARALLEL_EPISODES, ProbeTimes
from fctncalling.lab.adapt.base_model import MAX_NEW_TOKENS, BaseModel

WARM_TOKENS, TRAINED_TOKENS, WRITTEN_TOKENS = 16, 128, 8  # what is timed
TAIL_TOKENS = 100  # that a demonstration has behind the functions, which a step reads once
ANSWER_TOKENS = 40  # of one who ends with the calls; the base model may go on to MAX_NEW_TOKENS


class PassSeconds(NamedTuple):
    """Seconds of a pass."""

    read: float  # of a prompt
    token: float  # written alone
    beside: float  # written, of so many episodes at once
    trained: float  # a token

    def probe_times(
        self, model: BaseModel, start: float, forged_task: float, cpu_share: float
    ) -> ProbeTimes:
        """Return rough times of stages that take `start` seconds until their work begins."""
        alone, among = (
            [self.read + length * token for length in (ANSWER_TOKENS, MAX_NEW_TOKENS)]
            for token in (self.token, self.beside)
        )
        return ProbeTimes(
            self.read / BATCH + TAIL_TOKENS * self.trained,
            alone[0],
            start,
            forged_task,
            cpu_share,
            model.training_gb,
            model.play_gb,
            alone[1],
            among[0] / alone[0],
            among[1] / alone[1],
        )


def time_pass(
    model: BaseModel,
    entry: Mapping[str, Any],
    torch_threads: int,
    forged_task: float,
    keep: Callable[[ProbeTimes], None],
) -> ProbeTimes:
    """Return rough times of a model for tasks such as this one, by one pass of it.

    What its first few tokens say is given to `keep`, for a pass that does not end in time.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from fctncalling.model_folder import resolve_model_folder

    started = time.monotonic()
    torch.set_num_threads(torch_threads)
    folder = str(resolve_model_folder(model.name))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    network: Any = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=False)
    network = network.to(device).float()
    text = json.dumps([entry.get("function"), entry["question"]])
    numbers = tokenizer(text)["input_ids"][: model.max_episode_tokens - WRITTEN_TOKENS]
    tokens = torch.tensor([numbers], device=device)
    loaded, cpu = time.monotonic(), time.process_time()
    start = max(1.0, 2 * (loaded - started))  # a stage reads tasks and weights, and writes some

    def times(*seconds: float) -> ProbeTimes:
        share = (time.process_time() - cpu) / max(time.monotonic() - loaded, 1e-9)
        return PassSeconds(*seconds).probe_times(model, start, forged_task, share)

    with torch.no_grad():
        network(tokens[:, :WARM_TOKENS])
        warm = time.monotonic()
        each = (warm - loaded) / WARM_TOKENS
        keep(times(each * len(numbers), 4 * each, each, 3 * each))
        cache = network(tokens, use_cache=True).past_key_values
        read = time.monotonic()
        for _ in range(WRITTEN_TOKENS):
            network(tokens[:, -1:], past_key_values=cache, use_cache=True)
        written = time.monotonic()
        beside = tokens[:, :1].expand(PARALLEL_EPISODES, 1)
        for _ in range(WRITTEN_TOKENS):
            network(beside)
    side_by_side = time.monotonic()
    trained = tokens[:, :TRAINED_TOKENS]
    network(trained, labels=trained).loss.backward()
    learned = (time.monotonic() - side_by_side) / trained.shape[1]
    del network, cache
    gc.collect()
    alone, among = (written - read) / WRITTEN_TOKENS, (side_by_side - written) / WRITTEN_TOKENS
    return times(read - warm, alone, among / PARALLEL_EPISODES, learned)
