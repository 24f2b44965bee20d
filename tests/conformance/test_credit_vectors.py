"""Credit vectors: the file is what closed forms say, and our estimators are exact on it."""

from __future__ import annotations

import importlib.util
import json
import math
import statistics
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch

from fctncalling.algorithms.advantages import decomposed_gae
from fctncalling.algorithms.algorithm import AdvantageEstimate, Trajectories
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.group_baseline import subtract_group_baseline
from fctncalling.algorithms.grpo import grpo_estimate
from fctncalling.lab import conformance

FILE = Path(conformance.__path__[0]) / "credit_vectors.json"
VECTORS: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
EXAMPLE = Path(__file__).parents[2] / "examples/credit_conformance.py"


def lambda_return(rewards: list[Fraction], values: list[Fraction], vector: Any) -> Fraction:
    """Return the mix of all k-step returns; values: after each reward, the last a bootstrap."""
    gamma, lam = (Fraction(str(vector[name])) for name in ("gamma", "lam"))
    returns = [
        sum(gamma**i * reward for i, reward in enumerate(rewards[:k])) + gamma**k * values[k - 1]
        for k in range(1, len(rewards) + 1)
    ]
    mixed = sum((1 - lam) * lam**k * each for k, each in enumerate(returns[:-1]))
    return mixed + lam ** (len(returns) - 1) * returns[-1]


@pytest.mark.parametrize("by_action", [True, False])
@pytest.mark.parametrize("vector", VECTORS["tokens"], ids=lambda vector: vector["name"])
def test_expected_credit_is_a_lambda_return_less_the_value(vector: Any, by_action: bool) -> None:
    expected = vector["expected"]["between_actions" if by_action else "between_tokens"]
    for row, advantages in enumerate(expected):
        values, rewards, written, ends = (
            vector[key][row] for key in ("values", "rewards", "written", "ends_action")
        )
        units: list[list[int]] = [[]]  # of time: actions, or tokens
        for place in (place for place, own in enumerate(written) if own):
            units[-1].append(place)
            if ends[place] or not by_action:
                units.append([])
        *units, rest = units
        assert not rest
        paid = [Fraction(str(sum(rewards[place] for place in unit))) for unit in units]
        ahead = [Fraction(str(values[unit[0]])) for unit in units[1:]]
        ahead.append(Fraction(str(vector["bootstrap"][row])))
        known = [None] * len(values)
        for number, unit in enumerate(units):
            target = lambda_return(paid[number:], ahead[number:], vector)
            for place in unit:
                known[place] = float(target - Fraction(str(values[place])))
        assert advantages == known


@pytest.mark.parametrize("vector", VECTORS["groups"], ids=lambda vector: vector["name"])
def test_expected_baselines_are_those_of_the_group(vector: dict[str, Any]) -> None:
    for member, own in enumerate(vector["returns"]):
        expected = {name: values[member] for name, values in vector["expected"].items()}
        group = vector["group"][member]
        peers = [r for r, g in zip(vector["returns"], vector["group"], strict=True) if g == group]
        peers = [peer for peer in peers if peer is not None]
        assert vector["valid"][member] == (own is not None)
        if own is None:
            assert set(expected.values()) == {None}
            continue
        centred = own - statistics.mean(peers)
        assert expected == pytest.approx(
            {
                "mean": centred,
                "mean_over_deviation": centred / (statistics.pstdev(peers) or 1),
                "mean_over_sample_deviation": centred / (statistics.stdev(peers) or 1),
                "leave_one_out": own - (sum(peers) - own) / (len(peers) - 1),
            }
        )


def rows_of(vector: dict[str, Any], **between_tokens: float) -> torch.Tensor:
    def numbers(key: str) -> torch.Tensor:
        rows = [[math.nan if x is None else x for x in row] for row in vector[key]]
        return torch.tensor(rows, dtype=torch.float64)

    bootstrap = torch.tensor(vector["bootstrap"], dtype=torch.float64)
    written, ends = (torch.tensor(vector[key]) for key in ("written", "ends_action"))
    factors = {"gamma": vector["gamma"], "lam": vector["lam"], **between_tokens}
    return decomposed_gae(
        numbers("rewards"), numbers("values"), written, ends, bootstrap, **factors
    )[0]


@pytest.mark.parametrize("vector", VECTORS["tokens"], ids=lambda vector: vector["name"])
def test_both_conventions_are_ours_to_the_last_digit(vector: dict[str, Any]) -> None:
    naive = {"gamma_token": vector["gamma"], "lam_token": vector["lam"]}
    for convention, factors in (("between_actions", {}), ("between_tokens", naive)):
        found = rows_of(vector, **factors)
        for row, known in zip(found.tolist(), vector["expected"][convention], strict=True):
            for advantage, expected in zip(row, known, strict=True):
                assert advantage == pytest.approx(expected or 0.0, abs=1e-12)


@pytest.mark.parametrize("vector", VECTORS["groups"], ids=lambda vector: vector["name"])
def test_group_baselines_are_ours_once_invalid_members_are_dropped(vector: dict[str, Any]) -> None:
    kept = [index for index, valid in enumerate(vector["valid"]) if valid]
    returns = torch.tensor([vector["returns"][index] for index in kept], dtype=torch.float64)
    group = torch.tensor([vector["group"][index] for index in kept])
    rows, ones = returns[:, None], torch.ones(len(kept), 1, dtype=torch.bool)
    nothing = torch.zeros_like(rows)
    episodes = Trajectories(rows, nothing, ones, ones, nothing[:, 0], group)
    found = {
        "mean": grpo_estimate(episodes, TrainConfig(group_std=False)).advantages,
        "mean_over_deviation": grpo_estimate(episodes, TrainConfig(group_std=True)).advantages,
        "leave_one_out": subtract_group_baseline(
            AdvantageEstimate(rows, rows, ones), group
        ).advantages,
    }
    for convention, advantages in found.items():
        expected = [vector["expected"][convention][index] for index in kept]
        assert advantages[:, 0].tolist() == pytest.approx(expected, abs=1e-5), convention


def test_the_runner_is_short_and_tells_a_leak(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.spec_from_file_location("credit_conformance", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    runner = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(runner)
    runner.main()
    told = capsys.readouterr().out
    assert told.count("between_actions") == len(VECTORS["tokens"])
    assert "NEITHER" not in told

    def leaking(vector: dict[str, Any]) -> list[list[float]]:
        everything = [[True] * len(row) for row in vector["written"]]
        return rows_of({**vector, "written": everything}).tolist()  # tool tokens are actions

    monkeypatch.setattr(runner, "advantages", leaking)
    runner.main()
    faults = [line.split()[0] for line in capsys.readouterr().out.splitlines() if "NEITHER" in line]
    assert {"tool_tokens", "tool_value", "tool_nan", "padding"} <= set(faults)
    body = EXAMPLE.read_text("utf-8").split('"""')[2].splitlines()
    code = [line for line in body if line.strip() and not line.startswith(("import", "from"))]
    assert len(code) <= 20
