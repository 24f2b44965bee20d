"""Every Python block of README and docs runs as it is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import SharedFolder

from fctncalling.cli.train import main as train

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
RUN = "results/check/embedded/embedded/TPPO/"  # of the main job
LONG = ("TextTrainer(", RUN)  # these take some seconds
BLOCKS = [
    pytest.param(
        block,
        id=f"{page.name}:{text[: text.index(block)].count(chr(10))}",
        marks=[pytest.mark.prove] if any(word in block for word in LONG) else [],
    )
    for page in PAGES
    for text in [page.read_text(encoding="utf-8")]
    for block in BLOCK.findall(text)
]


@pytest.mark.parametrize("block", BLOCKS)
def test_a_python_block_runs(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: SharedFolder
) -> None:
    if "pettingzoo" in block:
        pytest.importorskip("pettingzoo")  # an extra
    monkeypatch.chdir(tmp_path)
    if official := re.search(r"BFCL_v4_\w+\.json", block):
        source = shared / "bfcl" / "data"
        for name in (official[0], f"possible_answer/{official[0]}"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).symlink_to(source / name)
    if RUN in block:
        short = ["--num_updates=10", "--episodes_per_update=16", "--eval_interval=0"]
        assert train([*short, "--num_mini_batch=1", "--eval_episodes=8"]) == 0
    exec(compile(block, "block", "exec"), {"__name__": "__main__"})


def test_there_are_blocks_to_run() -> None:
    assert len(BLOCKS) >= 10
