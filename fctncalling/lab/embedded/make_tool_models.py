"""Build a small model for a job with tools in mid-generation.

`python -m fctncalling.lab.embedded.make_tool_models --help`.

A tokenizer in which numbers below 100 are one token and larger ones two, and a small
Llama-configuration model fitted to episodes of a demonstrator: first a careful one, so that it
learns the syntax and to copy, then one that is careless and stubborn. What that one gets wrong,
reinforcement learning has to mend.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fctncalling.data.types import Call
from fctncalling.envs.handlers import TEXT_HANDLERS
from fctncalling.envs.tool_text.env import JOBS, ToolTextEnv
from fctncalling.envs.tool_text.math_tasks import CalculatorTasks, GeneratedTasks, MathTasks
from fctncalling.envs.tool_text.tasks import QuestionTask, TextTasks
from fctncalling.envs.tools.box.toolbox import ToolBox, python_tool
from fctncalling.envs.tools.python_executor import PythonExecutor
from fctncalling.evaluation.episode_log import play_episode
from fctncalling.lab.embedded.make_model import MODEL_SHAPE
from fctncalling.lab.embedded.model_maker import (
    NEW_TOKENIZER,
    ModelMaker,
    learn,
    loaded_tokenizer,
    make_model,
    play_demonstrations,
)

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

    from fctncalling.algorithms.episodes import EpisodeRecord
    from fctncalling.algorithms.policy.chat_template import ChatTemplate


NUM_ENVS = 16
_OPERATOR = re.compile(r" (\*\*|[-+*]) ")


class TextDemonstrator:
    """Demonstrator that calls one tool with a task's program, then repeats its result.

    `(task id, turn, step, info) -> text`.

    `careless`: the share of tasks in which the first call is wrong, where something is multiplied;
    half of it elsewhere. A quarter of those calls fails, the others have another operator.
    `stubborn`: the share of wrong or failed calls after which it answers all the same instead of
    calling again. A careful one (both 0) is always right.
    """

    def __init__(
        self,
        tasks: TextTasks,
        handler: str = "request_call",
        *,
        tool: str = "calculator",
        careless: float = 0.0,
        stubborn: float = 1.0,
        seed: int = 0,
    ) -> None:
        self._tasks = tasks
        self._syntax = TEXT_HANDLERS[handler]
        self._tool = tool
        self._careless = careless
        self._stubborn = stubborn
        self._seed = seed

    def __call__(self, task_id: str, turn: int, step: int, info: Mapping[str, Any]) -> str:
        """Return the text up to the next pause."""
        task = self._tasks.by_id(task_id)
        generator = np.random.default_rng([self._seed, zlib.crc32(task_id.encode())])
        careless, breaks, stubborn = generator.random(3)
        slips = careless < self._careless * (1.0 if "*" in task.extra["code"] else 0.5)
        if step == 0:
            return self._call(_spoilt(task, breaks < 0.25) if slips else task.extra["code"])
        if step == 1 and slips and stubborn >= self._stubborn:
            return self._call(task.extra["code"])
        result = str(info["messages"][-1]["content"]).strip().rpartition("\n")[2]
        return f"Result={result}{self._syntax.submit}"

    def _call(self, code: str) -> str:
        argument = {"calculator": "query", "python_executor": "code"}.get(self._tool, "query")
        text = code.removeprefix("print(").removesuffix(")") if self._tool == "calculator" else code
        name, argument = self._tool, "query" if self._syntax.name == "request_call" else argument
        return self._syntax.render([Call(name, {argument: text})])


def _spoilt(task: QuestionTask, fails: bool) -> str:
    """Return a wrong version of a task's program: first operator changed, or broken."""
    code = str(task.extra["code"])
    operator = _OPERATOR.search(code)
    if fails or operator is None:
        return code.replace("(", "((", 1) if operator is None or "print" in code else f"{code} +"
    replacement = {"+": "-", "-": "+", "*": "+", "**": "*"}[operator[1]]
    return f"{code[: operator.start()]} {replacement} {code[operator.end() :]}"


MAX_EPISODE_TOKENS = 512
# share of the careful demonstrator's first calls that are wrong, all of which it mends
MENDED = 0.3


class ToolModelPreset(NamedTuple):
    """Demonstrator settings and vocabulary size of a job."""

    tasks: GeneratedTasks
    wide: GeneratedTasks  # more of the kind than can be known by heart: results can only be copied
    handler: str
    tool: str
    # so few tokens that no number above 999 is one: rare ones would not be learned
    vocabulary_size: int


PRESETS = {
    "calculator": lambda: ToolModelPreset(
        CalculatorTasks(), CalculatorTasks(limit=400), "request_call", "calculator", 720
    ),
    "python_math": lambda: ToolModelPreset(
        MathTasks(), MathTasks(seed=1), "python_block", "python_executor", 900
    ),
}


def build(
    *,
    job: str,
    tokenizer: Path | None,
    seed: int,
    num_tasks: int,
    careful_steps: int,
    careless_steps: int,
    careless: float,
    stubborn: float,
) -> tuple[LlamaForCausalLM, Any]:
    """Build model and tokenizer."""
    school = DemonstrationGenerator(job, seed, num_tasks)
    lesson = school.lesson
    words = school.tokenizer() if tokenizer is None else loaded_tokenizer(tokenizer)
    model, template = make_model(words, seed=seed, shape=MODEL_SHAPE)
    careful = school.episodes(template, lesson.wide)
    careful += school.episodes(template, lesson.tasks, MENDED, share=0.5)
    learn(model, careful, careful_steps, lr=3e-3)
    if careless_steps:
        wrong = school.episodes(template, lesson.tasks, careless, stubborn, share=0.5)
        learn(model, wrong, careless_steps, lr=4e-4)
    return model, words


class DemonstrationGenerator:
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
        return train_number_tokenizer(texts, self.lesson.vocabulary_size)

    def episodes(
        self,
        template: ChatTemplate,
        tasks: GeneratedTasks,
        careless: float = 0.0,
        stubborn: float = 0.0,
        share: float = 1.0,
    ) -> list[EpisodeRecord]:
        """Play a demonstrator's episodes on a share of the tasks."""
        return play_demonstrations(
            lambda: self._env(tasks),
            self._script(tasks, careless, stubborn),
            template,
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


def train_number_tokenizer(texts: Iterator[str], vocabulary_size: int) -> Any:
    """Train a tokenizer with numbers up to 99 and pairs of digits."""
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
    """Demonstrator as a player that records every text a model would read or write."""

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


MAKER = ModelMaker(
    "fctncalling.lab.embedded.make_tool_models",
    __doc__,
    build,
    {
        "job": ("calculator", "environment to play, calculator or python_math"),
        "tokenizer": (None, NEW_TOKENIZER),
        "seed": (1, "seed of tasks, habits, weights and order"),
        "num_tasks": (8000, "tasks to show"),
        "careful_steps": (1200, "steps on careful episodes"),
        "careless_steps": (200, "steps on careless ones after it"),
        "careless": (0.5, "share of wrong first calls"),
        "stubborn": (0.8, "share of those never mended"),
    },
)

if __name__ == "__main__":
    raise SystemExit(MAKER.main())
