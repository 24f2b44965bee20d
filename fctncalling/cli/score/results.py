"""CategoryAnswers to score, from BFCL's result tree or our JSON Lines.

One stream of answers per model and category.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from fctncalling.cli.score.readings import Reading, ReadingFlags
from fctncalling.cli.score.run_episodes import read_answers
from fctncalling.cli.shared.jsonl_records import InputError, SourceRecord, read_records
from fctncalling.data.categories import (
    ALIASES,
    EXECUTABLE,
    RESULT_NAMES,
    RETIRED,
    category_language,
)
from fctncalling.data.format_sensitivity import CATEGORY as FORMAT_SENSITIVITY
from fctncalling.data.types import Task
from fctncalling.envs.handlers import DecodeError, get_handler
from fctncalling.envs.handlers.source_calls import missing_libraries
from fctncalling.envs.judging.judge import ANSWER_FORMS

GROUPS = ("non_live", "live", "multi_turn", "agentic", FORMAT_SENSITIVITY)
"""Folders in which BFCL sorts a model's files."""

_RESULT_FILE = re.compile(
    r"(?:BFCL_v\d+|gorilla_openfunctions_v\d+_test)_(?P<category>\w+)_result\.json"
)
_LIKE_RESULT = re.compile(  # with the endings of copies: .bak, .old, ~
    r"(?:BFCL_v\d+_\w+(?<!_score)|.*_results?)\.jsonl?(?:\.gz)?(?:[.~]\w*)?"
)
_SUBFOLDERS = frozenset({*GROUPS, "memory", "kv", "vector", "rec_sum"})
_SNIFFED_LINES = 50
_MODEL_OF_LINES = "results"


class CategoryAnswers(NamedTuple):
    """Answers of one model to one category, in a file."""

    model: str
    category: str
    path: Path
    reading: Reading
    is_jsonl: bool = False  # lines of our own; else a result file

    @property
    def form(self) -> str:
        """The form in which `judge` takes what is read."""
        return self.reading.form

    def fault(self, line: SourceRecord, text: str) -> InputError:
        """Return the fault of an answer, an InputError (not raised)."""
        return line.error("response" if self.is_jsonl else "result", text)


class RecordedAnswer(NamedTuple):
    """Recorded answer: its line, and how it is read."""

    results: CategoryAnswers
    source: SourceRecord  # as it is written
    line: SourceRecord  # with "category" and "id" as BFCL v4 names them, and the answer as "result"

    @property
    def is_invalid(self) -> bool:
        """Whether its endpoint or tools failed: it counts neither way."""
        return self.results.is_jsonl and self.source.record.get("invalid") is True


class RecordedAnswers:
    """Answers of a result tree, of a part of one, or of JSON Lines, with how they are read."""

    def __init__(self, path: Path | None, flags: ReadingFlags) -> None:
        self._path = path
        self._flags = flags
        self._of_lines: dict[tuple[str, str, str], CategoryAnswers] = {}
        self._samples: dict[tuple[str, str], list[Any]] = defaultdict(list)
        self.files: list[CategoryAnswers] = []
        self.notes: list[str] = []
        if path and (path.is_dir() or not path.exists() or is_result_tree(path)):
            self.files = official_results(path, flags)
            self.notes = [*_older_names(path, self.files), *_skipped(path)]
        elif path and flags.handler:
            self._take_samples(path)

    def __iter__(self) -> Iterator[RecordedAnswer]:
        """Yield every answer, in order; raises InputError."""
        for results in self.files:
            yield from (_named(results, line) for line in read_records(results.path))
        if self._path and not self.files:
            yield from map(self.answer_of, read_answers(self._path))

    def require_libraries(self, wanted: Collection[str] = ()) -> None:
        """Require what reads the files' answers in Java and JavaScript; InputError with the cure.

        wanted: the categories of concern, all if empty.
        """
        missing: dict[str, list[str]] = {}
        for results in self.files:
            language = category_language(results.category)
            if (
                language != "python"
                and results.form == "prompting"
                and (not wanted or results.category in wanted)
                and (libraries := missing_libraries(language))
            ):
                missing[language] = libraries
        if missing:
            names = ", ".join(dict.fromkeys(chain.from_iterable(missing.values())))
            raise InputError(
                f"{self._path}: reading its answers in {' and '.join(missing)} needs libraries "
                f"that are not installed ({names}): pip install 'fctncalling[{','.join(missing)}]'"
            )

    def print_notes(self) -> None:
        """Print on stderr what a reader of the figures has to know of the files."""
        for note in self.notes:
            print(f"note: {note}", file=sys.stderr)

    def answer_of(self, line: SourceRecord) -> RecordedAnswer:
        """Return the answer in a line of JSON Lines; InputError for a malformed one."""
        key = model, category, form = _model_category_form(line)
        if key not in self._of_lines:
            reading = self._flags.reading(model, self._samples.get((model, form), ()), form)
            self._of_lines[key] = CategoryAnswers(model, category, line.path, reading, True)
        return _named(self._of_lines[key], line, result=line.record.get("response"))

    def _take_samples(self, path: Path) -> None:
        """Store first answers of each model, category and form: they decide how all are read."""
        counts: Counter[tuple[str, str, str]] = Counter()
        for line in read_answers(path):
            key = model, _, form = _model_category_form(line)
            counts[key] += line.record.get("invalid") is not True
            if counts[key] <= _SNIFFED_LINES and line.record.get("invalid") is not True:
                self._samples[model, form].append(line.record["response"])


