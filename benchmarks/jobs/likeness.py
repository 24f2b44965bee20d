"""Similarity of forged and official tasks, and the repetition within their texts.

  python benchmarks/jobs/likeness.py forged.jsonl --official_dir ../shared/bfcl/data

A row per category and measure, forged beside official. AUC: how often a discriminator, fitted on
other texts, ranks a forged one before an official one (0.5 cannot tell, 1 always tells); its
control tells official tasks from their live counterpart, which users wrote.
"""

from __future__ import annotations

import argparse
import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fctncalling.data.bfcl import iter_tasks
from fctncalling.data.types import Task
from fctncalling.envs.judging.oracle import oracle_calls
from fctncalling.lab.forge.forged_entry import atoms, user_texts
from fctncalling.lab.forge.measures import official_tasks

Floats = NDArray[np.float64]
Terms = Callable[[str], Iterable[str]]
_TOKEN = re.compile(r"\w+|[^\w\s]")


def word_tokens(text: str) -> list[str]:
    """Return the words and marks of a text, lower case."""
    return _TOKEN.findall(text.lower())


def character_ngrams(text: str) -> Iterator[str]:
    """Yield n-grams of 2 to 5 characters, words and pairs of words."""
    text = f" {' '.join(text.split())} "
    for length in (2, 3, 4, 5):
        yield from (text[start : start + length] for start in range(len(text) - length + 1))
    words = word_tokens(text)
    yield from (f" {word} " for word in words)
    yield from (f" {first} {second} " for first, second in pairwise(words))


class Discrimination(NamedTuple):
    """Results of a discriminator on texts it was not fitted on."""

    auc: float
    forged_terms: list[str]  # that speak most for a forged text
    official_terms: list[str]


MAX_TEXTS, MIN_TEXTS = 400, 4  # of either side
NUM_FOLDS = 5
_NUM_TERMS = 20_000
_STRENGTH = 30.0  # variance of the weights, the inverse of the penalty on their squares


def discriminate(
    forged: Sequence[str], official: Sequence[str], terms: Terms = character_ngrams
) -> Discrimination:
    """Fit on four fifths of the texts and judge the fifth, five times; the mean AUC.

    Logistic regression on which terms occur (TF-IDF, rows of unit length), with as many texts of
    either side. Raises ValueError for too few of a side.
    """
    count = min(len(forged), len(official), MAX_TEXTS)
    if count < MIN_TEXTS:
        raise ValueError(f"expected at least {MIN_TEXTS} texts of either side, got {count}")
    rng = np.random.default_rng(0)
    orders = [(side, rng.permutation(len(side))[:count]) for side in (forged, official)]
    labels = np.repeat([1.0, 0.0], count)
    drawn = [side[int(index)] for side, order in orders for index in order]
    rows, vocabulary = _tf_idf([set(terms(text)) for text in drawn])
    kernel = _STRENGTH * (1.0 + (rows @ rows.T).astype(np.float64))
    fold = np.arange(2 * count) % count % min(NUM_FOLDS, count)
    aucs = []
    for held_out in (fold == number for number in range(fold.max() + 1)):
        dual = _fit(kernel[np.ix_(~held_out, ~held_out)], labels[~held_out])
        aucs.append(auc(kernel[np.ix_(held_out, ~held_out)] @ dual, labels[held_out]))
    weights = rows.T @ _fit(kernel, labels)
    ranked = [vocabulary[int(index)] for index in np.argsort(-weights, kind="stable")]
    return Discrimination(float(np.mean(aucs)), ranked[:20], ranked[-20:][::-1])


def auc(scores: Floats, labels: Floats) -> float:
    """Return the area under the ROC curve: how often a positive outranks a negative, ties half."""
    positive, negative = scores[labels > 0.5], scores[labels <= 0.5]
    ahead = (positive[:, None] > negative[None, :]).mean()
    level = (positive[:, None] == negative[None, :]).mean()
    return float(ahead + 0.5 * level)


