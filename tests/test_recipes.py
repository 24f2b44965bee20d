"""The recipes: their split, their figures in closed form, and flags that exist."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from evaluate_fctncalling import main as evaluate
from fctncalling.data.bfcl import load_tasks

RECIPES = Path(__file__).parents[1] / "recipes"
TEXTS = sorted([*RECIPES.glob("*.sh"), *RECIPES.glob("*.md")])


def script(name: str) -> dict[str, Any]:
    """Return the functions of a recipe's script."""
    return runpy.run_path(str(RECIPES / name))


def test_training_and_test_tasks_of_the_split_are_apart_and_have_their_ground_truths(
    tmp_path: Path, shared: Path
) -> None:
    main: Callable[[list[str]], int] = script("split_tasks.py")["main"]
    assert main(["--data_dir", str(shared / "bfcl/data"), "--output", str(tmp_path)]) == 0
    names = ("train", "test", "demonstrations", "practice")
    parts = {name: load_tasks(tmp_path / f"{name}.jsonl") for name in names}
    count = {
        (name, it.category == "irrelevance"): sum(
            (each.category == "irrelevance") == (it.category == "irrelevance") for each in tasks
        )
        for name, tasks in parts.items()
        for it in tasks
    }
    assert count == {
        ("train", False): 450,
        ("train", True): 140,
        ("test", False): 150,
        ("test", True): 100,
        ("demonstrations", False): 150,
        ("demonstrations", True): 50,
        ("practice", False): 300,
        ("practice", True): 90,
    }
    ids = {name: {it.id for it in tasks} for name, tasks in parts.items()}
    assert ids["train"].isdisjoint(ids["test"])
    assert ids["demonstrations"].isdisjoint(ids["practice"])
    assert ids["demonstrations"] | ids["practice"] == ids["train"]
    assert all(
        it.ground_truth for part in parts.values() for it in part if it.kind != "irrelevance"
    )


def jaccard(first: Counter[str], second: Counter[str]) -> float:
    return (first & second).total() / max(1, (first | second).total())


def bags(path: Path) -> dict[str, Counter[str]]:
    texts = {
        task.id: " ".join(it["content"] for turn in task.question for it in turn)
        for task in load_tasks(path)
    }
    return {name: Counter(re.findall(r"\w+", text.lower())) for name, text in texts.items()}


@pytest.mark.prove
def test_no_test_task_nearly_repeats_a_training_task_official_or_forged(
    tmp_path: Path, shared: Path
) -> None:
    data = str(shared / "bfcl/data")
    assert script("split_tasks.py")["main"](["--data_dir", data, "--output", str(tmp_path)]) == 0
    for seed in ("1", "2"):  # the two files that smollm2_cpu.sh forges
        words = ["forge", "--num_tasks", "600", "--seed", seed, "--official_dir", data]
        words += ["--category", "simple_python", "multiple", "irrelevance"]
        assert evaluate([*words, "--output", str(tmp_path / f"forged_{seed}.jsonl")]) == 0
    tests = {**bags(tmp_path / "test.jsonl"), **bags(tmp_path / "live_test.jsonl")}
    trained = [
        bag
        for name in ("train", "forged_1", "forged_2")
        for bag in bags(tmp_path / f"{name}.jsonl").values()
    ]
    assert (len(tests), len(trained)) == (450, 590 + 600 + 600)
    assert [
        name for name, bag in tests.items() if any(jaccard(bag, other) >= 0.8 for other in trained)
    ] == []


