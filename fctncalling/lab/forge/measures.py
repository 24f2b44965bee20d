"""Figures of tasks of one turn and of several, and the page that sets forged beside official ones.

They read task and truth alone: what a forged task says of itself does not enter.
"""

from __future__ import annotations

import json
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from fctncalling.data.bfcl import iter_tasks
from fctncalling.data.errors import TaskError
from fctncalling.data.paths import atomic_write
from fctncalling.data.types import Task
from fctncalling.envs.handlers.execution import ToolSession
from fctncalling.envs.judging.oracle import OMITTED, oracle_calls
from fctncalling.lab.forge.forged_entry import atoms, user_texts
from fctncalling.lab.forge.official_guard import expected_calls_text

MAX_TASKS = 2000  # of a category, the first ones: memory stays the same however long the file is
MOST_OUTCOMES = 12  # of a distribution


def write_report(
    tasks: Path, official_folder: Path | None, page: Path, ledger: Mapping[str, Any]
) -> None:
    """Write the Markdown page of a forged file; without official files their column is empty.

    `ledger` holds settings and totals as the ledger's first and last line do.
    """
    by_category: dict[str, list[Task]] = {}
    for task in iter_tasks(tasks):
        first = by_category.setdefault(task.category, [])
        if len(first) < MAX_TASKS:
            first.append(task)
    sections = (
        _section(category, forged, official_tasks(official_folder, category))
        for category, forged in by_category.items()
    )
    text = "\n".join([f"# Forged tasks: {tasks.name}", "", _summary(ledger), *sections, ""])
    with atomic_write(page) as part:
        part.write_text(text, encoding="utf-8")


def official_tasks(folder: Path | None, category: str) -> list[Task]:
    """Return the official tasks of a category; none if the folder has no such file."""
    file = folder and folder / f"BFCL_v4_{category}.json"
    try:
        return list(iter_tasks(file)) if file and file.exists() else []
    except TaskError:
        return []


def _section(category: str, forged: Sequence[Task], official: Sequence[Task]) -> str:
    ours, theirs = figure_texts(forged), figure_texts(official)
    head = f"{len(forged)} forged tasks, {len(official) or 'no'} official ones."
    rows = [f"| {name} | {text} | {theirs.get(name, '')} |" for name, text in ours.items()]
    columns = ["| measure | forged | official |", "|---|---|---|"]
    return "\n".join(["", f"## {category}", "", head, "", *columns, *rows])


def figure_texts(tasks: Sequence[Task]) -> dict[str, str]:
    """Return measure -> figure as text, of tasks of one category; empty for no tasks."""
    if not tasks:
        return {}
    if not tasks[0].is_multi_turn:
        figures = measure_single_turn(tasks)
        return {name: _figure_text(figure) for name, figure in figures.items()}
    # A few official truths cannot be written as calls.
    counts = count_multi_turn(task for task in tasks if expected_calls_text(task) is not None)
    lengths = length_spread(text for task in tasks for text in user_texts(task.question))
    return {
        **{
            name.replace("_", " "): _figure_text({k: share / 100 for k, share in figure.items()})
            if isinstance(figure, Mapping)
            else str(figure)
            for name, figure in measure_multi_turn(counts).items()
        },
        "words of a turn": _figure_text(lengths),
    }


def _figure_text(figure: Figure) -> str:
    """Return "2: 40 %, 3: 60 %" (the most frequent outcomes of many), "40.0%", or a spread."""
    if isinstance(figure, Mapping):
        shares, kept = figure, [*figure]
        if len(kept) > MOST_OUTCOMES:
            kept = sorted(shares, key=lambda key: -shares[key])[:MOST_OUTCOMES]
        return ", ".join(f"{key}: {100 * shares[key]:.0f} %" for key in kept)
    if isinstance(figure, tuple):
        mean, median, ninth = figure
        return f"{mean:.1f}, {median:.0f}, {ninth:.0f} (mean, median, 90 %)"
    return f"{figure:.1%}"


def _summary(ledger: Mapping[str, Any]) -> str:
    settings, totals = ledger["settings"], ledger["totals"]
    thrown = ", ".join(f"{count} that {why}" for why, count in totals["thrown_away"].items())
    official = settings["official_files"]
    compared = f"{len(official)} official files" if official else "no official file (none was here)"
    return (
        f"{totals['tasks']} tasks of seed {settings['seed']}, compared with {compared}; "
        f"thrown away: {thrown or 'none'}."
    )


OVERLAPPING = 0.15  # share of a question's content words that makes a function a near miss
_WORD = re.compile(r"[a-z]{3,}")
_STOP_WORDS = frozenset(
    re.findall(
        r"[a-z]+",
        "the and for are was were has have had does did can could would should will may might "
        "must with from into onto over under about what which who whom whose when where why how "
        "that this these those there their they them you your our his her its not but than then "
        "also any all some each such per please tell give show find get let want need like help",
    )
)


