"""The training command under torchrun: two processes play and learn as one does, stop together, and
go on as one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fctncalling.data.token_file import read_token_file, token_file_path

pytestmark = pytest.mark.prove

ROOT = Path(__file__).parents[2]
FLAGS = (
    "--episodes_per_update 10 --n_rollout_threads 4 --num_mini_batch 2 --eval_episodes 7 "
    "--eval_interval 2 --group_size 1 --group_baseline none --dynamic_sampling 1 "
)
FLAGS += (
    "--save_interval 1 --device cpu --tensorboard false --lora_r 4 --critic lora --kl_coef "
    "0.1 --lr 1e-3"
)


def started(results: Path, processes: int, *more: str) -> subprocess.Popen[str]:
    """Start the command in a process group of its own."""
    several = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
    launched = [sys.executable, *(several if processes > 1 else [])]
    return subprocess.Popen(
        [
            *launched,
            str(ROOT / "train_fctncalling.py"),
            f"--results_dir={results}",
            *FLAGS.split(),
            *more,
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finished(process: subprocess.Popen[str]) -> str:
    said, _ = process.communicate(timeout=1200)
    assert process.returncode == 0, said
    return said


def run_folder(results: Path) -> Path:
    return results / "check" / "embedded" / "embedded" / "TPPO"


def metrics(results: Path) -> list[dict[str, Any]]:
    """Return what was logged, apart from how the work was cut up."""
    path = run_folder(results) / "metrics.jsonl"
    lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
    return [
        {name: it for name, it in json.loads(line).items() if not name.startswith("perf/")}
        for line in lines
    ]


@pytest.mark.parametrize("sharded", [False, True], ids=["data parallel", "sharded"])
def test_two_processes_play_and_learn_as_one_and_go_on_as_one_after_ctrl_c(
    tmp_path: Path, sharded: bool
) -> None:
    more = ["--fsdp"] if sharded else []
    finished(started(tmp_path / "one", 1, "--num_updates=3"))
    said = finished(started(tmp_path / "two", 2, "--num_updates=3", *more))
    assert said.count("Training in 2 processes on cpu") == 1
    assert said.count("chat template:") == 1
    wanted = metrics(tmp_path / "one")
    assert len(wanted) == 6  # three updates; evaluations at 0, 2 and 3
    for ours, theirs in zip(metrics(tmp_path / "two"), wanted, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-3, abs=1e-4)
    for update in (1, 3):
        one, two = (
            read_token_file(token_file_path(run_folder(tmp_path / name), update))
            for name in ("one", "two")
        )
        for name in ("old_logprobs", "new_logprobs", "advantages", "ratio", "kl"):
            theirs, ours = getattr(one, name), getattr(two, name)
            np.testing.assert_allclose(ours, theirs, rtol=1e-2, atol=1e-2, err_msg=name)

    cut = started(tmp_path / "cut", 2, "--num_updates=40", *more)
    while len(metrics(tmp_path / "cut")) < 3:
        assert cut.poll() is None, cut.stdout and cut.stdout.read()
        time.sleep(0.05)
    os.killpg(cut.pid, signal.SIGINT)  # what a terminal does: all of them get it
    said, _ = cut.communicate(timeout=600)
    assert "Interrupted after" in said
    assert "torchrun --nproc_per_node 2 train_fctncalling.py" in said
    done = max(line["update"] for line in metrics(tmp_path / "cut"))
    said = finished(started(tmp_path / "cut", 1, f"--num_updates={done + 1}", "--resume"))
    assert "Going on from" in said
    assert [line["update"] for line in metrics(tmp_path / "cut") if "losses/approx_kl" in line] == [
        *range(1, done + 2)
    ]


def test_groups_stay_whole_and_memory_a_process_is_flat_in_2_4_and_8_processes(
    tmp_path: Path,
) -> None:
    script = ROOT / "tests" / "support" / "many_processes.py"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    found: dict[int, list[dict[str, Any]]] = {}
    for count in (1, 2, 4, 8):
        command = [sys.executable, str(script), str(tmp_path), str(count)]
        subprocess.run(command, check=True, env=environment, timeout=900)
        paths = [tmp_path / f"found_{count}_{rank}.json" for rank in range(count)]
        found[count] = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    (alone,) = found.pop(1)
    for of_one in [each for several in found.values() for each in several]:
        assert of_one["ids"] == alone["ids"]
        assert of_one["forward_tokens"] == pytest.approx(alone["forward_tokens"], rel=0.03)
        ours, theirs = (dict(each["metrics"]) for each in (of_one, alone))
        assert ours["perf/shared_token_share"] == theirs["perf/shared_token_share"] > 0.5
        assert ours == pytest.approx(theirs, rel=1e-3, abs=1e-4)
    for name in ("growth_mb", "peak_mb"):  # of a broadcast, and of all
        most = {count: max(each[name] for each in several) for count, several in found.items()}
        assert max(most.values()) < 1.1 * most[2]
