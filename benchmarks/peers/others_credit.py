"""Whether tool tokens change the credit of other trainers, by their functions and our vectors.

  pip download --no-deps verl==0.9.1 areal==1.0.4 && unzip -q verl*.whl -d /tmp/verl  # and so on
  git clone https://github.com/NVIDIA-NeMo/RL /tmp/nemo_rl    # 7ea279abf
  git clone https://github.com/THUDM/slime /tmp/slime         # 624b824a8
  git clone https://github.com/radixark/miles /tmp/miles      # 31f1ca961
  git clone https://github.com/NovaSky-AI/SkyRL /tmp/skyrl    # a9564572e

  python benchmarks/peers/others_credit.py verl=/tmp/verl areal=/tmp/areal nemo_rl=/tmp/nemo_rl \\
      miles=/tmp/miles slime=/tmp/slime skyrl=/tmp/skyrl

prints two tables: what one tool token does (docs/evidence/conformance.md), and in which convention
each function is exact. torch is the only package that the others' files need; whitening is off.
TRL 1.16 has no critic and publishes no such function.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from figures import benchmark_parser, write_figures
from others_file import loaded

from fctncalling.algorithms.advantages import decomposed_gae
from fctncalling.cli.shared.output import align_rows
from fctncalling.lab import conformance

Vector = dict[str, Any]
Advantages = Callable[[Vector], torch.Tensor]
TORCH = ("torch", "numpy")
NUMBERS = ("rewards", "values", "written")


def inputs_of(vector: Vector) -> list[torch.Tensor]:
    """Return rewards, values and the mask of the policy's tokens as tensors."""
    nan = float("nan")
    return [
        torch.tensor(
            [[nan if number is None else float(number) for number in row] for row in vector[key]]
        )
        for key in NUMBERS
    ]


