"""The run, tasks and model, collecting episodes, evaluation."""

from __future__ import annotations

from dataclasses import dataclass

from fctncalling.algorithms.config.config_fields import setting
from fctncalling.algorithms.config.model_presets import PRESETS

ALGORITHM_NAMES = ("TPPO", "POAD", "NTPO", "APPO", "GRPO")  # keys of `ppo.ALGORITHMS`
ALGORITHMS_ELSEWHERE = {
    "ppo": "TPPO (token by token) or APPO (action by action)",
    **dict.fromkeys(("reinforce", "reinforce++", "rloo"), "GRPO"),
    "dr_grpo": "GRPO --group_std false --loss_aggregation token_sum",
    "dapo": "GRPO --dynamic_sampling 4 --overlong penalty",
    "gspo": "GRPO --sequence_ratio --loss_aggregation row_mean",
}
"""What other trainers call an algorithm, in small letters -> what it is here."""


@dataclass
class RunningSettings:
    """Settings of running: tasks, model, rollout, evaluation."""

    # The run: preset, seed, environment, algorithm, results, device and precision.

    preset: str | None = setting(
        None,
        "Starting values for a model of about this size, which other flags override; -lora: with "
        "adapters. Conventional values, not tuned here. none: those of the embedded model.",
        choices=tuple(PRESETS),
        basic=True,
        group="run and device",
    )
    seed: int = setting(
        1,
        "Seed of every random stream of the run.",
        interval="[0, inf)",
        group="run and device",
        basic=True,
    )
    env_name: str = setting(
        "fctncalling_env",
        'Environment: "fctncalling_env" is this project\'s, any other name goes to gymnasium.make.',
        basic=True,
    )
    algorithm_name: str = setting(
        "TPPO",
        "Learning algorithm. TPPO: token-level PPO whose targets come from Bellman backup "
        "with action decomposition (not trust-region PPO): time passes between actions, not "
        "between the tokens of one. POAD: the same as published, where lambda fades inside an "
        "action too. NTPO: naive token-level PPO, where every token is a step in time. APPO: "
        "action-level PPO, one ratio and one advantage an action (not RLlib's asynchronous "
        "PPO). GRPO: no critic, episodes of one task compared with each other. MODULE:NAME: an "
        "`Algorithm` of your own.",
        choices=ALGORITHM_NAMES,
        own=True,
        basic=True,
        meant=ALGORITHMS_ELSEWHERE,
    )
    experiment_name: str = setting("check", "First folder below --results_dir.", basic=True)
    results_dir: str = setting(
        "results", "Folder that results/<experiment>/<model>/<dataset>/<algorithm> starts at."
    )
    num_updates: int = setting(
        40, "Length of the run, in policy updates.", interval="[0, inf)", basic=True
    )
    resume: str | None = setting(
        None,
        "Continue a run: a checkpoint folder, last, best (on held-out tasks), or the bare flag "
        "(auto): the newest, or the beginning where a run was killed before it had saved.",
        const="auto",
        basic=True,
        metavar="FOLDER",
    )
    save_interval: int = setting(
        10,
        "Updates between two checkpoints, beside those of evaluations better than all before; "
        "0: only at the end.",
        interval="[0, inf)",
        basic=True,
    )
    device: str = setting(
        "auto",
        "Where tensors live; auto takes cuda, mps, cpu in this order.",
        choices=("auto", "cpu", "cuda", "mps"),
        basic=True,
    )
    fsdp: bool = setting(
        False,
        "Whether processes share out the weights too (FSDP2); accelerate's configuration may "
        "ask for it as well.",
    )
    base_dtype: str = setting(
        "auto",
        "Precision of the language model's own weights; auto: bfloat16 on cuda where adapters "
        "learn in their place, else float32. What learns is in float32 always.",
        choices=("auto", "float32", "bfloat16"),
    )
    compute_dtype: str = setting(
        "auto",
        "Precision of passes through the language model; auto: bfloat16 on cuda, else float32.",
        choices=("auto", "float32", "bfloat16"),
    )
    cast_lm_head_to_fp32: bool = setting(
        True,
        "Whether the output layer computes in float32 where passes compute in bfloat16, which "
        "would round every log-probability to about a hundredth.",
    )
    torch_threads: int = setting(
        1,
        "CPU threads of torch; more than the free cores is many times slower.",
        interval="[1, inf)",
    )

    # Tasks and model files, LoRA adapters, demonstrations to learn first.

    dataset_path: str | None = setting(
        None,
        "Training tasks, a BFCL-format file; none: the embedded tasks.",
        group="tasks and model",
        basic=True,
    )
    eval_dataset_path: str | None = setting(
        None, "Held-out tasks; none: the embedded ones, or a fifth of --dataset_path.", basic=True
    )
    model_name_or_path: str | None = setting(
        None,
        "Model folder, GGUF file or hub name; none: the embedded small model.",
        basic=True,
        metavar="MODEL",
    )
    lora_r: int = setting(
        0,
        "Rank of LoRA adapters, which then learn in place of the model's own weights; 0: no "
        "adapters.",
        interval="[0, inf)",
        group="adapters (LoRA)",
        basic=True,
    )
    lora_alpha: float = setting(
        16.0,
        "Scale of the adapters: what they add is multiplied by alpha / rank.",
        interval="(0, inf)",
    )
    lora_targets: str = setting(
        "all-linear",
        "Layers that get an adapter: all-linear (all but the output), or names parted by "
        "commas, such as q_proj,v_proj.",
        metavar="NAMES",
    )
    role_adapters: bool = setting(
        False,
        'Whether each role of a team (info["role"]) has an adapter of its own on one base, and '
        "learns nothing of what the others learn.",
    )
    sft_tasks: str | None = setting(
        None,
        "Tasks whose ground truths, played through the environment, are learned first: a file of "
        'tasks or of logged conversations, or "dataset" for the training tasks of --dataset_path. '
        "With --num_updates 0 nothing else is learned.",
        group="supervised fine-tuning (SFT)",
        basic=True,
        metavar="FILE",
    )
    sft_episodes: str | None = setting(
        None,
        "Logged training episodes whose successful ones are learned first: a run's folder, its "
        "episodes folder or one file (rejection sampling, expert iteration).",
        metavar="FOLDER",
    )
    sft_epochs: int = setting(1, "Passes over the demonstrations.", interval="[1, inf)")
    sft_lr: float = setting(
        1e-4, "Highest learning rate of the supervised stage.", interval="(0, inf)"
    )
    sft_batch_size: int = setting(
        8,
        "Demonstrations an optimiser step (rows, where a template rewrites history).",
        interval="[1, inf)",
    )
    sft_group_by_prefix: bool = setting(
        False,
        "Put demonstrations that begin alike (with the same tools) into one step, where "
        "--share_prefixes computes their common tokens once; false: those of similar length.",
    )
    sft_fixed_prefixes: bool = setting(
        False,
        "Read the tokens that all demonstrations of a pass begin with (their tools) without a "
        "gradient, which takes less time: Llama and Qwen on a CPU.",
    )
    sft_save_interval: int = setting(
        25,
        "Supervised steps between two checkpoints; 0: only at the stage's end.",
        interval="[0, inf)",
    )

    # Collecting episodes: how many, how long, slow tools, sampling and reward.

    n_rollout_threads: int = setting(
        128,
        "Episodes that run side by side.",
        interval="[1, inf)",
        group="collecting episodes",
        basic=True,
        aliases=("num_envs",),
    )
    episodes_per_update: int = setting(
        256, "Episodes collected for one update.", interval="[1, inf)", basic=True
    )
    group_size: int | None = setting(
        None,
        "Episodes of each task in one update, in environments reset with one seed, so that they "
        "begin alike; GRPO compares them with each other. none: 8 for GRPO, 1 for the others.",
        interval="[1, inf)",
    )
    max_new_tokens: int = setting(
        64, "Longest action, in tokens; a longer one is cut.", interval="[1, inf)", basic=True
    )
    max_episode_tokens: int = setting(
        1024,
        "Longest episode, in tokens of context and actions; a longer one is truncated.",
        interval="[2, inf)",
        basic=True,
    )
    max_steps_per_turn: int = setting(
        20, "Steps after which a turn fails its task, as BFCL counts.", interval="[1, inf)"
    )
    wait_for_tools: str = setting(
        "auto",
        "Whether generation waits for all environments' answers, so that a seed reproduces a "
        "run, or goes on without the slow ones; auto: waits until an environment is slow that is "
        "not declared quick.",
        choices=("auto", "always", "never"),
    )
    tool_deadline_s: float | None = setting(
        600.0,
        "Seconds that its environment may work on one episode; then that is dropped as "
        "invalid, and the environment replaced. none: any time.",
        interval="(0, inf)",
    )
    max_cache_tokens: int | None = setting(
        None,
        "Tokens whose attention caches may be held at once; as many episodes run side by side "
        "as surely fit, and shared prefixes of episodes that ended are kept in what is left. "
        "none: any number.",
        interval="[2, inf)",
    )
    temperature: float = setting(
        1.0, "Sampling temperature; the loss uses the same distribution.", interval="(0, inf)"
    )
    reward: str = setting(
        "strict",
        "success: 1 for a solved task; progress: the share of its turns that are right; "
        "strict, strict_progress: the same where nothing that BFCL forgives had to be "
        "forgiven; MODULE:NAME: your own function (StepRecord, Verdict or None) -> number.",
        choices=("success", "progress", "strict", "strict_progress"),
        own=True,
        basic=True,
    )
    rollout_engine: str = setting(
        "local",
        "What samples actions: the engine in this project's processes, or vLLM servers "
        "(--vllm_url) that get the adapter of --lora_r after each update, or else all weights.",
        choices=("local", "vllm"),
    )
    max_staleness: int = setting(
        0,
        "Updates by which the weights that play are behind those that learn; 1: workers play for "
        "the next update while this one is learned, 2: for the two after it, and so on.",
        interval="[0, inf)",
    )

    # Evaluation on held-out tasks, and which tasks are played.

    eval_interval: int = setting(
        10,
        "Updates between two evaluations; 0: only before and after.",
        interval="[0, inf)",
        basic=True,
        group="collecting episodes",
    )
    eval_episodes: int = setting(320, "Held-out episodes of one evaluation.", interval="[1, inf)")
    eval_samples: int = setting(
        1,
        "Sampled episodes of each held-out task; from 2 on evaluation.json has pass@k and pass^k.",
        interval="[1, inf)",
    )
    task_sampling: str = setting(
        "uniform",
        "How tasks are drawn. uniform: each comes once before any comes again; success: the "
        "likelier, the closer its success so far (at first its category's, and of like difficulty "
        "where tasks say theirs) is to one half. A category that always succeeds is hardly played "
        "and can be forgotten: --mixture holds its share.",
        choices=("uniform", "success"),
        group="which tasks are played",
    )
    mixture: str | None = setting(
        None,
        "Categories and their weights, such as multi_turn_base=2,simple_python=1; those not "
        "named are left out. none: as the tasks are.",
        metavar="WEIGHTS",
    )
    curriculum: str | None = setting(
        None,
        "Stages from easy to hard, such as simple_python+multiple:10,2:20: ten updates on two "
        "categories, twenty on tasks of at most 2 turns, then all tasks. With a point, 0.4:20: "
        "twenty on tasks of at most that difficulty, where tasks say theirs. none: all tasks at "
        "once.",
        metavar="STAGES",
    )
    starts: str = setting(
        "none",
        "Where episodes of an update begin. prefix: three quarters of them behind a part of their "
        "ground truth, which is played as context, so that about half of these succeed; a group "
        "shares its start. Needs GRPO, or --group_baseline leave_one_out or state. Success rates "
        "and evaluations are of whole tasks. none: at the task's beginning.",
        choices=("none", "prefix"),
    )
