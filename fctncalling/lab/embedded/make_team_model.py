"""Build the small model of the job `--env_name team`.

`python -m fctncalling.lab.embedded.make_team_model --help`.

A small Llama-configuration model is fitted to episodes of a demonstrator who plays every role:
first a careful one, so that it learns to say what it knows and what it hears, then a hasty one, who
often says the usual city, or takes the usual box, instead. What that one gets wrong, reinforcement
learning has to mend, in both roles.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Before torch: spinning threads cost more than they bring.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from fctncalling.data.types import Task
from fctncalling.envs.team import TeamEnv
from fctncalling.envs.teams.parcels import parcel_tasks
from fctncalling.lab.embedded.make_model import learn, loaded_tokenizer, new_model, write_hashes
from fctncalling.lab.embedded.team_demonstrator import TeamDemonstrator
from fctncalling.training.teams import TABLE_SIZE

if TYPE_CHECKING:
    from fctncalling.algorithms.episodes import EpisodeRecord

MAX_EPISODE_TOKENS = 256
MODEL_SHAPE: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "initializer_range": 0.125,  # hidden_size ** -0.5; with the default, 0.02, copying forms late
}
VOCABULARY_SIZE = 720  # so that every word of the tasks is one token
TEAMS = {"parcels": 0.7, "parcels_alone": 0.3}  # built-in team -> share of the demonstrations
NUM_ENVS = 16


def main(argv: list[str] | None = None) -> int:
    """Make demonstrations, fit the model, write its folder and print a summary."""
    parser = argparse.ArgumentParser(
        prog="python -m fctncalling.lab.embedded.make_team_model", description=__doc__
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
    parser.add_argument("--num_tasks", type=int, default=3000, help="tasks to show (default 3000)")
    parser.add_argument(
        "--careful_steps", type=int, default=300, help="steps on careful episodes (default 300)"
    )
    parser.add_argument(
        "--hasty_steps", type=int, default=150, help="steps on hasty ones after it (default 150)"
    )
    parser.add_argument(
        "--hasty",
        type=float,
        default=0.9,
        help="share of half of the people, and of the things, with the usual city and box "
        "(default 0.9)",
    )
    arguments = vars(parser.parse_args(argv))
    build(arguments.pop("output_dir"), **arguments)
    return 0


def build(
    folder: Path,
    *,
    tokenizer: Path | None = None,
    seed: int,
    num_tasks: int,
    careful_steps: int,
    hasty_steps: int,
    hasty: float,
) -> None:
    """Write tokenizer and model to a Hugging Face folder, with the hashes of its files."""
    import torch

    torch.set_num_threads(1)
    tasks = parcel_tasks("train", num_tasks, seed=seed, table_size=TABLE_SIZE)
    words = new_tokenizer(tasks) if tokenizer is None else loaded_tokenizer(tokenizer)
    ids = {"pad_id": words.pad_token_id, "end_id": words.eos_token_id}
    model = new_model(len(words), **ids, seed=seed, shape=MODEL_SHAPE)
    print(f"{len(words)} tokens, {sum(weight.numel() for weight in model.parameters()):,} weights")
    careful = demonstrations(words, tasks, TeamDemonstrator(tasks))
    learn(model, careful, careful_steps, lr=5e-3)
    if hasty_steps:
        habits = TeamDemonstrator(tasks, hasty=hasty, seed=seed)
        learn(model, demonstrations(words, tasks, habits), hasty_steps, lr=2e-3)
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    recipe: dict[str, object] = {"tokenizer": tokenizer or folder, "seed": seed}
    recipe |= {"num_tasks": num_tasks, "careful_steps": careful_steps}
    recipe |= {"hasty_steps": hasty_steps, "hasty": hasty}
    write_hashes(folder, "fctncalling.lab.embedded.make_team_model", **recipe)


def demonstrations(
    tokenizer: Any, tasks: Sequence[Task], script: TeamDemonstrator
) -> list[EpisodeRecord]:
    """Return a demonstrator's episodes with the ids and masks that learning will see.

    Some of them as a team and some alone.
    """
    from fctncalling.algorithms.generation.engine_api import ScriptedEngine
    from fctncalling.algorithms.policy.chat_template import ChatTemplate
    from fctncalling.algorithms.rollout.collect import collect

    template, records, first = ChatTemplate(tokenizer), list[Any](), 0
    engine = ScriptedEngine(script, template.encode, template.end_of_turn_id)
    for team, share in TEAMS.items():
        last = first + round(share * len(tasks))
        envs: list[Any] = [TeamEnv(team=team, tasks=tasks) for _ in range(NUM_ENVS)]
        ids = [task.id for task in tasks[first:last]]
        records += collect(envs, engine, template, ids, max_episode_tokens=MAX_EPISODE_TOKENS)
        first = last
    return records


def new_tokenizer(tasks: Sequence[Task]) -> Any:
    """Return a tokenizer trained on the texts of episodes."""
    from fctncalling.lab.embedded.tokenizer import train_tokenizer

    return train_tokenizer(_texts(tasks[:400]), vocabulary_size=VOCABULARY_SIZE)


def _texts(tasks: Sequence[Task]) -> Iterator[str]:
    """Yield every text of a careful demonstrator's episodes."""
    script = TeamDemonstrator(tasks)
    for team in TEAMS:
        env = TeamEnv(team=team, tasks=tasks)
        for task in tasks:
            _, info = env.reset(options={"task_id": task.id})
            ended = False
            while not ended:
                yield from _shown(info)
                action = script(task.id, 0, 0, info)
                yield action
                _, _, ended, _, info = env.step(action)


def _shown(info: Mapping[str, Any]) -> Iterator[str]:
    for message in info["messages"]:
        yield str(message["content"])
    for tool in info["tools"]:
        function = tool["function"]
        yield f"{function['name']}({','.join(function['parameters']['properties'])})"


if __name__ == "__main__":
    raise SystemExit(main())
