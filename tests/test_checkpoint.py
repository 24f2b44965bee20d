"""Checkpoints: whole or not there, and everything random goes on where it was."""

from __future__ import annotations

import random
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fctncalling.algorithms.checkpoint import (
    STATE_FILE,
    CheckpointError,
    Interruption,
    find_checkpoint,
    load_state,
    save_checkpoint,
)


class OneWeight:
    """Stands for a policy."""

    def __init__(self, value: float = 0.0) -> None:
        self.value = value

    def save(self, folder: str | Path) -> None:
        (Path(folder) / "weight").write_text(str(self.value))


class DiesWhileSaving:
    """Stands for a policy whose saving is cut off, as by a kill or a full disk."""

    def save(self, folder: str | Path) -> None:
        (Path(folder) / "weight").write_text("half")
        raise OSError("no space left on device")


def draw() -> list[Any]:
    return [random.random(), random.gauss(0, 1), np.random.rand(), torch.rand(1).item(), torch.randn(3).tolist()]  # noqa: NPY002


def test_every_random_stream_goes_on_where_it_was(tmp_path: Path) -> None:
    random.gauss(0, 1)  # leaves a second normal number waiting, which is part of the state
    path = save_checkpoint(tmp_path, "one", policy=OneWeight(), state={})
    expected = draw()
    draw()
    load_state(path)
    assert draw() == expected


def test_an_optimiser_goes_on_exactly(tmp_path: Path) -> None:
    def stepped(weight: torch.nn.Parameter, optimiser: torch.optim.Optimizer) -> torch.Tensor:
        for factor in (1.0, -2.0, 3.0):
            optimiser.zero_grad()
            (weight * factor).sum().backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        return weight.detach().clone()

    weight = torch.nn.Parameter(torch.ones(3))
    optimiser = torch.optim.AdamW([weight], lr=0.1)
    stepped(weight, optimiser)
    saved = weight.detach().clone()
    path = save_checkpoint(tmp_path, "one", policy=OneWeight(), state={"optimiser": optimiser.state_dict()})
    expected = stepped(weight, optimiser)

    other = torch.nn.Parameter(saved)
    resumed = torch.optim.AdamW([other], lr=0.1)
    resumed.load_state_dict(load_state(path)["optimiser"])
    assert torch.equal(stepped(other, resumed), expected)


def test_saving_that_is_cut_off_leaves_the_earlier_checkpoint_whole(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, "update_000001", policy=OneWeight(1.0), state={"n": 1})
    with pytest.raises(OSError, match="no space"):
        save_checkpoint(tmp_path, "update_000002", policy=DiesWhileSaving(), state={"n": 2})
    found = find_checkpoint(tmp_path)
    assert found.name == "update_000001"
    assert (found / "weight").read_text() == "1.0"
    assert load_state(found) == {"n": 1}


def test_only_the_newest_checkpoints_stay_and_the_last_is_found(tmp_path: Path) -> None:
    for number in (8, 9, 10, 11):
        save_checkpoint(tmp_path, f"update_{number:06d}", policy=OneWeight(), state={"n": number})
    assert sorted(p.name for p in tmp_path.glob("update_*")) == ["update_000010", "update_000011"]
    assert load_state(find_checkpoint(tmp_path, "auto")) == {"n": 11}
    assert load_state(find_checkpoint(tmp_path, str(tmp_path / "update_000010"))) == {"n": 10}


def test_a_lost_last_checkpoint_leaves_the_one_before(tmp_path: Path) -> None:
    for number in (1, 2):
        save_checkpoint(tmp_path, f"update_{number:06d}", policy=OneWeight(), state={"n": number})
    shutil.rmtree(tmp_path / "update_000002")
    assert load_state(find_checkpoint(tmp_path)) == {"n": 1}


def test_a_missing_checkpoint_is_told_with_the_way_on(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="without --resume"):
        find_checkpoint(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match=STATE_FILE):
        find_checkpoint(tmp_path, str(tmp_path / "elsewhere"))


@pytest.mark.parametrize("damage", [b"", b"garbage", None], ids=["empty", "garbage", "cut"])
def test_a_broken_checkpoint_is_told_by_its_file(tmp_path: Path, damage: bytes | None) -> None:
    path = save_checkpoint(tmp_path, "one", policy=OneWeight(), state={"n": 1, "t": torch.rand(100)})
    whole = (path / STATE_FILE).read_bytes()
    (path / STATE_FILE).write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    with pytest.raises(CheckpointError, match=STATE_FILE):
        load_state(path)


def test_a_checkpoint_that_would_run_code_is_refused(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "ran",))

    path = save_checkpoint(tmp_path, "one", policy=OneWeight(), state={})
    torch.save({"random": Evil()}, path / STATE_FILE)
    with pytest.raises(CheckpointError):
        load_state(path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_waits_for_the_end_of_a_deferred_block(number: int) -> None:
    done = []

    def interrupted(interruption: Interruption, times: int) -> None:
        with interruption.deferred():
            for _ in range(times):
                signal.raise_signal(number)
            done.append(times)

    with Interruption() as interruption:
        with pytest.raises(KeyboardInterrupt):
            interrupted(interruption, 1)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        with pytest.raises(KeyboardInterrupt):  # the second one does not wait
            interrupted(interruption, 2)
    assert done == [1]


def test_the_signal_handlers_of_before_come_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interruption():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_a_deferred_interrupt_that_raised_is_forgotten() -> None:
    with Interruption() as interruption:
        with pytest.raises(KeyboardInterrupt), interruption.deferred():
            signal.raise_signal(signal.SIGINT)
        with interruption.deferred():
            pass
