"""Savings of prefix sharing in a rollout: `python benchmarks/rollout.py --official`.

A random model plays 32 official multi_turn_base tasks of two class sets (20 of TradingBot, 12 of
VehicleControlAPI), 16 at a time, with and without the prefix tree in turn, on one thread. Its
shape is that of SmolLM2 with fewer and narrower layers; its tokenizer is trained on the prompts to
read their function docs as 3,500 to 5,300 tokens, as those of real models do.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from figures import Figure
from harness import random_llama
from tqdm import tqdm

from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.generation.engine import GenerationEngine
from fctncalling.algorithms.policy.chat_template import PLAIN_TEMPLATE, ChatTemplate
from fctncalling.algorithms.rollout.collect import collect
from fctncalling.data.bfcl import load_tasks
from fctncalling.data.types import Task
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.lab.embedded.tokenizer import train_tokenizer

CLASS_SETS: dict[tuple[str, ...], int] = {("TradingBot",): 20, ("VehicleControlAPI",): 12}
NUM_SLOTS, NEW_TOKENS, MAX_TOKENS, VOCABULARY = 16, 24, 8192, 1024
SHAPE: dict[str, int] = {
    "hidden": 192,
    "intermediate_size": 512,
    "layers": 10,
    "heads": 3,
    "num_key_value_heads": 1,
    "max_position_embeddings": MAX_TOKENS,
    "vocabulary": VOCABULARY,
}
MOST = 0.4  # of the prefill tokens, and of the time, without the tree


class RolloutCost(NamedTuple):
    """Cost and texts of one rollout."""

    prefill_tokens: int
    cpu_seconds: float
    episodes: list[EpisodeRecord]


def official(options: argparse.Namespace) -> list[Figure]:
    """Measure the cost of rollouts with the prefix tree over those without."""
    tasks = tasks_of(options.data_dir)
    model, template = random_llama(**SHAPE), _template(tasks)
    rounds = []
    for _ in tqdm(range(options.official_rounds), desc="rounds"):
        rounds.append([play(model, template, tasks, shares=shares) for shares in (True, False)])
    with_tree, without = rounds[0]
    seconds = [tree.cpu_seconds / plain.cpu_seconds for tree, plain in rounds]
    same = sum(
        [row.ids for row in left.rows] == [row.ids for row in right.rows]
        for left, right in zip(with_tree.episodes, without.episodes, strict=True)
    )
    print(f"episodes with the same tokens: {same} of {len(tasks)}")
    prefilled = with_tree.prefill_tokens / without.prefill_tokens
    name = f"{len(tasks)} official multi-turn tasks, with `--share_prefixes` over without"
    return [
        Figure(f"{name}, tokens prefilled", prefilled, at_most=MOST),
        Figure(f"{name}, CPU time", median(seconds), at_most=MOST),
    ]


def tasks_of(data_dir: Path) -> list[Task]:
    """Return the official tasks to play, in the order of their file."""
    left, tasks = dict(CLASS_SETS), []
    for task in load_tasks(data_dir / "BFCL_v4_multi_turn_base.json"):
        if left.get(classes := tuple(task.involved_classes), 0):
            left[classes] -= 1
            tasks.append(task)
    return tasks


def play(model: Any, template: ChatTemplate, tasks: Sequence[Task], *, shares: bool) -> RolloutCost:
    """Play one episode of each task; sampled tokens depend on the seed alone."""
    engine = GenerationEngine(
        model,
        template.stop_ids,
        max_new_tokens=NEW_TOKENS,
        decode=template.decode,
        share_prefixes=shares,
    )
    envs: Any = [FunctionCallingEnv(tasks=list(tasks)) for _ in range(NUM_SLOTS)]
    started, ids = time.process_time(), [task.id for task in tasks]
    episodes = collect(envs, engine, template, ids, max_episode_tokens=MAX_TOKENS)
    prefilled = engine.num_prompt_tokens - engine.num_shared_tokens
    return RolloutCost(prefilled, time.process_time() - started, episodes)


def _template(tasks: Sequence[Task]) -> ChatTemplate:
    """Make the plain template with a tokenizer trained on the first prompts."""
    env, texts = FunctionCallingEnv(tasks=list(tasks)), []
    for task in tasks:
        info = env.reset(options={"task_id": task.id})[1]
        messages = "\n".join(message["content"] for message in info["messages"])
        texts.append(f"{info.get('instructions') or ''}\n{messages}")
    tokenizer = train_tokenizer(texts, vocabulary_size=VOCABULARY)
    tokenizer.chat_template = PLAIN_TEMPLATE
    return ChatTemplate(tokenizer)
