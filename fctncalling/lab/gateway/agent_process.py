"""Agents in processes of their own: one that plays many episodes, or one an episode.

An agent is told an episode as a JSON object {"session", "base_url", "api_key", "task"} and tells
when it is done by {"session", "reward", "success", "error"}, of which all but the session may be
left out.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import IO, Any, NamedTuple, Protocol

from fctncalling.algorithms.config import SettingError
from fctncalling.algorithms.generation.engine_api import RolloutError
from fctncalling.lab.mcp_client.guard import guarded

MAX_LINE = 1 << 20  # characters of a line that an agent writes
MAX_SHOWN = 1 << 20  # characters of what it prints otherwise
MAX_DEATHS = 3  # in a row, without an episode between them, before the run ends
POLL_S = 0.1
GRACE_S = 2.0  # between asking a process to end and killing it

Since = Callable[[], float | None]  # time.monotonic() of the episode's first request, if any


class EpisodeOffer(NamedTuple):
    """Episode as an agent is told of it."""

    session: str
    base_url: str
    api_key: str
    task: Mapping[str, Any]  # id, messages, tools, seed


class AgentOutcome(NamedTuple):
    """Outcome of an episode, as the agent tells it."""

    reward: float | None = None
    success: bool | None = None
    error: str = ""  # why it is invalid


class OutsideAgent(Protocol):
    """An agent that plays episodes, several at once."""

    def play(self, offer: EpisodeOffer, began: Since, timeout_s: float) -> AgentOutcome:
        """Return what came of an episode; one that takes too long is an outcome with an error."""
        ...

    def close(self) -> None:
        """End all processes."""
        ...


class LastingAgent:
    """A process that is started once, and anew when it dies or hangs."""

    def __init__(self, command: str) -> None:
        self._command = _words(command)
        self._lock = threading.Lock()
        self._run: _AgentRun | None = None
        self._deaths = 0
        self._closed = False

    def play(self, offer: EpisodeOffer, began: Since, timeout_s: float) -> AgentOutcome:
        """Return what came of an episode."""
        run, sent = self._running(), time.monotonic()
        answer = run.ask(offer)
        while True:
            with contextlib.suppress(FutureTimeout):
                outcome = answer.result(POLL_S)
                with self._lock:
                    self._deaths = self._deaths if run.code is not None else 0
                return outcome
            first = began()
            since = max(sent, run.last_outcome) if first is None else first
            if time.monotonic() - since > timeout_s:
                run.forget(offer.session)
                if time.monotonic() - max(sent, run.last_outcome) > timeout_s:
                    run.end()  # it says nothing to anybody
                return AgentOutcome(error=f"the agent was not done after {timeout_s:g} s")

    def close(self) -> None:
        """End the process; no other is started."""
        with self._lock:
            self._closed = True
        if self._run is not None:
            self._run.end()

    def _running(self) -> _AgentRun:
        with self._lock:
            if self._closed:
                raise RolloutError("--agent_command: the run has ended")
            if self._run is not None and self._run.code is not None:
                self._deaths += 1
                if self._deaths >= MAX_DEATHS:
                    raise RolloutError(
                        f"--agent_command: it ended {self._deaths} times in a row before an "
                        f"episode was over, the last time with code {self._run.code}"
                    )
                self._run = None
            if self._run is None:
                self._run = _AgentRun(self._command)
            return self._run


class _AgentRun:
    """One run of a process: lines to it and from it, each in a thread."""

    def __init__(self, command: list[str]) -> None:
        self.code: int | None = None  # exit code, once it has ended
        self.last_outcome = time.monotonic()
        self._shown = 0
        self._answers: dict[str, Future[AgentOutcome]] = {}
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._process = _started(command, {}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for work in (self._write, self._read):
            threading.Thread(target=work, daemon=True).start()

    def ask(self, offer: EpisodeOffer) -> Future[AgentOutcome]:
        """Offer an episode; the answer comes when it is over."""
        answer: Future[AgentOutcome] = Future()
        self._answers[offer.session] = answer
        self._lines.put(json.dumps(offer._asdict()) + "\n")
        if self.code is not None:  # it ended meanwhile
            self._fail()
        return answer

    def forget(self, session: str) -> None:
        """Expect no answer of a session any more."""
        self._answers.pop(session, None)

    def end(self) -> None:
        """End the process with all that it started."""
        self._lines.put(None)
        _end(self._process)

    def _write(self) -> None:
        stream = self._process.stdin
        assert stream is not None
        with contextlib.suppress(OSError, ValueError):
            while (line := self._lines.get()) is not None:
                stream.write(line)
                stream.flush()

    def _read(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        while line := stream.readline(MAX_LINE):
            said = read_outcome(line)
            if said is None:  # what it prints otherwise is no sign that an episode goes on
                self._show(line)
            elif (answer := self._answers.pop(said[0], None)) is not None:
                self.last_outcome = time.monotonic()
                answer.set_result(said[1])
        self.code = self._process.wait()
        self._lines.put(None)
        self._fail()

    def _show(self, line: str) -> None:
        """Pass on what the agent prints, up to MAX_SHOWN characters a run of it."""
        room = MAX_SHOWN - self._shown
        if room > 0:
            sys.stderr.write(line[:room])
            if len(line) >= room:
                sys.stderr.write(
                    f"\nagent: more than {MAX_SHOWN} characters; the rest is left out\n"
                )
        self._shown += len(line)

    def _fail(self) -> None:
        while self._answers:
            with contextlib.suppress(KeyError):
                _, answer = self._answers.popitem()
                answer.set_result(AgentOutcome(error=f"the agent ended with code {self.code}"))


class AgentPerEpisode:
    """A process an episode, told in its environment; its last JSON line is the outcome."""

    def __init__(self, command: str) -> None:
        self._command = _words(command)
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[str]] = set()

    def play(self, offer: EpisodeOffer, began: Since, timeout_s: float) -> AgentOutcome:
        """Return what came of an episode."""
        told = {
            "OPENAI_BASE_URL": offer.base_url,
            "OPENAI_API_KEY": offer.api_key,
            "FCTNCALLING_TASK": json.dumps(offer.task),
            "FCTNCALLING_SESSION": offer.session,
        }
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
            process = _started(self._command, told, stdin=subprocess.DEVNULL, stdout=output)
            with self._lock:
                self._processes.add(process)
            try:
                code = process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                return AgentOutcome(error=f"the agent was not done after {timeout_s:g} s")
            finally:
                _end(process)
                with self._lock:
                    self._processes.discard(process)
            if code:
                return AgentOutcome(error=f"the agent ended with code {code}")
            return _last_outcome(output, offer.session)

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            running = list(self._processes)
        for process in running:
            _end(process)


def read_outcome(line: str) -> tuple[str, AgentOutcome] | None:
    """Return session and outcome of a line that an agent wrote; None for any other line."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or not isinstance(said.get("session"), str):
        return None
    reward, success = said.get("reward"), said.get("success")
    error = str(said.get("error") or "")[:500]
    if reward is not None and (isinstance(reward, bool) or not isinstance(reward, int | float)):
        error = error or f"the agent told a reward of {reward!r:.60}, which is no number"
        reward = None
    success = success if isinstance(success, bool) else None
    return said["session"], AgentOutcome(reward, success, error)


