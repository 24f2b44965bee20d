"""Supervised fine-tuning before reinforcement learning."""

from __future__ import annotations

from dataclasses import dataclass

from fctncalling.algorithms.config.config_fields import field


@dataclass
class SupervisedSettings:
    """Supervised fine-tuning before reinforcement learning."""

    sft_tasks: str | None = field(
        None,
        "Tasks whose ground truths, played through the environment, are learned first: a "
        'BFCL-format file, or "dataset" for the training tasks of --dataset_path. With '
        "--num_updates 0 nothing else is learned.",
        group="supervised fine-tuning (SFT)",
        basic=True,
        metavar="FILE",
    )
    sft_episodes: str | None = field(
        None,
        "Logged training episodes whose successful ones are learned first: a run's folder, its "
        "episodes folder or one file (rejection sampling, expert iteration).",
        metavar="FOLDER",
    )
    sft_epochs: int = field(1, "Passes over the demonstrations.", interval="[1, inf)")
    sft_lr: float = field(
        1e-4, "Highest learning rate of the supervised stage.", interval="(0, inf)"
    )
    sft_batch_size: int = field(
        8,
        "Demonstrations an optimiser step (rows, where a template rewrites history).",
        interval="[1, inf)",
    )
    sft_group_by_prefix: bool = field(
        False,
        "Put demonstrations that begin alike (with the same tools) into one step, where "
        "--share_prefixes computes their common tokens once; false: those of similar length.",
    )
    sft_warmup_share: float = field(
        0.05,
        "Share of the supervised steps over which the learning rate rises; half a cosine follows.",
        interval="[0, 1]",
    )
    sft_final_lr_share: float = field(
        0.05, "Share of --sft_lr that the cosine ends at.", interval="[0, 1]"
    )
    sft_save_interval: int = field(
        25,
        "Supervised steps between two checkpoints; 0: only at the stage's end.",
        interval="[0, inf)",
    )
