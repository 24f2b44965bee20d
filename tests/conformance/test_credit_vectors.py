"""Credit vectors: the file is what closed forms make, and our estimators are exact on it."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from fctncalling.algorithms.advantages import decomposed_gae
from fctncalling.algorithms.algorithm import AdvantageEstimate, Trajectories
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.group_baseline import subtract_group_baseline
from fctncalling.algorithms.grpo import grpo_estimate
from fctncalling.lab.conformance.credit_vectors import CLAIMS, FILE, vectors_text

VECTORS: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
EXAMPLE = Path(__file__).parents[2] / "examples/credit_conformance.py"


def test_the_file_is_what_the_closed_forms_make() -> None:
    assert FILE.read_text("utf-8") == vectors_text()
    assert [each["name"] for each in (*VECTORS["tokens"], *VECTORS["groups"])] == list(CLAIMS)


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
