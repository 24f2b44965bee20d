"""Heap trimming: holes go back to the system; passes trim as often as their layers' inputs say."""

from __future__ import annotations

import mmap
import platform
from pathlib import Path

import pytest
import torch

from fctncalling.algorithms.policy import gradient_checkpointing
from fctncalling.algorithms.policy.gradient_checkpointing import (
    HeapTrimmingRunner,
    RecomputingRunner,
    trim_heap,
)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries keep their heap")
def test_trimming_returns_the_holes_between_blocks_that_stay() -> None:
    def resident_mib() -> float:
        return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE / 2**20

    blocks = [torch.ones(25_000) for _ in range(600)]  # 100 kB each, too small for own maps
    full = resident_mib()
    del blocks[::2]  # 29 MiB
    trim_heap()
    assert resident_mib() < full - 20
    assert all(bool(it.eq(1).all()) for it in blocks)


@pytest.fixture
def trims(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    calls: list[int] = []
    monkeypatch.setattr(gradient_checkpointing, "trim_heap", lambda: calls.append(1))
    monkeypatch.setattr(
        gradient_checkpointing, "BYTES_A_TRIM", 4 * 10 * 3
    )  # three inputs of ten numbers
    return calls


def layer(scale: float, states: torch.Tensor) -> torch.Tensor:
    return torch.tanh(states * scale)


def test_a_pass_that_autograd_records_trims_once_in_so_many_bytes_of_inputs(
    trims: list[int],
) -> None:
    run, states = HeapTrimmingRunner(), torch.ones(10, requires_grad=True)
    counts = []
    for _ in range(7):
        states = run(layer, 2.0, states=states)
        counts.append(len(trims))
    assert counts == [0, 0, 1, 1, 1, 2, 2]
    with torch.no_grad():
        for _ in range(7):
            run(layer, 2.0, states)
    assert len(trims) == 2


def test_layers_computed_again_are_counted_again(trims: list[int]) -> None:
    run, first = RecomputingRunner(torch.enable_grad), torch.ones(10, requires_grad=True)
    states = first
    for _ in range(4):
        states = run(layer, 2.0, states)
    assert len(trims) == 1
    states.sum().backward()
    assert len(trims) == 8 // 3
    wanted = torch.ones(10, requires_grad=True)
    layer(2.0, layer(2.0, layer(2.0, layer(2.0, wanted)))).sum().backward()
    assert first.grad is not None
    assert wanted.grad is not None
    assert torch.equal(first.grad, wanted.grad)
