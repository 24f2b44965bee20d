"""The picture of the algorithms' page shows what each estimates, by hand and by the code."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[1] / "docs"
# Worked out by hand from the recursion: gamma 0.9, lambda 0.8, rewards 0.5 and 1.
REFERENCE = {
    "TPPO": ([1.192, 0.992, 1.092, 0.6, 0.4], [1.292, 1.292, 1.292, 1, 1]),
    "POAD": ([0.782016, 0.72752, 1.0344, 0.52, 0.4], [0.882016, 1.02752, 1.2344, 0.92, 1]),
    "NTPO": ([0.585494, 0.577075, 0.96816, 0.428, 0.4], [0.685494, 0.877075, 1.16816, 0.828, 1]),
    "APPO": ([1.192, 1.192, 1.192, 0.6, 0.6], [1.292, 1.292, 1.292, 1, 1]),
}


@pytest.fixture(scope="module")
def pictures() -> Iterator[Any]:
    sys.path.insert(0, str(DOCS))
    yield import_module("algorithm_pictures")
    sys.path.remove(str(DOCS))


@pytest.mark.parametrize("name", REFERENCE)
def test_what_is_drawn_is_the_reference(name: str, pictures: Any) -> None:
    drawn = list(pictures.estimate(name))
    assert drawn == [pytest.approx(row, abs=1e-6) for row in REFERENCE[name]]
