"""Page of a run: sound numbers pass every check, planted bugs are named, bad input is refused."""

from __future__ import annotations

import base64
import functools
import gzip
import itertools
import json
import os
import re
import shlex
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import planted_runs
import pytest
from sample_runs import (
    UPDATE,
    sample_contents,
    shifted_mask,
    tool_text_in_the_loss,
    write_sample_run,
)

from evaluate_fctncalling import main
from fctncalling import progress_bar
from fctncalling.algorithms.config.running_settings import ALGORITHM_NAMES
from fctncalling.data.bfcl import embedded_path, load_tasks
from fctncalling.data.token_file import TokenFile
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.evaluation.agents.agent import ScriptedPlayer
from fctncalling.evaluation.episode_log import episode_json, play_episode
from fctncalling.evaluation.scripted_policies import noop, oracle
from fctncalling.lab.text_environment import TextHistory
from fctncalling.lab.viewer import ViewError, judged_answers, load_run, page_data
from fctncalling.lab.viewer.compared_runs import settings_that_differ
from fctncalling.lab.viewer.headline import headline
from fctncalling.lab.viewer.run_files import LoadedRun


def data_of(run: Path, **options: Any) -> dict[str, Any]:
    return page_data(load_run(run), lambda record: (None, {}), **options)


def failing(data: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    return {each["check"]: each["findings"] for each in data["checks"] if each["findings"]}


def data_in(page: Path) -> dict[str, Any]:
    """Return the data inside a page, as its script reads it."""
    packed = re.search(r'<script id="data"[^>]*>([^<]*)<', page.read_text())
    assert packed
    found: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(packed[1])))
    return found


@pytest.mark.parametrize("algorithm", ALGORITHM_NAMES)
def test_the_own_algorithms_row_is_the_trainers_and_critics_are_missed(
    algorithm: str, tmp_path: Path
) -> None:
    contents = sample_contents(algorithm)
    data = data_of(write_sample_run(tmp_path / "run", contents))
    assert failing(data) == {}
    for index, episode in enumerate(data["episodes"][:3]):
        lanes = episode["lanes"]
        acted = contents.acted & (np.repeat(np.arange(4), np.diff(contents.row_offsets)) == index)
        np.testing.assert_allclose(
            lanes["credit"][algorithm], contents.raw_advantages[acted], atol=1e-5
        )
        without_critic = {name for name, row in lanes["credit"].items() if row is None}
        assert without_critic == (set(ALGORITHM_NAMES) - {"GRPO"} if algorithm == "GRPO" else set())


@pytest.mark.parametrize("algorithm", ALGORITHM_NAMES)
def test_the_other_rows_are_the_trainers_estimates_on_the_same_values(
    algorithm: str, tmp_path: Path
) -> None:
    shown = data_of(write_sample_run(tmp_path / "run", sample_contents("TPPO")))
    contents = sample_contents(algorithm)  # the same rewards and values, another estimate
    expected = contents.raw_advantages[contents.acted & np.isfinite(contents.raw_advantages)]
    found = [each["lanes"]["credit"][algorithm] for each in shown["episodes"][:3]]
    np.testing.assert_allclose(np.concatenate(found), expected, atol=1e-5)


PLANTED: dict[str, tuple[TokenFile, dict[str, Any], str, str]] = {
    "mask off by one": (shifted_mask(), {}, "mask", "is trained on, the answer is '[ls()]'"),
    "wrong gamma": (sample_contents(gamma=0.9), {}, "credit", "they agree with gamma 0.9"),
    "truncated as ended": (
        sample_contents(bootstrap=np.zeros(4)), {}, "truncation", "trained as if it had ended"
    ),
    "tool text in the loss": (tool_text_in_the_loss(), {}, "mask", "text of a tool is trained on"),
    "reward on the wrong turn": (sample_contents(rewards_at=5), {}, "rewards", "action 2"),
}  # fmt: skip


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_named_at_its_place(bug: str, tmp_path: Path) -> None:
    contents, config, check, message = PLANTED[bug]
    found = failing(data_of(write_sample_run(tmp_path / "run", contents, **config)))
    assert any(message in each["message"] for each in found[check]), found
    assert all(each["episode"].startswith(f"train_{UPDATE:06d}:") for each in found[check])


