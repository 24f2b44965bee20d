"""Build a small model for a job with tools in mid-generation: `python -m fctncalling.cli.warm_start_text --help`.

A tokenizer in which every number of the job is one token, and a small Llama-configuration model fitted to episodes of a
demonstrator: first a careful one, so that it learns the syntax and to copy, then one that is careless and stubborn.
What that one gets wrong, reinforcement learning has to mend.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: spinning threads cost more than they bring

from fctncalling.cli.warm_start import learn, new_model, write_hashes
from fctncalling.envs.tool_text import ToolTextEnv
from fctncalling.envs.tool_text_jobs import JOBS
from fctncalling.envs.tool_text_math import CalculatorTasks, MadeTasks, MathTasks
from fctncalling.envs.tools.python_executor import PythonExecutor
from fctncalling.envs.tools.toolbox import ToolBox, python_tool
from fctncalling.text_demonstrations import TextDemonstrator, text_demonstrations

MAX_EPISODE_TOKENS = 512


class Lesson(NamedTuple):
    """What a job's demonstrator does, and how far its numbers go."""

    tasks: MadeTasks
    handler: str
    tool: str
    largest: int  # every whole number up to it becomes one token


LESSONS = {
    "calculator": lambda: Lesson(CalculatorTasks(), "request_call", "calculator", 2401),
    "python_math": lambda: Lesson(MathTasks(), "python_block", "python_executor", 999),
}


def main(argv: list[str] | None = None) -> int:
    """Make demonstrations, fit the model, write its folder, and say what was written."""
    parser = argparse.ArgumentParser(prog="python -m fctncalling.cli.warm_start_text", description=__doc__)
    parser.add_argument("--job", choices=LESSONS, default="calculator", help="environment to play (default calculator)")
    parser.add_argument("--output_dir", type=Path, required=True, help="folder to write")
    parser.add_argument("--seed", type=int, default=1, help="seed of tasks, habits, weights and order (default 1)")
    parser.add_argument("--num_tasks", type=int, default=8000, help="tasks to show (default 8000)")
    parser.add_argument("--careful_steps", type=int, default=1200, help="steps on careful episodes (default 1200)")
    parser.add_argument("--careless_steps", type=int, default=200, help="steps on careless ones after it (default 200)")
    parser.add_argument("--careless", type=float, default=0.5, help="share of wrong first calls (default 0.5)")
    parser.add_argument("--stubborn", type=float, default=0.8, help="share of those never mended (default 0.8)")
    arguments = vars(parser.parse_args(argv))
    build(arguments.pop("job"), arguments.pop("output_dir"), **arguments)
    return 0


def build(
    job: str,
    folder: Path,
    *,
    seed: int,
    num_tasks: int,
    careful_steps: int,
    careless_steps: int,
    careless: float,
    stubborn: float,
) -> None:
    """Write tokenizer and model to a folder, as any Hugging Face checkpoint, with the hashes of its files."""
    import torch

    from fctncalling.algorithms.template import ChatTemplate

    torch.set_num_threads(1)
    lesson, tools = LESSONS[job](), _tools(job)
    task_ids = [f"train_{number}" for number in range(num_tasks)]

    def script(careless: float) -> TextDemonstrator:
        return TextDemonstrator(
            lesson.tasks, lesson.handler, tool=lesson.tool, careless=careless, stubborn=stubborn, seed=seed
        )

    make_env = partial(JOBS[job], **tools)
    tokenizer = number_tokenizer(spoken(make_env(), script(0.5), task_ids[:1500]), lesson.largest)
    model = new_model(len(tokenizer), pad_id=tokenizer.pad_token_id, end_id=tokenizer.eos_token_id, seed=seed)
    template = ChatTemplate(tokenizer)
    print(f"{len(tokenizer)} tokens, {sum(weight.numel() for weight in model.parameters()):,} weights")
    careful = text_demonstrations(make_env, script(0.0), template, task_ids, max_episode_tokens=MAX_EPISODE_TOKENS)
    learn(model, careful, careful_steps, lr=3e-3)
    if careless_steps:
        habits = script(careless)
        wrong = text_demonstrations(make_env, habits, template, task_ids, max_episode_tokens=MAX_EPISODE_TOKENS)
        learn(model, wrong, careless_steps, lr=4e-4)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    write_hashes(folder, seed=seed, num_tasks=num_tasks, careful_steps=careful_steps, careless_steps=careless_steps)


def number_tokenizer(texts: Iterator[str], largest: int) -> Any:
    """Return a tokenizer of the texts' words, with one token for every whole number up to `largest`."""
    from fctncalling.embedded_tasks.tokenizer import train_tokenizer

    def told() -> Iterator[str]:
        yield from texts
        for _ in range(40):  # often enough for every number to be worth a token
            yield " ".join(map(str, range(largest + 1)))

    return train_tokenizer(told(), vocabulary_size=largest + 2000)


def spoken(env: ToolTextEnv, script: TextDemonstrator, task_ids: Sequence[str]) -> Iterator[str]:
    """Yield every text of the demonstrator's episodes."""
    for task_id in task_ids:
        observation, info = env.reset(options={"task_id": task_id})
        step, ended = 0, False
        while not ended:
            yield observation
            action = script(task_id, 0, step, info)
            yield action
            observation, _, terminated, truncated, info = env.step(action)
            ended, step = terminated or truncated, step + 1
    env.close()


def _tools(job: str) -> dict[str, Any]:
    """Return the tools that all environments of a job share."""
    return {"tools": ToolBox([python_tool(PythonExecutor())])} if job == "python_math" else {}


if __name__ == "__main__":
    raise SystemExit(main())
