"""BFCL's tree of scores: each category's accuracy above its failures, and the leaderboard's CSV.

Extra columns beside them: progress, strict accuracy.
"""

from __future__ import annotations

import json
import shutil
import statistics
from array import array
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any

import numpy as np

from fctncalling.checkers.leaderboard import SIZES, Score, category_score, version_4_scores
from fctncalling.cli.score.readings import Reading
from fctncalling.cli.score.results import CategoryAnswers
from fctncalling.cli.shared.output import interval_text
from fctncalling.cli.shared.task_finder import category_folder, result_folder_name
from fctncalling.data.format_sensitivity import CATEGORY as FORMAT_SENSITIVITY
from fctncalling.data.format_sensitivity import VARIANTS, parse_variant_id
from fctncalling.data.types import StepRecord, Task, Verdict
from fctncalling.data.unsafe_text import json_text
from fctncalling.envs.rewards import progress_share
from fctncalling.evaluation.pass_at_k import SuccessCounts

IN_MEMORY = 16_384


class Latencies:
    """Latencies of a model in seconds, eight bytes each."""

    def __init__(self) -> None:
        self._seconds = array("d")

    def add(self, latency: Any) -> None:
        """Add the latency of a result, or a list (turns) of lists (steps) of them.

        Zeros are ignored.
        """
        if isinstance(latency, list):
            for each in latency:
                self.add(each)
        elif isinstance(latency, int | float) and latency:
            self._seconds.append(latency)

    def summary(self) -> dict[str, str]:
        """Return a summary: mean, standard deviation and 95th percentile as BFCL rounds them.

        Empty without latencies.
        """
        if not self._seconds:
            return {}
        seconds = np.asarray(self._seconds)
        figures = {
            "latency mean": seconds.mean(),
            "latency standard deviation": seconds.std(ddof=1) if len(seconds) > 1 else 0.0,
            "latency 95th percentile": np.quantile(seconds, 0.95),
        }
        return {name: str(round(float(figure), 2)) for name, figure in figures.items()}


NOT_SHOWN = "N/A"


class ScoreFile:
    """Score file of BFCL, of one model and category.

    Failures wait for the header, from IN_MEMORY characters on in a temporary file: hundreds of
    models and categories may be open at once, and a process has about a thousand descriptors.
    """

    def __init__(self, model: str, category: str) -> None:
        self._model = model
        self._category = category
        self._failures = SpooledTemporaryFile(IN_MEMORY, "w+", encoding="utf-8")  # noqa: SIM115
        # Configuration ("" for all) -> correct, total.
        self._counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])

    def add(self, entry_id: str, failed: Mapping[str, Any] | None) -> None:
        """Add one verdict; `failed` is its entry in the file, None if it is valid."""
        keys = [""]
        if self._category == FORMAT_SENSITIVITY:
            keys.append(str(parse_variant_id(entry_id)[0]))
        for key in keys:
            self._counts[key][0] += failed is None
            self._counts[key][1] += 1
        if failed is not None:
            self._failures.write(json_text(failed, default=str) + "\n")

    def close(self, score_dir: Path | None) -> dict[str, Any]:
        """Close the file: write it if a folder is given, and return the header."""
        correct, total = self._counts[""]
        header: dict[str, Any] = {
            "accuracy": correct / total if total else 0.0,
            "correct_count": correct,
            "total_count": total,
            **self._by_configuration(),
        }
        if score_dir is not None:
            path = score_dir / _score_file(self._model, self._category)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._failures.seek(0)
            with path.open("w", encoding="utf-8") as file:
                file.write(json.dumps(header) + "\n")
                shutil.copyfileobj(self._failures, file)
        return header

    def discard(self) -> None:
        """Discard the file, without writing it."""
        self._failures.close()

    def _by_configuration(self) -> dict[str, Any]:
        if self._category != FORMAT_SENSITIVITY:
            return {}
        by_name = {
            name: {"accuracy": correct / total, "correct_count": correct, "total_count": total}
            for name, (correct, total) in self._counts.items()
            if name
        }
        rates = [float(each["accuracy"]) for each in by_name.values()]
        several = len(rates) > 1
        return {
            "accuracy_max_delta": round((max(rates) - min(rates)) * 100, 2) if several else 0.0,
            "accuracy_variance": round(statistics.variance(rates) * 100**2, 2) if several else 0.0,
            "accuracy_std": round(statistics.stdev(rates) * 100, 2) if several else 0.0,
            **by_name,
        }


