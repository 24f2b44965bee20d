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

import argparse
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

# Before torch: spinning threads cost more than they bring.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from fctncalling.data.types import Task
from fctncalling.lab.embedded.demonstrator import (
    MAX_POSITIONS,
    Demonstrator,
    demonstrations,
    episode_texts,
    training_tasks,
)
from fctncalling.lab.embedded.make_tasks import EMBEDDED, SHARES
from fctncalling.lab.embedded.multi_turn_tasks import EMBEDDED_LENGTH, Length

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

    from fctncalling.algorithms.episodes import EpisodeRecord
    from fctncalling.algorithms.policy.chat_template import ChatTemplate

MODEL_SHAPE: dict[str, Any] = {
    "hidden_size": 96,
    "intermediate_size": 208,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
}
VOCABULARY_SIZE = 1800  # enough for every word of the tasks to be one token


class Lesson(NamedTuple):
    """Tasks that teach to see which functions are offered, and how they are learned."""

    length: Length
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
    Lesson(Length((1, 2), (1,), one_request=True), _HALF, num_steps=400, batch_size=24, lr=2e-3),
    Lesson(Length((2, 5), (1, 2)), _HALF, num_steps=350, batch_size=20, lr=2e-3),
    Lesson(EMBEDDED_LENGTH, _MIXED, num_steps=343, batch_size=20, lr=1e-3, biased=True),
)
OFFERS_SEED = 7  # of the tasks of these lessons and of the demonstrator's habits
BATCH_SIZE = 20  # episodes, about 2,000 tokens: small models want many steps, not large ones


def new_model(
    vocabulary_size: int,
    *,
    pad_id: int,
    end_id: int,
    seed: int,
    shape: Mapping[str, Any] = MODEL_SHAPE,
) -> LlamaForCausalLM:
    """Return a randomly initialised model, by default of the embedded shape."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary_size,
        **shape,
        max_position_embeddings=MAX_POSITIONS,
        tie_word_embeddings=True,
        pad_token_id=pad_id,
        bos_token_id=None,
        eos_token_id=end_id,
    )
    return LlamaForCausalLM(config)


def main(argv: list[str] | None = None) -> int:
    """Make demonstrations, fit the model, write its folder and print a summary."""
    parser = argparse.ArgumentParser(
        prog="python -m fctncalling.lab.embedded.make_model", description=__doc__
    )
    parser.add_argument(
        "--output_dir",
        type=Path,
        default=EMBEDDED / "model",
        help="folder to write (default: the committed one)",
    )
    parser.add_argument(
        "--tokenizer",
        type=Path,
        help="folder whose tokenizer to take (default: a new one, whose numbering chance decides)",
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="seed of tasks, habits, weights and order (default 1)"
    )
    parser.add_argument(
        "--num_tasks", type=int, default=24000, help="tasks to show (default 24000)"
    )
    parser.add_argument(
        "--careful_steps",
        type=int,
        default=5000,
        help="steps on careful demonstrations, and half as many again at a third of the rate "
        "(default 5000)",
    )
    parser.add_argument(
        "--careless_steps",
        type=int,
        default=900,
        help="steps on biased ones after that (default 900)",
    )
    recipe = vars(parser.parse_args(argv))
    build(recipe.pop("output_dir"), **recipe)
    return 0


def build(
    folder: Path,
    *,
    tokenizer: Path | None = None,
    seed: int,
    num_tasks: int,
    careful_steps: int,
    careless_steps: int,
) -> None:
    """Build tokenizer and model and write them to a Hugging Face folder, with their hashes."""
    import torch

    from fctncalling.algorithms.policy.chat_template import ChatTemplate

    torch.set_num_threads(1)  # the same weights wherever it runs on the same processor
    tasks = training_tasks(num_tasks, seed=seed)
    words = new_tokenizer(tasks, seed) if tokenizer is None else loaded_tokenizer(tokenizer)
    template = ChatTemplate(words)
    print(f"{len(tasks)} tasks, {len(words)} words and pieces of words")
    model = new_model(len(words), pad_id=words.pad_token_id, end_id=words.eos_token_id, seed=seed)
    careful = demonstrations(tasks, Demonstrator(tasks, seed=seed, biased=False), template)
    learn(model, careful, careful_steps, lr=3e-3)
    # Binding one word to each slot forms late.
    learn(model, careful, careful_steps // 2, lr=1e-3, order_seed=1)
    biased = demonstrations(tasks, Demonstrator(tasks, seed=seed), template)
    learn(model, biased, careless_steps, lr=4e-4)
    learn_offers(model, template)
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    recipe: dict[str, object] = {
        "tokenizer": tokenizer or folder,
        "seed": seed,
        "num_tasks": num_tasks,
    }
    recipe |= {"careful_steps": careful_steps, "careless_steps": careless_steps}
    write_hashes(folder, "fctncalling.lab.embedded.make_model", **recipe)


def learn_offers(model: LlamaForCausalLM, template: ChatTemplate) -> None:
    """Teach to see which functions are offered, last with the bad habits again."""
    for lesson in OFFERS:
        count = lesson.num_steps * lesson.batch_size * 100 // sum(lesson.shares.values())
        tasks = training_tasks(count, seed=OFFERS_SEED, shares=lesson.shares, length=lesson.length)
        demonstrator = Demonstrator(tasks, seed=OFFERS_SEED, biased=lesson.biased)
        records = demonstrations(tasks, demonstrator, template)
        learn(model, records, lesson.num_steps, lr=lesson.lr, batch_size=lesson.batch_size)


def new_tokenizer(tasks: list[Task], seed: int) -> Any:
    """Return a tokenizer trained on the texts of evenly spaced episodes, at most 12,000."""
    from fctncalling.lab.embedded.tokenizer import train_tokenizer

    texts = episode_texts(
        tasks[:: max(1, len(tasks) // 6000)], Demonstrator(tasks, seed=seed, biased=False)
    )
    return train_tokenizer(texts, vocabulary_size=VOCABULARY_SIZE)


def loaded_tokenizer(folder: Path) -> Any:
    """Return the tokenizer of a folder."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast.from_pretrained(str(folder))
    for name in ("is_local", "local_files_only"):  # how it was loaded, which would be saved with it
        tokenizer.init_kwargs.pop(name, None)
    return tokenizer


