"""Wheel and source distribution install and run outside the tree."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
LIBRARIES = ("torch", "transformers", "gymnasium", "numpy", "yaml", "rich", "matplotlib")
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}  # the number of threads changes rounding
SHORT = (
    *("train", "--num_updates", "2", "--episodes_per_update", "32", "--eval_episodes", "16"),
    *("--experiment_name", "wheel", "--seed", "3"),
)


class Install(NamedTuple):
    """A virtual environment with the package, and a folder to stand in."""

    bin: Path
    folder: Path

    def run(self, *command: str) -> str:
        """Return what a command prints; its module must not be that of the tree."""
        outside = {key: value for key, value in ONE_THREAD.items() if key != "PYTHONPATH"}
        done = subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=self.folder,
            env=outside,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout


def tracked(*folders: str) -> list[str]:
    """Return the files that git knows, links included."""
    listing = subprocess.run(
        ["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return listing.stdout.splitlines()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Return wheel and source distribution of a copy of the tree, by suffix."""
    tree, built = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("built")
    for name in tracked():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name, follow_symlinks=False)
    for kind in ("wheel", "sdist"):
        program = f"import setuptools.build_meta as m; m.build_{kind}({str(built)!r})"
        subprocess.run([sys.executable, "-c", program], cwd=tree, capture_output=True, check=True)
    return {path.suffix: path for path in built.iterdir()}


def install(distribution: Path, folder: Path) -> Install:
    """Install a distribution into an environment of its own, which sees the libraries of this one.

    They come last on its path: the tree, if it is installed here too, is hidden.
    """
    venv.create(folder / "venv", with_pip=False)
    [site] = (folder / "venv" / "lib").glob("python*/site-packages")
    origins = [Path(str(importlib.util.find_spec(name).origin)) for name in LIBRARIES]  # type: ignore[union-attr]
    (site / "libraries.pth").write_text("\n".join({str(path.parents[1]) for path in origins}))
    python = str(folder / "venv" / "bin" / "python")
    options = ("--no-deps", "--no-index", "--no-build-isolation", "--quiet")
    subprocess.run([python, "-m", "pip", "install", *options, str(distribution)], check=True)
    (folder / "elsewhere").mkdir()
    return Install(folder / "venv" / "bin", folder / "elsewhere")


@pytest.fixture(scope="module")
def wheel(built: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Install:
    """Return an environment with the wheel."""
    return install(built[".whl"], tmp_path_factory.mktemp("wheel"))


def embedded(install: Install) -> str:
    """Return the held-out tasks of the installed package."""
    program = "import fctncalling; print(fctncalling.embedded_path('held_out'))"
    path = install.run("python", "-c", program).strip()
    assert Path(path).is_relative_to(install.bin.parent)
    return path


@pytest.mark.prove
def test_the_wheel_holds_every_file_of_the_package(built: Mapping[str, Path]) -> None:
    listed = tracked("fctncalling", "data", "checkers", "envs", "algorithms")
    files = {name for name in listed if not (ROOT / name).is_symlink()}
    packed = set(zipfile.ZipFile(built[".whl"]).namelist())
    top = "fctncalling/"
    wanted = {name if name.startswith(top) else top + name for name in files}
    assert wanted - packed == set()


@pytest.mark.prove
def test_the_wheel_trains_outside_the_tree_as_the_tree_does(wheel: Install, tmp_path: Path) -> None:
    assert "Results: " in wheel.run("fctncalling", *SHORT)
    command = [sys.executable, "-m", "fctncalling", *SHORT]
    subprocess.run(command, cwd=tmp_path, env=ONE_THREAD, check=True)
    [here], [there] = (list(each.rglob("metrics.jsonl")) for each in (tmp_path, wheel.folder))
    assert len(there.read_text().splitlines()) >= 2
    assert there.read_text() == here.read_text()
    assert "view.html: " in wheel.run("fctncalling", "view", str(there.parent))


@pytest.mark.prove
def test_the_wheel_evaluates_outside_the_tree(wheel: Install) -> None:
    listed = wheel.run("python", "-m", "fctncalling")
    assert "\n  train " in listed
    played = ("run", "--agent", "oracle", "--dataset_path", embedded(wheel))
    wheel.run("fctncalling", "evaluate", *played, "--output", "played.jsonl")
    lines = (wheel.folder / "played.jsonl").read_text().splitlines()
    assert len(lines) == 318
    assert all(json.loads(line)["valid"] for line in lines)
    wheel.run("evaluate_fctncalling", "replay", "--input", "played.jsonl", *played[3:])
    wheel.run("fctncalling", "forge", "--output", "forged.jsonl", "--num_tasks", "20")


@pytest.mark.prove
def test_the_agent_of_the_readme_runs_outside_the_tree(wheel: Install) -> None:
    section = (ROOT / "docs/environment.md").read_text().split("## An agent in ten lines")[1]
    [program] = re.findall(r"^```python\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    assert "Verdict(valid=False" in wheel.run("python", "-c", program)


@pytest.mark.prove
def test_the_source_distribution_installs_and_plays(
    built: Mapping[str, Path], tmp_path: Path
) -> None:
    source = install(built[".gz"], tmp_path)
    played = ("run", "--agent", "oracle", "--dataset_path", embedded(source), "--limit", "2")
    source.run("fctncalling", *played, "--output", "played.jsonl")
    assert source.run("fctncalling", "--version").startswith("fctncalling ")
