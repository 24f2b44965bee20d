"""lm-evaluation-harness evaluates a model on this project's single-turn tasks.

  python3.11 -m venv /tmp/lmeval
  /tmp/lmeval/bin/pip install lm_eval==0.4.13
  /tmp/lmeval/bin/pip install .
  /tmp/lmeval/bin/python examples/integrations/lmeval_tasks.py

The model here is a script that answers every second task rightly. A real one:
`lm_eval --model hf --model_args pretrained=MODEL --apply_chat_template --include_path FOLDER
--tasks bfcl` with this folder, which has lmeval_tasks.yaml.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lm_eval import simple_evaluate
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager

from fctncalling import embedded_path, load_tasks
from fctncalling.lab.dialogue import oracle_messages
from fctncalling.lab.integrations.lm_eval import harness_task

TASKS = [task for task in load_tasks(embedded_path("held_out")) if task.category == "parallel"]
Bfcl = harness_task(TASKS)


class Script(LM):
    """Model that answers each document with a given text."""

    def __init__(self, texts: dict[str, str]) -> None:
        super().__init__()
        self._texts = texts

    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
        """Return the texts."""
        return [self._texts[request.doc["id"]] for request in requests]

    def loglikelihood(self, requests: Any) -> Any:
        """Raise: not needed."""
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood


def evaluate(folder: str, texts: dict[str, str]) -> dict[str, Any]:
    """Return the harness's results of the task `bfcl` in a folder, with a scripted model."""
    manager = TaskManager(include_path=folder, include_defaults=False)
    results: dict[str, Any] = simple_evaluate(
        Script(texts), tasks=["bfcl"], task_manager=manager, bootstrap_iters=0
    )
    return results


def main() -> None:
    """Evaluate; print the share of valid answers."""
    texts = {task.id: oracle_messages(task, "prompting")[0]["content"] for task in TASKS[::2]}
    texts |= {task.id: "I do not know." for task in TASKS[1::2]}
    results = evaluate(str(Path(__file__).parent), texts)["results"]["bfcl"]
    print(f"valid: {results['valid,none']} of {len(TASKS)} tasks")


if __name__ == "__main__":
    main()
