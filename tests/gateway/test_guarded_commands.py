"""Commands of users take along what they started, daemons too, and end with who started them."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fctncalling.lab.conformance.scorer_process import ScorerProcess, ScorerTimeLimits
from fctncalling.lab.gateway.agent_source import AgentPerEpisode, EpisodeOffer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux")

OFFER = EpisodeOffer("s", "http://127.0.0.1:1/s/s/v1", "key", {"id": "t"})
DAEMON = """
import pathlib, subprocess, sys
child = subprocess.Popen(["sleep", "60"], start_new_session=True)
pathlib.Path({pid!r}).write_text(str(child.pid))
"""
SCORER = """
import json
for line in sys.stdin:
    print(json.dumps({"id": json.loads(line)["id"], "valid": True}), flush=True)
"""
TRAINER = """
import threading, time
from fctncalling.lab.gateway.agent_source import AgentPerEpisode, EpisodeOffer
agent = AgentPerEpisode({command!r})
offer = EpisodeOffer("s", "http://127.0.0.1:1/s/s/v1", "key", {{"id": "t"}})
threading.Thread(target=agent.play, args=(offer, lambda: None, 60.0), daemon=True).start()
time.sleep(60)
"""


def command_of(folder: Path, code: str) -> str:
    file = folder / "command.py"
    file.write_text(code)
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(file))}"


def pid_in(file: Path) -> int:
    """Return the process id that a command wrote."""
    ends_at = time.monotonic() + 30
    while not (file.exists() and file.read_text()):
        assert time.monotonic() < ends_at, "nothing was started"
        time.sleep(0.02)
    return int(file.read_text())


def has_ended(pid: int) -> bool:
    ends_at = time.monotonic() + 20
    while time.monotonic() < ends_at:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":  # waits for whoever adopted it
            return True
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    return False


def test_an_agents_daemon_ends_with_its_episode(tmp_path: Path) -> None:
    code = DAEMON.format(pid=str(tmp_path / "pid"))
    AgentPerEpisode(command_of(tmp_path, code)).play(OFFER, lambda: None, 30.0)
    assert has_ended(pid_in(tmp_path / "pid"))


def test_an_agent_that_ignores_its_end_goes_with_its_daemon(tmp_path: Path) -> None:
    code = DAEMON.format(pid=str(tmp_path / "pid"))
    code += "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    outcome = AgentPerEpisode(command_of(tmp_path, code)).play(OFFER, lambda: None, 2.0)
    assert outcome.error == "the agent was not done after 2 s"
    assert has_ended(pid_in(tmp_path / "pid"))


def test_a_scorers_daemon_ends_with_the_scorer(tmp_path: Path) -> None:
    code = DAEMON.format(pid=str(tmp_path / "pid")) + SCORER
    with ScorerProcess(command_of(tmp_path, code), ScorerTimeLimits()) as scorer:
        replies = list(scorer.judge_records(iter([{"id": "one"}])))
    assert [reply.told for reply in replies] == [True]
    assert has_ended(pid_in(tmp_path / "pid"))


def test_agents_end_with_a_trainer_that_is_killed(tmp_path: Path) -> None:
    code = f"import os, pathlib, time\npathlib.Path({str(tmp_path / 'pid')!r})"
    command = command_of(tmp_path, f"{code}.write_text(str(os.getpid()))\ntime.sleep(60)")
    trainer = subprocess.Popen([sys.executable, "-c", TRAINER.format(command=command)])
    pid = pid_in(tmp_path / "pid")
    trainer.kill()
    trainer.wait()
    assert has_ended(pid)
