"""Build a small model for a job with tools in mid-generation.

`python -m fctncalling.lab.embedded.make_tool_models --help`.

A tokenizer in which numbers below 100 are one token and larger ones two, and a small
Llama-configuration model fitted to episodes of a demonstrator: first a careful one, so that it
learns the syntax and to copy, then one that is careless and stubborn. What that one gets wrong,
reinforcement learning has to mend.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

# Before torch: spinning threads cost more than they bring.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from fctncalling.envs.tool_text.env import ToolTextEnv
from fctncalling.envs.tool_text.math_tasks import CalculatorTasks, GeneratedTasks, MathTasks
from fctncalling.envs.tool_text.presets import JOBS
from fctncalling.envs.tools.box.toolbox import ToolBox, python_tool
from fctncalling.envs.tools.python_executor import PythonExecutor
from fctncalling.evaluation.episode_log import play_episode
from fctncalling.lab.embedded.make_model import learn, loaded_tokenizer, new_model, write_hashes
from fctncalling.lab.embedded.tool_demonstrator import TextDemonstrator, text_demonstrations

if TYPE_CHECKING:
    from fctncalling.algorithms.episodes import EpisodeRecord

MAX_EPISODE_TOKENS = 512
MENDED = (
    0.3  # share of the careful demonstrator's first calls that are wrong, all of which it mends
)


class Preset(NamedTuple):
    """Demonstrator settings and vocabulary size of a job."""

    tasks: GeneratedTasks
    wide: GeneratedTasks  # more of the kind than can be known by heart: results can only be copied
    handler: str
    tool: str
    vocabulary_size: (
        int  # so few tokens that no number above 999 is one: rare ones would not be learned
    )


PRESETS = {
    "calculator": lambda: Preset(
        CalculatorTasks(), CalculatorTasks(limit=400), "request_call", "calculator", 720
    ),
    "python_math": lambda: Preset(
        MathTasks(), MathTasks(seed=1), "python_block", "python_executor", 900
    ),
}


def main(argv: list[str] | None = None) -> int:
    """Make demonstrations, fit the model, write its folder and print a summary."""
    parser = argparse.ArgumentParser(
        prog="python -m fctncalling.lab.embedded.make_tool_models", description=__doc__
    )
    parser.add_argument(
        "--job",
        choices=PRESETS,
        default="calculator",
        help="environment to play (default calculator)",
    )
    parser.add_argument("--output_dir", type=Path, required=True, help="folder to write")
    parser.add_argument(
        "--tokenizer",
        type=Path,
        help="folder whose tokenizer to take (default: a new one, whose numbering chance decides)",
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="seed of tasks, habits, weights and order (default 1)"
    )
    parser.add_argument("--num_tasks", type=int, default=8000, help="tasks to show (default 8000)")
    parser.add_argument(
        "--careful_steps", type=int, default=1200, help="steps on careful episodes (default 1200)"
    )
    parser.add_argument(
        "--careless_steps",
        type=int,
        default=200,
        help="steps on careless ones after it (default 200)",
    )
    parser.add_argument(
        "--careless", type=float, default=0.5, help="share of wrong first calls (default 0.5)"
    )
    parser.add_argument(
        "--stubborn", type=float, default=0.8, help="share of those never mended (default 0.8)"
    )
    arguments = vars(parser.parse_args(argv))
    build(arguments.pop("job"), arguments.pop("output_dir"), **arguments)
    return 0


def build(
    job: str,
    folder: Path,
    *,
    tokenizer: Path | None = None,
    seed: int,
    num_tasks: int,
    careful_steps: int,
    careless_steps: int,
    careless: float,
    stubborn: float,
) -> None:
    """Write tokenizer and model to a Hugging Face folder, with the hashes of its files."""
    import torch

    torch.set_num_threads(1)
    school = Demonstrations(job, seed, num_tasks)
    lesson = school.lesson
    words = school.tokenizer() if tokenizer is None else loaded_tokenizer(tokenizer)
    model = new_model(len(words), pad_id=words.pad_token_id, end_id=words.eos_token_id, seed=seed)
    print(f"{len(words)} tokens, {sum(weight.numel() for weight in model.parameters()):,} weights")
    careful = school.episodes(words, lesson.wide)
    careful += school.episodes(words, lesson.tasks, MENDED, share=0.5)
    learn(model, careful, careful_steps, lr=3e-3)
    if careless_steps:
        wrong = school.episodes(words, lesson.tasks, careless, stubborn, share=0.5)
        learn(model, wrong, careless_steps, lr=4e-4)
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    recipe: dict[str, object] = {
        "job": job,
        "tokenizer": tokenizer or folder,
        "seed": seed,
        "num_tasks": num_tasks,
    }
    recipe |= {"careful_steps": careful_steps, "careless_steps": careless_steps}
    recipe |= {"careless": careless, "stubborn": stubborn}
    write_hashes(folder, "fctncalling.lab.embedded.make_tool_models", **recipe)


class Demonstrations:
    """Demonstration generator of a preset."""

    def __init__(self, job: str, seed: int, num_tasks: int) -> None:
        self.lesson = PRESETS[job]()
        self._job = job
        self._seed = seed
        self._num_tasks = num_tasks
        self._tools = _tools(job)

    def tokenizer(self) -> Any:
        """Train a tokenizer on the texts of sampled episodes."""
        script = self._script(self.lesson.tasks, 0.5, 0.8)
        texts = episode_text(self._env(self.lesson.tasks), script, self._task_ids(400))
        return number_tokenizer(texts, self.lesson.vocabulary_size)

    def episodes(
        self,
        tokenizer: Any,
        tasks: GeneratedTasks,
        careless: float = 0.0,
        stubborn: float = 0.0,
        share: float = 1.0,
    ) -> list[EpisodeRecord]:
        """Return a demonstrator's episodes of a share of the tasks."""
        from fctncalling.algorithms.policy.chat_template import ChatTemplate

        return text_demonstrations(
            lambda: self._env(tasks),
            self._script(tasks, careless, stubborn),
            ChatTemplate(tokenizer),
            self._task_ids(round(share * self._num_tasks)),
            max_episode_tokens=MAX_EPISODE_TOKENS,
        )

    def _env(self, tasks: GeneratedTasks) -> ToolTextEnv:
        return JOBS[self._job](tasks=tasks, **self._tools)

    def _script(self, tasks: GeneratedTasks, careless: float, stubborn: float) -> TextDemonstrator:
        lesson, habits = self.lesson, {"careless": careless, "stubborn": stubborn}
        return TextDemonstrator(tasks, lesson.handler, tool=lesson.tool, seed=self._seed, **habits)

    def _task_ids(self, count: int) -> list[str]:
        return [f"train_{number}" for number in range(min(count, self._num_tasks))]


