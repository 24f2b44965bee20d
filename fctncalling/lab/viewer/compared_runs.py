"""Comparison of runs: outcomes, success over updates, settings that differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fctncalling.algorithms.config.train_config import OWN_LAM
from fctncalling.cli.idle_flags import idle_settings
from fctncalling.evaluation.pass_at_k import paired_difference, sign_test
from fctncalling.lab.viewer.episode_entry import episode_entry
from fctncalling.lab.viewer.headline import Tally, count_outcome
from fctncalling.lab.viewer.run_files import (
    EpisodeLines,
    LoadedRun,
    Record,
    episode_files,
    is_number,
)

MAX_TASKS = 100_000
"""Tasks whose outcomes are compared."""
MAX_NAMED = 200
"""Tasks gained or lost that a page names, with both answers."""
MAX_ANSWER_CHARS = 2000
"""Of an answer to such a task; the rest is left out."""
TaskKey = tuple[str, str]
"""Category and id of a task."""
SUCCESS = "env/success_rate"
COUNTS_BELOW = 0.05
"""Largest p-value of a difference that counts."""


def compared_runs(runs: Sequence[LoadedRun]) -> Record:
    """Return the data of a page that compares several runs.

    Of each the last greedy evaluation, else the episodes that its page would show.
    """
    judged = [_judged(run) for run in runs]
    of_models = all(run.kind in ("answers", "judged answers") for run in runs)
    tallies, rates, answers = zip(*map(_outcomes, judged), strict=True)
    changes = [
        _changes(rates[0], other, (answers[0], shown))
        for other, shown in zip(rates[1:], answers[1:], strict=True)
    ]
    letters = [
        chr(65 + index % 26) + (str(index // 26) if index > 25 else "")
        for index in range(len(runs))
    ]
    return {
        "titles": [str(run.path) for run in runs],
        "letters": letters,
        "sentence": _not_judged_yet(letters, runs)
        or _sentence(letters, tallies, changes, of_models=of_models)
        + _unequal_episodes(letters, runs),
        "of_models": of_models,
        "files": [run.episodes_file.name for run in judged],
        "tallies": list(tallies),
        "changes": changes,
        "settings": settings_that_differ([run.config for run in runs]),
        "metrics": [_last_metrics(run) for run in runs],
        "curves": [_curve(run) for run in runs],
    }


def _sentence(
    letters: Sequence[str], tallies: Sequence[Tally], changes: Sequence[Record], *, of_models: bool
) -> str:
    """Return the first run's result and the best of the others'."""
    counts = [
        [sum(count[name] for count in tally.values()) for name in ("success", "judged")]
        for tally in tallies
    ]
    share = [success / max(1, judged) for success, judged in counts]
    best = max(range(1, len(share)), key=share.__getitem__)
    first, other = (f"{letters[at]} {counts[at][0]} of {counts[at][1]}" for at in (0, best))
    change = changes[best - 1]
    others = "" if len(share) == 2 else f", the best of {len(share) - 1} others"
    p = sign_test(change["num_gained"], change["num_lost"])
    # The best of several differs by chance more often.
    verdict = "" if p * len(changes) < COUNTS_BELOW else "no difference that counts, "
    verdict = f"{_difference_text(change)} ({verdict}exact sign test p = {p:.2g})"
    common = ""
    if of_models and not change["is_same_set"]:
        common = f"of {change['both']} tasks that both have: "
        pairs = zip((0, best), change["solved"], strict=True)
        first, other = (f"{letters[at]} {solved}" for at, solved in pairs)
    if of_models:
        alone = {letters[0]: change["num_lost"], letters[best]: change["num_gained"]}
        only = ", ".join(f"only {letter} right {count}" for letter, count in alone.items())
        return f"{common}{first}, {other} right{others}; {only}; {verdict}"
    gained = f"{change['num_gained']} tasks gained, {change['num_lost']} lost"
    return f"{first} \N{RIGHTWARDS ARROW} {other} right{others}; {gained}; {verdict}"


def _difference_text(change: Record) -> str:
    """Return the difference of the shares of solved tasks, with its 95 % interval, in points."""
    shown, low, high = (f"{100 * value:+.1f}" for value in change["difference"])
    interval = "all tasks alike" if low == high else f"95 % interval {low} to {high}"
    return f"difference {shown} points, {interval}"


def _not_judged_yet(letters: Sequence[str], runs: Sequence[LoadedRun]) -> str:
    """Return which runs were last evaluated before they learned, though they have; else ""."""
    waiting = []
    for letter, run in zip(letters, runs, strict=True):
        files = episode_files(run.path) if run.folder is not None else []
        judged = max((update for phase, update, _ in files if phase == "greedy"), default=0)
        last = max((int(line["update"]) for line in run.metrics if "update" in line), default=0)
        if files and judged <= 0 < last and "episodes" not in run.evaluation:
            waiting.append(f"{letter} has no evaluation after training yet ({last} updates so far)")
    return f"{'; '.join(waiting)}: only the curves compare" if waiting else ""


def _unequal_episodes(letters: Sequence[str], runs: Sequence[LoadedRun]) -> str:
    """Return from how many episodes each run learned if the numbers differ; else ""."""
    counts = [run.evaluation.get("episodes") for run in runs]
    if len(set(counts)) == 1:
        return ""
    each = ", ".join(f"{letter} {n or 0:,}" for letter, n in zip(letters, counts, strict=True))
    return f"; learned from unequal numbers of episodes: {each}"


def _judged(run: LoadedRun) -> LoadedRun:
    """Return the run with its last greedy evaluation as episodes, if there is one."""
    files = episode_files(run.path) if run.folder is not None else []
    greedy = [path for phase, _, path in files if phase == "greedy"]
    if not greedy:
        return LoadedRun(run.path, run.kind, run.episodes, run.episodes_file)
    return LoadedRun(run.path, run.kind, EpisodeLines(greedy[-1], []), greedy[-1])


def _outcomes(run: LoadedRun) -> tuple[Tally, dict[TaskKey, float], dict[TaskKey, Record]]:
    """Return the counts of each category, the success of each task (a share) and its answer.

    Of several answers to a task the first.
    """
    tally: Tally = {}
    tasks: dict[TaskKey, list[bool]] = {}
    answers: dict[TaskKey, Record] = {}
    for record in run.episodes:
        entry = episode_entry(record, run)
        count_outcome(tally, entry)
        key = entry["category"], entry["task"]
        known = not entry["invalid"] and entry["success"] is not None
        if known and (key in tasks or len(tasks) < MAX_TASKS):
            tasks.setdefault(key, []).append(bool(entry["success"]))
            answers.setdefault(key, _answer(entry))
    return tally, {key: sum(each) / len(each) for key, each in tasks.items()}, answers


def _answer(entry: Record) -> Record:
    """Return an episode's texts, shortened, and its verdict."""
    text = "\n".join(step["text"] for step in entry["steps"])
    if len(text) > MAX_ANSWER_CHARS:
        text = f"{text[:MAX_ANSWER_CHARS]}\n({len(text) - MAX_ANSWER_CHARS:,} characters left out)"
    verdict = "right" if entry["success"] else entry["message"] or entry["error_type"] or "wrong"
    return {"text": text, "verdict": verdict}


