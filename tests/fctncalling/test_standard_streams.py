"""Commands whose output nobody reads any more: training goes on, the others end without a word."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import gymnasium
import pytest
from tiny_models import EchoEnv, save_tiny

from evaluate_fctncalling import main as evaluate
from fctncalling.cli.shared.standard_streams import standard_streams
from fctncalling.cli.train import main as train
from fctncalling.data.bfcl import embedded_path


@contextlib.contextmanager
def unread() -> Iterator[None]:
    """Standard output as `| head` leaves it behind."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream, contextlib.redirect_stdout(stream):
        yield


COMMANDS = (
    ["lint", "--help"],
    ["canaries", "--help"],
    ["lint", "--dataset_path", str(embedded_path("held_out"))],
)


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_command_that_only_prints_ends_as_sigpipe_would_end_it(
    arguments: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    with unread(), pytest.raises(SystemExit) as ended:
        evaluate(arguments)
    assert ended.value.code == 141
    assert capfd.readouterr().err == ""


def test_training_goes_on_and_writes_all_of_its_results(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    gymnasium.register("Unread-v0", entry_point=lambda **_: EchoEnv())
    settings = {"env_name": "Unread-v0", "results_dir": tmp_path, "num_updates": 2}
    settings |= {"model_name_or_path": save_tiny(tmp_path / "tiny"), "episodes_per_update": 8}
    settings |= {"max_new_tokens": 6, "max_episode_tokens": 300, "eval_episodes": 2}
    try:
        with unread():
            code = train([f"--{name}={value}" for name, value in settings.items()])
    finally:
        del gymnasium.registry["Unread-v0"]
    assert code == 0
    assert (tmp_path / "check" / "tiny" / "Unread-v0" / "TPPO" / "evaluation.json").is_file()
    assert "Broken pipe" not in capfd.readouterr().err


def test_a_full_disk_behind_standard_output_is_named() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with Path("/dev/full").open("w", encoding="utf-8") as full, contextlib.redirect_stdout(full):
        with (
            pytest.raises(SystemExit, match="standard output cannot be written to"),
            standard_streams(goes_on=False),
        ):
            print("a line")
        with standard_streams(goes_on=True):
            print("another")
