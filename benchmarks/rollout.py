"""Savings of the rollout engine, compared with `model.generate`.

  python benchmarks/rollout.py
  python3.11 -m venv /tmp/trl
  /tmp/trl/bin/pip install torch==2.13.0 trl==1.16.0 transformers==5.23.0 jmespath
  python benchmarks/rollout.py --parts trl --trl /tmp/trl/bin/python
  python benchmarks/rollout.py --parts decoders --hidden 576 --layers 30 --vocabulary 49152
  python benchmarks/rollout.py --official --data_dir data/bfcl --json figures.json

Everything takes turns in one run, on one thread; CPU seconds are compared (of slow tools: seconds)
and medians over the rounds are told. A missed bound is followed by its part's profile; exits 1.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch

import argparse
import random
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium
import torch
from figures import Figure, benchmark_parser, report
from harness import cpu_seconds, random_llama
from rollout_official import official
from transformers import AutoTokenizer

from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.generation.engine import GenerationEngine, Request
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.rollout.collect import collect
from fctncalling.algorithms.rollout.env_pool import ThreadEnvPool
from fctncalling.data.bfcl import embedded_path, load_tasks
from fctncalling.envs.function_calling import FunctionCallingEnv

NEVER = (
    1  # an end token that is never likely enough to be sampled: all actions have the same length
)
SINGLE = {1: 2.2, 8: 1.8, 32: 1.5, 64: 1.3}  # batch -> least speed-up of one step
TURNS, GROUPS = 3.0, 4.5
LEAST, NUM_ENVS, NUM_SLOW, TOOL_S = 0.85, 32, 4, 1.0  # of slow tools
NUM_EPISODES = 800


def build(hidden: int, layers: int, vocabulary: int) -> Any:
    """Make a random model of the embedded model's kind."""
    model = random_llama(hidden=hidden, layers=layers, vocabulary=vocabulary)
    model.generation_config.eos_token_id = NEVER
    return model


def contexts(
    batch: int, sizes: Iterable[int], vocabulary: int, group: int = 1
) -> list[torch.Tensor]:
    """Return the first context of each step, (batch, tokens), equal within groups."""
    generator = torch.Generator().manual_seed(1)
    texts = [torch.randint(2, vocabulary, (batch, size), generator=generator) for size in sizes]
    return [texts[0][::group].repeat_interleave(group, 0), *texts[1:]]


def generate_with_cache(
    model: Any, texts: list[torch.Tensor], new: int, fast_path: bool | None = None
) -> list[list[int]]:
    """Generate every slot's tokens greedily, reading each token once."""
    engine = GenerationEngine(
        model, [NEVER], temperature=0.0, max_new_tokens=new, fast_path=fast_path
    )
    batch = len(texts[0])
    engine.allocate_slots(batch)
    rows: list[list[int]] = [[] for _ in range(batch)]
    for text in texts:
        requests = [Request(slot, text[slot].tolist()) for slot in range(batch)]
        for request, action in zip(requests, engine.generate(requests), strict=True):
            rows[request.slot] += request.new_ids + action.ids
    return rows


def prefilled_again(model: Any, texts: list[torch.Tensor], new: int) -> list[list[int]]:
    """Generate the same tokens with `model.generate`, which reads the episode anew."""
    ids = texts[0][:, :0]
    for text in texts:
        ids = torch.cat([ids, text], dim=1)
        ids = model.generate(ids, do_sample=False, min_new_tokens=new, max_new_tokens=new)
    rows: list[list[int]] = ids.tolist()
    return rows


def against_generate(model: Any, options: argparse.Namespace) -> list[Figure]:
    """Compare single steps, episodes of several steps, and groups of one prompt with
    `model.generate`.
    """
    turns = (192, 16, 16, 16)
    cases = [
        (f"one step, batch {batch}", batch, (64,), 32, 1, least) for batch, least in SINGLE.items()
    ]
    cases += [
        ("4 steps, batch 8", 8, turns, 24, 1, TURNS),
        ("4 steps, 8 of one prompt", 8, turns, 24, 8, GROUPS),
    ]
    figures = []
    for name, batch, sizes, new, group, least in cases:
        texts = contexts(batch, sizes, options.vocabulary, group)
        ways = [partial(way, model, texts, new) for way in (generate_with_cache, prefilled_again)]
        first = [way() for way in ways]  # warms, and compares
        pairs = [[cpu_seconds(way) for way in ways] for _ in range(options.rounds)]
        ratio = median(theirs / ours for ours, theirs in pairs)
        note = "" if first[0] == first[1] else "; TOKENS DIFFER"
        figures.append(Figure(f"{name}, `generate` over ours{note}", ratio, at_least=least))
        if not figures[-1].met:
            profile(ways[0])
    return figures


