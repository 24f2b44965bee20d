"""The run: preset, seed, environment, algorithm, results, device and precision."""

from __future__ import annotations

from dataclasses import dataclass

from fctncalling.algorithms.config.config_fields import field
from fctncalling.algorithms.config.model_presets import PRESETS

ALGORITHMS_ELSEWHERE = {
    "ppo": "TPPO (token by token) or APPO (action by action)",
    **dict.fromkeys(("reinforce", "reinforce++", "rloo"), "GRPO"),
    "dr_grpo": "GRPO --group_std false --loss_aggregation token_sum",
    "dapo": "GRPO --dynamic_sampling 4 --overlong penalty",
    "gspo": "GRPO --sequence_ratio --loss_aggregation row_mean",
}
"""What other trainers call an algorithm, in small letters -> what it is here."""


@dataclass
class RunSettings:
    """The run: preset, seed, environment, algorithm, results, device and precision."""

    preset: str | None = field(
        None,
        "Starting values for a model of about this size, which other flags override; -lora: "
        "with adapters. Conventional values, not tuned here. none: those of the embedded "
        "model.",
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
        "Learning algorithm. TPPO: token-level PPO whose targets come from Bellman backup "
        "with action decomposition (not trust-region PPO): time passes between actions, not "
        "between the tokens of one. POAD: the same as published, where lambda fades inside an "
        "action too. NTPO: naive token-level PPO, where every token is a step in time. APPO: "
        "action-level PPO, one ratio and one advantage an action (not RLlib's asynchronous "
        "PPO). GRPO: no critic, episodes of one task compared with each other.",
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
        "Continue a run: a checkpoint folder, last, best (on held-out tasks), or the bare "
        "flag (auto): the newest, or the beginning where a run was killed before it had "
        "saved.",
        const="auto",
        basic=True,
        metavar="FOLDER",
    )
    save_interval: int = field(
        10,
        "Updates between two checkpoints, beside those of evaluations better than all before; "
        "0: only at the end.",
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
        "Whether processes share out the weights too (FSDP2); accelerate's configuration may "
        "ask for it as well.",
    )
    base_dtype: str = field(
        "auto",
        "Precision of the language model's own weights; auto: bfloat16 on cuda where adapters "
        "learn in their place, else float32. What learns is in float32 always.",
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
        "would round every log-probability to about a hundredth.",
    )
    torch_threads: int = field(
        1,
        "CPU threads of torch; more than the free cores is many times slower.",
        interval="[1, inf)",
    )
