"""Rewards and advantages: discounts, lambdas, scaling, cut actions, one algorithm's own."""

from __future__ import annotations

from dataclasses import dataclass

from fctncalling.algorithms.config.config_fields import field


@dataclass
class CreditSettings:
    """Rewards and advantages: discounts, lambdas, scaling, cut actions, one algorithm's own."""

    gamma: float | None = field(
        None,
        "Discount from one action to the next; none: 0.99, and 1 (no discount) for GRPO, "
        "whose groups would otherwise be told apart by their lengths alone.",
        interval="[0, 1]",
        group="rewards and credit",
    )
    lam: float = field(
        0.95, "Lambda of the advantage estimate from one action to the next.", interval="[0, 1]"
    )
    lam_value: float | None = field(
        None,
        "Lambda of the critic's targets, where it is to differ from the advantages'; none: it "
        "does not.",
        interval="[0, 1]",
    )
    gamma_token: float = field(
        1.0,
        "TPPO: discount between the tokens of one action; 1: wording costs no time.",
        interval="[0, 1]",
    )
    lam_token: float = field(
        1.0,
        "TPPO: lambda between the tokens of one action; 1: every token answers for the "
        "action's outcome.",
        interval="[0, 1]",
    )
    truncation_bootstrap: bool = field(
        True, "Whether a truncated episode goes on with the critic's value at its end."
    )
    group_baseline: str = field(
        "none",
        "What an episode's advantages are compared with; needs --group_size of at least 2. "
        "leave_one_out (or true): the mean first advantage of the other episodes of its task, as "
        "in RLOO (GRPO: its group's mean, always). shrunk: that of the same action, by its number; "
        "it and the critic each for the share that leaves the least variance among the other "
        "tasks. state: values of the states that other "
        "episodes of the task passed, too (info state_hash), the critic's where none did; "
        "credit is then an action's reward and what the state behind it is worth.",
        choices=("none", "leave_one_out", "shrunk", "state"),
        const="leave_one_out",
        synonyms={"false": "none", "true": "leave_one_out"},
    )
    whiten_advantages: bool = field(
        True,
        "Whether advantages are shifted and scaled to mean 0, deviation 1 (GRPO: never, its "
        "groups are scaled).",
    )
    reward_scale: float = field(
        1.0,
        "What every reward is multiplied by before learning sees it; logs keep the raw ones.",
        interval="(0, inf)",
    )
    overlong: str = field(
        "keep",
        "What becomes of actions that --max_new_tokens cut: keep (learned from like others), "
        "mask (no loss on their tokens) or penalty (--overlong_penalty off their reward).",
        choices=("keep", "mask", "penalty"),
    )
    overlong_penalty: float = field(
        0.5,
        "What a cut action loses with --overlong penalty, in units of reward before it is scaled.",
        interval="[0, inf)",
    )
    overlong_buffer: int = field(
        0,
        "Tokens before --max_new_tokens over which that penalty rises from 0 to all of it, as "
        "in DAPO; 0: cut actions alone pay.",
        interval="[0, inf)",
    )
    frozen_roles: str | None = field(
        None,
        'Roles of a team (info["role"]) that play but learn nothing; the others learn from their '
        "own tokens. none: all learn.",
        metavar="ROLE",
        many=True,
    )
    permute_advantages: bool = field(
        False,
        "Control experiment: advantages are shuffled among all action tokens and the value "
        "loss leaves the language model untouched, which then has nothing to learn from.",
    )
    action_logprob_norm: str = field(
        "token",
        "APPO: what an action's log-probability is divided by: nothing (sum: the true ratio, "
        "which clips long actions almost always), its number of tokens, or of words.",
        choices=("sum", "token", "word"),
        group="single algorithms",
    )
    group_credit: str = field(
        "episode",
        "GRPO: what a token answers for: the whole episode's return, or (step) that from its "
        "action on, against the group's at their action of the same number.",
        choices=("episode", "step"),
    )
    group_std: bool = field(
        True, "GRPO: whether a group's advantages are scaled to deviation 1; Dr. GRPO: false."
    )
    sequence_ratio: bool = field(
        False,
        "GRPO: whether a row (an episode, where the template only appends) has one ratio, the "
        "geometric mean of its tokens', as in GSPO, whose loss is also --loss_aggregation "
        "row_mean, with clip ranges near 4e-4.",
    )
    dynamic_sampling: int = field(
        1,
        "Rounds of collecting until --episodes_per_update episodes are in groups "
        "(--group_size) that did not all earn the same, the others being left out (DAPO); 1: one "
        "round, all are kept.",
        interval="[1, inf)",
    )