def decoders(model: Any, options: argparse.Namespace) -> Iterator[Figure]:
    """Compare the fused decoder with transformers' forward, in one engine."""
    steps = 8
    for batch in (1, 8, 64):
        texts = contexts(batch, (40,), options.vocabulary)
        times: list[dict[bool, tuple[float, float]]] = []
        rows: dict[bool, list[list[int]]] = {}
        for number in range(options.rounds + 1):
            spent = dict[bool, tuple[float, float]]()
            for fast in (True, False):
                ways = [
                    partial(generate_with_cache, model, texts, new, fast) for new in (1, 1 + steps)
                ]
                if number == 0:  # warms, and compares
                    rows[fast] = ways[1]()
                    continue
                first, whole = map(cpu_seconds, ways)
                spent[fast] = first, whole - first
            times += [spent] if number else []
        note = "" if rows[True] == rows[False] else "; TOKENS DIFFER"
        for part, name in enumerate(("prefill of 40 tokens", "decoding")):
            ratio = median(spent[False][part] / spent[True][part] for spent in times)
            yield Figure(f"fused decoder, batch {batch}, {name}{note}", ratio)


def profile(work: Callable[[], object]) -> None:
    """Print a CPU profile of some work."""
    with torch.profiler.profile() as profiler:
        work()
    print(
        profiler.key_averages().table(
            sort_by="self_cpu_time_total", row_limit=12, max_name_column_width=40
        )
    )


class SlowTool(gymnasium.Wrapper[str, str, str, str]):
    """Wrapper that waits for a slow tool in every step, without the metadata of a fast one."""

    def __init__(self, env: Any, seconds: float) -> None:
        super().__init__(env)
        self.seconds, self.metadata = seconds, {}

    def step(self, action: str) -> Any:
        """Wait, then step."""
        if self.seconds:
            time.sleep(self.seconds)
        return super().step(action)


def _note(ended: list[tuple[float, int]], record: EpisodeRecord) -> None:
    ended.append((time.perf_counter(), record.num_steps))


def slow_tools(rounds: int) -> Figure:
    """Measure the share of the throughput that slow tools leave."""
    tasks = random.Random(0).sample(load_tasks(embedded_path("train")), NUM_EPISODES)
    path = str(embedded_path("model"))
    template = ChatTemplate(AutoTokenizer.from_pretrained(path))
    model = ActorCritic.load(path).model
    engine = GenerationEngine(model, template.stop_ids, max_new_tokens=64, decode=template.decode)
    pools = []
    for num_slow in (NUM_SLOW, 0):
        delays = iter([TOOL_S] * num_slow + [0.0] * NUM_ENVS)
        pools.append(
            ThreadEnvPool(
                lambda d=delays: SlowTool(FunctionCallingEnv(tasks=tasks), next(d)), NUM_ENVS
            )
        )  # type: ignore[misc]
    ids = [task.id for task in tasks]

    def steps_a_second(pool: ThreadEnvPool, count: int) -> float:
        """Count until the last episodes are handed out: how long those take is no question of
        throughput.
        """
        ended: list[tuple[float, int]] = []
        note = partial(_note, ended)
        started = time.perf_counter()
        collect(pool, engine, template, ids[:count], max_episode_tokens=1024, on_episode=note)
        counted = ended[: count - NUM_ENVS]
        return sum(steps for _, steps in counted) / (counted[-1][0] - started)

    steps_a_second(pools[1], 64)  # warms
    pairs = [[steps_a_second(pool, NUM_EPISODES) for pool in pools] for _ in range(rounds)]
    share = median(slow / plain for slow, plain in pairs)
    name = f"throughput with {NUM_SLOW} of {NUM_ENVS} tools that take {TOOL_S:g} s, over without"
    return Figure(name, share, at_least=LEAST)


def main() -> int:
    """Run the selected parts; return 1 if a target is missed."""
    parser = benchmark_parser(__doc__)
    for name, default in (("hidden", 96), ("layers", 3), ("vocabulary", 1765), ("rounds", 9)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument(
        "--parts",
        nargs="+",
        default=["generate", "slow"],
        help="generate, slow, trl, decoders",
    )
    parser.add_argument("--trl", help="python of an environment that has TRL")
    parser.add_argument(
        "--official",
        action="store_true",
        help="only measure what the prefix tree saves on 32 official tasks (see rollout_official)",
    )
    parser.add_argument(
        "--data_dir",
        type=Path,
        default=Path("data/bfcl"),
        help="folder of BFCL task files (default: %(default)s)",
    )
    parser.add_argument("--official_rounds", type=int, default=2, help="(default: %(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.official:
        return report(official(options), options.json)
    model, figures = build(options.hidden, options.layers, options.vocabulary), list[Figure]()
    if "generate" in options.parts:
        figures += against_generate(model, options)
    if "decoders" in options.parts:
        figures += decoders(model, options)
    if "slow" in options.parts:
        figures.append(slow_tools(options.rounds))
    if "trl" in options.parts:
        from peers.rollout_trl import against_trl

        figures += against_trl(options.trl, options.rounds)
    return report(figures, options.json)


if __name__ == "__main__":
    raise SystemExit(main())
