"""The critic: its model, head and losses."""

from __future__ import annotations

from dataclasses import dataclass

from fctncalling.algorithms.config.config_fields import field


@dataclass
class CriticSettings:
    """The critic: its model, head and losses."""

    critic: str = field(
        "head",
        "What the critic reads with: a head on the policy's hidden states, an adapter of its "
        "own on the same base (lora), or a model of its own (full).",
        choices=("head", "lora", "full"),
        group="critic",
    )
    team_critic: str = field(
        "shared",
        "Critic of a team's roles: one value head for all (shared), or one for each (per_role), "
        "which value a role's tokens by what that role sees; central: by what all roles know and "
        "have read and said so far.",
        choices=("shared", "per_role", "central"),
    )
    critic_warmup_updates: int = field(
        0,
        "Updates at the start in which the critic alone learns, the language model standing still.",
        interval="[0, inf)",
    )
    init_critic_from: str | None = field(
        None,
        "Checkpoint folder whose critic this run starts with; none: that of the model folder, "
        "or a fresh one.",
        metavar="FOLDER",
    )
    value_coef: float = field(0.5, "Weight of the value loss.", interval="[0, inf)")
    value_clip: float | None = field(
        None,
        "How far a value may move to advantage in one update, in units of return; none: any.",
        interval="(0, inf)",
    )
    huber_delta: float | None = field(
        None,
        "Error beyond which the value loss grows linearly, in units of return; none: never.",
        interval="(0, inf)",
    )
    critic_head: str = field("mlp", "Shape of the value head.", choices=("linear", "mlp"))
    critic_hidden: int = field(
        128, "Width of the value head, in units; mlp only.", interval="[1, inf)"
    )
    critic_detach: bool = field(
        False, "Whether the value loss leaves the language model untouched."
    )
