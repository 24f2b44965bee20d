"""Commands whose output nobody reads any more: training goes on, the others end without a word.
And what a run shows on terminals of any width.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import struct
import termios
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import pytest
from tiny_models import EchoEnv, save_tiny

from evaluate_fctncalling import main as evaluate
from fctncalling import progress_bar
from fctncalling.algorithms.config import TrainConfig
from fctncalling.cli.command import main as overview
from fctncalling.cli.shared.jsonl_records import with_progress_bar
from fctncalling.cli.shared.output import ignore_broken_pipe
from fctncalling.cli.train import main as train
from fctncalling.data.bfcl import embedded_path
from fctncalling.progress_bar import Progress, Stage
from fctncalling.training.counters import Counters
from fctncalling.training.run_loop import run_loop
from fctncalling.training.training_run import TrainingRun


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


def test_the_overview_may_be_cut_short() -> None:
    with unread(), pytest.raises(SystemExit) as ended:
        overview(["--help"])
    assert ended.value.code == 141


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
            ignore_broken_pipe(goes_on=False),
        ):
            print("a line")
        with ignore_broken_pipe(goes_on=True):
            print("another")


def shown_on(columns: int) -> str:
    """Return what a terminal of so many columns gets of an update."""
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    metrics = dict.fromkeys(("env/success_rate", "env/success_rate_strict"), 0.4375)
    metrics |= {"charts/episodic_return": 0.4375, "losses/approx_kl": 2e-4}
    run: Any = SimpleNamespace(
        update_log=SimpleNamespace(active_alarms=("mismatch",)),
        tokens_per_s=2195.0,
        counters=SimpleNamespace(updates=3),
        config=SimpleNamespace(episodes_per_update=256),
        processes=SimpleNamespace(count=1),
    )
    with os.fdopen(terminal, "w") as stream:
        with contextlib.redirect_stderr(stream), contextlib.redirect_stdout(stream):
            progress = Progress(40, 2)
            progress.show_evaluation_start(148)
            with progress.collection(run) as stage:
                for _ in range(256):
                    stage.count()
            progress.show_update(metrics, run)
            progress.close()
            stream.flush()
        text = b""
        os.set_blocking(screen, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                text += os.read(screen, 1 << 16)
    os.close(screen)
    return text.decode()


def test_at_120_columns_the_bar_is_one_and_alarms_stand_in_it() -> None:
    text = shown_on(120)
    assert "playing 148 held-out tasks" in text
    last = text.strip().splitlines()[-1].split("\r")[-1]
    assert re.search(
        r"collecting 256 of 256: 3/40 \|.{12}\| .*alarms mismatch  success 0.438", last
    )
    assert len(last) <= 120


def test_a_terminal_without_columns_gets_lines() -> None:
    lines = shown_on(0).split("\r\n")
    assert lines[0].startswith("playing 148 held-out tasks")
    assert lines[1].startswith("update 3/40  alarms mismatch  success 0.438  strict 0.438  return")
    assert "kl 2.0e-04" in lines[1]


def test_a_stage_without_a_terminal_tells_how_far_it_is_and_ends_with_its_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress_bar, "LINE_EVERY_S", 0.01)
    now, told = 100.0, ""
    monkeypatch.setattr(progress_bar.time, "monotonic", lambda: now)
    with Stage("evaluation", 48, "episode") as stage:
        for _ in range(12):
            stage.count()
        now = 160.0
        line = "evaluation: 60 s so far, 12 of 48 episodes, about 3 min left\n"
        assert stage.line() == line.strip()
        while line not in told:  # the suite's limit of a test ends what never comes
            told += capsys.readouterr().out
    assert not stage._thread.is_alive()
    with Stage("learning", shown=False) as hidden:
        hidden.count()
    assert not hidden._thread.is_alive()
    assert hidden.line() == "learning: 0 s so far"
    extra = Stage("collecting", 1, "episode")
    for _ in range(2):  # a collection may take more rounds than one
        extra.count()
    assert extra.line() == "collecting: 0 s so far, 2 episodes"


class ClockedRun:
    """Run whose evaluations, collections and updates take known times of a clock."""

    evaluation_is_due = TrainingRun.evaluation_is_due
    supervised = None
    held_out_ids = ("a", "b")
    tokens_per_s = None

    def __init__(self, clock: SimpleNamespace, num_updates: int, interval: int) -> None:
        self.clock, self.num_updates = clock, num_updates
        self.config = TrainConfig(num_updates=num_updates, eval_interval=interval)
        self.counters = Counters()
        self.processes = SimpleNamespace(count=1)
        self.update_log = SimpleNamespace(active_alarms=())

    def is_over(self) -> bool:
        return self.counters.updates >= self.num_updates

    def save_is_due(self) -> bool:
        return False

    critic_warm_up_is_due = save_is_due

    def evaluate(self, _: Any) -> dict[str, Any]:
        self.clock.now += 70.0
        self.counters.evaluated_at = self.counters.updates
        return {}

    def collect(self, _: Any) -> list[Any]:
        self.clock.now += 11.0
        return []

    def learn(self, _: list[Any]) -> dict[str, Any]:
        self.clock.now += 5.0
        self.counters.updates += 1
        return {}


@pytest.mark.parametrize(("updates", "interval"), [(5, 0), (6, 3), (7, 3)])
def test_the_time_that_is_left_of_a_run_counts_the_evaluations_to_come(
    monkeypatch: pytest.MonkeyPatch, updates: int, interval: int
) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress_bar.time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(progress_bar, "duration_text", repr)
    run: Any = ClockedRun(clock, updates, interval)
    progress, told, at = Progress(updates, 0), list[str](), list[float]()
    monkeypatch.setattr(progress, "_write", lambda _: None)

    def note(text: str, **_: Any) -> None:
        told.append(text)
        at.append(clock.now)

    monkeypatch.setattr(progress_bar, "print", note, raising=False)
    run_loop(run, progress)
    left = [float(line.split()[2]) for line in told]
    assert left == pytest.approx([clock.now - each for each in at])
    assert len(left) == updates


def test_the_supervised_stage_tells_of_the_evaluation_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress_bar.time, "monotonic", lambda: clock.now)
    run, progress = ClockedRun(clock, 0, 0), Progress(0, 0)
    with progress.evaluation(run):
        clock.now += 240.0
    stage = progress.supervised_steps(4, run)
    clock.now += 600.0
    stage.count()
    line = "1 of 4 steps, about 30 min left, then an evaluation of about 4 min"
    assert stage.line().endswith(line)


def test_answers_that_are_long_in_coming_are_counted_in_lines_on_standard_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_bar, "LINE_EVERY_S", 0.01)
    told = ""
    for _ in with_progress_bar(iter("ab"), "agent", "episode"):
        while not told.endswith("1 episodes\n"):  # of the first; the suite's limit ends a silence
            told += capsys.readouterr().err
    assert re.fullmatch(r"(agent: 0 s so far(, 1 episodes)?\n)+", told)
    assert not capsys.readouterr().out