def _tf_idf(texts: Sequence[set[str]]) -> tuple[NDArray[np.float32], list[str]]:
    """Return texts as rows of unit length, and the terms of the columns."""
    counts = Counter(term for terms in texts for term in terms)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_NUM_TERMS]
    vocabulary = {term: column for column, (term, count) in enumerate(ranked) if count > 1}
    rows = np.zeros((len(texts), len(vocabulary)), dtype=np.float32)
    for row, terms in zip(rows, texts, strict=True):
        for term in terms & vocabulary.keys():
            row[vocabulary[term]] = math.log(len(texts) / counts[term]) + 1
        row /= max(float(np.linalg.norm(row)), 1e-9)
    return rows, list(vocabulary)


def _fit(kernel: Floats, labels: Floats) -> Floats:
    """Return the dual weights of a ridge logistic regression, by Newton's method.

    The scores of the rows are kernel @ weights. The system that is solved has eigenvalues of at
    least 1, however small the variances p (1 - p) are (Rasmussen and Williams, algorithm 3.1).
    """
    scores: Floats = np.zeros(len(labels))
    dual: Floats = np.zeros(len(labels))
    for _ in range(30):
        chance = 1.0 / (1.0 + np.exp(-scores))
        root = np.sqrt(chance * (1.0 - chance))
        target = root**2 * scores + labels - chance
        system = np.eye(len(labels)) + root[:, None] * kernel * root[None, :]
        dual = target - root * np.linalg.solve(system, root * (kernel @ target))
        before, scores = scores, kernel @ dual
        if np.abs(scores - before).max() < 1e-6:
            break
    return dual


def distinct_ngram_share(texts: Sequence[str], length: int, num_words: int) -> float:
    """Return the share of n-grams that are distinct, over texts of `num_words` words together.

    Corpora are compared at the same number of words, for the share falls as a corpus grows.
    """
    ngrams: list[tuple[str, ...]] = []
    for text in texts:
        ngrams += _ngrams(word_tokens(text), length)
        if len(ngrams) >= num_words:
            break
    ngrams = ngrams[:num_words]
    return len(set(ngrams)) / len(ngrams) if ngrams else 0.0


BLEU_ORDER, BLEU_HYPOTHESES = 4, 150


def self_bleu(texts: Sequence[str], num_texts: int = MAX_TEXTS) -> float:
    """Return the mean BLEU of texts against the others (0 to 1): the lower, the more diverse.

    It grows with the number of texts, so corpora are compared at the same. Precisions are
    smoothed by adding one to numerator and denominator.
    """
    sample = random.Random(0).sample(list(texts), min(MAX_TEXTS, num_texts, len(texts)))
    logs = np.zeros(min(len(sample), BLEU_HYPOTHESES))
    for order in range(1, BLEU_ORDER + 1):
        counted = [Counter(_ngrams(word_tokens(text), order)) for text in sample]
        most: dict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
        for index, counts in enumerate(counted):
            for ngram, number in counts.items():  # the two texts that have it most often
                most[ngram] = sorted([*most[ngram], (number, index)], reverse=True)[:2]
        for index, counts in enumerate(counted[: len(logs)]):
            shared = sum(
                min(number, next((most_n for most_n, owner in most[ngram] if owner != index), 0))
                for ngram, number in counts.items()
            )
            logs[index] += math.log((shared + 1) / (counts.total() + 1))
    return float(np.exp(logs / BLEU_ORDER).mean()) if sample else 0.0


def _ngrams(words: Sequence[str], length: int) -> Iterable[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(length)), strict=False)


def recurring_share(tasks: Iterable[Task]) -> float:
    """Return the share of sentences that repeat an earlier task's, with values masked."""
    seen, recurring, total = set[str](), 0, 0
    for task in tasks:
        sentences = list(masked_sentences(task))
        recurring += sum(sentence in seen for sentence in sentences)
        total += len(sentences)
        seen.update(sentences)
    return recurring / max(1, total)


