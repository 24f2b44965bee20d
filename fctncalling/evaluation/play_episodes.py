"""play_episodes: a model in memory plays tasks through the trainer's rollout."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import gymnasium

if TYPE_CHECKING:
    from fctncalling.algorithms.episodes import EpisodeRecord


def play_episodes(
    model: Any,
    tokenizer: Any,
    make_env: Callable[[], gymnasium.Env[Any, Any]],
    task_ids: Sequence[str],
    *,
    num_envs: int = 8,
    max_new_tokens: int = 256,
    max_episode_tokens: int = 4096,
    temperature: float = 1.0,
    seed: int = 0,
    group_size: int = 1,
) -> list[EpisodeRecord]:
    """Return one episode for each task id, in that order, with its tokens, masks and log-probs.

    `model` is a transformers causal language model, `tokenizer` has a chat template. `num_envs`
    episodes run at a time and are batched; `temperature` 0 is greedy. Episode i is seeded by (seed,
    i) alone; each `group_size` ids in a row share the environment's seed. `TokenRecord.split` turns
    a row into prompt and completion. Raises RolloutError where every episode is invalid.
    """
    from fctncalling.algorithms.generation.engine import GenerationEngine
    from fctncalling.algorithms.policy.chat_template import ChatTemplate
    from fctncalling.algorithms.rollout.collect import collect

    template = ChatTemplate(tokenizer)
    sampling: dict[str, Any] = {"temperature": temperature, "max_new_tokens": max_new_tokens}
    engine = GenerationEngine(model.eval(), template.stop_ids, decode=template.decode, **sampling)
    with _environments(make_env, min(num_envs, len(task_ids))) as envs:
        return collect(
            envs,
            engine,
            template,
            task_ids,
            max_episode_tokens=max_episode_tokens,
            seed=seed,
            group_size=group_size,
            make_env=make_env,
        )


@contextmanager
def _environments(
    make_env: Callable[[], gymnasium.Env[Any, Any]], count: int
) -> Iterator[list[gymnasium.Env[Any, Any]]]:
    """Yield so many environments; close them at the end."""
    envs = [make_env() for _ in range(count)]
    try:
        yield envs
    finally:
        for env in envs:
            env.close()
