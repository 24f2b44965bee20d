"""Tasks of ToolTextEnv: questions with one answer, read from files or generated.

Generated are arithmetic, and problems with integer answers as in AIME. A task's id is its seed:
"train_17" and "held_out_3" are the same questions everywhere, there are as many as are asked for,
and none of one split is in the other.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from fctncalling.data.errors import Location, TaskError
from fctncalling.data.json_stream import read_entries
from fctncalling.envs.task_set import UnknownTask
from fctncalling.envs.tools.box.calculator import calculate

PROMPTS = ("prompt", "question", "problem", "Question", "Problem")
ANSWERS = ("answer", "Answer")
IDS = ("id", "ID", "problem_idx")


@dataclass(frozen=True)
class QuestionTask:
    """Question and the text of its answer.

    `extra` holds the entry's other fields, for custom rewards.
    """

    id: str
    prompt: str
    answer: str = ""
    category: str = "tool_text"
    extra: Mapping[str, Any] = field(default_factory=dict)


class TextTasks(Protocol):
    """Interface of tasks of text environments: a list, or an unlimited generator."""

    def by_id(self, task_id: str) -> QuestionTask:
        """Return a task by its id; raises UnknownTask."""
        ...

    def sample(self, generator: np.random.Generator) -> QuestionTask:
        """Sample a task at random."""
        ...


def load_text_tasks(path: str | Path, *, category: str = "tool_text") -> list[QuestionTask]:
    """Load questions from a JSON array or JSON Lines; TaskError naming file, line, field.

    A question stands under "prompt", "question" or "problem", its answer (text or a number) under
    "answer", as in the published sets of AIME problems; an id under "id", else the line's number is
    one.
    """
    path, tasks = Path(path), list[QuestionTask]()
    for line, entry in read_entries(path):
        place = Location(path, line)
        if not isinstance(entry, dict):
            raise place.error(
                f"expected an object with a question and its answer, got {type(entry).__name__}"
            )
        prompt, answer = _field(entry, PROMPTS, place), _field(entry, ANSWERS, place)
        task_id = next((str(entry[key]) for key in IDS if key in entry), f"line_{line}")
        rest = {key: value for key, value in entry.items() if key not in (*PROMPTS, *ANSWERS, *IDS)}
        tasks.append(
            QuestionTask(task_id, prompt, answer, str(entry.get("category", category)), rest)
        )
    if not tasks:
        raise TaskError(f"{path}: no task in it")
    return tasks


def _field(entry: Mapping[str, Any], names: Sequence[str], place: Location) -> str:
    name = next((name for name in names if name in entry), None)
    if name is None:
        raise place.error(
            f'no "{names[0]}": expected one of {", ".join(names)} among '
            f"{', '.join(map(str, entry))}"
        )
    value = entry[name]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise place.error(f'"{name}" is {value!r:.60}; expected a text or a number')
    return str(value)


MAX_ANSWER = 999  # AIME's answers are whole numbers from 0 to 999
_ID = re.compile(r"(train|held_out)_(\d+)")
_HELD_OUT_SHARE = 10  # one question in so many is held out
_MAX_TRIES = 10_000
_DRAWN = 1 << 31


class Problem(NamedTuple):
    """Mathematical problem: a question, its answer, and a program that prints the answer."""

    question: str
    answer: str
    code: str


Maker = Callable[[np.random.Generator], Problem]


class GeneratedTasks:
    """Unlimited tasks made by problem generators; `seed` changes them all."""

    def __init__(self, makers: dict[str, Maker], *, seed: int = 0) -> None:
        if not makers:
            raise ValueError("no maker of problems is given: expected at least one kind.")
        self._makers = makers
        self._seed = seed

    def by_id(self, task_id: str) -> QuestionTask:
        """Return a task by its id, train_N or held_out_N; raises UnknownTask for any other."""
        match = _ID.fullmatch(task_id)
        if match is None:
            raise UnknownTask(
                f'no task has the id {task_id!r}: made tasks are called "train_0", "held_out_0", '
                "..."
            )
        held_out = match[1] == "held_out"
        generator = np.random.default_rng([self._seed, held_out, int(match[2])])
        kinds = list(self._makers)
        kind = kinds[int(generator.integers(len(kinds)))]
        for _ in range(_MAX_TRIES):
            problem = self._makers[kind](generator)
            if (zlib.crc32(problem.question.encode()) % _HELD_OUT_SHARE == 0) == held_out:
                return QuestionTask(
                    task_id, problem.question, problem.answer, kind, {"code": problem.code}
                )
        raise ValueError(
            f"{kind}: no question is {'held out' if held_out else 'left to train on'}: widen its "
            "range."
        )

    def sample(self, generator: np.random.Generator) -> QuestionTask:
        """Sample a training task at random."""
        return self.by_id(f"train_{int(generator.integers(_DRAWN))}")


class CalculatorTasks(GeneratedTasks):
    """Generated tasks of the calculator environment.

    Two whole numbers below `limit`, joined by one of `operators`.
    """

    def __init__(self, *, seed: int = 0, limit: int = 50, operators: str = "+-*") -> None:
        if limit < 4 or not operators or not set(operators) <= set("+-*/"):
            raise ValueError(
                f"limit={limit!r}, operators={operators!r}: expected at least 4, and some of + - * "
                "/."
            )
        super().__init__({"calculator": SumOfTwo(limit, operators)}, seed=seed)


@dataclass(frozen=True)
class SumOfTwo:
    """Generator of sums of two numbers, for the calculator."""

    limit: int
    operators: str

    def __call__(self, generator: np.random.Generator) -> Problem:
        """Draw two whole numbers below the limit, and an operator."""
        left, right = (int(number) for number in generator.integers(self.limit, size=2))
        operator = self.operators[int(generator.integers(len(self.operators)))]
        right = max(1, right) if operator == "/" else right
        expression = f"{left} {operator} {right}"
        return Problem(f"What is {expression}?", calculate(expression), f"print({expression})")


class MathTasks(GeneratedTasks):
    """Generated arithmetic and word problems with answers from 0 to 999.

    kinds: some of MAKERS.
    """

    def __init__(self, *, seed: int = 0, kinds: tuple[str, ...] = ()) -> None:
        if unknown := set(kinds) - set(MAKERS):
            raise ValueError(
                f"kinds: {', '.join(sorted(unknown))} unknown: there are {', '.join(MAKERS)}."
            )
        super().__init__({kind: MAKERS[kind] for kind in kinds or MAKERS}, seed=seed)


def _numbers(generator: np.random.Generator, *ranges: tuple[int, int]) -> list[int]:
    """Draw a number from each range, both ends included."""
    return [int(generator.integers(low, high + 1)) for low, high in ranges]


def _remainder(generator: np.random.Generator) -> Problem:
    base, power, modulus = _numbers(generator, (2, 30), (2, 30), (3, 99))
    code = f"print({base} ** {power} % {modulus})"
    return Problem(
        f"What is the remainder when {base} ** {power} is divided by {modulus}?",
        str(pow(base, power, modulus)),
        code,
    )


def _multiples(generator: np.random.Generator) -> Problem:
    end, one, other = _numbers(generator, (20, 99), (2, 9), (2, 9))
    answer = sum(number % one == 0 or number % other == 0 for number in range(1, end + 1))
    code = f"print(sum(n % {one} == 0 or n % {other} == 0 for n in range(1, {end} + 1)))"
    return Problem(
        f"How many numbers from 1 to {end} are multiples of {one} or of {other}?", str(answer), code
    )


def _digits(generator: np.random.Generator) -> Problem:
    base, power = _numbers(generator, (2, 30), (2, 30))
    code = f"print(sum(map(int, str({base} ** {power}))))"
    return Problem(
        f"What is the sum of the digits of {base} ** {power}?",
        str(sum(map(int, str(base**power)))),
        code,
    )


def _divisor(generator: np.random.Generator) -> Problem:
    left, right, factor = _numbers(generator, (2, 12), (2, 12), (2, 8))
    code = f"import math\nprint(math.gcd({left * factor}, {right * factor}))"
    question = f"What is the greatest common divisor of {left * factor} and {right * factor}?"
    return Problem(question, str(math.gcd(left * factor, right * factor)), code)


def _choices(generator: np.random.Generator) -> Problem:
    chosen, total = _numbers(generator, (2, 3), (5, 18))
    code = f"import math\nprint(math.comb({total}, {chosen}))"
    question = f"In how many ways can {chosen} of {total} books be chosen?"
    return Problem(question, str(math.comb(total, chosen)), code)


def _boxes(generator: np.random.Generator) -> Problem:
    boxes, pencils, num_given = _numbers(generator, (2, 30), (5, 30), (1, 9))
    code = f"print({boxes} * {pencils} - {num_given})"
    question = (
        f"There are {boxes} boxes of {pencils} pencils, and {num_given} pencils are given away. "
        "How many are left?"
    )
    return Problem(question, str(boxes * pencils - num_given), code)


def _journey(generator: np.random.Generator) -> Problem:
    speed, hours, more = _numbers(generator, (20, 90), (2, 9), (1, 99))
    code = f"print({speed} * {hours} + {more})"
    question = (
        f"A train runs {hours} hours at {speed} km an hour, then {more} km more. How many "
        "km is that in all?"
    )
    return Problem(question, str(speed * hours + more), code)


def _savings(generator: np.random.Generator) -> Problem:
    daily, days, spent = _numbers(generator, (3, 30), (5, 30), (1, 15))
    code = f"print({daily} * {days} - {spent})"
    return Problem(
        f"Saving {daily} coins a day for {days} days and spending {spent}, how many coins are "
        "left?",
        str(daily * days - spent),
        code,
    )


MAKERS: dict[str, Maker] = {
    "remainder": _remainder,
    "multiples": _multiples,
    "digits": _digits,
    "divisor": _divisor,
    "choices": _choices,
    "boxes": _boxes,
    "journey": _journey,
    "savings": _savings,
}
"""Kind of problem -> its maker."""
