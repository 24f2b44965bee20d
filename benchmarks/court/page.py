"""Tables of docs/court.md, written into the page from the kept runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from court import ARMS, TASK_SETS, grades_file, jobs, judged_runs, probes_file
from critical import ROOT, CriticalRun, mean
from figures import draw_forest, draw_grades
from probe_report import (
    results_are_known,
    teacher_reads,
    told_forced,
    told_results,
    told_solvable,
    told_teacher,
)
from verdicts import (
    CEILING,
    ROOM,
    SEEDS,
    SIGNS,
    Effect,
    effects,
    grade_and_area,
    rank_correlation,
    ranking_of_critic,
    read_grades,
    standing,
)

PAGE = ROOT / "docs" / "court.md"
FEW = 5  # arms: no table and no rank correlation is made of them
BEGIN, END = "<!-- written by benchmarks/court/court.py -->", "<!-- to here -->"
CLAIMS = {
    1: ("critics rank alternatives by chance", "VinePPO, GenAC", "other than visited actions"),
    2: ("a gate on explained variance never loses", "EVPO", "one critic, one size"),
    3: (
        "a critic of turns beats one of tokens, that beats GRPO",
        "Turn-PPO",
        "actions of one length",
    ),
    4: ("a bonus a call hurts, progress helps", "IRC; PROVE", "one size of bonus"),
    5: ("groups of equal states replace the critic", "GiGPO, RTMC", "tools without chance"),
    6: ("few actions matter, entropy finds them", "CARL", "half are masked"),
    7: ("predicting tool output is free supervision", "ECHO", "results repeat their calls"),
    8: ("filter by variance of rewards", "RAGEN-2", "one share is kept"),
    9: (
        "RL enlarges what can be solved, supervised learning shrinks it",
        "2604.14877",
        "supervised: not run",
    ),
    10: (
        "PPO needs a pretrained critic, a lambda of its own",
        "VC-PPO, VAPO",
        "training not charged for",
    ),
    11: ("a critic that sees the truth helps", "SWEET-RL", "its body reads one row"),
    12: ("self-distillation beats RL", "SDPO", "more than one seed"),
}
"""Number -> what is said, who says it, what the figures do not say."""


PROBED = {6: told_forced, 7: told_results, 9: told_solvable, 12: told_teacher}
"""Number -> what probes say of it, in words."""
NEEDED = {7: results_are_known, 12: teacher_reads}
"""Number -> whether the start can do what the claim takes for granted; else it is void."""


class Evidence(NamedTuple):
    """What is kept of one task set."""

    tasks: str
    runs: list[CriticalRun]
    grades: list[dict[str, Any]]
    probes: list[dict[str, Any]]


def write_page() -> None:
    """Write the tables into the page, and draw its figures."""
    evidence = kept_evidence()
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    tail = rest.partition(END)[2]
    PAGE.write_text(f"{head}{BEGIN}\n\n{tables(evidence)}\n\n{END}{tail}", encoding="utf-8")
    print(tables(evidence))
    draw_forest({each.tasks: each.runs for each in evidence})
    graded = [each for each in evidence if each.grades]
    if graded:
        draw_grades(graded[-1].runs, graded[-1].grades)


def kept_evidence() -> list[Evidence]:
    """Return the task sets that have runs."""
    found = (
        Evidence(
            tasks,
            judged_runs(tasks),
            read_grades(grades_file(tasks)),
            read_grades(probes_file(tasks)),
        )
        for tasks in TASK_SETS
    )
    return [each for each in found if each.runs]


def tables(evidence: Sequence[Evidence]) -> str:
    """Return what the page has between its marks."""
    whole = [each for each in evidence if len({run.arm for run in each.runs}) > FEW]
    parts = [claim_table(evidence), *map(room, evidence), run_counts(), arm_table(whole)]
    parts += map(told_correlation, whole)
    parts.append("![Differences between arms, with intervals](court_forest.png)")
    if any(each.grades for each in evidence):
        parts.append("![Area against the cosine of credit with the truth](court_grades.png)")
        parts.append("![Area against noise in the credit](court_doses.png)")
    return "\n\n".join(parts)


def claim_table(evidence: Sequence[Evidence]) -> str:
    """Return a line a claim that has figures, and what is open."""
    lines = [
        "| | claim | what it says of arms: points of area [95 %], p or seeds, verdict | not said |",
        "|---|---|---|---|",
    ]
    waiting = []
    for number, (says, who, limit) in CLAIMS.items():
        if figures := figures_of(number, evidence):
            lines.append(f"| {number} | {says} ({who}) | {'; '.join(figures)} | {limit} |")
        else:
            waiting.append(f"{number} ({who})")
    return "\n".join(lines) + f"\n\nOpen: {', '.join(waiting)}."


def figures_of(number: int, evidence: Sequence[Evidence]) -> list[str]:
    """Return what a claim is judged by, in words."""
    if number == 1:
        return [told_ranking(each) for each in evidence if each.grades]
    figures = []
    for each in evidence:
        found = [
            told(effect, standing(each.runs, effect))
            for effect in effects(each.runs)
            if effect.comparison.claim == number
        ]
        if number in NEEDED and NEEDED[number](each.probes) is False:
            found = [text.replace("**effect size**", "**void**") for text in found]
        found += PROBED.get(number, lambda probes: [])(each.probes)
        figures += [f"{each.tasks}: {'; '.join(found)}"] * bool(found)
    return figures


def told_ranking(evidence: Evidence) -> str:
    """Return how often the critic ranks right, and the least and most of a seed, in words."""
    share, pairs = ranking_of_critic(evidence.grades)
    seeds = {line["seed"] for line in evidence.grades}
    shares = [
        ranking_of_critic([line for line in evidence.grades if line["seed"] == seed])[0]
        for seed in seeds
    ]
    between = f"[{min(shares):.0%},{max(shares):.0%}] " if len(seeds) > 1 else ""
    return (
        f"{evidence.tasks}: right in {share:.0%} {between}of {pairs:,} pairs n={len(seeds)} "
        "**effect size**"
    )


def told(effect: Effect, verdict: str) -> str:
    """Return a comparison in words."""
    each, number = effect.comparison, len(effect.gains)
    low, high = effect.interval
    sure = f"p={effect.corrected:.3f}" if number >= SEEDS else f"n={number}"
    between = f"[{low:+.1f},{high:+.1f}] " if number > 1 else ""
    return (
        f"{each.first}{SIGNS[each.says]}{each.second} {mean(effect.gains):+.1f} {between}{sure} "
        f"**{verdict}**"
    )


def room(evidence: Evidence) -> str:
    """Return how far the ceiling is above GRPO."""
    for effect in effects(evidence.runs, [CEILING]):
        verdict = "room" if mean(effect.gains) >= ROOM else "no room"
        return f"{evidence.tasks}: {told(effect, verdict)}."
    return f"{evidence.tasks}: the ceiling has not been measured."


def told_correlation(evidence: Evidence) -> str:
    """Return how the grade predicts the area, with and without the arms whose credit is noise."""
    every, estimators = (
        "{:.2f} ({:.2f} to {:.2f})".format(
            *rank_correlation(evidence.runs, evidence.grades, noise=noise)
        )
        for noise in (True, False)
    )
    return (
        f"{evidence.tasks}: rank correlation of cosine and area {every}, without arms of noise "
        f"{estimators}."
    )


def run_counts() -> str:
    """Return how many runs are kept, and how many the claims still want."""
    counts = [
        f"{tasks} {len(judged_runs(tasks))}/{len(list(jobs(tasks, list(ARMS), range(1, 13))))}"
        for tasks in TASK_SETS
    ]
    return f"Runs kept/still wanted: {', '.join(counts)}."


def arm_table(evidence: Sequence[Evidence]) -> str:
    """Return a line an arm: what it is, its area and what it cost on each task set.

    Arms whose credit is noise are in the figure of doses alone.
    """
    heads = [f"{each.tasks}: rate/seeds/**area**/steps/CPU s/cosine" for each in evidence]
    lines = [f"| arm | what it is | {' | '.join(heads)} |", f"|---|---|{'---|' * len(heads)}"]
    for name, arm in ARMS.items():
        cells = [arm_figures(name, each) for each in evidence]
        if any(cells) and "noise" not in name and name != "shuffled":
            lines.append(f"| {name} | {arm.in_words()} | {' | '.join(cells)} |")
    return "\n".join(lines)


def arm_figures(name: str, evidence: Evidence) -> str:
    """Return what is kept of an arm on a task set; nothing where it has no runs."""
    own = [run for run in evidence.runs if run.arm == name]
    if not own:
        return ""
    figures = [f"{own[0].lr:g}", str(len(own)), f"**{100 * mean(run.area for run in own):.1f}**"]
    for quantity in ("steps", "cpu_seconds"):
        figures.append(f"{mean(getattr(run, quantity) for run in own):,.0f}")
    if evidence.grades and name in (points := grade_and_area(evidence.runs, evidence.grades)):
        figures.append(f"{points[name][0]:.2f}")
    return "/".join(figures)
