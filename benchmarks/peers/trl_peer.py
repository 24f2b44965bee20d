"""Our side of the comparison with TRL: a batch of embedded tasks, and TRL as a process."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import LineProcess

from fctncalling.algorithms.batch import length_to_last_acted
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import FIELDS, EpisodeRecord
from fctncalling.data.bfcl import embedded_path

GROUP_SIZE = 8


def embedded_batch(num_tasks: int) -> list[EpisodeRecord]:
    """Return episodes of the scripted, fallible demonstrator on embedded tasks.

    Of every category alike, in groups; the rows end where the last action ends.
    """
    from transformers import AutoTokenizer

    from fctncalling.algorithms.policy.chat_template import ChatTemplate
    from fctncalling.data.bfcl import load_tasks
    from fctncalling.lab.embedded.demonstrator import Demonstrator, demonstrations

    tasks = load_tasks(embedded_path("train"))
    tasks = random.Random(0).sample(tasks, num_tasks)
    template = ChatTemplate(AutoTokenizer.from_pretrained(embedded_path("model")))
    played = [
        demonstrations(tasks, Demonstrator(tasks, seed=seed), template)
        for seed in range(GROUP_SIZE)
    ]
    return [_cut(episode) for group in zip(*played, strict=True) for episode in group]


def _cut(episode: EpisodeRecord) -> EpisodeRecord:
    (row,) = episode.rows
    length = length_to_last_acted(row)
    return replace(
        episode, rows=[replace(row, **{name: getattr(row, name)[:length] for name in FIELDS})]
    )


def trl_process(python: str | Path) -> LineProcess:
    """Start TRL's side: its first question is a job, answered by versions, the others are "go"."""
    return LineProcess([python, Path(__file__).with_name("trl_side.py")], PYTHONPATH="")


def update_job(
    episodes: Sequence[EpisodeRecord],
    config: TrainConfig,
    *,
    rows_a_pass: int,
    turns: int,
    model: Path | None = None,
) -> dict[str, Any]:
    """Return the job of updates on episodes; model: its folder, by default the embedded model."""
    shared = ("lr", "max_grad_norm", "clip_low", "clip_high")
    return {
        "kind": "update",
        "model": str(model or embedded_path("model")),
        "rows": [_row(episode) for episode in episodes],
        "group_size": GROUP_SIZE,
        "minibatches": config.num_mini_batch,
        "epochs": config.ppo_epoch,
        "rows_a_pass": rows_a_pass,
        "turns": turns,
        **{name: getattr(config, name) for name in shared},
    }


def _row(episode: EpisodeRecord) -> dict[str, Any]:
    (row,) = episode.rows
    start = row.acted.index(True)
    return {
        "prompt": row.ids[:start],
        "completion": row.ids[start:],
        "acted": [int(acted) for acted in row.acted[start:]],
        "reward": episode.episode_return,
    }
