"""pass@k and pass^k with confidence intervals, from several sampled answers to each task."""

from __future__ import annotations

import hashlib
import math
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from fctncalling.algorithms.run.evaluation import Evaluation

Z_95 = 1.959963984540054  # the normal distribution's 97.5 % quantile
Estimator = Callable[[int, int, int], float]
"""(samples, successes among them, k) -> the estimate for one task."""


def pass_at_k(samples: int, successes: int, k: int) -> float:
    """Return pass@k (pass at k), the chance that one of k answers is right: 1 - C(n-c, k)/C(n, k).

    Unbiased: of n samples with c successes, k are drawn without putting any back
    (arXiv:2107.03374).
    """
    return 1.0 - _share(samples, samples - successes, k)


def pass_hat_k(samples: int, successes: int, k: int) -> float:
    """Return pass^k (pass hat k), the chance that all of k answers are right: C(c, k) / C(n, k).

    It tells how far an agent can be relied on (arXiv:2406.12045).
    """
    return _share(samples, successes, k)


def _share(samples: int, of_kind: int, k: int) -> float:
    if not 0 <= of_kind <= samples:
        raise ValueError(f"{of_kind} of {samples} samples: expected 0 to {samples}")
    if not 1 <= k <= samples:
        raise ValueError(f"k = {k}: expected 1 to {samples}, the number of samples of each task")
    return math.comb(of_kind, k) / math.comb(samples, k)


def wilson_interval(rate: float, count: float, z: float = Z_95) -> tuple[float, float]:
    """Return the Wilson interval of a rate over `count` independent trials; (0, 1) for none."""
    if count <= 0:
        return 0.0, 1.0
    shrunk = z * z / count
    centre = (rate + shrunk / 2) / (1 + shrunk)
    half = z / (1 + shrunk) * math.sqrt(max(0.0, rate * (1 - rate) / count + shrunk / count / 4))
    low, high = max(0.0, centre - half), min(1.0, centre + half)
    return 0.0 if rate <= 0 else low, 1.0 if rate >= 1 else high  # whatever rounding makes of them


def sign_test(gained: int, lost: int) -> float:
    """Return the exact two-sided p-value of as many changes of each kind, were both as likely."""
    total, fewer = gained + lost, min(gained, lost)
    at_most = sum(math.comb(total, k) for k in range(fewer + 1))
    return min(1.0, 2 * at_most / (1 << total))


