"""A discriminator of texts, logistic regression on n-grams: can forged ones be told from others?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fctncalling.lab.forge.report.diversity import word_tokens

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
    forged: Sequence[str], official: Sequence[str], seed: int = 0, terms: Terms = ngrams
) -> Discrimination:
    """Fit on four fifths of the texts and judge the fifth, five times; the mean AUC.

    Logistic regression on which terms occur (TF-IDF, rows of unit length), with as many texts of
    either side. Raises ValueError for too few of a side.
    """
    count = min(len(forged), len(official), MAX_TEXTS)
    if count < MIN_TEXTS:
        raise ValueError(f"expected at least {MIN_TEXTS} texts of either side, got {count}")
    rng = np.random.default_rng(seed)
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