def _changes(
    first: Mapping[TaskKey, float],
    other: Mapping[TaskKey, float],
    answers: Sequence[Mapping[TaskKey, Record]],
) -> Record:
    """Return which tasks that both played another run solves more, or less, often."""
    both = [key for key in first if key in other]
    gained = [key for key in both if other[key] > first[key]]
    lost = [key for key in both if other[key] < first[key]]
    categories = dict.fromkeys(category for category, _ in both)
    by_category = {
        name: [sum(key[0] == name for key in each) for each in (gained, lost)]
        for name in categories
    }
    return {
        "both": len(both),
        "is_same_set": len(both) == len(first) == len(other),
        "solved": [sum(each[key] == 1 for key in both) for each in (first, other)],
        "difference": paired_difference([other[key] - first[key] for key in both]),
        "num_gained": len(gained),
        "num_lost": len(lost),
        "gained": [task for _, task in gained[:MAX_NAMED]],
        "lost": [task for _, task in lost[:MAX_NAMED]],
        "gained_answers": [[each[key] for each in answers] for key in gained[:MAX_NAMED]],
        "lost_answers": [[each[key] for each in answers] for key in lost[:MAX_NAMED]],
        "by_category": by_category,  # [gained, lost]
    }


def settings_that_differ(configs: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    """Return name and values of settings that differ among the runs that they affect."""
    flat = [_flat(config) for config in configs]
    for settings in flat:  # an algorithm of one's own has this --lam by default
        if ":" in str(settings.get("algorithm_name")) and settings.get("lam") == OWN_LAM:
            settings["lam"] = None
    idle = [idle_settings(config) for config in configs]
    rows = []
    for name in sorted({name for config in flat for name in config}):
        values = [config.get(name) for config in flat]
        pairs = zip(values, idle, strict=True)
        effective = [value for value, without in pairs if name not in without]
        if any(value != effective[0] for value in effective):
            rows.append([name, *values])
    return rows


def _curve(run: LoadedRun) -> list[list[float]]:
    """Return [update, success rate of its episodes] of a run's updates."""
    points: Iterator[list[Any]] = ([line.get("update"), line.get(SUCCESS)] for line in run.metrics)
    return [point for point in points if all(map(is_number, point)) and 0 <= point[1] <= 1]


def _flat(config: Mapping[str, Any], prefix: str = "") -> Record:
    """Return settings by name, those of an object by "object.name"."""
    found: Record = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{name}.")
        else:
            plain = isinstance(value, str | int | float | None)
            found[f"{prefix}{name}"] = value if plain else str(value)
    return found


def _last_metrics(run: LoadedRun) -> Record:
    """Return the last value of each metric that is no category's."""
    numbers = (item for line in run.metrics for item in line.items() if item[0].count("/") < 2)
    return {key: value for key, value in numbers if isinstance(value, int | float)}
