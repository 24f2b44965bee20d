"""Report of one category: forged tasks beside the official ones of the same category."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from fctncalling.data.types import Task
from fctncalling.lab.forge.forged_entry import user_texts
from fctncalling.lab.forge.report.discriminator import MIN_TEXTS, Discrimination, discriminate
from fctncalling.lab.forge.report.diversity import (
    BLEU_TEXTS,
    SentenceRecurrence,
    argument_entropy,
    count_opening_word_pairs,
    distinct_ngram_share,
    self_bleu,
)

FORGED_COLOR, OFFICIAL_COLOR = "#d9822b", "#3465a4"
_LEFT, _BAR, _WIDTH, _LABEL = 150, 11, 460, 12


def bars(
    title: str, forged: Mapping[str, float], official: Mapping[str, float] | None, unit: str = "%"
) -> str:
    """Return a figure with two bars for each key, in the order of the keys of both.

    Shares are in 0..1 where the unit is %, else values as they are.
    """
    keys: list[str] = [*(official or {}), *(key for key in forged if key not in (official or {}))]
    scale = 100.0 if unit == "%" else 1.0
    most = max([*forged.values(), *(official or {}).values(), 1e-9])
    rows, y = [], 26
    for key in keys:
        rows.append(_label(key, y + _BAR))
        for side, color in ((official, OFFICIAL_COLOR), (forged, FORGED_COLOR)):
            if side is not None:
                rows.append(_bar(side.get(key, 0.0), most, scale, unit, color, y))
                y += _BAR + 1
        y += 5
    return (
        f'<svg viewBox="0 0 680 {y + 6}" width="680" height="{y + 6}" role="img" '
        f'aria-label="{escape(title)}" xmlns="http://www.w3.org/2000/svg" '
        f'font-family="sans-serif" font-size="{_LABEL}">'
        f'<text x="0" y="14" font-weight="bold">{escape(title)}</text>{"".join(rows)}</svg>'
    )


def _label(key: str, y: int) -> str:
    return f'<text x="{_LEFT - 8}" y="{y}" text-anchor="end">{escape(key[:24])}</text>'


def _bar(value: float, most: float, scale: float, unit: str, color: str, y: int) -> str:
    width = max(0.5, _WIDTH * value / most)
    shown = f"{value * scale:.1f}{unit}" if unit else f"{value:.2f}"
    return (
        f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR}" fill="{color}"/>'
        f'<text x="{_LEFT + width + 5:.1f}" y="{y + _BAR - 1}" font-size="10">{shown}</text>'
    )


Row = tuple[str, str, str]  # measure, forged, official
Figures = tuple[list[Row], list[str]]  # rows of a table, figures as SVG
Measurer = Callable[[Sequence[Task], Sequence[Task]], Figures]
"""(forged, official) -> rows and figures; the official tasks may be none."""

NGRAM_WORDS = 3000  # over which distinct n-grams are counted, of either side


@dataclass(frozen=True)
class ForgedCategoryReport:
    """Report on one category."""

    category: str
    num_forged: int
    num_official: int
    rows: list[Row] = field(repr=False)
    figures: list[str] = field(repr=False)
    told_apart: Mapping[str, Discrimination] = field(default_factory=dict)
    control: Mapping[str, Discrimination] = field(default_factory=dict)


def category_report(
    category: str,
    forged: Sequence[Task],
    official: Sequence[Task],
    measure: Measurer,
    recurrence: Mapping[int, float],
    others: Sequence[Task] = (),
) -> ForgedCategoryReport:
    """Return the report of one category; without official tasks their column stays empty.

    `recurrence` has the share of recurring sentences at numbers of forged tasks. `others` are
    official tasks of another origin: how far a discriminator tells them from the official ones.
    """
    rows, figures = measure(forged, official)
    texts, official_texts = _texts(forged), _texts(official)
    rows = [*rows, *_diversity_rows(texts, official_texts), *_entropy_rows(forged, official)]
    rows += _recurrence_rows(recurrence, official)
    figures = [*figures, _opening_figure(texts, official_texts)]
    return ForgedCategoryReport(
        category,
        len(forged),
        len(official),
        rows,
        figures,
        measure_discrimination(forged, official),
        measure_discrimination(others, official),
    )


def measure_discrimination(
    tasks: Sequence[Task], official: Sequence[Task]
) -> dict[str, Discrimination]:
    """Return how well tasks are told from official ones: by the user's texts, by function docs.

    A text or doc that both sides have is left out; what has too few left is not judged.
    """
    found = {}
    for name, of in (("texts", _texts), ("function docs", _doc_texts)):
        ours, theirs = dict.fromkeys(of(tasks)), dict.fromkeys(of(official))
        mine = [text for text in ours if text not in theirs]
        others = [text for text in theirs if text not in ours]
        if min(len(mine), len(others)) >= MIN_TEXTS:
            found[name] = discriminate(mine, others)
    return found


def category_section_html(report: ForgedCategoryReport) -> str:
    """Return the section of the page."""
    cells = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(forged)}</td><td>{escape(official)}</td></tr>"
        for name, forged, official in report.rows
    )
    told = "".join(
        f"<p>AUC of the discriminator of {name}: <b>{found.auc:.3f}</b>. It tells forged ones by "
        f"{_shown_ngrams(found.forged_ngrams)}; official ones by "
        f"{_shown_ngrams(found.official_ngrams)}.</p>"
        for name, found in report.told_apart.items()
    )
    return (
        f'<h2 id="{report.category}">{report.category}</h2>'
        f"<p>{report.num_forged} forged tasks, {report.num_official or 'no'} official ones.</p>"
        f"<table><tr><th>measure</th><th>forged</th><th>official</th></tr>{cells}</table>"
        f"<div>{''.join(report.figures)}</div>{told}"
    )


def share_figure(
    title: str, forged: Mapping[str, float], official: Mapping[str, float] | None
) -> str:
    """Return bars of shares, the official ones only where there are some."""
    return bars(title, forged, official or None)


def _diversity_rows(texts: Sequence[str], official: Sequence[str]) -> list[Row]:
    count = min(_num_words(texts), _num_words(official) or NGRAM_WORDS, NGRAM_WORDS)
    rows = [
        _row(f"distinct-{n} of {count} words", distinct_ngram_share, texts, official, n, count)
        for n in (1, 2, 3)
    ]
    num_texts = min(len(texts), len(official) or len(texts))
    few = f"self-BLEU of {min(num_texts, BLEU_TEXTS)} texts"
    return [*rows, _row(few, self_bleu, texts, official, num_texts)]


def _row(
    name: str,
    measure: Callable[..., float],
    texts: Sequence[str],
    official: Sequence[str],
    *args: int,
) -> Row:
    shown = f"{measure(official, *args):.3f}" if official else ""
    return name, f"{measure(texts, *args):.3f}", shown


def _entropy_rows(forged: Sequence[Task], official: Sequence[Task]) -> list[Row]:
    """Return rows of entropies; of as many tasks of either side, for it grows with their number."""
    count = min(len(forged), len(official) or len(forged))
    ours, theirs = argument_entropy(forged[:count]), argument_entropy(official[:count])
    return [
        (
            f"entropy of {kind} arguments (bits; number)",
            _shown_entropy(ours.get(kind)),
            _shown_entropy(theirs.get(kind)) if official else "",
        )
        for kind in sorted({*ours, *theirs})
    ]


def _recurrence_rows(shares: Mapping[int, float], official: Sequence[Task]) -> list[Row]:
    """Return how many sentences recur with their values taken out, as tasks are added."""
    theirs = SentenceRecurrence()
    for task in official:
        theirs.add(task)
    beside = {**theirs.shares, len(official): theirs.share} if official else {}
    return [
        (
            f"sentences that recur in {size} tasks, values taken out",
            f"{shares[size]:.1%}" if size in shares else "",
            f"{beside[size]:.1%}" if size in beside else "",
        )
        for size in sorted({*shares, *beside})
    ]


def _shown_entropy(entropy: tuple[float, int] | None) -> str:
    return "none" if entropy is None else f"{entropy[0]:.2f} ({entropy[1]})"


def _opening_figure(texts: Sequence[str], official: Sequence[str]) -> str:
    """Return bars of the most frequent openings of forged texts: their share on either side."""
    ours, theirs = count_opening_word_pairs(texts), count_opening_word_pairs(official)
    shown = [opening for opening, _ in ours.most_common(8)]
    return share_figure(
        "most frequent first two words",
        {each: ours[each] / max(1, ours.total()) for each in shown},
        {each: theirs[each] / theirs.total() for each in shown} if theirs else None,
    )


def _texts(tasks: Sequence[Task]) -> list[str]:
    return [text for task in tasks for text in user_texts(task.question) if text]


def _doc_texts(tasks: Sequence[Task]) -> list[str]:
    """Return name, description and parameters of each function offered, as words.

    None of multi-turn tasks: both sides have BFCL's functions.
    """
    return [
        " ".join(
            (
                doc.name,
                doc.description,
                *(
                    f"{name} {schema.get('type', '')} {schema.get('description', '')}"
                    for name, schema in doc.parameters.get("properties", {}).items()
                ),
            )
        )
        for task in tasks
        if not task.is_multi_turn
        for doc in task.functions
    ]


def _num_words(texts: Sequence[str]) -> int:
    return sum(len(text.split()) for text in texts)


def _shown_ngrams(ngrams: Sequence[str]) -> str:
    return ", ".join(f"<code>{escape(ngram.replace(' ', '␣'))}</code>" for ngram in ngrams[:12])
