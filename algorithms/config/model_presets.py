"""Default settings by model size, as --preset fills them in; flags on the command line win.

The project's own runs are of models of 0.5 million parameters. These values are conventional ones
for pretrained instruction models, not tuned here: watch the first updates, and change what the
curves speak against. None plans more memory than a run without: caches of
--n_rollout_threads x --max_episode_tokens, and passes, are at most as large.
"""

from __future__ import annotations

from typing import Any

_PRETRAINED: dict[str, Any] = {
    "episodes_per_update": 128,
    "n_rollout_threads": 16,
    "num_mini_batch": 4,
    "max_new_tokens": 512,
    "max_episode_tokens": 8192,
    "max_microbatch_tokens": 4096,
    "warmup_updates": 5,
    "critic_lr": 5e-4,
    "entropy_coef": 0.0,
    "eval_episodes": 200,
}
# A row of 8,192 tokens, twice as many as a pass has without a preset.
_LONG: dict[str, Any] = {**_PRETRAINED, "gradient_checkpointing": True}
_LORA: dict[str, Any] = {**_LONG, "lora_r": 32, "lora_alpha": 64.0}

_SMALL: dict[str, Any] = {**_PRETRAINED, "lr": 1e-5, "critic_lr": 1e-3}

PRESETS: dict[str, dict[str, Any]] = {
    "0.1B": {**_SMALL, "n_rollout_threads": 32, "max_new_tokens": 256, "max_episode_tokens": 4096},
    "0.1B-cpu": {
        **_SMALL,
        "num_updates": 0,
        "sft_tasks": "dataset",
        "sft_lr": 2e-4,
        "episodes_per_update": 64,
        "n_rollout_threads": 8,
        "max_new_tokens": 96,
        "max_episode_tokens": 1024,
        "max_microbatch_tokens": 1024,
        "eval_episodes": 16,
        "torch_threads": 2,
    },
    "0.5B": {**_LONG, "lr": 2e-6},
    "0.5B-lora": {**_LORA, "lr": 5e-5},
    "4B": {**_LONG, "lr": 1e-6},
    "4B-lora": {**_LORA, "lr": 2e-5},
    "8B": {**_LONG, "lr": 1e-6},
    "8B-lora": {**_LORA, "lr": 1e-5},
}
"""`--preset` -> values by flag. Full fine-tuning in fp32 takes some 16 bytes a parameter: 4B and 8B
want --fsdp.
"""
