"""Maker of embedded models: a start, lessons from demonstrations, the files of a folder."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

# Before torch: spinning threads cost more than they bring.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from fctncalling.data.bfcl import load_tasks
from fctncalling.data.types import Task
from fctncalling.lab.embedded.make_tasks import EMBEDDED

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

    from fctncalling.algorithms.episodes import EpisodeRecord
    from fctncalling.algorithms.policy.chat_template import ChatTemplate

MAX_POSITIONS = 4096  # tokens; the embedded episodes have up to 400
NUM_ENVS = 16
TINY_SHAPE: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "initializer_range": 0.125,  # hidden_size ** -0.5; with the default, 0.02, copying forms late
}


class Lesson(NamedTuple):
    """Demonstrations, and how a model is fitted to them."""

    records: Sequence[EpisodeRecord]
    num_steps: int
    lr: float
    order_seed: int = 0
    batch_size: int = 20  # episodes, about 2,000 tokens: small models want many steps, not large


class NewModel(NamedTuple):
    """Randomly initialised model: its shape, and texts to train its tokenizer on."""

    shape: Mapping[str, Any]
    vocabulary_size: int
    texts: Callable[[int, int], Iterable[str]]  # of a number of tasks and a seed


class ModelMaker(NamedTuple):
    """Recipe of a model: its start, and the lessons of (template, number of tasks, seed)."""

    start: NewModel | Path  # Path: the folder of a model that is fitted further
    lessons: Callable[[ChatTemplate, int, int], Iterator[Lesson]]
    num_tasks: int

    def build(self, words: Any, num_tasks: int, seed: int) -> LlamaForCausalLM:
        """Build the model of a tokenizer."""
        import torch
        from transformers import LlamaForCausalLM

        from fctncalling.algorithms.policy.chat_template import ChatTemplate

        torch.set_num_threads(1)  # the same weights wherever it runs on the same processor
        if isinstance(self.start, NewModel):
            model = _new_model(words, self.start.shape, seed)
        else:
            model = LlamaForCausalLM.from_pretrained(str(self.start))
        for lesson in self.lessons(ChatTemplate(words), num_tasks, seed):
            learn(model, lesson)
        return model

    def train_tokenizer(self, num_tasks: int, seed: int) -> Any:
        """Train a tokenizer for a new model; chance decides its numbering."""
        from fctncalling.lab.embedded.tokenizer import train_tokenizer

        if not isinstance(self.start, NewModel):
            raise SystemExit(f"error: --new_tokenizer: the model goes on from {self.start}")
        texts = self.start.texts(num_tasks, seed)
        return train_tokenizer(texts, vocabulary_size=self.start.vocabulary_size)


def run_maker(
    module: str,
    description: str | None,
    makers: Mapping[str, ModelMaker],
    argv: Sequence[str] | None = None,
) -> int:
    """Run `python -m fctncalling.lab.embedded.MODULE`: make a model and write its folder.

    makers: by name of the folder in data/embedded; the flag --job chooses one of several.
    """
    module = f"fctncalling.lab.embedded.{module}"
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("--job", choices=makers, default=next(iter(makers)), help="model to make")
    parser.add_argument("--output_dir", type=Path, help="folder (default: that of data/embedded)")
    parser.add_argument(
        "--new_tokenizer", action="store_true", help="do not take the committed one"
    )
    parser.add_argument("--num_tasks", type=int, help="tasks to demonstrate")
    parser.add_argument("--seed", type=int, default=1, help="of tasks, habits, weights and order")
    options = parser.parse_args(argv)
    maker, committed = makers[options.job], EMBEDDED / options.job
    sizes = (options.num_tasks or maker.num_tasks, options.seed)
    words = maker.train_tokenizer(*sizes) if options.new_tokenizer else _tokenizer(committed)
    model = maker.build(words, *sizes)
    job = f" --job {options.job}" if len(makers) > 1 else ""
    command = f"python -m {module}{job} --num_tasks {sizes[0]} --seed {options.seed}"
    write_model(options.output_dir or committed, model, words, command)
    return 0


def _new_model(words: Any, shape: Mapping[str, Any], seed: int) -> LlamaForCausalLM:
    """Return a randomly initialised model for a tokenizer."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(words),
        **shape,
        max_position_embeddings=MAX_POSITIONS,
        tie_word_embeddings=True,
        pad_token_id=words.pad_token_id,
        bos_token_id=None,
        eos_token_id=words.eos_token_id,
    )
    model = LlamaForCausalLM(config)
    print(f"{len(words)} tokens, {sum(weight.numel() for weight in model.parameters()):,} weights")
    return model


