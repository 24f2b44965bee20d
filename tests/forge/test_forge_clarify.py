"""Forged questioning tasks: half of them leave a value open, and only a question brings it."""

from __future__ import annotations

import json
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from evaluate_fctncalling import main
from fctncalling.checkers import check
from fctncalling.checkers.clarify import ClarifyRecord, calls_are_right
from fctncalling.data.bfcl import load_tasks
from fctncalling.data.types import Task
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.judging.oracle import oracle_calls
from fctncalling.evaluation.accepted_answers import render_calls
from fctncalling.evaluation.agents.agent import ScriptedPlayer
from fctncalling.evaluation.episode_log import play_episode
from fctncalling.evaluation.scripted_policies import DONE, placeholder_value
from fctncalling.lab.canaries import canary_policies, play_canaries
from fctncalling.lab.forge import bfcl_source
from fctncalling.lab.forge.clarify_entries import (
    TOLD,
    UNEVEN,
    Candidate,
    Twins,
    clarify_entry,
    guess_chance,
    revealed_candidate_fault,
    twins_naming_two_values,
    twins_without_value,
    withheld_fault,
)
from fctncalling.lab.forge.forged_entry import NoTaskDrawn
from fctncalling.lab.lint import lint_task
from fctncalling.lab.own_api.kinds import ArgumentKind
from fctncalling.training.demonstrations import GroundTruthPolicy

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks/jobs"))
from likeness import discriminate

NUM_TASKS = 100


@pytest.fixture(autouse=True)
def no_official_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("official_data_folder", "user_data_folder"):
        monkeypatch.setattr(bfcl_source, name, lambda: tmp_path / "none")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return forged(tmp_path_factory.mktemp("forged") / "tasks.jsonl", NUM_TASKS)


@pytest.fixture(scope="module")
def tasks(path: Path) -> list[Task]:
    return load_tasks(path)


def forged(output: Path, num_tasks: int, seed: int = 1) -> Path:
    flags = ["--num_tasks", str(num_tasks), "--seed", str(seed), "--output", str(output)]
    assert main(["forge", "--category", "clarify", *flags]) == 0
    return output


def missing(task: Task) -> str:
    (name,) = task.extra["missing_parameters"]
    return str(name)


def right_call(task: Task) -> str:
    return render_calls(task, oracle_calls(task)[0])


def opens(task: Task) -> bool:
    return bool(task.extra["missing_parameters"])


def test_half_of_the_tasks_leave_a_value_open_wherever_the_file_is_cut(tasks: list[Task]) -> None:
    counts = Counter(task.category for task in tasks)
    assert counts == {"clarify_complete": 50, "clarify_missing": 30, "clarify_ambiguous": 20}
    for length in range(1, len(tasks) + 1):
        assert abs(2 * sum(map(opens, tasks[:length])) - length) <= 1
    assert len({tuple(opens(task) for task in tasks[i : i + 10]) for i in range(0, 100, 10)}) > 3


def test_the_oracle_solves_every_task_and_no_canary_more_than_half(tasks: list[Task]) -> None:
    some = tasks[:40]
    rates, _, unsolved = play_canaries(some, canary_policies(some, seed=0))
    assert unsolved == {}
    of_all = rates["all"]
    assert of_all["oracle"] == 1.0
    assert (of_all["always_ask"], of_all["never_ask"]) == (0.5, 0.5)
    assert max(rate or 0.0 for name, rate in of_all.items() if name != "oracle") <= 0.55
    assert [finding for task in some for finding in lint_task(task)] == []


@cache
def twins(sort: str, count: int) -> list[Twins]:
    make = {"missing": twins_without_value, "ambiguous": twins_naming_two_values}[sort]
    made: list[Twins] = []
    rng = random.Random(f"{sort} twins")
    while len(made) < count:
        try:
            made.append(make(rng))
        except NoTaskDrawn:
            continue
    return made


def shape(docs: list[dict[str, Any]]) -> list[tuple[int, int, int]]:
    """Parameters, required ones and defaults of each function."""
    shapes = []
    for parameters in (doc["parameters"] for doc in docs):
        described = [str(each["description"]) for each in parameters["properties"].values()]
        num_defaults = sum(" default" in f" {text.lower()}" for text in described)
        shapes.append((len(described), len(parameters["required"]), num_defaults))
    return shapes


