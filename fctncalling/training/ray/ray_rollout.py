"""Rollout backend on Ray."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.distributed.process_group import SINGLE_PROCESS, ProcessGroup
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.weight_sync import Weights, policy_state
from fctncalling.algorithms.run.interruption import Interruption
from fctncalling.envs.errors import MissingExtra, extra_module
from fctncalling.training.ray.rollout_worker import RolloutWorker
from fctncalling.training.ray.worker_pool import Job, WorkerLost, WorkerPool
from fctncalling.training.rollouts.rollout_backends import OnEpisode, RolloutResult, RolloutRound
from fctncalling.training.run_config import RunConfig

PATHS = frozenset(
    {
        "dataset_path",
        "eval_dataset_path",
        "model_name_or_path",
        "chat_template",
        "prompt_path",
        "tool_config_path",
    }
)
NODE_DEATH_DELAY_S = 30.0  # until Ray knows that a node is gone: it asks each every 3 s, five times
RAY_TIMEOUTS = {  # Ray's own 15 to 60 s are too few on a busy machine
    "RAY_raylet_start_wait_time_s": "180",
    "RAY_worker_register_timeout_seconds": "600",
    "RAY_agent_register_timeout_ms": "600000",
}
T = TypeVar("T", TrainConfig, RunConfig)


class Share(NamedTuple):
    """What one worker plays of a round."""

    weights: Any  # a reference into the object store
    wanted: RolloutRound
    numbers: Sequence[int]


class RayTransport:
    """Workers as Ray actors, spread over the machines of a cluster."""

    def __init__(self, ray: Any, config: TrainConfig, run_config: RunConfig) -> None:
        self._ray = ray
        self._arguments = (config, run_config)
        self._places: dict[Any, str] = {}  # worker -> machine and process
        self._nodes: dict[Any, str] = {}  # worker -> the node Ray put it on
        self._kind = ray.remote(RolloutWorker).options(
            num_cpus=config.torch_threads,
            num_gpus=run_config.rollout_worker_gpus,
            scheduling_strategy="SPREAD",
        )

    def start_worker(self, number: int) -> tuple[Any, Any]:
        """Start an actor; the ticket is ready when its environments and its model are."""
        worker = self._kind.remote(*self._arguments, number)
        return worker, worker.location.remote()

    def ask(self, worker: Any, share: Share) -> Any:
        """Hand a share to an actor; Ray brings the weights to its machine, once for all actors
        there.
        """
        return worker.play.remote(share.weights, share.wanted, share.numbers)

    def wait(self, tickets: Sequence[Any], timeout_s: float) -> list[Any]:
        """Return the tickets that are ready."""
        if not tickets:
            return []
        ready, _ = self._ray.wait(list(tickets), num_returns=1, timeout=timeout_s)
        more, _ = self._ray.wait(list(tickets), num_returns=len(tickets), timeout=0)
        return list(dict.fromkeys([*ready, *more]))

    def fetch(self, worker: Any, ticket: Any) -> Any:
        """Return a result; WorkerLost where actor, machine or result is gone, RuntimeError where
        playing failed.
        """
        exceptions = self._ray.exceptions
        try:
            result = self._ray.get(ticket)
        except exceptions.RayTaskError as error:
            raise RuntimeError(
                f"a rollout worker on {self._places.get(worker, 'its way')} failed: {error}"
            ) from error
        except exceptions.RayError as error:
            raise WorkerLost(self._describe_loss(worker, error)) from error
        if not isinstance(result, RolloutResult):
            host, process, node = result
            self._places[worker], self._nodes[worker] = f"{host}, process {process}", node
        return result

    def stop_worker(self, worker: Any) -> None:
        """End an actor."""
        with contextlib.suppress(Exception):  # it may be gone, as may all of Ray
            self._ray.kill(worker)
        self._places.pop(worker, None)
        self._nodes.pop(worker, None)

    def _describe_loss(self, worker: Any, error: Exception) -> str:
        """Return where a lost actor was and what is known of its end."""
        where, node = self._places.get(worker, "not yet placed"), self._nodes.get(worker)
        # A closed connection comes before the news of what closed it.
        patience = (
            NODE_DEATH_DELAY_S
            if isinstance(error, self._ray.exceptions.ActorUnavailableError)
            else 0
        )
        until = time.monotonic() + patience
        while (alive := self._is_alive(node)) and time.monotonic() < until:
            time.sleep(0.2)
        what = "its process ended" if alive else "its node has left the cluster"
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return f"{where}: {what} ({type(error).__name__}: {' '.join(lines)[:600]})"

    def _is_alive(self, node: str | None) -> bool:
        """Whether a node is in the cluster; one that is not known counts as in it."""
        return node is None or any(
            each["Alive"] for each in self._ray.nodes() if each["NodeID"] == node
        )


class RayRollout:
    """Has workers play the shares of each round: worker-sized, by number, whoever plays them.

    So what is played depends on the number of workers (by rounding alone), not on which of them is
    fast, or lost.
    """

    def __init__(
        self,
        config: TrainConfig,
        run_config: RunConfig,
        policy: ActorCritic,
        processes: ProcessGroup = SINGLE_PROCESS,
    ) -> None:
        self.policy = policy
        self.processes = processes
        self._count = run_config.num_rollout_workers
        self._weights: tuple[int, Any] | None = None  # version and reference of what was put last
        self._begun: dict[RolloutRound, Job | None] = {}
        self._kept: dict[
            RolloutRound, Any
        ] = {}  # references to the weights of rounds not played yet
        if processes.is_first:
            ray, started = connect_ray(run_config.ray_address, self._count * config.torch_threads)
            self._ray = ray
            self._started = started
            self.transport = RayTransport(self._ray, _absolute(config), _absolute(run_config))
            self.pool = WorkerPool(self.transport, self._count)

    def play(
        self, wanted: RolloutRound, interruption: Interruption, on_episode: OnEpisode | None = None
    ) -> RolloutResult:
        """Return the episodes of a round; the first process has them played, the others get them
        from it.
        """
        if wanted not in self._kept:
            self.begin(wanted)
        elif wanted not in self._begun:
            self._start(wanted)
        job, parts = self._begun.pop(wanted), None

        def told(part: RolloutResult) -> None:
            for episode in part.episodes if on_episode is not None else ():
                on_episode(episode)  # type: ignore[misc]

        if job is not None:
            with contextlib.suppress(KeyboardInterrupt), interruption.allowed():
                parts = self.pool.finish(job, told)
        parts = self.processes.gather(parts)[0]
        if parts is None:
            raise KeyboardInterrupt  # its weights stay, for a checkpoint
        del self._kept[wanted]
        episodes = [
            parts[n % len(parts)].episodes[n // len(parts)] for n in range(len(wanted.task_ids))
        ]
        return RolloutResult(
            episodes, *(sum(numbers) for numbers in zip(*(part[1:] for part in parts), strict=True))
        )

    def begin(
        self, wanted: RolloutRound, weights: Weights | None = None, *, now: bool = True
    ) -> None:
        """Have a round played with the weights as they are, or with these; `play` gets it."""
        if weights is None:
            self._kept[wanted] = self._put(wanted.version)
        else:
            self._kept[wanted] = self._ray.put(weights) if self.processes.is_first else None
        if now:
            self._start(wanted)

    def weights_of(self, wanted: RolloutRound) -> Weights | None:
        """Return what a round that was begun is played with; the first process knows it."""
        if wanted not in self._kept or not self.processes.is_first:
            return None
        weights: Weights = self._ray.get(self._kept[wanted])
        return weights

    def _start(self, wanted: RolloutRound) -> None:
        """Hand out the shares of a round whose weights are kept."""
        count, weights = min(self._count, len(wanted.task_ids)), self._kept[wanted]
        numbers = range(len(wanted.task_ids))
        shares = [Share(weights, wanted, numbers[rank::count]) for rank in range(count)]
        self._begun[wanted] = self.pool.start(shares) if self.processes.is_first else None

    def close(self) -> None:
        """End the workers, and Ray where it was started here."""
        if not self.processes.is_first:
            return
        self.pool.close()
        if self._started:
            self._ray.shutdown()

    def _put(self, version: int) -> Any:
        """Return a reference to the weights as they are; all processes take part, the first one
        puts them.
        """
        if self._weights is None or self._weights[0] != version:
            with self.processes.unsharded(self.policy) as policy:
                first = self.processes.is_first
                self._weights = version, self._ray.put(policy_state(policy)) if first else None
        return self._weights[1]


def connect_ray(address: str | None, num_cpus: int) -> tuple[Any, bool]:
    """Return Ray, connected to a cluster or (address none) to one started here, and whether it was
    started here.
    """
    try:
        ray = extra_module("ray", "ray", "--num_rollout_workers")
    except MissingExtra as error:
        raise SettingError(str(error)) from None
    if ray.is_initialized():
        return ray, False
    if address is not None:
        try:
            ray.init(address=address, log_to_driver=True)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise SettingError(
                f"--ray_address {address}: no cluster to join there "
                f"({str(error).splitlines()[0]}). "
                "Start one with `ray start --head`, or leave the flag out for one on this machine "
                "alone. One that asks for a token, as Ray from 2.59 on may, is joined with "
                "RAY_AUTH_MODE=token and the token that `ray get-auth-token` prints there"
            ) from error
        return ray, False
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    for name, value in RAY_TIMEOUTS.items():
        os.environ.setdefault(name, value)
    ray.init(
        num_cpus=max(os.cpu_count() or 1, num_cpus), include_dashboard=False, log_to_driver=True
    )
    return ray, True


def _absolute(settings: T) -> T:
    """Return settings with the paths of files made such that a process in another folder reads them
    alike.
    """
    found: dict[str, Any] = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if field.name == "results_dir" or (
            field.name in PATHS and value and Path(value).exists()
        ):  # no hub's names
            found[field.name] = str(Path(value).resolve())
    return dataclasses.replace(settings, **found)
