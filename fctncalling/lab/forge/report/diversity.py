"""Diversity of texts and argument values: distinct n-grams, self-BLEU, entropy, recurrence."""

from __future__ import annotations

import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fctncalling.data.types import Task
from fctncalling.envs.judging.oracle import oracle_calls
from fctncalling.lab.forge.forged_entry import atoms, user_texts
from fctncalling.lab.forge.official_guard import digest

_WORD = re.compile(r"\w+|[^\w\s]")
BLEU_ORDER = 4
BLEU_HYPOTHESES = 150
BLEU_TEXTS = 400


def word_tokens(text: str) -> list[str]:
    """Return the words and marks of a text, lower case."""
    return _WORD.findall(text.lower())


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


def self_bleu(texts: Sequence[str], num_texts: int = BLEU_TEXTS) -> float:
    """Return the mean BLEU of texts against the others (0 to 1): the lower, the more diverse.

    It grows with the number of texts, so corpora are compared at the same. Precisions are
    smoothed by adding one to numerator and denominator.
    """
    sample = random.Random(0).sample(list(texts), min(BLEU_TEXTS, num_texts, len(texts)))
    counted = [
        [Counter(_ngrams(words, n)) for n in range(1, BLEU_ORDER + 1)]
        for words in map(word_tokens, sample)
    ]
    most = [_two_most(counts[n] for counts in counted) for n in range(BLEU_ORDER)]
    scores = []
    for index, counts in enumerate(counted[:BLEU_HYPOTHESES]):
        logs = 0.0
        for order in range(BLEU_ORDER):
            total = counts[order].total()
            shared = sum(
                min(number, _most_of_others(most[order][ngram], index))
                for ngram, number in counts[order].items()
            )
            logs += math.log((shared + 1) / (total + 1))
        scores.append(math.exp(logs / BLEU_ORDER))
    return sum(scores) / len(scores) if scores else 0.0


def argument_entropy(tasks: Iterable[Task]) -> dict[str, tuple[float, int]]:
    """Return for each kind of value the entropy of the expected arguments in bits, and how many.

    A kind is the class of the value: string, integer, float, boolean, list, dict.
    """
    values: dict[str, Counter[str]] = defaultdict(Counter)
    for task in tasks:
        try:
            turns = oracle_calls(task)
        except ValueError:
            continue  # a few official truths cannot be written as calls
        for turn in turns:
            for call in turn:
                for value in call.arguments.values():
                    values[_KINDS.get(type(value), "other")][repr(value)] += 1
    return {kind: (_entropy(counts), counts.total()) for kind, counts in sorted(values.items())}


def count_opening_word_pairs(texts: Iterable[str]) -> Counter[str]:
    """Return the first two words of each text, counted."""
    return Counter(" ".join(text.lower().split()[:2]) for text in texts if text)


class SentenceRecurrence:
    """Share of sentences that stood in a task before, their values taken out, as tasks come in.

    `shares` has it at the numbers of tasks in `SIZES` that were reached.
    """

    SIZES = (100, 200, 400, 1000, 3000, 10_000, 30_000, 100_000)

    def __init__(self) -> None:
        self._seen = set[int]()
        self.num_tasks = 0
        self._num_sentences = 0
        self._num_recurring = 0
        self.shares: dict[int, float] = {}

    def add(self, task: Task) -> None:
        """Count the sentences of another task."""
        found = [digest(each) for each in masked_sentences(task)]
        self._num_sentences += len(found)
        self._num_recurring += sum(each in self._seen for each in found)
        self._seen.update(found)
        self.num_tasks += 1
        if self.num_tasks in self.SIZES:
            self.shares[self.num_tasks] = self.share

    @property
    def share(self) -> float:
        """The share of recurring sentences in all tasks so far."""
        return self._num_recurring / max(1, self._num_sentences)


def masked_sentences(task: Task) -> Iterator[str]:
    """Yield what the user says, sentence by sentence, with a mark for each value.

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


_KINDS: Mapping[type, str] = {
    str: "string",
    int: "integer",
    float: "float",
    bool: "boolean",
    list: "list",
    tuple: "list",
    dict: "dict",
}


def _entropy(counts: Counter[Any]) -> float:
    total = counts.total()
    return -sum(n / total * math.log2(n / total) for n in counts.values()) + 0.0


def _ngrams(words: Sequence[str], length: int) -> Iterable[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(length)), strict=False)


def _two_most(
    counted: Iterable[Counter[tuple[str, ...]]],
) -> dict[tuple[str, ...], list[tuple[int, int]]]:
    """Return for each n-gram the two texts that have it most often, as (count, text)."""
    most: dict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    for index, counts in enumerate(counted):
        for ngram, number in counts.items():
            most[ngram] = sorted([*most[ngram], (number, index)], reverse=True)[:2]
    return most


def _most_of_others(most: Sequence[tuple[int, int]], index: int) -> int:
    return next((number for number, owner in most if owner != index), 0)