def _tokenizer(folder: Path) -> Any:
    """Return the tokenizer of a folder."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast.from_pretrained(str(folder))
    for name in ("is_local", "local_files_only"):  # how it was loaded, which would be saved with it
        tokenizer.init_kwargs.pop(name, None)
    return tokenizer


def load_entries(
    entries: Iterable[Mapping[str, Any]], self_documented: Collection[str] = ()
) -> list[Task]:
    """Load entries as tasks, as a user's file is loaded.

    self_documented: classes of which environments make the docs.
    """
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "multi_turn_func_doc").symlink_to(EMBEDDED / "multi_turn_func_doc")
        path = Path(folder) / "tasks.json"
        path.write_text(json.dumps(list(entries)))
        return load_tasks(path, self_documented=self_documented)


def play_demonstrations(
    make_env: Callable[[], Any],
    script: Callable[..., str],
    template: ChatTemplate,
    task_ids: Sequence[str],
    *,
    max_episode_tokens: int,
) -> list[EpisodeRecord]:
    """Play a demonstrator's episodes by the ordinary rollout, with ids and masks of training."""
    from fctncalling.algorithms.generation.engine_api import ScriptedEngine
    from fctncalling.algorithms.rollout.collect import collect

    envs = [make_env() for _ in range(min(NUM_ENVS, len(task_ids)))]
    try:
        engine = ScriptedEngine(script, template.encode, template.end_of_turn_id)
        return collect(envs, engine, template, task_ids, max_episode_tokens=max_episode_tokens)
    finally:
        for env in envs:
            env.close()


def demonstration_texts(
    env: Any, script: Callable[..., str], task_ids: Iterable[str]
) -> Iterator[str]:
    """Yield every text of a demonstrator's episodes: messages, function signatures, actions."""
    for task_id in task_ids:
        _, info = env.reset(options={"task_id": task_id})
        turn, step, ended = -1, 0, False
        while not ended:
            for message in info["messages"]:
                content = str(message["content"])
                yield content.rpartition("\n")[2] if message.get("tools") else content
            yield " ".join(_signature(tool["function"]) for tool in info["tools"])
            step = step + 1 if info["turn"] == turn else 0
            turn = info["turn"]
            action = script(task_id, turn, step, info)
            yield action
            _, _, terminated, truncated, info = env.step(action)
            ended = terminated or truncated
    env.close()


def _signature(function: Mapping[str, Any]) -> str:
    """Return an offered function as the chat template renders it."""
    return f"{function['name']}({','.join(function['parameters']['properties'])})"


def learn(model: LlamaForCausalLM, lesson: Lesson) -> None:
    """Fit the model to a lesson's demonstrations, with a progress bar."""
    from tqdm import tqdm

    from fctncalling.algorithms.supervised import SupervisedConfig
    from fctncalling.lab.embedded.fit import fit_supervised

    right = sum(bool(record.success) for record in lesson.records) / len(lesson.records)
    config = SupervisedConfig(
        epochs=-(-lesson.num_steps * lesson.batch_size // len(lesson.records)),
        max_steps=lesson.num_steps,
        batch_size=lesson.batch_size,
        lr=lesson.lr,
        seed=lesson.order_seed,
    )
    label = f"demonstrations, {right:.0%} right"
    with tqdm(total=lesson.num_steps, desc=label, unit="step") as bar:

        def show(metrics: dict[str, float]) -> None:
            bar.update()
            if bar.n % 50 == 0:
                bar.set_postfix(
                    loss=f"{metrics['loss']:.3f}", accuracy=f"{metrics['accuracy']:.3f}"
                )

        fit_supervised(model, lesson.records, config, on_step=show)


def write_model(folder: Path, model: LlamaForCausalLM, words: Any, command: str) -> None:
    """Write model, tokenizer and `SHA256.json`: the command, and the hash of every file."""
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    files = [path for path in sorted(folder.iterdir()) if path.name != "SHA256.json"]
    hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    size = sum(path.stat().st_size for path in files)
    text = json.dumps({"command": command, "sha256": hashes}, indent=1)
    (folder / "SHA256.json").write_text(f"{text}\n")
    print(f"{folder}: {size:,} bytes; rebuild with: {command}")
