"""Ctrl-C amid an agent's episodes: the run goes on as if nothing had happened."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# Asks twice an episode; with a file to say so it interrupts its trainer, and then hangs.
AGENT = """
import json, os, signal, sys, threading, time, urllib.request

def complete(told, messages):
    request = urllib.request.Request(
        told["base_url"] + "/chat/completions",
        json.dumps({"messages": messages}).encode(),
        {"Authorization": "Bearer " + told["api_key"]},
    )
    return json.load(urllib.request.urlopen(request))["choices"][0]["message"]

def act(told):
    messages = told["task"]["messages"]
    first = complete(told, messages)
    if number == 21 and os.path.exists(sys.argv[1]):
        os.remove(sys.argv[1])
        os.kill(int(os.environ["TRAINER"]), signal.SIGINT)
        time.sleep(600)
    last = complete(told, [*messages, first, {"role": "user", "content": "and then?"}])
    reward = len(first["content"] + last["content"]) % 2
    with talking:
        print(json.dumps({"session": told["session"], "reward": reward}), flush=True)

talking = threading.Lock()
for number, line in enumerate(sys.stdin):
    threading.Thread(target=act, args=(json.loads(line),)).start()
"""
CHILD = """import os, sys
os.environ["TRAINER"] = str(os.getpid())  # a guard stands between it and the agent
from fctncalling.cli.train import main
sys.exit(main())
"""


def train(folder: Path, agent: str, threads: int, *more: str) -> int:
    """Return the exit code of a run in a process that signals end."""
    settings = {
        "results_dir": folder,
        "agent_command": agent,
        "num_updates": 3,
        "episodes_per_update": 8,
        "dynamic_sampling": 1,
        "n_rollout_threads": threads,
        "num_mini_batch": 2,
        "max_new_tokens": 8,
        "eval_episodes": 2,
        "eval_interval": 2,
        "device": "cpu",
        "tensorboard": "false",
    }
    words = [*(f"--{name}={value}" for name, value in settings.items()), *more]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *words],
        capture_output=True,
        timeout=100,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    return done.returncode


def metrics(folder: Path) -> bytes:
    [file] = folder.rglob("metrics.jsonl")
    return file.read_bytes()


def lines(folder: Path) -> list[dict[str, Any]]:
    """Return the episodes that the trainer stored."""
    files = sorted(folder.rglob("episodes/train_*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


@pytest.mark.prove
@pytest.mark.parametrize("threads", [1, 4])
def test_ctrl_c_amid_an_agent_then_resume_equals_an_uninterrupted_run(
    threads: int, tmp_path: Path
) -> None:
    script, wanted = tmp_path / "agent.py", tmp_path / "interrupt"
    script.write_text(AGENT)
    agent = shlex.join([sys.executable, str(script), str(wanted)])
    whole, cut, every = tmp_path / "whole", tmp_path / "cut", "--log_episodes_interval=1"
    assert train(whole, agent, threads, every) == 0
    wanted.touch()
    assert train(cut, agent, threads, every) == 130
    assert not wanted.exists()
    assert train(cut, agent, threads, every, "--resume") == 0
    if threads == 1:  # several at once are read in passes of which the clock decides: rounding
        assert metrics(whole) == metrics(cut)
    counts = [
        [each.get("episodes") for each in map(json.loads, metrics(folder).splitlines())]
        for folder in (whole, cut)
    ]
    assert counts[0] == counts[1]
    for folder in (whole, cut):
        stored = [[row["version"] for row in line["tokens"]] for line in lines(folder)]
        assert stored == [[update] for update in range(3) for _ in range(8)]
