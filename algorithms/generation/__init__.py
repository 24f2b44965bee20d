"""Generation engine: continuous batching with persistent KV caches."""

from fctncalling.algorithms.generation.engine import GenerationEngine
from fctncalling.algorithms.generation.engine_api import Action, Engine, Request, ScriptedEngine

__all__ = ["Action", "Engine", "GenerationEngine", "Request", "ScriptedEngine"]
