"""What probes.py found, in words, and what it speaks for by the rules of claims.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from critical import mean

KS = ("1", "4", "16", "64")
ROOM, ENLARGED, SAME = 5.0, 5.0, 2.0  # points of pass@64: to be gained, gained, and as good as none
FOUND, LOST = 0.8, 0.7  # AUC of entropy that finds what matters, and that does not
READS = 0.6  # of pairs, which a teacher that reads ranks right
Probe = Mapping[str, Any]


def told_solvable(probes: Sequence[Probe]) -> list[str]:
    """Return pass@k of the start, GRPO and supervised models, and what it says of claim 9."""
    every = {arm: _of_arm(probes, arm) for arm in ("start", "GRPO", "supervised")}
    by_arm = {arm: own for arm, own in every.items() if own}
    if not {"start", "GRPO"} <= by_arm.keys():
        return []
    figures = []
    for arm, own in by_arm.items():
        rates = (100 * mean(each["pass"][k] for each in own.values()) for k in KS)
        figures.append(f"{arm} {'/'.join(f'{rate:.0f}' for rate in rates)} %")
    start = {seed: 100 * each["pass"]["64"] for seed, each in by_arm["start"].items()}
    verdicts = []
    judges = {"GRPO": _enlarged, "supervised": _shrunk}
    for arm, judge in judges.items():
        if arm not in by_arm:
            continue
        seeds = sorted(start.keys() & by_arm[arm].keys())
        gains = [100 * by_arm[arm][seed]["pass"]["64"] - start[seed] for seed in seeds]
        said = judge(gains, 100 - mean(start.values()))
        verdicts.append(
            f"at 64 {arm}-start {mean(gains):+.1f} [{min(gains):+.1f},{max(gains):+.1f}] "
            f"n={len(gains)} **{said}**"
        )
    return [f"pass@{'/'.join(KS)}: {', '.join(figures)}", *verdicts]


def _enlarged(gains: Sequence[float], room: float) -> str:
    if room < ROOM:
        return "void"
    if max(gains) < SAME:
        return "effect size, against"
    return "effect size, for" if mean(gains) >= ENLARGED else "effect size"


def _shrunk(gains: Sequence[float], room: float) -> str:
    if max(gains) < 0:
        return "effect size, for"
    return "effect size, against" if min(gains) > 0 else "effect size"


def told_forced(probes: Sequence[Probe]) -> list[str]:
    """Return how well entropy finds the states where another action matters."""
    start, after = (list(_of_arm(probes, arm).values()) for arm in ("start", "GRPO"))
    if not (start and after):
        return []
    areas = [each["auc"] for each in after]
    said = "for" if min(areas) >= FOUND else "against" if max(areas) <= LOST else ""
    return [
        f"forced: AUC of entropy {_told(start, 'auc')} at the start, {_told(after, 'auc')} after "
        f"GRPO, Spearman {_told(start, 'spearman')}, {_told(after, 'spearman')} n={len(after)} "
        f"**effect size{f', {said}' * bool(said)}**"
    ]


def results_are_known(probes: Sequence[Probe]) -> bool | None:
    """Whether the start says more of results than a uniform guess; None where not probed."""
    start = _of_arm(probes, "start").values()
    return all(each["result_nats"] < each["uniform_nats"] for each in start) if start else None


def told_results(probes: Sequence[Probe]) -> list[str]:
    """Return how well the start predicts what tools answer."""
    start = list(_of_arm(probes, "start").values())
    if not start:
        return []
    known, guessed = (
        mean(each[name] for each in start) for name in ("result_nats", "uniform_nats")
    )
    return [f"the start's results: {known:.1f} nats a token, uniform {guessed:.1f}"]


def teacher_reads(probes: Sequence[Probe]) -> bool | None:
    """Whether a teacher that sees the truth tells success from failure; None where not probed."""
    start = _of_arm(probes, "start").values()
    return mean(each["teacher"] for each in start) >= READS if start else None


def told_teacher(probes: Sequence[Probe]) -> list[str]:
    """Return how well it does."""
    start = list(_of_arm(probes, "start").values())
    if not start:
        return []
    void = "" if teacher_reads(probes) else " **void**"
    return [f"its teacher ranks {_told(start, 'teacher')} of pairs right n={len(start)}{void}"]


def _of_arm(probes: Sequence[Probe], arm: str) -> dict[int, Probe]:
    """Return seed -> probe, without those that a rate was chosen by."""
    return {each["seed"]: each for each in probes if each["arm"] == arm and not each["tried"]}


def _told(probes: Sequence[Probe], name: str) -> str:
    figures = [each[name] for each in probes]
    if len(figures) == 1:
        return f"{figures[0]:.2f}"
    return f"{mean(figures):.2f} [{min(figures):.2f},{max(figures):.2f}]"
