"""--dataset_path: the tasks of a command, as files of one's own or as folders of BFCL's."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fctncalling.data.paths import official_data_folder

USUAL_TASKS = f"those that the record names, else {official_data_folder()} and the embedded tasks"
"""What a command that reads records takes where no tasks are named."""


def add_dataset_argument(
    parser: argparse._ActionsContainer, default: str = "", *, many: bool = True
) -> None:
    """Declare the flag and its former name --data_dir; `default` says what is taken without it.

    Not `many`: one path each time the flag is given, for commands with words of their own.
    """
    several: dict[str, Any] = {"nargs": "+", "action": "extend"} if many else {"action": "append"}
    shared: dict[str, Any] = {"dest": "dataset_path", "type": Path, "metavar": "PATH", **several}
    text = f"task files, or folders of BFCL's; default: {default or official_data_folder()}"
    parser.add_argument("--dataset_path", **shared, help=text)
    parser.add_argument("--data_dir", **shared, help=argparse.SUPPRESS)
