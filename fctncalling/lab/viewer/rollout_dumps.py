"""Rollout dumps of other trainers as episodes: verl's and TRL's.

verl (`trainer.rollout_data_dir`) writes STEP.jsonl: prompt and response as text, and a score. TRL
(`log_completions`) writes completions_STEP.parquet: prompt and completion, a column a reward
function, the advantage. Neither has token ids, masks or values: a page of them has no lanes of
tokens, and the checks are those that scores and advantages allow.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fctncalling.lab.viewer.run_files import (
    ExpectedType,
    LoadedRun,
    Record,
    ViewError,
    is_list_of,
    is_number,
    read_lines,
)

MAX_CHECKED = 100_000
"""Episodes of which scores and advantages are compared."""
TOLERANCE = 1e-3  # of TRL's advantages, in deviations
_STEP_FILE = re.compile(r"(?:completions_)?(\d+)\.(?:jsonl|parquet)$")
_BETWEEN = re.compile(r"\n(?:user|tool|ipython)\n(.*?)\n(?:assistant\n|$)", re.DOTALL)

_NUMBER = ExpectedType("a number", is_number)
_TEXT = ExpectedType("a text", lambda value: isinstance(value, str), required=True)
_SAID = ExpectedType(
    "a text or a list of messages",
    lambda value: isinstance(value, str) or is_list_of(lambda each: isinstance(each, dict))(value),
    required=True,
)


class DumpFormat(NamedTuple):
    """Fields of one trainer's dump."""

    prompt: str
    answer: str
    types: dict[str, ExpectedType]  # without a score among them, it is the sum of all numbers


FORMATS = {
    "verl": DumpFormat("input", "output", {"input": _TEXT, "output": _TEXT, "score": _NUMBER}),
    "trl": DumpFormat(
        "prompt", "completion", {"prompt": _SAID, "completion": _SAID, "advantage": _NUMBER}
    ),
}
"""Name -> how that trainer's dumps are read."""


def load_dump(path: Path, form: str, update: int | None = None) -> LoadedRun:
    """Return a file of a dump, of a folder that of step `update` or the last one, as a run.

    Raises ViewError for what holds no episode.
    """
    if not path.exists():
        raise ViewError(f"{path}: there is no such file or folder")
    if path.is_dir():
        path = _step_file(path, update)
    elif update is not None:
        raise ViewError(f"--update {update}: {path} is a file; steps are those of a folder")
    notes: list[str] = []
    checks: list[Record] = []
    episodes = DumpEpisodes(path, form, notes, checks)
    if next(iter(episodes), None) is None:
        fault = "; ".join([f"{path}: there is no episode in it", *notes[:1]])
        raise ViewError(f"{fault}; expected a rollout dump of {form}")
    return LoadedRun(path, form, episodes, path, notes=notes, checks=checks)


def _step_file(folder: Path, update: int | None) -> Path:
    found = {
        int(match[1]): each for each in folder.iterdir() if (match := _STEP_FILE.match(each.name))
    }
    if not found or (update is not None and update not in found):
        steps = ", ".join(map(str, sorted(found)[:20])) or "none"
        raise ViewError(
            f"{folder}: expected STEP.jsonl or completions_STEP.parquet"
            f"{'' if update is None else f' of step {update}'}; there are: {steps}"
        )
    return found[max(found) if update is None else update]


class DumpEpisodes:
    """Episodes of a dump, read anew at each pass, whose end fills notes and checks."""

    def __init__(self, path: Path, form: str, notes: list[str], checks: list[Record]) -> None:
        self._path = path
        self._form = form
        self._notes = notes
        self._checks = checks

    def __iter__(self) -> Iterator[Record]:
        form = FORMATS[self._form]
        self._notes.clear()
        judged: list[_Judged] = []
        for row in read_lines(self._path, self._notes, form.types):
            record = {**_episode(row, form), "line": row["line"], "category": self._form}
            if len(judged) < MAX_CHECKED:
                advantage = None if record["invalid"] else row.get("advantage")
                texts = json.dumps([step["text"] for step in record["steps"]])
                group, answer = (record["task_id"], record["seed"]), zlib.crc32(texts.encode())
                judged.append(_Judged(record["line"], group, answer, record["return"], advantage))
            yield record
        self._notes.append(f"{self._form}'s dumps have texts and numbers, but no tokens to draw")
        stem = self._path.name.split(".")[0]
        rules = dict(RULES)
        if all(each.advantage is None for each in judged):
            del rules["baseline"]
        self._checks[:] = [
            {
                "check": name,
                "holds": holds,
                "findings": [
                    {"check": name, "episode": f"{stem}:{line}", "token": None, "message": message}
                    for line, message in find(judged)
                ],
            }
            for name, (holds, find) in rules.items()
        ]