BUGS = {
    "mask_off_by_one": ("mask", "the answer is"),
    "wrong_gamma": ("credit", "they agree with gamma 0.5"),
    "truncated_as_whole": ("cut", "trained as whole ones"),
    "tool_text_in_loss": ("mask", "text of a tool is trained on"),
    "reward_on_wrong_turn": ("rewards", "reward 1 at a token of action 1"),
}


@pytest.mark.prove
def test_bugs_planted_in_the_trainer_are_named_and_nothing_else_is(tmp_path: Path) -> None:
    for bug in (None, *planted_runs.BUGS):
        run = planted_runs.planted_run(tmp_path / str(bug), bug)
        found = failing(data_of(run))
        found.pop("mismatch")  # its log-probabilities as sampled are made up
        assert set(found) == ({BUGS[bug][0]} if bug else set())
        if bug:
            assert any(BUGS[bug][1] in each["message"] for each in found[BUGS[bug][0]]), found


def test_the_command_writes_one_page_that_loads_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_sample_run(tmp_path / "run")
    assert main(["view", str(run), "--worst", "3"]) == 0
    page = run / "view.html"
    assert "3 episodes" in capsys.readouterr().out
    text = page.read_text()
    assert not re.findall(r"""(?:src|href)=["']?(?:https?:)?//|@import|fetch\(""", text)
    assert "<b>not</b>" not in text  # what a tool or checker wrote is data, never markup
    data = data_in(page)
    assert [each["invalid"] for each in data["episodes"]].count(True) == 1
    assert len(data["members"]) == 4
    assert [each["update"] for each in data["over_updates"]["toy_0"]] == [1, 3, 3]
    assert data["alarms"][0]["episodes"] == ["train_000003:2"]
    assert not list(run.glob(".*.html"))