Figure = Mapping[Any, float] | float | tuple[float, float, float]
"""Shares by outcome, one share or count, or a spread: mean, median, 90th percentile."""


def measure_single_turn(tasks: Iterable[Task]) -> dict[str, Figure]:
    """Return the figures of some tasks of one category: shares in 0..1, spreads in words.

    Raises ValueError where there are no tasks.
    """
    tasks = list(tasks)
    if not tasks:
        raise ValueError("expected at least one task to measure, got none")
    docs = [doc for task in tasks for doc in task.functions]
    parameters = [
        (key, parameter, key in doc.parameters.get("required", ()))
        for doc in docs
        for key, parameter in doc.parameters.get("properties", {}).items()
    ]
    questions = [" ".join(user_texts(task.question)) for task in tasks]
    described = (str(parameter.get("description", "")) for _, parameter, _ in parameters)
    texts = {
        "question": questions,
        "function description": (doc.description for doc in docs),
        "parameter description": described,
        "function name": (re.sub("[._]", " ", doc.name) for doc in docs),
    }
    return {
        "functions offered": _shares(len(task.functions) for task in tasks),
        "calls expected": _shares(len(task.ground_truth or ()) for task in tasks),
        "parameters of a function": _shares(
            len(doc.parameters.get("properties", {})) for doc in docs
        ),
        "types of parameters": _shares(parameter.get("type") for _, parameter, _ in parameters),
        "required parameters": _mean(required for _, _, required in parameters),
        "parameters with enum": _mean("enum" in each for _, each, _ in parameters),
        "parameters with default": _mean("default" in each for _, each, _ in parameters),
        "dotted names": _mean("." in doc.name for doc in docs),
        "questions that end in ?": _mean(text.rstrip().endswith("?") for text in questions),
        **_truth_shares(tasks),
        **_overlap_shares(tasks),
        **{f"words of a {name}": length_spread(each) for name, each in texts.items()},
    }


def _truth_shares(tasks: Sequence[Task]) -> dict[str, float]:
    """Return shares of the expected arguments; none if a category expects no calls."""
    arguments = [
        values
        for task in tasks
        for call in task.ground_truth or ()
        for accepted in call.values()
        for values in accepted.values()
        if isinstance(values, list) and values
    ]
    if not arguments:
        return {}
    return {
        "arguments left unsaid": _mean(values[0] == OMITTED for values in arguments),
        "arguments accepted in several forms": _mean(
            len([value for value in values if value != OMITTED]) > 1 for values in arguments
        ),
    }


def content_words(text: str) -> frozenset[str]:
    """Return the words of a text or of names in it, without inflection by `s` and stop words."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text).lower()
    words = (word for word in _WORD.findall(spaced) if word not in _STOP_WORDS)
    return frozenset(word.removesuffix("s") for word in words)


def word_overlap(task: Task) -> float:
    """Return the share of the question's content words that the functions on offer have too.

    A function's words are those of its name, its description and its parameters' names and
    descriptions.
    """
    asked = content_words(" ".join(user_texts(task.question)))
    offered = " ".join(
        f"{doc.name} {doc.description} "
        + " ".join(
            f"{key} {parameter.get('description', '')}"
            for key, parameter in doc.parameters.get("properties", {}).items()
        )
        for doc in task.functions
    )
    return len(asked & content_words(offered)) / len(asked) if asked else 0.0


def _overlap_shares(tasks: Sequence[Task]) -> dict[str, float]:
    """Return how near the functions come, of tasks that none of them can solve."""
    if any(task.category != "irrelevance" for task in tasks):
        return {}
    overlaps = [word_overlap(task) for task in tasks]
    return {
        f"functions with {OVERLAPPING:.0%} of the question's words": _mean(
            overlap >= OVERLAPPING for overlap in overlaps
        ),
        "functions with none of the question's words": _mean(not overlap for overlap in overlaps),
    }


def _shares(values: Iterable[Any]) -> dict[str, float]:
    counts = Counter(map(str, values))
    return {key: counts[key] / counts.total() for key in sorted(counts)}


def _mean(values: Iterable[bool]) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0


def length_spread(texts: Iterable[str]) -> tuple[float, float, float]:
    """Return mean, median and 90th percentile of the numbers of words; zeros for no texts."""
    listed = sorted(len(text.split()) for text in texts) or [0]
    median, ninth = float(statistics.median(listed)), float(listed[9 * len(listed) // 10])
    return statistics.fmean(listed), median, ninth


class CallDependencies(NamedTuple):
    """Effects of leaving out each call. Calls are numbered through the task."""

    results: tuple[str, ...]  # of the whole truth
    later: tuple[tuple[int, ...], ...]  # per call: the later calls whose results change
    state: tuple[bool, ...]  # per call: whether the final public state changes


def call_dependencies(task: Task) -> CallDependencies:
    """Return the effect of each call of a task's ground truth on the rest, by replay."""
    calls = [call for turn in task.ground_truth or () for call in turn]
    results, state = _replay(task, calls, None)
    later, changed = [], []
    for left_out in range(len(calls)):
        others, final = _replay(task, calls, left_out)
        pairs = zip(others, results, strict=True)
        differ = [n for n, (one, other) in enumerate(pairs) if one != other and n > left_out]
        later.append(tuple(differ))
        changed.append(final != state)
    return CallDependencies(tuple(results), tuple(later), tuple(changed))


