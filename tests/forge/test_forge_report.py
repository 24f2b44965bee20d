"""Report of the forge and likeness of its texts: closed forms of their measures, a page by hand."""

from __future__ import annotations

import math
import random
import sys
from pathlib import Path

import numpy as np
import pytest

from evaluate_fctncalling import main
from fctncalling.data.bfcl import load_tasks
from fctncalling.data.types import FunctionDoc, Task
from fctncalling.lab.forge.measures import measure_single_turn

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks/jobs"))
from likeness import (
    auc,
    discriminate,
    distinct_ngram_share,
    docs_of,
    masked_sentences,
    recurring_share,
    self_bleu,
    texts_of,
    told_apart,
)


def test_distinct_is_the_share_of_ngrams_that_are_distinct() -> None:
    texts = ["a b a b", "a b c d"]
    assert distinct_ngram_share(texts, 1, 100) == pytest.approx(4 / 8)
    assert distinct_ngram_share(texts, 2, 100) == pytest.approx(4 / 6)  # ab ba (ab) (ab) bc cd
    assert distinct_ngram_share(texts, 1, 4) == pytest.approx(2 / 4)
    assert distinct_ngram_share([], 1, 10) == 0.0


def test_self_bleu_is_one_for_the_same_text_and_small_for_others() -> None:
    assert self_bleu(["one two three four five"] * 5) == pytest.approx(1.0)
    apart = [" ".join(f"w{i}{j}" for j in range(5)) for i in range(5)]
    closed = math.exp(sum(math.log(1 / (n + 1)) for n in (5, 4, 3, 2)) / 4)
    assert self_bleu(apart) == pytest.approx(closed)


def test_auc_counts_pairs_in_order_and_half_of_the_level_ones() -> None:
    scores = np.array([3.0, 1.0, 2.0, 1.0], dtype=np.float64)
    labels = np.array([1.0, 1.0, 0.0, 0.0], dtype=np.float64)
    assert auc(scores, labels) == pytest.approx((2 + 0.5) / 4)


def test_the_discriminator_finds_what_gives_texts_away_and_nothing_where_nothing_does() -> None:
    rng, words = random.Random(3), ["mill", "dove", "rain", "salt", "fern", "tide"]
    plain = [" ".join(rng.choices(words, k=6)) for _ in range(240)]
    marked = [f"{text} qzx" for text in plain[:120]]
    told = discriminate(marked, plain[120:])
    assert told.auc > 0.99
    assert any("qz" in ngram or "zx" in ngram for ngram in told.forged_terms)
    pairs = [" ".join(rng.sample(["mill dove", "rain salt", "fern tide"], 3)) for _ in range(120)]
    turned = [" ".join(reversed(text.split())) for text in pairs]  # the same words, other pairs
    assert discriminate(pairs, turned).auc > 0.99
    assert 0.3 < discriminate(plain[:120], plain[120:]).auc < 0.7
    with pytest.raises(ValueError, match="at least 4 texts"):
        discriminate(plain, plain[:3])


def test_tasks_are_told_apart_by_texts_and_by_docs_that_only_one_side_has() -> None:
    def task(number: int, said: str, described: str) -> Task:
        question = [[{"role": "user", "content": f"{said} {number}"}]]
        doc = FunctionDoc(f"f{number}", described, {"type": "dict", "properties": {}})
        return Task(f"simple_python_{number}", "simple_python", question, (doc,))

    forged = [task(n, "Kindly tell", "Compute it.") for n in range(20)]
    official = [task(n, "Find", "Compute it.") for n in range(20)]
    found = told_apart(texts_of(forged), texts_of(official))
    assert found is not None
    assert found.auc == 1.0
    assert told_apart(docs_of(forged), docs_of(official)) is None
    described = [task(n, "Find", "Returns it.") for n in range(20)]
    assert told_apart(docs_of(forged), docs_of(described)) is not None
    assert told_apart(texts_of(forged), []) is None