def test_a_mixture_has_no_held_out_name_and_no_test_tasks_truth(tmp_path: Path) -> None:
    held_out = script("names_held_out.py")["is_held_out"]
    symbols = [f"S{number}" for number in range(60)]
    kept = next(it for it in symbols if held_out(it))
    truths = {it: [[f"get_stock_info(symbol='{it}')"]] for it in symbols}

    def write(name: str, names: list[str], category: str = "multi_turn_base") -> None:
        tasks = [
            {
                "id": f"{category}_{n}",
                "involved_classes": ["TradingBot"],
                "ground_truth": truths[it],
            }
            for n, it in enumerate(names)
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(it) + "\n" for it in tasks))

    write("three_apis", symbols)
    write("calls", [it for it in symbols if not held_out(it)][:3], "simple_python")
    write("test", [next(it for it in symbols if not held_out(it))])
    for name in ("files", "all_apis", "more_calls", "declined", "all_test"):
        write(name, [])
    assert script("mixed_tasks.py")["main"](["--folder", str(tmp_path)]) == 0
    lines = (tmp_path / "train.jsonl").read_text("utf-8").splitlines()
    tasks = [json.loads(line) for line in lines]
    multi_turn = [it["ground_truth"] for it in tasks if it["id"].startswith("multi_turn")]
    allowed = [truths[it] for it in symbols if not held_out(it)][1:]  # the first is tested
    assert truths[kept] not in multi_turn
    assert sorted(multi_turn) == sorted(allowed)
    assert len({it["id"].rsplit("_", 1)[1] for it in tasks}) == len(tasks) == len(allowed) + 3


@pytest.mark.parametrize(
    ("trained", "tested"),
    [
        ("Convert 5 miles to km.", "Convert 6 miles to km."),  # 4 of 6 words: apart
        ("Say how far it is from Rome to Oslo.", "How far it is from Oslo to Rome."),
        (
            "Sum up all of these numbers for me now: 1.",
            "Now sum up all of these numbers for me, 7 8",
        ),
    ],
)
def test_a_split_with_a_test_task_that_repeats_a_training_task_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], trained: str, tested: str
) -> None:
    texts = {"simple_python_0": trained, "simple_python_1": tested, "live_simple_0-0-0": "Other."}
    for category in ("simple_python", "live_simple"):
        lines = [
            {"id": name, "question": [[{"role": "user", "content": text}]], "function": []}
            for name, text in texts.items()
            if name.startswith(category)
        ]
        (tmp_path / f"BFCL_v4_{category}.json").write_text("\n".join(map(json.dumps, lines)))
    split = {"test": {"simple_python": ["simple_python_1"]}, "demonstrations": {}}
    split["live_test"] = {"live_simple": ["live_simple_0-0-0"]}
    (tmp_path / "split.json").write_text(json.dumps(split))
    words = ["--data_dir", str(tmp_path), "--split", str(tmp_path / "split.json")]
    status = script("split_tasks.py")["main"]([*words, "--output", str(tmp_path / "out")])
    if "miles" in tested:
        assert status == 0
    else:
        error = capsys.readouterr().err
        assert status == 2
        assert "simple_python_1 nearly repeats the training task simple_python_0" in error


def test_no_multi_turn_test_task_has_a_demonstrated_variant(tmp_path: Path, shared: Path) -> None:
    main: Callable[[list[str]], int] = script("split_tasks.py")["main"]
    split = str(RECIPES / "multi_turn_split.json")
    words = ["--data_dir", str(shared / "bfcl/data"), "--output", str(tmp_path), "--split", split]
    assert main(words) == 0
    parts = {name: load_tasks(tmp_path / f"{name}.jsonl") for name in ("test", "train")}
    # base and miss_func tasks of one number ask for the same things
    numbers = {name: {it.id.rsplit("_", 1)[1] for it in tasks} for name, tasks in parts.items()}
    assert numbers["test"].isdisjoint(numbers["train"])
    categories = [it.category for it in parts["test"]]
    assert categories.count("multi_turn_base") == categories.count("multi_turn_miss_func") == 30


