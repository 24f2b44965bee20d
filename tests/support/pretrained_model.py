"""SmolLM2-135M as import-model writes it, for tests: FCTNCALLING_SMOLLM2 names its folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = os.environ.get("FCTNCALLING_SMOLLM2", "")
needs_smollm2 = pytest.mark.skipif(
    not Path(FOLDER, "config.json").is_file(),
    reason="needs SmolLM2: `fctncalling import-model smollm2-135m --output "
    "FOLDER`, and FCTNCALLING_SMOLLM2=FOLDER",
)