@pytest.mark.parametrize(
    ("said", "bare"),
    [
        ("Fly to Rome at 2:30 PM.", ["fly to # at # ."]),
        ("Fly to rome, Oslo and Lima. Now!", ["fly to # .", "now !"]),
        ("Open 'a.txt' for 12 euros?", ["open # for # euros ?"]),
        ("I am here", ["i am here"]),
        ("Sum [1, 2, 3].", ["sum # ."]),
    ],
)
def test_sentences_are_bared_of_their_values(said: str, bare: list[str]) -> None:
    question = [[{"role": "user", "content": said}]]
    truth = [{"f": {"city": ["Rome", "Roma"], "time": ["2:30 PM", "14:30"], "on": [True]}}]
    task = Task("simple_python_0", "simple_python", question, (), truth)
    assert list(masked_sentences(task)) == bare


def test_sentences_that_recur_are_those_of_an_earlier_task() -> None:
    tasks = [
        Task(f"simple_python_{n}", "simple_python", [[{"role": "user", "content": text}]])
        for n, text in enumerate(["Give me a 7. Thanks.", "Give me b 8. Thanks.", "Give me a 9."])
    ]
    assert recurring_share(tasks) == 2 / 5  # Thanks, Give me a #


def test_single_turn_figures_of_a_task_counted_by_hand() -> None:
    properties = {
        "a": {"type": "integer", "description": "The first number."},
        "b": {"type": "string", "description": "Unit.", "enum": ["m", "km"]},
    }
    doc = FunctionDoc("math.add", "Add two.", {"properties": properties, "required": ["a"]})
    question = [[{"role": "user", "content": "What is 1 plus 'x'?"}]]
    truth = [{"math.add": {"a": [1, 2], "b": ["", "m"]}}]
    figures = measure_single_turn(
        [Task("simple_python_0", "simple_python", question, (doc,), truth)]
    )
    assert figures["types of parameters"] == {"integer": 0.5, "string": 0.5}
    assert figures["parameters of a function"] == {"2": 1.0}
    assert {name: share for name, share in figures.items() if isinstance(share, float)} == {
        "required parameters": 0.5,
        "parameters with enum": 0.5,
        "parameters with default": 0.0,
        "dotted names": 1.0,
        "questions that end in ?": 1.0,
        "arguments left unsaid": 0.5,
        "arguments accepted in several forms": 0.5,
    }
    assert figures["words of a question"] == (5.0, 5.0, 5.0)
    with pytest.raises(ValueError, match="at least one task"):
        measure_single_turn([])


def test_the_page_sets_both_sides_side_by_side(tmp_path: Path) -> None:
    names = ("simple_python", "multi_turn_base")
    official = tmp_path / "official"
    made = ["forge", "--category", *names, "--num_tasks", "26"]
    assert main([*made, "--seed", "8", "--layout", "bfcl", "--output", str(official)]) == 0
    output = tmp_path / "tasks.jsonl"
    flags = ["--output", str(output), "--official_dir", str(official), "--report"]
    assert main([*made, "--seed", "9", *flags]) == 0
    page = (tmp_path / "tasks.jsonl.report.md").read_text(encoding="utf-8")
    assert "26 tasks of seed 9, compared with 2 official files" in page
    for name in names:
        sides = [
            [task for task in load_tasks(folder) if task.category == name]
            for folder in (output, official)
        ]
        assert f"## {name}\n\n{len(sides[0])} forged tasks, {len(sides[1])} official ones." in page
        if name == "simple_python":
            shares = [measure_single_turn(tasks)["dotted names"] for tasks in sides]
            assert f"| dotted names | {shares[0]:.1%} | {shares[1]:.1%} |" in page
        else:
            turns = [sum(len(task.question) for task in tasks) / len(tasks) for tasks in sides]
            assert f"| turns per task | {turns[0]:.2f}".rstrip("0") in page
