"""Check of an advantage function: does it credit the policy's tokens alone?

    python examples/credit_conformance.py

asks ours. Put your trainer's function in the place of `advantages`: it gets a vector of
`fctncalling/lab/conformance/credit_vectors.json` and returns rows of advantages. A line for each
vector names the conventions in which the function is exact; a vector of which it is in none, or not
in the one it is in elsewhere, shows a fault.
"""

import json
from functools import partial
from pathlib import Path

import torch

from fctncalling.algorithms.advantages import decomposed_gae
from fctncalling.lab import conformance


def advantages(vector):
    nan = partial(map, lambda number: float("nan") if number is None else number)
    inputs = [torch.tensor([*map(list, map(nan, vector[key]))]) for key in ("rewards", "values")]
    inputs += [torch.tensor(vector[key]) for key in ("written", "ends_action", "bootstrap")]
    return decomposed_gae(*inputs, gamma=vector["gamma"], lam=vector["lam"])[0].tolist()


def is_exact(rows, expected):
    pairs = [pair for row in zip(rows, expected, strict=True) for pair in zip(*row, strict=True)]
    return all(target is None or abs(actual - target) < 1e-5 for actual, target in pairs)


def main():
    file = Path(conformance.__path__[0]) / "credit_vectors.json"
    for vector in json.loads(file.read_text())["tokens"]:
        rows = advantages(vector)
        exact = [name for name, values in vector["expected"].items() if is_exact(rows, values)]
        print(f"{vector['name']:14} {', '.join(exact) or 'NEITHER':33} {vector['claim']}")


if __name__ == "__main__":
    main()