def _named(results: CategoryAnswers, line: SourceRecord, **answer: Any) -> RecordedAnswer:
    names = ALIASES if results.is_jsonl else RESULT_NAMES
    entry_id = line.field("id", str, "a task's id")
    name, _, rest = entry_id.rpartition("_")
    if name in names:  # under the category name of BFCL v4: `java_0` became `simple_java_0`
        entry_id = f"{names[name]}_{rest}"
    record = {**line.record, "category": results.category, "id": entry_id, **answer}
    return RecordedAnswer(results, line, line._replace(record=record))


def _model_category_form(line: SourceRecord) -> tuple[str, str, str]:
    """Return the model, category and form of an answer; InputError for a malformed one."""
    category = line.field("category", str, "a category's name")
    form = line.record.get("form", "prompting")
    form = "tool_call" if form == "tools_text" else form  # answers are written alike
    if form not in ANSWER_FORMS:
        raise line.error("form", f'expected one of {", ".join(ANSWER_FORMS)}, got "{form}"')
    if "response" not in line.record and line.record.get("invalid") is not True:
        raise line.error("response", "expected the answer, but there is no such field")
    model = str(line.record.get("model", _MODEL_OF_LINES)).encode("utf-8", "replace").decode()
    return model, str(ALIASES.get(category, category)), str(form)


def is_result_tree(path: Path) -> bool:
    """Whether a path is a BFCL result tree, one model's folder of it or one of its files."""
    return _RESULT_FILE.fullmatch(path.name) is not None or (
        path.is_dir() and bool(_result_files(path))
    )


def official_results(path: Path, flags: ReadingFlags) -> list[CategoryAnswers]:
    """Return the official results: answers in a BFCL result tree, of all models or of one.

    path: the folder of all models, of one, or one result file. Raises InputError if nothing is
    found.
    """
    if not path.exists():
        raise InputError(
            f"{path}: there is no such file or folder: expected a result tree, or .jsonl of answers"
        )
    root = path if path.is_dir() else path.resolve().parent
    while not path.is_dir() and root.name in _SUBFOLDERS:
        root = root.parent
    found: dict[tuple[str, str], Path] = {}
    files = _result_files(root)
    of_one_model = any(
        each.parent == root or each.relative_to(root).parts[0] in GROUPS for each in files
    )
    for each, name in files.items():
        category = RESULT_NAMES.get(name, name)
        model = root.resolve().name if of_one_model else each.relative_to(root).parts[0]
        if (model, category) in found:
            raise InputError(
                f"{each}: category {category} of {model} stands already in {found[model, category]}"
            )
        found[model, category] = each
    if not found:
        retired = ", ".join(dict.fromkeys(_result_files(root, retired=True).values()))
        but = f"BFCL has no {retired} any more" if retired else "there is none"
        but = "; ".join([but, *_skipped(root)])
        raise InputError(
            f"{root}: expected result files named BFCL_v4_<category>_result.json, but {but}"
        )
    if path.is_file() and _is_retired(name := _name_in_file(path)):
        raise InputError(f"{path}: BFCL has no {name} any more: there is no task to judge it by")
    readings: dict[str, Reading] = {}
    for model, _ in found:
        if model not in readings:
            own = (file for (name, _), file in found.items() if name == model)
            lines = (line for file in own for line in islice(read_records(file), _SNIFFED_LINES))
            readings[model] = flags.reading(model, (line.record.get("result") for line in lines))
    return [
        CategoryAnswers(model, category, file, readings[model])
        for (model, category), file in found.items()
        if path.is_dir() or file.resolve() == path.resolve()
    ]


