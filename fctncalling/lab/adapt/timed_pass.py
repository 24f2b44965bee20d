"""Timed pass: what a step and an answer of a model take here, about, before anything is trained."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Mapping
from typing import Any

from fctncalling.lab.adapt.adapt_plan import BATCH, ProbeTimes
from fctncalling.lab.adapt.base_model import BaseModel

WARM_TOKENS, TRAINED_TOKENS, WRITTEN_TOKENS = 16, 128, 8  # what is timed
TAIL_TOKENS = 100  # that a demonstration has behind the functions, which a step reads once
ANSWER_TOKENS, BASE_TOKENS = 40, 256  # of one who ends with the calls, and of one who goes on


def time_pass(
    model: BaseModel, entry: Mapping[str, Any], torch_threads: int, forged_task: float
) -> ProbeTimes:
    """Return rough times of a model for tasks such as this one, by one pass of it."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from fctncalling.model_folder import resolve_model_folder

    started, cpu = time.monotonic(), time.process_time()
    torch.set_num_threads(torch_threads)
    folder = str(resolve_model_folder(model.name))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    network: Any = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=False)
    network = network.to(device).float()
    text = json.dumps([entry.get("function"), entry["question"]])
    numbers = tokenizer(text)["input_ids"][: model.max_episode_tokens - WRITTEN_TOKENS]
    tokens = torch.tensor([numbers], device=device)
    network(tokens[:, :WARM_TOKENS])
    loaded = time.monotonic()
    with torch.no_grad():
        cache = network(tokens, use_cache=True).past_key_values
        read = time.monotonic()
        for _ in range(WRITTEN_TOKENS):
            network(tokens[:, -1:], past_key_values=cache, use_cache=True)
    written = time.monotonic()
    trained = tokens[:, :TRAINED_TOKENS]
    network(trained, labels=trained).loss.backward()
    ended = time.monotonic()
    del network, cache
    gc.collect()
    prompt, token = read - loaded, (written - read) / WRITTEN_TOKENS
    tail = TAIL_TOKENS * (ended - written) / trained.shape[1]
    return ProbeTimes(
        prompt / BATCH + tail,
        prompt + ANSWER_TOKENS * token,
        max(1.0, 2 * (loaded - started)),  # a stage reads tasks and weights, and writes some
        forged_task,
        (time.process_time() - cpu) / (ended - started),
        model.training_gb,
        model.play_gb,
        prompt + BASE_TOKENS * token,
    )
