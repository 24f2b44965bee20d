"""AgentEpisodeSource: episodes of the trainer, played by an agent outside through a gateway."""

from __future__ import annotations

import logging
import queue
import secrets
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from operator import itemgetter
from typing import Any

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.generation.engine_api import Engine, RolloutError
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.rollout.collect import episode_seeds
from fctncalling.algorithms.rollout.env_pool import num_parallel_episodes
from fctncalling.data.categories import WITHOUT_ANSWER
from fctncalling.data.types import Task
from fctncalling.envs.errors import InfrastructureError
from fctncalling.lab.dialogue import score
from fctncalling.lab.gateway.agent_process import (
    AgentPerEpisode,
    EpisodeOffer,
    LastingAgent,
    OutsideAgent,
)
from fctncalling.lab.gateway.chat_messages import ContextCallForm
from fctncalling.lab.gateway.gateway import Gateway, GatewaySettings
from fctncalling.lab.gateway.gateway_error import GatewayError
from fctncalling.lab.gateway.gateway_server import GatewayServer
from fctncalling.lab.gateway.gateway_session import NO_REWARD, GatewaySession, SessionTask
from fctncalling.lab.gateway.rendering import PromptDrift
from fctncalling.lab.gateway.sampler import Sampler
from fctncalling.training.rollouts.rollout_backends import OnEpisode, RolloutRound
from fctncalling.training.run_config import RunConfig
from fctncalling.training.task_setup import TaskSetup

logger = logging.getLogger(__name__)


def agent_source(
    config: TrainConfig,
    run_config: RunConfig,
    setup: TaskSetup,
    template: ChatTemplate,
    num_processes: int = 1,
) -> AgentEpisodeSource:
    """Return the source of episodes of --agent_command."""
    command = run_config.agent_command or ""
    agent: OutsideAgent = (
        AgentPerEpisode(command) if run_config.agent_per_episode else LastingAgent(command)
    )
    return AgentEpisodeSource(
        agent,
        setup,
        template,
        num_parallel=num_parallel_episodes(config, num_processes),
        max_episode_tokens=config.max_episode_tokens,
        timeout_s=run_config.agent_timeout_s,
        form=ContextCallForm(template, run_config.handler, run_config.prompt_style),
    )


class AgentEpisodeSource:
    """Source of episodes that an agent plays: offers tasks, samples for it, reads its sessions.

    The sampling runs in the thread that calls `collect`, an episode's waiting in threads of its
    own. A task's messages and tools are those that the run's environment shows at its reset.
    """

    def __init__(
        self,
        agent: OutsideAgent,
        setup: TaskSetup,
        template: ChatTemplate,
        *,
        num_parallel: int,
        max_episode_tokens: int,
        timeout_s: float,
        form: ContextCallForm,
    ) -> None:
        self.agent = agent
        self.num_parallel = num_parallel
        self.timeout_s = timeout_s
        self._env = setup.make_env()
        self._env_lock = threading.Lock()
        self._tasks = {task.id: task for task in (*setup.training_tasks, *setup.held_out_tasks)}
        self._token = secrets.token_hex(16)  # agents open no sessions: they are given theirs
        settings = GatewaySettings(
            max_episode_tokens=max_episode_tokens,
            fixed_temperature=True,
            max_sessions=2**31,
            token=self._token,
            opens_on_use=False,
        )
        self._drift: list[tuple[int, str, PromptDrift]] = []  # of episode, task; in this round
        self._ignored: set[str] = set()  # fields of requests, since the start
        self._sampler = Sampler(num_parallel)
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
        return _checked([each.result() for each in played])

    def _tell_drift(self) -> None:
        """Say how often, and where first, the agent left what was sampled in this round."""
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
        """Play one episode; whatever goes wrong with the agent makes it invalid."""
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
        """Return a task as the agent is told it, and its category."""
        with self._env_lock:
            observation, info = self._env.reset(seed=seed, options={"task_id": task_id})
        messages = info.get("messages") or [{"role": "user", "content": str(observation)}]
        tools = list(info.get("tools") or ())
        offered = {"id": task_id, "messages": messages, "tools": tools, "seed": seed}
        return offered, str(info.get("category", ""))

    def _judge_and_pay(self, session: GatewaySession) -> str:
        """Give a session without a reward its task's own verdict; return why it has none."""
        task = self._tasks.get(session.task.id)
        if session.rewards or not session.forest.actions or session.ended:
            return ""
        if task is None or not _is_judged(task):
            return NO_REWARD
        try:
            verdict = score(session.conversation, task)
        except (InfrastructureError, LookupError, TypeError, ValueError) as error:
            return f"the task could not be judged: {error}"
        session.success = verdict.valid
        session.reward(float(verdict.valid))
        return ""


def _is_judged(task: Task) -> bool:
    """Whether a task says what is right: by an answer, or because no call is."""
    return task.ground_truth is not None or task.category in WITHOUT_ANSWER


def _checked(records: Sequence[EpisodeRecord]) -> list[EpisodeRecord]:
    """Return the records; RolloutError where every one is invalid."""
    if records and all(record.invalid for record in records):
        raise RolloutError(
            f"every one of {len(records)} episodes failed; the last: {records[-1].invalid_reason}"
        )
    return list(records)
