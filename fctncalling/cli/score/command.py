"""Score results as BFCL's leaderboard does: BFCL's own result tree, or JSON Lines of answers.

A result tree is result/<model>/<group>/BFCL_v4_<category>_result.json (or one model's folder, or
one file of it), lines {"id", "result"}; older names (BFCL_v3_simple_result.json,
gorilla_openfunctions_v1_test_...) are read as today's. A model of the leaderboard is read as its
handler there does, by its folder's name; exit code 2 where many answers are in a form that is not
read. JSON Lines hold {"category", "form", "id", "response"} and may name a "model". With
--score_dir the tree of scores is written as BFCL writes it: the failures of each category below its
accuracy, and data_*.csv. Score files of other runs there stay, and are in no data_*.csv. A mean
that lacks a category's results is N/A; BFCL counts such a category as 0, and so do --json and the
CSV files. Intervals are 95 %, Wilson's; where tasks were sampled
several times (`run --num_samples`), pass@k and pass^k stand beside, with Wilson's interval at the
effective number of independent answers.

example:
  fctncalling score result --score_dir score --dataset_path data/bfcl
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
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
from fctncalling.cli.score.answer_judge import AnswerJudge, disputed_line, truth_fault
from fctncalling.cli.score.readings import ReadingFlags, add_reading_arguments
from fctncalling.cli.score.results import (
    CategoryAnswers,
    RecordedAnswer,
    RecordedAnswers,
    UnansweredTasks,
)
from fctncalling.cli.score.score_files import (
    ExtraMetrics,
    ModelScores,
    ScoreFile,
    earlier_score_files,
    failure_entry,
    write_csv,
)
from fctncalling.cli.shared.jsonl_records import InputError, SourceRecord, with_progress_bar
from fctncalling.cli.shared.output import align_rows, next_command, pass_at_k_rows
from fctncalling.cli.shared.parser import add_flag, add_input, add_switch
from fctncalling.cli.shared.task_finder import (
    category_file,
    iter_category_tasks,
    recorded_task_path,
    task_difference,
    use_sibling_long_context_tables,
)
from fctncalling.cli.shared.tool_flags import TaskTools, add_dataset_argument, add_tool_arguments
from fctncalling.data.format_sensitivity import CATEGORY as FORMAT_SENSITIVITY
from fctncalling.data.paths import official_data_folder
from fctncalling.data.types import Task
from fctncalling.envs.errors import InfrastructureError
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


def scores_json(scores: ModelScores) -> dict[str, Any]:
    """Return the scores of a model as JSON, by category and version."""

    def plain(named: dict[str, Score]) -> dict[str, Any]:
        return {
            name: {"accuracy": each.accuracy, "shown": str(each)} for name, each in named.items()
        }

    categories = {}
    for name, (score, header) in scores.scores_with_headers().items():
        metrics = scores.extra_metrics[name]
        counts = {"correct": header["correct_count"], "total": score.entries}
        counts["unanswered"] = scores.unanswered.get(name, 0)
        figures = {"accuracy": score.accuracy, **counts, **metrics.rates()}
        categories[name] = {**figures, **metrics.intervals_and_pass_at_k()}
        if name == FORMAT_SENSITIVITY:
            categories[name]["sensitivity"] = format_sensitivity_spread(header)
    return {
        "categories": categories,
        "v4": plain(version_4_scores(scores.scores)),
        "v3": plain(version_3_scores(scores.scores)),
        "disputed_truths": scores.failed,
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


def scores_text(scores: ModelScores, *, partial: bool = False) -> str:
    """Return the scores of a model as plain text tables, and how its answers were read.

    partial: of answers that are known not to be all, missing categories are counted alone.
    """
    metrics = scores.extra_metrics
    columns = next(iter(metrics.values())).columns()
    rows = [("category", "entries", "accuracy", *columns)]
    rows += [
        (name, scores.entries_text(name), str(score), *metrics[name].cells())
        for name, score in scores.scores.items()
    ]
    means = {"V4": version_4_scores(scores.scores), "V3": version_3_scores(scores.scores)}
    unknown: list[str] = []
    for version, named in means.items():
        for name, mean in named.items():
            label = f"{version} {name.replace('_', ' ')}"
            if missing_categories(scores, _NEEDED[version][name]):
                unknown.append(label)
            else:
                rows.append((label, "", str(mean), *[""] * len(columns)))
    readings = (
        f"read as {'texts' if each.takes_texts else 'tool calls'}, by {each.words()}"
        for each in scores.readings.values()
        if each.is_told
    )
    lines = [
        scores.model,
        *dict.fromkeys(readings),
        align_rows(rows),
        *disputed_line(scores.failed),
        *(_missing_line(scores) if partial else _missing_lines(scores, unknown)),
        *_sensitivity_lines(scores),
    ]
    sampled = {name: each.samples.report() for name, each in metrics.items()}
    if any(sampled.values()):
        lines.append(align_rows(pass_at_k_rows(sampled)))
    return "\n".join(lines)


def missing_categories(scores: ModelScores, needed: Sequence[str]) -> list[str]:
    """Return the missing categories: needed ones without results."""
    return [name for name in needed if name not in scores.categories]


def _missing_line(scores: ModelScores) -> list[str]:
    needed = _NEEDED["V4"]["overall"]
    if not (missing := missing_categories(scores, needed)):
        return []
    without = f"{len(missing)} of their {len(needed)} categories have no answers"
    return [f"the leaderboard's means are N/A: {without} (named without --partial)"]


def _missing_lines(scores: ModelScores, unknown: Sequence[str]) -> list[str]:
    """Return what lacks results, and what the leaderboard would make of that."""
    needed = _NEEDED["V4"]["overall"]
    missing = missing_categories(scores, needed)
    lines = [f"N/A, for results are missing: {', '.join(unknown)}"] if unknown else []
    if missing:
        overall = version_4_scores(scores.scores)["overall"]
        lines += [
            f"no answers of {', '.join(missing)}",
            f"V4 overall needs {len(needed)} categories, {len(missing)} have none; counted as 0, "
            f"as BFCL does, it would be {overall}",
        ]
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
    add_input(basic, "--input", "PATH", "result tree, or .jsonl[.gz] of answers")
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

    Return 0, 1 if tools of ours failed, 2 if answers are in a form that their decoder does not
    read; raises InputError for a result or a task that cannot be used.
    """
    if args.score_dir and args.score_dir.exists() and not args.score_dir.is_dir():
        raise InputError(f"--score_dir {args.score_dir}: is a file: name a folder")
    scorer = AnswerScorer(args)
    scorer.score()
    models = scorer.models
    if args.score_dir:
        write_csv(args.score_dir, models)
        for line in earlier_score_files(args.score_dir, models):
            print(f"note: {line}", file=sys.stderr)
    if args.json:
        report = {name: scores_json(scores) for name, scores in models.items()}
        print(json.dumps(report, indent=2))
    else:
        texts = (scores_text(scores, partial=args.partial) for scores in models.values())
        print("\n\n".join(texts))
    invalid = [message for each in models.values() for message in each.invalid]
    if invalid:
        message = (
            f"{len(invalid)} answers could not be judged and count neither way; the first: "
            f"{invalid[0]}"
        )
        print(f"error: {message}", file=sys.stderr)
    if not args.json:
        print(f"\n{next_command('why', args.input, like=args)}")
    return scorer.judge.unread.report() or int(bool(invalid))


