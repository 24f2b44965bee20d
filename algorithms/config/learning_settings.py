"""Rewards and credit, optimiser steps, losses, critic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from fctncalling.algorithms.config.config_fields import Setting, Settings

BASELINE_SYNONYMS = {"false": "none", **dict.fromkeys(("true", "shrunk"), "leave_one_out")}


@dataclass
class LearningSettings(Settings):
    """Settings of learning: rewards and credit, optimiser, losses, critic."""

    # Rewards and advantages: discounts, lambdas, scaling, cut actions, one algorithm's own.
    gamma: Annotated[float | None, Setting("[0, 1]", group="rewards and credit")] = None
    """Discount from one action to the next; none: 0.99, and 1 (no discount) for GRPO, whose
    groups would otherwise be told apart by their lengths alone."""
    lam: Annotated[float | None, Setting("[0, 1]", synonyms={"auto": None})] = None
    """Lambda of the advantage estimate from one action to the next. auto (none): values enter
    by what they know, measured on new episodes, beside the mean of the group's or batch's
    others; lambda is 1 where they know nothing of an episode's course and falls with what they
    know. A number: the critic's values as they are, as MODULE:NAME takes them with 0.95."""
    lam_value: Annotated[float | None, Setting("[0, 1]", has_flag=False)] = None
    """Lambda of the critic's targets, where it is to differ from the advantages'; none: it does
    not."""
    gamma_token: Annotated[float, Setting("[0, 1]")] = 1.0
    """TPPO: discount between the tokens of one action; 1: wording costs no time."""
    lam_token: Annotated[float, Setting("[0, 1]")] = 1.0
    """TPPO: lambda between the tokens of one action; 1: every token answers for the action's
    outcome."""
    truncation_bootstrap: Annotated[bool, Setting(has_flag=False)] = True
    """Whether a truncated episode goes on with the critic's value at its end."""
    group_baseline: Annotated[
        Literal["none", "leave_one_out", "state"],
        Setting(const="leave_one_out", synonyms=BASELINE_SYNONYMS),
    ] = "none"
    """What an episode's advantages are compared with; needs --group_size of at least 2.
    leave_one_out (or true): the mean first advantage of the other episodes of its task, as in
    RLOO (GRPO: its group's mean, always); shrunk, which is no more, means it. state: values of
    the states that other episodes of the task passed, too (info state_hash), the critic's where
    none did; credit is then an action's reward and what the state behind it is worth."""
    whiten_advantages: bool = True
    """Whether advantages are shifted and scaled to mean 0, deviation 1 (GRPO: never, its groups
    are scaled)."""
    reward_scale: Annotated[float, Setting("(0, inf)", has_flag=False)] = 1.0
    """What every reward is multiplied by before learning sees it; logs keep the raw ones."""
    overlong: Literal["keep", "mask", "penalty"] = "keep"
    """What becomes of actions that --max_new_tokens cut: keep (learned from like others), mask
    (no loss on their tokens) or penalty (overlong_penalty off their reward)."""
    overlong_penalty: Annotated[float, Setting("[0, inf)", has_flag=False)] = 0.5
    """What a cut action loses with --overlong penalty, in units of reward before it is scaled."""
    overlong_buffer: Annotated[int, Setting("[0, inf)", has_flag=False)] = 0
    """Tokens before --max_new_tokens over which that penalty rises from 0 to all of it, as in
    DAPO; 0: cut actions alone pay."""
    frozen_roles: Annotated[str | None, Setting(metavar="ROLE", many=True)] = None
    """Roles of a team (info["role"]) that play but learn nothing; the others learn from their
    own tokens. none: all learn."""
    permute_advantages: bool = False
    """Control experiment: advantages are shuffled among all action tokens, there is no entropy
    bonus, and the value loss leaves the language model untouched, which then has nothing to
    learn from."""
    action_logprob_norm: Annotated[
        Literal["sum", "token", "word"], Setting(group="single algorithms")
    ] = "token"
    """APPO: what an action's log-probability is divided by: nothing (sum: the true ratio, which
    clips long actions almost always), its number of tokens, or of words."""
    group_credit: Literal["episode", "step"] = "episode"
    """GRPO: what a token answers for: the whole episode's return, or (step) that from its
    action on, against the group's at their action of the same number."""
    group_std: bool = True
    """GRPO: whether a group's advantages are scaled to deviation 1; Dr. GRPO: false."""
    sequence_ratio: bool = False
    """GRPO: whether a row (an episode, where the template only appends) has one ratio, the
    geometric mean of its tokens', as in GSPO, whose loss is also --loss_aggregation row_mean,
    with clip ranges near 4e-4."""
    dynamic_sampling: Annotated[int, Setting("[1, inf)")] = 1
    """Rounds of collecting until --episodes_per_update episodes are in groups (--group_size)
    that did not all earn the same, the others being left out (DAPO); 1: one round, all are
    kept."""

    # Passes, minibatches, learning rates and AdamW.
    ppo_epoch: Annotated[int, Setting("[1, inf)", group="update", basic=True)] = 1
    """Passes over the collected episodes."""
    num_mini_batch: Annotated[int, Setting("[1, inf)", basic=True)] = 4
    """Optimiser steps of one pass."""
    gradient_cp_steps: Annotated[int, Setting("[1, inf)", alias="gradient_accumulation_steps")] = 1
    """Parts whose gradients are added up to one optimiser step; saves memory, changes no result."""
    max_microbatch_tokens: Annotated[int, Setting("[1, inf)")] = 4096
    """Tokens of one forward pass, with padding, or each once where prefixes are shared."""
    share_prefixes: Annotated[bool, Setting(metavar="on|off")] = True
    """Whether update and rollout compute tokens that rows begin with alike (a group's prompt,
    tools, earlier steps) once, where that is cheaper; gradients and samples are those of
    separate rows, up to rounding. --group_size gives rows of one prompt."""
    tree_mask_price: Annotated[float, Setting("(0, inf)", has_flag=False)] = 1.0
    """How many times as long attention takes with a mask over shared prefixes as without, where a
    device needs one: prefixes are shared where that pays at this price. No GPU has measured it."""
    gradient_checkpointing: bool = False
    """Whether the update keeps the inputs of layers alone and computes each layer again in the
    backward pass: less memory, a quarter to a half more time, the same gradient."""
    lr: Annotated[float, Setting("[0, inf)", basic=True)] = 8e-5
    """Learning rate of the language model."""
    critic_lr: Annotated[float, Setting("[0, inf)", basic=True)] = 3e-3
    """Learning rate of the value head."""
    lr_schedule: Annotated[Literal["constant", "linear", "cosine"], Setting(group="optimiser")] = (
        "constant"
    )
    """How both learning rates go on after the warm-up: constant, or falling to --min_lr_ratio
    by the end of --num_updates, in a straight line or along half a cosine."""
    warmup_updates: Annotated[int, Setting("[0, inf)")] = 0
    """Updates at the start over which both learning rates rise to their full size; 0: none."""
    min_lr_ratio: Annotated[float, Setting("[0, 1]")] = 0.0
    """Where linear and cosine schedules end, as a part of the learning rate."""
    adam_beta1: Annotated[float, Setting("[0, 1)", has_flag=False)] = 0.9
    """AdamW: decay of the mean of gradients."""
    adam_beta2: Annotated[float, Setting("[0, 1)", has_flag=False)] = 0.999
    """AdamW: decay of the mean of squared gradients."""
    adam_eps: Annotated[float, Setting("(0, inf)", has_flag=False)] = 1e-8
    """AdamW: added to the root of the squared gradients' mean."""
    adam_fused: Annotated[bool, Setting(has_flag=False)] = False
    """AdamW: whether a step is one kernel (fused). It rounds otherwise; no GPU has measured it."""
    weight_decay: Annotated[float, Setting("[0, inf)")] = 0.0
    """AdamW: decay of the weight matrices, of language model and critic; biases and norms never
    decay."""
    max_grad_norm: Annotated[float, Setting("(0, inf]")] = 1.0
    """Longest gradient, of language model and value head apart; inf: never cut."""

    # Losses: clipping, importance weights, entropy, aggregation, KL to the reference.
    clip_low: Annotated[float, Setting("(0, 1]", group="losses")] = 0.2
    """How far below 1 a probability ratio may fall to advantage."""
    clip_high: Annotated[float, Setting("(0, inf)")] = 0.28
    """How far above 1 a probability ratio may rise to advantage."""
    dual_clip: Annotated[float | None, Setting("(1, inf)", has_flag=False)] = None
    """Bound on the loss of a bad token that became likely, as a multiple of its advantage;
    none: no bound."""
    importance_cap: Annotated[float | None, Setting("(0, inf)")] = 2.0
    """Largest weight of a loss that makes up for sampling with other weights, another engine or
    other rounding than learn (--max_staleness, --rollout_engine vllm, passes in bfloat16):
    pi_learning / pi_sampling, cut there; none: not made up for."""
    entropy_coef: Annotated[float, Setting("[0, inf)")] = 0.002
    """Weight of the entropy bonus, per nat."""
    target_kl: Annotated[float | None, Setting("(0, inf)")] = 0.05
    """KL from the collecting policy beyond which half of a step is taken back, or all, which
    ends the update: nats a token of the actions that have an advantage, each action alike;
    times the policy's entropy where that is above 1 nat a token: free wording moves further.
    none: no bound."""
    loss_aggregation: Literal["token_mean", "action_mean", "row_mean", "token_sum"] = "token_mean"
    """What the loss is a mean over: tokens, actions (of their token means) or rows of tokens
    alike; token_sum: rows (of their token sums, over --max_episode_tokens), as in Dr. GRPO.
    Each weighs the same in all minibatches of an update."""
    kl_coef: Annotated[float, Setting("[0, inf)")] = 0.0
    """Weight of the divergence from the reference, the model as it was before the first update,
    per nat; 0: no reference is kept."""
    kl_mode: Annotated[Literal["reward", "k1", "k2", "k3"], Setting(has_flag=False)] = "k3"
    """Where that divergence counts: in each token's reward, or in the loss, estimated by k1
    (whose gradient is 0 on the mean), k2 (whose gradient is the divergence's) or k3."""

    # The critic: its model, head and losses.
    critic: Annotated[Literal["head", "lora", "full"], Setting(group="critic")] = "head"
    """What the critic reads with: a head on the policy's hidden states, an adapter of its own
    on the same base (lora), or a model of its own (full)."""
    team_critic: Literal["shared", "per_role", "central"] = "shared"
    """Critic of a team's roles: one value head for all (shared), or one for each (per_role),
    which value a role's tokens by what that role sees; central: by what all roles know and have
    read and said so far."""
    critic_sees: Literal["progress", "episode", "truth"] = "progress"
    """What values know beside the policy's own text: how far the episode is along the task's truth,
    where that is known (the environment's attribute ground_truth, else info's at the end); nothing
    more; or, in the critic, a row of its own with the truth in front. The policy never sees it."""
    critic_warmup_episodes: Annotated[int, Setting("[0, inf)")] = 0
    """Episodes of as many distinct tasks, as far as there are so many, that the start policy
    plays before the first update; the value head is fitted to their returns until it grows
    worse on a fifth of the tasks."""
    critic_warmup_updates: Annotated[int, Setting("[0, inf)", has_flag=False)] = 0
    """Former way to give --critic_warmup_episodes: in updates of --episodes_per_update."""
    critic_window_updates: Annotated[int, Setting("[0, inf)")] = 0
    """Updates whose episodes, with those that --dynamic_sampling leaves out, the value head is
    fitted to after each update, in place of the value loss within it; 0: the value loss."""
    init_critic_from: Annotated[str | None, Setting(metavar="FOLDER")] = None
    """Checkpoint folder whose critic this run starts with; none: that of the model folder, or a
    fresh one."""
    value_coef: Annotated[float, Setting("[0, inf)")] = 0.5
    """Weight of the value loss."""
    value_clip: Annotated[float | None, Setting("(0, inf)")] = None
    """How far a value may move to advantage in one update, in units of return; none: any."""
    huber_delta: Annotated[float | None, Setting("(0, inf)", has_flag=False)] = None
    """Error beyond which the value loss grows linearly, in units of return; none: never."""
    critic_head: Literal["linear", "mlp"] = "mlp"
    """Shape of the value head."""
    critic_hidden: Annotated[int, Setting("[1, inf)", has_flag=False)] = 128
    """Width of the value head, in units; mlp only."""
    critic_layers: Annotated[int, Setting("[1, inf)")] = 1
    """Last layers whose states the value head reads, side by side."""
    value_bins: Annotated[int, Setting("[0, inf)")] = 0
    """Bins from --value_low to --value_high that the critic classifies returns into, by
    cross-entropy; a value is the mean over them. 0: none, it predicts the return itself."""
    value_low: float = 0.0
    """Lowest bin, in units of return."""
    value_high: float = 1.0
    """Highest bin, in units of return."""
    critic_detach: bool = True
    """Whether the value loss leaves the language model untouched."""
