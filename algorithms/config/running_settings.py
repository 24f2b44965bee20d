"""The run, tasks and model, collecting episodes, evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from fctncalling.algorithms.config.config_fields import Setting, Settings
from fctncalling.algorithms.config.model_presets import PRESETS

ALGORITHM_NAMES = ("TPPO", "POAD", "NTPO", "APPO", "GRPO")  # keys of `ppo.ALGORITHMS`
SUPERVISED = "supervised fine-tuning (SFT)"
REWARD_NAMES = ("success", "progress", "strict", "strict_progress")
ALGORITHMS_ELSEWHERE = {
    "ppo": "TPPO (token by token) or APPO (action by action)",
    **dict.fromkeys(("reinforce", "reinforce++", "rloo"), "GRPO"),
    "dr_grpo": "GRPO --group_std false --loss_aggregation token_sum",
    "dapo": "GRPO --dynamic_sampling 4 --overlong penalty",
    "gspo": "GRPO --sequence_ratio --loss_aggregation row_mean",
}
"""What other trainers call an algorithm, in small letters -> what it is here."""


@dataclass
class RunningSettings(Settings):
    """Settings of running: tasks, model, rollout, evaluation."""

    # The run: preset, seed, environment, algorithm, results, device and precision.
    preset: Annotated[str | None, Setting(choices=tuple(PRESETS), basic=True)] = None
    """Starting values for a model of about this size, which other flags override; -lora: with
    adapters, -cpu: short, supervised learning alone. Conventional values, not tuned here. none:
    those of the embedded model."""
    seed: Annotated[int, Setting("[0, inf)", basic=True)] = 1
    """Seed of every random stream of the run."""
    env_name: Annotated[str, Setting(basic=True)] = "fctncalling_env"
    """Environment: "fctncalling_env" is this project's, any other name goes to gymnasium.make."""
    algorithm_name: Annotated[
        str, Setting(choices=ALGORITHM_NAMES, own=True, basic=True, meant=ALGORITHMS_ELSEWHERE)
    ] = "TPPO"
    """Learning algorithm. TPPO: token-level PPO whose targets come from Bellman backup with
    action decomposition (not trust-region PPO): time passes between actions, not between the
    tokens of one. POAD: the same as published, where lambda fades inside an action too. NTPO:
    naive token-level PPO, where every token is a step in time. APPO: action-level PPO, one
    ratio and one advantage an action (not RLlib's asynchronous PPO). GRPO: no critic, episodes
    of one task compared with each other. MODULE:NAME: an `Algorithm` of your own."""
    experiment_name: Annotated[str, Setting(basic=True)] = "check"
    """First folder below --results_dir."""
    results_dir: Annotated[str, Setting(group="run and device")] = "results"
    """Folder that results/<experiment>/<model>/<dataset>/<algorithm> starts at."""
    num_updates: Annotated[int, Setting("[0, inf)", basic=True)] = 40
    """Length of the run, in policy updates."""
    resume: Annotated[str | None, Setting(const="auto", basic=True, metavar="FOLDER")] = None
    """Continue a run: a checkpoint folder, last, best (on held-out tasks), or the bare flag
    (auto): the newest, or the beginning where a run was killed before it had saved."""
    save_interval: Annotated[int, Setting("[0, inf)", basic=True)] = 10
    """Updates between two checkpoints, beside those of evaluations better than all before; 0:
    only at the end."""
    keep_checkpoints: Annotated[int, Setting("[1, inf)")] = 1
    """Newest checkpoints that stay on disk, beside the best on held-out tasks."""
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], Setting(basic=True)] = "auto"
    """Where tensors live; auto takes cuda, mps, cpu in this order."""
    fsdp: bool = False
    """Whether processes share out the weights too (FSDP2); accelerate's configuration may ask
    for it as well."""
    base_dtype: Annotated[Literal["auto", "float32", "bfloat16"], Setting(has_flag=False)] = "auto"
    """Precision of the language model's own weights; auto: bfloat16 on cuda where adapters
    learn in their place, else float32. What learns is in float32 always."""
    compute_dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of passes through the language model; auto: bfloat16 on cuda, else float32."""
    cast_lm_head_to_fp32: Annotated[bool, Setting(has_flag=False)] = True
    """Whether the output layer computes in float32 where passes compute in bfloat16, which
    would round every log-probability to about a hundredth."""
    tf32: Annotated[bool, Setting(has_flag=False)] = False
    """Whether CUDA rounds what it multiplies in float32, such as the output layer's inputs, to
    TF32's 10 bits, which is faster. No GPU has measured it."""
    torch_threads: Annotated[int, Setting("[1, inf)")] = 1
    """CPU threads of torch; more than the free cores is many times slower."""

    # Tasks and model files, LoRA adapters, demonstrations to learn first.
    dataset_path: Annotated[str | None, Setting(basic=True)] = None
    """Training tasks, a BFCL-format file; none: the embedded tasks."""
    eval_dataset_path: Annotated[str | None, Setting(basic=True)] = None
    """Held-out tasks; none: the embedded ones, or a fifth of --dataset_path."""
    model_name_or_path: Annotated[str | None, Setting(basic=True, metavar="MODEL")] = None
    """Model folder, GGUF file or hub name; none: the embedded small model."""
    lora_r: Annotated[int, Setting("[0, inf)", basic=True)] = 0
    """Rank of LoRA adapters, which then learn in place of the model's own weights; 0: no
    adapters."""
    lora_alpha: Annotated[float, Setting("(0, inf)", group="adapters (LoRA)")] = 16.0
    """Scale of the adapters: what they add is multiplied by alpha / rank."""
    lora_targets: Annotated[str, Setting(metavar="NAMES", has_flag=False)] = "all-linear"
    """Layers that get an adapter: all-linear (all but the output), or names parted by commas,
    such as q_proj,v_proj."""
    role_adapters: bool = False
    """Whether each role of a team (info["role"]) has an adapter of its own on one base, and
    learns nothing of what the others learn."""
    sft_tasks: Annotated[str | None, Setting(basic=True, metavar="FILE")] = None
    """Tasks whose ground truths, played through the environment, are learned first: a file of
    tasks or of logged conversations, or "dataset" for the training tasks of --dataset_path.
    With --num_updates 0 nothing else is learned."""
    sft_episodes: Annotated[str | None, Setting(metavar="FOLDER", group=SUPERVISED)] = None
    """Logged training episodes whose successful ones are learned first: a run's folder, its
    episodes folder or one file (rejection sampling, expert iteration)."""
    sft_epochs: Annotated[int, Setting("[1, inf)")] = 1
    """Passes over the demonstrations."""
    sft_lr: Annotated[float, Setting("(0, inf)")] = 1e-4
    """Highest learning rate of the supervised stage."""
    sft_batch_size: Annotated[int, Setting("[1, inf)")] = 8
    """Demonstrations an optimiser step (rows, where a template rewrites history)."""
    sft_group_by_prefix: bool = False
    """Put demonstrations that begin alike (with the same tools) into one step, where
    --share_prefixes computes their common tokens once; false: those of similar length."""
    sft_fixed_prefixes: bool = False
    """Read the tokens that all demonstrations of a pass begin with (their tools) without a
    gradient, which takes less time: Llama and Qwen on a CPU."""
    sft_save_interval: Annotated[int, Setting("[0, inf)")] = 25
    """Supervised steps between two checkpoints; 0: only at the stage's end."""

    # Collecting episodes: how many, how long, slow tools, sampling and reward.
    n_rollout_threads: Annotated[int, Setting("[1, inf)", basic=True, alias="num_envs")] = 128
    """Episodes that run side by side."""
    episodes_per_update: Annotated[int, Setting("[1, inf)", basic=True)] = 256
    """Episodes collected for one update."""
    group_size: Annotated[int | None, Setting("[1, inf)", group="collecting episodes")] = None
    """Episodes of each task in one update, in environments reset with one seed, so that they
    begin alike; GRPO compares them with each other. none: 8 for GRPO, 1 for the others."""
    max_new_tokens: Annotated[int, Setting("[1, inf)", basic=True)] = 64
    """Longest action, in tokens; a longer one is cut."""
    max_episode_tokens: Annotated[int, Setting("[2, inf)", basic=True)] = 1024
    """Longest episode, in tokens of context and actions; a longer one is truncated."""
    max_steps_per_turn: Annotated[int, Setting("[1, inf)")] = 20
    """Steps after which a turn fails its task, as BFCL counts."""
    wait_for_tools: Annotated[Literal["auto", "always", "never"], Setting(has_flag=False)] = "auto"
    """Whether generation waits for all environments' answers, so that a seed reproduces a run,
    or goes on without the slow ones; auto: waits until an environment is slow that is not
    declared quick."""
    tool_deadline_s: Annotated[float | None, Setting("(0, inf)", has_flag=False)] = 600.0
    """Seconds that its environment may work on one episode; then that is dropped as invalid,
    and the environment replaced. none: any time."""
    max_cache_tokens: Annotated[int | None, Setting("[2, inf)")] = None
    """Tokens whose attention caches may be held at once; as many episodes run side by side as
    surely fit, and shared prefixes of episodes that ended are kept in what is left. none: any
    number."""
    temperature: Annotated[float, Setting("(0, inf)")] = 1.0
    """Sampling temperature; the loss uses the same distribution."""
    reward: Annotated[str, Setting(choices=REWARD_NAMES, own=True, basic=True)] = "strict"
    """success: 1 for a solved task; progress: the share of its turns that are right; strict,
    strict_progress: the same where nothing that BFCL forgives had to be forgiven; MODULE:NAME:
    your own function (StepRecord, Verdict or None) -> number."""
    rollout_engine: Literal["local", "vllm"] = "local"
    """What samples actions: the engine in this project's processes, or vLLM servers
    (--vllm_url) that get the adapter of --lora_r after each update, or else all weights."""
    max_staleness: Annotated[int, Setting("[0, inf)")] = 0
    """Updates by which the weights that play are behind those that learn; 1: workers play for
    the next update while this one is learned, 2: for the two after it, and so on."""

    # Evaluation on held-out tasks, and which tasks are played.
    eval_interval: Annotated[int, Setting("[0, inf)", basic=True)] = 10
    """Updates between two evaluations; 0: only before and after."""
    eval_episodes: Annotated[int, Setting("[1, inf)")] = 320
    """Held-out episodes of one evaluation."""
    eval_samples: Annotated[int, Setting("[1, inf)", has_flag=False)] = 1
    """Sampled episodes of each held-out task; from 2 on evaluation.json has pass@k and pass^k."""
    task_sampling: Annotated[
        Literal["uniform", "success"], Setting(group="which tasks are played")
    ] = "uniform"
    """How tasks are drawn. uniform: each comes once before any comes again; success: the
    likelier, the closer its success so far (at first its category's, and of like difficulty
    where tasks say theirs) is to one half. A category that always succeeds is hardly played and
    can be forgotten: --mixture holds its share."""
    mixture: Annotated[str | None, Setting(metavar="WEIGHTS")] = None
    """Categories and their weights, such as multi_turn_base=2,simple_python=1; those not named
    are left out. none: as the tasks are."""
    curriculum: Annotated[str | None, Setting(metavar="STAGES")] = None
    """Stages from easy to hard, such as simple_python+multiple:10,2:20: ten updates on two
    categories, twenty on tasks of at most 2 turns, then all tasks. With a point, 0.4:20: twenty
    on tasks of at most that difficulty, where tasks say theirs. none: all tasks at once."""