class _Judged(NamedTuple):
    line: int
    group: tuple[str, Any]  # prompt and step
    answer: int  # a hash
    score: float | None
    advantage: float | None


def _unjudged(judged: Sequence[_Judged]) -> Iterator[tuple[int, str]]:
    for each in judged:
        if each.score is None:
            yield each.line, "no score: nobody judged it"


def _two_scores(judged: Sequence[_Judged]) -> Iterator[tuple[int, str]]:
    first: dict[tuple[Any, int], _Judged] = {}
    for each in judged:
        other = first.setdefault((each.group, each.answer), each)
        if None not in (each.score, other.score) and each.score != other.score:
            text = f"score {each.score:g}; line {other.line} says the same for {other.score:g}"
            yield each.line, text


def _no_baseline(judged: Sequence[_Judged]) -> Iterator[tuple[int, str]]:
    groups: dict[tuple[str, Any], list[_Judged]] = {}
    for each in judged:
        if each.advantage is not None:
            groups.setdefault(each.group, []).append(each)
    for members in groups.values():
        advantages = [each.advantage or 0.0 for each in members]
        largest = max(map(abs, advantages))
        if abs(sum(advantages)) > TOLERANCE * max(1.0, largest) * len(members):
            yield members[0].line, f"advantages of its group sum to {sum(advantages):.4g}, not to 0"
        elif len({each.score for each in members}) == 1 and largest > TOLERANCE:
            yield members[0].line, f"all of its group have one score, and advantage {largest:.4g}"


RULES = {
    "judged": ("every episode has a score", _unjudged),
    "scores": ("one answer to a prompt has one score", _two_scores),
    "baseline": (
        "advantages of a group sum to zero, and are zero where all scores are equal",
        _no_baseline,
    ),
}
"""Check -> what should hold, and the search for (line, what does not)."""


def _episode(row: Record, form: DumpFormat) -> Record:
    """Return a row as an episode of the log."""
    prompt, answer = row[form.prompt], row[form.answer]
    opening = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    own = {"step", "advantage", "line"}
    columns = ["score"] if "score" in form.types else [key for key in row if key not in own]
    scores = [float(row[key]) for key in columns if _is_score(row.get(key))]
    text, step = _text(prompt), row.get("step")
    lines = [line for line in text.strip().splitlines() if line.strip()] or [""]
    return {
        "task_id": f"{lines[-1][:60]} #{zlib.crc32(text.encode('utf-8', 'replace')):08x}",
        "seed": step if isinstance(step, int) else None,
        "messages": opening,
        "steps": _steps(_messages(answer) if isinstance(answer, str) else answer),
        "return": sum(scores) if scores else None,
        "success": None,
        "invalid": not scores,
        "invalid_reason": None if scores else "it has no score",
        "ground_truth": row.get("gts"),
        "terminated": True,
    }


def _messages(text: str) -> list[Record]:
    """Return a response as messages, split at the template's role lines."""
    parts = enumerate(_BETWEEN.split(text))
    said = (
        ({"role": "tool" if at % 2 else "assistant", "content": part}, at) for at, part in parts
    )
    return [message for message, at in said if message["content"] or not at]


def _steps(said: Sequence[Record]) -> list[Record]:
    steps: list[Record] = []
    asked: list[Record] = []
    for message in said:
        role, text = message.get("role"), _text(message.get("content"))
        if role == "assistant":
            made = message.get("tool_calls")
            calls = (
                [_call(each) for each in made if isinstance(each, dict)]
                if isinstance(made, list)
                else []
            )
            steps.append({"turn": 0, "text": text, "calls": calls, "results": []})
            if asked:
                steps[-1]["messages"], asked = asked, []
        elif role == "tool" and steps:
            steps[-1]["results"].append(text)
        else:
            asked.append({"role": str(role), "content": text})
    return steps


def _call(made: Record) -> Record:
    function = made.get("function")
    inside = function if isinstance(function, dict) else made
    return {"name": str(inside.get("name")), "arguments": inside.get("arguments")}


def _text(said: Any) -> str:
    return said if isinstance(said, str) else json.dumps(said, ensure_ascii=False, default=str)


def _is_score(value: Any) -> bool:
    return not isinstance(value, bool) and is_number(value) and math.isfinite(value)
