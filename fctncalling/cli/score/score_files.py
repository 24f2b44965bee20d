"""BFCL's tree of scores: each category's accuracy above its failures, and the leaderboard's CSV.

Extra columns beside them: progress, strict accuracy.
"""

from __future__ import annotations

import json
import shutil
import statistics
from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any

import numpy as np

from fctncalling.checkers.leaderboard import (
    LIVE,
    MEMORY,
    MULTI_TURN,
    NON_LIVE,
    SIZES,
    WEB_SEARCH,
    Score,
    category_score,
    version_4_scores,
)
from fctncalling.cli.score.readings import Reading
from fctncalling.cli.score.results import CategoryAnswers
from fctncalling.cli.shared.task_finder import category_folder, result_folder_name
from fctncalling.cli.shared.text_table import interval_text
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

    def summary(self) -> tuple[str, str, str] | None:
        """Return a summary: mean, standard deviation and 95th percentile as BFCL shows them.

        None without latencies.
        """
        if not self._seconds:
            return None
        seconds = np.asarray(self._seconds)
        deviation = seconds.std(ddof=1) if len(seconds) > 1 else 0.0
        figures = (seconds.mean(), deviation, np.quantile(seconds, 0.95))
        mean, deviation, high = (str(round(float(figure), 2)) for figure in figures)
        return mean, deviation, high


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
            path = (
                score_dir
                / result_folder_name(self._model)
                / category_folder(self._category)
                / f"BFCL_v4_{self._category}_score.json"
            )
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


class ModelScores:
    """Scores and latencies of one model."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.categories: dict[str, dict[str, Any]] = {}  # category -> header of its score file
        self.readings: dict[str, Reading] = {}  # category -> how its answers were read
        # category -> what is told beside the official verdict
        self.extra_metrics: dict[str, ExtraMetrics] = {}
        self.failed: dict[str, str] = {}  # id of a failed task -> what is wrong with its truth
        self.invalid: list[str] = []  # where, and why, of answers that count neither way
        self.latencies = Latencies()

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


def write_csv(score_dir: Path, models: Mapping[str, ModelScores]) -> None:
    """Write CSV files: the leaderboard's tables, best model first.

    Columns that BFCL fills for its own models only (price, link) are N/A.
    """
    tables: dict[str, list[tuple[float, list[str]]]] = {name: [] for name in _COLUMNS}
    for scores in models.values():
        named = {**version_4_scores(scores.scores)}
        one = {category: category_score(scores.scores, category) for category in SIZES}
        for name, row in _rows(scores, named, one).items():
            tables[name].append((_sort_key(name, named, scores), row))
    for name, rows in tables.items():
        ordered = [row for _, row in sorted(rows, key=lambda pair: pair[0], reverse=True)]
        lines = [_COLUMNS[name], *([str(number), *row] for number, row in enumerate(ordered, 1))]
        (score_dir / f"data_{name}.csv").write_text(
            "\n".join(",".join(line) for line in lines), encoding="utf-8"
        )


def _rows(
    scores: ModelScores, named: Mapping[str, Score], one: Mapping[str, Score]
) -> dict[str, list[str]]:
    """Return the row of each table without its rank; the columns are those of _COLUMNS."""
    sensitivity = scores.categories.get(FORMAT_SENSITIVITY, {})
    spread = [
        str(sensitivity.get(key, NOT_SHOWN)) for key in ("accuracy_max_delta", "accuracy_std")
    ]
    by_variant = [sensitivity.get(str(variant)) for variant in VARIANTS]
    shown = (str(Score(each["accuracy"], 0)) if each else NOT_SHOWN for each in by_variant)
    non_live = [named["non_live_ast"], named["non_live_simple"]]
    non_live += _of(one, (*NON_LIVE, "irrelevance"))
    live = [named["live_ast"], *_of(one, (*LIVE, "live_irrelevance", "live_relevance"))]
    return {
        "overall": _overall_row(scores, named, one, spread),
        "non_live": _texts(scores, named["non_live"], *non_live),
        "live": _texts(scores, named["live"], *live),
        "multi_turn": _texts(scores, named["multi_turn"], *_of(one, MULTI_TURN)),
        "agentic": _texts(scores, named["agentic"], *_agentic(named, one)),
        "format_sensitivity": [scores.model, *spread, *shown],
    }


def _overall_row(
    scores: ModelScores, named: Mapping[str, Score], one: Mapping[str, Score], spread: list[str]
) -> list[str]:
    """Return the row of data_overall.csv; columns for BFCL's own models only are N/A."""
    latency = scores.latencies.summary() or (NOT_SHOWN,) * 3
    cells = [named["non_live_ast"], named["non_live_simple"], *_of(one, NON_LIVE[3:])]
    cells += [named["live"], *_of(one, LIVE), named["multi_turn"], *_of(one, MULTI_TURN)]
    cells += [*_agentic(named, one), one["live_relevance"], named["irrelevance"]]
    return [
        *[str(named["overall"]), scores.model, NOT_SHOWN, NOT_SHOWN, *latency],
        *map(str, cells),
        *[*spread, NOT_SHOWN, NOT_SHOWN],
    ]