def _score_file(model: str, category: str) -> Path:
    """Return where a model's score file of a category lies below --score_dir."""
    name = f"BFCL_v4_{category}_score.json"
    return Path(result_folder_name(model), category_folder(category), name)


class ModelScores:
    """Scores and latencies of one model."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.categories: dict[str, dict[str, Any]] = {}  # category -> header of its score file
        self.readings: dict[str, Reading] = {}  # category -> how its answers were read
        # category -> what is told beside the official verdict
        self.extra_metrics: dict[str, ExtraMetrics] = {}
        self.failed: dict[str, str] = {}  # id of a failed task -> what is wrong with its truth
        self.unanswered: dict[str, int] = {}  # category -> tasks without an answer
        self.invalid: list[str] = []  # where, and why, of answers that count neither way
        self.latencies = Latencies()

    def entries_text(self, category: str) -> str:
        """Return the number of a category's answers, and "of N" where tasks lack theirs."""
        count, left = self.categories[category]["total_count"], self.unanswered.get(category, 0)
        is_sampled = bool(self.extra_metrics[category].samples.report())
        return f"{count} of {count + left}" if left and not is_sampled else str(count)

    @property
    def scores(self) -> dict[str, Score]:
        """Scores of the model by category."""
        return {name: each for name, (each, _) in self.scores_with_headers().items()}

    def scores_with_headers(self) -> dict[str, tuple[Score, dict[str, Any]]]:
        """Scores with headers: by category, each with the header of its score file."""
        return {
            name: (Score(header["accuracy"], header["total_count"]), header)
            for name, header in self.categories.items()
        }


def failure_entry(
    results: CategoryAnswers, task: Task, record: Mapping[str, Any], verdict: Verdict
) -> dict[str, Any]:
    """Return the entry of a failure (a wrong answer) in a score file."""
    fields: dict[str, Any] = {"error": [verdict.message], "error_type": verdict.error_type}
    if task.executes_calls:
        fields = {"error": {"error_message": [verdict.message], "error_type": verdict.error_type}}
    entry = {
        "id": task.id,
        "model_name": results.model,
        "test_category": results.category,
        "valid": False,
        **fields,
        "prompt": {"id": task.id, "question": task.question},
        "model_result_raw": record["result"],
    }
    return entry if task.ground_truth is None else {**entry, "possible_answer": task.ground_truth}


_COLUMNS: dict[str, dict[str, str]] = json.loads(
    Path(__file__).with_name("leaderboard_columns.json").read_text(encoding="utf-8")
)
"""Table of the leaderboard -> column -> what stands in it: a category, a mean ("V4 live") or ""."""
_COLUMNS[FORMAT_SENSITIVITY] |= {f"Config {variant}": str(variant) for variant in VARIANTS}