def test_tasks_of_one_api_are_all_of_those_that_involve_no_other(
    tmp_path: Path, shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    split = ["--split", str(RECIPES / "multi_turn_split.json"), "--output", str(tmp_path)]
    script("split_tasks.py")["main"](["--data_dir", str(shared / "bfcl/data"), *split])
    capsys.readouterr()
    main: Callable[[list[str]], int] = script("one_api_tasks.py")["main"]
    words, apis = [str(tmp_path / "train.jsonl"), "--apis"], ["TradingBot", "VehicleControlAPI"]
    assert main([*words, *apis, "--first_number", "1000"]) == 0
    file = tmp_path / "few.jsonl"
    file.write_text(capsys.readouterr().out, encoding="utf-8")
    found = load_tasks(file)
    every = load_tasks(tmp_path / "train.jsonl")
    assert [it.question for it in found] == [
        it.question for it in every if list(it.involved_classes) in [[api] for api in apis]
    ]
    assert [int(it.id.rsplit("_", 1)[1]) for it in found] == [*range(1000, 1000 + len(found))]


def test_names_of_one_half_of_the_tests_are_in_no_training_task(tmp_path: Path) -> None:
    words = ["forge", "--apis", "TradingBot", "GorillaFileSystem", "--category", "multi_turn_base"]
    for name, seed in (("train", "1"), ("test", "2")):
        file = ["--seed", seed, "--num_tasks", "90", "--output", str(tmp_path / f"{name}.jsonl")]
        assert evaluate([*words, *file]) == 0
    held = script("names_held_out.py")
    files = ["--train", str(tmp_path / "train.jsonl"), "--test", str(tmp_path / "test.jsonl")]
    sizes = ["--num_train", "8", "--num_practice", "4", "--num_test", "16"]
    assert held["main"]([*files, *sizes, "--output", str(tmp_path / "parts")]) == 0
    counts = {"train": 8, "practice": 4, "test": 16}
    parts = {name: held["read"](tmp_path / "parts" / f"{name}.jsonl") for name in counts}
    assert {name: len(tasks) for name, tasks in parts.items()} == counts
    shown, practised = ([it["question"] for it in parts[name]] for name in ("train", "practice"))
    assert not any(question in shown for question in practised)
    apis = Counter(task["involved_classes"][0] for task in parts["train"])
    assert apis == {"TradingBot": 4, "GorillaFileSystem": 4}
    learned = set().union(*map(held["names"], parts["train"] + parts["practice"]))
    ids = json.loads((tmp_path / "parts/names.json").read_text("utf-8"))
    tests = {task["id"]: task for task in parts["test"]}
    for one, other in zip(ids["held_out"], ids["seen"], strict=True):
        new = {name for name in held["names"](tests[one]) if held["is_held_out"](name)}
        assert new
        assert new.isdisjoint(learned)
        assert not any(map(held["is_held_out"], held["names"](tests[other])))
        assert held["likeness"](tests[one]) == held["likeness"](tests[other])


def test_without_the_official_data_the_split_names_the_file_and_the_cure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main: Callable[[list[str]], int] = script("split_tasks.py")["main"]
    assert main(["--data_dir", str(tmp_path), "--output", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert "BFCL_v4_simple_python.json" in error
    assert "import-bfcl" in error
    assert not (tmp_path / "out").exists()


def test_a_step_goes_on_from_its_checkpoint_and_starts_anew_without_one(tmp_path: Path) -> None:
    stand_in = tmp_path / "python"
    stand_in.write_text('#!/bin/sh\necho "$@"\n', encoding="utf-8")
    stand_in.chmod(0o755)
    steps = (
        f"folder={tmp_path} python={stand_in} common=(); . recipes/steps.sh; run sft model tasks"
    )

    def command() -> str:
        words = ["bash", "-c", steps]
        return subprocess.run(
            words, capture_output=True, text=True, check=True, cwd=RECIPES.parent
        ).stdout

    run = tmp_path / "runs/sft/model/tasks/TPPO"
    run.mkdir(parents=True)
    (run / "metrics.jsonl").write_text(
        '{"update": 0}\n', encoding="utf-8"
    )  # killed before it saved
    assert "--resume" not in command()
    assert not run.exists()
    (run / "checkpoints/last").mkdir(parents=True)
    assert "--resume" in command()
    assert run.exists()


def answers(path: Path, valid: str, category: str = "multiple") -> str:
    """Write answers of `run`, one for each digit of `valid`; return the path."""
    lines = [
        {
            "id": f"{category}_{number}",
            "category": category,
            "valid": digit == "1",
            "strict_valid": digit == "1",
            "invalid": digit == "x",
            "error_type": None,
            "steps": [{"text": f"answer {number}"}],
        }
        for number, digit in enumerate(valid)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(path)


def test_the_results_page_has_wilson_intervals_and_exact_sign_tests(tmp_path: Path) -> None:
    page = script("results_page.py")
    first = answers(tmp_path / "a.jsonl", "1000000000x")
    second = answers(tmp_path / "b.jsonl", "01111100001")
    output, tasks = tmp_path / "results.md", tmp_path / "tasks.jsonl"
    entry = {"question": [[{"role": "user", "content": "Add 1 and 2."}]], "function": []}
    entries = ({**entry, "id": f"multiple_{number}", "ground_truth": []} for number in range(11))
    tasks.write_text("".join(json.dumps(each) + "\n" for each in entries), encoding="utf-8")
    words = ["--answers", f"base={first}", f"tppo={second}", "--output", str(output)]
    words += ["--dataset_path", str(tasks)]
    assert page["main"](words) == 0
    text = output.read_text("utf-8")
    # Wilson for 1 of 10: (0.1 + 0.19207 +- 1.96 sqrt(0.009 + 0.0096035)) / 1.38415
    assert "| base | 10.0 % (1.8 to 40.4), 1 of 10; strict 1 |" in text
    assert "| tppo | 54.5 % (28.0 to 78.7), 6 of 11; strict 6 |" in text
    # Of 6 changes one or none is lost by chance in 2 * (1 + 6) / 64 of all cases.
    assert "multiple: 5 gained, 1 lost of 10: +40.0 points, p = 0.219" in text
    assert text.count("> Add 1 and 2.") == 5  # three gained, one lost, one neither
    assert page["sign_test"](0, 0) == 1.0
    assert page["sign_test"](0, 10) == pytest.approx(2 / 1024)


def test_a_file_without_answers_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = script("results_page.py")
    (tmp_path / "a.jsonl").write_text("{}\n")
    words = ["--answers", f"base={tmp_path / 'a.jsonl'}", "--output", str(tmp_path / "r.md")]
    words += ["--dataset_path", "tasks.jsonl"]
    assert page["main"](words) == 2
    assert "a.jsonl: no answers of `run`" in capsys.readouterr().err
    assert not (tmp_path / "r.md").exists()


@cache
def known_flags(subcommand: str) -> set[str]:
    """Return the flags that a command's help lists."""
    words = ["train", "--help-all"] if subcommand == "train" else ["evaluate", subcommand, "--help"]
    done = subprocess.run(
        [sys.executable, "-m", "fctncalling", *words], capture_output=True, text=True, check=True
    )
    return set(re.findall(r"--\w[\w-]*", done.stdout))


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_flags_of_the_recipes_exist(path: Path) -> None:
    if path.suffix == ".sh":
        subprocess.run(["bash", "-n", str(path)], check=True)
    flags = set(re.findall(r"(?<!\S)--[a-z]\w*(?:-\w+)*", path.read_text("utf-8")))
    known = {"--data_dir", "--split", "--answers", "--title", "--first_number"}
    known |= {"--train", "--num_train", "--num_practice", "--test", "--num_test", "--folder"}
    for subcommand in ("train", "run", "forge", "import-model", "export", "doctor"):
        known |= known_flags(subcommand)
    assert flags - known == set()
    assert len(flags) > 5
