"""Collecting episodes: how many, how long, slow tools, sampling and reward."""

from __future__ import annotations

from dataclasses import dataclass

from fctncalling.algorithms.config.config_fields import field


@dataclass
class RolloutSettings:
    """Collecting episodes: how many, how long, slow tools, sampling and reward."""

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
    group_size: int | None = field(
        None,
        "Episodes of each task in one update, in environments reset with one seed, so that they "
        "begin alike; GRPO compares them with each other. none: 8 for GRPO, 1 for the others.",
        interval="[1, inf)",
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
    wait_for_tools: str = field(
        "auto",
        "Whether generation waits for all environments' answers, so that a seed reproduces a "
        "run, or goes on without the slow ones; auto: waits until an environment is slow that is "
        "not declared quick.",
        choices=("auto", "always", "never"),
    )
    tool_deadline_s: float | None = field(
        600.0,
        "Seconds that its environment may work on one episode; then that is dropped as "
        "invalid, and the environment replaced. none: any time.",
        interval="(0, inf)",
    )
    max_cache_tokens: int | None = field(
        None,
        "Tokens whose attention caches may be held at once; as many episodes run side by side "
        "as surely fit, and shared prefixes of episodes that ended are kept in what is left. "
        "none: any number.",
        interval="[2, inf)",
    )
    temperature: float = field(
        1.0, "Sampling temperature; the loss uses the same distribution.", interval="(0, inf)"
    )
    reward: str = field(
        "strict",
        "success: 1 for a solved task; progress: the share of its turns that are right; "
        "strict, strict_progress: the same where nothing that BFCL forgives had to be "
        "forgiven; MODULE:NAME: your own function (StepRecord, Verdict or None) -> number.",
        choices=("success", "progress", "strict", "strict_progress"),
        own=True,
        basic=True,
    )
    rollout_engine: str = field(
        "local",
        "What samples actions: the engine in this project's processes, or vLLM servers "
        "(--vllm_url) that get the adapter of --lora_r after each update, or else all weights.",
        choices=("local", "vllm"),
    )
    max_staleness: int = field(
        0,
        "Updates by which the weights that play are behind those that learn; 1: workers play for "
        "the next update while this one is learned, 2: for the two after it, and so on.",
        interval="[0, inf)",
    )
