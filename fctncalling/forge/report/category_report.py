"""Report of one category: forged tasks beside the official ones of the same category."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from fctncalling.data.types import Task
from fctncalling.forge.forged_entry import user_texts
from fctncalling.forge.report.discriminator import Discrimination, discriminate
from fctncalling.forge.report.diversity import (
    BLEU_TEXTS,
    argument_entropy,
    distinct,
    openings,
    self_bleu,
)
from fctncalling.forge.report.svg_bars import bars

Row = tuple[str, str, str]  # measure, forged, official
Figures = tuple[list[Row], list[str]]  # rows of a table, figures as SVG
Measurer = Callable[[Sequence[Task], Sequence[Task]], Figures]
"""(forged, official) -> rows and figures; the official tasks may be none."""

NGRAM_WORDS = 3000  # over which distinct n-grams are counted, of either side


@dataclass(frozen=True)
class ForgedCategoryReport:
    """What is told of one category."""

    category: str
    num_forged: int
    num_official: int
    rows: list[Row] = field(repr=False)
    figures: list[str] = field(repr=False)
    discrimination: Discrimination | None = None


def category_report(
    category: str, forged: Sequence[Task], official: Sequence[Task], measure: Measurer
) -> ForgedCategoryReport:
    """Return the report of one category; without official tasks their column stays empty."""
    rows, figures = measure(forged, official)
    texts, official_texts = _texts(forged), _texts(official)
    rows = [*rows, *_diversity_rows(texts, official_texts), *_entropy_rows(forged, official)]
    figures = [*figures, _opening_figure(texts, official_texts)]
    found = None
    if min(len(texts), len(official_texts)) >= 4:
        found = discriminate(texts, official_texts)
    return ForgedCategoryReport(category, len(forged), len(official), rows, figures, found)


def html_of(report: ForgedCategoryReport) -> str:
    """Return the section of the page."""
    cells = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(forged)}</td><td>{escape(official)}</td></tr>"
        for name, forged, official in report.rows
    )
    told = ""
    if report.discrimination is not None:
        found = report.discrimination
        told = (
            f"<p>AUC of the discriminator: <b>{found.auc:.3f}</b>. It tells a forged text by "
            f"{_shown_ngrams(found.forged_ngrams)}; an official one by "
            f"{_shown_ngrams(found.official_ngrams)}.</p>"
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
        _row(f"distinct-{n} of {count} words", distinct, texts, official, n, count)
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


def _shown_entropy(entropy: tuple[float, int] | None) -> str:
    return "none" if entropy is None else f"{entropy[0]:.2f} ({entropy[1]})"


def _opening_figure(texts: Sequence[str], official: Sequence[str]) -> str:
    """Return bars of the most frequent openings of forged texts: their share on either side."""
    ours, theirs = openings(texts), openings(official)
    shown = [opening for opening, _ in ours.most_common(8)]
    return share_figure(
        "most frequent first two words",
        {each: ours[each] / max(1, ours.total()) for each in shown},
        {each: theirs[each] / theirs.total() for each in shown} if theirs else None,
    )


def _texts(tasks: Sequence[Task]) -> list[str]:
    return [text for task in tasks for text in user_texts(task.question) if text]


def _num_words(texts: Sequence[str]) -> int:
    return sum(len(text.split()) for text in texts)


def _shown_ngrams(ngrams: Sequence[str]) -> str:
    return ", ".join(f"<code>{escape(ngram.replace(' ', '␣'))}</code>" for ngram in ngrams[:12])
