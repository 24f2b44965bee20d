"""Passes, minibatches, learning rates and AdamW."""

from __future__ import annotations

from dataclasses import dataclass

from fctncalling.algorithms.config.config_fields import field


@dataclass
class OptimiserSettings:
    """Passes, minibatches, learning rates and AdamW."""

    ppo_epoch: int = field(
        1, "Passes over the collected episodes.", interval="[1, inf)", group="update", basic=True
    )
    num_mini_batch: int = field(4, "Optimiser steps of one pass.", interval="[1, inf)", basic=True)
    gradient_cp_steps: int = field(
        1,
        "Parts whose gradients are added up to one optimiser step; saves memory, changes no "
        "result.",
        interval="[1, inf)",
        aliases=("gradient_accumulation_steps",),
    )
    max_microbatch_tokens: int = field(
        4096,
        "Tokens of one forward pass, with padding, or each once where prefixes are shared.",
        interval="[1, inf)",
    )
    share_prefixes: bool = field(
        True,
        "Whether update and rollout compute tokens that rows begin with alike (a group's "
        "prompt, tools, earlier steps) once, where that is cheaper; gradients and samples are "
        "those of separate rows, up to rounding. --group_size gives rows of one prompt.",
        metavar="on|off",
    )
    gradient_checkpointing: bool = field(
        False,
        "Whether the update keeps the inputs of layers alone and computes each layer again in the "
        "backward pass: less memory, a quarter to a half more time, the same gradient.",
    )
    lr: float = field(8e-5, "Learning rate of the language model.", interval="[0, inf)", basic=True)
    critic_lr: float = field(
        3e-3, "Learning rate of the value head.", interval="[0, inf)", basic=True
    )
    lr_schedule: str = field(
        "constant",
        "How both learning rates go on after the warm-up: constant, or falling to "
        "--min_lr_ratio by the end of --num_updates, in a straight line or along half a "
        "cosine.",
        choices=("constant", "linear", "cosine"),
        group="optimiser",
    )
    warmup_updates: int = field(
        0,
        "Updates at the start over which both learning rates rise to their full size; 0: none.",
        interval="[0, inf)",
    )
    min_lr_ratio: float = field(
        0.0,
        "Where linear and cosine schedules end, as a part of the learning rate.",
        interval="[0, 1]",
    )
    adam_beta1: float = field(0.9, "AdamW: decay of the mean of gradients.", interval="[0, 1)")
    adam_beta2: float = field(
        0.999, "AdamW: decay of the mean of squared gradients.", interval="[0, 1)"
    )
    adam_eps: float = field(
        1e-8, "AdamW: added to the root of the squared gradients' mean.", interval="(0, inf)"
    )
    weight_decay: float = field(
        0.0,
        "AdamW: decay of the weight matrices, of language model and critic; biases and norms "
        "never decay.",
        interval="[0, inf)",
    )
    max_grad_norm: float = field(
        1.0,
        "Longest gradient, of language model and value head apart; inf: never cut.",
        interval="(0, inf]",
    )
