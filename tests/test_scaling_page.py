"""The page on many GPUs: its commands fit their cards, its simulation follows from its figures."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import scaling

from fctncalling.cli.train import main

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/scaling.md").read_text("utf-8")
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


def test_the_kept_simulation_follows_from_its_costs() -> None:
    kept = json.loads((ROOT / "results/kept/performance/scaling.json").read_text("utf-8"))
    costs = scaling.TokenCosts(*(figure["value"] for figure in kept["figures"][:4]))
    assert [(name, values) for name, values in kept["simulation"][1:]] == scaling.simulate(costs)


def test_the_page_names_what_the_simulation_assumes() -> None:
    job, page = scaling.JOB, " ".join(PAGE.split())
    for assumed in (
        f"{job.parameters / 1e9:g}e9 weights",
        f"{job.tokens:,} tokens, {job.written} of them written",
        f"{job.in_machine / 1e9:g} GB/s between the 8 GPUs",
        f"{job.between / 1e9:g} GB/s between machines, {job.latency_s * 1e6:g} us",
        f"spread log-normally by {scaling.SPREAD}",
        f"in passes of {job.pass_tokens:,} tokens",
    ):
        assert assumed in page


def test_what_fails_first_follows_from_the_table() -> None:
    rows = re.findall(r"^\| (.+?) \| ([\d.,]+).* \| ([\d.,]+).* \| ([\d.,]+).* \|$", PAGE, re.M)
    table = {name: [float(cell.replace(",", "")) for cell in cells] for name, *cells in rows}
    learning = table["GPU: learn a share"]
    update = [sum(pair) for pair in zip(table["GPU: play a share"], learning, strict=True)]
    gathers, sent = (
        table[name]
        for name in (
            "FSDP: gather and reduce in passes",
            "Ray: all weights to every machine in turn",
        )
    )
    assert table["CPU: unpack and lay out all"][2] > update[2]
    assert gathers[1] / learning[1] == pytest.approx(3, rel=0.1)
    assert gathers[0] / learning[0] == pytest.approx(1 / 3, rel=0.1)
    assert sent[1] / update[1] == pytest.approx(1 / 5, rel=0.1)
    assert sent[2] / update[2] == pytest.approx(7, rel=0.1)
    assert max(table["wait for the longest share, 4 slots each"]) == 14


def test_an_update_of_the_simulation_is_arithmetic() -> None:
    """8,192 episodes of 6,000 tokens in 1,024 processes: by hand."""
    costs = scaling.TokenCosts(10.0, 100.0, 1.0, 1.0)
    of_1024 = {name: values[-1] for name, values in scaling.simulate(costs)}
    assert of_1024["send episodes to all"] == f"{49_152_000 * 10 / 50e9 + 2 * 1024 * 50e-6:.2f} s"
    assert of_1024["CPU: unpack and lay out all"] == "98 s"
    assert of_1024["memory: episodes"] == "4.9 GB"
