"""Build the embedded model.

`python -m fctncalling.lab.embedded.make_model` (or `make warm-start`) writes its folder again.

A small Llama-configuration model is fitted, by supervised learning, to episodes of a demonstrator
(`fctncalling/lab/embedded/demonstrator.py`): first a careful one, so that it learns to read and to
copy, then one with bad habits. What that teacher got wrong more often than right, reinforcement
learning has to mend.

Whether the function that a request needs is offered at all, so small a model learns only from short
tasks that ask hardly anything else; they are then made as long as the embedded ones (`OFFERS`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.lab.embedded.demonstrator import Demonstrator, demonstrations, training_tasks
from fctncalling.lab.embedded.make_tasks import SHARES
from fctncalling.lab.embedded.model_maker import (
    Lesson,
    ModelMaker,
    NewModel,
    demonstration_texts,
    run_maker,
)
from fctncalling.lab.embedded.multi_turn_tasks import EMBEDDED_LENGTH, TaskLength

if TYPE_CHECKING:
    from fctncalling.algorithms.policy.chat_template import ChatTemplate

MODEL_SHAPE: dict[str, Any] = {
    "hidden_size": 96,
    "intermediate_size": 208,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
}
VOCABULARY_SIZE = 1800  # enough for every word of the tasks to be one token


class OfferedFunctionsLesson(NamedTuple):
    """Tasks that teach which functions are offered, and how they are learned."""

    length: TaskLength
    shares: Mapping[str, int]
    num_steps: int
    batch_size: int
    lr: float
    biased: bool = False


_HALF = {"multi_turn_base": 50, "multi_turn_miss_func": 50}
_MIXED = {
    name: 30 if name == "multi_turn_miss_func" else round(share * 70 / 85)
    for name, share in SHARES.items()
}
OFFERS = (
    OfferedFunctionsLesson(
        TaskLength((1, 2), (1,), one_request=True), _HALF, num_steps=400, batch_size=24, lr=2e-3
    ),
    OfferedFunctionsLesson(
        TaskLength((2, 5), (1, 2)), _HALF, num_steps=350, batch_size=20, lr=2e-3
    ),
    OfferedFunctionsLesson(
        EMBEDDED_LENGTH, _MIXED, num_steps=343, batch_size=20, lr=1e-3, biased=True
    ),
)
OFFERS_SEED = 7  # of the tasks of these lessons and of the demonstrator's habits


def lessons(template: ChatTemplate, num_tasks: int, seed: int) -> Iterator[Lesson]:
    """Yield careful and biased episodes, then those on offered functions, biased at the end."""
    tasks = training_tasks(num_tasks, seed=seed)
    careful = demonstrations(tasks, Demonstrator(tasks, seed=seed, biased=False), template)
    yield Lesson(careful, 5000, lr=3e-3)
    # Binding one word to each slot forms late.
    yield Lesson(careful, 2500, lr=1e-3, order_seed=1)
    yield Lesson(demonstrations(tasks, Demonstrator(tasks, seed=seed), template), 900, lr=4e-4)
    for offer in OFFERS:
        count = offer.num_steps * offer.batch_size * 100 // sum(offer.shares.values())
        tasks = training_tasks(count, seed=OFFERS_SEED, shares=offer.shares, length=offer.length)
        demonstrator = Demonstrator(tasks, seed=OFFERS_SEED, biased=offer.biased)
        records = demonstrations(tasks, demonstrator, template)
        yield Lesson(records, offer.num_steps, offer.lr, batch_size=offer.batch_size)


def tokenizer_texts(num_tasks: int, seed: int) -> Iterator[str]:
    """Yield the texts of evenly spaced episodes, at most 12,000."""
    tasks = training_tasks(num_tasks, seed=seed)
    careful = Demonstrator(tasks, seed=seed, biased=False)
    ids = [task.id for task in tasks[:: max(1, len(tasks) // 6000)]]
    return demonstration_texts(FunctionCallingEnv(tasks=tasks), careful, ids)


START = NewModel(MODEL_SHAPE, VOCABULARY_SIZE, tokenizer_texts)

if __name__ == "__main__":
    makers = {"model": ModelMaker(START, lessons, num_tasks=24000)}
    raise SystemExit(run_maker("make_model", __doc__, makers))
