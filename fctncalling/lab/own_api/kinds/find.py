"""Kinds of all parameters of an API, with what the user's own file says of them."""

from __future__ import annotations

from pathlib import Path

from fctncalling.lab.own_api.api import OwnApi
from fctncalling.lab.own_api.kinds.argument_kind import ArgumentKind


def argument_kinds(
    api: OwnApi, overrides: Path | None = None
) -> dict[tuple[str, str], ArgumentKind]:
    """Return the kind of each (function, parameter)."""
    return {}