def _agentic(named: Mapping[str, Score], one: Mapping[str, Score]) -> list[Score]:
    return [named["web_search"], *_of(one, WEB_SEARCH), named["memory"], *_of(one, MEMORY)]


def _of(one: Mapping[str, Score], categories: Sequence[str]) -> list[Score]:
    return [one[category] for category in categories]


def _texts(scores: ModelScores, *cells: Score) -> list[str]:
    return [scores.model, *map(str, cells)]


def _sort_key(name: str, named: Mapping[str, Score], scores: ModelScores) -> float:
    if name == "format_sensitivity":
        return float(scores.categories.get(FORMAT_SENSITIVITY, {}).get("accuracy_max_delta", -1))
    return named[name].accuracy


_COLUMNS: dict[str, list[str]] = json.loads(
    Path(__file__).with_name("leaderboard_columns.json").read_text(encoding="utf-8")
)
_COLUMNS["format_sensitivity"] += [f"Config {variant}" for variant in VARIANTS]


class ExtraMetrics(SuccessCounts):
    """Extra metrics of one category, beside BFCL's: summed over its answers."""

    def add(
        self, task: Task, response: Any, form: str, verdict: Verdict, *, broke_off: bool = False
    ) -> None:
        """Add one answer to the metrics.

        Only valid ones are checked strictly; one that `broke_off` fails that check.
        """
        progress = 0.0 if broke_off else progress_share(task, verdict)
        strict = self.is_strict and verdict.valid and not broke_off
        strict = strict and _is_strictly_valid(task, response, form, verdict)
        self.count(task.id, valid=verdict.valid, strict=strict, progress=progress)

    def columns(self) -> list[str]:
        """Return the columns of the table, by name."""
        return ["95 % interval", *(name.removesuffix("_accuracy") for name in self.rates())]

    def cells(self) -> list[str]:
        """Return the cells of the table's row: the interval and the rates in percent."""
        interval = self.samples.interval() if self.num_answers else None
        return [interval_text(interval), *(f"{100 * rate:.2f}%" for rate in self.rates().values())]


def _is_strictly_valid(task: Task, response: Any, form: str, verdict: Verdict) -> bool:
    from fctncalling.envs.judging.strict import strict_verdict

    return strict_verdict(task, steps_of_messages(task, response, form), verdict).valid


def steps_of_messages(task: Task, response: Any, form: str) -> list[StepRecord]:
    """Return the steps of an answer's messages, as StepRecords of an episode."""
    from fctncalling.envs.episode.parsing import parse_message
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
            steps.append(
                StepRecord(
                    turn,
                    text if isinstance(text, str) else "",
                    answer.calls,
                    answer.executed,
                    error=answer.error,
                )
            )
    return steps
