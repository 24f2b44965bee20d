"""Harbor runs this project's tasks with its oracle.

  python3.12 -m venv /tmp/harbor
  /tmp/harbor/bin/pip install harbor==0.26.0
  /tmp/harbor/bin/pip install .
  /tmp/harbor/bin/python examples/integrations/harbor_tasks.py

Harbor starts a container a task; here a folder of this machine takes its place, with Harbor's own
jobs, oracle and verifier. With Docker: build the image (`image/Dockerfile` of the tasks), then
`harbor run --path FOLDER --agent oracle`.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from harbor.environments.base import BaseEnvironment, ExecResult

from fctncalling import embedded_path, load_tasks
from fctncalling.lab.integrations.harbor import write_tasks

FOLDERS = ("/logs", "/tests", "/solution", "/installed-agent")
EPISODE = '#!/bin/sh\ncd "{root}" && exec "{python}" -m fctncalling.lab.integrations.harbor "$@"\n'


class FolderEnvironment(BaseEnvironment):
    """Folder in place of a container; container paths are paths in it."""

    @staticmethod
    def type() -> str:
        """Return the environment's name."""
        return "folder"

    def _validate_definition(self) -> None:
        """Accept any definition: no image is built."""

    async def start(self, force_build: bool) -> None:
        """Make the folder, as a task's Dockerfile makes its image."""
        self.root = Path(tempfile.mkdtemp())
        shutil.copy(self.environment_dir / "task.json", self.root)
        for name in ("bin", "logs/agent", "logs/verifier", "logs/artifacts"):
            (self.root / name).mkdir(parents=True)
        episode = self.root / "bin/episode"
        episode.write_text(EPISODE.format(root=self.root, python=sys.executable))
        episode.chmod(0o755)

    async def stop(self, delete: bool) -> None:
        """Remove the folder."""
        shutil.rmtree(self.root)

    def _inside(self, path: Any) -> Path:
        return self.root / str(path).lstrip("/")

    async def upload_file(self, source_path: Any, target_path: Any) -> None:
        """Copy a file in."""
        self._inside(target_path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source_path, self._inside(target_path))

    async def upload_dir(self, source_dir: Any, target_dir: Any) -> None:
        """Copy a folder in."""
        shutil.copytree(source_dir, self._inside(target_dir), dirs_exist_ok=True)

    async def download_file(self, source_path: Any, target_path: Any) -> None:
        """Copy a file out."""
        Path(target_path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self._inside(source_path), target_path)

    async def download_dir(self, source_dir: Any, target_dir: Any) -> None:
        """Copy a folder out."""
        shutil.copytree(self._inside(source_dir), target_dir, dirs_exist_ok=True)

    async def exec(self, command: str, *_: Any, **__: Any) -> ExecResult:
        """Run a shell command with its paths mapped into the folder."""
        for folder in FOLDERS:
            command = command.replace(folder, f"{self.root}{folder}")
        path = f"{self.root}/bin:{os.environ['PATH']}"
        done = await asyncio.to_thread(
            subprocess.run,
            ["bash", "-c", command],
            cwd=self.root,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        return ExecResult(stdout=done.stdout, stderr=done.stderr, return_code=done.returncode)


def rewards(folder: Path, jobs: Path) -> dict[str, float | None]:
    """Return the reward of each task of a folder played by the oracle; None without one."""
    harbor = [sys.executable, "-m", "harbor.cli.main", "run", "--path", str(folder)]
    flags = ["--agent", "oracle", "--jobs-dir", str(jobs), "--n-concurrent", "2"]
    own = ["--env", "harbor_tasks:FolderEnvironment"]
    paths = filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")])
    subprocess.run(
        [*harbor, *flags, *own],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # no download
        },
        check=True,
        stdout=subprocess.DEVNULL,
    )
    results = {}
    for file in jobs.glob("*/*/result.json"):
        result = json.loads(file.read_text())
        scored = (result["verifier_result"] or {}).get("rewards") or {}
        results[result["task_name"].rpartition("/")[2]] = scored.get("reward")
    return results


def main() -> None:
    """Write four tasks, run them, print their rewards."""
    tasks = [task for task in load_tasks(embedded_path("train")) if task.is_multi_turn][:4]
    with tempfile.TemporaryDirectory() as folder:
        write_tasks(tasks, f"{folder}/tasks")
        for name, reward in sorted(rewards(Path(folder, "tasks"), Path(folder, "jobs")).items()):
            print(f"{name}: reward {reward}")


if __name__ == "__main__":
    main()
