"""Remote rollout worker."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import socket
import time
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from fctncalling.algorithms.config import TrainConfig, resolve_device
from fctncalling.algorithms.distributed.process_group import ProcessGroup
from fctncalling.algorithms.policy.weight_sync import Weights, load_policy_state
from fctncalling.training.rollouts.rollout_backends import LocalRollout, RolloutResult, RolloutRound
from fctncalling.training.run_config import RunConfig
from fctncalling.training.task_setup import make_task_setup


class RolloutWorker:
    """Remote rollout worker: plays shares of rounds with the weights that come with them.

    It reads tasks and model from the same paths as the learner, and holds no state between shares
    but the newest weights.
    """

    def __init__(self, config: TrainConfig, run_config: RunConfig, number: int) -> None:
        from fctncalling.training.load_policy import load_policy

        self.config = dataclasses.replace(
            config,
            n_rollout_threads=-(-config.n_rollout_threads // run_config.num_rollout_workers),
            device="auto",  # what this worker was given, whatever the learner has
            # what only learning needs is left out: a critic's own model, a reference
            critic="head",
            kl_coef=0.0,
            init_critic_from=None,
        )
        device = resolve_device("auto")
        with contextlib.redirect_stdout(io.StringIO()):  # the learner has said it all
            make_env = make_task_setup(self.config, run_config).make_env
            self.policy, template = load_policy(self.config, run_config, None, device)
        self._version: int | None = None
        # What it notes of slow tools' answers has a file of its own.
        process_group = ProcessGroup(rank=number + 1, device=device)
        self._rollout = LocalRollout(self.config, self.policy, template, make_env, process_group)

    def location(self) -> tuple[str, int, str]:
        """Return host name, process id and Ray node id."""
        library: Any = import_module("ray")
        return socket.gethostname(), os.getpid(), str(library.get_runtime_context().get_node_id())

    def play(
        self, weights: Weights, rollout_round: RolloutRound, numbers: Sequence[int]
    ) -> RolloutResult:
        """Play the episodes of a round that have these numbers."""
        cpu = time.process_time()
        if self._version != rollout_round.version:
            load_policy_state(self.policy, weights)
            self._version = rollout_round.version
        result = self._rollout.play_share(rollout_round, numbers)
        return result._replace(cpu_seconds=time.process_time() - cpu)
