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
    critic_sees: str = field(
        "episode",
        "What the critic reads: the episode as the policy does, or a row of its own with the "
        "task's truth (info ground_truth) in front, which the policy never sees.",
        choices=("episode", "truth"),
    )
    critic_warmup_episodes: int = field(
        0,
        "Episodes of as many distinct tasks, as far as there are so many, that the start policy "
        "plays before the first update; the value head is fitted to their returns until it grows "
        "worse on a fifth of the tasks.",
        interval="[0, inf)",
    )
    critic_warmup_updates: int = field(
        0,
        "Former way to give --critic_warmup_episodes: in updates of --episodes_per_update.",
        interval="[0, inf)",
    )
    critic_window_updates: int = field(
        0,
        "Updates whose episodes, with those that --dynamic_sampling leaves out, the value head is "
        "fitted to after each update, in place of the value loss within it; 0: the value loss.",
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
    critic_layers: int = field(
        1,
        "Last layers whose states the value head reads, side by side.",
        interval="[1, inf)",
    )
    value_bins: int = field(
        0,
        "Bins from --value_low to --value_high that the critic classifies returns into, by cross-"
        "entropy; a value is the mean over them. 0: none, it predicts the return itself.",
        interval="[0, inf)",
    )
    value_low: float = field(0.0, "Lowest bin, in units of return.")
    value_high: float = field(1.0, "Highest bin, in units of return.")
    critic_detach: bool = field(
        False, "Whether the value loss leaves the language model untouched."
    )
