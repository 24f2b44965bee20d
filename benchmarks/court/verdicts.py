"""Comparisons of arms, exact: gain, interval, chance, and what they make of a claim."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from critical import CriticalRun, mean
from learning_report import LEVEL, holm, sign_flips

from fctncalling.lab.credit.grades import spearman

CEILING_SEEDS = 3
MARGIN = 2.0  # points of area that count
ROOM = 3.0  # points by which the ceiling must beat an arm, that a gain over it is possible
SEEDS = 12  # of what is judged, so that nothing is stopped when it pleases
LEAST_SEEDS = 6  # with fewer no p is below .05, and the range stands for an interval
SIGNS = {"gain": ">", "harm": "<", "equal": "="}


class Comparison(NamedTuple):
    """What a claim says of two arms, in points of area."""

    claim: int
    first: str
    second: str
    says: str  # gain, harm, or equal: less than MARGIN apart


COMPARISONS = (
    Comparison(3, "APPO", "NTPO", "gain"),
    Comparison(3, "NTPO", "GRPO", "gain"),
    Comparison(3, "critic", "APPO", "equal"),
    Comparison(3, "critic", "APPO_half", "equal"),
    Comparison(3, "NTPO_half", "GRPO", "gain"),
    Comparison(4, "bonus", "critic", "harm"),
    Comparison(4, "GRPO_bonus", "GRPO", "harm"),
    Comparison(4, "progress", "critic", "gain"),
    Comparison(5, "state_alone", "critic", "gain"),
    Comparison(5, "state_alone", "leave_one_out", "gain"),
    Comparison(5, "GiGPO", "GRPO", "gain"),
    Comparison(5, "TPPO", "critic", "gain"),
    Comparison(6, "masked", "GRPO", "equal"),
    Comparison(6, "masked", "masked_at_random", "gain"),
    Comparison(10, "warm_256", "critic", "gain"),
    Comparison(10, "value_lambda_1", "critic", "gain"),
    Comparison(10, "warm_640", "critic", "gain"),
    Comparison(2, "gate", "critic", "gain"),
    Comparison(11, "truth_critic", "full_critic", "gain"),
    Comparison(7, "echo_0.05", "GRPO", "gain"),
    Comparison(7, "echo_0.2", "GRPO", "gain"),
    Comparison(8, "GRPO_filter", "GRPO", "gain"),
    Comparison(8, "critic_filter", "critic", "gain"),
    Comparison(12, "SDPO", "critic", "gain"),
)
BEYOND_CREDIT = (7, 8, 12)  # claims whose gain the ceiling does not bound
NOISE = re.compile("noise|shuffled")  # arms whose credit is
CEILING = Comparison(0, "ceiling", "GRPO", "gain")


class Effect(NamedTuple):
    """A comparison on the seeds that both arms have."""

    comparison: Comparison
    gains: list[float]  # in points
    chance: float  # exact, two-sided
    corrected: float  # by Holm, over all comparisons that are judged

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval, by inversion of the test; with few seeds the range."""
        return interval(self.gains)

    @property
    def verdict(self) -> str:
        """What it makes of the claim."""
        if len(self.gains) < SEEDS:
            return "effect size"
        low, high = self.interval
        says = self.comparison.says
        if says == "equal":
            holds = low > -MARGIN and high < MARGIN
            refuted = low > MARGIN or high < -MARGIN
        else:
            if says == "harm":
                low, high = -high, -low
            holds, refuted = low > 0 and self.corrected < LEVEL, high < MARGIN
        return "holds" if holds else "refuted" if refuted else "undecided"


def areas_of(runs: Sequence[CriticalRun]) -> dict[str, dict[int, float]]:
    """Return arm -> seed -> area in points."""
    areas: dict[str, dict[int, float]] = defaultdict(dict)
    for run in runs:
        areas[run.arm][run.seed] = 100 * run.area
    return areas


def effects(
    runs: Sequence[CriticalRun], comparisons: Sequence[Comparison] = COMPARISONS
) -> list[Effect]:
    """Return the comparisons of which both arms have runs."""
    areas = areas_of(runs)
    found = []
    for each in comparisons:
        first, second = areas.get(each.first, {}), areas.get(each.second, {})
        if gains := [first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())]:
            found.append((each, gains, sign_flips(gains)))
    judged = [chance for _, gains, chance in found if len(gains) >= SEEDS]
    corrected = iter(holm(judged))
    return [
        Effect(each, gains, chance, next(corrected) if len(gains) >= SEEDS else 1.0)
        for each, gains, chance in found
    ]


