"""Memory and time of an update with and without gradient checkpointing.

  python benchmarks/memory.py --json figures.json

A model of the shape of SmolLM2-135M with random weights (30 layers, hidden size 576, 49,152 tokens)
takes one update on a row of 4,096 tokens and one of 64, of which one earned a reward, on one thread
in fp32, in a process of its own for each way; the ways take turns. Memory is the highest resident
size less that before the model was made, time the CPU seconds of the whole of `update`. Both ways
must come to the same gradient norm.

Exits 1 if a target is missed. Takes about 7 minutes on a core that has nothing else to do, and
10 GB of memory.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch

import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from figures import Figure, benchmark_parser, report
from harness import LineProcess, random_ids, random_llama, token_episode
from tqdm import tqdm

MOST_MEMORY, MOST_TIME = 0.45, 1.35  # with over without checkpointing
SHORT = 64  # tokens of the other row: returns must differ, or the policy would not learn
VOCABULARY = 49152
SHAPE = {"hidden": 576, "intermediate_size": 1536, "heads": 9, "num_key_value_heads": 3}


def measured(*, tokens: int, acted: int, layers: int, checkpointing: bool) -> dict[str, float]:
    """Measure peak memory (MiB), CPU seconds and gradient norm of one update in this process."""
    import torch

    from fctncalling.algorithms.config import TrainConfig
    from fctncalling.algorithms.policy.actor_critic import ActorCritic
    from fctncalling.algorithms.ppo import make_optimisers, update

    config = TrainConfig(
        num_mini_batch=1,
        target_kl=None,
        max_microbatch_tokens=tokens,
        gradient_checkpointing=checkpointing,
    )

    def learned(policy: ActorCritic, tokens: int, acted: int, vocabulary: int) -> dict[str, float]:
        rows = ((SHORT, min(acted, SHORT // 2)), (tokens, acted))
        episodes = [episode(*row, vocabulary, number) for number, row in enumerate(rows)]
        optimisers = make_optimisers(policy, config)
        return update(policy, optimisers, episodes, config, torch.Generator().manual_seed(0))

    torch.set_num_threads(1)
    # What torch loads late is loaded by a tiny model first.
    learned(ActorCritic(random_llama(hidden=16, layers=2, vocabulary=64, heads=2)), 16, 4, 64)
    before = memory("VmRSS")
    shape = {"layers": layers, "vocabulary": VOCABULARY, "max_position_embeddings": 8192, **SHAPE}
    policy = ActorCritic(random_llama(**shape))
    started = time.process_time()
    metrics = learned(policy, tokens, acted, VOCABULARY)
    return {
        "peak_mib": memory("VmHWM") - before,
        "cpu_s": time.process_time() - started,
        "gradient_norm": metrics["losses/policy_grad_norm"],
    }


def episode(tokens: int, acted: int, vocabulary: int, number: int) -> Any:
    """Make an episode of one row of random tokens; the last ones are acted."""
    import torch

    ids = random_ids(tokens, vocabulary, torch.Generator().manual_seed(number))
    is_acted = [False] * (tokens - acted) + [True] * acted
    return token_episode(ids, is_acted, float(number % 2), f"task_{number}")


def memory(name: str) -> float:
    """Return a memory size of this process in MiB, from /proc: VmRSS or VmHWM."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024


def main() -> int:
    """Measure both ways in turn; return 1 if a target is missed."""
    parser = benchmark_parser(__doc__)
    parser.add_argument("--tokens", type=int, default=4096, help="of a row")
    parser.add_argument("--acted", type=int, default=256, help="of them sampled by the policy")
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    sizes = {name: getattr(options, name) for name in ("tokens", "acted", "layers")}
    rounds = []
    with tqdm(total=2 * options.rounds, desc="updates", unit="update") as bar:
        for _ in range(options.rounds):
            pair = []
            for checkpointing in (False, True):
                with LineProcess([sys.executable, __file__, "--child"]) as child:
                    pair.append(child.ask({**sizes, "checkpointing": checkpointing}))
                bar.update()
            rounds.append(pair)
    off, on = rounds[0]
    same = off["gradient_norm"] == on["gradient_norm"]
    print("gradient norms:", *(f"{figures['gradient_norm']:.9g}" for figures in (off, on)))
    memory_share, time_share = (
        median(on[name] / off[name] for off, on in rounds) for name in ("peak_mib", "cpu_s")
    )
    row = f"{options.layers} layers, a row of {options.tokens:,} tokens"
    figures = [
        Figure(f"peak MiB, {row}", off["peak_mib"]),
        Figure("with `--gradient_checkpointing`", on["peak_mib"]),
        Figure("with over without, memory", memory_share, at_most=MOST_MEMORY),
        Figure("with over without, CPU time", time_share, at_most=MOST_TIME),
    ]
    return report(figures, options.json) if same else 1


if __name__ == "__main__":
    if sys.argv[1:] == ["--child"]:
        print(json.dumps(measured(**json.loads(input()))))
    else:
        raise SystemExit(main())
