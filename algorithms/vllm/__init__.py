"""Sampling from vLLM servers."""

from fctncalling.algorithms.vllm.client import VllmClient
from fctncalling.algorithms.vllm.engine import VllmEngine
from fctncalling.algorithms.vllm.servers import VllmServers
from fctncalling.algorithms.vllm.weights import PublishedAdapters, PublishedWeights

__all__ = ["PublishedAdapters", "PublishedWeights", "VllmClient", "VllmEngine", "VllmServers"]
