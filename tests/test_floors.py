"""Architecture tests: imports, circles, names, sizes of files and folders, no eval."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from house_rules import (
    PACKAGE,
    ROOMS,
    box_circles,
    clause_openings,
    crowded_folders,
    file_circles,
    joint_assignments,
    large_faces,
    long_files,
    long_functions,
    long_lines,
    nodes_of,
    overlong_summaries,
    python_files,
    repeated_classes,
    unknown_imports,
    unknown_names_in_docstrings,
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
MAX_COLUMNS = 100
MAX_OVERLONG_SUMMARIES = 10
# Names in backticks of others' libraries, and of examples.
EXAMPLE_NAMES = {
    *("agent_ref", "log_completions", "book_details", "Travel_2_FindHotels"),
    *("java_0", "simple_java_0", "simple_python_17"),
}
SCRIPTS = ("benchmarks", "recipes", "examples", "docs")
FACE = {"lines": 15, "names": 5}
# Python files lying in one folder, by its top folder.
MAX_FILES = {**dict.fromkeys((*ROOMS, PACKAGE, "benchmarks", "examples"), 18), "tests": 45}
# Files that may be longer, with functions that may be: classes of one API.
TABLES = {
    "envs/tools/bfcl/gorilla_file_system.py",
    "envs/tools/bfcl/math_api.py",
    "envs/tools/bfcl/travel_booking.py",
}
# Faces that are more than a face: the package's public names and three registries.
LARGE_FACES = {
    "checkers/__init__.py",
    "envs/__init__.py",
    "envs/handlers/__init__.py",
    "envs/tools/__init__.py",
    "envs/tools/python_executor/__init__.py",
    "fctncalling/__init__.py",
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


NAMES_THE_LABORATORY = {
    "envs/tools/__init__.py": "the class of an MCP server's tools, where mcp: is asked for",
    "envs/tools/box/tool_server.py": "the client of an MCP server, where mcp: is asked for",
    "setup.py": "what the wheel leaves out of it, and its data",
    "fctncalling/laboratory.py": "the folder whose commands register themselves",
}
"""File of the core that names the laboratory in a text, which no import shows -> for what."""


def test_the_core_names_the_laboratory_in_these_files_alone() -> None:
    laboratory = ROOT / "fctncalling" / "lab"
    core = [file for file in product_files() if laboratory not in file.parents]
    found = {
        str(file.relative_to(ROOT))
        for file in core
        if file != ROOT / "fctncalling" / "__init__.py"
        and any(
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and re.match(r"fctncalling\.lab(\.|$)", node.value)
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        )
    }
    assert found == set(NAMES_THE_LABORATORY)


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
        "from fctncalling.lab.text_environment.text_environment import TextEnvironment\n"
        "def late():\n    import torch.nn\n    from fctncalling.algorithms import batch\n"
    )
    lines = [
        int(fault.split(":")[1].split()[0])
        for fault in import_faults(file, FLOORS["envs"], FORBIDDEN["envs"])
    ]
    assert sorted(lines) == [2, 3, 4, 5, 6, 7, 9, 10]


def allowed_length(place: str) -> bool:
    return place.split(":")[0] in TABLES


def test_no_file_and_no_function_is_longer_than_its_cap() -> None:
    long = {**long_files(ROOT, MAX_FILE_LINES), **long_functions(ROOT, MAX_FUNCTION_LINES)}
    assert {place: lines for place, lines in long.items() if not allowed_length(place)} == {}
    assert len(long_files(ROOT, LONG_FILE_LINES)) <= MOST_LONG_FILES


def test_a_docstring_begins_with_one_line() -> None:
    assert len(overlong_summaries(ROOT)) <= MAX_OVERLONG_SUMMARIES


def test_a_class_or_module_is_named_by_a_noun_phrase() -> None:
    assert clause_openings(ROOT) == []


def test_a_name_in_backticks_stands_in_the_sources() -> None:
    assert unknown_names_in_docstrings(ROOT) - EXAMPLE_NAMES == set()


def test_the_docstring_rules_see_a_clause_and_a_name_that_is_gone(tree: Path) -> None:
    text = '"""What it is."""\n\n\nclass A:\n    """See `left_over()`, `is_here`."""\n'
    write(tree / "data/paths.py", text + "\n\nis_here = 1\n")
    assert clause_openings(tree) == ["data/paths.py:1"]
    assert unknown_names_in_docstrings(tree) == {"left_over"}


def test_the_docstring_rule_sees_a_second_line(tree: Path) -> None:
    write(
        tree / "envs/spaces.py", '"""Spaces.\n\nMore."""\n\n\ndef f():\n    """One\n    two."""\n'
    )
    assert overlong_summaries(tree) == ["envs/spaces.py:7"]


def test_no_line_is_wider_than_its_cap() -> None:
    assert long_lines(ROOT, tuple(MAX_FILES), MAX_COLUMNS) == []


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


def test_a_statement_assigns_one_attribute() -> None:
    assert joint_assignments(ROOT) == []


def test_faces_show_a_few_names_and_do_nothing_else() -> None:
    assert set(large_faces(ROOT, **FACE)) - LARGE_FACES == set()


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
    assert long_lines(tree, ("data", "envs"), 40) == joint_assignments(tree) == []
    assert file_circles(tree) == large_faces(tree, 15, 5) == []


def test_the_length_rules_see_a_long_file_function_and_line(tree: Path) -> None:
    write(tree / "data/bfcl.py", "async def load():\n    x = 1\n    return x\n")
    assert long_files(tree, 2) == {"data/bfcl.py": 3}
    assert long_functions(tree, 2) == {"data/bfcl.py:load": 3}
    assert long_lines(tree, ("data",), 16) == ["data/bfcl.py:1"]


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


def test_the_assignment_rule_sees_tuples_of_attributes(tree: Path) -> None:
    write(tree / "data/types.py", "self.a, b = 1, 2\nself.a, self.b = 1, 2\na = self.b = 1\n")
    assert joint_assignments(tree) == ["data/types.py:2"]
    write(tree / "data/paths.py", "self.a = self.b = 1\n")
    assert joint_assignments(tree) == ["data/paths.py:1", "data/types.py:2"]


def test_the_face_rule_sees_many_lines_and_many_names(tree: Path) -> None:
    write(tree / "data/__init__.py", "\n" * 16)
    write(tree / "envs/__init__.py", '__all__ = ["a", "b", "c", "d", "e", "f"]\n')
    assert large_faces(tree, 15, 5) == ["data/__init__.py", "envs/__init__.py"]


def test_nothing_is_evaluated_outside_the_confined_executor() -> None:
    executor = ROOT / "envs" / "tools" / "python_executor"
    calls = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in product_files()
        if executor not in file.parents
        for node in nodes_of(file)
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
