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
_SNIFFED_LINES = 50
_MODEL_OF_LINES = "results"


class CategoryAnswers(NamedTuple):
    """Answers of one model to one category, in a file."""

    model: str
    category: str
    path: Path
    form: str
    origin: Path | None = None  # the JSON Lines file this is a part of; None for a result file

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


def official_results(root: Path, form: str | None) -> list[CategoryAnswers]:
    """Return the official results: answers in a BFCL result tree, of all models or of one.

    root: the folder of all models or of one.

    `form` None detects each model's form: lists of calls are tool calls, texts are prompted. Raises
    InputError if nothing is found.
    """
    if not root.exists():
        raise InputError(
            f"{root}: there is no such file or folder: expected a result tree, or .jsonl of answers"
        )
    found: dict[tuple[str, str], CategoryAnswers] = {}
    files = {
        path: match
        for path in sorted(root.rglob("*_result.json"))
        if (match := _RESULT_FILE.fullmatch(path.name))
    }
    of_one_model = any(
        path.parent == root or path.relative_to(root).parts[0] in GROUPS for path in files
    )
    for path, match in files.items():
        model = root.resolve().name if of_one_model else path.relative_to(root).parts[0]
        category = ALIASES.get(match["category"], match["category"])
        if category.endswith("_prereq"):
            continue  # conversations that fill a memory: nothing in them is scored
        if (model, category) in found:
            raise InputError(
                f"{path}: category {category} of {model} stands already in "
                f"{found[model, category].path}"
            )
        found[model, category] = CategoryAnswers(model, category, path, form or "")
    if not found:
        raise InputError(
            f"{root}: expected result files named BFCL_v4_<category>_result.json, but there is none"
        )
    models = {model for model, _ in found}
    forms = {
        model: form or _form_of([each.path for each in found.values() if each.model == model])
        for model in models
    }
    return [each._replace(form=forms[each.model]) for each in found.values()]


def _form_of(paths: Iterable[Path]) -> str:
    """Return the form of a model's answers.

    "tool_call" if any holds {name: arguments}, else "prompting".
    """
    for path in paths:
        for line in islice(read_records(path), _SNIFFED_LINES):
            if any(isinstance(leaf, dict) for leaf in _leaves(line.record.get("result"))):
                return "tool_call"
    return "prompting"


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    else:
        yield value


def split_by_category(path: Path, folder: Path) -> list[CategoryAnswers]:
    """Split JSON Lines of answers by category: a file for each model, category and form.

    "model" may stand beside.

    The parts are written to `folder`, so that an input of any length needs no memory. Raises
    InputError.
    """
    found: dict[tuple[str, str, str], CategoryAnswers] = {}
    with ExitStack() as stack:
        files: dict[tuple[str, str, str], IO[str]] = {}
        for line in read_records(path):
            if line.record.get("invalid") is True:
                continue  # an episode whose endpoint or tools failed: it counts neither way
            key = model_category_form(line)
            if key not in files:
                part = folder / f"{len(files)}.jsonl"
                files[key] = stack.enter_context(part.open("w", encoding="utf-8"))
                found[key] = CategoryAnswers(key[0], key[1], part, key[2], path)
            files[key].write(json.dumps(_part_entry(line)) + "\n")
    for results in found.values():
        if sum(each[:2] == (results.model, results.category) for each in found) > 1:
            raise InputError(
                f'{path}: category {results.category} of {results.model} has more than one "form"'
            )
    return list(found.values())


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
    if results.form == "decoded_calls" or (is_jsonl and kind != "multi_turn"):
        return answer
    if kind not in ("multi_turn", "agentic"):
        return json.dumps(answer) if results.form == "tool_call" else answer
    if not isinstance(answer, list):  # in a result file a text stands for a dialogue that failed
        return [] if kind == "agentic" else answer
    if results.form != "tool_call":
        return answer
    as_text = _message if kind == "agentic" else _jsonl_step if is_jsonl else _step
    return [[as_text(step) for step in turn] if isinstance(turn, list) else turn for turn in answer]


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
