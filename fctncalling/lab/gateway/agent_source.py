"""AgentEpisodeSource: episodes of the trainer, played by an agent outside through a gateway.

An agent is a process that plays many episodes, or one an episode. It is given an episode as a JSON
object {"session", "base_url", "api_key", "task"} and ends it by {"session", "reward", "success",
"error"}, of which all but the session may be left out.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import replace
from operator import itemgetter
from typing import IO, Any, NamedTuple, Protocol

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.generation.engine_api import Engine, RolloutError
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.rollout.collect import episode_seeds
from fctncalling.algorithms.rollout.env_pool import num_parallel_episodes
from fctncalling.data.categories import WITHOUT_ANSWER
from fctncalling.envs.errors import InfrastructureError
from fctncalling.lab.dialogue import score
from fctncalling.lab.gateway.completion_request import GatewayError
from fctncalling.lab.gateway.gateway import Gateway, GatewaySettings
from fctncalling.lab.gateway.gateway_server import GatewayServer
from fctncalling.lab.gateway.gateway_session import NO_REWARD, GatewaySession, SessionTask
from fctncalling.lab.gateway.rendering import ContextCallForm, PromptDrift
from fctncalling.lab.gateway.sampler import Sampler
from fctncalling.lab.mcp_client.guard import guarded
from fctncalling.training.rollouts.rollout_backends import OnEpisode, RolloutRound
from fctncalling.training.run_config import RunConfig
from fctncalling.training.task_setup import TaskSetup

MAX_LINE = 1 << 20  # characters of a line that an agent writes
MAX_SHOWN = 1 << 20  # characters of what it prints otherwise
MAX_DEATHS = 3  # in a row, without an episode between them, before the run ends
POLL_S = 0.1
GRACE_S = 2.0  # between asking a process to end and killing it

Since = Callable[[], float | None]  # time.monotonic() of the episode's first request, if any


class EpisodeOffer(NamedTuple):
    """Episode as it is offered to an agent."""

    session: str
    base_url: str
    api_key: str
    task: Mapping[str, Any]  # id, messages, tools, seed


class AgentOutcome(NamedTuple):
    """Outcome of an episode, as the agent reports it."""

    reward: float | None = None
    success: bool | None = None
    error: str = ""  # why it is invalid


class OutsideAgent(Protocol):
    """An agent that plays episodes, several at once."""

    def play(self, offer: EpisodeOffer, began: Since, timeout_s: float) -> AgentOutcome:
        """Play an episode; return its outcome, an error if it takes too long."""
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
        """Play an episode; return its outcome."""
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
        """Offer an episode; the answer is set at its end."""
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
        """Pass on the agent's other output, up to MAX_SHOWN characters a run of it."""
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
    """A process for each episode, with the task in its environment; its last JSON line counts."""

    def __init__(self, command: str) -> None:
        self._command = _words(command)
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[str]] = set()

    def play(self, offer: EpisodeOffer, began: Since, timeout_s: float) -> AgentOutcome:
        """Play an episode; return its outcome."""
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
    """Start a process whose children end with it, and which ends with this process."""
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


logger = logging.getLogger(__name__)


