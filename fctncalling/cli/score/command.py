"""Score results as BFCL's leaderboard does: BFCL's own result tree, or JSON Lines of answers.

A result tree is result/<model>/<group>/BFCL_v4_<category>_result.json (or one model's folder, or
one file of it), lines {"id", "result"}. A model of the leaderboard is read as its handler there
does, by its folder's name; exit code 2 where many answers are in a form that is not read. JSON
Lines hold {"category", "form", "id", "response"} and may name a "model". With --score_dir the tree
of scores is written as BFCL writes it: the failures of each category below its accuracy, and
data_*.csv. A mean that lacks a category's results is N/A; BFCL counts such a category as 0, and so
do --json and the CSV files. Intervals are 95 %, Wilson's; where tasks were sampled several times
(`run --num_samples`), pass@k and pass^k stand beside, with Wilson's interval at the effective
number of independent answers.

example:
  fctncalling score --input result --score_dir score --dataset_path data/bfcl
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fctncalling.checkers.leaderboard import (
    LIVE,
    MEMORY,
    MULTI_TURN,
    NON_LIVE,
    SIZES,
    WEB_SEARCH,
    Score,
    version_3_scores,
    version_4_scores,
)
from fctncalling.cli.score.disputed_truths import disputed_line, disputed_truths
from fctncalling.cli.score.readings import ReadingFlags, add_reading_arguments
from fctncalling.cli.score.results import (
    CategoryAnswers,
    is_result_tree,
    official_results,
    pair_answers,
    read_response,
    split_by_category,
)
from fctncalling.cli.score.score_files import (
    ExtraMetrics,
    ModelScores,
    ScoreFile,
    failure_entry,
    write_csv,
)
from fctncalling.cli.score.unread_answers import UnreadAnswers
from fctncalling.cli.shared.jsonl_records import InputError, with_progress_bar
from fctncalling.cli.shared.next_command import next_command
from fctncalling.cli.shared.parser import add_flag, add_switch
from fctncalling.cli.shared.task_finder import (
    category_file,
    iter_category_tasks,
    recorded_task_path,
    task_difference,
    use_sibling_long_context_tables,
)
from fctncalling.cli.shared.text_table import align_rows, pass_at_k_rows
from fctncalling.cli.shared.tool_flags import TaskTools, add_dataset_argument, add_tool_arguments
from fctncalling.data.errors import TaskError
from fctncalling.data.format_sensitivity import CATEGORY as FORMAT_SENSITIVITY
from fctncalling.data.paths import official_data_folder
from fctncalling.data.types import Task
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.judging.judge import judge
from fctncalling.evaluation.agents.agent import CONTEXT_OVERFLOW

_V3_LIVE = (*LIVE, "live_irrelevance", "live_relevance")
_NEEDED: dict[str, dict[str, tuple[str, ...]]] = {
    "V4": {
        "overall": tuple(name for name in SIZES if name != "live_relevance"),
        "non_live": NON_LIVE,
        "live": LIVE,
        "irrelevance": ("irrelevance", "live_irrelevance"),
        "multi_turn": MULTI_TURN,
        "agentic": (*WEB_SEARCH, *MEMORY),
        "non_live_ast": NON_LIVE,
        "non_live_simple": NON_LIVE[:3],
        "live_ast": LIVE,
        "web_search": WEB_SEARCH,
        "memory": MEMORY,
    },
    "V3": {
        "overall": (*NON_LIVE, "irrelevance", *_V3_LIVE, *MULTI_TURN),
        "non_live": (*NON_LIVE, "irrelevance"),
        "live": _V3_LIVE,
        "multi_turn": MULTI_TURN,
    },
}
"""Version -> mean -> the categories it is the mean of."""

_SPREAD = {"max_delta": "max delta", "std": "standard deviation", "variance": "variance"}
"""Name of a statistic -> as it is told; all are in points of accuracy (variance: squared)."""


def scores_json(models: Mapping[str, ModelScores]) -> dict[str, Any]:
    """Return the scores of models as JSON, by category and version."""
    return {name: _report(scores) for name, scores in models.items()}


def _report(scores: ModelScores) -> dict[str, Any]:
    def plain(named: dict[str, Score]) -> dict[str, Any]:
        return {
            name: {"accuracy": each.accuracy, "shown": str(each)} for name, each in named.items()
        }

    return {
        "categories": {
            name: {
                "accuracy": each.accuracy,
                "correct": header["correct_count"],
                "total": each.entries,
                **scores.extra_metrics[name].rates(),
                **scores.extra_metrics[name].intervals_and_pass_at_k(),
                **(
                    {"sensitivity": format_sensitivity_spread(header)}
                    if name == FORMAT_SENSITIVITY
                    else {}
                ),
            }
            for name, (each, header) in scores.scores_with_headers().items()
        },
        "v4": plain(version_4_scores(scores.scores)),
        "v3": plain(version_3_scores(scores.scores)),
        "disputed_truths": {each: disputed_truths()[each] for each in scores.failed},
        "read_by": {name: each.words() for name, each in scores.readings.items()},
        "missing_categories": missing_categories(scores, _NEEDED["V4"]["overall"]),
        "invalid": len(scores.invalid),
    }


def format_sensitivity_spread(header: Mapping[str, Any]) -> dict[str, Any]:
    """Return the format-sensitivity spread: of scores over its configurations."""
    spread = {name: header[f"accuracy_{name}"] for name in _SPREAD}
    return {
        **spread,
        "configurations": {name: each for name, each in header.items() if isinstance(each, dict)},
    }


def scores_text(models: Mapping[str, ModelScores]) -> str:
    """Return the scores of models as plain text tables."""
    return "\n\n".join(_table(scores) for scores in models.values())


def _table(scores: ModelScores) -> str:
    rows = [
        ("category", "entries", "accuracy", *next(iter(scores.extra_metrics.values())).columns())
    ]
    unknown: list[str] = []
    rows += [
        (name, str(each.entries), str(each), *scores.extra_metrics[name].cells())
        for name, each in scores.scores.items()
    ]
    for version, named in (
        ("V4", version_4_scores(scores.scores)),
        ("V3", version_3_scores(scores.scores)),
    ):
        blanks = ("",) * (len(rows[0]) - 3)
        for name, each in named.items():
            label = f"{version} {name.replace('_', ' ')}"
            if missing_categories(scores, _NEEDED[version][name]):
                unknown.append(label)
            else:
                rows.append((label, "", str(each), *blanks))
    lines = [
        scores.model,
        *_reading_lines(scores),
        align_rows(rows),
        *disputed_line(scores.failed),
        *_missing_lines(scores, unknown),
        *_sensitivity_lines(scores),
    ]
    sampled = {name: each.samples.report() for name, each in scores.extra_metrics.items()}
    if any(sampled.values()):
        lines.append(align_rows(pass_at_k_rows(sampled)))
    return "\n".join(lines)


def _reading_lines(scores: ModelScores) -> list[str]:
    """Return how the answers were read, where no line of theirs said so."""
    words = dict.fromkeys(each.words() for each in scores.readings.values() if each.is_told)
    return [f"read by {each}" for each in words]


def missing_categories(scores: ModelScores, needed: Sequence[str]) -> list[str]:
    """Return the missing categories: needed ones without results."""
    return [name for name in needed if name not in scores.categories]


def _missing_lines(scores: ModelScores, unknown: Sequence[str]) -> list[str]:
    """Return which means lack results, in a line, and what the leaderboard would make of that."""
    lines = [f"N/A, for results are missing: {', '.join(unknown)}"] if unknown else []
    needed = _NEEDED["V4"]["overall"]
    if missing := missing_categories(scores, needed):
        overall = version_4_scores(scores.scores)["overall"]
        lines.append(
            f"V4 overall needs {len(needed)} categories, {len(missing)} have none; counted as 0, "
            f"as BFCL does, it would be {overall}"
        )
    return lines


def _sensitivity_lines(scores: ModelScores) -> list[str]:
    header = scores.categories.get(FORMAT_SENSITIVITY)
    if header is None:
        return []
    figures = format_sensitivity_spread(header)
    spread = ", ".join(f"{_SPREAD[name]} {figures[name]}" for name in _SPREAD)
    count = len(figures["configurations"])
    lines = [f"format sensitivity, in points over {count} prompt configurations: {spread}"]
    return lines + [
        f"{Score(each['accuracy'], 0)!s:>8}  {name}"
        for name, each in figures["configurations"].items()
    ]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the subcommand `score` to a parser."""
    basic = parser.add_argument_group("basic")
    add = partial(add_flag, basic)
    add("--input", Path, "PATH", "result tree, or .jsonl[.gz] of answers", required=True)
    add("--category", str, "NAME", "score these categories only", nargs="+")
    add_switch(basic, "--partial", "allow tasks without an answer; they do not count")
    add_switch(basic, "--strict", "tell beside it what is left without BFCL's leniency")
    add("--score_dir", Path, "FOLDER", "where to write the tree of scores; default: nowhere")
    add_switch(basic, "--json", "print JSON instead of tables")
    tasks = parser.add_argument_group("the tasks that were answered")
    add_dataset_argument(tasks, f"those that the answers name, else {official_data_folder()}")
    forms = ("prompting", "tool_call")
    tasks.add_argument("--form", choices=forms, help="of a result tree's answers; default: found")
    add_reading_arguments(tasks)
    add_tool_arguments(tasks)


