"""Handlers: text to calls and back, one class for each format."""

from fctncalling.envs.handlers.handler import DecodeError, Handler, split_thought
from fctncalling.envs.handlers.inline import TEXT_HANDLERS
from fctncalling.envs.handlers.registry import HANDLERS, bears_call, get_handler

__all__ = [
    "HANDLERS",
    "TEXT_HANDLERS",
    "DecodeError",
    "Handler",
    "bears_call",
    "get_handler",
    "split_thought",
]
