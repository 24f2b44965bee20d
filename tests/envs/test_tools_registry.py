"""The registry finds every tool lazily, and the long-context tables where they were imported to."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fctncalling.data
from fctncalling.envs.tools import AGENTIC_TOOLS, TOOL_CLASSES, load_bfcl_table, tool_class
from fctncalling.envs.tools.bfcl.long_context import (
    LongContextError,
    long_context_path,
    long_context_table,
)


@pytest.fixture(autouse=True)
def nothing_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Point the package at an empty data folder and clear both variables, whatever this machine
    has.
    """
    monkeypatch.setattr(fctncalling.data, "__file__", str(tmp_path / "package" / "__init__.py"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.delenv("FCTNCALLING_LONG_CONTEXT", raising=False)
    monkeypatch.delenv("FCTNCALLING_SHARED", raising=False)


def write_tables(path: Path, **tables: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(tables), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", TOOL_CLASSES)
def test_tool_has_its_name_no_argument_and_private_parts_only_beside_its_methods(name: str) -> None:
    tool = tool_class(name)
    assert tool.__qualname__ == name  # it shows in the interpreter's texts about wrong arguments
    assert hasattr(tool(), "_load_scenario")
    public = {member for member in dir(tool) if not member.startswith("_")}
    assert public == {
        member for member, _ in inspect.getmembers(tool, inspect.isfunction) if member[0] != "_"
    }
    for member in public:
        assert getattr(tool, member).__qualname__ == f"{name}.{member}"


def test_no_method_name_occurs_in_two_multi_turn_tools() -> None:
    tools = [tool for tool in TOOL_CLASSES if tool not in AGENTIC_TOOLS]
    names = [name for tool in tools for name in dir(tool_class(tool)) if not name.startswith("_")]
    assert len(names) == len(set(names)) == 128


def test_unknown_tool_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(LookupError, match="WeatherAPI") as raised:
        tool_class("WeatherAPI", extra={"MyTool": dict})
    assert all(known in str(raised.value) for known in [*TOOL_CLASSES, "MyTool"])


def test_own_tools_come_as_classes_or_by_name_and_go_first() -> None:
    assert tool_class("MyTool", extra={"MyTool": dict}) is dict
    assert tool_class("MathAPI", extra={"MathAPI": "builtins:list"}) is list
    with pytest.raises(TypeError, match="expected a class"):
        tool_class("MyTool", extra={"MyTool": "math:pi"})


def test_importing_the_registry_imports_no_tool() -> None:
    code = (
        "import sys, fctncalling.envs.tools; print([m for m in sys.modules if "
        "m.endswith('_api') or m == 'mpmath'])"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert printed.strip() == "[]"


def test_table_changed_by_one_caller_is_whole_for_the_next() -> None:
    load_bfcl_table("math_api")["to_meters"].clear()
    assert load_bfcl_table("math_api")["to_meters"]["km"] == 1000


@pytest.mark.parametrize(
    ("noun", "name"),
    [
        ("gorilla_file_system", "GorillaFileSystem"),
        ("math_api", "MathAPI"),
        ("message_api", "MessageAPI"),
        ("posting_api", "TwitterAPI"),
    ],
)
def test_tables_hold_official_figures_of_the_same_types(noun: str, name: str, shared: Path) -> None:
    official = json.loads((shared / "bfcl" / "api_tables.json").read_text("utf-8"))[name]
    for key, value in load_bfcl_table(noun).items():
        assert repr(value) == repr(official[key])


def test_absent_tables_are_an_error_that_names_the_cure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(LongContextError, match=r"import-bfcl.*FCTNCALLING_LONG_CONTEXT"):
        long_context_table("MA_5_EXTENSION")
    monkeypatch.setenv("FCTNCALLING_LONG_CONTEXT", str(tmp_path / "gone.json"))
    with pytest.raises(LongContextError, match=r"set to .*gone\.json"):
        long_context_path()


def test_absent_table_is_an_error_that_names_the_present_ones(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(
        "FCTNCALLING_LONG_CONTEXT", str(write_tables(tmp_path / "a.json", FIRST=1, SECOND=2))
    )
    with pytest.raises(
        LongContextError, match=r'no long-context table "THIRD" \(has FIRST, SECOND\)'
    ):
        long_context_table("THIRD")


def test_variable_goes_before_imported_data_and_these_before_shared_data(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_tables(tmp_path / "shared" / "bfcl" / "data" / "long_context.json", WHERE="shared")
    monkeypatch.setenv("FCTNCALLING_SHARED", str(tmp_path / "shared"))
    assert long_context_table("WHERE") == "shared"
    write_tables(tmp_path / "package" / "bfcl" / "long_context.json", WHERE="imported")
    assert long_context_table("WHERE") == "imported"
    write_tables(tmp_path / "folder" / "long_context.json", WHERE="variable")
    monkeypatch.setenv("FCTNCALLING_LONG_CONTEXT", str(tmp_path / "folder"))
    assert long_context_table("WHERE") == "variable"


def test_tables_are_private_copies_and_an_ellipsis_is_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = write_tables(tmp_path / "a.json", LIST=[{"a": [1]}, {"__ellipsis__": True}])
    monkeypatch.setenv("FCTNCALLING_LONG_CONTEXT", str(path))
    first = long_context_table("LIST")
    assert first == [{"a": [1]}, ...]
    first[0]["a"].append(2)
    assert long_context_table("LIST") == [{"a": [1]}, ...]