def paired_difference(differences: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean of paired differences in -1..1, and its normal 95 % interval.

    Of n tasks with b gained (+1) and a lost (-1): (b - a) / n, with the standard error
    sqrt(a + b - (b - a)^2 / n) / n.
    """
    count = max(1, len(differences))
    mean = sum(differences) / count
    squares = sum(value * value for value in differences)
    half = Z_95 * math.sqrt(max(0.0, squares - count * mean * mean)) / count
    return mean, max(-1.0, mean - half), min(1.0, mean + half)


def confidence_interval_of_mean(values: Sequence[float], num_samples: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of a mean over tasks, of values in 0..1.

    Tasks are the independent units; samples of one task are alike. Wilson's interval is taken at
    the effective sample size m(1 - m) / (s^2 / T): how many coin flips of mean m would vary as much
    as the mean of T tasks with variance s^2 does. It lies between the numbers of tasks and of all
    samples. With one sample a task this is Wilson's own interval, and where all tasks are alike
    (all solved, say) it does not shrink to a point, as a bootstrap over tasks would.
    """
    count = len(values)
    if not count:
        return 0.0, 1.0
    mean = sum(values) / count
    spread = mean * (1 - mean)
    if count == 1 or spread <= 0:
        return wilson_interval(mean, count)
    variance = sum((value - mean) ** 2 for value in values) / (count - 1)
    effective = spread * count / variance if variance else math.inf
    return wilson_interval(mean, min(max(effective, count), max(num_samples, count)))


class TaskSampleCounts:
    """Sample counts of tasks: samples and successes of each, in eight bytes an answer.

    An answer is a number: 63 bits of its task id's hash, and whether it succeeded as the lowest
    bit. Two of a million ids share a hash with a chance of 1 in 18 million.
    """

    def __init__(self) -> None:
        self._answers = array("Q")

    def add(self, task_id: str, *, success: bool) -> None:
        """Add one answer of a task."""
        digest = hashlib.blake2b(task_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        self._answers.append(int.from_bytes(digest, "big") & ~1 | success)

    @property
    def num_samples(self) -> int:
        """Number of samples of each task, at least: the largest k that every task has."""
        return min((samples for samples, _ in self._counts()), default=0)

    @property
    def successes(self) -> int:
        """Number of successes among all answers."""
        return sum(answer & 1 for answer in self._answers)

    def interval(self) -> tuple[float, float]:
        """Return the interval of the success rate, with 95 % confidence."""
        low, high = self._estimate(pass_at_k, 1)["interval"]
        return low, high

    def report(self) -> dict[str, Any]:
        """Return a report of pass@k and pass^k with 95 % intervals, for several k.

        Empty where no task has two samples.
        """
        most = self.num_samples
        if most < 2:
            return {}
        ks = sorted({*(2**power for power in range(most.bit_length())), most})
        estimators: dict[str, Estimator] = {"pass@k": pass_at_k, "pass^k": pass_hat_k}
        return {
            "num_samples": most,
            **{
                name: {str(k): self._estimate(estimator, k) for k in ks}
                for name, estimator in estimators.items()
            },
        }

    def _counts(self) -> Counter[tuple[int, int]]:
        """Return (samples, successes) -> number of tasks with so many."""
        if self._answers:
            np.frombuffer(self._answers, np.uint64).sort()  # in place: the order means nothing
        tasks = groupby(self._answers, key=lambda answer: answer >> 1)
        flags = ([answer & 1 for answer in answers] for _, answers in tasks)
        return Counter((len(each), sum(each)) for each in flags)

    def _estimate(self, estimator: Estimator, k: int) -> dict[str, Any]:
        values: list[float] = []
        for (samples, successes), count in self._counts().items():
            values += [estimator(samples, successes, k)] * count
        mean = sum(values) / len(values) if values else 0.0
        interval = confidence_interval_of_mean(values, len(self._answers))
        return {"estimate": mean, "interval": list(interval)}


class SuccessCounts:
    """Success counts of a category's answers: official, strict where asked, and progress."""

    def __init__(self, *, strict: bool = True) -> None:
        self.is_strict = strict
        self.num_answers = 0
        self._progress = 0.0  # summed
        self.samples = TaskSampleCounts()
        self.strict_samples = TaskSampleCounts()

    def count(self, task_id: str, *, valid: bool, strict: bool, progress: float) -> None:
        """Count one answer of a task."""
        self.num_answers += 1
        self._progress += progress
        self.samples.add(task_id, success=valid)
        if self.is_strict:
            self.strict_samples.add(task_id, success=strict)

    def rates(self) -> dict[str, float]:
        """Return progress and, where asked, strict accuracy as rates, 0..1."""
        count = max(1, self.num_answers)
        shares = {"progress": self._progress / count}
        strict = self.strict_samples.successes
        return {**shares, "strict_accuracy": strict / count} if self.is_strict else shares

    def intervals_and_pass_at_k(self) -> dict[str, Any]:
        """Return 95 % intervals, and pass@k (pass at k) and pass^k of repeated samples."""
        if not self.num_answers:
            return {}
        fields: dict[str, Any] = {"accuracy_interval": list(self.samples.interval())}
        if self.is_strict:
            fields["strict_accuracy_interval"] = list(self.strict_samples.interval())
        if sampled := self.samples.report():
            fields["sampled"] = sampled
            if self.is_strict:
                fields["sampled_strict"] = self.strict_samples.report()
        return fields


def evaluation_uncertainty(evaluation: Evaluation) -> dict[str, Any]:
    """Return the uncertainty of an evaluation: intervals of rates, and pass@k.

    `intervals` by name of the rate, and `pass_at_k`, official and strict.

    A rate that has no episode, or was judged by nobody, has no interval.
    """
    counted: dict[str, TaskSampleCounts] = {}
    for kind, records in (("greedy", evaluation.greedy), ("sampled", evaluation.sampled)):
        judged = [record for record in records if not record.invalid]
        is_strict = any(record.strict_success is not None for record in judged)
        official, strict = TaskSampleCounts(), TaskSampleCounts()
        for record in judged:
            if record.success is not None:
                official.add(record.task_id, success=record.success)
            if is_strict:
                strict.add(record.task_id, success=bool(record.strict_success))
        tasks = {kind: official, f"{kind}_strict": strict}
        counted |= {name: each for name, each in tasks.items() if each.num_samples}
    fields: dict[str, Any] = {
        "intervals": {name: list(tasks.interval()) for name, tasks in counted.items()}
    }
    sampled = {
        name: report
        for name in ("sampled", "sampled_strict")
        if name in counted and (report := counted[name].report())
    }
    return {**fields, "pass_at_k": sampled} if sampled else fields
