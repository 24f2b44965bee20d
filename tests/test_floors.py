"""Architecture tests: imports, circles, sizes of files and folders."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from house_rules import (
    PACKAGE,
    ROOMS,
    box_circles,
    crowded_folders,
    file_circles,
    long_files,
    long_functions,
    nodes_of,
    python_files,
    repeated_classes,
    unknown_imports,
)

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
MAX_FILE_LINES, LONG_FILE_LINES, MOST_LONG_FILES = 700, 450, 40  # a tenth of the files
MAX_FUNCTION_LINES = 60
SCRIPTS = ("benchmarks", "recipes", "examples", "docs")
# Python files lying in one folder, by its top folder.
MAX_FILES = {**dict.fromkeys((*ROOMS, PACKAGE, "benchmarks", "examples"), 18), "tests": 45}
# Files that may be longer, with functions that may be: classes of one API.
TABLES = {
    "envs/tools/bfcl/gorilla_file_system.py",
    "envs/tools/bfcl/math_api.py",
    "envs/tools/bfcl/travel_booking.py",
}


def top_floor() -> list[Path]:
    rooms = {ROOT / "fctncalling" / room for room in FLOORS}
    files = [
        file for file in python_files(ROOT / "fctncalling") if not rooms.intersection(file.parents)
    ]
    return [*files, *sorted(ROOT.glob("*_fctncalling.py")), ROOT / "setup.py"]


def product_files() -> list[Path]:
    return [*(file for room in FLOORS for file in python_files(ROOT / room)), *top_floor()]


def imported(file: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, dotted name) of every import, those inside functions too; a relative one as
    `.name`.
    """
    for node in nodes_of(file):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            names = [alias.name for alias in node.names] if module == "fctncalling" else [""]
            yield from ((node.lineno, f"{module}.{name}".rstrip(".")) for name in names)


def import_faults(file: Path, allowed: set[str], forbidden: set[str]) -> Iterator[str]:
    for line, name in imported(file):
        where, (first, *rest) = f"{file.name}:{line} imports {name!r}", name.split(".")
        if first in FLOORS:
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


def test_the_core_never_imports_the_laboratory() -> None:
    laboratory = ROOT / "fctncalling" / "lab"
    names = ROOT / "fctncalling" / "__init__.py"  # public names, imported when first used
    core = [file for file in product_files() if laboratory not in file.parents and file != names]
    assert len(core) > 250
    faults = [
        f"{file.relative_to(ROOT)}:{line} imports {name}"
        for file in core
        for line, name in imported(file)
        if f"{name}.".startswith("fctncalling.lab.")
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
        "from fctncalling import cli\n"
        "from fctncalling.lab.text_environment.text_environment import TextEnvironment\n"
        "def late():\n    import torch.nn\n    from fctncalling.algorithms import batch\n"
    )
    lines = [
        int(fault.split(":")[1].split()[0])
        for fault in import_faults(file, FLOORS["envs"], FORBIDDEN["envs"])
    ]
    assert sorted(lines) == [2, 3, 4, 5, 7, 8]


def allowed_length(place: str) -> bool:
    return place.split(":")[0] in TABLES


def test_no_file_and_no_function_is_longer_than_its_cap() -> None:
    long = {**long_files(ROOT, MAX_FILE_LINES), **long_functions(ROOT, MAX_FUNCTION_LINES)}
    assert {place: lines for place, lines in long.items() if not allowed_length(place)} == {}
    assert len(long_files(ROOT, LONG_FILE_LINES)) <= MOST_LONG_FILES


def test_no_folder_holds_more_files_than_a_reader_can_survey() -> None:
    assert crowded_folders(ROOT, MAX_FILES) == {}


def test_no_two_classes_share_a_name() -> None:
    assert repeated_classes(ROOT) == {}


def test_files_and_boxes_import_each_other_in_no_circle() -> None:
    assert file_circles(ROOT) == []
    circles = box_circles(ROOT)
    assert circles == {}


