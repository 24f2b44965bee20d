"""Checkpoints: whole or not there, and everything random goes on where it was."""

from __future__ import annotations

import contextlib
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fctncalling.algorithms.run.checkpoint import (
    STATE_FILE,
    CheckpointError,
    check_digests,
    checkpoints_text,
    find_checkpoint,
    load_state,
    save_checkpoint,
    seed_streams,
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
    return [
        random.random(),
        random.gauss(0, 1),
        np.random.rand(),  # noqa: NPY002
        torch.rand(1).item(),
        torch.randn(3).tolist(),
    ]


def test_every_random_stream_goes_on_where_it_was(tmp_path: Path) -> None:
    random.gauss(0, 1)  # leaves a second normal number waiting, which is part of the state
    path = save_checkpoint(tmp_path, "one", policy=OneWeight(), state={})
    expected = draw()
    draw()
    load_state(path)
    assert draw() == expected


def test_one_seed_sets_pythons_numpys_and_torchs_streams() -> None:
    seed_streams(2**40)  # numpy takes 32 bits
    first = draw()
    seed_streams(2**40)
    assert draw() == first
    seed_streams(3)
    assert all(one != other for one, other in zip(draw(), first, strict=True))


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
    path = save_checkpoint(
        tmp_path, "one", policy=OneWeight(), state={"optimiser": optimiser.state_dict()}
    )
    expected = stepped(weight, optimiser)

    other = torch.nn.Parameter(saved)
    resumed = torch.optim.AdamW([other], lr=0.1)
    resumed.load_state_dict(load_state(path)["optimiser"])
    assert torch.equal(stepped(other, resumed), expected)


def test_saving_that_is_cut_off_leaves_the_earlier_checkpoint_whole(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, "update_000001", policy=OneWeight(1.0), state={"n": 1})
    with pytest.raises(CheckpointError, match=r"update_000002.*no space.*make room"):
        save_checkpoint(tmp_path, "update_000002", policy=DiesWhileSaving(), state={"n": 2})
    assert not list(tmp_path.glob(".*"))  # what was half written takes no room
    found = find_checkpoint(tmp_path)
    assert found.name == "update_000001"
    assert (found / "weight").read_text() == "1.0"
    assert load_state(found) == {"n": 1}


def test_only_the_newest_checkpoints_stay_and_the_last_is_found(tmp_path: Path) -> None:
    for number in (8, 9, 10, 11):
        name = f"update_{number:06d}"
        save_checkpoint(tmp_path, name, policy=OneWeight(), state={"n": number}, keep=2)
    assert sorted(p.name for p in tmp_path.glob("update_*")) == ["update_000010", "update_000011"]
    assert load_state(find_checkpoint(tmp_path, "auto")) == {"n": 11}
    assert load_state(find_checkpoint(tmp_path, str(tmp_path / "update_000010"))) == {"n": 10}


def test_the_best_checkpoint_stays_and_is_found_beside_the_newest(tmp_path: Path) -> None:
    for number in (1, 2, 3, 4, 5):
        save_checkpoint(
            tmp_path,
            f"update_{number:06d}",
            policy=OneWeight(number),
            state={"n": number},
            keep=2,
            best=number == 2,
        )
    assert sorted(p.name for p in tmp_path.glob("update_*")) == [
        f"update_00000{n}" for n in (2, 4, 5)
    ]
    assert load_state(find_checkpoint(tmp_path, "best")) == {"n": 2}
    assert load_state(find_checkpoint(tmp_path, "last")) == {"n": 5}
    assert (tmp_path / "best" / "weight").read_text() == "2"  # a folder to load a model from
    save_checkpoint(
        tmp_path, "update_000006", policy=OneWeight(6), state={"n": 6}, keep=2, best=True
    )
    assert sorted(p.name for p in tmp_path.glob("update_*")) == ["update_000005", "update_000006"]


def test_the_newest_checkpoint_alone_stays_and_the_disk_that_they_take_is_told(
    tmp_path: Path,
) -> None:
    save_checkpoint(tmp_path, "sft_000025", policy=OneWeight(), state={})
    save_checkpoint(tmp_path, "update_000000", policy=OneWeight(), state={})
    assert [path.name for path in tmp_path.glob("*_0*")] == ["update_000000"]
    with (tmp_path / "update_000000" / "weight").open("r+b") as file:
        file.truncate(540 * 10**6)  # a hole, which takes no room
    assert checkpoints_text(tmp_path) == "1 checkpoint of 540 MB"
    save_checkpoint(tmp_path, "update_000001", policy=OneWeight(), state={}, keep=2)
    with (tmp_path / "update_000001" / "weight").open("r+b") as file:
        file.truncate(1080 * 10**6)
    text = checkpoints_text(tmp_path)
    assert text.startswith("2 checkpoints of 1.6 GB together; --keep_checkpoints 1 leaves")


def test_without_a_best_checkpoint_resuming_from_it_is_an_error(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, "update_000001", policy=OneWeight(), state={"n": 1})
    with pytest.raises(CheckpointError, match="--resume best"):
        find_checkpoint(tmp_path, "best")


class Killed(BaseException):
    """Stands for a kill, which no code of ours sees."""


@pytest.mark.parametrize("again", [False, True], ids=["a new name", "the same name"])
@pytest.mark.parametrize("at", range(1, 12))
def test_a_kill_between_any_two_steps_of_saving_leaves_a_whole_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, again: bool
) -> None:
    save_checkpoint(tmp_path, "update_000001", policy=OneWeight(1), state={"n": 1})
    calls = []

    def dying(function: Any) -> Any:
        def step(*arguments: Any, **more: Any) -> Any:
            calls.append(function)
            if len(calls) >= at:
                raise Killed
            return function(*arguments, **more)

        return step

    with monkeypatch.context() as patched:
        for owner, name in (
            (Path, "rename"),
            (Path, "replace"),
            (Path, "symlink_to"),
            (shutil, "rmtree"),
        ):
            patched.setattr(owner, name, dying(getattr(owner, name)))
        name = "update_000001" if again else "update_000002"
        with contextlib.suppress(Killed):
            save_checkpoint(tmp_path, name, policy=OneWeight(2), state={"n": 2}, keep=1, best=True)
    found = find_checkpoint(tmp_path)
    assert (found / "weight").read_text() == str(load_state(found)["n"])
    save_checkpoint(tmp_path, "update_000003", policy=OneWeight(3), state={"n": 3})
    assert load_state(find_checkpoint(tmp_path)) == {"n": 3}


