"""Questioning tasks: who asks where and only where it must succeeds, and nothing else pays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fctncalling.checkers import check
from fctncalling.checkers.clarify import ClarifyRecord, calls_are_right
from fctncalling.data.bfcl import embedded_path, load_tasks
from fctncalling.data.types import StepRecord, Task, Verdict
from fctncalling.envs import judge
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.rewards import ClarifyReward
from fctncalling.lab.canaries import canary_policies, play_canaries
from fctncalling.lab.dialogue import Dialogue
from fctncalling.lab.embedded.clarify_tasks import SPLITS, clarify_entries
from fctncalling.lab.lint import lint_task

TASKS = load_tasks(embedded_path("clarify_held_out"))
BY_KIND = {task.category: task for task in reversed(TASKS)}


def right_call(task: Task) -> str:
    (truth,) = task.ground_truth or ()
    ((name, accepted),) = truth.items()
    return f"[{name}({', '.join(f'{key}={values[0]!r}' for key, values in accepted.items())})]"


def test_asking_where_needed_is_the_only_way_to_solve_every_task() -> None:
    some = TASKS[::4]  # every kind in its share
    rates, _, unsolved = play_canaries(some, canary_policies(TASKS, seed=0))
    assert unsolved == {}
    of_all = rates["all"]
    assert of_all["oracle"] == 1.0
    assert max(rate or 0.0 for name, rate in of_all.items() if name != "oracle") <= 0.55
    assert (of_all["always_ask"], of_all["never_ask"]) == (0.52, 0.48)


@pytest.mark.parametrize(
    ("category", "questions", "error_type"),
    [
        ("clarify_complete", 0, None),
        ("clarify_complete", 1, "clarify:needless_question"),
        ("clarify_missing", 0, "clarify:guessed"),
        ("clarify_missing", 1, None),
        ("clarify_missing", 2, "clarify:needless_question"),
        ("clarify_ambiguous", 0, "clarify:guessed"),
        ("clarify_ambiguous", 1, None),
    ],
)
def test_checker_judges_calls_and_questions(
    category: str, questions: int, error_type: str | None
) -> None:
    task = BY_KIND[category]
    ((name, accepted),) = task.ground_truth[0].items()  # type: ignore[index]
    calls = [{name: {key: values[0] for key, values in accepted.items()}}]
    verdict = check(task, ClarifyRecord(calls, questions))
    assert (verdict.valid, verdict.error_type) == (error_type is None, error_type)
    assert calls_are_right(verdict)
    wrong = check(task, ClarifyRecord([{name: {}}], questions))
    assert str(wrong.error_type).startswith("simple_function_checker")
    assert not calls_are_right(wrong)
    assert not check(task, ClarifyRecord(None, questions)).valid
    texts = ["which one?"] * questions + [right_call(task)]
    assert judge(task, [texts]) == verdict
    assert judge(task, texts[-1]) == check(task, ClarifyRecord(calls, 0))


@pytest.mark.parametrize("category", ["clarify_missing", "clarify_ambiguous"])
def test_a_question_counts_only_if_the_answer_says_the_missing_value(category: str) -> None:
    task = BY_KIND[category]
    (missing,) = task.extra["missing_parameters"]
    other = next(name for name in task.extra["user_knows"] if name != missing)

    def verdict(*questions: str) -> str | None:
        env = FunctionCallingEnv(tasks=[task], reward=ClarifyReward(0.0))
        env.reset()
        for text in questions:
            env.step(text)
        _, reward, _, _, info = env.step(right_call(task))
        assert reward == 1.0  # the price alone decides what a question is worth
        error: str | None = info["verdict"].error_type
        return error

    assert verdict(f"which {missing}") is None
    assert verdict(f"which {other}") == "clarify:guessed"
    assert verdict("what is the ground truth") == "clarify:guessed"
    assert verdict(f"which {other}", f"which {missing}") == "clarify:needless_question"


@pytest.mark.parametrize("price", [0.0, 0.2, 1.0])
def test_a_question_costs_its_price_and_right_calls_pay_one(price: float) -> None:
    for category, task in BY_KIND.items():
        missing = [*task.extra["missing_parameters"], "room"][0]
        for questions in (0, 1, 2):
            env = FunctionCallingEnv(tasks=[task], reward=ClarifyReward(price))
            env.reset()
            actions = [f"which {missing}"] * questions + [right_call(task)]
            rewards = [float(env.step(action)[1]) for action in actions]
            assert rewards == [-price] * questions + [1.0], category
    assert ClarifyReward(price)(StepRecord(0, "[f(", error="malformed"), None) == 0.0
    assert ClarifyReward(price)(StepRecord(0, "which", error="no_call"), None) == -price
    assert ClarifyReward(price)(StepRecord(0, "", error="no_call"), Verdict(False, 0.0)) == 0.0


@pytest.mark.parametrize("opening", ["[", "{", "[(", "set(", ""])
def test_whatever_the_user_answers_is_a_question_in_price_and_verdict(opening: str) -> None:
    task = BY_KIND["clarify_missing"]
    (missing,) = task.extra["missing_parameters"]
    value = str(task.extra["user_knows"][missing])
    question = f"{opening}which {missing} (or what)?"
    for user in (lambda conversation, about: f"It is {value}.", "rule:plain"):
        env = FunctionCallingEnv(tasks=[task], reward=ClarifyReward(0.2), user=user)
        env.reset()
        observation, paid, ended, _, info = env.step(question)
        assert ended == (value not in observation) == (user == "rule:plain" and opening != "")
        assert (info["error"] == "malformed", paid) == ((True, 0.0) if ended else (False, -0.2))
        if not ended:
            *_, info = env.step(right_call(task))
            assert info["verdict"].valid
    env = FunctionCallingEnv(tasks=[task], reward=ClarifyReward(0.2), retry_malformed=True)
    env.reset()
    assert env.step(f"[{missing}={value!r}")[1] == 0.0  # the environment complains
    *_, info = env.step(right_call(task))
    assert info["verdict"].error_type == "clarify:guessed"


def test_a_price_below_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="question_cost=-1"):
        ClarifyReward(-1)


def test_the_missing_value_comes_when_it_is_asked_for_and_not_before() -> None:
    task = BY_KIND["clarify_missing"]
    (missing,) = task.extra["missing_parameters"]
    value = str(task.extra["user_knows"][missing])
    dialogue = Dialogue(task, form="prompting")
    opening = dialogue.open()[-1]["content"]
    assert value not in opening.split()
    (answer,) = dialogue.reply(f"which {missing}")
    assert value in answer["content"].replace(".", " ").replace(",", " ").split()
    dialogue.reply(right_call(task))
    assert dialogue.verdict is not None
    assert dialogue.verdict.valid


def test_embedded_tasks_are_what_their_maker_makes_and_splits_share_no_call() -> None:
    for split, (num_tasks, first_id) in SPLITS.items():
        made = clarify_entries(split, num_tasks, first_id=first_id)
        lines = Path(embedded_path(split)).read_text().splitlines()
        assert [json.loads(line) for line in lines] == made
    training: list[Any] = [t.ground_truth for t in load_tasks(embedded_path("clarify_train"))]
    assert not [task.id for task in TASKS if task.ground_truth in training]


def test_lint_finds_a_value_that_the_user_does_not_know() -> None:
    assert [finding for task in TASKS[::10] for finding in lint_task(task)] == []
    task = BY_KIND["clarify_missing"]
    broken = Task(**{**vars(task), "extra": {**task.extra, "user_knows": {}}})
    assert [finding.check for finding in lint_task(broken)] == ["unknown_to_the_user"]