def _replay(
    task: Task, calls: Sequence[str], left_out: int | None
) -> tuple[list[str], dict[str, dict[str, Any]]]:
    session = ToolSession(
        task.involved_classes, task.initial_config, long_context=task.long_context
    )
    results = [
        "" if number == left_out else session.execute(call) for number, call in enumerate(calls)
    ]
    return results, session.public_state()


PROVENANCES = ("this_turn", "earlier_turn", "result", "state", "flag", "inferred")


def count_multi_turn(tasks: Iterable[Task]) -> dict[str, Counter[Any]]:
    """Return counts over multi-turn tasks.

    They are of turns (of a task), calls (of a turn), classes, functions, pairs of neighbours in a
    turn, provenance of arguments' atoms, effects of calls, edges to the first result that a call
    changes, and the longest chain of a task.
    """
    counts = defaultdict[str, Counter[Any]](Counter)
    for task in tasks:
        turns = [[call.name for call in turn] for turn in oracle_calls(task)]
        counts["turns"][len(turns)] += 1
        counts["classes"][tuple(sorted(task.involved_classes))] += 1
        for turn in turns:
            counts["calls"][len(turn)] += 1
            counts["pairs"].update(pairwise(turn))
        names = [name for turn in turns for name in turn]
        counts["functions"].update(names)
        results, changed, ends = call_dependencies(task)
        counts["provenance"].update(argument_provenances(task, results))
        chains = [1] * len(names)
        for number, (later, is_kept) in enumerate(zip(changed, ends, strict=True)):
            for other in later:
                chains[other] = max(chains[other], chains[number] + 1)
            counts["edges"].update((names[number], names[each]) for each in later[:1])
            kinds = {"later_result": bool(later), "final_state": is_kept}
            counts["effects"].update(kinds | {"neither": not (later or is_kept)})
        counts["chains"][max(chains, default=0)] += 1
    return counts


def measure_multi_turn(counts: Mapping[str, Counter[Any]]) -> dict[str, Any]:
    """Return the figures of counts as plain numbers: means, and shares in percent."""

    def mean(name: str) -> float:
        total: int = sum(key * number for key, number in counts[name].items())
        return round(total / max(1, counts[name].total()), 2)

    def shares(name: str, keys: Iterable[Any], total: int) -> dict[Any, float]:
        return {key: round(100 * counts[name][key] / max(1, total), 1) for key in keys}

    total = {name: each.total() for name, each in counts.items()}
    return {
        "tasks": total["turns"],
        "turns_per_task": mean("turns"),
        "calls_per_turn": mean("calls"),
        "turns": shares("turns", sorted(counts["turns"]), total["turns"]),
        "calls": shares("calls", sorted(counts["calls"]), total["calls"]),
        "class_combinations": len(counts["classes"]),
        "functions": len(counts["functions"]),
        "pairs": len(counts["pairs"]),
        "provenance": shares("provenance", PROVENANCES, total["provenance"]),
        "effects": shares("effects", counts["effects"], total["functions"]),
        "edges": len(counts["edges"]),
        "chains": shares("chains", sorted(counts["chains"]), total["chains"]),
    }


def argument_provenances(task: Task, results: Iterable[str]) -> Iterator[str]:
    """Yield the nearest source of each atom of each argument."""
    told, earlier, shown = iter(results), "", ""
    state = json.dumps(task.initial_config, ensure_ascii=False)
    for messages, calls in zip(task.question, oracle_calls(task), strict=True):
        now = " ".join(str(message["content"]) for message in messages)
        for call in calls:
            places = {"this_turn": now, "earlier_turn": earlier, "result": shown, "state": state}
            for value in atoms(call.arguments):
                yield _place(value, places)
            shown += " " + next(told)
        earlier += " " + now


def _place(value: Any, places: Mapping[str, str]) -> str:
    if isinstance(value, bool):
        return "flag"
    return next((name for name, text in places.items() if occurs(value, text)), "inferred")


def occurs(value: Any, text: str) -> bool:
    """Whether a text contains a value: a number as a whole number, a text in any letter case."""
    wanted, text = str(value).casefold(), text.casefold()
    if isinstance(value, int | float):
        text = re.sub(r"(?<=\d),(?=\d\d\d)", "", text)
        number = re.escape(wanted.removesuffix(".0"))
        return re.search(rf"(?<![\w.]){number}(?:\.0+)?(?!\w|\.\d)", text) is not None
    return wanted in text
