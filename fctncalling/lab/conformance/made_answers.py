"""Made answers: a seed's mutations of right answers, their form and scorer, recorded verdicts."""

from __future__ import annotations

import base64
import hashlib
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fctncalling.cli.score.readings import Reading, ReadingFlags
from fctncalling.cli.shared.jsonl_records import InputError
from fctncalling.cli.shared.task_finder import (
    category_file,
    iter_category_tasks,
    use_sibling_long_context_tables,
)
from fctncalling.data.categories import AST, MULTI_TURN, RELEVANCE, category_language
from fctncalling.data.types import Call, FunctionDoc, Task, Verdict
from fctncalling.envs.errors import MissingExtra
from fctncalling.envs.handlers import DecodeError, Handler, get_handler
from fctncalling.envs.handlers.registry import handler_for
from fctncalling.envs.handlers.source_calls import tree_sitter_grammar
from fctncalling.envs.judging.judge import judge
from fctncalling.lab.conformance.agreement import ExpectedVerdict
from fctncalling.lab.conformance.multi_turn_mutations import TURN_MUTATIONS, right_multi_turn_draft
from fctncalling.lab.conformance.single_turn_mutations import (
    ARGUMENT_MUTATIONS,
    CALL_MUTATIONS,
    IRRELEVANCE_MUTATIONS,
    RELEVANCE_MUTATIONS,
    AnswerDraft,
    Mutation,
    right_answer_draft,
    stratum_name,
)

CATEGORIES = (*AST, *RELEVANCE, *(name for name in MULTI_TURN if "composite" not in name))
"""Official categories whose answers are made."""

ANSWER_FORM = "prompting"
ANSWERS_A_TASK = 8
_SHORT = 400  # characters of an answer in a report


class MadeAnswer(NamedTuple):
    """Answer to one task, made from the right one."""

    task: Task
    mutation: str
    group: str  # what it was made for
    response: Any
    change: str  # in words

    def verdict(self) -> Verdict:
        """Return BFCL's verdict."""
        return judge(self.task, self.response, ANSWER_FORM)

    def expected_verdict(self) -> ExpectedVerdict:
        """Return BFCL's verdict with the stratum that it puts the answer in."""
        verdict = self.verdict()
        stratum = stratum_name(self.group, self.mutation, verdict.valid)
        told = (verdict.valid, verdict.error_type, self.task.id, self.change, self.shown())
        return ExpectedVerdict(stratum, *told)

    def shown(self) -> str:
        """Return the answer's text, cut to a length that people read."""
        text = str(self.response)
        return text if len(text) <= _SHORT else f"{text[:_SHORT]}..."


def made_answers(
    tasks: Iterator[Task], seed: int = 0, answers_a_task: int = ANSWERS_A_TASK
) -> Iterator[MadeAnswer]:
    """Yield the answers of each task: so many of its mutations, drawn by seed and the task's id.

    Tasks whose truth cannot be written as calls have none.
    """
    for task in tasks:
        draft, mutations = _draft_and_mutations(task)
        if draft is None:
            continue
        rng = random.Random(f"{seed}:{task.id}")
        made = 0
        for name in rng.sample(sorted(mutations), len(mutations)):
            if made == answers_a_task:
                break
            group, make = mutations[name]
            try:
                answer = make(draft, rng)
            except (TypeError, ValueError):  # nothing to change, or a value that has no literal
                continue
            made += 1
            yield MadeAnswer(task, name, group, *answer)


def _draft_and_mutations(task: Task) -> tuple[Any, Mapping[str, Mutation]]:
    if task.is_multi_turn:
        return right_multi_turn_draft(task), TURN_MUTATIONS
    if task.kind == "irrelevance":
        return AnswerDraft(task, ()), IRRELEVANCE_MUTATIONS
    if task.kind == "relevance":
        return AnswerDraft(task, ()), RELEVANCE_MUTATIONS
    return right_answer_draft(task), {**CALL_MUTATIONS, **ARGUMENT_MUTATIONS}


def chosen_categories(folder: Path, named: Sequence[str], note: Callable[[str], None]) -> list[str]:
    """Return the categories that were asked for, or all that a folder has and that can be read.

    `note` is told what is left out because its language's grammar is not installed. Raises
    InputError for an unknown one, and for a folder without official tasks.
    """
    use_sibling_long_context_tables(folder)
    for name in named:
        if name not in CATEGORIES:
            raise InputError(f'--category "{name}": expected one of {", ".join(CATEGORIES)}')
    found = [name for name in named or CATEGORIES if named or category_file(folder, name)]
    if not found:
        raise InputError(
            f"{folder}: there are no official tasks. Import them with `fctncalling import-bfcl`, "
            "or name their folder by --data_dir"
        )
    return list(_readable(found, note, must=bool(named)))