def test_a_request_without_a_value_is_word_for_word_that_of_a_complete_task() -> None:
    for complete, unclear, *_ in twins("missing", 60):
        assert complete.question == unclear.question
        assert shape(complete.docs) == shape(unclear.docs)
        name, [function] = unclear.parameter, unclear.truth
        required = [
            next(doc for doc in draft.docs if doc["name"] == function)["parameters"]["required"]
            for draft in (complete, unclear)
        ]
        assert [name in each for each in required] == [False, True]


def test_two_candidates_stand_in_complete_tasks_too_in_as_many_words() -> None:
    for complete, unclear, *_ in twins("ambiguous", 60):
        assert complete.docs == unclear.docs
        assert len(complete.question.split()) == len(unclear.question.split())
        for value in unclear.candidates:
            text = re.compile(rf"(?<!\w){re.escape(value.text)}(?:th)?(?!\w)")
            counts = [len(text.findall(each.question)) for each in (complete, unclear)]
            assert counts[0] == counts[1] >= 2


def guess(task: Task, value: Any) -> bool:
    """Whether a call with a guess at the open value, all else right, is a right one."""
    [call] = oracle_calls(task)[0]
    guessed = [{call.name: {**call.arguments, missing(task): value}}]
    return calls_are_right(check(task, ClarifyRecord(guessed, 0)))


def schema_of(task: Task) -> dict[str, Any]:
    [call] = oracle_calls(task)[0]
    [doc] = (doc for doc in task.functions if doc.name == call.name)
    schema: dict[str, Any] = doc.parameters["properties"][missing(task)]
    return schema


def options(task: Task) -> list[str]:
    schema = schema_of(task)
    listed = re.search(r"(?:One of|Can be|Options:) ('.*')\.", schema["description"])
    return schema.get("enum") or (re.findall(r"'([^']*)'", listed[1]) if listed else [])


def phrases(prompt: str) -> Iterator[Any]:
    """Every run of up to six words of a prompt, and every number."""
    words = re.findall(r"[^\s,;:()\[\]{}\"]+", prompt)
    for start in range(len(words)):
        for length in range(1, 7):
            text = " ".join(words[start : start + length]).strip("'.?!")
            yield text
            yield from (kind(text) for kind in (int, float) if re.fullmatch(r"-?\d+", text))
            if re.fullmatch(r"-?\d+\.\d+", text):
                yield float(text)
            if re.fullmatch(r"\d+(\.\d+)?%", text):
                yield float(text[:-1]) / 100


def assert_no_prompt_tells_a_missing_value(tasks: list[Task]) -> None:
    env = FunctionCallingEnv(tasks=tasks)
    offered: list[tuple[Task, list[str]]] = []
    for task in tasks:
        if task.category != "clarify_missing":
            continue
        prompt, _ = env.reset(options={"task_id": task.id})
        request = str(task.question[0][0]["content"])
        assert request in prompt
        docs = json.dumps([[doc.name, doc.description, doc.parameters] for doc in task.functions])
        [call] = oracle_calls(task)[0]
        told = {repr(each) for each in phrases(f"{request} {docs}")}
        [truth] = list(task.ground_truth or ())
        right = {repr(each) for each in truth[call.name][missing(task)]}
        if listed := options(task):
            offered.append((task, listed))
            told -= {repr(each) for each in listed}
        assert not told & right, task.id
        assert not guess(task, placeholder_value({**schema_of(task), "enum": None})), task.id
        assert "default" not in schema_of(task)
    for place in (0, -1):
        hits = sum(guess(task, listed[place]) for task, listed in offered)
        chances = [1 / len(listed) for _, listed in offered]
        spread = sum(chance * (1 - chance) for chance in chances) ** 0.5
        assert max(chances) <= 1 / 3
        assert hits <= sum(chances) + 3 * spread
        assert len(offered) > 1


def test_no_word_or_default_of_the_prompt_is_a_missing_value(tasks: list[Task]) -> None:
    assert_no_prompt_tells_a_missing_value(tasks)