def test_follow_makes_the_page_again_until_it_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_sample_run(tmp_path / "run")
    later = run / "episodes" / "train_000004.jsonl"
    updates = []

    def sleep(seconds: float) -> None:
        updates.append(data_in(run / "view.html")["update"])
        if len(updates) == 1:  # a token file without its episodes, half of them, all of them
            lines = (run / "episodes" / "train_000003.jsonl").read_text()
            later.write_text(lines[: len(lines) // 2])
            (run / "tokens" / "update_000003.npz").rename(run / "tokens" / "update_000004.npz")
        elif len(updates) == 2:
            later.write_text((run / "episodes" / "train_000003.jsonl").read_text())
        else:
            raise KeyboardInterrupt

    monkeypatch.setattr("fctncalling.lab.viewer.command.time.sleep", sleep)
    assert main(["view", str(run), "--follow"]) == 0
    assert updates == [3, 4, 4]
    assert len(data_in(run / "view.html")["episodes"]) == 4


def test_a_crashed_run_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_sample_run(tmp_path / "run")
    (run / "evaluation.json").unlink()
    episodes = run / "episodes" / "train_000003.jsonl"
    episodes.write_text(episodes.read_text()[:-30])
    token_file = run / "tokens" / "update_000003.npz"
    token_file.write_bytes(token_file.read_bytes()[:400])
    assert main(["view", str(run)]) == 0
    notes = capsys.readouterr().err
    assert "only half written" in notes
    assert "not a readable .npz file" in notes
    assert "ended before its last evaluation" in notes
    assert len(data_in(run / "view.html")["episodes"]) == 3


@pytest.mark.parametrize(
    ("path", "flags", "message"),
    [
        ("nothing", [], "there is no such file"),
        ("empty", [], "no episodes/*.jsonl in it"),
        ("run", ["--update", "2"], "there are: 1, 3"),
        ("run", ["--worst", "0"], "expected at least 1"),
        ("run", ["--dataset_path", "no/tasks.json"], "--dataset_path no/tasks.json: there is no"),
        ("words.jsonl", [], 'field "steps": expected a list of objects'),
        ("steps.jsonl", [], 'line 1 is left out: field "steps"'),
        ("broken.jsonl", [], "line 1 is left out: expected a JSON object"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_one_line(
    path: str, flags: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_sample_run(tmp_path / "run")
    (tmp_path / "empty").mkdir()
    (tmp_path / "words.jsonl").write_text('{"a": 1}\n')
    (tmp_path / "steps.jsonl").write_text('{"steps": [1]}\n{"steps": {}}\n')
    (tmp_path / "broken.jsonl").write_text('{"a"\n{"b": []}\n')
    output = tmp_path / "page.html"
    assert main(["view", str(tmp_path / path), "--output", str(output), *flags]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert message in error
    assert not output.exists()


def test_a_page_of_answers_and_of_text_histories(tmp_path: Path) -> None:
    answers = tmp_path / "answers.jsonl"
    steps = [{"turn": 0, "text": "[f()]", "executed": ["f()"], "results": ["1"], "reward": 0.0}]
    steps.append({"turn": 0, "text": "<think>\nhm\n</think>\n\n2"})
    line = {"id": "simple_1", "category": "simple_python", "steps": steps, "ground_truth": np.nan}
    answers.write_text(json.dumps(line))
    assert main(["view", str(answers)]) == 0
    assert data_in(tmp_path / "answers.html")["episodes"][0]["truth"] == "nan"
    (answer,) = data_of(answers)["episodes"]
    assert (answer["task"], answer["steps"][0]["results"]) == ("simple_1", ["1"])
    assert [step.get("thought") for step in answer["steps"]] == [None, "hm"]
    histories = tmp_path / "histories.jsonl"
    played = TextHistory("2+2?", [1, 2])
    played.append_segment("<call>", [3], system=False)
    played.append_segment("4", [4])
    played.reward = 1.0
    histories.write_text(json.dumps(played.to_dict()))
    data = data_of(histories)
    (history,) = data["episodes"]
    assert (history["success"], history["return"]) == (None, 1.0)  # paid, and judged by nobody
    assert (data["tally"]["text history"]["judged"], data["tally"]["text history"]["return"]) == (
        0,
        1,
    )
    assert history["steps"][0]["text"] == "<call>"
    assert history["steps"][0]["results"] == ["4"]


def test_the_worst_are_invalid_or_earned_least_and_then_the_most_surprising(tmp_path: Path) -> None:
    contents = sample_contents()
    second = slice(*contents.row_offsets[1:3])  # as low a return as the third, more surprising
    contents.rollout_logprobs[second][contents.acted[second]] -= 50.0
    data = data_of(write_sample_run(tmp_path / "run", contents), worst=2)
    assert [each["line"] for each in data["episodes"]] == [2, 4]


def test_a_reward_that_nobody_judged_is_no_success(tmp_path: Path) -> None:
    rewards = {None: 0.5, True: 1.0, False: 0.25}
    lines = [{"steps": [], "success": said, "return": paid} for said, paid in rewards.items()]
    path = tmp_path / "sessions.jsonl"
    path.write_text("\ufeff" + "".join(f"{json.dumps(each)}\n" for each in lines))  # with a mark
    data = data_of(path)
    assert [each["success"] for each in data["episodes"]] == [None, False, True]
    tally = data["tally"][""]
    assert (tally["judged"], tally["success"], tally["return"]) == (2, 1, 1.75)
    assert data["notes"] == []


def test_tasks_of_one_id_in_two_files_are_no_group(tmp_path: Path) -> None:
    files = ("held_out.jsonl", "test.jsonl", "held_out.jsonl")
    lines = [{"id": "multiple_0", "steps": [], "seed": 1, "dataset_path": each} for each in files]
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    groups = [each["group"] for each in data_of(path)["episodes"]]
    assert groups == [f"{file} multiple_0 seed 1" for file in files]


def test_files_of_two_runs_are_not_mixed(tmp_path: Path) -> None:
    run = write_sample_run(tmp_path / "run")
    path = run / "episodes" / "train_000003.jsonl"
    path.write_text(path.read_text().replace("toy_1", "toy_9"))
    with pytest.raises(ViewError, match="of different runs"):
        data_of(run)


def test_the_strict_rule_is_told_with_its_turn(tmp_path: Path) -> None:
    run = write_sample_run(tmp_path / "run")
    path = run / "episodes" / "train_000003.jsonl"
    first, *others = map(json.loads, path.read_text().splitlines())
    message = "step 1 (turn 1): 'c'"
    rule = {"strict_error_type": "strict:call_in_empty_turn", "strict_message": message}
    for fields, expected in (
        (  # on the page turns and steps are counted from 1
            {**rule, "strict_success": False},
            ("strict:call_in_empty_turn", "step 2 (turn 2): 'c'", 1),
        ),
        ({"strict_success": False}, (None, "", None)),  # a log of an older version
        ({"strict_success": True, "strict_error_type": None}, (None, "", None)),
    ):
        lines = [first | fields | {"return": 0.0}, *others]
        path.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
        data = data_of(run)
        shown = data["episodes"][0]
        names = ("strict_error_type", "strict_message", "strict_turn")
        assert tuple(shown[name] for name in names) == expected
        errors = data["tally"]["toy"]["errors"]
        assert errors.get("strict:call_in_empty_turn", 0) == int(expected[0] is not None)


def test_users_words_are_the_tasks_where_a_log_has_none(tmp_path: Path) -> None:
    """The oracle is what the environment says in each turn, held-out functions included."""
    tasks = load_tasks(embedded_path("held_out"))
    for category in ("multi_turn_base", "multi_turn_miss_func"):
        task = next(each for each in tasks if each.category == category)
        env = FunctionCallingEnv(tasks=[task])
        silent: Any = SimpleNamespace(answer=lambda *_: "Done.")
        played = play_episode(env, task.id, silent)
        line = {"id": task.id, "category": category, **episode_json(played)}
        (tmp_path / "answers.jsonl").write_text(json.dumps(line))
        run = load_run(tmp_path / "answers.jsonl")
        (shown,) = page_data(run, lambda record, task=task: (task, {}))["episodes"]
        said = [json.loads(json.dumps(each)) for each in played.messages[1:-1]]
        assert shown["opening"]
        assert shown["questions"][1:] == said
        assert len(said) == len(task.question) - 1 > 0


def test_pieces_that_a_tokenizer_marks_or_cuts_are_no_contradiction(tmp_path: Path) -> None:
    """An answer that begins within a word, and one with a character of two tokens; ids tell."""
    sound = sample_contents()
    places = np.flatnonzero(sound.acted[: sound.row_offsets[1]])[:2]
    for pieces, text in (
        (("b", "c"), "##bc"), (("[##Ã]", "[##©]"), "é"), (("b", "[<0xC3>]"), "b?"),
    ):  # fmt: skip
        contents = sample_contents()
        new = [len(contents.header["pieces"]) + number for number in range(2)]
        contents.header["pieces"] |= {
            str(key): piece for key, piece in zip(new, pieces, strict=True)
        }
        contents.ids[places] = new
        end = int(np.flatnonzero(contents.ends_action)[0])
        between = contents.ids[places[1] + 1 : end].tolist()
        spelled = "".join(contents.text_of_id[token] for token in between)
        run = write_sample_run(tmp_path / text[:2].strip("#?"), contents)
        path = run / "episodes" / "train_000003.jsonl"
        first, *others = map(json.loads, path.read_text().splitlines())
        row = contents.ids[: contents.row_offsets[1]].tolist()
        edges = np.flatnonzero(np.diff([0, *contents.acted[: len(row)].astype(int)]))
        runs = np.diff([0, *edges.tolist(), len(row)]).tolist()
        first["steps"][0]["text"] = text + spelled
        first["tokens"] = [{"shared": 0, "ids": row, "runs": runs}]
        path.write_text("".join(f"{json.dumps(each)}\n" for each in [first, *others]))
        assert "mask" not in failing(data_of(run))
        first["tokens"][0]["ids"][places[0]] += 1
        path.write_text("".join(f"{json.dumps(each)}\n" for each in [first, *others]))
        (fault,) = failing(data_of(run))["mask"]
        assert "token 1 is not the sampled one" in fault["message"]


def test_a_fresh_critic_may_say_zero_of_a_cut_episode(tmp_path: Path) -> None:
    contents = sample_contents(bootstrap=np.zeros(4))
    assert "truncation" in failing(data_of(write_sample_run(tmp_path / "trained", contents)))
    contents.values[np.isfinite(contents.values)] = 0.0
    assert "truncation" not in failing(data_of(write_sample_run(tmp_path / "fresh", contents)))


def test_the_command_that_the_page_prints_replays_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a task file and a class of a user's own, from another folder than where it was made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_tools.py").write_text(
        "class Lamp:\n    def __init__(self):\n        self.lit = False\n"
        '    def switch(self, on: bool):\n        """Switch the lamp."""\n'
        "        self.lit = on\n"
    )
    task = {
        "id": "multi_turn_base_1",
        "involved_classes": ["Lamp"],
        "initial_config": {},
        "question": [[{"role": "user", "content": "Light, please."}]],
        "ground_truth": [["switch(on=True)"]],
    }
    (tmp_path / "tasks.json").write_text(json.dumps([task]))
    flags = ["--dataset_path", "tasks.json", "--tools", "Lamp=my_tools:Lamp"]
    assert main(["run", "--agent", "oracle", "--output", "answers.jsonl", *flags]) == 0
    view = ["--data_dir", "tasks.json", "--tools", "Lamp=my_tools:Lamp"]
    assert main(["view", "answers.jsonl", *view]) == 0
    data = data_in(tmp_path / "answers.html")
    assert data["episodes"][0]["environment"]
    program, *arguments = shlex.split(data["replay"])
    assert (program, arguments[0]) == ("fctncalling", "replay")
    monkeypatch.chdir(tmp_path.parent)
    capsys.readouterr()
    assert main(arguments) == 0
    assert "1 episodes identical" in capsys.readouterr().out


@pytest.mark.parametrize("handler", ["auto", "hermes_calls"])
def test_the_next_command_of_a_runs_episode_file_judges_it_as_the_run_did(
    handler: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where calls are in the template's own form, and a function's name has a dot."""
    function = {"name": "lamp.switch", "description": "Switch.", "parameters": {"type": "dict"}}
    function["parameters"] |= {"properties": {"on": {"type": "boolean"}}, "required": ["on"]}
    own = {
        "id": "simple_python_7",
        "question": [[{"role": "user", "content": "Light, please."}]],
        "function": [function],
        "ground_truth": [{"lamp.switch": {"on": [True]}}],
    }
    held_out = embedded_path("held_out")
    entries = map(json.loads, held_out.read_text().splitlines())
    several = next(each for each in entries if each["id"].startswith("multi_turn_base"))
    [truth] = [each.ground_truth for each in load_tasks(held_out) if each.id == several["id"]]
    entries = [own, {**several, "ground_truth": truth}]
    (tmp_path / "tasks.json").write_text(json.dumps(entries))
    tasks = load_tasks(tmp_path / "tasks.json")
    run = tmp_path / "run/episodes"
    run.mkdir(parents=True)
    config = {"dataset_path": str(tmp_path / "tasks.json"), "handler": handler}
    (run.parent / "config.json").write_text(json.dumps(config))
    lines, won = [], []
    for policy, task in itertools.product((oracle, noop), tasks):
        env = FunctionCallingEnv(tasks=(task,), handler=handler)
        written = handler if handler != "auto" else ""
        played = play_episode(env, task.id, ScriptedPlayer(policy, task, written, "Done."), 0)
        assert played.episode.verdict
        won.append(played.episode.verdict.valid)
        line = {"task_id": task.id, "category": task.category, **episode_json(played)}
        lines.append({**line, "success": won[-1]})
    assert won == [True, True, False, False]
    (run / "greedy_000000.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    assert main(["view", str(run / "greedy_000000.jsonl")]) == 0
    *_, following = capsys.readouterr().out.splitlines()
    program, *arguments = shlex.split(following.removeprefix("next: "))
    assert (program, arguments[0]) == ("fctncalling", "why")
    assert main([*arguments, "--json"]) == 0
    [report] = json.loads(capsys.readouterr().out)["models"].values()
    assert {name: (each["answers"], each["failed"]) for name, each in report.items()} == {
        "simple_python": (2, 1),
        "multi_turn_base": (2, 1),
    }
    (run / "greedy_000000.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in lines[:2]))
    assert main(["score", "--input", str(run / "greedy_000000.jsonl"), "--json"]) == 0
    [scored] = json.loads(capsys.readouterr().out).values()
    assert [each["accuracy"] for each in scored["categories"].values()] == [1.0, 1.0]


def test_a_supervised_runs_page_opens_on_the_greedy_answers_and_shows_those_before(
    tmp_path: Path,
) -> None:
    """Such a run has no training episodes; while it learns, there are the base model's alone."""
    (tmp_path / "episodes").mkdir()

    def write(name: str, *won: bool) -> None:
        records = [{"task_id": f"t{n}", "steps": [], "success": each} for n, each in enumerate(won)]
        text = "".join(f"{json.dumps(each)}\n" for each in records)
        (tmp_path / "episodes" / f"{name}.jsonl").write_text(text)

    write("greedy_base", False, False)
    write("sampled_base", False, True)
    data = data_of(tmp_path)
    assert (data["played"], data["update"], len(data["episodes"])) == (
        "greedy, base model",
        None,
        2,
    )
    write("greedy_000000", True, False)
    write("sampled_000000", False, False)
    data = data_of(tmp_path)
    assert data["played"] == "greedy, supervised model"
    assert [each["success"] for each in data["episodes"]] == [True, False]
    answers = data["over_updates"]["t0"]
    assert [(each["phase"], each["update"], each["success"]) for each in answers] == [
        ("greedy", -1, False),
        ("sampled", -1, False),
        ("greedy", 0, True),
        ("sampled", 0, False),
    ]
    write("greedy_000004", True, True)
    data = data_of(tmp_path)
    assert data["played"] == "greedy, after update 4"


def test_the_headline_of_a_run_that_goes_on_names_the_model_of_each_rate() -> None:
    arrow, name = " \N{RIGHTWARDS ARROW} ", "eval/greedy_success_rate"
    base = {"update": 0, "base/greedy_success_rate": 0.0}
    evaluated: list[dict[str, Any]] = [
        {"update": number, name: rate}
        for number, rate in ((0, 0.25), (1, None), (2, 0.5), (4, 0.75))
    ]

    def headline_of(*metrics: dict[str, Any]) -> str:
        return headline(LoadedRun(Path(), "training", [], Path(), metrics=[*metrics]), {})

    whole = ("0.0 %", "25.0 %", "75.0 %"), ("base", "supervised", "update 4")
    rates, models = map(arrow.join, whole)
    told = "of held-out tasks right so far,"
    assert headline_of(base, {"update": 0, "sft/step": 1}, *evaluated) == f"{rates} {told} {models}"
    assert headline_of(*evaluated) == f"25.0 %{arrow}75.0 % {told} base{arrow}update 4"
    assert headline_of(base) == f"0.0 % {told} base"


def test_the_default_is_the_64_worst(tmp_path: Path) -> None:
    lines = [{"id": str(n), "steps": [], "progress": float(n < 70)} for n in range(80)]
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    data = data_of(tmp_path / "a.jsonl")
    assert [each["line"] for each in data["episodes"]] == [*range(1, 55), *range(71, 81)]
    assert any("64 of 80 episodes" in note for note in data["notes"])


def test_settings_that_have_no_effect_in_a_run_do_not_differ() -> None:
    default = {"algorithm_name": "TPPO", "lam": None, "whiten_advantages": True, "lr": 1e-4}
    own = {**default, "algorithm_name": "mine:OWN", "lam": 0.95}  # what it has where none is given

    def differ(*changes: dict[str, Any]) -> list[str]:
        names = [name for name, *_ in settings_that_differ([{**default, **c} for c in changes])]
        return [name for name in names if name != "algorithm_name"]

    grpo = {"algorithm_name": "GRPO", "lam": 0.5, "whiten_advantages": False}
    assert differ({}, grpo) == []
    assert differ({}, grpo, {"lam": 0.9}) == ["lam"]
    assert differ({}, own) == []
    assert differ(own, {**own, "lam": 0.8}) == ["lam"]
    assert differ({}, {**own, "lr": 1e-3, "whiten_advantages": False}) == [
        "lr",
        "whiten_advantages",
    ]
    assert differ({"lr": "fast"}, grpo) == ["lr"], "settings of no known kind differ as they stand"


def write_answers(path: Path, valid: list[int]) -> str:
    steps = [{"turn": 0, "text": f"of {path.stem}{'.' * 3000}"}]
    lines = [
        {"id": f"t{n}", "category": f"c{n % 2}", "steps": steps, "valid": bool(each)}
        for n, each in enumerate(valid)
    ]
    lines[-1]["error_type"] = "x"
    path.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    return str(path)


def test_a_difference_counts_by_the_sign_test(tmp_path: Path) -> None:
    files = [write_answers(tmp_path / f"{n}.jsonl", [1] * n + [0] * (9 - n)) for n in (2, 8)]
    assert main(["view", *files]) == 0
    assert data_in(tmp_path / "2.html")["sentence"] == (
        "A 2 of 9, B 8 of 9 right; only A right 0, only B right 6; difference +66.7 points, "
        "95 % interval +35.9 to +97.5 (exact sign test p = 0.031)"
    )  # 2 / 64
    assert main(["view", *files, files[1]]) == 0
    best = data_in(tmp_path / "2.html")["sentence"]
    assert best.endswith("(no difference that counts, exact sign test p = 0.031)"), (
        "the best of two: by chance"
    )


def test_counts_of_different_task_sets_are_those_of_the_tasks_of_both(tmp_path: Path) -> None:
    files = [write_answers(tmp_path / f"{n}.jsonl", [1, 0, 0, 1][:n]) for n in (4, 2)]
    assert main(["view", *files]) == 0
    sentence = data_in(tmp_path / "4.html")["sentence"]
    assert sentence.startswith("of 2 tasks that both have: A 1, B 1 right; only A right 0"), (
        sentence
    )


def test_a_tree_of_two_models_is_refused_with_the_command_that_compares_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for model in ("one", "two"):
        path = tmp_path / model / "non_live/BFCL_v4_parallel_result.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"id": "parallel_90001", "result": ""}))
    assert main(["view", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.endswith(f"fctncalling view {tmp_path / 'one'} {tmp_path / 'two'}\n")
    assert error.count("\n") == 1


def test_judging_answers_prints_progress(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "one/BFCL_v4_parallel_result.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"id": "parallel_90001", "result": ""}))
    slow = functools.partial(time.sleep, 0.1)
    monkeypatch.setattr(judged_answers, "disputed_truths", lambda: slow() or {})
    monkeypatch.setattr(progress_bar, "LINE_EVERY_S", 0.02)
    assert main(["view", str(path.parent)]) == 0
    assert "judging one" in capsys.readouterr().err


def test_the_baseline_of_a_comparison_is_named_and_can_be_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = {"a": [1, 1, 0, 0], "b": [1, 0, 1, 1]}
    a, b = (write_answers(tmp_path / f"{name}.jsonl", each) for name, each in outcomes.items())
    assert main(["view", a, b]) == 0
    told = capsys.readouterr().out
    assert f"A: {a}\nB: {b}\nA is the baseline (--baseline RUN chooses another)\n" in told
    assert main(["view", a, b, "--baseline", b]) == 0
    told = capsys.readouterr().out
    assert told.startswith("A 3 of 4, B 2 of 4 right; only A right 2, only B right 1")
    assert f"A: {b}\nB: {a}\n" in told
    data = data_in(tmp_path / "a.html")
    assert data["title"] == a, "the page is of the first all the same"
    assert data["compared"]["titles"] == [b, a]
    assert main(["view", a, b, "--baseline", b, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["baseline"] == b
    for runs, fault in (((a, b), f"expected one of the runs {a}, {b}"), ((a,), "one run alone")):
        assert main(["view", *runs, "--baseline", str(tmp_path / "c.jsonl")]) == 2
        assert fault in capsys.readouterr().err


def test_runs_are_compared_task_by_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = {"a": [1, 1, 0, 0], "b": [1, 0, 1, 1], "c": [1, 1, 0]}
    files = [write_answers(tmp_path / f"{name}.jsonl", each) for name, each in outcomes.items()]
    assert main(["view", *files]) == 0
    data = data_in(tmp_path / "a.html")
    assert data["title"] == files[0]
    assert [each["success"] for each in data["episodes"]] == [False, False, True, True]
    first, second = data["compared"]["changes"]
    assert (first["gained"], first["lost"], first["both"]) == (["t2", "t3"], ["t1"], 4)
    for answers, verdicts in (("gained", ["wrong", "right"]), ("lost", ["right", "wrong"])):
        for both in first[f"{answers}_answers"][:1]:
            assert [each["text"].split(".")[0] for each in both] == ["of a", "of b"]
            assert [each["verdict"] for each in both] == verdicts
            assert all(each["text"].endswith("(1,004 characters left out)") for each in both)
    assert first["by_category"] == {"c0": [1, 0], "c1": [1, 1]}
    sentence = "A 2 of 4, B 3 of 4 right, the best of 2 others; only A right 1, only B right 2"
    assert sentence in capsys.readouterr().out
    assert (second["num_gained"], second["num_lost"], second["both"]) == (0, 0, 3)
    assert [each["c0"]["success"] for each in data["compared"]["tallies"]] == [1, 2, 1]
    # Two gained and one lost: 2 * (1 + 3) / 8 of all ways to toss three coins, at most 1.
    assert data["sentence"] == (
        f"{sentence}; difference +25.0 points, 95 % interval -56.3 to +100.0 "
        "(no difference that counts, exact sign test p = 1)"
    )
    for name, gamma in (("one", 0.9), ("two", 0.8)):
        resolved = {"gamma": gamma, "device": "cpu"}
        write_sample_run(tmp_path / "runs" / name, sample_contents(), lam=gamma, resolved=resolved)
        learned = json.dumps({"episodes": 512 if name == "one" else 1024})
        (tmp_path / "runs" / name / "evaluation.json").write_text(learned)
        os.utime(tmp_path / "runs" / name / "episodes", (0, 100 * gamma))
    assert main(["view", str(tmp_path / "runs")]) == 0
    compared = data_in(tmp_path / "runs" / "view.html")["compared"]
    assert [Path(title).name for title in compared["titles"]] == ["two", "one"]  # the oldest first
    assert compared["curves"] == [[[1, 0.2], [2, 0.4], [3, pytest.approx(0.6)]]] * 2
    assert [(name, sorted(values)) for name, *values in compared["settings"]] == [
        ("lam", [0.8, 0.9]),
        ("resolved.gamma", [0.8, 0.9]),
    ]
    unequal = "; learned from unequal numbers of episodes: A 1,024, B 512"
    assert compared["sentence"].endswith(unequal)
    (tmp_path / "runs" / "one" / "evaluation.json").unlink()  # its last greedy file is of update 0
    assert main(["view", str(tmp_path / "runs")]) == 0
    sentence = data_in(tmp_path / "runs" / "view.html")["compared"]["sentence"]
    letter = "AB"[[Path(title).name for title in compared["titles"]].index("one")]
    assert sentence.startswith(f"{letter} has no evaluation after training yet (3 updates so far)")
    assert "4 episodes" in capsys.readouterr().out