def test_a_lost_last_checkpoint_leaves_the_one_before(tmp_path: Path) -> None:
    for number in (1, 2):
        save_checkpoint(
            tmp_path, f"update_{number:06d}", policy=OneWeight(), state={"n": number}, keep=2
        )
    shutil.rmtree(tmp_path / "update_000002")
    assert load_state(find_checkpoint(tmp_path)) == {"n": 1}


def test_a_missing_checkpoint_is_told_with_the_way_on(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="without --resume"):
        find_checkpoint(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match=STATE_FILE):
        find_checkpoint(tmp_path, str(tmp_path / "elsewhere"))


@pytest.mark.parametrize("damage", [b"", b"garbage", None], ids=["empty", "garbage", "cut"])
def test_a_broken_checkpoint_is_told_by_its_file(tmp_path: Path, damage: bytes | None) -> None:
    path = save_checkpoint(
        tmp_path, "one", policy=OneWeight(), state={"n": 1, "t": torch.rand(100)}
    )
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


@pytest.mark.parametrize("state", [["a", "list"], {"n": 1}, {"random": -5}], ids=str)
def test_a_state_made_by_hand_is_refused_in_one_line(tmp_path: Path, state: Any) -> None:
    path = save_checkpoint(tmp_path, "one", policy=OneWeight(), state={})
    torch.save(state, path / STATE_FILE)
    with pytest.raises(CheckpointError, match=STATE_FILE) as told:
        load_state(path)
    assert "\n" not in str(told.value)


def test_a_file_that_is_not_as_it_was_saved_is_named(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, "one", policy=OneWeight(1.5), state={})
    check_digests(path)
    (path / "weight").write_text("1.6")
    with pytest.raises(CheckpointError, match="weight is not as it was saved"):
        check_digests(path)
    (path / "weight").unlink()
    with pytest.raises(CheckpointError, match="Move that folder away"):
        check_digests(path)
    (path / "SHA256.json").write_text("[]")
    with pytest.raises(CheckpointError, match=r"SHA256\.json is not"):
        check_digests(path)
