"""kill -9 at random moments, ten times in one run: it goes on each time, and ends as if nothing had
happened.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fctncalling.data.bfcl import embedded_path

pytestmark = pytest.mark.prove

ROOT = Path(__file__).parents[2]
SAVE_INTERVAL = 2
FLAGS = {
    "num_updates": 44,
    "episodes_per_update": 8,
    "n_rollout_threads": 8,
    "num_mini_batch": 2,
    "eval_interval": 7,
    "eval_episodes": 8,
    "save_interval": SAVE_INTERVAL,
    "task_sampling": "success",
    "device": "cpu",
}
# Anywhere in the run's time, start included; between two updates or amid one; while a checkpoint is
# written.
MOMENTS = ["anywhere"] * 3 + ["learning"] * 3 + ["writing"] * 4


def started(results: Path, *more: str) -> subprocess.Popen[str]:
    words = [sys.executable, str(ROOT / "train_fctncalling.py"), f"--results_dir={results}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    return subprocess.Popen(
        [*words, *(f"--{name}={value}" for name, value in FLAGS.items()), *more],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def folder_of(results: Path) -> Path:
    return results / "check" / "embedded" / "embedded" / "TPPO"


def updates_logged(folder: Path) -> int:
    """Return the last update whose line of metrics is whole."""
    path = folder / "metrics.jsonl"
    lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
    return max((json.loads(line)["update"] for line in lines), default=0)


def updates_saved(folder: Path) -> int:
    """Return the updates behind the newest whole checkpoint."""
    found = folder.glob("checkpoints/update_*/training_state.pt")
    return max((int(path.parent.name.removeprefix("update_")) for path in found), default=0)


def writing_after(folder: Path, updates: int) -> bool:
    """Return whether a checkpoint is being written of more updates than were done."""
    found = folder.glob("checkpoints/.update_*.part")
    return any(
        int(path.name.removeprefix(".update_").removesuffix(".part")) > updates for path in found
    )


def kill_when(process: subprocess.Popen[str], due: Callable[[], bool], delay_s: float) -> None:
    """Kill a process some time after something came true; fail where it ended before."""
    while not due():
        assert process.poll() is None, process.stdout and process.stdout.read()
        time.sleep(0.002)
    time.sleep(delay_s)
    process.kill()
    process.communicate()
    assert process.returncode == -9


def finished(process: subprocess.Popen[str]) -> str:
    said, _ = process.communicate(timeout=1200)
    assert process.returncode == 0, said
    return said


def test_ten_kills_at_random_moments_leave_no_trace_in_the_numbers(tmp_path: Path) -> None:
    chance = random.Random(7)
    began = time.monotonic()
    finished(started(tmp_path / "whole"))
    seconds = time.monotonic() - began
    folder = folder_of(tmp_path / "killed")
    moments = chance.sample(MOMENTS, len(MOMENTS))
    for number, moment in enumerate(moments):
        before = updates_logged(folder)
        begun = time.monotonic()
        process = started(
            tmp_path / "killed", *(["--resume"] if (folder / "config.json").exists() else [])
        )
        delay = chance.random()
        # However fast the machine is, enough is left for the kills that follow.
        most = 4 * (number + 1)
        if moment == "anywhere":
            until = begun + delay * seconds / 2
            kill_when(
                process,
                lambda until=until, most=most: (
                    time.monotonic() >= until or updates_logged(folder) >= most
                ),
                0.0,
            )  # type: ignore[misc]
        elif moment == "learning":
            wanted = min(before + chance.randint(1, 4), most)
            kill_when(process, lambda wanted=wanted: updates_logged(folder) >= wanted, 0.3 * delay)  # type: ignore[misc]
        else:
            wanted = min(before + chance.randint(0, 3), most)
            kill_when(process, lambda wanted=wanted: writing_after(folder, wanted), 0.03 * delay)  # type: ignore[misc]
        lost = updates_logged(folder) - updates_saved(folder)
        print(
            f"kill {number + 1}: {moment}, after {updates_logged(folder)} updates, {lost} of them "
            "not saved"
        )
        assert lost <= SAVE_INTERVAL
    finished(started(tmp_path / "killed", "--resume"))
    whole = folder_of(tmp_path / "whole")
    assert (folder / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()
    for name in ("model.safetensors", "value_head.safetensors"):
        last = f"checkpoints/last/{name}"
        assert (folder / last).read_bytes() == (whole / last).read_bytes()
    told = [
        json.loads((path / "evaluation.json").read_text(encoding="utf-8"))
        for path in (folder, whole)
    ]
    clocks = {"train_cpu_seconds": 0, "wall_seconds": 0}
    assert {**told[0], **clocks} == {**told[1], **clocks}


def test_a_kill_amid_the_supervised_stage_leaves_no_trace_in_the_numbers(tmp_path: Path) -> None:
    source, folder = embedded_path("train"), tmp_path / "tasks"
    (folder / "possible_answer").mkdir(parents=True)
    texts = source.read_text("utf-8").splitlines()[::20]
    (folder / "some.json").write_text("\n".join(texts) + "\n", encoding="utf-8")
    shutil.copy(
        source.parent / "possible_answer" / source.name, folder / "possible_answer/some.json"
    )
    (folder / "multi_turn_func_doc").symlink_to(source.parent / "multi_turn_func_doc")
    stage = (f"--sft_tasks={folder / 'some.json'}", "--sft_epochs=2", "--sft_batch_size=16")
    stage = (*stage, "--sft_save_interval=5", "--num_updates=2")

    def steps_logged(folder: Path) -> int:
        path = folder / "metrics.jsonl"
        lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
        return max((json.loads(line).get("sft/step", 0) for line in lines), default=0)

    finished(started(tmp_path / "whole", *stage))
    whole, folder = folder_of(tmp_path / "whole"), folder_of(tmp_path / "killed")
    assert steps_logged(whole) == 40
    for steps in (2, 8, 23, 39):
        more = ["--resume"] if (folder / "config.json").exists() else []
        process = started(tmp_path / "killed", *stage, *more)
        kill_when(process, lambda steps=steps: steps_logged(folder) >= steps, 0.01)  # type: ignore[misc]
    finished(started(tmp_path / "killed", *stage, "--resume"))
    assert (folder / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()
    last = "checkpoints/last/model.safetensors"
    assert (folder / last).read_bytes() == (whole / last).read_bytes()
