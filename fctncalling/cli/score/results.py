"""CategoryAnswers to score, from BFCL's result tree or our JSON Lines.

One stream of answers per model and category.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

from fctncalling.cli.score.readings import Reading, ReadingFlags
from fctncalling.cli.shared.jsonl_records import InputError, SourceRecord, read_records
from fctncalling.data.categories import ALIASES
from fctncalling.data.format_sensitivity import CATEGORY as FORMAT_SENSITIVITY
from fctncalling.data.types import Task
from fctncalling.envs.handlers import DecodeError, get_handler
from fctncalling.envs.judging.judge import ANSWER_FORMS
from fctncalling.evaluation.agents.agent import CONTEXT_OVERFLOW

GROUPS = ("non_live", "live", "multi_turn", "agentic", FORMAT_SENSITIVITY)
"""Folders in which BFCL sorts a model's files."""

_RESULT_FILE = re.compile(r"BFCL_v\d+_(?P<category>\w+)_result\.json")
_SUBFOLDERS = frozenset({*GROUPS, "memory", "kv", "vector", "rec_sum"})
_SNIFFED_LINES = 50
_SNIFFED_RECORDS = 500
_MODEL_OF_LINES = "results"


class CategoryAnswers(NamedTuple):
    """Answers of one model to one category, in a file."""

    model: str
    category: str
    path: Path
    reading: Reading
    origin: Path | None = None  # the JSON Lines file this is a part of; None for a result file

    @property
    def form(self) -> str:
        """The form in which `judge` takes what is read."""
        return self.reading.form

    def lines(self) -> Iterator[SourceRecord]:
        """Yield the lines of the file, numbered as in the user's; raises InputError."""
        for line in read_records(self.path):
            yield (
                line
                if self.origin is None
                else SourceRecord(self.origin, line.record["line"], line.record)
            )

    def fault(self, line: SourceRecord, text: str) -> InputError:
        """Return the fault of an answer, an InputError (not raised)."""
        return line.error("result" if self.origin is None else "response", text)


