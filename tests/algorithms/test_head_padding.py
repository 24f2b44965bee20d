"""Wider heads say the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tiny_models import tiny_model

from evaluate_fctncalling import main as evaluate
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.data.bfcl import embedded_path
from fctncalling.lab.head_padding import pad_heads


@pytest.mark.parametrize("size", [32])
def test_the_embedded_model_with_wider_heads_gives_the_same_logits(size: int) -> None:
    model = ActorCritic.load(embedded_path("model")).model.eval()
    wide = pad_heads(model, size)
    assert wide.config.head_dim == size
    assert (
        wide.model.layers[0].self_attn.q_proj.out_features
        == size * model.config.num_attention_heads
    )
    ids = torch.randint(0, 1700, (2, 300), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        assert torch.allclose(model(ids).logits, wide(ids).logits, atol=2e-4)


def test_export_writes_it_or_says_why_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "export",
        "--checkpoint",
        str(embedded_path("model")),
        "--output",
        str(tmp_path / "wide"),
        "--head_size",
    ]
    assert evaluate([*words, "9"]) == 2
    assert "heads of 24 cannot be made 9 wide" in capsys.readouterr().err
    assert evaluate([*words, "32"]) == 0
    assert json.loads((tmp_path / "wide" / "config.json").read_text())["head_dim"] == 32
    assert (tmp_path / "wide" / "tokenizer.json").exists()


def test_an_untied_model_says_the_same_and_stays_untied_when_it_is_read_again(
    tmp_path: Path,
) -> None:
    words = ["export", "--checkpoint", str(embedded_path("model")), "--untie", "--output"]
    assert evaluate([*words, str(tmp_path / "untied")]) == 0
    tied, untied = (
        ActorCritic.load(folder).model.eval()
        for folder in (embedded_path("model"), tmp_path / "untied")
    )
    assert tied.get_output_embeddings().weight is tied.get_input_embeddings().weight
    assert untied.get_output_embeddings().weight is not untied.get_input_embeddings().weight
    ids = torch.arange(1, 50)[None]
    with torch.inference_mode():
        assert torch.equal(tied(ids).logits, untied(ids).logits)


@pytest.mark.parametrize(
    ("kind", "size"), [("gpt2", 32), ("qwen2", 32), ("llama", 6), ("llama", 9)]
)
def test_what_cannot_be_widened_is_refused(kind: str, size: int) -> None:
    model = tiny_model(kind)
    model.config.rope_parameters = getattr(model.config, "rope_parameters", None) or {}
    model.config.head_dim = getattr(model.config, "head_dim", None) or 8
    with pytest.raises(ValueError, match=r"heads of 8 cannot be made \d+ wide"):
        pad_heads(model, size)
