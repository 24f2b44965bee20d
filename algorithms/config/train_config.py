"""Every setting of a training run, in one flat dataclass."""

from __future__ import annotations

import argparse
import dataclasses
from dataclasses import dataclass
from typing import Any, Self

from fctncalling.algorithms.config import config_fields
from fctncalling.algorithms.config.config_fields import SettingError, check_ranges, field
from fctncalling.algorithms.config.model_presets import PRESETS
from fctncalling.algorithms.config.setting_conflicts import check_combinations

ALGORITHMS_ELSEWHERE = {
    "ppo": "TPPO (token by token) or APPO (action by action)",
    **dict.fromkeys(("reinforce", "reinforce++", "rloo"), "GRPO"),
    "dr_grpo": "GRPO --group_std false --loss_aggregation token_sum",
    "dapo": "GRPO --dynamic_sampling 4 --overlong penalty",
    "gspo": "GRPO --sequence_ratio --loss_aggregation row_mean",
}
"""What other trainers call an algorithm, in small letters -> what it is here."""


@dataclass
class TrainConfig:
    """Settings of a training run. A bad value raises SettingError naming flag, value and range."""

    # The run.
    preset: str | None = field(
        None,
        "Starting values for a model of about this size, which other flags override; -lora: with "
        "adapters. "
        "Conventional values, not tuned here. none: those of the embedded model.",
        choices=tuple(PRESETS),
        basic=True,
        group="run and device",
    )
    seed: int = field(
        1,
        "Seed of every random stream of the run.",
        interval="[0, inf)",
        group="run and device",
        basic=True,
    )
    env_name: str = field(
        "fctncalling_env",
        'Environment: "fctncalling_env" is this project\'s, any other name goes to gymnasium.make.',
        basic=True,
    )
    algorithm_name: str = field(
        "TPPO",
        "Learning algorithm. TPPO: token-level PPO whose targets come from Bellman backup with "
        "action decomposition "
        "(not trust-region PPO): time passes between actions, not between the tokens of one. POAD: "
        "the same as "
        "published, where lambda fades inside an action too. NTPO: naive token-level PPO, where "
        "every token is a step "
        "in time. APPO: action-level PPO, one ratio and one advantage an action (not RLlib's "
        "asynchronous PPO). GRPO: "
        "no critic, episodes of one task compared with each other.",
        choices=("TPPO", "POAD", "NTPO", "APPO", "GRPO"),
        basic=True,
        meant=ALGORITHMS_ELSEWHERE,
    )
    experiment_name: str = field("check", "First folder below --results_dir.", basic=True)
    results_dir: str = field(
        "results", "Folder that results/<experiment>/<model>/<dataset>/<algorithm> starts at."
    )
    num_updates: int = field(
        40, "Length of the run, in policy updates.", interval="[0, inf)", basic=True
    )
    resume: str | None = field(
        None,
        "Continue a run: a checkpoint folder, last, best (on held-out tasks), or the bare flag "
        "(auto): the "
        "newest, or the beginning where a run was killed before it had saved.",
        const="auto",
        basic=True,
        metavar="FOLDER",
    )
    save_interval: int = field(
        10,
        "Updates between two checkpoints, beside those of evaluations better than all before; 0: "
        "only at the end.",
        interval="[0, inf)",
        basic=True,
    )
    device: str = field(
        "auto",
        "Where tensors live; auto takes cuda, mps, cpu in this order.",
        choices=("auto", "cpu", "cuda", "mps"),
        basic=True,
    )
    fsdp: bool = field(
        False,
        "Whether processes share out the weights too (FSDP2); accelerate's configuration may ask "
        "for it as well.",
    )
    base_dtype: str = field(
        "auto",
        "Precision of the language model's own weights; auto: bfloat16 on cuda where adapters "
        "learn in their "
        "place, else float32. What learns is in float32 always.",
        choices=("auto", "float32", "bfloat16"),
    )
    compute_dtype: str = field(
        "auto",
        "Precision of passes through the language model; auto: bfloat16 on cuda, else float32.",
        choices=("auto", "float32", "bfloat16"),
    )
    cast_lm_head_to_fp32: bool = field(
        True,
        "Whether the output layer computes in float32 where passes compute in bfloat16, which "
        "would round every "
        "log-probability to about a hundredth.",
    )
    torch_threads: int = field(
        1,
        "CPU threads of torch; more than the free cores is many times slower.",
        interval="[1, inf)",
    )

    # What is learned from.
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
        "Model folder or hub name; none: the embedded small model.",
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
        "Layers that get an adapter: all-linear (all but the output), or names parted by commas, "
        "such as "
        "q_proj,v_proj.",
        metavar="NAMES",
    )

    # Collecting episodes.
    n_rollout_threads: int = field(
        128,
        "Episodes that run side by side.",
        interval="[1, inf)",
        group="collecting episodes",
        basic=True,
        aliases=("num_envs",),
    )
    episodes_per_update: int = field(
        256, "Episodes collected for one update.", interval="[1, inf)", basic=True
    )
    max_new_tokens: int = field(
        64, "Longest action, in tokens; a longer one is cut.", interval="[1, inf)", basic=True
    )
    max_episode_tokens: int = field(
        1024,
        "Longest episode, in tokens of context and actions; a longer one is truncated.",
        interval="[2, inf)",
        basic=True,
    )
    max_steps_per_turn: int = field(
        20, "Steps after which a turn fails its task, as BFCL counts.", interval="[1, inf)"
    )
    env_processes: int = field(
        0,
        "Processes that environments work in, beside this one; 0: each works in a thread of this "
        "one.",
        interval="[0, inf)",
    )
    wait_for_tools: str = field(
        "auto",
        "Whether generation waits for all environments' answers, so that a seed reproduces a run, "
        "or goes on without the slow ones, so that reproducing it takes --replay_arrivals too; "
        "auto: waits until an environment is slow that is not declared quick.",
        choices=("auto", "always", "never"),
    )
    tool_deadline_s: float | None = field(
        600.0,
        "Seconds that its environment may work on one episode; then that is dropped as invalid, "
        "and the "
        "environment replaced. none: any time.",
        interval="(0, inf)",
    )
    replay_arrivals: str | None = field(
        None,
        "A run's arrivals.jsonl: slow tools' answers join at the same moments as in that run. "
        "none: they join when they come.",
        metavar="FILE",
    )
    max_cache_tokens: int | None = field(
        None,
        "Tokens whose attention caches may be held at once; as many episodes run side by side as "
        "surely fit. "
        "none: any number.",
        interval="[2, inf)",
    )
    temperature: float = field(
        1.0, "Sampling temperature; the loss uses the same distribution.", interval="(0, inf)"
    )
    reward: str = field(
        "strict",
        "success: 1 for a solved task; progress: the share of its turns that are right; strict, "
        "strict_progress: the same where nothing that BFCL forgives had to be forgiven; "
        "MODULE:NAME: your own function "
        "(StepRecord, Verdict or None) -> number.",
        choices=("success", "progress", "strict", "strict_progress"),
        own=True,
        basic=True,
    )
    rollout_engine: str = field(
        "local",
        "What samples actions: the engine in this project's processes, or a vLLM server "
        "(--vllm_url) that "
        "gets the adapter of --lora_r after each update.",
        choices=("local", "vllm"),
    )
    max_staleness: int = field(
        0,
        "Updates by which the weights that play may be behind those that learn; 1: workers play "
        "for the next update "
        "while this one is learned.",
        interval="[0, 1]",
    )
    cut_patience: int = field(
        5,
        "Updates in a row in which every action was cut, or had no room, and no episode earned "
        "more than another, "
        "after which the run is saved and ends; 0: never.",
        interval="[0, inf)",
    )
    eval_interval: int = field(
        10,
        "Updates between two evaluations; 0: only before and after.",
        interval="[0, inf)",
        basic=True,
    )
    eval_episodes: int = field(320, "Held-out episodes of one evaluation.", interval="[1, inf)")
    eval_samples: int = field(
        1,
        "Sampled episodes of each held-out task; from 2 on evaluation.json has pass@k and pass^k.",
        interval="[1, inf)",
    )

    # Which tasks are played.
    task_sampling: str = field(
        "uniform",
        "How tasks are drawn. uniform: each comes once before any comes again; success: the "
        "likelier, the "
        "closer its success so far (at first its category's) is to one half.",
        choices=("uniform", "success"),
        group="which tasks are played",
    )
    mixture: str | None = field(
        None,
        "Categories and their weights, such as multi_turn_base=2,simple_python=1; those not named "
        "are left out. "
        "none: as the tasks are.",
        metavar="WEIGHTS",
    )
    curriculum: str | None = field(
        None,
        "Stages from easy to hard, such as simple_python+multiple:10,2:20: ten updates on two "
        "categories, twenty "
        "on tasks of at most 2 turns, then all tasks. none: all tasks at once.",
        metavar="STAGES",
    )

    # Credit.
    gamma: float | None = field(
        None,
        "Discount from one action to the next; none: 0.99, and 1 (no discount) for GRPO, whose "
        "groups would "
        "otherwise be told apart by their lengths alone.",
        interval="[0, 1]",
        group="rewards and credit",
    )
    lam: float = field(
        0.95, "Lambda of the advantage estimate from one action to the next.", interval="[0, 1]"
    )
    lam_value: float | None = field(
        None,
        "Lambda of the critic's targets, where it is to differ from the advantages'; none: it does "
        "not.",
        interval="[0, 1]",
    )
    gamma_token: float = field(
        1.0,
        "TPPO: discount between the tokens of one action; 1: wording costs no time.",
        interval="[0, 1]",
    )
    lam_token: float = field(
        1.0,
        "TPPO: lambda between the tokens of one action; 1: every token answers for the action's "
        "outcome.",
        interval="[0, 1]",
    )
    truncation_bootstrap: bool = field(
        True, "Whether a truncated episode goes on with the critic's value at its end."
    )
    whiten_advantages: bool = field(
        True,
        "Whether advantages are shifted and scaled to mean 0, deviation 1 (GRPO: never, its groups "
        "are scaled).",
    )
    reward_scale: float = field(
        1.0,
        "What every reward is multiplied by before learning sees it; logs keep the raw ones.",
        interval="(0, inf)",
    )
    normalize_rewards: bool = field(
        False,
        "Whether rewards are divided by the deviation of all episodes' returns so far (not "
        "shifted).",
    )
    overlong: str = field(
        "keep",
        "What becomes of actions that --max_new_tokens cut: keep (learned from like others), mask "
        "(no loss on "
        "their tokens) or penalty (--overlong_penalty off their reward).",
        choices=("keep", "mask", "penalty"),
    )
    overlong_penalty: float = field(
        0.5,
        "What a cut action loses with --overlong penalty, in units of reward.",
        interval="[0, inf)",
    )
    overlong_buffer: int = field(
        0,
        "Tokens before --max_new_tokens over which that penalty rises from 0 to all of it, as in "
        "DAPO; 0: cut "
        "actions alone pay.",
        interval="[0, inf)",
    )
    permute_advantages: bool = field(
        False,
        "Control experiment: advantages are shuffled among all action tokens and the value loss "
        "leaves the "
        "language model untouched, which then has nothing to learn from.",
    )

    action_logprob_norm: str = field(
        "token",
        "APPO: what an action's log-probability is divided by: nothing (sum: the true ratio, which "
        "clips long "
        "actions almost always), its number of tokens, or of words.",
        choices=("sum", "token", "word"),
        group="single algorithms",
    )
    group_size: int = field(
        8,
        "GRPO: episodes of each task in one update, compared with each other.",
        interval="[2, inf)",
    )
    group_credit: str = field(
        "episode",
        "GRPO: what a token answers for: the whole episode's return, or (step) that from its "
        "action on, "
        "against the group's at their action of the same number.",
        choices=("episode", "step"),
    )
    group_std: bool = field(
        True, "GRPO: whether a group's advantages are scaled to deviation 1; Dr. GRPO: false."
    )
    sequence_ratio: bool = field(
        False,
        "GRPO: whether a row (an episode, where the template only appends) has one ratio, the "
        "geometric mean of "
        "its tokens', as in GSPO, whose loss is also --loss_aggregation row_mean, with clip ranges "
        "near 4e-4.",
    )
    dynamic_sampling: int = field(
        1,
        "GRPO: rounds of collecting until --episodes_per_update episodes are in groups that did "
        "not all earn the "
        "same, the others being left out (DAPO); 1: one round, all are kept.",
        interval="[1, inf)",
    )

    # The update.
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
        4096, "Padded tokens of one forward pass.", interval="[1, inf)"
    )
    lr: float = field(8e-5, "Learning rate of the language model.", interval="[0, inf)", basic=True)
    critic_lr: float = field(
        3e-3, "Learning rate of the value head.", interval="[0, inf)", basic=True
    )
    lr_schedule: str = field(
        "constant",
        "How both learning rates go on after the warm-up: constant, or falling to --min_lr_ratio "
        "by the "
        "end of --num_updates, in a straight line or along half a cosine.",
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
        "AdamW: decay of the weight matrices, of language model and critic; biases and norms never "
        "decay.",
        interval="[0, inf)",
    )
    max_grad_norm: float = field(
        1.0,
        "Longest gradient, of language model and value head apart; inf: never cut.",
        interval="(0, inf]",
    )
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
        "Largest weight of a loss that makes up for sampling with other weights, another engine or "
        "other rounding "
        "than learn (--max_staleness 1, --rollout_engine vllm, passes in bfloat16): pi_learning / "
        "pi_sampling, cut "
        "there; none: not made up for.",
        interval="(0, inf)",
    )
    entropy_coef: float = field(0.002, "Weight of the entropy bonus, per nat.", interval="[0, inf)")
    entropy_target: float | None = field(
        None,
        "Entropy, in nats a token, that the bonus holds the policy to: after each update "
        "--entropy_coef goes up "
        "by --entropy_coef_step where entropy is below it, else down, never below 0. none: "
        "--entropy_coef stays.",
        interval="(0, inf)",
    )
    entropy_coef_step: float = field(
        0.001, "What --entropy_target changes --entropy_coef by, an update.", interval="(0, inf)"
    )
    target_kl: float | None = field(
        0.05,
        "KL from the collecting policy, in nats a token, at which an update stops early; none: "
        "never.",
        interval="(0, inf)",
    )
    loss_aggregation: str = field(
        "token_mean",
        "What the loss is a mean over: tokens, actions (of their token means) or rows of tokens "
        "alike; "
        "token_sum: rows (of their token sums, over --loss_token_divisor), as in Dr. GRPO. Each "
        "weighs the same in all "
        "minibatches of an update.",
        choices=("token_mean", "action_mean", "row_mean", "token_sum"),
    )
    loss_token_divisor: int | None = field(
        None,
        "token_sum: the constant that a row's sum is divided by, in tokens; none: "
        "--max_episode_tokens, the "
        "longest that a row can be.",
        interval="[1, inf)",
    )

    kl_coef: float = field(
        0.0,
        "Weight of the divergence from the reference, the model as it was before the first update, "
        "per nat; 0: no "
        "reference is kept.",
        interval="[0, inf)",
    )
    kl_mode: str = field(
        "k3",
        "Where that divergence counts: in each token's reward, or in the loss, estimated by k1 "
        "(whose gradient "
        "is 0 on the mean), k2 (whose gradient is the divergence's) or k3.",
        choices=("reward", "k1", "k2", "k3"),
    )

    # The critic.
    critic: str = field(
        "head",
        "What the critic reads with: a head on the policy's hidden states, an adapter of its own "
        "on the same "
        "base (lora), or a model of its own (full).",
        choices=("head", "lora", "full"),
        group="critic",
    )
    critic_warmup_updates: int = field(
        0,
        "Updates at the start in which the critic alone learns, the language model standing still.",
        interval="[0, inf)",
    )
    init_critic_from: str | None = field(
        None,
        "Checkpoint folder whose critic this run starts with; none: that of the model folder, or a "
        "fresh one.",
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

    def __post_init__(self) -> None:
        check_ranges(self)
        itself: Any = self  # pyright knows this file by its folder and by its link
        check_combinations(itself)

    @property
    def discount(self) -> float:
        """The discount from one action to the next: --gamma, or what the algorithm has where it is
        left open.
        """
        if self.gamma is not None:
            return self.gamma
        return 1.0 if self.algorithm_name == "GRPO" else 0.99

    @property
    def detaches_critic(self) -> bool:
        """Whether the value loss trains the critic alone: where asked for, and in the control
        experiment.
        """
        return self.critic_detach or self.permute_advantages

    @classmethod
    def from_preset(cls, name: str, **changes: Any) -> Self:
        """Return the settings of a --preset, with changes."""
        if name not in PRESETS:
            raise SettingError(f"--preset: got {name!r}, expected one of {', '.join(PRESETS)}")
        return cls(**{**PRESETS[name], "preset": name, **changes})

    @classmethod
    def from_args(cls, namespace: argparse.Namespace) -> Self:
        """Return the settings of parsed arguments; arguments that are no field of ours are left to
        others.
        """
        return cls(
            **{field.name: getattr(namespace, field.name) for field in dataclasses.fields(cls)}
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add a flag to the parser for every field of TrainConfig."""
    config_fields.add_arguments(parser, TrainConfig)