def _last_outcome(output: IO[str], session: str) -> AgentOutcome:
    """Return the outcome of the last line of a file that is one; an empty one without any."""
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - MAX_LINE))
    for line in reversed(output.read().splitlines()):
        said = read_outcome(line)
        if said is not None and said[0] == session:
            return said[1]
    return AgentOutcome()


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise SettingError(f"--agent_command {command!r}: {error}") from None
    if not words:
        raise SettingError("--agent_command: expected a command, got an empty text")
    return words


def _started(
    command: list[str], told: Mapping[str, str], *, stdin: int, stdout: int | IO[str]
) -> subprocess.Popen[str]:
    """Start a process under a guard: what it starts ends with it, and both with this process."""
    if shutil.which(command[0]) is None:
        fault = "no such program"
        raise SettingError(f"--agent_command {command[0]}: it cannot be started: {fault}")
    local = "127.0.0.1,localhost"
    names = {name: local for name in ("NO_PROXY", "no_proxy") if name not in os.environ}
    try:
        return subprocess.Popen(
            guarded(command),
            stdin=stdin,
            stdout=stdout,
            env={**os.environ, **names, **told},
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise SettingError(f"--agent_command {command[0]}: it cannot be started: {error}") from None


def _end(process: subprocess.Popen[str]) -> None:
    """End a process and its group: asked first where it still runs, then killed."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