def number_tokenizer(texts: Iterator[str], vocabulary_size: int) -> Any:
    """Return a tokenizer of the texts' words, with numbers up to 99 and pairs of digits."""
    from fctncalling.lab.embedded.tokenizer import train_tokenizer

    def training_texts() -> Iterator[str]:
        yield from texts
        for _ in range(40):  # often enough for all of them to be worth a token
            yield " ".join(map(str, (*range(100), *range(100, 1000))))

    return train_tokenizer(training_texts(), vocabulary_size=vocabulary_size)


def episode_text(
    env: ToolTextEnv, script: TextDemonstrator, task_ids: Sequence[str]
) -> Iterator[str]:
    """Yield every text of the demonstrator's episodes."""
    for task_id in task_ids:
        player = _TextRecordingPlayer(task_id, script)
        play_episode(env, task_id, player)
        yield from player.texts
    env.close()


class _TextRecordingPlayer:
    """A demonstrator as the player of one episode; keeps every text a model would read or write."""

    def __init__(self, task_id: str, script: TextDemonstrator) -> None:
        self.texts: list[str] = []
        self._task_id = task_id
        self._script = script

    def answer(self, observation: str, info: Mapping[str, Any]) -> str:
        """Return the demonstrator's action."""
        action = self._script(self._task_id, 0, len(self.texts) // 2, info)
        self.texts += [observation, action]
        return action


def _tools(job: str) -> dict[str, Any]:
    """Return the tools that all environments of a job share."""
    return {"tools": ToolBox([python_tool(PythonExecutor())])} if job == "python_math" else {}


if __name__ == "__main__":
    raise SystemExit(main())