class AgentEpisodeSource:
    """Source of episodes that an agent plays: offers tasks, samples for it, reads its sessions.

    The sampling runs in the thread that calls `collect`, an episode's waiting in threads of its
    own. A task's messages and tools are those that the run's environment shows at its reset.
    """

    def __init__(
        self,
        config: TrainConfig,
        run_config: RunConfig,
        setup: TaskSetup,
        template: ChatTemplate,
        num_processes: int = 1,
    ) -> None:
        command, per_episode = run_config.agent_command or "", run_config.agent_per_episode
        self.agent: OutsideAgent = (
            AgentPerEpisode(command) if per_episode else LastingAgent(command)
        )
        self.num_parallel = num_parallel_episodes(config, num_processes)
        self.timeout_s = run_config.agent_timeout_s
        self._env = setup.make_env()
        self._env_lock = threading.Lock()
        self._tasks = {task.id: task for task in (*setup.training_tasks, *setup.held_out_tasks)}
        self._token = secrets.token_hex(16)  # agents open no sessions: they are given theirs
        settings = GatewaySettings(
            max_episode_tokens=config.max_episode_tokens,
            fixed_temperature=True,
            max_sessions=2**31,
            token=self._token,
            opens_on_use=False,
        )
        self._drift: list[tuple[int, str, PromptDrift]] = []  # of episode, task; in this round
        self._ignored: set[str] = set()  # fields of requests, since the start
        form = ContextCallForm(template, run_config.handler, run_config.prompt_style)
        self._sampler = Sampler(self.num_parallel)
        self.gateway = Gateway(template, self._sampler, settings, form=form)
        self._server = GatewayServer(self.gateway)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def collect(
        self,
        engine: Engine,
        rollout_round: RolloutRound,
        numbers: Sequence[int],
        on_episode: OnEpisode | None = None,
    ) -> list[EpisodeRecord]:
        """Return the episodes of a round that have these numbers.

        RolloutError where the agent cannot be kept alive, or where every episode is invalid.
        """
        settings = replace(self.gateway.settings, temperature=rollout_round.temperature)
        self.gateway.settings = settings
        self.gateway.version = rollout_round.version
        seeds = episode_seeds(rollout_round.seed, numbers, rollout_round.group_size)
        done: queue.SimpleQueue[EpisodeRecord] = queue.SimpleQueue()
        with ThreadPoolExecutor(self.num_parallel, "episode") as threads:
            played = [
                threads.submit(self._play, number, rollout_round.task_ids[number], *own, done)
                for number, own in zip(numbers, seeds, strict=True)
            ]

            def over() -> bool:
                while on_episode is not None and not done.empty():
                    on_episode(done.get())
                return all(each.done() for each in played)

            try:
                self._sampler.run(engine, over)
            except BaseException:
                self.agent.close()
                threads.shutdown(wait=False, cancel_futures=True)
                raise
        self._tell_drift()
        records = [each.result() for each in played]
        if records and all(record.invalid for record in records):
            reason = records[-1].invalid_reason
            raise RolloutError(f"every one of {len(records)} episodes failed; the last: {reason}")
        return records

    def _tell_drift(self) -> None:
        """Warn how often, and in which request first, the agent left the sampled tokens."""
        drift, self._drift = self._drift, []
        if drift:
            kinds = Counter(each.kind for *_, each in drift)
            counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
            _, task, first = min(drift, key=itemgetter(0))  # in whatever order they ended
            logger.warning(
                "agent: rows begin anew where it leaves what was sampled: %s; such as task %s, "
                "request %d, message %d: %s",
                *(counts, task, first.request, first.message, first.why),
            )

    def close(self) -> None:
        """End the agent and the server."""
        self._sampler.close()
        self.agent.close()
        self._server.shutdown()
        self._server.server_close()
        self._env.close()

    def _play(
        self,
        number: int,
        task_id: str,
        seed: int,
        env_seed: int,
        done: queue.SimpleQueue[EpisodeRecord],
    ) -> EpisodeRecord:
        """Play one episode; any failure of the agent makes it invalid."""
        offered, category = self._offered(task_id, env_seed)
        session = self.gateway.open(
            self._token,
            own_key=secrets.token_hex(16),
            seed=seed,
            task=SessionTask(task_id, category, env_seed),
        )
        address = f"{self._server.address}/s/{session.id}/v1"
        offer = EpisodeOffer(session.id, address, session.key, offered)
        try:
            outcome = self.agent.play(offer, lambda: session.began, self.timeout_s)
            reason = outcome.error
            if outcome.success is not None:
                session.success = outcome.success
            if outcome.reward is not None and not reason:
                self.gateway.reward(session, outcome.reward)
        except GatewayError as error:
            reason = str(error)
        reason = reason or self._judge_and_pay(session)
        self.gateway.end(session, reason)
        self.gateway.ended.clear()  # nobody asks for reports
        self._drift += [(number, task_id, each) for each in session.drift]
        if new := session.ignored.keys() - self._ignored:
            self._ignored |= new
            logger.warning("agent: it asks for %s, which has no effect", ", ".join(sorted(new)))
        record = session.to_record()
        if record.invalid:
            logger.warning("task %s: %s; the episode is invalid", task_id, record.invalid_reason)
        done.put(record)
        self._sampler.wake()
        return record

    def _offered(self, task_id: str, seed: int) -> tuple[dict[str, Any], str]:
        """Return a task as it is offered to the agent, and its category."""
        with self._env_lock:
            observation, info = self._env.reset(seed=seed, options={"task_id": task_id})
        messages = info.get("messages") or [{"role": "user", "content": str(observation)}]
        tools = list(info.get("tools") or ())
        offered = {"id": task_id, "messages": messages, "tools": tools, "seed": seed}
        return offered, str(info.get("category", ""))

    def _judge_and_pay(self, session: GatewaySession) -> str:
        """Pay a session without a reward by its task's verdict; return a reason if none."""
        task = self._tasks.get(session.task.id)
        if session.rewards or not session.forest.actions or session.ended:
            return ""
        # a task says what is right by an answer, or because no call is
        if task is None or (task.ground_truth is None and task.category not in WITHOUT_ANSWER):
            return NO_REWARD
        try:
            verdict = score(session.conversation, task)
        except (InfrastructureError, LookupError, TypeError, ValueError) as error:
            return f"the task could not be judged: {error}"
        session.success = verdict.valid
        session.reward(float(verdict.valid))
        return ""
