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

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fctncalling.data.types import Task
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.lab.embedded.demonstrator import Demonstrator, demonstrations, training_tasks
from fctncalling.lab.embedded.make_tasks import EMBEDDED, SHARES
from fctncalling.lab.embedded.model_maker import (
    NEW_TOKENIZER,
    ModelMaker,
    demonstration_texts,
    learn,
    loaded_tokenizer,
    make_model,
)
from fctncalling.lab.embedded.multi_turn_tasks import EMBEDDED_LENGTH, TaskLength

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

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


def build(
    *, tokenizer: Path | None, seed: int, num_tasks: int, careful_steps: int, careless_steps: int
) -> tuple[LlamaForCausalLM, Any]:
    """Build model and tokenizer."""
    tasks = training_tasks(num_tasks, seed=seed)
    words = new_tokenizer(tasks, seed) if tokenizer is None else loaded_tokenizer(tokenizer)
    model, template = make_model(words, seed=seed, shape=MODEL_SHAPE)
    careful = demonstrations(tasks, Demonstrator(tasks, seed=seed, biased=False), template)
    learn(model, careful, careful_steps, lr=3e-3)
    # Binding one word to each slot forms late.
    learn(model, careful, careful_steps // 2, lr=1e-3, order_seed=1)
    biased = demonstrations(tasks, Demonstrator(tasks, seed=seed), template)
    learn(model, biased, careless_steps, lr=4e-4)
    learn_offered_functions(model, template)
    return model, words


def learn_offered_functions(model: LlamaForCausalLM, template: ChatTemplate) -> None:
    """Teach which functions are offered; the bad habits come last again."""
    for lesson in OFFERS:
        count = lesson.num_steps * lesson.batch_size * 100 // sum(lesson.shares.values())
        tasks = training_tasks(count, seed=OFFERS_SEED, shares=lesson.shares, length=lesson.length)
        demonstrator = Demonstrator(tasks, seed=OFFERS_SEED, biased=lesson.biased)
        records = demonstrations(tasks, demonstrator, template)
        learn(model, records, lesson.num_steps, lr=lesson.lr, batch_size=lesson.batch_size)


def new_tokenizer(tasks: list[Task], seed: int) -> Any:
    """Train a tokenizer on the texts of evenly spaced episodes, at most 12,000."""
    from fctncalling.lab.embedded.tokenizer import train_tokenizer

    careful = Demonstrator(tasks, seed=seed, biased=False)
    ids = [task.id for task in tasks[:: max(1, len(tasks) // 6000)]]
    texts = demonstration_texts(FunctionCallingEnv(tasks=tasks), careful, ids)
    return train_tokenizer(texts, vocabulary_size=VOCABULARY_SIZE)


MAKER = ModelMaker(
    "fctncalling.lab.embedded.make_model",
    __doc__,
    build,
    {
        "tokenizer": (None, NEW_TOKENIZER),
        "seed": (1, "seed of tasks, habits, weights and order"),
        "num_tasks": (24000, "tasks to show"),
        "careful_steps": (
            5000,
            "steps on careful demonstrations, and half as many again at a third of the rate",
        ),
        "careless_steps": (900, "steps on biased ones after that"),
    },
    EMBEDDED / "model",
)

if __name__ == "__main__":
    raise SystemExit(MAKER.main())
