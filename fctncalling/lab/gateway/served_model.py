"""ServedModel: sampling from the model that vLLM servers have loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.vllm.client import Completion, VllmClient
from fctncalling.algorithms.vllm.engine import VllmEngine
from fctncalling.algorithms.vllm.servers import VllmServers
from fctncalling.training.rollouts.vllm_rollout import connect_vllm
from fctncalling.training.run_config import RunConfig


class ServedModel:
    """Model of `VllmServers` in place of published weights, without loading any."""

    def __init__(self, servers: VllmServers) -> None:
        self._models: dict[str, str] = {}  # a server's address -> the name of its model
        servers.publication = self

    def update_server(self, client: VllmClient) -> None:
        """Read the model's name."""
        self._models[client.url] = client.models()[0]

    def complete(
        self, client: VllmClient, version: str, prompt: Sequence[int], **sampling: Any
    ) -> Completion:
        """Sample with the server's model."""
        if client.url not in self._models:
            self.update_server(client)
        return client.complete(self._models[client.url], prompt, **sampling)


def served_engine(url: str, template: ChatTemplate, max_new_tokens: int) -> VllmEngine:
    """Return an engine over vLLM servers; SettingError if none answers.

    ValueError where a server tells log-probabilities that it does not sample with.
    """
    servers = connect_vllm(RunConfig(vllm_url=url, vllm_patience_s=60.0))
    ServedModel(servers)
    start = [next(iter(template.stop_ids))]
    for client in servers.ready_clients():
        name = client.models()[0]
        if client.top_logprob(name, start, 0.5) == client.top_logprob(name, start, 1.0):
            raise ValueError(
                f"--vllm_url {client.url}: it tells log-probabilities at temperature 1 whatever "
                "the temperature; start it with --logprobs-mode processed_logprobs"
            )
    return VllmEngine(servers, "served", template.stop_ids, max_new_tokens=max_new_tokens)