def _readable(categories: Sequence[str], note: Callable[[str], None], must: bool) -> Iterator[str]:
    for name in dict.fromkeys(categories):
        try:
            if category_language(name) != "python":
                tree_sitter_grammar(category_language(name))
        except MissingExtra as error:
            if must:
                raise InputError(str(error)) from None
            note(f"{name} is left out: {error}")
            continue
        yield name


def made_answers_of_category(
    folder: Path, category: str, seed: int, answers_a_task: int
) -> Iterator[MadeAnswer]:
    """Yield the answers to a category's tasks; raises InputError if there are none."""
    return made_answers(iter_category_tasks(folder, category), seed, answers_a_task)


def scorer_record(answer: MadeAnswer, answer_id: str) -> dict[str, Any]:
    """Return the line that a scorer reads.

    The task as BFCL's files have it; the answer as text and as the calls that BFCL's decoder reads
    in it.
    """
    texts, handler = answer.response, handler_for(answer.task, ANSWER_FORM)
    calls = (
        [[calls_json(handler, step) for step in turn] for turn in texts]
        if answer.task.is_multi_turn
        else calls_json(handler, texts)
    )
    return {
        "id": answer_id,
        "category": answer.task.category,
        "task": task_entry(answer.task),
        "answer": {"text": texts, "calls": calls},
    }


def calls_json(handler: Handler, text: str) -> list[dict[str, Any]] | None:
    """Return the calls of a text as JSON; None if a handler reads none."""
    try:
        calls = handler.decode(text)
    except DecodeError:
        return None
    return [{"name": call.name, "arguments": dict(call.arguments)} for call in calls]


def task_entry(task: Task) -> dict[str, Any]:
    """Return a task as BFCL's files have it, its ground truth inside."""
    entry: dict[str, Any] = {
        "id": task.id,
        "question": task.question,
        "function": [
            {"name": doc.name, "description": doc.description, "parameters": doc.parameters}
            for doc in task.functions
        ],
        "ground_truth": task.ground_truth,
    }
    if task.is_multi_turn:
        entry["initial_config"] = task.initial_config
        entry["involved_classes"] = task.involved_classes
        missed = task.missed_functions.items()
        entry["missed_function"] = {str(turn): list(names) for turn, names in missed}
    return entry


def task_of(record: Mapping[str, Any]) -> Task:
    """Return the task of a line."""
    entry = record["task"]
    docs = (
        FunctionDoc(doc["name"], doc["description"], doc["parameters"]) for doc in entry["function"]
    )
    return Task(
        id=entry["id"],
        category=record["category"],
        question=entry["question"],
        functions=tuple(docs),
        ground_truth=entry["ground_truth"],
        initial_config=entry.get("initial_config", {}),
        involved_classes=entry.get("involved_classes", ()),
        missed_functions={int(at): names for at, names in entry.get("missed_function", {}).items()},
    )


class AnswerWriter:
    """Writer of made answers in the form of one of our handlers; counts those it cannot write."""

    def __init__(self, flags: ReadingFlags) -> None:
        self.left_out = 0
        name = flags.handler or "auto"
        if name != "auto" and "Handler" in name:
            raise InputError(
                f"--handler {name}: here answers are written, too: name a handler of ours, such as "
                "hermes_calls"
            )
        self._handler = None if name == "auto" else get_handler(name)
        named = flags._replace(handler=None if name == "auto" else name)
        keeps = "keep" if flags.dots == "auto" else flags.dots  # as the answers are made
        self.reading = named._replace(dots=keeps).reading("", ())

    def written(self, task: Task, response: Any) -> Any:
        """Return a response in the form, None if the form cannot express it."""
        if self._handler is None and not self.reading.underscores:
            return response
        try:
            if task.is_multi_turn:
                return [[self._text(task, step) for step in turn] for turn in response]
            return self._text(task, response)
        except ValueError:
            self.left_out += 1
            return None

    def _text(self, task: Task, text: str) -> str:
        try:
            calls: Sequence[Call] = handler_for(task, ANSWER_FORM).decode(text)
        except DecodeError:
            if task.kind in ("irrelevance", "relevance"):
                return text  # words, which hold no call in any form
            raise
        if self.reading.underscores and not task.executes_calls:
            dotted = {doc.name for doc in task.functions if "." in doc.name}
            if {each.name for each in calls} & {name.replace(".", "_") for name in dotted}:
                raise ValueError("a name that is wrong by its dots alone cannot be told any more")
            calls = [Call(each.name.replace(".", "_"), each.arguments) for each in calls]
        written = (self._handler or handler_for(task, ANSWER_FORM)).render(calls)
        decoder = self.reading.decoder
        if not decoder.is_default:
            read = json.loads(decoder.decode(written, self.reading.functions(task), executes=True))
            if read != [{each.name: json.dumps(dict(each.arguments))} for each in calls]:
                raise ValueError("its values would be read as others, by the types of the function")
        return written