def _result_files(root: Path, *, retired: bool = False) -> dict[Path, str]:
    """Return the result files below a folder, with the categories as their names have them.

    Conversations that fill a memory are left out: nothing in them is scored. retired: those of
    categories that BFCL has no more, in place of all others.
    """
    names = {path: _name_in_file(path) for path in sorted(root.rglob("*_result.json"))}
    return {
        path: name
        for path, name in names.items()
        if name and not name.endswith("_prereq") and _is_retired(name) == retired
    }


def _skipped(path: Path) -> list[str]:
    """Return a line on files of a folder that look like results but are not named so, or none."""
    names = [
        str(each.relative_to(path))
        for each in sorted(path.rglob("*"))
        if _LIKE_RESULT.fullmatch(each.name) and not _name_in_file(each) and each.is_file()
    ]
    if not names:
        return []
    shown = ", ".join(names[:5]) + (", ..." if names[5:] else "")
    return [
        f"{len(names)} files look like results and are left out, for results are named "
        f"BFCL_v4_<category>_result.json: {shown}"
    ]


def _name_in_file(path: Path) -> str:
    """Return the category as the name of a result file has it; "" for another file."""
    match = _RESULT_FILE.fullmatch(path.name)
    return match["category"] if match else ""


def _is_retired(name: str) -> bool:
    return name in RETIRED or name.startswith(EXECUTABLE)


def _older_names(path: Path, files: Sequence[CategoryAnswers]) -> list[str]:
    """Return a line on names of older versions of BFCL, and on what is left out; none without."""
    names = {_name_in_file(each.path): each.category for each in files}
    renamed = [f"{old} as {new}" for old, new in names.items() if old != new]
    retired = _result_files(path, retired=True)
    told = [f"older names are read as today's: {', '.join(renamed)}"] if renamed else []
    if retired:
        count = sum(1 for file in retired for _ in read_records(file))
        gone = ", ".join(dict.fromkeys(retired.values()))
        told.append(f"{count} answers are left out, for BFCL has no {gone} any more")
    if told:
        told.append("older answers are judged by today's truths, which changed for some tasks")
    return ["; ".join(told)] if told else []


class UnansweredTasks:
    """Tasks of a category that wait for their answers, which mostly come in the same order.

    Answers in BFCL's task order are paired in constant memory. Lines with a "sample"
    (`run --num_samples`) may answer a task several times; such tasks stay in memory.
    """

    def __init__(self, tasks: Iterator[Task], results: CategoryAnswers) -> None:
        self._unread = tasks
        self._results = results
        self._waiting: dict[str, Task] = {}
        self._sampled: dict[str, tuple[Task, set[Any]]] = {}  # id -> its task and samples seen

    def task_of(self, line: SourceRecord) -> Task:
        """Return the task that a line answers; InputError for an unknown or repeated id."""
        entry_id, sample = line.record["id"], line.record.get("sample")
        if sample is not None:
            line.field("sample", int, "which of a task's answers it is (a number)")
            task, seen = self._sampled.get(entry_id, (None, set[Any]()))
            if task is not None and sample not in seen:
                seen.add(sample)
                return task
        while entry_id not in self._waiting:
            read = next(self._unread, None)
            if read is None:
                raise line.error("id", self._fault_of_id(entry_id, line))
            self._waiting[read.id] = read
        task = self._waiting.pop(entry_id)
        if sample is not None:
            self._sampled[entry_id] = task, {sample}
        return task

    def _fault_of_id(self, entry_id: str, line: SourceRecord) -> str:
        """Return what is wrong with an id that no waiting task has."""
        results, before = self._results, 0
        for other in read_answers(line.path):
            if other.number >= line.number or before:
                break
            if results.is_jsonl and (
                other.record.get("invalid") is True
                or _model_category_form(other)[:2] != (results.model, results.category)
            ):
                continue
            is_same = _named(results, other).line.record["id"] == entry_id
            before = other.number if is_same else 0
        if before:
            return f'"{entry_id}" was answered already, in line {before}: leave one of them out'
        return (
            f'no task of {self._results.category} is called "{entry_id}". Name the tasks that '
            "were answered by --dataset_path"
        )

    def num_left(self) -> int:
        """Return how many tasks have no answer."""
        return len(self._waiting) + sum(1 for _ in self._unread)

    def require_none(self) -> None:
        """Require that no task is left without an answer; InputError."""
        if missing := [*self._waiting, *(task.id for task in self._unread)]:
            raise InputError(
                f"{self._results.model}, {self._results.category}: {len(missing)} tasks have no "
                f"answer, the first is {missing[0]}. Pass --partial to score those that have one."
            )


