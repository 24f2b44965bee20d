"""Losses: clipping, importance weights, entropy, aggregation, KL to the reference."""

from __future__ import annotations

from dataclasses import dataclass

from fctncalling.algorithms.config.config_fields import field


@dataclass
class LossSettings:
    """Losses: clipping, importance weights, entropy, aggregation, KL to the reference."""

    clip_low: float = field(
        0.2,
        "How far below 1 a probability ratio may fall to advantage.",
        interval="(0, 1]",
        group="losses",
    )
    clip_high: float = field(
        0.28, "How far above 1 a probability ratio may rise to advantage.", interval="(0, inf)"
    )
    dual_clip: float | None = field(
        None,
        "Bound on the loss of a bad token that became likely, as a multiple of its advantage; "
        "none: no bound.",
        interval="(1, inf)",
    )
    importance_cap: float | None = field(
        2.0,
        "Largest weight of a loss that makes up for sampling with other weights, another "
        "engine or other rounding than learn (--max_staleness, --rollout_engine vllm, "
        "passes in bfloat16): pi_learning / pi_sampling, cut there; none: not made up for.",
        interval="(0, inf)",
    )
    entropy_coef: float = field(0.002, "Weight of the entropy bonus, per nat.", interval="[0, inf)")
    target_kl: float | None = field(
        0.05,
        "KL from the collecting policy, in nats a token, at which an update stops early; "
        "none: never.",
        interval="(0, inf)",
    )
    loss_aggregation: str = field(
        "token_mean",
        "What the loss is a mean over: tokens, actions (of their token means) or rows of "
        "tokens alike; token_sum: rows (of their token sums, over --max_episode_tokens), as "
        "in Dr. GRPO. Each weighs the same in all minibatches of an update.",
        choices=("token_mean", "action_mean", "row_mean", "token_sum"),
    )
    kl_coef: float = field(
        0.0,
        "Weight of the divergence from the reference, the model as it was before the first "
        "update, per nat; 0: no reference is kept.",
        interval="[0, inf)",
    )
    kl_mode: str = field(
        "k3",
        "Where that divergence counts: in each token's reward, or in the loss, estimated by "
        "k1 (whose gradient is 0 on the mean), k2 (whose gradient is the divergence's) or k3.",
        choices=("reward", "k1", "k2", "k3"),
    )