def _allow_open_files(wanted: int = 10_240) -> None:
    """Raise the process's limit of open files.

    Lines of a model and category hold its task files open until all lines are read.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


class AnswerScorer:
    """Scorer of all answers of an input: result files one by one, categories of lines at once."""

    def __init__(self, args: argparse.Namespace) -> None:
        flags = ReadingFlags.of(args)
        self._args = args
        self._tools = TaskTools(args)
        self._answers = RecordedAnswers(args.input, flags)
        self._answers.require_libraries(args.category or ())
        self._answers.print_notes()
        self._open: dict[tuple[str, str], CategoryScorer] = {}
        self.judge = AnswerJudge(flags, self._tools)
        self.models: dict[str, ModelScores] = {}

    def score(self) -> None:
        """Score the answers, and write score files if asked; raises InputError."""
        wanted, seen = self._args.category, dict[str, None]()
        _allow_open_files()
        try:
            for answer in with_progress_bar(self._answers, "scoring", "answer"):
                results = answer.results
                if not answer.is_invalid:
                    seen[results.category] = None
                    if not wanted or results.category in wanted:
                        self._scorer(results, answer.line).add(answer, self.judge)
            for results in self._answers.files:
                seen[results.category] = None
                if wanted and results.category not in wanted:
                    continue
                scores = self.models.get(results.model)
                if scores and results.category in scores.readings:
                    continue
                note = f"{results.path}: holds no answers"
                if not self._args.partial:
                    raise InputError(f"{note}. Pass --partial to leave its category out.")
                print(f"note: {note}; its category is left out", file=sys.stderr)
            self._close()
        finally:
            for scorer in self._open.values():
                scorer.file.discard()
        if not self.models:
            names = ", ".join(seen) or "any category"
            names = f"{', '.join(wanted)}, but of {names}" if wanted and seen else names
            raise InputError(f"{self._args.input}: there are no results of {names}")

    def _scorer(self, results: CategoryAnswers, first: SourceRecord | None = None) -> Any:
        key = (results.model, results.category)
        scores = self.models.setdefault(results.model, ModelScores(results.model))
        if key not in self._open and results.category not in scores.readings:
            if not results.is_jsonl:
                self._close()
            self._open[key] = CategoryScorer(results, first, self._args, scores, self._tools.given)
        if scores.readings[results.category] is not results.reading:
            place = f"{self._args.input}: category {results.category} of {results.model}"
            raise InputError(f'{place} has more than one "form"')
        return self._open.get(key)

    def _close(self) -> None:
        for scorer in self._open.values():
            scorer.close()
        self._open.clear()


class CategoryScorer:
    """Scorer of one model's answers to one category, against its tasks in order."""

    def __init__(
        self,
        results: CategoryAnswers,
        first: SourceRecord | None,
        args: argparse.Namespace,
        scores: ModelScores,
        own_classes: Collection[str],
    ) -> None:
        recorded = recorded_task_path(first) if first else None
        paths = args.dataset_path or [recorded or official_data_folder()]
        tasks = _tasks_of(paths, results.category, own_classes)
        self.file = ScoreFile(results.model, results.category)
        self._results = results
        self._args = args
        self._origin = ", ".join(map(str, paths))
        self._tasks = UnansweredTasks(tasks, results)
        self._scores = scores
        self._metrics = scores.extra_metrics[results.category] = ExtraMetrics(strict=args.strict)
        scores.readings[results.category] = results.reading

    def add(self, answer: RecordedAnswer, judge: AnswerJudge) -> None:
        """Judge an answer and count it; one that tools of ours fail on is invalid instead."""
        results, line, scores = answer.results, answer.line, self._scores
        task = self._tasks.task_of(line)
        if difference := task_difference(line.record, task):
            raise line.error(
                "id",
                f"{self._origin} has another task of this id: {difference}. Name the tasks that "
                "were answered by --dataset_path",
            )
        broke_off = bool(line.record.get(CONTEXT_OVERFLOW))
        try:
            task, response, verdict, _ = judge.judged(answer, task, self._origin)
            self._metrics.add(task, response, results.form, verdict, broke_off=broke_off)
        except InfrastructureError as error:
            scores.invalid.append(str(results.fault(line, str(error))))
            return
        if not results.is_jsonl:  # as BFCL has them
            scores.latencies.add(line.record.get("latency"))
        if not verdict.valid and (known := truth_fault(results.reading.task(task), results.form)):
            scores.failed[task.id] = known
        failed = None if verdict.valid else failure_entry(results, task, line.record, verdict)
        self.file.add(task.id, failed)

    def close(self) -> None:
        """Write the score file if asked; InputError where tasks have no answer."""
        category, scores = self._results.category, self._scores
        if self._args.partial:
            scores.unanswered[category] = self._tasks.num_left()
        else:
            self._tasks.require_none()
        scores.categories[category] = self.file.close(self._args.score_dir)
        self.file.discard()


def _tasks_of(paths: Sequence[Path], category: str, own: Collection[str]) -> Iterator[Task]:
    """Yield a category's tasks of every path that has some; InputError where none has."""
    here = [path for path in paths if not path.is_dir() or category_file(path, category)]
    for path in here or paths[:1]:
        use_sibling_long_context_tables(path)
        yield from iter_category_tasks(path, category, own)
