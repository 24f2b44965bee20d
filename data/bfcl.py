"""Task loader: BFCL's files, or one merged JSON array.

Tasks come validated, with answers and function docs.

A task file is JSON Lines (BFCL's own, versions 3 and 4) or one JSON array whose entries carry their
`ground_truth`. What an entry does not carry is looked for beside its file: answers in
`possible_answer/<same name>`, the docs of its API classes in `multi_turn_func_doc/`.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from fctncalling.data.agentic_tasks import find_agentic_variant
from fctncalling.data.categories import (
    AGENTIC,
    ALIASES,
    AST,
    CATEGORIES,
    CLARIFY,
    LANGUAGE_VARIANTS,
    WITHOUT_ANSWER,
    category_of_id,
    v4_category_name,
)
from fctncalling.data.errors import IncompleteTaskWarning, Location, TaskError
from fctncalling.data.function_docs import DocSource, FunctionDocs, parse_function_doc
from fctncalling.data.json_stream import read_entries
from fctncalling.data.paths import official_data_folder, user_data_folder
from fctncalling.data.types import FunctionDoc, Task
from fctncalling.data.validation import (
    ACCEPT,
    apply_accept_field,
    check_accepted_calls,
    check_ground_truth_turns,
    explain_invalid,
    held_out_functions_by_turn,
    is_answer,
    is_task,
    parse_involved_classes,
)

AnswerSource = str | Path | Mapping[str, Sequence[Any] | Mapping[str, Any]]
"""A folder of answer files, one answer file, or a mapping of entry id to its ground truth (or its
answer entry).
"""


class PossibleAnswers:
    """Possible answers of one task file, read in step with it.

    BFCL writes both files in the same order, so one answer at a time is held. Answers met before
    their entry are kept until it asks for them.
    """

    def __init__(self, source: AnswerSource | None, task_file: Path) -> None:
        self.explicit = source is not None
        self._mapping = source if isinstance(source, Mapping) else None
        self._path = _answer_file(None if isinstance(source, Mapping) else source, task_file)
        self._rest: Iterator[Mapping[str, Any]] | None = None
        self._waiting: dict[str, Mapping[str, Any]] = {}
        self._warned_of_missing = False

    def find(self, place: Location) -> Mapping[str, Any] | None:
        """Find the possible answer of the entry at `place`; return a private copy.

        None, with one warning, without an answer file.

        Raises TaskError where there are answers but none for this id, or where a file asked for is
        not there.
        """
        assert place.id is not None
        if self._mapping is not None:
            if place.id not in self._mapping:
                raise place.error("ground_truth: the possible_answers given have no such id")
            entry = copy.deepcopy(self._mapping[place.id])
            return entry if isinstance(entry, Mapping) else {"ground_truth": entry}
        if not self.explicit and not self._path.exists():
            self._warn_of_missing(place)
            return None
        answer = self._in_file(place.id)
        if answer is None:
            raise place.error(f"ground_truth: {self._path} has no answer with this id")
        return answer

    def _in_file(self, entry_id: str) -> Mapping[str, Any] | None:
        if self._rest is None:
            self._rest = self._read()
        while entry_id not in self._waiting:
            answer = next(self._rest, None)
            if answer is None:
                return None
            self._waiting[answer["id"]] = answer
        return self._waiting.pop(entry_id)

    def _read(self) -> Iterator[Mapping[str, Any]]:
        for line, answer in read_entries(self._path):
            if not is_answer(answer):
                raise Location(self._path, line).error(explain_invalid(answer, "answer"))
            yield answer

    def _warn_of_missing(self, place: Location) -> None:
        if not self._warned_of_missing:
            self._warned_of_missing = True
            warnings.warn(
                f"{place}: ground_truth: no possible answers: expected them in the entry or in "
                f"{self._path}; the tasks of this file cannot be judged",
                IncompleteTaskWarning,
                stacklevel=2,
            )


def _answer_file(source: str | Path | None, task_file: Path) -> Path:
    folder = task_file.parent / "possible_answer" if source is None else Path(source)
    return folder / task_file.name if source is None or folder.is_dir() else folder


__all__ = [
    "IncompleteTaskWarning",
    "TaskError",
    "embedded_path",
    "iter_tasks",
    "load_tasks",
    "resolve_task_path",
]

EMBEDDED = Path(__file__).with_name("embedded")
_WITH_ACCEPTED_CALLS = frozenset({*AST, *LANGUAGE_VARIANTS, *CLARIFY})
_TASK_FIELDS = frozenset(
    "id category question function ground_truth initial_config involved_classes invoked_classes "
    "missed_function difficulty".split()
)


def load_tasks(
    path: str | Path,
    *,
    possible_answers: AnswerSource | None = None,
    function_docs: DocSource | None = None,
    self_documented: Collection[str] = (),
) -> list[Task]:
    """Load the tasks of a file, or of every `BFCL_*.json` task file of a folder, in their order.

    A bare name like BFCL's own that is not in the working folder is found where `import-bfcl` put
    the official files. Variants of agentic categories (`BFCL_v4_memory_kv.json`) are read from the
    one file they share. `possible_answers` (file, folder, or mapping of id to ground truth) and
    `function_docs` (folder, file, or mapping of class to docs) take the place of the siblings; the
    answers also that of a `ground_truth` inside an entry. Of the `self_documented` classes, and of
    those an entry names by their path, docs may be missing: environments make them. Raises
    TaskError, with file, line, id and field, for what cannot be read, and for an id that stands
    twice.
    """
    tasks, places = [], dict[str, Location]()
    for place, task in _read(path, possible_answers, function_docs, self_documented):
        if task.id in places:
            raise place.error(
                f"id: expected ids to be unique, but it stands already at {places[task.id]}"
            )
        places[task.id] = place
        tasks.append(task)
    return tasks


def iter_tasks(
    path: str | Path,
    *,
    possible_answers: AnswerSource | None = None,
    function_docs: DocSource | None = None,
    self_documented: Collection[str] = (),
) -> Iterator[Task]:
    """Iterate over the tasks that `load_tasks` returns, one at a time and in constant memory.

    Two things follow: an id that stands twice is not noticed, and answers must stand in the order
    of their entries (as BFCL's do), for those met too early are kept.
    """
    return (task for _, task in _read(path, possible_answers, function_docs, self_documented))


def embedded_path(name: str) -> Path:
    """Return the path of an embedded task set ("train", "held_out") or folder."""
    for path in (EMBEDDED / f"{name}.json", EMBEDDED / name):
        if path.exists():
            return path
    names = sorted(path.stem for path in EMBEDDED.glob("*")) if EMBEDDED.is_dir() else []
    raise TaskError(
        f'no embedded data is called "{name}": expected one of '
        f"{', '.join(names) or 'none (none is here)'}"
    )


def resolve_task_path(path: str | Path) -> Path:
    """Resolve the path of a task file; look up bare BFCL names in the official data.

    Raises TaskError for such a name where no official data was imported, or none of that name, and
    for the bare name of a category.
    """
    path = Path(path)
    bare = path.name == str(path) and not path.exists() and find_agentic_variant(path) is None
    if bare and path.name in (*CATEGORIES, *ALIASES):
        name = f"BFCL_v4_{v4_category_name(path.name)}.json"
        raise TaskError(f"{path}: no such file; is {name}, the file of that category, meant?")
    if not bare or not path.name.startswith("BFCL_"):
        return path
    for folder in (official_data_folder(), user_data_folder()):
        official = folder / path.name
        if official.exists() or find_agentic_variant(official) is not None:
            return official
    official_names = [file.name for file in official_data_folder().glob("BFCL_*.json")]
    near = get_close_matches(path.name, official_names, n=1)
    cure = f"is {near[0]} meant?" if near else "name its folder too"
    if not official_names:
        cure += ", or get the official tasks by `fctncalling import-bfcl`"
    raise TaskError(
        f"{path}: no such file, neither here nor among the official ones in "
        f"{official_data_folder()}: {cure}"
    )


def _read(
    path: str | Path,
    possible_answers: AnswerSource | None,
    function_docs: DocSource | None,
    self_documented: Collection[str],
) -> Iterator[tuple[Location, Task]]:
    docs_of_folder: dict[Path, FunctionDocs] = {}
    path = resolve_task_path(path)
    variant = find_agentic_variant(path)
    for file in _task_files(path) if variant is None else variant.files:
        sibling = (file.parent if variant is None else variant.root) / "multi_turn_func_doc"
        if sibling not in docs_of_folder:
            docs_of_folder[sibling] = FunctionDocs(
                sibling if function_docs is None else function_docs,
                frozenset(self_documented),
                EMBEDDED / "multi_turn_func_doc" if function_docs is None else None,
            )
        docs, answers = docs_of_folder[sibling], PossibleAnswers(possible_answers, file)
        for line, entry in read_entries(file):
            place, category = _identify(entry, Location(file, line))
            if variant is None:
                yield place, _task(entry, category, place, docs, answers)
            else:
                yield (
                    place,
                    variant.with_variant_id(
                        _task(variant.with_settings(entry), category, place, docs, answers)
                    ),
                )


def _task_files(path: Path) -> list[Path]:
    if path.is_dir():
        files = [
            file for file in sorted(path.glob("BFCL_*.json")) if not _is_format_sensitivity(file)
        ]
        if not files:
            raise TaskError(
                f"{path}: the folder has no task file: expected files named BFCL_*.json, or name "
                "one file"
            )
        return files
    if _is_format_sensitivity(path):
        raise TaskError(
            f"{path}: format sensitivity has no tasks of its own: the file is one object "
            f"{{category: [ids]}} over the entries of other files. Expected a task file: load "
            "those of its categories"
        )
    return [path]


def _is_format_sensitivity(path: Path) -> bool:
    return path.stem.endswith("_format_sensitivity")


def _identify(entry: Any, place: Location) -> tuple[Location, str]:
    """Return an entry's place, with its id, and its category.

    TaskError where the entry is not well formed.
    """
    if isinstance(entry, dict) and isinstance(entry.get("id"), str):
        place = Location(place.path, place.line, entry["id"])
    if not is_task(entry):
        raise place.error(explain_invalid(entry, "task"))
    try:
        category = v4_category_name(entry["category"]) if "category" in entry else ""
    except TaskError as error:
        raise place.error(f"category: {error}") from None
    try:
        category = category or category_of_id(entry["id"], place.path.name)
    except TaskError as error:
        raise place.error(f"id: {error}") from None
    has_tools = category.startswith("multi_turn") or category in AGENTIC
    if has_tools and "involved_classes" not in entry and "invoked_classes" not in entry:
        raise place.error(explain_invalid(entry, "tools"))
    if not has_tools and "function" not in entry and category != "chatable":
        raise place.error(explain_invalid(entry, "single_turn"))
    return place, category


def _task(
    entry: Mapping[str, Any],
    category: str,
    place: Location,
    docs: FunctionDocs,
    answers: PossibleAnswers,
) -> Task:
    classes, paths, scenarios = parse_involved_classes(entry, place)
    self_documented = docs.self_documented | paths.keys()
    functions = _functions(entry.get("function"), classes, place, docs, self_documented)
    answer: Mapping[str, Any] | None = entry
    if category not in WITHOUT_ANSWER and (entry.get("ground_truth") is None or answers.explicit):
        answer = answers.find(place)
    task = Task(
        id=entry["id"],
        category=category,
        question=entry["question"],
        functions=functions,
        ground_truth=answer.get("ground_truth") if answer else None,
        initial_config=scenarios,
        involved_classes=classes,
        missed_functions=held_out_functions_by_turn(
            entry, functions, place, more_later=not self_documented.isdisjoint(classes)
        ),
        extra={
            key: value
            for key, value in {**entry, **(answer or {})}.items()
            if key not in _TASK_FIELDS
        },
        tool_paths=paths,
        difficulty=entry.get("difficulty"),
    )
    if task.is_multi_turn:
        check_ground_truth_turns(task, place)
    elif category in _WITH_ACCEPTED_CALLS:
        check_accepted_calls(task, place)
        return apply_accept_field(task, place)
    if ACCEPT in task.extra:
        raise place.error(f"accept: expected none in a task of {category}, which lists no values")
    return task


def _functions(
    listed: Sequence[Any] | None,
    classes: Sequence[str],
    place: Location,
    docs: FunctionDocs,
    self_documented: Collection[str],
) -> tuple[FunctionDoc, ...]:
    if listed is None:
        return docs.class_docs(classes, place, self_documented)
    return tuple(
        docs.by_name(f, classes, place, self_documented)
        if isinstance(f, str)
        else parse_function_doc(f)
        for f in listed
    )
