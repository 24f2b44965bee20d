"""The grades of critics in docs/credit.md are those of the kept file."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_says_what_the_kept_grades_hold() -> None:
    page = (ROOT / "docs/credit.md").read_text(encoding="utf-8").replace("\n ", "")
    kept = ROOT / "results/kept/critics/update_4.json"
    values = json.loads(kept.read_text(encoding="utf-8"))["values"]
    told = {
        "last": "on the last layer",
        "layers": "on all",
        "head": "with the trainer's head",
        "bins": "with bins",
        "body": "with a body of its own",
        "mistakes": "told of mistakes",
        "truth": "told all of the truth",
    }
    for name, words in told.items():
        assert f"{values[f'critic_{name}']['explained_variance']:.2f} {words}" in page