def not_whitened(advantages: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return advantages unchanged."""
    return advantages


def ours(root: str) -> Advantages:
    """TPPO: time passes between actions."""

    def advantages(vector: Vector) -> torch.Tensor:
        rewards, values, _ = inputs_of(vector)
        masks = [torch.tensor(vector[key]) for key in ("written", "ends_action", "bootstrap")]
        factors = {"gamma": vector["gamma"], "lam": vector["lam"]}
        return decomposed_gae(rewards, values, *masks, **factors)[0]

    return advantages


def verl(root: str) -> Advantages:
    """compute_gae_advantage_return."""
    file = loaded(root, "verl/trainer/ppo/core_algos.py", TORCH)
    file.verl_F.masked_whiten = not_whitened

    def advantages(vector: Vector) -> torch.Tensor:
        rewards, values, written = inputs_of(vector)
        factors = (torch.tensor(vector["gamma"]), torch.tensor(vector["lam"]))
        return file.compute_gae_advantage_return(rewards, values, written, *factors)[0]

    return advantages


def skyrl(root: str) -> Advantages:
    """compute_gae_advantage_return."""
    file = loaded(root, "skyrl/backends/skyrl_train/utils/ppo_utils.py", TORCH)
    file.masked_whiten = not_whitened

    def advantages(vector: Vector) -> torch.Tensor:
        rewards, values, written = inputs_of(vector)
        factors = (vector["gamma"], vector["lam"])
        return file.compute_gae_advantage_return(rewards, values, written, *factors)[0]

    return advantages


def nemo_rl(root: str) -> Advantages:
    """GeneralizedAdvantageEstimator's recursion, which takes a reward a token."""
    file = loaded(root, "nemo_rl/algorithms/advantage_estimator.py", TORCH)

    def advantages(vector: Vector) -> torch.Tensor:
        own = SimpleNamespace(gae_gamma=vector["gamma"], gae_lambda=vector["lam"])
        return file.GeneralizedAdvantageEstimator._compute_gae(own, *inputs_of(vector))[0]

    return advantages


def areal(root: str) -> Advantages:
    """PPOActor's advantages: a prompt token before, an end after; KL carries the rewards.

    A row whose mask is full was cut: the value at its last token is the one after it.
    """
    file = loaded(root, "areal/trainer/ppo/actor.py", TORCH)

    def advantages(vector: Vector) -> torch.Tensor:
        rewards, values, written = inputs_of(vector)
        none = torch.zeros(len(rewards), 1)
        config = SimpleNamespace(
            overlong_reward_penalty=False, use_decoupled_loss=True, recompute_logprob=False
        )
        actor = SimpleNamespace(
            config=config,
            reward_bias=0.0,
            reward_scaling=1.0,
            reward_clip=1.0,
            reward_norm=None,
            adv_norm=None,
            kl_ctl=-1.0,
            kl_estimator=lambda *_: torch.cat([rewards, none, none], 1),
            mask_no_eos_with_zero=False,
            discount=vector["gamma"],
            gae_lambda=vector["lam"],
        )
        ids = torch.zeros(len(rewards), rewards.shape[1] + 2)
        attended = torch.ones_like(ids)
        after = torch.tensor(vector["bootstrap"])[:, None]
        attended[:, -1:] = after != 0
        data = {
            "input_ids": ids,
            "rewards": torch.zeros(len(rewards)),
            "loss_mask": torch.cat([none, written, none], 1),
            "logprobs": ids,
            "attention_mask": attended,
            "values": torch.cat([values, none, after], 1),
        }
        advantages = file.PPOActor._compute_advantages(actor, data)["advantages"]
        return advantages[:, : rewards.shape[1]]

    return advantages


def slime(root: str) -> Advantages:
    """vanilla_gae, which knows no mask."""
    file = loaded(root, "slime/utils/ppo_utils.py", TORCH)

    def advantages(vector: Vector) -> torch.Tensor:
        rewards, values, _ = inputs_of(vector)
        return file.vanilla_gae(rewards, values, vector["gamma"], vector["lam"])[0]

    return advantages


def miles(root: str) -> Advantages:
    """get_advantages_and_returns_batch."""
    file = loaded(root, "miles/backends/training_utils/loss_hub/math_utils.py", TORCH)
    file.get_parallel_state = lambda: SimpleNamespace(cp=SimpleNamespace(size=1))

    def advantages(vector: Vector) -> torch.Tensor:
        rewards, values, written = inputs_of(vector)
        lengths = [rewards.shape[1]] * len(rewards)
        rows, _ = file.get_advantages_and_returns_batch(
            lengths,
            lengths,
            list(values),
            list(rewards),
            [0.0] * len(rewards),
            "thd",
            None,
            list(written),
            vector["gamma"],
            vector["lam"],
            chunked=False,
        )
        return torch.stack(rows)

    return advantages


TRAINERS = {f.__name__: f for f in (ours, verl, areal, nemo_rl, miles, slime, skyrl)}


def is_exact(vector: Vector, advantages: torch.Tensor, convention: str) -> bool:
    """Whether the advantages of written tokens follow a convention."""
    rows = zip(advantages.tolist(), vector["expected"][convention], strict=True)
    pairs = [pair for row in rows for pair in zip(*row, strict=True)]
    return all(expected is None or abs(actual - expected) < 1e-4 for actual, expected in pairs)


def rows_of_tool_tokens(vectors: dict[str, Vector], advantages: Advantages) -> list[str]:
    """Return the effect of tool tokens on the first action's credit."""
    written = torch.tensor(vectors["plain"]["written"])
    plain = advantages(vectors["plain"])
    more = advantages(vectors["tool_tokens"])
    valued = advantages(vectors["tool_value"])
    spread = advantages(vectors["tool_nan"])[written].isnan().any()
    written_more = torch.tensor(vectors["tool_tokens"]["written"])
    moved = (plain[written] - more[written_more]).abs().max().item()
    leaked = (valued - plain)[written].abs().max().item()
    worded = advantages(vectors["long_wording"])[0, 0].item()
    return [
        f"{moved:.2f}",
        f"{leaked:.1f}",
        "yes" if spread else "no",
        f"{worded:.3f}",
    ]


def main() -> None:
    """Print both tables."""
    parser = benchmark_parser("Credit of other trainers.")
    parser.add_argument("trainer", nargs="*", metavar="NAME=FOLDER", help=", ".join(TRAINERS))
    options = parser.parse_args()
    chosen = dict(pair.split("=", 1) for pair in options.trainer)
    functions = {name: TRAINERS[name](root) for name, root in {"ours": "", **chosen}.items()}
    file = Path(conformance.__path__[0]) / "credit_vectors.json"
    made = json.loads(file.read_text("utf-8"))["tokens"]
    vectors = {vector["name"]: vector for vector in made}
    columns = [rows_of_tool_tokens(vectors, function) for function in functions.values()]
    claims = (
        "8 more tool tokens move credit by",
        "a value of 100 on a tool token leaks",
        "a NaN there spreads",
        "credit of token 1 where both actions have 10 tokens",
    )
    rows = [[claim, *row] for claim, row in zip(claims, zip(*columns, strict=True), strict=True)]
    print(align_rows([["", *functions], *rows]), end="\n\n")
    write_figures(options.json, rows=[["", *functions], *rows])
    exact = []
    for name, vector in vectors.items():
        results = [function(vector) for function in functions.values()]
        cells = [
            "/".join(
                name.removeprefix("between_")
                for name in vector["expected"]
                if is_exact(vector, rows, name)
            )
            for rows in results
        ]
        exact.append([name, *(cell or "neither" for cell in cells)])
    print(align_rows([["exact between", *functions], *exact]))


if __name__ == "__main__":
    main()
