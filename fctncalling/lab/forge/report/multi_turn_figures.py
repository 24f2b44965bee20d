"""Figures of multi-turn categories for the report."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from fctncalling.data.types import Task
from fctncalling.lab.forge.forged_entry import user_texts
from fctncalling.lab.forge.multi_turn.fidelity import Fidelity, divergence, measure
from fctncalling.lab.forge.official_guard import call_sequence
from fctncalling.lab.forge.report.category_report import Figures, Row, share_figure
from fctncalling.lab.forge.report.diversity import openings, words_of

TYPE_WORDS = 20000  # at which the growth of types is read
MOST_BARS = 24  # of a figure, the most frequent official outcomes first


def multi_turn_figures(forged: Sequence[Task], official: Sequence[Task]) -> Figures:
    """Return the rows and figures of one multi-turn category."""
    # A few official truths cannot be written as calls.
    official = [task for task in official if call_sequence(task) is not None]
    ours, theirs = measure(forged), measure(official)
    beside = theirs if official else Fidelity()
    figures = [
        _figure("turns of a task", ours.turns, beside.turns),
        _figure("calls of a turn", ours.calls, beside.calls),
        _figure("longest chain of dependent calls", ours.chains, beside.chains),
        _figure("where an argument can be read", ours.provenance, beside.provenance),
        _figure(
            "what a call changes (share of calls)",
            ours.effects,
            beside.effects,
            (ours.functions.total(), beside.functions.total()),
        ),
        _figure("classes of a task", _joined(ours.classes), _joined(beside.classes)),
    ]
    return [*_count_rows(ours, beside), *_word_rows(forged, official)], figures


def _figure(
    title: str,
    ours: Mapping[Any, int],
    theirs: Mapping[Any, int],
    totals: tuple[int, int] | None = None,
) -> str:
    sums = totals or (sum(ours.values()), sum(theirs.values()))
    keys = sorted({*ours, *theirs}, key=lambda key: (-theirs.get(key, 0), str(key)))
    if all(isinstance(key, int) for key in keys):
        keys.sort()
    keys = keys[:MOST_BARS]
    shares = [
        {str(key): counts.get(key, 0) / max(1, total) for key in keys}
        for counts, total in zip((ours, theirs), sums, strict=True)
    ]
    return share_figure(title, shares[0], shares[1] if theirs else {})


def _joined(classes: Counter[tuple[str, ...]]) -> Counter[str]:
    """Return combinations of classes under short names."""
    short = {"GorillaFileSystem": "Files", "VehicleControlAPI": "Vehicle"}
    return Counter(
        {
            " + ".join(short.get(name, name.removesuffix("API")) for name in names): count
            for names, count in classes.items()
        }
    )


def _count_rows(ours: Fidelity, theirs: Fidelity) -> list[Row]:
    mine, other = ours.figures(), theirs.figures()
    measures = ("turns_per_task", "calls_per_turn", "class_combinations", "functions", "pairs")
    has_official = theirs.tasks > 0
    rows: list[Row] = [
        (name.replace("_", " "), str(mine[name]), str(other[name]) if has_official else "")
        for name in (*measures, "edges")
    ]
    if has_official:
        both = sum(edge in ours.edges for edge in theirs.edges)
        rows += [
            ("official dependency edges found", str(both), str(len(theirs.edges))),
            ("KL divergence of turns (nats)", f"{divergence(ours.turns, theirs.turns):.3f}", "0"),
            ("KL divergence of calls (nats)", f"{divergence(ours.calls, theirs.calls):.3f}", "0"),
        ]
    return rows


def _word_rows(forged: Sequence[Task], official: Sequence[Task]) -> list[Row]:
    ours, theirs = (
        [text for task in tasks for text in user_texts(task.question) if text]
        for tasks in (forged, official)
    )
    words = [sum(len(text.split()) for text in texts) for texts in (ours, theirs or ours)]
    count = min(TYPE_WORDS, *words)
    rows: dict[str, Callable[[Sequence[str]], str]] = {
        "words of a turn (median, 90 %)": _spread,
        f"different words in the first {count}": partial(_types, count),
        "most frequent opening (two words)": _most_frequent,
    }
    return [
        (name, shown(ours), shown(theirs) if theirs else "") for name, shown in rows.items() if ours
    ]


def _spread(texts: Sequence[str]) -> str:
    lengths = sorted(len(text.split()) for text in texts)
    return f"{statistics.median(lengths):.0f}, {lengths[9 * len(lengths) // 10]}"


def _types(count: int, texts: Sequence[str]) -> str:
    words = [word for text in texts for word in words_of(text) if word.isalnum()][:count]
    return str(len(set(words)))


def _most_frequent(texts: Sequence[str]) -> str:
    counts = openings(texts)
    [(opening, number)] = counts.most_common(1)
    return f"{opening!r} {number / counts.total():.1%}"
