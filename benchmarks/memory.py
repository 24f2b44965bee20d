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

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from figures import Figure, add_json_flag, report
from tqdm import tqdm

MOST_MEMORY, MOST_TIME = 0.45, 1.35  # with over without checkpointing
SHORT = 64  # tokens of the other row: returns must differ, or the policy would not learn
SHAPE = {"hidden": 576, "intermediate": 1536, "heads": 9, "kv_heads": 3, "vocabulary": 49152}


def measured(options: argparse.Namespace, *, checkpointing: bool) -> dict[str, float]:
    """Measure peak memory (MiB), CPU seconds and gradient norm of an update in a new process."""
    command = [sys.executable, __file__, "--child", "on" if checkpointing else "off"]
    for name in ("tokens", "acted", "layers"):
        command += [f"--{name}", str(getattr(options, name))]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def child(options: argparse.Namespace) -> dict[str, float]:
    """Measure one update in this process."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from fctncalling.algorithms.config import TrainConfig
    from fctncalling.algorithms.policy.actor_critic import ActorCritic
    from fctncalling.algorithms.ppo import make_optimisers, update

    def model(**sizes: Any) -> Any:
        torch.manual_seed(0)
        shape: dict[str, Any] = {
            "max_position_embeddings": 8192,
            "tie_word_embeddings": True,
            "pad_token_id": 0,
        }
        return LlamaForCausalLM(LlamaConfig(**shape, bos_token_id=None, eos_token_id=1, **sizes))

    def learned(policy: ActorCritic, tokens: int, acted: int, vocabulary: int) -> dict[str, float]:
        rows = ((SHORT, min(acted, SHORT // 2)), (tokens, acted))
        episodes = [episode(*row, vocabulary, number) for number, row in enumerate(rows)]
        optimisers = make_optimisers(policy, config)
        return update(policy, optimisers, episodes, config, torch.Generator().manual_seed(0))

    torch.set_num_threads(1)
    config = TrainConfig(
        num_mini_batch=1,
        target_kl=None,
        max_microbatch_tokens=options.tokens,
        gradient_checkpointing=options.child == "on",
    )
    # What torch loads late is loaded by a tiny model first.
    tiny = model(vocab_size=64, hidden_size=16, num_hidden_layers=2, num_attention_heads=2)
    learned(ActorCritic(tiny), 16, 4, 64)
    before = memory("VmRSS")
    policy = ActorCritic(
        model(
            vocab_size=SHAPE["vocabulary"],
            hidden_size=SHAPE["hidden"],
            intermediate_size=SHAPE["intermediate"],
            num_hidden_layers=options.layers,
            num_attention_heads=SHAPE["heads"],
            num_key_value_heads=SHAPE["kv_heads"],
        )
    )
    started = time.process_time()
    metrics = learned(policy, options.tokens, options.acted, SHAPE["vocabulary"])
    return {
        "peak_mib": memory("VmHWM") - before,
        "cpu_s": time.process_time() - started,
        "gradient_norm": metrics["losses/policy_grad_norm"],
    }


def episode(tokens: int, acted: int, vocabulary: int, number: int) -> Any:
    """Make an episode of one row of random tokens; the last ones are acted."""
    import torch

    from fctncalling.algorithms.episodes import EpisodeRecord, TokenRecord

    generator, context = torch.Generator().manual_seed(number), [False] * (tokens - acted)
    row = TokenRecord(
        ids=torch.randint(2, vocabulary, (tokens,), generator=generator).tolist(),
        acted=context + [True] * acted,
        ends_action=context + [False] * (acted - 1) + [True],
        rollout_logprobs=[0.0] * tokens,
        rewards=[0.0] * (tokens - 1) + [float(number % 2)],
    )
    outcome = row.rewards[-1]
    return EpisodeRecord(f"task_{number}", "random", [row], terminated=True, episode_return=outcome)


def memory(name: str) -> float:
    """Return a memory size of this process in MiB, from /proc: VmRSS or VmHWM."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024


def main() -> int:
    """Measure both ways in turn; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=4096, help="of a row")
    parser.add_argument("--acted", type=int, default=256, help="of them sampled by the policy")
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=1)
    add_json_flag(parser)
    parser.add_argument("--child", choices=["on", "off"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(options)))
        return 0
    rounds = []
    with tqdm(total=2 * options.rounds, desc="updates", unit="update") as bar:
        for _ in range(options.rounds):
            pair = []
            for checkpointing in (False, True):
                pair.append(measured(options, checkpointing=checkpointing))
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
    raise SystemExit(main())
