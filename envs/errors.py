"""Errors of infrastructure and of missing optional libraries."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class InfrastructureError(Exception):
    """Error of our infrastructure, never of the model.

    The episode says nothing about the policy and must be dropped.
    """


class MissingExtra(ImportError):
    """Error of an optional library that is not installed."""


def import_extra(module: str, extra: str, purpose: str) -> Any:
    """Import a module of an optional extra; MissingExtra, with the cure, if it is not installed.

    `extra` names the extra of this package that installs it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(
            f"{purpose} needs the library {module}, which cannot be imported ({error}). "
            f"Install it with `pip install 'fctncalling[{extra}]'`."
        ) from None  # a traceback of two errors would hide the line that helps
