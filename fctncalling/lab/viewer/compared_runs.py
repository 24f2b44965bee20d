"""Several runs beside each other: outcomes by category and task, settings that differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fctncalling.lab.viewer.episode_entry import episode_entry
from fctncalling.lab.viewer.headline import Tally, count_outcome
from fctncalling.lab.viewer.run_files import EpisodeLines, LoadedRun, Record, episode_files

MAX_TASKS = 100_000
"""Tasks whose outcomes are compared."""
MAX_NAMED = 200
"""Tasks gained or lost that a page names."""


def compared_runs(runs: Sequence[LoadedRun]) -> Record:
    """Return what a page says of several runs.

    Of each the last greedy evaluation, else the episodes that its page would show.
    """
    judged = [_judged(run) for run in runs]
    of_models = all(run.kind in ("answers", "judged answers") for run in runs)
    tallies, rates = zip(*map(_outcomes, judged), strict=True)
    changes = [_changes(rates[0], each) for each in rates[1:]]
    configs = [_flat(run.config) for run in runs]
    values = {
        name: [config.get(name) for config in configs]
        for name in sorted({name for config in configs for name in config})
    }
    letters = [
        chr(65 + index % 26) + (str(index // 26) if index > 25 else "")
        for index in range(len(runs))
    ]
    return {
        "titles": [str(run.path) for run in runs],
        "letters": letters,
        "sentence": _sentence(letters, tallies, changes, of_models=of_models),
        "of_models": of_models,
        "files": [run.episodes_file.name for run in judged],
        "tallies": list(tallies),
        "changes": changes,
        "settings": [[name, *of] for name, of in values.items() if any(one != of[0] for one in of)],
        "metrics": [_last_metrics(run) for run in runs],
    }


def _sentence(
    letters: Sequence[str], tallies: Sequence[Tally], changes: Sequence[Record], *, of_models: bool
) -> str:
    """Return the first run's result beside the best of the others'."""
    counts = [
        [sum(count[name] for count in tally.values()) for name in ("success", "judged")]
        for tally in tallies
    ]
    share = [success / max(1, judged) for success, judged in counts]
    best = max(range(1, len(share)), key=share.__getitem__)
    first, other = (f"{letters[at]} {counts[at][0]} of {counts[at][1]}" for at in (0, best))
    change = changes[best - 1]
    others = "" if len(share) == 2 else f", the best of {len(share) - 1} others"
    if of_models:
        alone = {letters[0]: change["num_lost"], letters[best]: change["num_gained"]}
        only = ", ".join(f"only {letter} right {count}" for letter, count in alone.items())
        return f"{first}, {other} right{others}; {only}"
    gained = f"{change['num_gained']} tasks gained, {change['num_lost']} lost"
    return f"{first} \N{RIGHTWARDS ARROW} {other} right{others}; {gained}"


def _judged(run: LoadedRun) -> LoadedRun:
    """Return the run with its last greedy evaluation as episodes, if there is one."""
    files = episode_files(run.path) if run.folder is not None else []
    greedy = [path for phase, _, path in files if phase == "greedy"]
    if not greedy:
        return LoadedRun(run.path, run.kind, run.episodes, run.episodes_file)
    return LoadedRun(run.path, run.kind, EpisodeLines(greedy[-1], []), greedy[-1])


def _outcomes(run: LoadedRun) -> tuple[Tally, dict[tuple[str, str], float]]:
    """Return the counts of each category, and the success of each (category, task): a share."""
    tally: Tally = {}
    tasks: dict[tuple[str, str], list[bool]] = {}
    for record in run.episodes:
        entry = episode_entry(record, run)
        count_outcome(tally, entry)
        key = entry["category"], entry["task"]
        known = not entry["invalid"] and entry["success"] is not None
        if known and (key in tasks or len(tasks) < MAX_TASKS):
            tasks.setdefault(key, []).append(bool(entry["success"]))
    return tally, {key: sum(each) / len(each) for key, each in tasks.items()}


def _changes(
    first: Mapping[tuple[str, str], float], other: Mapping[tuple[str, str], float]
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
        "num_gained": len(gained),
        "num_lost": len(lost),
        "gained": [task for _, task in gained[:MAX_NAMED]],
        "lost": [task for _, task in lost[:MAX_NAMED]],
        "by_category": by_category,  # [gained, lost]
    }


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
