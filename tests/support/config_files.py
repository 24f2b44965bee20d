"""Files of --config."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def config_flag(folder: Path, **settings: Any) -> str:
    """Write settings to a file in a folder; return the flag that names it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "mine.json"
    file.write_text(json.dumps(settings), encoding="utf-8")
    return f"--config={file}"
