"""Architecture tests: imports, file and function sizes, no eval."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from fctncalling.data.function_docs import DOC_FILES

ROOT = Path(__file__).parents[1]
FLOORS = {
    "data": {"data"},
    "checkers": {"checkers", "data"},
    "envs": {"envs", "checkers", "data"},
    "algorithms": {"algorithms", "data"},
}
FORBIDDEN = {
    "data": {"torch", "transformers", "gymnasium"},
    "checkers": {"torch", "transformers", "gymnasium"},
    "envs": {"torch", "transformers"},
    "algorithms": set[str](),
}
MAX_FILE_LINES = 340
MAX_FUNCTION_LINES = 55
TABLES = {
    ROOT / "algorithms" / "config.py",
    ROOT / "fctncalling" / "cli" / "run.py",
}  # lists of settings: long, not deep
API_CLASSES = TABLES | {ROOT / "envs" / "tools" / f"{stem}.py" for stem in DOC_FILES.values()}


def python_files(folder: Path) -> list[Path]:
    return sorted(
        file for file in folder.rglob("*.py") if not any(part.is_symlink() for part in file.parents)
    )


def top_floor() -> list[Path]:
    rooms = {ROOT / "fctncalling" / room for room in FLOORS}
    files = [
        file for file in python_files(ROOT / "fctncalling") if not rooms.intersection(file.parents)
    ]
    return [*files, *sorted(ROOT.glob("*_fctncalling.py")), ROOT / "setup.py"]


def package_files() -> list[Path]:
    return [*(file for room in FLOORS for file in python_files(ROOT / room)), *top_floor()]


def imported(file: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, dotted name) of every import, those inside functions too; a relative one as
    `.name`.
    """
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            names = [alias.name for alias in node.names] if module == "fctncalling" else [""]
            yield from ((node.lineno, f"{module}.{name}".rstrip(".")) for name in names)


def import_faults(file: Path, allowed: set[str], forbidden: set[str]) -> Iterator[str]:
    for line, name in imported(file):
        where, (first, *rest) = f"{file.name}:{line} imports {name!r}", name.split(".")
        if first == "":
            yield f"{where}: relative; write it from fctncalling on"
        elif first in FLOORS:
            yield f"{where}: a room is imported as fctncalling.{first}"
        elif first in forbidden:
            yield f"{where}: this floor does without it"
        elif first == "fctncalling" and (rest[0] if rest else "") not in allowed:
            yield f"{where}: not a floor below"


@pytest.mark.parametrize("room", FLOORS)
def test_imports_point_down_the_floors(room: str) -> None:
    faults = [
        fault
        for file in python_files(ROOT / room)
        for fault in import_faults(file, FLOORS[room], FORBIDDEN[room])
    ]
    assert faults == []


def test_the_top_floor_imports_rooms_by_their_full_names() -> None:
    faults = [
        fault for file in top_floor() for fault in import_faults(file, top_floor_names(), set())
    ]
    assert faults == []


def top_floor_names() -> set[str]:
    own = {path.stem for path in (ROOT / "fctncalling").iterdir()}
    return {*FLOORS, *own, "__version__", ""}


def test_the_import_rule_sees_each_forbidden_form(tmp_path: Path) -> None:
    file = tmp_path / "sinner.py"
    file.write_text(
        "import fctncalling.data.types\n"
        "import envs\n"
        "from envs.tools import x\n"
        "from . import y\n"
        "from ..data import z\n"
        "from fctncalling import cli\n"
        "from fctncalling.text_environment.text_environment import TextEnvironment\n"
        "def late():\n    import torch.nn\n    from fctncalling.algorithms import batch\n"
    )
    lines = [
        int(fault.split(":")[1].split()[0])
        for fault in import_faults(file, FLOORS["envs"], FORBIDDEN["envs"])
    ]
    assert sorted(lines) == [2, 3, 4, 5, 6, 7, 9, 10]


def test_no_file_is_longer_than_its_cap() -> None:
    lengths = {
        str(file.relative_to(ROOT)): len(file.read_text(encoding="utf-8").splitlines())
        for file in package_files()
        if file not in API_CLASSES
    }
    assert {file: length for file, length in lengths.items() if length > MAX_FILE_LINES} == {}


def test_no_function_is_longer_than_its_cap() -> None:
    long = {}
    for file in package_files():
        if file in API_CLASSES:
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > MAX_FUNCTION_LINES:
                    long[f"{file.relative_to(ROOT)}:{node.lineno} {node.name}"] = length
    assert long == {}


def test_nothing_is_evaluated_outside_the_confined_executor() -> None:
    executor = ROOT / "envs" / "tools" / "python_executor"
    calls = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in package_files()
        if executor not in file.parents
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and called_name(node.func) in ("eval", "exec")
    ]
    assert calls == []


def called_name(function: ast.expr) -> str | None:
    """Return the called builtin's name, also as `builtins.eval`; a method such as `model.eval` is
    none.
    """
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        return function.attr if function.value.id == "builtins" else None
    return function.id if isinstance(function, ast.Name) else None
