"""Rollout backend that samples from vLLM servers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.distributed.process_group import ProcessGroup
from fctncalling.algorithms.generation.engine_api import Engine, EngineError, RolloutError
from fctncalling.algorithms.policy.actor_critic import ActorCritic, Batch
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.policy.precision import compute_dtype
from fctncalling.algorithms.run.logs import results_folder
from fctncalling.algorithms.vllm.engine import VllmEngine
from fctncalling.algorithms.vllm.servers import VllmServers
from fctncalling.algorithms.vllm.weights import PublishedAdapters, PublishedWeights, write_model
from fctncalling.training.rollouts.rollout_backends import EpisodeSource, LocalRollout, RolloutRound
from fctncalling.training.run_config import RunConfig

CHECK_TOKENS = 64
CHECK_TEXT = """\
The quick brown fox asks for 3 tickets to New York, then calls
[book_flight(origin="SFO", destination="JFK", seats=3), get_weather(city="New York", days=10)]
and answers: {"status": "ok", "price": 412.50, "currency": "USD"}"""


class VllmRollout(LocalRollout):
    """vLLM rollout: vLLM servers sample its actions.

    The first process publishes the adapter, or all weights, which FSDP's processes hand over one
    by one. All processes send requests and bring a server that comes back up to date.
    """

    def __init__(
        self,
        config: TrainConfig,
        run_config: RunConfig,
        policy: ActorCritic,
        template: ChatTemplate,
        make_env: Callable[[], Any],
        processes: ProcessGroup,
        source: EpisodeSource | None = None,
    ) -> None:
        self.servers = connect_vllm(run_config, processes.rank)
        folder = Path(run_config.vllm_adapter_dir or results_folder(config) / "adapters")
        self.published: PublishedAdapters | PublishedWeights
        if policy.adapters is not None:
            self.published = PublishedAdapters(self.servers, folder)
        else:
            fp32 = compute_dtype(config, processes.device) == torch.float32
            tolerance = run_config.vllm_logprob_tolerance or (1e-5 if fp32 else 0.05)
            self.published = PublishedWeights(self.servers, folder, tolerance=tolerance)
        self._checked = config.temperature == 1.0  # where both kinds of log-probabilities are one
        super().__init__(config, policy, template, make_env, processes, self._vllm_engine, source)

    def close(self) -> None:
        """Close environments and connections, and unload the adapters from the servers."""
        super().close()
        if self.processes.is_first:
            self.published.close()
        self.servers.close()

    @contextlib.contextmanager
    def _engine_running(self, rollout_round: RolloutRound) -> Iterator[Engine]:
        """Context manager: an engine; whole weights stay sharded, an adapter's are gathered."""
        if self.policy.adapters is None:
            yield self._vllm_engine(self.policy, rollout_round)
            return
        with super()._engine_running(rollout_round) as engine:
            yield engine

    def _vllm_engine(self, policy: ActorCritic, rollout_round: RolloutRound) -> VllmEngine:
        """Publish the current weights and return an engine that samples with them."""
        if isinstance(self.published, PublishedWeights):
            self._publish_weights(self.published, rollout_round.version)
        elif self.processes.is_first and policy.adapters is not None:
            self.published.publish(policy.adapters, rollout_round.version)
        self.published.serve_versions(self.processes.broadcast(self.published.versions))
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

    def _publish_weights(self, published: PublishedWeights, number: int) -> None:
        """Write the policy's weights and have the servers load them, unless they have."""
        if published.versions and published.versions[-1].number == number:
            return
        text = list(self.template.tokenizer(CHECK_TEXT)["input_ids"])[:CHECK_TOKENS]
        ids = torch.tensor([text], device=self.processes.device)
        attended = torch.ones_like(ids, dtype=torch.bool)
        acted = attended.clone()
        acted[:, 0] = False
        with torch.no_grad():  # training's forward; with FSDP a collective operation
            logprobs: list[float] = self.policy(Batch(ids, attended, acted)).logprobs.tolist()
        first = self.processes.is_first
        try:
            folder = published.new_folder(number) if first else None
            write_model(self.policy.model, folder)
        except (OSError, SafetensorError) as error:
            raise RolloutError(
                f"{published.folder}: the weights for the servers cannot be written ({error}). "
                "Make room, or name another folder with --vllm_adapter_dir"
            ) from error
        if folder is not None:
            published.publish(folder, number, text, logprobs)

    def _check_logprobs(self, name: str) -> None:
        """Raise SettingError if a server's log-probabilities ignore its temperature."""
        prompt, temperature = [next(iter(self.template.stop_ids))], self.config.temperature
        for client in self.servers.ready_clients():
            model = self.published.model_name(client, name)
            tempered = client.top_logprob(model, prompt, temperature)
            if tempered == client.top_logprob(model, prompt, 1.0):
                raise SettingError(
                    f"--temperature: got {temperature}, but the server at {client.url} tells "
                    "log-probabilities at temperature 1; start it with --logprobs-mode "
                    "processed_logprobs"
                )
        self._checked = True


def connect_vllm(run_config: RunConfig, rank: int = 0) -> VllmServers:
    """Connect to the servers of --vllm_url; SettingError if none answers."""
    urls = str(run_config.vllm_url).split(",")
    servers = VllmServers(urls, patience_s=run_config.vllm_patience_s, offset=rank)
    try:
        servers.connect()
    except (EngineError, KeyError, TypeError, ValueError) as error:
        raise SettingError(
            f"--vllm_url {servers.urls}: no vLLM server answers there ({error}). Start one: "
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 vllm serve MODEL --enable-lora --max-lora-rank "
            "RANK; without --lora_r: VLLM_SERVER_DEV_MODE=1 vllm serve MODEL"
        ) from error
    return servers