def write_csv(score_dir: Path, models: Mapping[str, ModelScores]) -> None:
    """Write CSV files: the leaderboard's tables, best model first.

    Columns that BFCL fills for its own models only (price, link) are N/A.
    """
    tables: dict[str, list[tuple[float, list[str]]]] = {name: [] for name in _COLUMNS}
    for scores in models.values():
        means = version_4_scores(scores.scores)
        sensitivity = scores.categories.get(FORMAT_SENSITIVITY, {})
        cells = {f"V4 {name}": str(mean) for name, mean in means.items()}
        cells |= {name: str(category_score(scores.scores, name)) for name in SIZES}
        cells |= {"model": scores.model, **scores.latencies.summary()}
        for name, key in (("max delta", "max_delta"), ("standard deviation", "std")):
            cells[name] = str(sensitivity.get(f"accuracy_{key}", NOT_SHOWN))
        for variant in map(str, VARIANTS):
            if variant in sensitivity:
                cells[variant] = str(Score(sensitivity[variant]["accuracy"], 0))
        for name, columns in _COLUMNS.items():
            delta = float(sensitivity.get("accuracy_max_delta", -1))
            order = delta if name == FORMAT_SENSITIVITY else means[name].accuracy
            tables[name].append((order, [cells.get(cell, NOT_SHOWN) for cell in columns.values()]))
    for name, rows in tables.items():
        ordered = [row for _, row in sorted(rows, key=lambda pair: pair[0], reverse=True)]
        lines = [["Rank", *_COLUMNS[name]]]
        lines += [[str(number), *row] for number, row in enumerate(ordered, 1)]
        (score_dir / f"data_{name}.csv").write_text(
            "\n".join(",".join(line) for line in lines), encoding="utf-8"
        )


def earlier_score_files(score_dir: Path, models: Mapping[str, ModelScores]) -> list[str]:
    """Return a line on score files that other runs left in a folder, or copies; [] without any."""
    written = {
        _score_file(name, each) for name, model in models.items() for each in model.categories
    }
    found = (path.relative_to(score_dir) for path in sorted(score_dir.rglob("*_score.json*")))
    others = [str(path) for path in found if path not in written]
    if not others:
        return []
    shown = ", ".join(others[:5]) + (", ..." if others[5:] else "")
    return [
        f"{len(others)} score files in {score_dir} are of other runs: they are neither read nor "
        f"changed, and data_*.csv hold this run alone: {shown}"
    ]


class ExtraMetrics(SuccessCounts):
    """Extra metrics of one category, not in BFCL: summed over its answers."""

    def add(
        self, task: Task, response: Any, form: str, verdict: Verdict, *, broke_off: bool = False
    ) -> None:
        """Add one answer to the metrics.

        Only valid ones are checked strictly; one that `broke_off` fails that check.
        """
        progress = 0.0 if broke_off else progress_share(task, verdict)
        strict = self.is_strict and verdict.valid and not broke_off
        if strict:
            from fctncalling.envs.judging.strict import strict_verdict

            strict = strict_verdict(task, steps_of_messages(task, response, form), verdict).valid
        self.count(task.id, valid=verdict.valid, strict=strict, progress=progress)

    def columns(self) -> list[str]:
        """Return the columns of the table, by name."""
        return ["95 % interval", *(name.removesuffix("_accuracy") for name in self.rates())]

    def cells(self) -> list[str]:
        """Return the cells of the table's row: the interval and the rates in percent."""
        interval = self.samples.interval() if self.num_answers else None
        return [interval_text(interval), *(f"{100 * rate:.2f}%" for rate in self.rates().values())]


def steps_of_messages(task: Task, response: Any, form: str) -> list[StepRecord]:
    """Return the steps of an answer's messages, as StepRecords of an episode."""
    from fctncalling.envs.episode_runner import parse_message
    from fctncalling.envs.handlers.registry import handler_for

    if form == "decoded_calls":
        return []
    handler = handler_for(task, form)
    executes = task.executes_calls
    turns = response if executes and isinstance(response, list) else [[response]]
    steps = []
    for turn, texts in enumerate(turns):
        for text in texts if isinstance(texts, list) else ():
            answer = parse_message(handler, text, executes=executes)
            words = text if isinstance(text, str) else ""
            calls, executed = answer.calls, answer.executed
            steps.append(StepRecord(turn, words, calls, executed, error=answer.error))
    return steps
