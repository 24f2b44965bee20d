"""Result trees of models that answer right and wrong, in the official layout.

Answers are drawn from the recorded verdict tables, one for each task. A task that no table holds is
answered by its truth, by a truth cut short, by another task's answer, or by what no model should
say.
"""

from __future__ import annotations

import ast
import gzip
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fctncalling.checkers.leaderboard import LIVE, MEMORY, MULTI_TURN, NON_LIVE, WEB_SEARCH
from fctncalling.cli.shared.task_finder import category_folder, iter_category_tasks
from fctncalling.data.format_sensitivity import CATEGORY as FORMAT_SENSITIVITY
from fctncalling.data.types import Task
from fctncalling.envs.conversations import task_for_form
from fctncalling.envs.handlers.registry import handler_for
from fctncalling.evaluation.agents.agent import ScriptedAgent

SCORED = (
    *NON_LIVE,
    "irrelevance",
    *LIVE,
    "live_irrelevance",
    "live_relevance",
    *MULTI_TURN,
    *WEB_SEARCH,
    *MEMORY,
)
CHAT = "I cannot help with that: please tell me more."
STRANGE = (None, "", [], "[", "[]", [[]], 5, CHAT)
STRANGE_CALLS = (
    *STRANGE,
    {},
    [{}],
    [{"f": "{}"}],
    [{"f": {}}],
    [{"f": "{"}],
    [{"f": "[1]"}],
    [{"f": "null"}],
    [{"a": "{}", "b": "{}"}],
    ["f"],
    {"f": "{}"},
)
LONE_CALLS = (
    [{"core_memory_list_keys": "{}"}],
    [{"core_memory_list_keys": {}}],
    {"core_memory_list_keys": "{}"},
    {"core_memory_list_keys": {}, "core_memory_clear": {}},
)
"""One message that calls, as BFCL's execution of tool calls reads it."""


class Tables:
    """Recorded answers of each task, by category and form."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, dict[str, list[Any]]] = {}

    def answers(self, category: str, calls: bool) -> dict[str, list[Any]]:
        """Return id -> recorded answers."""
        name, base = category, category
        if category.startswith(("memory", "web_search")):
            name = base = "memory" if category.startswith("memory") else "web_search"
        elif category in MULTI_TURN:
            name = category if calls else f"raw_{category}"
        elif calls and "relevance" not in category:
            name = f"fc_{category}"
        if name not in self._read:
            self._read[name] = {}
            with gzip.open(self._folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
                for record in map(json.loads, lines):
                    self._read[name].setdefault(record["id"], []).append(record["response"])
        return {
            key(entry_id.replace(base, category, 1)): answers
            for entry_id, answers in self._read[name].items()
        }


def key(entry_id: str) -> str:
    """Return the part of a task that its answers depend on."""
    return re.sub(r"^format_sensitivity_\d+:(.*)&func_doc_fmt=.*:", r"\1:", entry_id)


class Model:
    """Model that answers tasks at random; `calls`: by tool calls, else by texts."""

    def __init__(self, tables: Tables, seed: str, *, calls: bool) -> None:
        self._tables, self._draw, self._calls = tables, random.Random(seed), calls

    def write(self, data_dir: Path, folder: Path, category: str, *, recorded_only: bool) -> None:
        """Write the result file of a category; tasks without answers are left out if asked."""
        recorded = self._tables.answers(category, self._calls)
        path = folder / category_folder(category) / f"BFCL_v4_{category}_result.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8") as file:
            for task in iter_category_tasks(data_dir, category):
                if recorded_only and key(task.id) not in recorded:
                    continue
                answer = self._answer(task, category, recorded)
                file.write(
                    json.dumps({"id": task.id, "result": answer, "latency": self._latency(answer)})
                    + "\n"
                )

    def _answer(self, task: Task, category: str, recorded: dict[str, list[Any]]) -> Any:
        draw, others = self._draw, list(recorded)
        if key(task.id) in recorded and draw.random() < 0.9:
            return self._shaped(draw.choice(recorded[key(task.id)]), category)
        kind = draw.choices(("truth", "cut", "other", "strange"), (5, 2, 2, 1))[0]
        if kind == "other":
            return self._shaped(draw.choice(recorded[draw.choice(others)]), category)
        if kind == "strange" or task.ground_truth is None:
            strange = draw.choice(STRANGE_CALLS if self._calls else STRANGE)
            return (
                [[strange]] * len(task.question)
                if draw.random() < 0.5 and task.is_multi_turn
                else strange
            )
        texts = truth(task, self._calls)
        if kind == "cut":
            texts = [text[: draw.randrange(len(text) + 1)] for text in texts]
        shaped = [self._calls_of(text) for text in texts]
        return [[answer] for answer in shaped] if task.executes_calls else shaped[0]

    def _shaped(self, answer: Any, category: str) -> Any:
        """Return a recorded answer in the shape of result files."""
        if category in (*WEB_SEARCH, *MEMORY):
            call: Any = (
                self._draw.choice(LONE_CALLS) if self._calls else "[core_memory_list_keys()]"
            )
            return self._draw.choice(
                ([[answer]], [[call, answer]], [[answer, call]], [[call, answer, call]])
            )
        if category in MULTI_TURN:
            if not self._calls or not isinstance(answer, list):
                return answer
            return [[self._spelled(step) for step in _as_calls(turn)] for turn in answer]
        return self._calls_of(answer)

    def _spelled(self, step: Any) -> Any:
        """Write a step's call in one of the ways that BFCL's execution accepts."""
        if not isinstance(step, list) or not step:
            return step
        [(name, arguments)] = step[0].items()
        return self._draw.choice((step, step, step[0], [{name: json.loads(arguments)}]))

    def _calls_of(self, text: Any) -> Any:
        if not self._calls:
            return text
        try:
            return json.loads(text)
        except (ValueError, TypeError):
            return text

    def _latency(self, answer: Any) -> Any:
        draw = self._draw
        if isinstance(answer, list) and all(isinstance(turn, list) for turn in answer):
            return [[draw.choice((0, draw.random())) for _ in turn] for turn in answer]
        return draw.choice((0, 1, draw.uniform(0, 9)))


def truth(task: Task, calls: bool) -> list[str]:
    """Return the messages that solve a task."""
    form = "tool_call" if calls else "prompting"
    player = ScriptedAgent("oracle").make_player(
        task_for_form(task, form), handler_for(task, form).name, 0
    )
    return [player.answer("", {"turn": turn}) for turn in range(len(task.question))]


def _as_calls(turn: Any) -> list[Any]:
    """Convert a turn of call strings to tool calls, one per step; keep other texts."""
    return [list(_call(step)) or step for step in (turn if isinstance(turn, list) else [turn])]


def _call(text: Any) -> Iterator[dict[str, str]]:
    try:
        call: Any = ast.parse(text, mode="eval").body
        yield {
            call.func.id: json.dumps(
                {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
            )
        }
    except (SyntaxError, ValueError, TypeError, AttributeError):
        return


def write_trees(data_dir: Path, tables: Tables, root: Path, seeds: int) -> None:
    """Write the trees of prompted and calling models, two for each seed."""
    for seed in range(seeds):
        for name, calls in (("prompted", False), ("called", True)):
            model = Model(tables, f"{name} {seed}", calls=calls)
            for category in (*SCORED, *(() if calls else (FORMAT_SENSITIVITY,))):
                model.write(data_dir, root / f"{name}-{seed}", category, recorded_only=False)
    for category in (*SCORED[::2], FORMAT_SENSITIVITY):
        Model(tables, category, calls=False).write(
            data_dir, root / "gaps", category, recorded_only=True
        )
