"""Packaging: the rooms stay on top of the tree and are imported as `fctncalling.<room>`.

What needs no code, such as requirements and commands, stands in pyproject.toml.
"""

import os
import re
import sys
from contextlib import suppress
from pathlib import Path

from setuptools import setup

ROOMS = ("data", "checkers", "envs", "algorithms")  # ground floor first

NOT_SHIPPED = {"fctncalling.lab.embedded"}  # makers of the embedded tasks and models


def subpackages(folder: str) -> list[str]:
    """Return every package below a folder, the folder itself included, as dotted names."""
    return [".".join(init.parent.parts) for init in sorted(Path(folder).rglob("__init__.py"))]


def packages() -> list[str]:
    """Return all packages: those of fctncalling/, then those of the rooms.

    Where the clone has symbolic links, the rooms are seen below `fctncalling/` too; they are taken
    from the top only.
    """
    top = [
        name
        for name in subpackages("fctncalling")
        if name.split(".")[1:2] not in [[room] for room in ROOMS] and name not in NOT_SHIPPED
    ]
    return [*top, *(f"fctncalling.{name}" for room in ROOMS for name in subpackages(room))]


VERSION = "0.4.0"

HOME = os.environ.get("FCTNCALLING_HOME", "").rstrip("/")
"""Where the tree is published, https://github.com/OWNER/fctncalling say: set it to publish."""


def long_description() -> str:
    """Return the README for package pages, which have no tree of files.

    Links and pictures within the tree become absolute ones of the version's tag at HOME. Without
    HOME pictures are left out, and links become their paths.
    """
    readme = Path("README.md")
    text = readme.read_text(encoding="utf-8") if readme.exists() else ""
    if HOME:
        text = re.sub(r"(!\[[^\]]*\])\((?!https?:)", rf"\1({HOME}/raw/{VERSION}/", text)
        return re.sub(r"(?<!!)(\[[^\]!]*\])\((?!https?:|#)", rf"\1({HOME}/blob/{VERSION}/", text)
    text = re.sub(r"!\[[^\]]*\]\((?!https?:)[^)]*\)\n*", "", text)
    return re.sub(r"\[([^\]]*)\]\((?!https?:|#)([^)]*)\)", r"\1 (`\2`)", text)


LINKS = Path(".editable")


def package_folders() -> dict[str, str]:
    """Return where packages lie: `fctncalling.<room>` in the rooms.

    In an editable install behind links, whose folder goes on Python's path.

    What is found on the path comes before a folder called fctncalling without an `__init__.py`,
    such as a clone beside one's script; what setuptools maps name by name comes after it.
    """
    mapped = {f"fctncalling.{room}": room for room in ROOMS}
    if "editable_wheel" not in sys.argv or not Path("fctncalling", ROOMS[0]).is_symlink():
        return mapped  # a clone without symbolic links
    LINKS.mkdir(exist_ok=True)
    for name in ("fctncalling", "train_fctncalling.py", "evaluate_fctncalling.py"):
        with suppress(FileExistsError):
            (LINKS / name).symlink_to(Path("..", name))
    return {"": str(LINKS)}


setup(
    version=VERSION,
    long_description=long_description(),
    long_description_content_type="text/markdown",
    url=HOME or None,
    project_urls={
        "Benchmark (BFCL)": "https://gorilla.cs.berkeley.edu/leaderboard.html",
        "Paper (BAD)": "https://arxiv.org/abs/2405.15821",
        **({"Changes": f"{HOME}/blob/{VERSION}/CHANGELOG.md"} if HOME else {}),
    },
    packages=packages(),
    package_dir=package_folders(),
    package_data={
        "": ["py.typed", "*.json", "*.toml", "*.jsonl", "tables/*.json", "frames/*.toml"],
        "fctncalling.data": ["embedded/**"],
        "fctncalling.lab.integrations": ["harbor_task/*"],
        "fctncalling.lab.page": ["style.css"],
        "fctncalling.lab.viewer": ["page/*"],
    },
    py_modules=["train_fctncalling", "evaluate_fctncalling"],
)
