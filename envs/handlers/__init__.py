"""Handlers: text to calls and back, one class for each format."""

from fctncalling.envs.handlers.handler import DecodeError, Handler
from fctncalling.envs.handlers.registry import HANDLERS, TEXT_HANDLERS, get_handler

__all__ = ["HANDLERS", "TEXT_HANDLERS", "DecodeError", "Handler", "get_handler"]
