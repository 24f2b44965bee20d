"""Recorded verdicts: bits of the official package on answers that a seed makes again anywhere."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fctncalling.cli.shared.jsonl_records import InputError
from fctncalling.cli.shared.task_finder import category_file
from fctncalling.lab.conformance.made_answers import MadeAnswer, made_answers_of_category

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
    return base64.b64encode(np.packbits(np.array(bits, bool), bitorder="little")).decode()


def unpack_bits(text: str, count: int) -> list[bool]:
    """Return so many bits of a text that `pack_bits` wrote."""
    data = np.frombuffer(base64.b64decode(text), np.uint8)
    return np.unpackbits(data, count=count, bitorder="little").astype(bool).tolist()
