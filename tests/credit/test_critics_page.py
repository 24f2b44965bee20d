"""What the page of credit says of the kept grades."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks/jobs"))
from grades import KEPT, read


def test_three_seeds_of_three_points_are_kept() -> None:
    runs = read(KEPT)
    points = {(run["job"], run["update"]) for run in runs}
    assert len(points) == 3
    assert len(runs) == 3 * len(points)


def test_matched_states_keep_what_the_page_says_of_them() -> None:
    for update in (10, 20):
        own = [run for run in read(KEPT) if (run["job"], run["update"]) == ("main", update)]
        values = [run["values"]["state"]["explained_variance"] for run in own]
        signs = [run["estimators"]["TPPO_state"]["sign_where_it_speaks"] for run in own]
        assert sum(values) / len(values) >= 0.8
        assert sum(signs) / len(signs) >= 0.945
