"""Tasks and model files, and LoRA adapters."""

from __future__ import annotations

from dataclasses import dataclass

from fctncalling.algorithms.config.config_fields import field


@dataclass
class DataAndModelSettings:
    """Tasks and model files, and LoRA adapters."""

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