def read_response(results: CategoryAnswers, task: Task, line: SourceRecord) -> Any:
    """Read the response of a line, in the form that `judge` takes."""
    if "result" not in line.record:
        raise results.fault(line, "expected the answer, but there is no such field")
    answer, kind, is_jsonl = line.record["result"], task.kind, results.is_jsonl
    decoder = results.reading.decoder
    if not decoder.is_default:
        return _decoded_response(results.reading, task, answer, is_jsonl=is_jsonl)
    if results.form == "decoded_calls" or (is_jsonl and kind != "multi_turn"):
        return answer
    if kind not in ("multi_turn", "agentic"):
        return json.dumps(answer) if decoder.form == "tool_call" else answer
    if not isinstance(answer, list):  # in a result file a text stands for a dialogue that failed
        return [] if kind == "agentic" else answer
    if decoder.form != "tool_call":
        return answer
    as_text = _message if kind == "agentic" else partial(_step, keeps_text=is_jsonl)
    return [[as_text(step) for step in turn] if isinstance(turn, list) else turn for turn in answer]


def _decoded_response(reading: Reading, task: Task, answer: Any, *, is_jsonl: bool) -> Any:
    """Return a response as read by a model's special decoder."""
    functions = reading.functions(task)

    def decoded(step: Any, *, executes: bool = True) -> Any:
        if is_jsonl and not reading.decoder.takes_text:
            step = _unwritten(step)
        return reading.decoder.decode(step, functions, executes=executes)

    if task.kind not in ("multi_turn", "agentic"):
        return decoded(answer, executes=False)
    if not isinstance(answer, list):
        return [] if task.kind == "agentic" and not is_jsonl else answer

    def message(step: Any) -> Any:
        text = decoded(step)
        if reading.decoder.form == "prompting":
            return step if text is None else text
        return text if _calls_something(text) else _message(str(step))

    as_text = message if task.kind == "agentic" else decoded
    return [[as_text(step) for step in turn] if isinstance(turn, list) else turn for turn in answer]


def _unwritten(answer: Any) -> Any:
    """Return the lists that lines of this project hold as text."""
    try:
        return json.loads(answer) if isinstance(answer, str) else answer
    except (ValueError, RecursionError):
        return answer


def _step(step: Any, *, keeps_text: bool = False) -> str:
    """Return a tool-calling model's step as text: its calls as one JSON list, chat as no call.

    Where calls are executed, BFCL takes more than a list of such objects: one object alone, several
    calls in one object, arguments that are an object already. keeps_text: our own lines hold texts.
    """
    if keeps_text and isinstance(step, str):
        return step
    calls = [step] if isinstance(step, dict) else step
    if isinstance(calls, list) and all(isinstance(each, dict) for each in calls):
        calls = [
            {name: given if isinstance(given, str) else json.dumps(given)}
            for each in calls
            for name, given in each.items()
        ]
    return json.dumps(calls)


def _message(step: Any) -> Any:
    """Return a step of an agentic dialogue; its last message is the answer.

    Calls as text, all else unchanged.
    """
    if isinstance(step, str):
        # Only what an interface returned as calls is one.
        return json.dumps(step) if _calls_something(step) else step
    text = _step(step)
    return text if _calls_something(text) else step


def _calls_something(text: str) -> bool:
    try:
        return bool(get_handler("tool_calls").decode(text))
    except DecodeError:
        return False
