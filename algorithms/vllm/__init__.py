"""Sampling from a vLLM server."""

from fctncalling.algorithms.vllm.adapters import PublishedAdapters
from fctncalling.algorithms.vllm.client import VllmClient
from fctncalling.algorithms.vllm.engine import VllmEngine

__all__ = ["PublishedAdapters", "VllmClient", "VllmEngine"]
