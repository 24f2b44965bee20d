"""Rollout backend that samples from vLLM servers."""

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
from fctncalling.algorithms.vllm.engine import VllmEngine
from fctncalling.algorithms.vllm.servers import VllmServers
from fctncalling.training.rollouts.rollout_backends import LocalRollout, RolloutRound
from fctncalling.training.run_config import RunConfig


class VllmRollout(LocalRollout):
    """Local rollout whose actions vLLM servers sample.

    The first process publishes the adapter, all processes send requests and bring a server that
    comes back up to date.
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
        self.servers = connect_vllm(run_config, processes.rank)
        folder = Path(run_config.vllm_adapter_dir or results_folder(config) / "adapters")
        self.published = PublishedAdapters(self.servers, folder)
        self._checked = config.temperature == 1.0  # where both kinds of log-probabilities are one
        super().__init__(
            config, policy, template, make_env, processes, make_engine=self._vllm_engine
        )

    def close(self) -> None:
        """Close environments and connections, and unload the adapters from the servers."""
        super().close()
        if self.processes.is_first:
            self.published.close()
        self.servers.close()

    def _vllm_engine(self, policy: ActorCritic, rollout_round: RolloutRound) -> VllmEngine:
        """Publish the current adapter and return an engine that samples with it."""
        if self.processes.is_first and policy.adapters is not None:
            self.published.publish(policy.adapters, rollout_round.version)
        self.published.adopt(self.processes.gather(self.published.versions)[0])
        name = self.published.versions[-1].name
        if not self._checked:
            self._check_logprobs(name)
        return VllmEngine(
            self.servers,
            name,
            self.template.stop_ids,
            temperature=rollout_round.temperature,
            max_new_tokens=self.config.max_new_tokens,
        )

    def _check_logprobs(self, name: str) -> None:
        """Raise SettingError if a server's log-probabilities are not of the distribution it
        samples from.
        """
        prompt, temperature = [next(iter(self.template.stop_ids))], self.config.temperature
        for client in self.servers.ready_clients():
            tempered = client.best_logprob(name, prompt, temperature)
            if tempered == client.best_logprob(name, prompt, 1.0):
                raise SettingError(
                    f"--temperature: got {temperature}, but the server at {client.url} tells "
                    "log-probabilities at "
                    "temperature 1; start it with --logprobs-mode processed_logprobs"
                )
        self._checked = True


def connect_vllm(run_config: RunConfig, rank: int = 0) -> VllmServers:
    """Connect to the servers of --vllm_url; SettingError if none answers."""
    urls = str(run_config.vllm_url).split(",")
    try:
        servers = VllmServers(urls, patience_s=run_config.vllm_patience_s, offset=rank)
    except ImportError:
        raise SettingError(
            "--rollout_engine vllm needs the library httpx: pip install 'fctncalling[vllm]'"
        ) from None
    try:
        servers.connect()
    except (EngineError, KeyError, TypeError, ValueError) as error:
        raise SettingError(
            f"--vllm_url {servers.urls}: no vLLM server answers there ({error}). "
            "Start one: VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 vllm serve MODEL --enable-lora "
            "--max-lora-rank RANK"
        ) from error
    return servers
