"""What a user takes for a question: words that name what is asked for, in whatever manner."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest

from fctncalling.checkers.clarify import is_mentioned, split_words
from fctncalling.data.bfcl import embedded_path, load_tasks
from fctncalling.data.types import FunctionDoc, Task
from fctncalling.envs.users import RuleUser
from fctncalling.envs.users.rule_user import REGISTERS
from fctncalling.lab.forge.clarify_entries import clarify_entry

NATURAL = (
    "Which {name}?",
    "What {name} would you like?",
    "{name}?",
    "Could you please tell me the {name}?",
    "Sure, I can help with that! What should the {name} be?",
    "I need one more thing before I can go on: the {name}, please.",
    "I still need the {name}.",
    "Please specify the {names}.",
    "To do this, I need to know the {name} (it is required). What is it?",
    "What value should I use for `{snake}`?",
    "Hey, quick question - you forgot the {name}, what did you have in mind?",
    "One moment. Your request does not say it: what is the {name} you want?",
    "May I ask which {name} you prefer? Otherwise I cannot continue.",
    "{Name}, please?",
)
IN_OTHER_WORDS = ("What is {description}?", "Can you give me {description}, please?")
EMPTY = ("x", "ok", "?", "[?", "{?", "which", "what?", "...", "OK?", "", "done", "[]", "(?", "hm")
VAGUE = (
    "What do you mean?",
    "Could you please clarify?",
    "What else do you want me to know?",
    "Tell me everything you know, please.",
    "Which one?",
    "Please go on.",
)


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    """Tasks with an open value: the embedded held-out ones, and forged ones of 31 domains."""
    made = [clarify_entry("clarify", 977, index).entry for index in range(460)]
    forged = [
        Task(
            entry["id"],
            entry["id"].rpartition("_")[0],
            entry["question"],
            functions=[FunctionDoc(**doc) for doc in entry["function"]],
            ground_truth=entry["ground_truth"],
            extra={key: entry[key] for key in ("user_knows", "missing_parameters")},
        )
        for entry in made
    ]
    held_out = load_tasks(embedded_path("clarify_held_out"))
    return [task for task in [*held_out, *forged] if task.extra["missing_parameters"]]


def answer(task: Task, question: str, register: str = "plain") -> str:
    about = {"task_id": task.id, "category": task.category, "turn": 0, "task": task}
    conversation = [*task.question[0], {"role": "assistant", "content": question}]
    return RuleUser(register)(conversation, about) or ""


def open_parameter(task: Task) -> tuple[str, str]:
    (name,) = task.extra["missing_parameters"]
    return name, str(task.extra["user_knows"][name])


def questions_for(task: Task, patterns: tuple[str, ...]) -> Iterator[str]:
    """Yield a task's questions for its open value, worded without a look at the user's rules."""
    name, _ = open_parameter(task)
    [call] = list(task.ground_truth or ())
    doc = next(doc for doc in task.functions if doc.name in call)
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", name).lower()
    text = str(doc.parameters["properties"][name]["description"]).split(".")[0]
    text = re.sub(r"^\W*(\(?optional\)?)?\W*", "", text, flags=re.IGNORECASE).split(",")[0]
    described = text if text.lower().startswith(("the ", "what ", "which ")) else f"the {text}"
    for pattern in patterns:
        yield pattern.format(
            name=words,
            names=f"{words}s",
            Name=words.capitalize(),
            snake=name,
            description=described[:1].lower() + described[1:],
        )


def brings_the_value(task: Task, question: str) -> bool:
    register = random.Random(f"{task.id} {question}").choice(list(REGISTERS))
    return is_mentioned(open_parameter(task)[1], answer(task, question, register))


@pytest.mark.parametrize(("patterns", "least"), [(NATURAL, 0.99), (IN_OTHER_WORDS, 0.85)])
def test_natural_questions_that_name_the_parameter_are_answered(
    patterns: tuple[str, ...], least: float, tasks: list[Task]
) -> None:
    assert sum(task.category == "clarify_missing" for task in tasks) >= 200
    rates = dict.fromkeys(patterns, 0.0)
    for task in tasks:
        for pattern, question in zip(patterns, questions_for(task, patterns), strict=True):
            rates[pattern] += brings_the_value(task, question) / len(tasks)
    assert min(rates.values()) >= least, rates


def test_what_names_nothing_is_answered_without_a_value(tasks: list[Task]) -> None:
    told = [
        (open_parameter(task), question)
        for task in tasks
        for question in EMPTY + VAGUE
        if brings_the_value(task, question)
    ]
    assert told == []


def test_a_question_for_one_parameter_never_brings_another(tasks: list[Task]) -> None:
    for task in tasks:
        name, value = open_parameter(task)
        for other in task.extra["user_knows"].keys() - {name}:
            words = " ".join(split_words(other))
            for question in (f"Which {words}?", f"Could you tell me the {words}, please?"):
                assert not is_mentioned(value, answer(task, question)), (task.id, question)


@pytest.mark.parametrize(
    "question", ["What are the {}?", "Which {}?", "Please tell me your {} as well."]
)
def test_a_list_of_all_parameters_is_asked_back(question: str) -> None:
    """It fits every task alike, so it must not pay in the third of them that it happens to fit."""
    answers = set()
    for task in load_tasks(embedded_path("clarify_held_out")):
        if task.id.startswith("clarify_missing"):
            names = task.functions[0].parameters["properties"]
            asked = question.format(" and the ".join(names))
            said = [*task.question[0], {"role": "assistant", "content": asked}]
            answers.add(RuleUser("plain")(said, {"task": task, "turn": 0}))
    assert answers <= set(REGISTERS["plain"]["unclear"])