def interval(gains: Sequence[float]) -> tuple[float, float]:
    """Return the shifts that the exact test of sign flips does not reject at 5 %."""
    if len(gains) < LEAST_SEEDS:
        return min(gains), max(gains)

    def bound(outside: float, inside: float) -> float:
        for _ in range(30):
            middle = (outside + inside) / 2
            accepted = sign_flips([gain - middle for gain in gains]) >= LEVEL
            outside, inside = (outside, middle) if accepted else (middle, inside)
        return inside

    centre = mean(gains)
    return bound(min(gains) - 1.0, centre), bound(max(gains) + 1.0, centre)


def ranking_of_critic(grades: Sequence[Mapping[str, Any]]) -> tuple[float, int]:
    """Return how often one step of the critic ranks two actions of a state right, of how many
    pairs that truly differ; none of the first update, whose critic says 0 of all.
    """
    counted = [line["ranking"] for line in grades if line["update"] > 1]
    pairs = sum(number for _, number in counted)
    right = sum(share * number for share, number in counted)
    return (right / pairs if pairs else 0.0), pairs


def standing(runs: Sequence[CriticalRun], effect: Effect) -> str:
    """Return the verdict; of a gain over an arm only where the ceiling beats that arm by ROOM."""
    comparison = effect.comparison
    if comparison.says == "gain" and comparison.claim not in BEYOND_CREDIT:
        above = effects(runs, [CEILING._replace(second=comparison.second)])
        if not above or len(above[0].gains) < CEILING_SEEDS:
            return "room not measured"
        if mean(above[0].gains) < ROOM:
            return "void"
    return effect.verdict


def read_grades(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file of grades; none where there is no such file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [json.loads(line) for line in lines]


def cosines(grades: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return arm -> cosine of its advantages with the exact truth, the mean over lines.

    The cosine of exact and measured truth is the root of the reliability. An estimator that knows
    nothing of the measurement is nearer to the exact truth by that; what was made from the measured
    truth is further away.
    """
    root = max(mean(line["reliability"] for line in grades), 0.01) ** 0.5
    found: dict[str, list[float]] = defaultdict(list)
    for line in grades:
        for name, cosine in line["cosine"].items():
            if name == "given":
                noise = f"noise_{line['noise']:g}" if line["noise"] else "ceiling"
                found[noise].append(cosine * root)
            else:
                found[name].append(cosine / root)
    return {name: mean(values) for name, values in found.items()}


def grade_and_area(
    runs: Sequence[CriticalRun], grades: Sequence[Mapping[str, Any]]
) -> dict[str, tuple[float, float]]:
    """Return arm -> (cosine, area less GRPO's on the same seeds), of arms that have both."""
    areas, found = areas_of(runs), dict[str, tuple[float, float]]()
    graded = {"shuffled": 0.0, **cosines(grades)}
    graded.pop("APPO", None)  # its advantages are the critic's: it differs in its ratio
    for size in (1, 3, 10):
        graded[f"GRPO_noise_{size}"] = graded.get("GRPO", 0.0) / (1 + size**2) ** 0.5
    for name, cosine in graded.items():
        seeds = areas.get(name, {}).keys() & areas.get("GRPO", {}).keys()
        if seeds:
            found[name] = cosine, mean(areas[name][seed] - areas["GRPO"][seed] for seed in seeds)
    return found


def rank_correlation(
    runs: Sequence[CriticalRun],
    grades: Sequence[Mapping[str, Any]],
    *,
    noise: bool = True,
    draws: int = 1000,
) -> tuple[float, float, float]:
    """Return Spearman's correlation of grade and area over arms, 95 % over draws of seeds.

    noise: with the arms whose credit is noise, in part or all of it.
    """

    def correlation(points: Mapping[str, tuple[float, float]]) -> float:
        pairs = np.asarray(
            [place for name, place in points.items() if noise or not NOISE.search(name)]
        )
        return spearman(pairs[:, 0], pairs[:, 1])

    generator = np.random.default_rng(0)
    seeds = sorted({run.seed for run in runs})
    by_seed = {seed: [run for run in runs if run.seed == seed] for seed in seeds}
    drawn = []
    for _ in range(draws):
        chosen = generator.choice(seeds, len(seeds))
        again = [
            run._replace(seed=number)
            for number, seed in enumerate(chosen.tolist())
            for run in by_seed[seed]
        ]
        drawn.append(correlation(grade_and_area(again, grades)))
    low, high = np.percentile(drawn, [2.5, 97.5])
    return correlation(grade_and_area(runs, grades)), float(low), float(high)