def masked_sentences(task: Task) -> Iterator[str]:
    """Yield the user's sentences, with a mark for each value.

    Values are the expected arguments, and beyond them what stands in quotes or brackets, what has
    a digit and names inside a sentence. Marks in a row are one: lists of any length are alike.
    """
    said = [each for each in atoms(_expected_values(task)) if each is not None]
    values = {str(each).lower() for each in said if not isinstance(each, bool)} - {""}
    ranked = sorted(values, key=lambda each: (-len(each), each))
    told = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, ranked))})(?!\w)", re.IGNORECASE)
    for text in user_texts(task.question):
        text = told.sub(_MARK, text) if values else text
        for sentence in _SENTENCE_END.split(_VALUE.sub(_MARK, text)):
            bare = _NAME.sub(_MARK, sentence.strip())
            yield " ".join(word_tokens(_MARKS.sub(_MARK, bare)))


_MARK = "#"
_SENTENCE_END = re.compile(r"(?<=[.?!])\s+")
_VALUE = re.compile(
    r"""(?<!\w)(?:"[^"]*"|'[^']*'(?!\w)|\[[^\]]*\]|\{[^}]*\}|\S*\d[\w:/.-]*\w|\d)"""
)
_NAME = re.compile(r"(?<=[^.?!\s] )[A-Z][\w-]+")
_MARKS = re.compile(r"#(?:(?:,| and| or|, and|, or)? *#)+")


def _expected_values(task: Task) -> Any:
    if not task.is_multi_turn:
        return [list(call.values()) for call in task.ground_truth or () if isinstance(call, dict)]
    try:
        return [list(call.arguments.values()) for turn in oracle_calls(task) for call in turn]
    except ValueError:
        return []  # a few official truths cannot be written as calls


def texts_of(tasks: Iterable[Task]) -> list[str]:
    """Return the user messages of tasks."""
    return [text for task in tasks for text in user_texts(task.question) if text]


def docs_of(tasks: Iterable[Task]) -> list[str]:
    """Return the offered functions of single-turn tasks as texts."""
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


def told_apart(mine: Sequence[str], others: Sequence[str]) -> Discrimination | None:
    """Return how well a classifier separates two sides; None if too few texts differ."""
    both = {*mine} & {*others}
    ours, theirs = ([t for t in dict.fromkeys(side) if t not in both] for side in (mine, others))
    return discriminate(ours, theirs) if min(len(ours), len(theirs)) >= MIN_TEXTS else None


NGRAM_WORDS = 3000  # over which distinct n-grams are counted


def rows(
    forged: Sequence[Task], official: Sequence[Task], live: Sequence[Task]
) -> Iterator[tuple[str, float | None, float | None]]:
    """Yield (measure, forged, official) of one category; AUCs are followed by the control."""
    ours, theirs = texts_of(forged), texts_of(official)
    for name, of in (("texts", texts_of), ("function docs", docs_of)):
        found, control = (told_apart(of(tasks), of(official)) for tasks in (forged, live))
        yield f"AUC of {name} (beside: control)", found and found.auc, control and control.auc
    words = min(NGRAM_WORDS, *(sum(map(len, map(str.split, side))) for side in (ours, theirs)))
    for length in (1, 2, 3):
        shares = [distinct_ngram_share(side, length, words) for side in (ours, theirs)]
        yield f"distinct-{length} of {words} words", shares[0], shares[1]
    count = min(len(ours), len(theirs))
    yield f"self-BLEU of {count} texts", self_bleu(ours, count), self_bleu(theirs, count)
    name = f"sentences that recur in {len(forged)} / {len(official)} tasks"
    yield name, recurring_share(forged), recurring_share(official)


def main() -> None:
    """Print the rows of each category that both sides have."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tasks", type=Path)
    parser.add_argument("--official_dir", type=Path, required=True)
    flags = parser.parse_args()
    forged: dict[str, list[Task]] = defaultdict(list)
    for task in iter_tasks(flags.tasks):
        forged[task.category].append(task)
    for category, tasks in forged.items():
        official = official_tasks(flags.official_dir, category)
        live = official_tasks(flags.official_dir, f"live_{category.removesuffix('_python')}")
        for name, *sides in rows(tasks, official, live) if official else ():
            shown = ("" if side is None else f"{side:.3f}" for side in sides)
            print(f"{category:24} {name:42} {' '.join(f'{side:>7}' for side in shown)}")


if __name__ == "__main__":
    main()
