"""Rollout backend that samples from a vLLM server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.distributed.process_group import ProcessGroup
from fctncalling.algorithms.generation.engine_api import EngineError
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.run.logs import results_folder
from fctncalling.algorithms.vllm.adapters import PublishedAdapters
from fctncalling.algorithms.vllm.client import VllmClient
from fctncalling.algorithms.vllm.engine import VllmEngine
from fctncalling.training.rollouts.rollout_backends import LocalRollout, RolloutRound
from fctncalling.training.run_config import RunConfig


class VllmRollout(LocalRollout):
    """Local rollout whose actions a vLLM server samples.

    The first process publishes the adapter, all processes send requests.
    """

    def __init__(
        self,
        config: TrainConfig,
        run_config: RunConfig,
        policy: ActorCritic,
        template: ChatTemplate,
        make_env: Callable[[], Any],
        processes: ProcessGroup,
    ) -> None:
        self.server = connect_vllm(run_config)
        folder = Path(run_config.vllm_adapter_dir or results_folder(config) / "adapters")
        self.published = PublishedAdapters(self.server, folder)
        self._checked = config.temperature == 1.0  # where both kinds of log-probabilities are one
        super().__init__(
            config, policy, template, make_env, processes, make_engine=self._vllm_engine
        )

    def close(self) -> None:
        """Close environments and connection, and unload the adapters from the server."""
        super().close()
        self.published.close()
        self.server.close()

    def _vllm_engine(self, policy: ActorCritic, rollout_round: RolloutRound) -> VllmEngine:
        """Publish the current adapter and return an engine that samples with it."""
        name = ""
        if self.processes.is_first and policy.adapters is not None:
            name = self.published.publish(policy.adapters, rollout_round.version)
        name = self.processes.gather(name)[0]
        if not self._checked:
            self._check_logprobs(name)
        return VllmEngine(
            self.server,
            name,
            self.template.stop_ids,
            temperature=rollout_round.temperature,
            max_new_tokens=self.config.max_new_tokens,
        )

    def _check_logprobs(self, name: str) -> None:
        """Raise SettingError if the server's log-probabilities are not of the distribution it
        samples from.
        """
        prompt, temperature = [next(iter(self.template.stop_ids))], self.config.temperature
        if self.server.best_logprob(name, prompt, temperature) == self.server.best_logprob(
            name, prompt, 1.0
        ):
            raise SettingError(
                f"--temperature: got {temperature}, but the server at {self.server.url} tells "
                "log-probabilities at "
                "temperature 1; start it with --logprobs-mode processed_logprobs"
            )
        self._checked = True


def connect_vllm(run_config: RunConfig) -> VllmClient:
    """Connect to the server of --vllm_url; SettingError if none answers."""
    try:
        server = VllmClient(str(run_config.vllm_url), patience_s=run_config.vllm_patience_s)
    except ImportError:
        raise SettingError(
            "--rollout_engine vllm needs the library httpx: pip install 'fctncalling[vllm]'"
        ) from None
    try:
        server.models()
    except (OSError, EngineError, ValueError, KeyError, server.errors) as error:
        raise SettingError(
            f"--vllm_url {run_config.vllm_url}: no vLLM server answers there "
            f"({type(error).__name__}: {error}). "
            "Start one: VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 vllm serve MODEL --enable-lora "
            "--max-lora-rank RANK"
        ) from error
    return server
