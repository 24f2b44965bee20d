"""Report of one category: forged tasks beside official ones, and how far they are told apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fctncalling.data.types import FunctionDoc, Task
from fctncalling.lab.forge.forged_entry import user_texts
from fctncalling.lab.forge.report.diversity import (
    BLEU_TEXTS,
    SentenceRecurrence,
    argument_entropy,
    count_opening_word_pairs,
    distinct_ngram_share,
    self_bleu,
    word_tokens,
)

Floats = NDArray[np.float64]
MAX_TEXTS = 400  # of either side
MIN_TEXTS = 4
NUM_FOLDS = 5
_LENGTHS = (2, 3, 4, 5)  # characters of an n-gram; words and pairs of words come beside them
_NUM_FEATURES = 20_000
_STRENGTH = 30.0  # variance of the weights, the inverse of the penalty on their squares
_NUM_STEPS, _TOLERANCE = 30, 1e-6  # of Newton's method
_CHUNK = 2000  # columns that stand in memory as numbers


def ngrams(text: str) -> Iterator[str]:
    """Yield n-grams of 2 to 5 characters, words and pairs of words."""
    text = f" {' '.join(text.split())} "
    for length in _LENGTHS:
        yield from (text[start : start + length] for start in range(len(text) - length + 1))
    found = word_tokens(text)
    yield from (f" {word} " for word in found)
    yield from (f" {first} {second} " for first, second in pairwise(found))


Terms = Callable[[str], Iterable[str]]


class Discrimination(NamedTuple):
    """Results of a discriminator on texts it was not fitted on."""

    auc: float  # 0.5: cannot tell; 1: always tells
    forged_ngrams: list[str]  # that speak most for a forged text
    official_ngrams: list[str]


def discriminate(
    forged: Sequence[str], official: Sequence[str], terms: Terms = ngrams
) -> Discrimination:
    """Fit on four fifths of the texts and judge the fifth, five times; the mean AUC.

    Logistic regression on which terms occur (TF-IDF, rows of unit length), with as many texts of
    either side. Raises ValueError for too few of a side.
    """
    count = min(len(forged), len(official), MAX_TEXTS)
    if count < MIN_TEXTS:
        raise ValueError(f"expected at least {MIN_TEXTS} texts of either side, got {count}")
    rng = np.random.default_rng(0)
    texts = [
        *(forged[int(i)] for i in rng.permutation(len(forged))[:count]),
        *(official[int(i)] for i in rng.permutation(len(official))[:count]),
    ]
    labels = np.repeat([1.0, 0.0], count)
    features = _Features([set(terms(text)) for text in texts])
    kernel = _STRENGTH * features.products()
    fold = np.arange(2 * count) % count % min(NUM_FOLDS, count)
    aucs = []
    for held_out in (fold == number for number in range(fold.max() + 1)):
        dual = _fit(kernel[np.ix_(~held_out, ~held_out)], labels[~held_out])
        scores = kernel[np.ix_(held_out, ~held_out)] @ dual
        aucs.append(auc(scores, labels[held_out]))
    weights = features.weights(_fit(kernel, labels))
    ranked = [features.vocabulary[int(i)] for i in np.argsort(-weights, kind="stable")]
    return Discrimination(float(np.mean(aucs)), ranked[:20], ranked[-20:][::-1])


def auc(scores: Floats, labels: Floats) -> float:
    """Return the area under the ROC curve: how often a positive outranks a negative, ties half."""
    positive, negative = scores[labels > 0.5], scores[labels <= 0.5]
    ahead = (positive[:, None] > negative[None, :]).mean()
    level = (positive[:, None] == negative[None, :]).mean()
    return float(ahead + 0.5 * level)


class _Features:
    """Texts as rows of unit length, one column a term, and a column of ones."""

    def __init__(self, texts: Sequence[set[str]]) -> None:
        counts = Counter(term for terms in texts for term in terms)
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_NUM_FEATURES]
        self.vocabulary = [term for term, count in ranked if count > 1]
        self._rarity = np.log(len(texts) / np.array([counts[each] for each in self.vocabulary])) + 1
        column = {term: index for index, term in enumerate(self.vocabulary)}
        self._columns = [
            np.sort(np.array([column[each] for each in terms if each in column], dtype=np.int32))
            for terms in texts
        ]

    def _chunks(self) -> Iterator[NDArray[np.float32]]:
        """Yield the columns, some at a time."""
        lengths = [np.linalg.norm(self._rarity[columns]) for columns in self._columns]
        for start in range(0, len(self.vocabulary), _CHUNK):
            stop = min(start + _CHUNK, len(self.vocabulary))
            chunk = np.zeros((len(self._columns), stop - start), dtype=np.float32)
            for row, columns in enumerate(self._columns):
                here = columns[np.searchsorted(columns, start) : np.searchsorted(columns, stop)]
                chunk[row, here - start] = self._rarity[here] / lengths[row]
            yield chunk

    def products(self) -> Floats:
        """Return the inner products of all rows."""
        found = np.ones((len(self._columns), len(self._columns)))
        for chunk in self._chunks():
            found += chunk @ chunk.T
        return found

    def weights(self, dual: Floats) -> Floats:
        """Return the weight of each term: the sum of the rows, weighted."""
        return np.concatenate([np.zeros(0), *(chunk.T @ dual for chunk in self._chunks())])


def _fit(kernel: Floats, labels: Floats) -> Floats:
    """Return the dual weights of a ridge logistic regression, by Newton's method.

    The scores of the rows are kernel @ weights. The system that is solved has eigenvalues of at
    least 1, however small the variances p (1 - p) are (Rasmussen and Williams, algorithm 3.1).
    """
    scores: Floats = np.zeros(len(labels))
    dual: Floats = np.zeros(len(labels))
    for _ in range(_NUM_STEPS):
        chance = 1.0 / (1.0 + np.exp(-scores))
        variance = chance * (1.0 - chance)
        root = np.sqrt(variance)
        target = variance * scores + labels - chance
        system = np.eye(len(labels)) + root[:, None] * kernel * root[None, :]
        dual = target - root * np.linalg.solve(system, root * (kernel @ target))
        before, scores = scores, kernel @ dual
        if np.abs(scores - before).max() < _TOLERANCE:
            break
    return dual


FORGED_COLOR, OFFICIAL_COLOR = "#d9822b", "#3465a4"
_LEFT, _BAR, _WIDTH, _LABEL = 150, 11, 460, 12


def bars(title: str, forged: Mapping[str, float], official: Mapping[str, float]) -> str:
    """Return a figure with bars of shares for each key, the official ones where there are some."""
    keys = list({**official, **forged})
    most = max([*forged.values(), *official.values(), 1e-9])
    sides = [(official, OFFICIAL_COLOR)] if official else []
    rows, y = [], 26
    for key in keys:
        rows.append(_label(key, y + _BAR))
        for side, color in (*sides, (forged, FORGED_COLOR)):
            rows.append(_bar(side.get(key, 0.0), most, color, y))
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


def _bar(value: float, most: float, color: str, y: int) -> str:
    width = max(0.5, _WIDTH * value / most)
    shown = f"{100 * value:.1f}%"
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
    texts, official_texts = texts_of_tasks(forged), texts_of_tasks(official)
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
    for name, of in (("texts", texts_of_tasks), ("function docs", _doc_texts)):
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
    return bars(
        "most frequent first two words",
        {each: ours[each] / max(1, ours.total()) for each in shown},
        {each: theirs[each] / theirs.total() for each in shown} if theirs else {},
    )


def texts_of_tasks(tasks: Sequence[Task]) -> list[str]:
    """Return what the users of tasks say, message by message."""
    return [text for task in tasks for text in user_texts(task.question) if text]


def _doc_texts(tasks: Sequence[Task]) -> list[str]:
    """Return name, description and parameters of each function offered, as words.

    None of multi-turn tasks: both sides have BFCL's functions.
    """
    docs = [doc for task in tasks if not task.is_multi_turn for doc in task.functions]
    return [" ".join((doc.name, doc.description, *_parameter_texts(doc))) for doc in docs]


def _parameter_texts(doc: FunctionDoc) -> Iterator[str]:
    for name, schema in doc.parameters.get("properties", {}).items():
        yield f"{name} {schema.get('type', '')} {schema.get('description', '')}"


def _num_words(texts: Sequence[str]) -> int:
    return sum(len(text.split()) for text in texts)


def _shown_ngrams(ngrams: Sequence[str]) -> str:
    return ", ".join(f"<code>{escape(ngram.replace(' ', '␣'))}</code>" for ngram in ngrams[:12])
