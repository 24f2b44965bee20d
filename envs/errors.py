"""Errors of infrastructure, and optional libraries."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class InfrastructureError(Exception):
    """Error of our infrastructure, not of the model.

    The episode says nothing about the policy and must be dropped.
    """


class MissingExtra(ImportError):
    """Missing extra, an optional dependency: ours to install, never a model's mistake."""


def import_extra(module: str, extra: str, purpose: str) -> Any:
    """Import a module of an optional extra; MissingExtra, with the cure, if it is not installed.

    Raises MissingExtra, naming the extra that installs it, where it is absent.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(
            f"{purpose} needs the library {module}, which cannot be imported ({error}). "
            f"Install it with `pip install 'fctncalling[{extra}]'`."
        ) from None  # a traceback of two errors would hide the line that helps
