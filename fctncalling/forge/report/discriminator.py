"""A linear discriminator on character n-grams: can forged texts be told from official ones?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
LENGTHS = (2, 3, 4)
NUM_FEATURES = 3000
NUM_STEPS = 150
RATE, DECAY = 2.0, 1e-3
MAX_TEXTS = 400  # of either side


class Discrimination(NamedTuple):
    """What a discriminator found on texts it was not fitted on."""

    auc: float  # 0.5: cannot tell; 1: always tells
    forged_ngrams: list[str]  # that speak most for a forged text
    official_ngrams: list[str]


def discriminate(forged: Sequence[str], official: Sequence[str], seed: int = 0) -> Discrimination:
    """Fit on one half of the texts and judge the other, both ways; the mean AUC.

    Logistic regression on which n-grams of 2 to 4 characters occur, with as many texts of either
    side. Raises ValueError for fewer than 4 texts of a side.
    """
    count = min(len(forged), len(official), MAX_TEXTS)
    if count < 4:
        raise ValueError(f"expected at least 4 texts of either side, got {count}")
    rng = np.random.default_rng(seed)
    texts = [
        *(forged[int(i)] for i in rng.permutation(len(forged))[:count]),
        *(official[int(i)] for i in rng.permutation(len(official))[:count]),
    ]
    labels = np.repeat(np.array([1.0, 0.0], dtype=np.float32), count)
    half = np.arange(2 * count) % 2 == 0
    aucs, weights = [], Counter[str]()
    for fitted in (half, ~half):
        vocabulary = _vocabulary([texts[int(i)] for i in np.flatnonzero(fitted)])
        features = _features(texts, vocabulary)
        weight = _fit(features[fitted], labels[fitted])
        aucs.append(auc(features[~fitted] @ weight, labels[~fitted]))
        weights.update(dict(zip(vocabulary, weight[:-1].tolist(), strict=True)))
    ranked = [ngram for ngram, _ in weights.most_common()]
    return Discrimination(float(np.mean(aucs)), ranked[:20], ranked[-20:][::-1])


def auc(scores: Floats, labels: Floats) -> float:
    """Return the area under the ROC curve: how often a positive outranks a negative, ties half."""
    positive, negative = scores[labels > 0.5], scores[labels <= 0.5]
    ahead = (positive[:, None] > negative[None, :]).mean()
    level = (positive[:, None] == negative[None, :]).mean()
    return float(ahead + 0.5 * level)


def _ngrams(text: str) -> set[str]:
    text = f" {' '.join(text.split())} "
    return {text[i : i + n] for n in LENGTHS for i in range(len(text) - n + 1)}


def _vocabulary(texts: Sequence[str]) -> list[str]:
    counts = Counter(ngram for text in texts for ngram in _ngrams(text))
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [ngram for ngram, _ in ranked[:NUM_FEATURES]]


def _features(texts: Sequence[str], vocabulary: Sequence[str]) -> Floats:
    """Return (texts, n-grams + 1): rows of unit length, and a column of ones."""
    column = {ngram: index for index, ngram in enumerate(vocabulary)}
    features = np.zeros((len(texts), len(vocabulary) + 1), dtype=np.float32)
    for row, text in enumerate(texts):
        found = [column[ngram] for ngram in _ngrams(text) if ngram in column]
        features[row, found] = 1.0 / max(1.0, np.sqrt(len(found)))
    features[:, -1] = 1.0
    return features


def _fit(features: Floats, labels: Floats) -> Floats:
    """Return the weights of a logistic regression, by gradient descent with momentum."""
    weight: Floats = np.zeros(features.shape[1], dtype=np.float32)
    speed: Floats = np.zeros_like(weight)
    for _ in range(NUM_STEPS):
        chance = 1.0 / (1.0 + np.exp(-features @ weight))
        gradient = features.T @ (chance - labels) / len(labels) + DECAY * weight
        speed = (0.9 * speed - RATE * gradient).astype(np.float32, copy=False)
        weight = weight + speed
    return weight
