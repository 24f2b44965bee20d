"""Harbor (tested with 0.26): tasks as folders for its containers, and the command `episode`.

`write_tasks(load_tasks(...), folder)` makes a folder a task: the agent answers the user by the
command `episode`, the oracle by the same command, and the verifier plays what was said again, with
the truth, which the agent's container never holds. `episode` is this module:

  python -m fctncalling.lab.integrations.harbor '[ls()]' 'These are the files.'
"""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fctncalling import __version__
from fctncalling.data.types import FunctionDoc, Message, Task
from fctncalling.lab.dialogue import Dialogue, oracle_messages, score

ANSWER_FORM = "prompting"
RECORD = "logs/artifacts/episode.json"  # what was said: a list of texts
ENDED = "The task has ended."
TEMPLATES = Path(__file__).with_name("harbor_task")
IMAGE = f"fctncalling:{__version__}"


def write_tasks(tasks: Sequence[Task], folder: str | Path) -> list[Path]:
    """Write a folder for each task, and the Dockerfile of their common image.

    Raises ValueError for tasks whose tools or users are no part of the image.
    """
    written = [_write_task(task, Path(folder)) for task in tasks]
    _write(Path(folder) / "image/Dockerfile", _filled("Dockerfile", version=__version__))
    return written


def main(arguments: Sequence[str]) -> int:
    """Play messages, or judge (`--judge FILE`), in the current folder; return 0, 2 if refused."""
    record = Path(os.environ.get("EPISODE_RECORD", RECORD))
    texts = json.loads(record.read_text(encoding="utf-8")) if record.exists() else []
    if list(arguments[:1]) == ["--judge"]:
        messages = [{"role": "assistant", "content": text} for text in texts]
        print(int(score(messages, read_task(Path(arguments[1])), form=ANSWER_FORM).valid))
        return 0
    answers, done = _played(read_task(Path("task.json")), texts)
    printed = [] if arguments else answers
    for text in arguments:
        if done:
            print(f"error: {ENDED} No further message counts.", file=sys.stderr)
            return 2
        texts.append(text)
        before = len(answers)
        answers, done = _played(read_task(Path("task.json")), texts)
        printed += answers[before + 1 :]
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps(texts), encoding="utf-8")
    for message in printed:
        print(f"[{message['role']}]\n{message['content']}\n")
    if done:
        print(ENDED)
    return 0


def read_task(file: Path) -> Task:
    """Read a task that `write_tasks` wrote."""
    fields: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    fields["functions"] = [FunctionDoc(**doc) for doc in fields["functions"]]
    held_out: Mapping[str, Sequence[str]] = fields["missed_functions"]
    fields["missed_functions"] = {int(turn): names for turn, names in held_out.items()}
    return Task(**fields)


def _played(task: Task, texts: Sequence[str]) -> tuple[list[Message], bool]:
    """Play messages; return the conversation, and whether it has ended."""
    dialogue = Dialogue(task, form=ANSWER_FORM)
    dialogue.open()
    if not task.executes_calls:  # one message, which nothing answers
        spoken = [{"role": "assistant", "content": text} for text in texts]
        return [*dialogue.messages, *spoken], bool(texts)
    for text in texts:
        dialogue.reply(text)
    return dialogue.messages, dialogue.done


def _write_task(task: Task, folder: Path) -> Path:
    if task.tool_paths or task.kind in ("agentic", "clarify"):
        raise ValueError(
            f'task "{task.id}" of {task.category}: its tools or user are not in the image; '
            "write_tasks takes single-turn and multi-turn tasks of BFCL's own tools"
        )
    home = folder / task.id.lower()
    blank: list[Any] | None = [[] for _ in task.question] if task.is_multi_turn else None
    public_task = dataclasses.replace(task, ground_truth=blank, extra={}, difficulty=None)
    solution = shlex.join(message["content"] for message in oracle_messages(task, ANSWER_FORM))
    for name, text in {
        "task.toml": _filled("task.toml", name=task.id.lower(), category=task.category),
        "instruction.md": _filled("instruction.md", ended=ENDED),
        "environment/Dockerfile": f"FROM {IMAGE}\nCOPY task.json /task.json\n",
        "environment/task.json": json.dumps(dataclasses.asdict(public_task)),
        "solution/solve.sh": f"#!/bin/bash\nepisode {solution}\n",
        "tests/task.json": json.dumps(dataclasses.asdict(task)),
        "tests/test.sh": _filled("test.sh"),
    }.items():
        _write(home / name, text)
    return home


def _filled(file: str, **values: str) -> str:
    """Return a file of the template of tasks, with values in its gaps."""
    return (TEMPLATES / file).read_text(encoding="utf-8").format(**values)


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    file.chmod(0o755 if file.suffix == ".sh" else 0o644)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
