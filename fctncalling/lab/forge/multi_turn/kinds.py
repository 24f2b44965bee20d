"""Kinds of values: what each parameter of BFCL's functions takes, as a person would name it.

A kind is narrower than a type: a price and a number of shares are both numbers, but no user says
one for the other. A list has its elements' kind.
"""

from __future__ import annotations

import json
from pathlib import Path

PARAMETER_KINDS: dict[str, dict[str, dict[str, str]]] = json.loads(
    Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
)
"""Class -> function -> parameter -> kind."""
