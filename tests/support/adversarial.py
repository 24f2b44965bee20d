"""Call texts made to get at the interpreter, to hang it or to crash it; the texts themselves are
data.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_MULTIPLE = "<multiple>"
_MODULUS = 2**61 - 1  # CPython gives all its multiples one hash


def adversarial_texts() -> dict[str, str]:
    """Return name -> text; in the file a text is a list of parts, each a text or [unit, how often
    it stands there].
    """
    cases = json.loads(
        Path(__file__).with_name("adversarial_calls.json").read_text(encoding="utf-8")
    )
    return {name: "".join(map(_written, parts)) for name, parts in cases.items()}


def _written(part: Any) -> str:
    if isinstance(part, str):
        return part
    unit, count = part
    if _MULTIPLE in unit:
        return "".join(
            unit.replace(_MULTIPLE, str(_MODULUS * number)) for number in range(1, count + 1)
        )
    return str(unit) * int(count)
