"""The hold-out split: what is learned and what is held out never change places."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.data.bfcl import embedded_path
from fctncalling.training.demonstrations import load_demonstrations
from fctncalling.training.run_config import RunConfig
from fctncalling.training.task_setup import make_task_setup


def entry(task_id: str, words: str) -> dict[str, Any]:
    properties = {"a": {"type": "integer", "description": "A number."}}
    parameters = {"type": "dict", "properties": properties, "required": ["a"]}
    return {
        "id": task_id,
        "question": [[{"role": "user", "content": words}]],
        "function": [{"name": "f", "description": "Does f.", "parameters": parameters}],
        "ground_truth": [{"f": {"a": [1]}}],
    }


def written(path: Path, *entries: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(each) + "\n" for each in entries), encoding="utf-8")
    return str(path)


def test_tasks_of_two_files_with_one_id_are_not_played_in_each_others_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files of different origin number their tasks alike; the held-out one would be learned."""
    common = entry("simple_python_1", "In both files.")
    config = TrainConfig(
        dataset_path=written(tmp_path / "a.jsonl", entry("simple_python_0", "Learned."), common),
        eval_dataset_path=written(tmp_path / "b.jsonl", entry("simple_python_0", "Held."), common),
    )
    setup = make_task_setup(config, RunConfig())
    assert sorted(setup.held_out_ids) == ["held_out:simple_python_0", "simple_python_1"]
    assert [each.id for each in setup.candidates] == ["simple_python_0", "simple_python_1"]
    env = setup.make_env()
    for task_id, words in (("simple_python_0", "Learned."), ("held_out:simple_python_0", "Held.")):
        observation, info = env.reset(options={"task_id": task_id})
        assert words in observation
        assert info["category"] == "simple_python"
    assert "1 held-out tasks are training tasks too, such as simple_python_1" in str(
        capsys.readouterr()
    )


def test_demonstrated_tasks_that_are_held_out_are_counted_by_what_they_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = entry("simple_python_1", "Shown and held out.")
    shown = written(tmp_path / "shown.jsonl", entry("simple_python_0", "Shown."), common)
    config = TrainConfig(
        dataset_path=written(tmp_path / "a.jsonl", entry("simple_python_2", "Learned.")),
        eval_dataset_path=written(tmp_path / "b.jsonl", entry("simple_python_0", "Held."), common),
        sft_tasks=shown,
        max_episode_tokens=4096,
    )
    setup = make_task_setup(config, RunConfig())
    template = ChatTemplate(AutoTokenizer.from_pretrained(embedded_path("model")))
    load_demonstrations(config, RunConfig(), setup, template)
    text = str(capsys.readouterr())
    assert "1 held-out tasks are demonstrated too, such as simple_python_1" in text


def test_a_fifth_of_each_category_is_held_out_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = {"simple_python": 11, "parallel": 3, "multiple": 7, "parallel_multiple": 2}
    entries = [
        entry(f"{name}_{number}", f"The {number}th of {name}.")
        for name, count in numbers.items()
        for number in range(count)
    ]
    path = written(tmp_path / "own.jsonl", *entries)
    setup = make_task_setup(TrainConfig(dataset_path=path), RunConfig())
    held_out = Counter(task_id.rpartition("_")[0] for task_id in setup.held_out_ids)
    assert held_out == {"simple_python": 2, "parallel": 1, "multiple": 1}
    assert not {each.id for each in setup.candidates} & set(setup.held_out_ids)
    assert len(setup.candidates) + len(setup.held_out_ids) == 23
    told = "Held out 4 of 23 tasks: multiple 1, parallel 1, simple_python 2; none of parallel_mult"
    assert told in capsys.readouterr().out
    make_task_setup(TrainConfig(dataset_path=path, eval_episodes=2), RunConfig())
    assert "4 of 23 tasks (evaluations play 2 of them)" in capsys.readouterr().out


@pytest.mark.parametrize(("count", "held_out"), [(2, 1), (3, 1), (10, 2), (13, 3)])
def test_of_one_category_a_fifth_is_held_out(tmp_path: Path, count: int, held_out: int) -> None:
    entries = [entry(f"simple_python_{number}", f"The {number}th.") for number in range(count)]
    config = TrainConfig(dataset_path=written(tmp_path / "own.jsonl", *entries))
    assert len(make_task_setup(config, RunConfig()).held_out_ids) == held_out
