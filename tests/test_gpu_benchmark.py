"""The command for GPUs prints every line in small on a CPU, and a section that fails costs one."""

from __future__ import annotations

import json
import time
from typing import Any

import gpu
import pytest
from on_gpu.machine import SMALL, Figures, Machine

EVERY = {"roofs": 5, "decode": 8, "prefill": 6, "update": 8, "round": 1, "mismatch": 1, "peers": 3}


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.prove
def test_every_line_is_printed_in_small(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu.main(["--seconds", "1200"]) == 0
    found = lines(capsys)
    assert [line for line in found if "error" in line] == []
    assert {name: sum(line["section"] == name for line in found) for name in EVERY} == EVERY
    assert {line["card"] for line in found} == {"CPU, small sizes"}
    (played,) = (line for line in found if line["section"] == "round")
    assert played["solved"] == SMALL.episodes  # the script's answers, token by token


def test_a_section_that_fails_or_takes_too_long_costs_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: Machine) -> Figures:
        yield {"what": "first", "value": 1.23456}
        raise ZeroDivisionError("by nothing")

    def hangs(_: Machine) -> Figures:
        time.sleep(5)
        yield {"what": "never"}

    monkeypatch.setattr(gpu, "SECTIONS", {"fails": (fails, 9.0), "hangs": (hangs, 9.0)})
    machine = Machine(gpu.torch.device("cpu"), SMALL, "a card")
    gpu.run_section(machine, "fails", 9.0)
    gpu.run_section(machine, "hangs", 0.1)
    first, error, late = lines(capsys)
    assert first == {"section": "fails", "what": "first", "value": 1.235, "card": "a card"}
    assert error["error"] == "ZeroDivisionError: by nothing"
    assert late["error"].startswith("TimeoutError: over its budget")
    gpu.main(["--only", "fails", "--seconds", "0"])
    assert lines(capsys)[0]["error"] == "not measured: no time left"
