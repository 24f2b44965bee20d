"""A training run by adapters on a base of over ten million parameters, through the command line."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import torch
from config_files import config_flag
from peft import PeftModel
from safetensors.torch import load_file
from tiny_models import tiny_tokenizer
from transformers import AutoModelForCausalLM, Qwen2Config, Qwen2ForCausalLM

from evaluate_fctncalling import main as evaluate
from fctncalling.algorithms.run.checkpoint import STATE_FILE
from fctncalling.cli.train import main

pytestmark = pytest.mark.prove


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("models") / "base"
    config = Qwen2Config(
        vocab_size=259,
        hidden_size=384,
        intermediate_size=1024,
        num_hidden_layers=8,
        num_attention_heads=6,
        num_key_value_heads=6,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=2,
    )
    model = Qwen2ForCausalLM(config)
    assert sum(weight.numel() for weight in model.parameters()) >= 10_000_000
    model.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.mark.parametrize("critic", ["head", "lora"])
def test_the_base_stays_byte_for_byte_and_the_checkpoint_is_small_and_plain_peft_reads_it(
    base: Path, tmp_path: Path, critic: str
) -> None:
    before = digests(base)
    flags = [
        "--num_updates=2",
        "--episodes_per_update=4",
        "--n_rollout_threads=4",
        "--num_mini_batch=2",
    ]
    flags += [
        "--max_new_tokens=4",
        "--max_episode_tokens=2000",
        "--max_steps_per_turn=1",
        "--eval_episodes=1",
    ]
    flags += [
        f"--results_dir={tmp_path}",
        "--device=cpu",
        "--tensorboard=false",
        "--lr=1e-3",
        "--seed=3",
    ]
    # An untrained model solves nothing: what it earns differs by what it writes.
    flags += [
        "--reward=sample_tools:reward_of_length",
        "--lora_r=4",
        config_flag(tmp_path, lora_targets="q_proj,v_proj"),
        f"--critic={critic}",
    ]
    assert main([*flags, f"--model_name_or_path={base}"]) == 0
    assert digests(base) == before
    checkpoint = tmp_path / "check" / "base" / "embedded" / "TPPO" / "checkpoints" / "last"
    moved = load_file(checkpoint / "adapter_model.safetensors")
    factors = {
        kind: [weight for name, weight in moved.items() if f"lora_{kind}" in name] for kind in "AB"
    }
    assert len(factors["A"]) == len(factors["B"]) == 8 * 2
    assert all(bool(weight.any()) for weight in factors["B"])  # they start at 0
    taken = torch.load(checkpoint / STATE_FILE, weights_only=True)["optimisers"]["policy"]["state"]
    assert all(bool(slot["exp_avg"].any()) for slot in taken.values())  # every factor was pulled at
    share = size(checkpoint) / size(base)
    print(
        f"critic {critic}: checkpoint {size(checkpoint) / 1e6:.2f} MB of {size(base) / 1e6:.1f} "
        f"MB, {share:.1%}"
    )
    assert share < 0.05

    with torch.no_grad():
        ids = torch.arange(40)[None]
        plain = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32).eval()
        untouched = plain(ids).logits
        adapted = PeftModel.from_pretrained(plain, str(checkpoint)).eval()(ids).logits
        assert not torch.equal(adapted, untouched)
        assert (
            evaluate(["export", f"--checkpoint={checkpoint}", f"--output={tmp_path / 'made'}"]) == 0
        )
        assert not list(tmp_path.glob(".made*"))
        made = AutoModelForCausalLM.from_pretrained(tmp_path / "made").eval()
        assert torch.allclose(made(ids).logits, adapted, atol=1e-5)