def test_scripts_import_what_there_is() -> None:
    assert unknown_imports(ROOT, SCRIPTS) == []


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("import fctncalling.data.gone", ["fctncalling.data.gone"]),
        ("from fctncalling.data.gone import a", ["fctncalling.data.gone.a"]),
        (
            "def f():\n    from fctncalling.data.types import TASK, Gone",
            ["fctncalling.data.types.Gone"],
        ),
        ("from fctncalling.envs import state, gone", ["fctncalling.envs.gone"]),
        ("from own import main, gone", ["own.gone"]),
        ("from torch import gone", []),
    ],
)
def test_the_script_rule_sees_what_is_gone(tree: Path, text: str, missing: list[str]) -> None:
    write(tree / "data/types.py", "if __doc__:\n    TASK = 1\nprint(Gone)\n")
    write(tree / "tests/own.py", "def main():\n    pass\n")
    write(tree / "tests/script.py", text)
    found = unknown_imports(tree, ("tests",))
    assert [line.split(": ")[1] for line in found] == missing


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a small tree that breaks no rule."""
    for folder in ("data", "checkers", "envs/tools", "algorithms", "fctncalling", "tests"):
        (tmp_path / folder).mkdir(parents=True)
    write(tmp_path / "data/types.py", "class Task:\n    pass\n")
    write(tmp_path / "envs/state.py", "from fctncalling.data.types import Task\n")
    write(tmp_path / "envs/__init__.py", "from fctncalling.envs.state import Task\n")
    write(tmp_path / "envs/tools/clock.py", "import time\n")
    return tmp_path


def write(file: Path, text: str) -> None:
    file.write_text(text)


def test_a_tree_in_order_breaks_no_rule(tree: Path) -> None:
    assert long_files(tree, 2) == long_functions(tree, 1) == {}
    assert crowded_folders(tree, {"envs": 1, "data": 1}) == {}
    assert repeated_classes(tree) == box_circles(tree) == {}
    assert file_circles(tree) == []


def test_the_length_rules_see_a_long_file_and_function(tree: Path) -> None:
    write(tree / "data/bfcl.py", "async def load():\n    x = 1\n    return x\n")
    assert long_files(tree, 2) == {"data/bfcl.py": 3}
    assert long_functions(tree, 2) == {"data/bfcl.py:load": 3}


def test_the_folder_rule_counts_all_files_but_the_face(tree: Path) -> None:
    write(tree / "envs/spaces.py", "")
    assert crowded_folders(tree, {"envs": 1}) == {"envs": 2}
    assert crowded_folders(tree, {"envs": 2}) == {}


def test_the_name_rule_sees_two_classes_of_one_name(tree: Path) -> None:
    write(tree / "envs/tools/clock.py", "def f():\n    class Task:\n        pass\n")
    assert repeated_classes(tree) == {"Task": ["data/types.py", "envs/tools/clock.py"]}


@pytest.mark.parametrize(
    ("late", "circles"),
    [
        ("from fctncalling.envs.state import x", 1),
        ("import fctncalling.envs.state", 1),
        ("from fctncalling.envs import state", 1),
        ("try:\n    from fctncalling.envs.state import x\nexcept ImportError:\n    pass", 1),
        ("if TYPE_CHECKING:\n    from fctncalling.envs.state import x", 1),
        ("def f():\n    from fctncalling.envs.state import x", 1),
        ("from fctncalling.envs import Task", 0),
    ],
)
def test_the_circle_rule_sees_files_that_import_each_other(
    tree: Path, late: str, circles: int
) -> None:
    write(tree / "envs/state.py", "from fctncalling.envs.spaces import y\n")
    write(tree / "envs/spaces.py", late)
    expected = [["fctncalling.envs.spaces", "fctncalling.envs.state"]] * circles
    assert file_circles(tree) == expected
    assert box_circles(tree) == ({"fctncalling.envs": [["spaces", "state"]]} if circles else {})


def test_the_circle_rule_sees_boxes_whose_files_are_in_no_circle(tree: Path) -> None:
    write(tree / "envs/state.py", "from fctncalling.envs.tools.clock import x\n")
    write(tree / "envs/tools/watch.py", "from fctncalling.envs.state import x\n")
    assert file_circles(tree) == []
    assert box_circles(tree) == {"fctncalling.envs": [["state", "tools"]]}
