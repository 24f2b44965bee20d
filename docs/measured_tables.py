"""Tables of benchmarks and comparisons, from the files of their flag `--json`.

docs/evidence_tables.py puts them on the pages.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "results/kept"
sys.path.insert(0, str(ROOT / "benchmarks"))

from figures import Figure, three_digits  # noqa: E402 - of benchmarks

PEERS = {
    "ours": "ours, TPPO",
    "verl": "verl 0.9.1",
    "areal": "AReaL 1.0.4",
    "nemo_rl": "NeMo-RL 7ea279abf",
    "miles": "miles 31f1ca961",
    "slime": "slime 624b824a8",
    "skyrl": "SkyRL a9564572e",
}
"""Trainer as benchmarks/peers/others_credit.py names it -> the version that was asked."""
SCORERS = {
    "tinker": "tinker-cookbook 0.6.1",
    "rllm": "rLLM 9beb6e0f",
    "toolrl": "ToolRL 8cee13ec",
}
"""Scorer as benchmarks/peers/others_scorers.py names it -> the version that was asked."""
GROUPS = ("valid", "lenient", "wrong", "harsh")


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of Markdown."""
    head, *lines = (f"| {' | '.join(line)} |" for line in (heads, *rows))
    return "\n".join([head.replace("|  |", "| |"), "|---" * len(heads) + "|", *lines])


def measured_table(*names: str) -> str:
    """Return a row a figure of some files: value and, if any has one, bound."""
    rows = [[f.name, three_digits(f.value), f.bound] for name in names for f in figures_of(name)]
    columns = 3 if any(row[2] for row in rows) else 2
    heads = ["figure", "measured", "bound"][:columns]
    return markdown_table(heads, [row[:columns] for row in rows])


def figures_of(name: str) -> list[Figure]:
    """Return the figures of a file of performance."""
    return [Figure(**figure) for figure in _read(f"performance/{name}")["figures"]]


def machines_table() -> str:
    """Return a row a machine: its processor, the libraries in use, the files measured with them."""
    files: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for file in sorted((KEPT / "performance").glob("*.json")):
        machine = _read(f"performance/{file.stem}")["machine"]
        files.setdefault(tuple(machine.items()), []).append(f"`{file.stem}`")
    rows = [
        [", ".join(map(" ".join, machine)), ", ".join(names)] for machine, names in files.items()
    ]
    return markdown_table(["machine", "files of `results/kept/performance`"], rows)


def simulation_table() -> str:
    """Return the simulated update of many processes."""
    heads, *rows = ([name, *values] for name, values in _read("performance/scaling")["simulation"])
    return markdown_table(heads, rows)


def parity_table() -> str:
    """Return a row a comparison with the official package: how many, and how many differ."""
    recorded, odd = _read("conformance/recorded"), _read("conformance/odd_answers")["counts"]
    scores = _read("conformance/official_scores")["counts"]
    rows = [
        ["made answers, by `fctncalling conformance --recorded`", recorded["compared"]],
        ["odd source text, by `benchmarks/peers/odd_answers.py`", odd["answers"]],
        *(
            [f"{what}, by `benchmarks/peers/official_scores.py`", scores[what][0]]
            for what in scores
        ),
    ]
    differ = [
        str(len(recorded["different"])),
        f"{odd['valid']} in `valid`, {odd['error_type']} in `error_type`",
        *(str(unequal) for _, unequal in scores.values()),
    ]
    cells = [[what, f"{n:,}", cell] for (what, n), cell in zip(rows, differ, strict=True)]
    return markdown_table(["what was compared", "how many", "differ"], cells)


def scorers_table() -> str:
    """Return a row a scorer of others: its agreement with the official verdicts by group, in %."""
    rows = []
    for scorer, title in SCORERS.items():
        report = _read(f"conformance/scorer_{scorer}")
        cells = [_agreement(report["strata"], group) for group in GROUPS]
        rows.append([title, ", ".join(report["categories"]), *cells])
    return markdown_table(["scorer", "categories", *GROUPS], rows)


def _agreement(strata: dict[str, Any], group: str) -> str:
    """Return a group's agreement in %; 100 only if every answer agrees."""
    chosen = [stratum for name, stratum in strata.items() if name.startswith(f"{group}/")]
    count = sum(stratum["count"] for stratum in chosen)
    agreed = sum(round(stratum["agreement"] * stratum["count"]) for stratum in chosen)
    return f"{min(100 * agreed / count, 100.0 if agreed == count else 99.9):.1f}"


def credit_table() -> str:
    """Return the effect of tool tokens on credit, a column a trainer."""
    heads, *rows = _read("conformance/others_credit")["rows"]
    return markdown_table(["", *(PEERS[name] for name in heads[1:])], rows)


def templates_table() -> str:
    """Return the counts of chat templates."""
    counts = _read("conformance/templates")["counts"]
    return markdown_table(list(counts), [list(map(str, counts.values()))])


def _read(name: str) -> Any:
    return json.loads((KEPT / f"{name}.json").read_text("utf-8"))


TABLES: dict[str, Callable[[], str]] = {
    "machines": machines_table,
    "update": partial(
        measured_table, "update_trl", "update_growth", "update_embedded", "update_shared"
    ),
    "rollout": partial(
        measured_table, "rollout_generate", "rollout_decoders", "rollout_trl", "rollout_official"
    ),
    **{name: partial(measured_table, name) for name in ("memory", "checkers", "executor")},
    "scaling_costs": partial(measured_table, "scaling"),
    "simulation": simulation_table,
    "parity": parity_table,
    "scorers": scorers_table,
    "credit_of_others": credit_table,
    "templates": templates_table,
}
"""Name on a page -> what makes the table."""