class OwnScorer:
    """Scorer of ours that reads answers as they were written.

    Lines of one task that follow each other share its replayed truth.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._task: Task | None = None

    def valid(self, record: Mapping[str, Any]) -> bool:
        """Return whether the answer of a line is valid."""
        decoder, answer = self._reading.decoder, record["answer"]["text"]
        if self._task is None or self._task.id != record["task"]["id"]:
            self._task = self._reading.task(task_of(record))
        if not decoder.is_default:
            functions = self._reading.functions(task_of(record))
            answer = (
                [[decoder.decode(step, functions, executes=True) for step in t] for t in answer]
                if self._task.is_multi_turn
                else decoder.decode(answer, functions)
            )
        return judge(self._task, answer, self._reading.form).valid


FILE = Path(__file__).with_name("recorded_verdicts.json")


class VerdictComparison(NamedTuple):
    """Comparison of one category's verdicts."""

    category: str
    compared: int
    different: list[str]  # answers in words


def load_recorded_verdicts() -> dict[str, Any]:
    """Return the recording: package, seed, and for each category hashes and bits."""
    recorded: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    return recorded


def compare_category(folder: Path, category: str, recorded: Mapping[str, Any]) -> VerdictComparison:
    """Return how our verdicts on a category's answers compare with the official ones.

    Raises InputError where tasks or answers are others than those that were judged.
    """
    entry = recorded["categories"][category]
    if tasks_hash(folder, category) != entry["tasks_sha256"]:
        raise InputError(
            f"{folder}: the tasks of {category} are not those of {recorded['package']} "
            f"{recorded['version']}, on which verdicts were recorded: `fctncalling import-bfcl` "
            "gets them"
        )
    answers = list(
        made_answers_of_category(folder, category, recorded["seed"], recorded["answers_a_task"])
    )
    if answers_hash(answers) != entry["answers_sha256"]:
        raise InputError(
            f"the answers made to the tasks of {category} are not those that were recorded: make "
            "the recording anew by benchmarks/peers/record_verdicts.py"
        )
    bits = unpack_bits(entry["bits"], len(answers))
    different = []
    for answer, valid in zip(answers, bits, strict=True):
        verdict = answer.verdict()
        if verdict.valid != valid:
            official = "valid" if valid else "wrong"
            different.append(
                f"{answer.task.id}: {answer.change}. Officially {official}, here "
                f"{verdict.error_type or 'valid'}: {answer.shown()}"
            )
    return VerdictComparison(category, len(answers), different)


def category_recording(
    folder: Path, category: str, answers: Sequence[MadeAnswer], bits: Sequence[bool]
) -> dict[str, Any]:
    """Return a category's entry of a recording."""
    return {
        "answers": len(answers),
        "tasks_sha256": tasks_hash(folder, category),
        "answers_sha256": answers_hash(answers),
        "bits": pack_bits(bits),
    }


def tasks_hash(folder: Path, category: str) -> str:
    """Return the SHA-256 of a category's task file and its possible answers."""
    file = category_file(folder, category)
    if file is None:
        raise InputError(
            f"{folder}: there are no tasks of {category}: `fctncalling import-bfcl` gets them"
        )
    digest = hashlib.sha256()
    for path in (file, file.parent / "possible_answer" / file.name):
        digest.update(path.read_bytes() if path.is_file() else b"")
    return digest.hexdigest()


def answers_hash(answers: Iterable[MadeAnswer]) -> str:
    """Return the SHA-256 of answers, with their tasks' ids and in their order."""
    digest = hashlib.sha256()
    for answer in answers:
        digest.update(json.dumps([answer.task.id, answer.response]).encode() + b"\n")
    return digest.hexdigest()


def pack_bits(bits: Sequence[bool]) -> str:
    """Return bits as text, eight a byte, the first the lowest."""
    return base64.b64encode(np.packbits(np.array(bits, bool), bitorder="little").tobytes()).decode()


def unpack_bits(text: str, count: int) -> list[bool]:
    """Return so many bits of a text that `pack_bits` wrote."""
    data = np.frombuffer(base64.b64decode(text), np.uint8)
    bits: list[bool] = np.unpackbits(data, count=count, bitorder="little").astype(bool).tolist()
    return bits
