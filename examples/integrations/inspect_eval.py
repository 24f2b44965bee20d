"""Inspect evaluates a model on this project's tasks.

  python3.11 -m venv /tmp/inspect
  /tmp/inspect/bin/pip install inspect-ai==0.3.285
  /tmp/inspect/bin/pip install .
  /tmp/inspect/bin/python examples/integrations/inspect_eval.py

The model here is a script that answers with the right calls of single-turn tasks, and of every
fifth one with nothing: accuracy 0.8 is expected. Another one: `inspect eval --model`.
"""

from __future__ import annotations

import tempfile
from typing import Any

from inspect_ai import eval as evaluate
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.tool import ToolCall

from fctncalling import embedded_path, load_tasks
from fctncalling.data.types import Task
from fctncalling.envs import oracle_calls
from fctncalling.lab.integrations.inspect_ai import inspect_task

CATEGORIES = ("simple_python", "multiple", "parallel", "parallel_multiple")


def answer(task: Task, number: int) -> ModelOutput:
    """Return the right calls of a task, or no call for every fifth."""
    output = ModelOutput.from_content("mockllm/model", "I do not know.")
    output.usage = ModelUsage()  # else Inspect downloads a tokenizer to count
    if number % 5:
        [calls] = oracle_calls(task)
        output.choices[0].message.tool_calls = [
            ToolCall(id=f"c{index}", function=call.name, arguments=dict(call.arguments))
            for index, call in enumerate(calls)
        ]
    return output


def main() -> None:
    """Evaluate; print the accuracy."""
    tasks = [task for task in load_tasks(embedded_path("held_out")) if task.category in CATEGORIES]
    tasks = tasks[:40]
    outputs = [answer(task, number) for number, task in enumerate(tasks)]
    model = get_model("mockllm/model", custom_outputs=outputs)
    with tempfile.TemporaryDirectory() as folder:
        [log] = evaluate(
            inspect_task(tasks), model=model, log_dir=folder, max_samples=1, display="none"
        )
    assert log.status == "success", log.error
    scores: dict[str, Any] = log.results.scores[0].metrics if log.results else {}
    print(f"{len(tasks)} tasks, accuracy {scores['accuracy'].value}")


if __name__ == "__main__":
    main()
