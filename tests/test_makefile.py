"""`make` looks at the Python version before it downloads anything, and makes a stale environment
anew.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parents[1] / "Makefile"
# A Python of a version of our choice: it says so to `-c`, makes environments of its like, and runs
# no script.
FAKE = f"""#!/bin/sh
case "$1" in
-c) exec {sys.executable} -c \
    'import sys; sys.version_info = (3, MINOR, 0); exec(sys.argv[1])' "$2" ;;
-m) [ "$2 $3" = "venv --clear" ] || exit 9
    mkdir -p "$4/bin" && cp "$0" "$4/bin/python"
    printf '#!/bin/sh\\necho installed by 3.MINOR\\n' > "$4/bin/pip" && chmod +x "$4/bin/pip" ;;
*) echo "3.MINOR runs $1" ;;
esac
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a folder with the Makefile and Pythons 3.10 (the default), 3.11 and 3.12."""
    if shutil.which("make") is None:
        pytest.skip("needs make")
    shutil.copy(MAKEFILE, tmp_path)
    for name in ("requirements.txt", "setup.py", "pyproject.toml"):
        (tmp_path / name).touch()
    for name, minor in (("python3", 10), ("python3.11", 11), ("python3.12", 12)):
        (tmp_path / name).write_text(FAKE.replace("MINOR", str(minor)))
        (tmp_path / name).chmod(0o755)
    return tmp_path


def make(tree: Path, *words: str) -> tuple[int, str]:
    """Return exit code and output of `make train`."""
    environment = {"PATH": f"{tree}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["make", "-s", "train", *words],
        cwd=tree,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout


def test_a_python_that_is_too_old_is_told_in_one_line_before_anything_is_installed(
    tree: Path,
) -> None:
    code, told = make(tree)
    assert code != 0
    assert "needs Python 3.11 or newer, found python3 = 3.10" in told
    assert "installed by" not in told
    assert not (tree / ".venv").exists()


def test_an_environment_of_another_python_is_made_anew_and_one_that_fits_is_kept(
    tree: Path,
) -> None:
    runs = "3.11 runs train_fctncalling.py\n"
    assert make(tree, "PYTHON=python3.11") == (0, "installed by 3.11\n" + runs)
    assert make(tree, "PYTHON=python3.11") == (0, runs)
    assert make(tree) == (0, runs), "the environment is what counts, not the default Python"
    assert make(tree, "PYTHON=python3.12")[1].startswith("installed by 3.12\n")
    assert make(tree, "PYTHON=python3")[0] != 0
    shutil.copy(tree / "python3", tree / ".venv/bin/python")  # one that an older Makefile made
    assert "found python3 = 3.10" in make(tree)[1]
    assert make(tree, "PYTHON=python3.11")[1].startswith("installed by 3.11\n")