def run(args: argparse.Namespace) -> int:
    """Run the subcommand `score`: score everything.

    Return 0, 1 if tools of ours failed, 2 if a result or a task cannot be used, or answers are in
    a form that their decoder does not read.
    """
    try:
        if args.score_dir and args.score_dir.exists() and not args.score_dir.is_dir():
            raise InputError(f"--score_dir {args.score_dir}: is a file: name a folder")
        tools = TaskTools(args)
        flags = ReadingFlags.of(args)
        unread = UnreadAnswers(flags)
        is_lines = args.input.is_file() and not is_result_tree(args.input)
        with TemporaryDirectory() if is_lines else nullcontext() as parts:
            chosen = _selected_results(args, flags, parts)
            models = score_models(
                chosen,
                args.dataset_path or (),
                args.score_dir,
                partial=args.partial,
                strict=args.strict,
                tools=tools,
                unread=unread,
            )
        if args.score_dir:
            write_csv(args.score_dir, models)
    except (InputError, TaskError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(json.dumps(scores_json(models), indent=2) if args.json else scores_text(models))
    invalid = [message for each in models.values() for message in each.invalid]
    if invalid:
        message = (
            f"{len(invalid)} answers could not be judged and count neither way; the first: "
            f"{invalid[0]}"
        )
        print(f"error: {message}", file=sys.stderr)
    if not args.json:
        print(f"\n{next_command('why', args.input, like=args)}")
    return unread.report() or int(bool(invalid))


def _selected_results(
    args: argparse.Namespace, flags: ReadingFlags, parts: str | None
) -> list[CategoryAnswers]:
    """Return the results of the wanted categories; `parts` is a folder for JSON Lines' parts."""
    found = (
        split_by_category(args.input, Path(parts), flags)
        if parts
        else official_results(args.input, flags)
    )
    chosen = [each for each in found if not args.category or each.category in args.category]
    if not chosen:
        names = ", ".join(dict.fromkeys(each.category for each in found)) or "any category"
        if args.category and found:
            names = f"{', '.join(args.category)}, but of {names}"
        raise InputError(f"{args.input}: there are no results of {names}")
    return chosen


def score_models(
    answers: list[CategoryAnswers],
    task_paths: Sequence[Path],
    score_dir: Path | None,
    *,
    partial: bool,
    strict: bool = False,
    tools: TaskTools | None = None,
    unread: UnreadAnswers | None = None,
) -> dict[str, ModelScores]:
    """Score models by their answers: return each model's scores, and write score files if asked.

    Raises InputError.
    """
    models: dict[str, ModelScores] = {}
    for results in answers:
        paths = task_paths or _usual_paths(results)
        file = ScoreFile(results.model, results.category)
        scores = models.setdefault(results.model, ModelScores(results.model))
        scores.readings[results.category] = results.reading
        try:
            for verdict in with_progress_bar(
                _judged(results, paths, scores, tools, unread, partial=partial, strict=strict),
                _name(results),
                "answer",
            ):
                file.add(*verdict)
            scores.categories[results.category] = file.close(score_dir)
        finally:
            file.discard()
    return models


def _judged(
    results: CategoryAnswers,
    paths: Sequence[Path],
    scores: ModelScores,
    tools: TaskTools | None,
    unread: UnreadAnswers | None,
    *,
    partial: bool,
    strict: bool,
) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Yield (id, failure entry or None if valid) of every answer.

    An infrastructure failure is recorded as invalid instead.
    """
    origin = ", ".join(map(str, paths))
    tasks = _tasks_of(paths, results.category, tools.given if tools else ())
    scores.extra_metrics[results.category] = ExtraMetrics(strict=strict)
    for bare, line in pair_answers(tasks, results, partial=partial):
        if difference := task_difference(line.record, bare):
            raise line.error(
                "id",
                f"{origin} has another task of this id: {difference}. Name the tasks that were "
                "answered by --dataset_path",
            )
        task = tools.with_docs(bare, origin) if tools else bare
        try:
            response = read_response(results, task, line)
            user_classes = tools.classes_for((task,), origin) if tools else None
            verdict = judge(
                results.reading.task(task), response, results.form, extra_tools=user_classes
            )
            broke_off = bool(line.record.get(CONTEXT_OVERFLOW))
            scores.extra_metrics[results.category].add(
                task, response, results.form, verdict, broke_off=broke_off
            )
        except InfrastructureError as error:
            scores.invalid.append(str(results.fault(line, str(error))))
            continue
        except TaskError:
            raise
        except (LookupError, ValueError, ImportError) as error:
            raise results.fault(line, f"cannot be judged: {error}") from None
        if unread is not None:
            unread.add(results.model, task, results.reading, line.record["result"], verdict)
        scores.latencies.add(line.record.get("latency"))
        if not verdict.valid and task.id in disputed_truths():
            scores.failed.append(task.id)
        yield task.id, None if verdict.valid else failure_entry(results, task, line.record, verdict)


def _usual_paths(results: CategoryAnswers) -> list[Path]:
    """Return the file that the answers name, where it is here, else the official folder."""
    first = next(results.lines(), None)
    recorded = None if first is None else recorded_task_path(first)
    return [official_data_folder() if recorded is None else recorded]


def _tasks_of(paths: Sequence[Path], category: str, own: Collection[str]) -> Iterator[Task]:
    """Yield a category's tasks of every path that has some; InputError where none has."""
    here = [path for path in paths if not path.is_dir() or category_file(path, category)]
    for path in here or paths[:1]:
        use_sibling_long_context_tables(path)
        yield from iter_category_tasks(path, category, own)


def _name(results: CategoryAnswers) -> str:
    return f"{results.model} {results.category}"
