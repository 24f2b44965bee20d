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
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fctncalling.data.types import Call
from fctncalling.envs.handlers import TEXT_HANDLERS
from fctncalling.envs.tool_text.env import JOBS, ToolTextEnv
from fctncalling.envs.tool_text.tasks import (
    CalculatorTasks,
    GeneratedTasks,
    MathTasks,
    QuestionTask,
)
from fctncalling.envs.tools.box.toolbox import ToolBox, python_tool
from fctncalling.envs.tools.python_executor import PythonExecutor
from fctncalling.lab.embedded.make_model import MODEL_SHAPE
from fctncalling.lab.embedded.model_maker import (
    Lesson,
    ModelMaker,
    NewModel,
    demonstration_texts,
    play_demonstrations,
    run_maker,
)

if TYPE_CHECKING:
    from fctncalling.algorithms.episodes import EpisodeRecord
    from fctncalling.algorithms.policy.chat_template import ChatTemplate


_OPERATOR = re.compile(r" (\*\*|[-+*]) ")
MAX_EPISODE_TOKENS = 512
MENDED = (
    0.3  # share of the careful demonstrator's first calls that are wrong, all of which it mends
)
CARELESS, STUBBORN = 0.8, 0.8  # of the careless demonstrator


class ToolJob(NamedTuple):
    """Tasks of a job, and how its tool is called."""

    tasks: GeneratedTasks
    wide: GeneratedTasks  # more of the kind than can be known by heart: results can only be copied
    handler: str
    tool: str
    argument: str
    env: Callable[..., ToolTextEnv]


def calculator() -> ToolJob:
    """Return the job of sums."""
    tasks, wide = CalculatorTasks(), CalculatorTasks(limit=400)
    return ToolJob(tasks, wide, "request_call", "calculator", "query", JOBS["calculator"])


def python_math() -> ToolJob:
    """Return the job of word problems, with one executor for all of its environments."""
    env = partial(JOBS["python_math"], tools=ToolBox([python_tool(PythonExecutor())]))
    return ToolJob(MathTasks(), MathTasks(seed=1), "python_block", "python_executor", "code", env)


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
        job: ToolJob,
        tasks: GeneratedTasks,
        *,
        careless: float = 0.0,
        stubborn: float = 0.0,
        seed: int = 0,
    ) -> None:
        self._job = job
        self._tasks = tasks
        self._syntax = TEXT_HANDLERS[job.handler]
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
        if self._job.tool == "calculator":
            code = code.removeprefix("print(").removesuffix(")")
        return self._syntax.render([Call(self._job.tool, {self._job.argument: code})])


def _spoilt(task: QuestionTask, fails: bool) -> str:
    """Return a wrong version of a task's program: first operator changed, or broken."""
    code = str(task.extra["code"])
    operator = _OPERATOR.search(code)
    if fails or operator is None:
        return code.replace("(", "((", 1) if operator is None or "print" in code else f"{code} +"
    replacement = {"+": "-", "-": "+", "*": "+", "**": "*"}[operator[1]]
    return f"{code[: operator.start()]} {replacement} {code[operator.end() :]}"


def lessons(
    make_job: Callable[[], ToolJob], template: ChatTemplate, num_tasks: int, seed: int
) -> Iterator[Lesson]:
    """Yield careful episodes, some of them with a mended mistake, then careless ones."""
    job = make_job()

    def played(tasks: GeneratedTasks, share: float, **habits: float) -> list[EpisodeRecord]:
        script = TextDemonstrator(job, tasks, seed=seed, **habits)
        ids, limit = _task_ids(round(share * num_tasks)), MAX_EPISODE_TOKENS
        env = partial(job.env, tasks=tasks)
        return play_demonstrations(env, script, template, ids, max_episode_tokens=limit)

    careful = played(job.wide, 1.0) + played(job.tasks, 0.5, careless=MENDED)
    yield Lesson(careful, 1500, lr=3e-3)
    wrong = played(job.tasks, 0.5, careless=CARELESS, stubborn=STUBBORN)
    yield Lesson(wrong, 300, lr=4e-4)


def tokenizer_texts(make_job: Callable[[], ToolJob], num_tasks: int, seed: int) -> Iterator[str]:
    """Yield the texts of some episodes, then numbers up to 99 and pairs of digits."""
    job = make_job()
    script = TextDemonstrator(job, job.tasks, careless=0.5, stubborn=0.8, seed=seed)
    yield from demonstration_texts(job.env(tasks=job.tasks), script, _task_ids(min(400, num_tasks)))
    for _ in range(40):  # often enough for all of them to be worth a token
        yield " ".join(map(str, (*range(100), *range(100, 1000))))


def _task_ids(count: int) -> list[str]:
    return [f"train_{number}" for number in range(count)]


def maker(make_job: Callable[[], ToolJob], vocabulary_size: int, num_tasks: int) -> ModelMaker:
    """Return the recipe of a job's model.

    vocabulary_size: so small that no number above 999 is one token: rare ones would not be learned.
    """
    start = NewModel(MODEL_SHAPE, vocabulary_size, partial(tokenizer_texts, make_job))
    return ModelMaker(start, partial(lessons, make_job), num_tasks)


if __name__ == "__main__":
    makers = {
        "calculator": maker(calculator, vocabulary_size=720, num_tasks=8000),
        "python_math": maker(python_math, vocabulary_size=900, num_tasks=3600),
    }
    raise SystemExit(run_maker("make_tool_models", __doc__, makers))
