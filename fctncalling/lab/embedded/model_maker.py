"""Skeleton of embedded models' makers: command line, demonstrations, lessons, files."""

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
BATCH_SIZE = 20  # episodes, about 2,000 tokens: small models want many steps, not large ones
NUM_ENVS = 16
NEW_TOKENIZER = (
    "folder whose tokenizer to take (default: a new one, whose numbering chance decides)"
)


class ModelMaker(NamedTuple):
    """Maker of an embedded model: `python -m MODULE` writes what `build(**options)` returns."""

    module: str
    description: str | None
    build: Callable[..., tuple[LlamaForCausalLM, Any]]  # model and tokenizer
    options: Mapping[str, tuple[Any, str]]  # name -> default, help; None stands for a folder
    folder: Path | None = None  # written where --output_dir says nothing

    def main(self, argv: list[str] | None = None) -> int:
        """Make demonstrations, fit the model, write its folder and print a summary."""
        parser = argparse.ArgumentParser(
            prog=f"python -m {self.module}", description=self.description
        )
        parser.add_argument(
            "--output_dir",
            type=Path,
            default=self.folder,
            required=not self.folder,
            help="folder to write",
        )
        for name, (default, sentence) in self.options.items():
            kind = Path if default is None else type(default)
            note = sentence if default is None else f"{sentence} (default {default})"
            parser.add_argument(f"--{name}", type=kind, default=default, help=note)
        options = vars(parser.parse_args(argv))
        folder = options.pop("output_dir")
        model, words = self.build(**options)
        write_model(folder, model, words, self.module, **options)
        return 0


def make_model(
    words: Any, *, seed: int, shape: Mapping[str, Any]
) -> tuple[LlamaForCausalLM, ChatTemplate]:
    """Build a randomly initialised model for a tokenizer, and its template."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from fctncalling.algorithms.policy.chat_template import ChatTemplate

    torch.set_num_threads(1)  # the same weights wherever it runs on the same processor
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
    return model, ChatTemplate(words)


def loaded_tokenizer(folder: Path) -> Any:
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
    """Play a demonstrator's episodes, with the ids and masks of training.

    They are played by the ordinary rollout.
    """
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
            yield signatures_text(info["tools"])
            step = step + 1 if info["turn"] == turn else 0
            turn = info["turn"]
            action = script(task_id, turn, step, info)
            yield action
            _, _, terminated, truncated, info = env.step(action)
            ended = terminated or truncated


def signatures_text(tools: Sequence[Any]) -> str:
    """Return the offered functions as the chat template renders them."""
    functions = [tool["function"] for tool in tools]
    return " ".join(
        f"{function['name']}({','.join(function['parameters']['properties'])})"
        for function in functions
    )


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

    from fctncalling.algorithms.supervised import SupervisedConfig
    from fctncalling.lab.embedded.fit import fit_supervised

    right = sum(bool(record.success) for record in records) / len(records)
    epochs = -(-num_steps * batch_size // len(records))
    config = SupervisedConfig(
        epochs=epochs, max_steps=num_steps, batch_size=batch_size, lr=lr, seed=order_seed
    )
    with tqdm(total=num_steps, desc=f"demonstrations, {right:.0%} right", unit="step") as bar:
        fit_supervised(model, records, config, on_step=lambda metrics: _show(bar, metrics))


def _show(bar: Any, metrics: dict[str, float]) -> None:
    bar.update()
    if bar.n % 50 == 0:
        bar.set_postfix(loss=f"{metrics['loss']:.3f}", accuracy=f"{metrics['accuracy']:.3f}")


def write_model(
    folder: Path, model: LlamaForCausalLM, words: Any, module: str, /, **recipe: object
) -> None:
    """Write model, tokenizer and `SHA256.json` to a folder.

    The last has the command of a module with its settings, and the hash of every file written.
    None stands for the folder; paths of this project are told from its root.
    """
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    files = [path for path in sorted(folder.iterdir()) if path.name != "SHA256.json"]
    hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    size = sum(path.stat().st_size for path in files)
    arguments = {key: _told(folder if value is None else value) for key, value in recipe.items()}
    command = " ".join([f"python -m {module}", *(f"--{k} {v}" for k, v in arguments.items())])
    text = json.dumps({"command": command, "sha256": hashes}, indent=1)
    (folder / "SHA256.json").write_text(f"{text}\n")
    print(f"{folder}: {size:,} bytes; rebuild with: {command}")


def _told(value: object) -> object:
    root = EMBEDDED.parents[1]
    if isinstance(value, Path) and value.is_relative_to(root):
        return value.relative_to(root)
    return value
