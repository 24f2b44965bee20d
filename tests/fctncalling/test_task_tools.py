"""Tasks with stateful classes of a user's own: named by path or given by name, documented from
their signatures.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from players import DONE, Replay

from fctncalling.cli.command import main
from fctncalling.data.bfcl import TaskError, load_tasks
from fctncalling.envs.function_calling import FunctionCallingEnv

MODULE = '''
from pathlib import Path

Path(__file__).with_name("imported").touch()


class Notes:
    """A pile of notes."""

    def _load_scenario(self, scenario, long_context=False):
        self.notes = list(scenario.get("notes", []))

    def note(self, text: str, times: int = 1) -> int:
        """Put a note on the pile.

        Args:
            text: What it says.
            times: How often.
        """
        self.notes += [text] * times
        return len(self.notes)

    def read_notes(self) -> list[str]:
        """Return all notes."""
        return self.notes

    @property
    def broken(self) -> int:
        raise AssertionError("no function, hence never looked at")


class Talk:
    def say(self, *words: str) -> None:
        """Say something."""


nothing = 3
'''


def entry(number: int = 0, **fields: Any) -> dict[str, Any]:
    return {
        "id": f"multi_turn_base_{number}",
        "question": [
            [{"role": "user", "content": "Note milk."}],
            [{"role": "user", "content": "Twice more."}],
        ],
        "involved_classes": ["own_notes.Notes"],
        "initial_config": {"Notes": {"notes": ["bread"]}},
        "ground_truth": [["note(text='milk')"], ["note(text='milk', times=2)"]],
        **fields,
    }


PERFECT = ["[note(text='milk')]", DONE, "[note(times=2, text='milk')]", DONE]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "own_notes.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("own_notes", None)


def write(folder: Path, *entries: dict[str, Any]) -> Path:
    path = folder / "my_tasks.json"
    path.write_text(json.dumps(list(entries)))
    return path


@pytest.mark.parametrize("path", ["own_notes.Notes", "own_notes:Notes"])
@pytest.mark.parametrize("scenario", ["path", "name"])
def test_a_class_named_by_its_path_is_played_and_documented(
    folder: Path, path: str, scenario: str
) -> None:
    config = {path if scenario == "path" else "Notes": {"notes": ["bread"]}}
    tasks = write(folder, entry(involved_classes=[path], initial_config=config))
    env = FunctionCallingEnv(dataset_path=tasks, allow_task_tools=True)
    _, info = env.reset(seed=0)
    schemas = {tool["function"]["name"]: tool["function"] for tool in info["tools"]}
    assert sorted(schemas) == ["note", "read_notes"]
    assert schemas["note"]["parameters"]["required"] == ["text"]
    assert schemas["note"]["parameters"]["properties"]["times"] == {
        "type": "integer",
        "description": "How often.",
        "default": 1,
    }
    played = Replay(env, PERFECT)
    assert played.valid
    assert "2" in played.steps[0][0]  # the scenario's note and the new one
    assert not Replay(env, [*PERFECT[:2], DONE]).valid
    assert Replay(env, PERFECT).valid


def test_nothing_is_imported_unless_it_is_asked_for(folder: Path) -> None:
    path = write(folder, entry(1), entry(2))
    assert dict(load_tasks(path)[0].tool_paths) == {"Notes": "own_notes:Notes"}
    with pytest.raises(TaskError) as refused:
        FunctionCallingEnv(dataset_path=path)
    for named in (
        str(path),
        '"multi_turn_base_1"',
        "involved_classes",
        "own_notes:Notes",
        "--allow_task_tools",
        "tools=",
    ):
        assert named in str(refused.value)
    assert "own_notes" not in sys.modules
    assert not (folder / "imported").exists()
    FunctionCallingEnv(dataset_path=path, allow_task_tools=True)
    assert (folder / "imported").exists()


def test_a_class_that_is_given_goes_before_the_path_and_needs_no_leave(folder: Path) -> None:
    class Notes:
        """Another pile."""

        def note(self, text: str, times: int = 1) -> str:
            """Note nothing."""
            return "ignored"

    for tools in ({"Notes": Notes}, [Notes]):
        env = FunctionCallingEnv(dataset_path=write(folder, entry()), tools=tools)
        assert "ignored" in Replay(env, PERFECT[:1]).steps[0][0]
    assert not (folder / "imported").exists()


def test_a_class_given_by_name_is_documented_where_the_task_documents_none_of_it(
    folder: Path,
) -> None:
    from own_notes import Notes  # type: ignore[import-not-found]

    named = write(folder, entry(involved_classes=["Notes"]))
    _, info = FunctionCallingEnv(dataset_path=named, tools={"Notes": Notes}).reset(seed=0)
    assert [tool["function"]["name"] for tool in info["tools"]] == ["note", "read_notes"]
    doc = {
        "name": "note",
        "description": "Mine.",
        "parameters": {"type": "dict", "properties": {}, "required": []},
    }
    own_docs = write(folder, entry(involved_classes=["Notes"], function=[doc]))
    _, info = FunctionCallingEnv(dataset_path=own_docs, tools={"Notes": Notes}).reset(seed=0)
    assert [tool["function"]["description"].partition(".")[0] for tool in info["tools"]] == ["Mine"]


def test_functions_of_the_class_can_be_held_out_and_misspelt_ones_are_named(folder: Path) -> None:
    held_out = write(folder, entry(missed_function={"1": ["note"]}))
    env = FunctionCallingEnv(dataset_path=held_out, allow_task_tools=True)
    _, info = env.reset(seed=0)
    assert [tool["function"]["name"] for tool in info["tools"]] == ["read_notes"]
    assert [tool["function"]["name"] for tool in env.step(DONE)[4]["tools"]] == [
        "note",
        "read_notes",
    ]
    env = FunctionCallingEnv(
        dataset_path=write(folder, entry(missed_function={"1": ["nota"]})), allow_task_tools=True
    )
    with pytest.raises(
        TaskError, match=r'multi_turn_base_0.*missed_function\["1"\].*"nota".*note, read_notes'
    ):
        env.reset(seed=0)


@pytest.mark.parametrize(
    ("classes", "told"),
    [
        (["own_notes.Nothing"], "cannot be imported: own_notes has no Nothing; is nothing meant"),
        (
            ["no_such_module.Notes"],
            "imported: there is no module no_such_module.*PYTHONPATH",
        ),
        (["own_notes.nothing"], "is 3: expected a class"),
        (["own notes.Notes"], 'expected a class\'s name or "module.Class"'),
        ([".Notes"], 'expected a class\'s name or "module.Class"'),
        (["own_notes.Notes", "other.Notes"], 'expected one class called "Notes"'),
    ],
)
def test_a_path_that_leads_nowhere_is_named_with_file_id_and_field(
    folder: Path, classes: list[str], told: str
) -> None:
    path = write(folder, entry(involved_classes=classes, initial_config={}))
    with pytest.raises(
        TaskError, match=rf'{path}.*\(id "multi_turn_base_0"\): involved_classes: .*{told}'
    ):
        FunctionCallingEnv(dataset_path=path, allow_task_tools=True)


def test_one_name_means_one_class_in_all_tasks(folder: Path) -> None:
    (folder / "others.py").write_text("class Notes: pass")
    path = write(folder, entry(0), entry(1, involved_classes=["others.Notes"]))
    with pytest.raises(
        TaskError, match=r'multi_turn_base_1.*"others:Notes".*second class.*"own_notes:Notes"'
    ):
        FunctionCallingEnv(dataset_path=path, allow_task_tools=True)


def test_a_method_that_cannot_be_described_is_named(folder: Path) -> None:
    path = write(folder, entry(involved_classes=["own_notes.Talk"], initial_config={}))
    with pytest.raises(TypeError, match=r"class Talk: tool say: \*words cannot be described"):
        FunctionCallingEnv(dataset_path=path, allow_task_tools=True).reset(seed=0)


def test_commands_that_read_answers_name_the_file_whose_class_they_may_not_import(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    write(folder, entry())
    leave = "--allow_task_tools"
    played = ["run", "--agent", "oracle", "--dataset_path", "my_tasks.json"]
    assert main([*played, "--output", "played.jsonl", leave]) == 0
    told = 'my_tasks.json (id "multi_turn_base_0"): involved_classes: "own_notes:Notes" names'
    capsys.readouterr()
    assert main(["verdicts", "--input", "played.jsonl", "--output", "judged.jsonl"]) == 2
    assert capsys.readouterr().err.startswith(f"error: {told}")
    assert main(["view", "played.jsonl"]) == 0
    note = f"note: the state of the tools is not shown: {told}"
    assert capsys.readouterr().err.startswith(note)
    assert main(["view", "played.jsonl", leave]) == 0
    assert capsys.readouterr().err == ""
