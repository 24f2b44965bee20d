"""Folders of tasks for Harbor, without Harbor: what the agent's container holds and what judges."""

from __future__ import annotations

import dataclasses
import json
import shlex
from pathlib import Path

import pytest
from chat_messages import FIRST
from integration_answers import answers, chat_messages, valid

from fctncalling.lab.integrations import harbor


def messages_of(home: Path) -> list[str]:
    """Return what the solution of a task says."""
    command = (home / "solution/solve.sh").read_text().splitlines()[1]
    return shlex.split(command.removeprefix("episode "))


@pytest.fixture
def container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in an empty folder, as the agent stands in its container's root."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def judged(home: Path, said: list[str], container: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the reward of a conversation in the container of a task, word for word."""
    (container / harbor.RECORD).unlink(missing_ok=True)
    (container / "task.json").write_bytes((home / "environment/task.json").read_bytes())
    for text in said:
        assert harbor.main([text]) in (0, 2)  # 2: the task has ended before
    capsys.readouterr()
    assert harbor.main(["--judge", str(home / "tests/task.json")]) == 0
    return capsys.readouterr().out.strip()


def test_a_folder_gives_the_verdicts_of_judge(
    container: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Right, wrong and malformed answers of 8 categories, a command a message."""
    some = answers()[::8]
    homes = harbor.write_tasks([answer.task for answer in some], container / "tasks")
    assert len({answer.task.category for answer in some}) == 8
    for answer, home in zip(some, homes, strict=True):
        said = [each["content"] for each in chat_messages(answer, "prompting")]
        expected = str(int(valid(answer, "prompting")))
        assert judged(home, said, container, capsys) == expected, answer.task.id
        assert judged(home, messages_of(home), container, capsys) == "1"


def test_what_the_agent_is_given_is_the_task_without_its_truth(container: Path) -> None:
    for task, home in zip(FIRST, harbor.write_tasks(FIRST, container / "tasks"), strict=True):
        whole = harbor.read_task(home / "tests/task.json")
        assert json.dumps(dataclasses.asdict(whole)) == json.dumps(dataclasses.asdict(task))
        given = harbor.read_task(home / "environment/task.json")
        assert not any(given.ground_truth or ())
        assert given.extra == {}
        assert given.functions == list(task.functions)


def test_a_command_may_say_several_messages_and_none_after_the_end(
    container: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = next(task for task in FIRST if task.is_multi_turn)
    [home] = harbor.write_tasks([task], container / "tasks")
    (container / "task.json").write_bytes((home / "environment/task.json").read_bytes())
    assert harbor.main([]) == 0
    assert task.question[0][0]["content"] in capsys.readouterr().out
    assert harbor.main(messages_of(home)) == 0
    assert capsys.readouterr().out.endswith(f"{harbor.ENDED}\n")
    assert harbor.main(["One more."]) == 2
    assert "error: The task has ended." in capsys.readouterr().err


def test_tasks_with_tools_or_users_of_their_own_are_refused(container: Path) -> None:
    task = dataclasses.replace(FIRST[0], tool_paths={"Lamps": "my_tools:Lamps"})
    with pytest.raises(ValueError, match="its tools or user are not in the image"):
        harbor.write_tasks([task], container)
