"""Oracle: plays tasks of a running server by their ground truths, and prints each reward.

python solution/oracle.py http://127.0.0.1:8000 8    # 8 tasks of each category
"""

from __future__ import annotations

import json
import sys
from typing import Any

from fctncalling import embedded_path, load_tasks
from fctncalling.data.types import Task
from fctncalling.lab.dialogue import oracle_messages
from fctncalling.lab.integrations.openenv import ChatAction, ChatClient


def actions(task: Task) -> list[dict[str, Any]]:
    """Return the messages that solve a task: the calls of each turn, then a text."""
    fields = ("content", "tool_calls")
    return [{k: m[k] for k in fields if k in m} for m in oracle_messages(task)]


def play(client: Any, index: int, messages: list[dict[str, Any]]) -> float:
    """Return the reward of a test episode played with these messages."""
    result = client.reset(split="test", index=index)
    total = 0.0
    for message in messages:
        if not result.done:
            result = client.step(ChatAction(**message))
            total += result.reward or 0.0
    return total


def chosen(tasks: list[Task], each: int) -> list[int]:
    """Return the indices of the first tasks of each category."""
    seen: dict[str, int] = {}
    indices = []
    for index, task in enumerate(tasks):
        seen[task.category] = seen.get(task.category, 0) + 1
        indices += [index] if seen[task.category] <= each else []
    return indices


def main(url: str = "http://127.0.0.1:8000", each: str = "8") -> None:
    """Print a line for each task."""
    tasks = load_tasks(embedded_path("held_out"))
    with ChatClient(base_url=url).sync() as client:
        for index in chosen(tasks, int(each)):
            print(
                json.dumps({"index": index, "reward": play(client, index, actions(tasks[index]))})
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
