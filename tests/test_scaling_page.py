"""The page on many GPUs: its commands fit their cards, its simulation follows from its figures."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import scaling

from fctncalling.cli.train import main

PAGE = (Path(__file__).parents[1] / "docs/scaling.md").read_text("utf-8")
SHAPES = {
    "Qwen3-1.7B": {
        "model_type": "qwen3",
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151_936,
        "tie_word_embeddings": True,
    },
    "Qwen2.5-7B": {
        "model_type": "qwen2",
        "hidden_size": 3584,
        "intermediate_size": 18_944,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "vocab_size": 152_064,
        "tie_word_embeddings": False,
    },
}


def commands_of_one_gpu() -> list[tuple[str, str, str]]:
    """Return the card, the planned memory and the command of each that the page names."""
    section = PAGE.split("## One GPU")[1].split("\n## ")[0].replace("\\\n", " ")
    found = re.findall(r"^# .* on (\d+) GB: (\d+) GB\n(fctncalling .*)$", section, re.MULTILINE)
    learning = re.search(r"^(fctncalling .*--rollout_engine vllm.*)$", section, re.MULTILINE)
    assert learning is not None
    return [*found, ("48", "35", learning[1])]  # vLLM has 0.4 of the 80


@pytest.mark.prove
@pytest.mark.parametrize(("card", "planned", "command"), commands_of_one_gpu())
def test_a_command_of_the_page_fits_its_card(
    card: str,
    planned: str,
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, shape in SHAPES.items():
        folder = tmp_path / "models" / name
        folder.mkdir(parents=True)
        shape |= {"num_hidden_layers": 28, "max_position_embeddings": 32_768}
        (folder / "config.json").write_text(json.dumps(shape))
    monkeypatch.chdir(tmp_path)
    assert main([*shlex.split(command)[2:], "--plan=json", "--memory", f"{card}GB"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["num_weights"] > 1.7e9
    assert plan["needed_bytes"] / 1e9 == pytest.approx(float(planned), abs=0.6)


def test_the_simulation_follows_from_the_figures_that_the_page_names() -> None:
    travelling, held = re.findall(r"([\d.]+) bytes when it travels and (\d+)", PAGE)[0]
    unpacked, laid_out = re.findall(r"([\d.]+) us to unpack it and ([\d.]+) us", PAGE)[0]
    costs = scaling.TokenCosts(
        float(travelling), float(held), float(unpacked) / 1e6, float(laid_out) / 1e6
    )
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE)
    told = {name: values for name, *values in rows}
    for name, values in scaling.simulate(costs):
        assert told[name] == values, name


def test_an_update_of_the_simulation_is_arithmetic() -> None:
    """8,192 episodes of 6,000 tokens in 1,024 processes: by hand."""
    costs = scaling.TokenCosts(10.0, 100.0, 1e-6, 1e-6)
    of_1024 = {name: values[-1] for name, values in scaling.simulate(costs)}
    assert of_1024["send episodes to all"] == f"{49_152_000 * 10 / 50e9 + 2 * 1024 * 50e-6:.2f} s"
    assert of_1024["CPU: unpack and lay out all"] == "98 s"
    assert of_1024["memory: episodes"] == "4.9 GB"
