"""Rewards and credit, optimiser steps, losses, critic."""

from __future__ import annotations

from dataclasses import dataclass

from fctncalling.algorithms.config.config_fields import setting


@dataclass
class LearningSettings:
    """Settings of learning: rewards and credit, optimiser, losses, critic."""

    # Rewards and advantages: discounts, lambdas, scaling, cut actions, one algorithm's own.

    gamma: float | None = setting(
        None,
        "Discount from one action to the next; none: 0.99, and 1 (no discount) for GRPO, "
        "whose groups would otherwise be told apart by their lengths alone.",
        interval="[0, 1]",
        group="rewards and credit",
    )
    lam: float | None = setting(
        None,
        "Lambda of the advantage estimate from one action to the next. auto (none): values enter "
        "by what they know, measured on new episodes, beside the mean of the group's or batch's "
        "others; lambda is 1 where they know nothing of an episode's course and falls with what "
        "they know. A number: the critic's values as they are, as MODULE:NAME takes them with "
        "0.95.",
        interval="[0, 1]",
        synonyms={"auto": None},
    )
    lam_value: float | None = setting(
        None,
        "Lambda of the critic's targets, where it is to differ from the advantages'; none: it "
        "does not.",
        interval="[0, 1]",
    )
    gamma_token: float = setting(
        1.0,
        "TPPO: discount between the tokens of one action; 1: wording costs no time.",
        interval="[0, 1]",
    )
    lam_token: float = setting(
        1.0,
        "TPPO: lambda between the tokens of one action; 1: every token answers for the "
        "action's outcome.",
        interval="[0, 1]",
    )
    truncation_bootstrap: bool = setting(
        True, "Whether a truncated episode goes on with the critic's value at its end."
    )
    group_baseline: str = setting(
        "none",
        "What an episode's advantages are compared with; needs --group_size of at least 2. "
        "leave_one_out (or true): the mean first advantage of the other episodes of its task, as "
        "in RLOO (GRPO: its group's mean, always); shrunk, which is no more, means it. state: "
        "values of the states that other episodes of the task passed, too (info "
        "state_hash), the critic's where none did; credit is then an action's reward and what the "
        "state behind it is worth.",
        choices=("none", "leave_one_out", "state"),
        const="leave_one_out",
        synonyms={"false": "none", "true": "leave_one_out", "shrunk": "leave_one_out"},
    )
    whiten_advantages: bool = setting(
        True,
        "Whether advantages are shifted and scaled to mean 0, deviation 1 (GRPO: never, its "
        "groups are scaled).",
    )
    reward_scale: float = setting(
        1.0,
        "What every reward is multiplied by before learning sees it; logs keep the raw ones.",
        interval="(0, inf)",
    )
    overlong: str = setting(
        "keep",
        "What becomes of actions that --max_new_tokens cut: keep (learned from like others), "
        "mask (no loss on their tokens) or penalty (--overlong_penalty off their reward).",
        choices=("keep", "mask", "penalty"),
    )
    overlong_penalty: float = setting(
        0.5,
        "What a cut action loses with --overlong penalty, in units of reward before it is scaled.",
        interval="[0, inf)",
    )
    overlong_buffer: int = setting(
        0,
        "Tokens before --max_new_tokens over which that penalty rises from 0 to all of it, as "
        "in DAPO; 0: cut actions alone pay.",
        interval="[0, inf)",
    )
    frozen_roles: str | None = setting(
        None,
        'Roles of a team (info["role"]) that play but learn nothing; the others learn from their '
        "own tokens. none: all learn.",
        metavar="ROLE",
        many=True,
    )
    permute_advantages: bool = setting(
        False,
        "Control experiment: advantages are shuffled among all action tokens, there is no entropy "
        "bonus, and the value loss leaves the language model untouched, which then has nothing to "
        "learn from.",
    )
    action_logprob_norm: str = setting(
        "token",
        "APPO: what an action's log-probability is divided by: nothing (sum: the true ratio, "
        "which clips long actions almost always), its number of tokens, or of words.",
        choices=("sum", "token", "word"),
        group="single algorithms",
    )
    group_credit: str = setting(
        "episode",
        "GRPO: what a token answers for: the whole episode's return, or (step) that from its "
        "action on, against the group's at their action of the same number.",
        choices=("episode", "step"),
    )
    group_std: bool = setting(
        True, "GRPO: whether a group's advantages are scaled to deviation 1; Dr. GRPO: false."
    )
    sequence_ratio: bool = setting(
        False,
        "GRPO: whether a row (an episode, where the template only appends) has one ratio, the "
        "geometric mean of its tokens', as in GSPO, whose loss is also --loss_aggregation "
        "row_mean, with clip ranges near 4e-4.",
    )
    dynamic_sampling: int = setting(
        1,
        "Rounds of collecting until --episodes_per_update episodes are in groups "
        "(--group_size) that did not all earn the same, the others being left out (DAPO); 1: one "
        "round, all are kept.",
        interval="[1, inf)",
    )

    # Passes, minibatches, learning rates and AdamW.

    ppo_epoch: int = setting(
        1, "Passes over the collected episodes.", interval="[1, inf)", group="update", basic=True
    )
    num_mini_batch: int = setting(
        4, "Optimiser steps of one pass.", interval="[1, inf)", basic=True
    )
    gradient_cp_steps: int = setting(
        1,
        "Parts whose gradients are added up to one optimiser step; saves memory, changes no "
        "result.",
        interval="[1, inf)",
        aliases=("gradient_accumulation_steps",),
    )
    max_microbatch_tokens: int = setting(
        4096,
        "Tokens of one forward pass, with padding, or each once where prefixes are shared.",
        interval="[1, inf)",
    )
    share_prefixes: bool = setting(
        True,
        "Whether update and rollout compute tokens that rows begin with alike (a group's "
        "prompt, tools, earlier steps) once, where that is cheaper; gradients and samples are "
        "those of separate rows, up to rounding. --group_size gives rows of one prompt.",
        metavar="on|off",
    )
    gradient_checkpointing: bool = setting(
        False,
        "Whether the update keeps the inputs of layers alone and computes each layer again in the "
        "backward pass: less memory, a quarter to a half more time, the same gradient.",
    )
    lr: float = setting(
        8e-5, "Learning rate of the language model.", interval="[0, inf)", basic=True
    )
    critic_lr: float = setting(
        3e-3, "Learning rate of the value head.", interval="[0, inf)", basic=True
    )
    lr_schedule: str = setting(
        "constant",
        "How both learning rates go on after the warm-up: constant, or falling to --min_lr_ratio "
        "by the end of --num_updates, in a straight line or along half a cosine.",
        choices=("constant", "linear", "cosine"),
        group="optimiser",
    )
    warmup_updates: int = setting(
        0,
        "Updates at the start over which both learning rates rise to their full size; 0: none.",
        interval="[0, inf)",
    )
    min_lr_ratio: float = setting(
        0.0,
        "Where linear and cosine schedules end, as a part of the learning rate.",
        interval="[0, 1]",
    )
    adam_beta1: float = setting(0.9, "AdamW: decay of the mean of gradients.", interval="[0, 1)")
    adam_beta2: float = setting(
        0.999, "AdamW: decay of the mean of squared gradients.", interval="[0, 1)"
    )
    adam_eps: float = setting(
        1e-8, "AdamW: added to the root of the squared gradients' mean.", interval="(0, inf)"
    )
    weight_decay: float = setting(
        0.0,
        "AdamW: decay of the weight matrices, of language model and critic; biases and norms "
        "never decay.",
        interval="[0, inf)",
    )
    max_grad_norm: float = setting(
        1.0,
        "Longest gradient, of language model and value head apart; inf: never cut.",
        interval="(0, inf]",
    )

    # Losses: clipping, importance weights, entropy, aggregation, KL to the reference.

    clip_low: float = setting(
        0.2,
        "How far below 1 a probability ratio may fall to advantage.",
        interval="(0, 1]",
        group="losses",
    )
    clip_high: float = setting(
        0.28, "How far above 1 a probability ratio may rise to advantage.", interval="(0, inf)"
    )
    dual_clip: float | None = setting(
        None,
        "Bound on the loss of a bad token that became likely, as a multiple of its advantage; "
        "none: no bound.",
        interval="(1, inf)",
    )
    importance_cap: float | None = setting(
        2.0,
        "Largest weight of a loss that makes up for sampling with other weights, another "
        "engine or other rounding than learn (--max_staleness, --rollout_engine vllm, "
        "passes in bfloat16): pi_learning / pi_sampling, cut there; none: not made up for.",
        interval="(0, inf)",
    )
    entropy_coef: float = setting(
        0.002, "Weight of the entropy bonus, per nat.", interval="[0, inf)"
    )
    target_kl: float | None = setting(
        0.05,
        "KL from the collecting policy beyond which half of a step is taken back, or all, which "
        "ends the update: nats a token of the actions that have an advantage, each action alike; "
        "times the policy's entropy where that is above 1 nat a token: free wording moves "
        "further. none: no bound.",
        interval="(0, inf)",
    )
    loss_aggregation: str = setting(
        "token_mean",
        "What the loss is a mean over: tokens, actions (of their token means) or rows of "
        "tokens alike; token_sum: rows (of their token sums, over --max_episode_tokens), as "
        "in Dr. GRPO. Each weighs the same in all minibatches of an update.",
        choices=("token_mean", "action_mean", "row_mean", "token_sum"),
    )
    kl_coef: float = setting(
        0.0,
        "Weight of the divergence from the reference, the model as it was before the first "
        "update, per nat; 0: no reference is kept.",
        interval="[0, inf)",
    )
    kl_mode: str = setting(
        "k3",
        "Where that divergence counts: in each token's reward, or in the loss, estimated by "
        "k1 (whose gradient is 0 on the mean), k2 (whose gradient is the divergence's) or k3.",
        choices=("reward", "k1", "k2", "k3"),
    )

    # The critic: its model, head and losses.

    critic: str = setting(
        "head",
        "What the critic reads with: a head on the policy's hidden states, an adapter of its "
        "own on the same base (lora), or a model of its own (full). places: no network; what other "
        "episodes got from the same place on the truth's path (info place), from earlier updates "
        "with half the weight each, lambda towards 0 with the successes among them.",
        choices=("head", "lora", "full", "places"),
        group="critic",
    )
    team_critic: str = setting(
        "shared",
        "Critic of a team's roles: one value head for all (shared), or one for each (per_role), "
        "which value a role's tokens by what that role sees; central: by what all roles know and "
        "have read and said so far.",
        choices=("shared", "per_role", "central"),
    )
    critic_sees: str = setting(
        "episode",
        "What the critic reads: the episode as the policy does; beside it, how far it is along the "
        "task's truth (the environment's attribute ground_truth, else info's at the end); or a "
        "row of its own with the truth in front. The policy never sees the truth.",
        choices=("episode", "progress", "truth"),
    )
    critic_warmup_episodes: int = setting(
        0,
        "Episodes of as many distinct tasks, as far as there are so many, that the start policy "
        "plays before the first update; the value head is fitted to their returns until it grows "
        "worse on a fifth of the tasks.",
        interval="[0, inf)",
    )
    critic_warmup_updates: int = setting(
        0,
        "Former way to give --critic_warmup_episodes: in updates of --episodes_per_update.",
        interval="[0, inf)",
    )
    critic_window_updates: int = setting(
        0,
        "Updates whose episodes, with those that --dynamic_sampling leaves out, the value head is "
        "fitted to after each update, in place of the value loss within it; 0: the value loss.",
        interval="[0, inf)",
    )
    init_critic_from: str | None = setting(
        None,
        "Checkpoint folder whose critic this run starts with; none: that of the model folder, "
        "or a fresh one.",
        metavar="FOLDER",
    )
    value_coef: float = setting(0.5, "Weight of the value loss.", interval="[0, inf)")
    value_clip: float | None = setting(
        None,
        "How far a value may move to advantage in one update, in units of return; none: any.",
        interval="(0, inf)",
    )
    huber_delta: float | None = setting(
        None,
        "Error beyond which the value loss grows linearly, in units of return; none: never.",
        interval="(0, inf)",
    )
    critic_head: str = setting("mlp", "Shape of the value head.", choices=("linear", "mlp"))
    critic_hidden: int = setting(
        128, "Width of the value head, in units; mlp only.", interval="[1, inf)"
    )
    critic_layers: int = setting(
        1,
        "Last layers whose states the value head reads, side by side.",
        interval="[1, inf)",
    )
    value_bins: int = setting(
        0,
        "Bins from --value_low to --value_high that the critic classifies returns into, by cross-"
        "entropy; a value is the mean over them. 0: none, it predicts the return itself.",
        interval="[0, inf)",
    )
    value_low: float = setting(0.0, "Lowest bin, in units of return.")
    value_high: float = setting(1.0, "Highest bin, in units of return.")
    critic_detach: bool = setting(
        False, "Whether the value loss leaves the language model untouched."
    )