def candidate_guesses(drawn: list[Twins]) -> dict[str, float]:
    """How often guessers of one of two candidates are right; the last one learns from a half how
    each sentence puts them.
    """
    hits: Counter[str] = Counter()
    learned: defaultdict[str, Counter[bool]] = defaultdict(Counter)
    half = len(drawn) // 2
    for number, (_, draft, *_) in enumerate(drawn):
        meant, other = draft.candidates
        text = draft.question
        hits["first named"] += text.find(meant.text) < text.find(other.text)
        hits["last named"] += text.rfind(meant.text) > text.rfind(other.text)
        hits["first of the alphabet"] += meant.text < other.text
        hits["longer"] += (len(meant.text), meant.text) > (len(other.text), other.text)
        first = text.rfind(meant.text) < text.rfind(other.text)
        ordered = [meant.text, other.text] if first else [other.text, meant.text]
        tail = text[text.index(" or ") :].replace(ordered[0], "A").replace(ordered[1], "B")
        sentence = re.sub(r"^.*?[.?] ", "", tail)
        if number < half:
            learned[sentence][first] += 1
        else:
            [(likely, _)] = learned[sentence].most_common(1) or [(True, 0)]
            hits["learned"] += likely == first
    learned_share = hits.pop("learned") / (len(drawn) - half)
    return {name: count / len(drawn) for name, count in hits.items()} | {"learned": learned_share}


def test_neither_order_nor_wording_tells_which_candidate_is_meant() -> None:
    rates = candidate_guesses(twins("ambiguous", 400))
    assert {name: rate for name, rate in rates.items() if not 0.39 < rate < 0.61} == {}
    assert rates["learned"] < 0.61  # of 200: three standard deviations


CITY = ArgumentKind("place", topic="known_city")
NUMBER = ArgumentKind("integer", "integer", minimum=1, maximum=9)


def listed(*values: str) -> ArgumentKind:
    return ArgumentKind("enum", values=values)


@pytest.mark.parametrize(
    ("kind", "value", "question", "described", "fault"),
    [
        (CITY, "Lima", "Find hotels.", "The city.", None),
        (CITY, "Lima", "Find hotels, and not in LIMA.", "The city.", TOLD),
        (CITY, "Lima", "Find hotels.", "The city, such as Lima.", TOLD),
        (NUMBER, 7, "On the 17th.", "The number.", None),
        (NUMBER, 7, "For seven of us.", "The number.", TOLD),
        (NUMBER, 7, "Please.", "The number. Default is 7.", TOLD),
        (listed("low", "mid", "high"), "mid", "Please.", "One of 'low', 'mid', 'high'.", None),
        (listed("low", "mid", "high"), "mid", "Mid or so.", "One of 'low', 'mid', 'high'.", TOLD),
        (listed("low", "high"), "low", "Please.", "One of 'low', 'high'.", "fewer than 3 values"),
        (listed("low"), "low", "Please.", "One of 'low'.", "fewer than 3 values"),
    ],
)
def test_a_value_that_stands_in_the_prompt_is_found(
    kind: ArgumentKind, value: Any, question: str, described: str, fault: str | None
) -> None:
    properties = {"x": {"type": "string", "description": described}}
    docs = [{"name": "f", "parameters": {"properties": properties}}]
    found = withheld_fault(question, docs, "x", kind, Candidate(value, str(value), [value]))
    assert (found is None) == (fault is None)
    assert fault is None or fault in str(found)


def test_candidates_of_which_one_is_said_more_often_are_found() -> None:
    both = (Candidate("Lima", "Lima", ["Lima"]), Candidate("Oslo", "Oslo", ["Oslo"]))

    def found(question: str, described: str = "The city.") -> str | None:
        properties = {"x": {"type": "string", "description": described}}
        docs = [{"name": "f", "parameters": {"properties": properties}}]
        return revealed_candidate_fault(question, docs, "x", CITY, both)

    assert found("Lima or Oslo? Oslo or Lima.") is None
    assert found("Lima or Oslo? Lima.") == UNEVEN
    assert found("Somewhere.") == UNEVEN
    assert found("Lima or Oslo?", "Such as Oslo.") == UNEVEN


