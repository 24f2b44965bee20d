"""Importing official data copies what the hashes vouch for, reads tables without running them, and
says where.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sysconfig
import zipfile
from pathlib import Path

import pytest

from evaluate_fctncalling import main
from fctncalling.data import paths
from fctncalling.data.bfcl import TaskError, load_tasks
from fctncalling.lab import import_bfcl
from fctncalling.lab.import_bfcl import module_constants_json
from fctncalling.model_folder import ImportFailure

MODULE = b'WORDS = ["a", "b"]\nORDER = {"x": ..., "y": (1, -2.5)}\n'
FILES = {
    "BFCL_v4_simple_python.json": (
        "bfcl_eval/data/BFCL_v4_simple_python.json",
        b'{"id": "simple_python_0"}\n',
    ),
    "possible_answer/BFCL_v4_a.json": ("bfcl_eval/data/possible_answer/BFCL_v4_a.json", b"{}\n"),
    "long_context.json": ("bfcl_eval/source/long_context.py", MODULE),
}


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a small wheel that the recorded hashes fit."""
    path = tmp_path / "bfcl_eval-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for source, content in FILES.values():
            archive.writestr(source, content)
    files = {
        name: {"source": source, "sha256": hashlib.sha256(content).hexdigest()}
        for name, (source, content) in FILES.items()
    }
    manifest = tmp_path / "manifest.json"
    manifest.write_text(
        json.dumps(
            {
                "package": "p",
                "version": "1",
                "license": "L",
                "authors": "A",
                "wheel_sha256": "",
                "files": files,
            }
        )
    )
    monkeypatch.setattr(import_bfcl, "_MANIFEST", manifest)
    return path


def test_pip_is_asked_for_the_wheel_alone_and_builds_nothing(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = list[list[str]]()

    def pip(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 1, "", "ERROR: no matching distribution")

    monkeypatch.setattr(import_bfcl.subprocess, "run", pip)
    assert main(["import-bfcl", "--data_dir", str(tmp_path / "data")]) == 2
    assert "no matching distribution" in capsys.readouterr().err
    assert {"--only-binary=:all:", "--no-deps"} <= set(commands[0])


def run(source: Path, target: Path, *more: str) -> int:
    return main(["import-bfcl", "--source", str(source), "--data_dir", str(target), *more])


def test_a_wheel_and_its_unpacked_folder_give_the_same_files(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unpacked = tmp_path / "unpacked"
    zipfile.ZipFile(wheel).extractall(unpacked)
    for number, source in enumerate((wheel, unpacked, unpacked / "bfcl_eval")):
        target = tmp_path / f"data{number}"
        assert run(source, target) == 0
        printed = capsys.readouterr().out
        assert str(target) in printed
        assert "next: fctncalling doctor --model MODEL --dataset_path BFCL_v4_" in printed
        copied = [name for name in FILES if name != "long_context.json"]
        assert all((target / name).read_bytes() == FILES[name][1] for name in copied)
        tables = json.loads((target / "long_context.json").read_text())
        assert tables == {
            "WORDS": ["a", "b"],
            "ORDER": {"x": {"__ellipsis__": True}, "y": [1, -2.5]},
        }


def test_json_lists_every_file_with_its_size(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(wheel, tmp_path / "data", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert set(report["files"]) == set(FILES)
    assert report["changed"] == []


def test_a_folder_of_task_files_is_named_as_what_commands_take(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "BFCL_v4_simple_python.json").touch()
    assert run(tmp_path, tmp_path / "data") == 2
    assert f"--dataset_path {tmp_path}" in capsys.readouterr().err


def test_a_changed_file_stops_everything_unless_it_is_accepted(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unpacked, target = tmp_path / "unpacked", tmp_path / "data"
    zipfile.ZipFile(wheel).extractall(unpacked)
    (unpacked / FILES["possible_answer/BFCL_v4_a.json"][0]).write_text("{} \n")
    assert run(unpacked, target) == 2
    assert "possible_answer/BFCL_v4_a.json" in capsys.readouterr().err
    assert not target.exists()
    assert run(unpacked, target, "--accept_changed") == 0
    assert "not the recorded file" in capsys.readouterr().err


@pytest.mark.parametrize("source", ["none.whl", "text.whl", "empty"])
def test_a_source_that_is_none_is_told_by_its_name(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str
) -> None:
    (tmp_path / "text.whl").write_text("no archive")
    (tmp_path / "empty").mkdir()
    assert run(tmp_path / source, tmp_path / "data") == 2
    assert source in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_nothing_is_written_among_installed_packages(
    wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = Path(sysconfig.get_path("purelib")) / "some_data"
    assert run(wheel, target) == 2
    assert "--data_dir" in capsys.readouterr().err
    assert not target.exists()


@pytest.mark.parametrize(
    "module", ["X = open('f')", "X = [y for y in 'ab']", "X = __import__('os')", "X = (", ""]
)
def test_tables_that_are_no_literals_are_refused_and_never_run(module: str) -> None:
    with pytest.raises(ImportFailure, match=r"tables\.py"):
        module_constants_json(module.encode(), "tables.py")


def test_an_installed_package_keeps_data_in_the_users_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    assert paths.official_data_folder().parts[-2:] == ("data", "bfcl")
    monkeypatch.setattr(
        "fctncalling.data.__file__", str(tmp_path / "site" / "data" / "__init__.py")
    )
    assert paths.official_data_folder() == tmp_path / "share" / "fctncalling" / "bfcl"


def test_a_name_close_to_an_official_files_is_answered_by_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fctncalling.data.bfcl.official_data_folder", lambda: tmp_path)
    with pytest.raises(TaskError, match="get the official tasks by `fctncalling import-bfcl`"):
        load_tasks("BFCL_v4_multi_turn.json")
    for name in ("multi_turn_base", "simple_python"):
        (tmp_path / f"BFCL_v4_{name}.json").touch()
    with pytest.raises(TaskError, match=r"is BFCL_v4_multi_turn_base\.json meant\?$"):
        load_tasks("BFCL_v4_multi_turn.json")


def test_recorded_files_are_those_the_shared_data_has(shared: Path) -> None:
    recorded = import_bfcl.manifest()["files"]
    for name, entry in recorded.items():
        if name != import_bfcl.TABLES:
            content = (shared / "bfcl/data" / name).read_bytes()
            assert hashlib.sha256(content).hexdigest() == entry["sha256"], name
