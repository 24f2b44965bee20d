"""OpenEnv server of the embedded tasks: `python server/app.py`."""

from __future__ import annotations

import uvicorn

from fctncalling import embedded_path, load_tasks
from fctncalling.lab.integrations.openenv import openenv_app

SPLITS = {"train": "train", "test": "held_out"}
app = openenv_app({name: load_tasks(embedded_path(file)) for name, file in SPLITS.items()})


def main() -> None:
    """Serve at port 8000."""
    uvicorn.run(app, host="0.0.0.0", port=8000)


if __name__ == "__main__":
    main()
