"""Tasks and model files, LoRA adapters, demonstrations to learn first."""

from __future__ import annotations

from dataclasses import dataclass

from fctncalling.algorithms.config.config_fields import field


@dataclass
class DataAndModelSettings:
    """Tasks and model files, LoRA adapters, demonstrations to learn first."""

    dataset_path: str | None = field(
        None,
        "Training tasks, a BFCL-format file; none: the embedded tasks.",
        group="tasks and model",
        basic=True,
    )
    eval_dataset_path: str | None = field(
        None, "Held-out tasks; none: the embedded ones, or a fifth of --dataset_path.", basic=True
    )
    model_name_or_path: str | None = field(
        None,
        "Model folder, GGUF file or hub name; none: the embedded small model.",
        basic=True,
        metavar="MODEL",
    )
    lora_r: int = field(
        0,
        "Rank of LoRA adapters, which then learn in place of the model's own weights; 0: no "
        "adapters.",
        interval="[0, inf)",
        group="adapters (LoRA)",
        basic=True,
    )
    lora_alpha: float = field(
        16.0,
        "Scale of the adapters: what they add is multiplied by alpha / rank.",
        interval="(0, inf)",
    )
    lora_targets: str = field(
        "all-linear",
        "Layers that get an adapter: all-linear (all but the output), or names parted by "
        "commas, such as q_proj,v_proj.",
        metavar="NAMES",
    )
    role_adapters: bool = field(
        False,
        'Whether each role of a team (info["role"]) has an adapter of its own on one base, and '
        "learns nothing of what the others learn.",
    )
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
    sft_fixed_prefixes: bool = field(
        False,
        "Read the tokens that all demonstrations of a pass begin with (their tools) without a "
        "gradient, which takes less time: Llama and Qwen on a CPU.",
    )
    sft_save_interval: int = field(
        25,
        "Supervised steps between two checkpoints; 0: only at the stage's end.",
        interval="[0, inf)",
    )