def test_chances_of_a_guess_are_those_of_the_draw() -> None:
    assert guess_chance(listed("a", "b", "d")) == 1 / 3
    steps = ArgumentKind("integer", "integer", minimum=5, maximum=60, step=5)
    assert guess_chance(steps) == 1 / 12
    assert 0 < guess_chance(CITY) < 0.05
    assert guess_chance(ArgumentKind("date")) == 0.0


def test_demonstrations_ask_where_a_value_is_open_and_nowhere_else(tasks: list[Task]) -> None:
    env = FunctionCallingEnv(tasks=tasks)
    for task in tasks[:40]:
        played = play_episode(env, task.id, ScriptedPlayer(GroundTruthPolicy(), task, "", DONE))
        texts = [step.text for step in played.episode.steps]
        questions = []
        if opens(task):
            questions = [f"which {' '.join(re.findall('[a-z0-9]+', missing(task).lower()))}"]
        assert texts[:-1] == questions
        assert played.episode.verdict is not None
        assert played.episode.verdict.valid


def test_the_same_flags_make_the_same_bytes_and_the_ledger_tells_of_every_question(
    path: Path, tasks: list[Task], tmp_path: Path
) -> None:
    again = forged(tmp_path / "again.jsonl", NUM_TASKS)
    assert again.read_bytes() == path.read_bytes()
    other = forged(tmp_path / "other.jsonl", 10, seed=2)
    assert not set(other.read_text().splitlines()) & set(path.read_text().splitlines())
    assert clarify_entry("clarify", 1, 7).entry["id"] == tasks[7].id
    ledger = path.with_name(f"{path.name}.ledger.jsonl").read_text().splitlines()[1:-1]
    for task, line in zip(tasks, map(json.loads, ledger), strict=True):
        chance = line["provenance"]["guess_chance"]
        assert (chance is not None) == opens(task)
        assert line["id"] == task.id
        if opens(task):
            assert chance <= (1 / 3 if task.category == "clarify_missing" else 0.5) + 0.001
            if listed := options(task):
                assert task.category == "clarify_ambiguous" or chance == round(1 / len(listed), 3)


def test_clarify_tasks_are_made_only_where_named(tmp_path: Path) -> None:
    output = tmp_path / "all.jsonl"
    assert main(["forge", "--num_tasks", "16", "--output", str(output)]) == 0
    assert "clarify" not in output.read_text()


@pytest.mark.prove
def test_a_thousand_tasks_are_solved_by_asking_and_by_nothing_else(tmp_path: Path) -> None:
    tasks = load_tasks(forged(tmp_path / "tasks.jsonl", 1000, seed=81))
    rates, _, unsolved = play_canaries(tasks, canary_policies(tasks, seed=0))
    assert unsolved == {}
    of_all = rates["all"]
    assert (of_all["oracle"], of_all["always_ask"], of_all["never_ask"]) == (1.0, 0.5, 0.5)
    assert max(rate or 0.0 for name, rate in of_all.items() if name != "oracle") <= 0.51
    assert [finding for task in tasks for finding in lint_task(task)] == []
    assert_no_prompt_tells_a_missing_value(tasks)
    rates_of_guessers = candidate_guesses(twins("ambiguous", 4000))
    assert all(0.46 < rate < 0.54 for rate in rates_of_guessers.values()), rates_of_guessers
    print(of_all, rates_of_guessers)


@pytest.mark.prove
def test_a_classifier_of_requests_does_not_learn_where_to_ask(tmp_path: Path) -> None:
    tasks = load_tasks(forged(tmp_path / "tasks.jsonl", 2000, seed=82))
    ledger = (tmp_path / "tasks.jsonl.ledger.jsonl").read_text().splitlines()[1:-1]
    sides: dict[bool, list[str]] = {True: [], False: []}
    for task, line in zip(tasks, map(json.loads, ledger), strict=True):
        if line["provenance"]["twins"] == "missing":
            sides[opens(task)].append(str(task.question[0][0]["content"]))
    found = discriminate(sides[True], sides[False])
    print(found.auc)
    assert 0.44 < found.auc < 0.56  # of 600 texts a side: three standard deviations are 0.05