def is_result_tree(path: Path) -> bool:
    """Whether a path is a BFCL result tree, one model's folder of it or one of its files."""
    return _RESULT_FILE.fullmatch(path.name) is not None or (
        path.is_dir() and any(_result_files(path))
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
    root = path if path.is_dir() else _model_folder(path)
    found: dict[tuple[str, str], Path] = {}
    files = dict(_result_files(root))
    of_one_model = any(
        each.parent == root or each.relative_to(root).parts[0] in GROUPS for each in files
    )
    for each, category in files.items():
        model = root.resolve().name if of_one_model else each.relative_to(root).parts[0]
        if (model, category) in found:
            raise InputError(
                f"{each}: category {category} of {model} stands already in {found[model, category]}"
            )
        found[model, category] = each
    if not found:
        raise InputError(
            f"{root}: expected result files named BFCL_v4_<category>_result.json, but there is none"
        )
    readings: dict[str, Reading] = {}
    for model, _ in found:
        if model not in readings:
            own = (file for (name, _), file in found.items() if name == model)
            readings[model] = flags.reading(model, _leading_answers(own))
    return [
        CategoryAnswers(model, category, file, readings[model])
        for (model, category), file in found.items()
        if path.is_dir() or file.resolve() == path.resolve()
    ]


def _result_files(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield the result files below a folder with their categories.

    Conversations that fill a memory are left out: nothing in them is scored.
    """
    for path in sorted(root.rglob("*_result.json")):
        match = _RESULT_FILE.fullmatch(path.name)
        category = ALIASES.get(match["category"], match["category"]) if match else "_prereq"
        if not category.endswith("_prereq"):
            yield path, category


def _model_folder(path: Path) -> Path:
    """Return the folder of the model that a result file is of."""
    folder = path.resolve().parent
    while folder.name in _SUBFOLDERS:
        folder = folder.parent
    return folder


def _leading_answers(paths: Iterable[Path]) -> Iterator[Any]:
    for path in paths:
        for line in islice(read_records(path), _SNIFFED_LINES):
            yield line.record.get("result")


def split_by_category(path: Path, folder: Path, flags: ReadingFlags) -> list[CategoryAnswers]:
    """Split JSON Lines of answers by category: a file for each model, category and form.

    "model" may stand beside.

    The parts are written to `folder`, so that an input of any length needs no memory. Raises
    InputError.
    """
    parts: dict[tuple[str, str, str], Path] = {}
    with ExitStack() as stack:
        files: dict[tuple[str, str, str], IO[str]] = {}
        for line in read_records(path):
            if line.record.get("invalid") is True:
                continue  # an episode whose endpoint or tools failed: it counts neither way
            key = model_category_form(line)
            if key not in files:
                parts[key] = folder / f"{len(files)}.jsonl"
                files[key] = stack.enter_context(parts[key].open("w", encoding="utf-8"))
            files[key].write(json.dumps(_part_entry(line)) + "\n")
    found = [
        CategoryAnswers(
            model, category, part, flags.reading(model, _leading_answers([part]), form), path
        )
        for (model, category, form), part in parts.items()
    ]
    for results in found:
        if sum(each[:2] == (results.model, results.category) for each in found) > 1:
            raise InputError(
                f'{path}: category {results.category} of {results.model} has more than one "form"'
            )
    return found


class LineReadings:
    """Readings of the answers in JSON Lines, by model and form."""

    def __init__(self, path: Path, flags: ReadingFlags) -> None:
        self._flags = flags
        self._samples: dict[tuple[str, str], list[Any]] = {}
        self._known: dict[tuple[str, str], Reading] = {}
        if flags.handler:
            for line in islice(read_records(path), _SNIFFED_RECORDS):
                if "category" in line.record and "response" in line.record:
                    model, _, form = model_category_form(line)
                    answers = self._samples.setdefault((model, form), [])
                    answers.append(line.record["response"])

    def reading(self, model: str, form: str) -> Reading:
        """Return how the answers of a model in a form are read."""
        key = (model, form)
        if key not in self._known:
            sample = self._samples.get(key, ())
            self._known[key] = self._flags.reading(model, sample, form)
        return self._known[key]


def iter_answers(path: Path, flags: ReadingFlags) -> Iterator[tuple[CategoryAnswers, SourceRecord]]:
    """Yield every answer of a result tree, of a part of one, or of JSON Lines, as "result"."""
    if not path.exists():
        raise InputError(f"{path}: there is no such file or folder")
    if path.is_dir() or is_result_tree(path):
        for results in official_results(path, flags):
            for line in results.lines():
                yield results, line
        return
    readings = LineReadings(path, flags)
    for line in read_records(path):
        model, category, form = model_category_form(line)
        results = CategoryAnswers(model, category, path, readings.reading(model, form), path)
        yield results, line._replace(record={**line.record, "result": line.record["response"]})


def model_category_form(line: SourceRecord) -> tuple[str, str, str]:
    """Return the model, category and form of an answer; InputError for a malformed one."""
    category = line.field("category", str, "a category's name")
    form = line.record.get("form", "prompting")
    form = "tool_call" if form == "tools_text" else form  # answers are written alike
    if form not in ANSWER_FORMS:
        raise line.error("form", f'expected one of {", ".join(ANSWER_FORMS)}, got "{form}"')
    if "response" not in line.record:
        raise line.error("response", "expected the answer, but there is no such field")
    model = str(line.record.get("model", _MODEL_OF_LINES)).encode("utf-8", "replace").decode()
    return model, str(ALIASES.get(category, category)), str(form)


def _part_entry(line: SourceRecord) -> dict[str, Any]:
    """Return an answer as an entry of a result file, with its line number."""
    optional = ("sample", CONTEXT_OVERFLOW, "ground_truth", "messages", "dataset_path")
    return {
        "id": line.field("id", str, "a task's id"),
        "result": line.record["response"],
        "line": line.number,
        **{name: line.record[name] for name in optional if name in line.record},
    }


def pair_answers(
    tasks: Iterator[Task], results: CategoryAnswers, *, partial: bool
) -> Iterator[tuple[Task, SourceRecord]]:
    """Pair answers with their tasks.

    Answers in BFCL's task order are paired in constant memory.

    Lines with a "sample" (`run --num_samples`) may answer a task several times; such tasks stay
    in memory.

    Raises InputError for an unknown or repeated id, and, unless `partial`, for tasks
    without an answer.
    """
    waiting: dict[str, Task] = {}
    sampled: dict[str, tuple[Task, set[Any]]] = {}  # id -> its task and which samples were seen
    for line in results.lines():
        entry_id = v4_entry_id(line.field("id", str, "a task's id"))
        sample = line.record.get("sample")
        if sample is not None:
            line.field("sample", int, "which of a task's answers it is (a number)")
        if entry_id in sampled and sample is not None and sample not in sampled[entry_id][1]:
            sampled[entry_id][1].add(sample)
            yield sampled[entry_id][0], line
            continue
        _read_up_to(entry_id, tasks, waiting, results, line)
        if "result" not in line.record:
            raise results.fault(line, "expected the answer, but there is no such field")
        if sample is not None:
            sampled[entry_id] = waiting[entry_id], {sample}
        yield waiting.pop(entry_id), line
    if not partial and (missing := [*waiting, *(task.id for task in tasks)]):
        raise InputError(
            f"{results.model}, {results.category}: {len(missing)} tasks have no answer, the first "
            f"is {missing[0]}. Pass --partial to score those that have one."
        )


def _read_up_to(
    entry_id: str,
    tasks: Iterator[Task],
    waiting: dict[str, Task],
    results: CategoryAnswers,
    line: SourceRecord,
) -> None:
    """Read tasks into `waiting` up to the wanted one; InputError if there is none."""
    while entry_id not in waiting:
        task = next(tasks, None)
        if task is None:
            raise line.error(
                "id",
                f'no task of {results.category} is called "{entry_id}", or it was answered already '
                "in this file. Name the tasks that were answered by --dataset_path",
            )
        waiting[task.id] = task


def v4_entry_id(entry_id: str) -> str:
    """Return the v4 entry id, under BFCL v4's category name: `java_0` became `simple_java_0`."""
    name, _, rest = entry_id.rpartition("_")
    return f"{ALIASES[name]}_{rest}" if name in ALIASES else entry_id


def read_response(results: CategoryAnswers, task: Task, line: SourceRecord) -> Any:
    """Read the response of a line, in the form that `judge` takes."""
    answer, kind, is_jsonl = line.record["result"], task.kind, results.origin is not None
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
    as_text = _message if kind == "agentic" else _jsonl_step if is_jsonl else _step
    return [[as_text(step) for step in turn] if isinstance(turn, list) else turn for turn in answer]


def _decoded_response(reading: Reading, task: Task, answer: Any, *, is_jsonl: bool) -> Any:
    """Return a response as a decoder of a model's own reads it."""
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
    """Return the lists that our own lines hold as text."""
    try:
        return json.loads(answer) if isinstance(answer, str) else answer
    except (ValueError, RecursionError):
        return answer


def _jsonl_step(step: Any) -> Any:
    return step if isinstance(step, str) else _step(step)  # our own lines hold texts already


def _step(step: Any) -> str:
    """Return a tool-calling model's step as text: its calls as one JSON list, chat as no call.

    Where calls are executed, BFCL takes more than a list of such objects: one object alone, several
    calls in one object, arguments that are an object already.
    """
    calls = [step] if isinstance(step, dict) else step
    if isinstance(calls, list) and all(isinstance(each, dict) for each in calls):
        calls = [{name: _arguments(given)} for each in calls for name, given in each.items()]
    return json.dumps(calls)


def _arguments(given: Any) -> str:
    return given if isinstance(given, str) else json.dumps(given)


def _message(step: Any) -> Any:
    """Return a step of an agentic dialogue, whose last message is the answer.

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