def learn(
    model: LlamaForCausalLM,
    records: Sequence[EpisodeRecord],
    num_steps: int,
    *,
    lr: float,
    order_seed: int = 0,
    batch_size: int = BATCH_SIZE,
) -> None:
    """Fit the model to demonstrations for a number of steps, with a progress bar."""
    from tqdm import tqdm

    from fctncalling.algorithms.supervised import WarmStartConfig, fit

    right = sum(record.success for record in records) / len(records)
    epochs = -(-num_steps * batch_size // len(records))
    config = WarmStartConfig(
        epochs=epochs, max_steps=num_steps, batch_size=batch_size, lr=lr, seed=order_seed
    )
    with tqdm(total=num_steps, desc=f"demonstrations, {right:.0%} right", unit="step") as bar:
        fit(model, records, config, on_step=lambda metrics: _show(bar, metrics))


def _show(bar: Any, metrics: dict[str, float]) -> None:
    bar.update()
    if bar.n % 50 == 0:
        bar.set_postfix(loss=f"{metrics['loss']:.3f}", accuracy=f"{metrics['accuracy']:.3f}")


def write_hashes(folder: Path, module: str, **recipe: object) -> None:
    """Write `SHA256.json`.

    The command of a module with its settings, and the hash of every file it wrote.
    """
    hashes = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
        if path.name != "SHA256.json"
    }
    size = sum(path.stat().st_size for path in folder.iterdir() if path.name != "SHA256.json")
    command = f"python -m {module} " + " ".join(f"--{key} {value}" for key, value in recipe.items())
    (folder / "SHA256.json").write_text(
        json.dumps({"command": command, "sha256": hashes}, indent=1) + "\n"
    )
    print(f"{folder}: {size:,} bytes; rebuild with: {command}")


if __name__ == "__main__":
    raise SystemExit(main())
