"""Demonstrations of BFCL tasks: the demonstrator's episodes, as records and as texts."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fctncalling.data.bfcl import load_tasks
from fctncalling.data.types import Task
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.evaluation.episode_log import play_episode
from fctncalling.lab.embedded.demonstrator import Demonstrator
from fctncalling.lab.embedded.make_tasks import EMBEDDED, SHARES, make_tasks
from fctncalling.lab.embedded.multi_turn_tasks import EMBEDDED_LENGTH, Length

if TYPE_CHECKING:
    from fctncalling.algorithms.episodes import EpisodeRecord
    from fctncalling.algorithms.policy.chat_template import ChatTemplate

MAX_POSITIONS = 4096  # tokens; the embedded episodes have up to 400


def training_tasks(
    num_tasks: int,
    *,
    seed: int,
    shares: Mapping[str, int] = SHARES,
    length: Length = EMBEDDED_LENGTH,
) -> list[Task]:
    """Return fresh tasks of the training split, read by the same loader as any user's file."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "multi_turn_func_doc").symlink_to(EMBEDDED / "multi_turn_func_doc")
        merged = [
            {**entry, **({} if truth is None else {"ground_truth": truth})}
            for entry, truth in make_tasks(
                "train", num_tasks, seed=seed, shares=shares, length=length
            )
        ]
        path = Path(folder) / "tasks.json"
        path.write_text(json.dumps(merged))
        return load_tasks(path)


def episode_texts(tasks: Sequence[Task], demonstrator: Demonstrator) -> Iterator[str]:
    """Yield every text of the demonstrator's episodes.

    Messages, results, actions and function signatures.
    """
    env = FunctionCallingEnv(tasks=tasks)
    for task in tasks:
        player = _RecordingPlayer(task.id, demonstrator)
        play_episode(env, task.id, player)
        yield from player.texts


class _RecordingPlayer:
    """A demonstrator as the player of one episode; keeps every text a model would read or write."""

    def __init__(self, task_id: str, demonstrator: Demonstrator) -> None:
        self.texts: list[str] = []
        self._task_id = task_id
        self._demonstrator = demonstrator
        self._turn = -1
        self._step_in_turn = 0

    def answer(self, observation: str, info: Mapping[str, Any]) -> str:
        """Return the demonstrator's action."""
        for message in info["messages"]:
            content = message["content"]
            self.texts.append(content.rpartition("\n")[2] if message.get("tools") else content)
        self.texts.append(signatures(info["tools"]))
        self._step_in_turn = self._step_in_turn + 1 if info["turn"] == self._turn else 0
        self._turn = info["turn"]
        action = self._demonstrator(self._task_id, self._turn, self._step_in_turn, info)
        self.texts.append(action)
        return action


def signatures(tools: Sequence[Any]) -> str:
    """Return the functions offered as the chat template shows them."""
    functions = [tool["function"] for tool in tools]
    return " ".join(
        f"{function['name']}({','.join(function['parameters']['properties'])})"
        for function in functions
    )


def demonstrations(
    tasks: Sequence[Task], demonstrator: Demonstrator, template: ChatTemplate
) -> list[EpisodeRecord]:
    """Return the demonstrator's episodes, played by the ordinary rollout."""
    from fctncalling.algorithms.generation.engine import ScriptedEngine
    from fctncalling.algorithms.rollout.collect import collect

    envs: list[Any] = [FunctionCallingEnv(tasks=tasks) for _ in range(16)]
    engine = ScriptedEngine(demonstrator, template.encode, template.end_of_turn_id)
    return collect(
        envs, engine, template, [task.id for task in tasks], max_episode_tokens=MAX_POSITIONS
    )
