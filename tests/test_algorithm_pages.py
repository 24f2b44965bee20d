"""Each algorithm has a page whose test vector is the reference's, and the code's."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from fctncalling.algorithms.ppo import ALGORITHMS

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs/algorithms"
# Worked out by hand from the recursion: gamma 0.9, lambda 0.8, rewards 0.5 and 1.
REFERENCE = {
    "TPPO": ([1.192, 0.992, 1.092, 0.6, 0.4], [1.292, 1.292, 1.292, 1, 1]),
    "POAD": ([0.782016, 0.72752, 1.0344, 0.52, 0.4], [0.882016, 1.02752, 1.2344, 0.92, 1]),
    "NTPO": ([0.585494, 0.577075, 0.96816, 0.428, 0.4], [0.685494, 0.877075, 1.16816, 0.828, 1]),
    "APPO": ([1.192, 1.192, 1.192, 0.6, 0.6], [1.292, 1.292, 1.292, 1, 1]),
}


@pytest.fixture(scope="module")
def pictures() -> Iterator[Any]:
    sys.path.insert(0, str(ROOT / "docs"))
    yield import_module("algorithm_pictures")
    sys.path.remove(str(ROOT / "docs"))


def test_every_algorithm_has_a_page_with_formula_vector_code_and_curve() -> None:
    for name in ALGORITHMS:
        text = (FOLDER / f"{name.lower()}.md").read_text("utf-8")
        assert text.startswith(f"# {name}\n")
        for part in ("## Formula", "## Test vector", "```python\n", "## Curve"):
            assert part in text, (name, part)


@pytest.mark.parametrize("name", REFERENCE)
def test_the_vector_of_a_page_is_the_reference_and_what_is_drawn(name: str, pictures: Any) -> None:
    text = (FOLDER / f"{name.lower()}.md").read_text("utf-8")
    rows = [re.findall(rf"^\| {row} \| (.*) \|$", text, re.M)[0] for row in ("advantage", "target")]
    shown = [[float(cell) for cell in row.split(" | ")] for row in rows]
    assert shown == [pytest.approx(row) for row in REFERENCE[name]]
    assert list(pictures.estimate(name)) == [pytest.approx(row, abs=1e-6) for row in shown]
