"""Deterministic user that answers questions about the values of its task."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from fctncalling.checkers.clarify import Value, is_mentioned, split_words, spoken_value
from fctncalling.data.types import Message, Task
from fctncalling.envs.users.known_values import known_values

REGISTERS: Mapping[str, Mapping[str, Sequence[str]]] = json.loads(
    Path(__file__).with_name("registers.json").read_text(encoding="utf-8")
)
"""Register -> what is said -> its wordings."""
MIXED = "mixed"
OR = "or"
# what an agent asks for that is its own to know
_OF_THE_AGENT = re.compile(
    r"\b(functions?|calls?|tools?|arguments?|parameters?|json|code|python|syntax|prompts?|answers?|"
    r"solutions?|ground.?truth|instructions?|checkers?|tests?|rewards?)\b",
    re.IGNORECASE,
)
_ASKING = {"which", "what", "who", "whom", "whose", "where", "when", "how", "please", "could"} | {
    *("can", "would", "should", "do", "does", "is", "are", "may", "tell", "give", "say", "name"),
    *("specify", "provide", "clarify"),
}
_CALL_OPENS = re.compile(r"[\s`]*(?:[\[{<]|[\w.]+\()")  # behind it stands a call, read or not
_SHORT_FORMS = {"max": "maxim", "min": "minim", "num": "number"}
_ENDINGS = ("", "s", "es", "d", "ed", "ly", "ing")
_FUNCTION_WORD_LIST = """
a about all also am an and any anything are as at be been but by can clarify could detail
details did do does else everything exactly for from further get give given go had has have help
here how i if in info information into is it its just kindly know let like may me mean mind more
my need needed no not of ok okay on one ones or our out please provide say set shall should so
some something sorry specify sure tell thank thanks that the their them then there these they
thing things this those to too up us use used value values want was we were what when where
which who whom whose why will wish with would yes you your
"""
_JOINERS = frozenset("a also and as or plus the well what which your".split())
_FUNCTION_WORDS = frozenset(_FUNCTION_WORD_LIST.split())


class RuleUser:
    """User that follows rules: answers a question with one value, or with a reason why not.

    It knows `known_values` of its task. A question has to name what it asks for: the parameter (of
    several the first one named), or words that the description of this parameter alone has, or two
    candidates, one of which is the value ("low or high?"). Asked for less than that, or for a list
    of parameters of which it has said one already, the user asks back. It refuses to speak of
    functions, calls and the like, so that begging brings nothing but values. A message that asks
    nothing, or tries to call, it leaves to the script, and also a question that the task's next
    turn answers.

    `register` is how it speaks: one of `REGISTERS`, or "mixed", one drawn for each task. It draws
    from `seed` and the task alone: the same conversation gets the same answer.

    Raises ValueError for an unknown register.
    """

    def __init__(self, register: str = MIXED, *, seed: int = 0) -> None:
        if register not in (*REGISTERS, MIXED):
            raise ValueError(
                f'register "{register}": expected one of {", ".join((*REGISTERS, MIXED))}'
            )
        self.register = register
        self.seed = seed

    def __repr__(self) -> str:
        return f"rule:{self.register}"

    def __call__(self, conversation: list[Message], about: Mapping[str, Any]) -> str | None:
        """Answer the conversation's last message; None for the script's next turn."""
        task: Task = about["task"]
        turn = int(about["turn"])
        question = str(conversation[-1].get("content") or "")
        speaks = task.kind == "clarify" and bool(split_words(question))
        if _CALL_OPENS.match(question) or not (speaks or is_question(question)):
            return None
        values = known_values(task, turn)
        if _lists_what_was_said(question, values, conversation):
            return self._say("unclear", task, len(conversation))
        name = _asked(question, values, task)
        if name is not None and _is_said_next(task, turn, values[name]):
            return None
        if name is not None:
            return self._say("value", task, len(conversation), name=name, value=values[name])
        if turn + 1 < len(task.question):
            return None  # the script goes on, and may answer it
        return self._say(_why_not(question, task), task, len(conversation))

    def _say(self, what: str, task: Task, length: int, *, name: str = "", value: Value = "") -> str:
        draw = random.Random(f"{self.seed} {task.id}")
        register = self.register
        if register == MIXED:
            register = draw.choice(list(REGISTERS))
        wordings = REGISTERS[register][what]
        wording = wordings[(draw.randrange(len(wordings)) + length) % len(wordings)]
        return wording.format(name=" ".join(split_words(name)), value=spoken_value(value))


def is_question(text: str) -> bool:
    """Whether a message is a question."""
    words = split_words(text)
    return "?" in text or (bool(words) and not _ASKING.isdisjoint(words[:4]))


def _asked(question: str, values: Mapping[str, Value], task: Task) -> str | None:
    """Return the parameter that a question names; None if it names none or several."""
    if len(split_words(question)) < 2 and "?" not in question:
        return None
    named = _named(question, {*values, *_descriptions(task)})
    if named:
        return next((name for name in named if name in values), None)
    if _is_of_the_agent(question, task):
        return None
    offered = [name for name, value in values.items() if is_mentioned(value, question)]
    if len(offered) == 1 and OR in split_words(question):
        return offered[0]
    return _described(question, values, task) if is_question(question) else None


def _lists_what_was_said(
    question: str, values: Mapping[str, Value], conversation: Sequence[Message]
) -> bool:
    """Whether a question lists several parameters, one of them answered before.

    Such a question fits every request alike: whoever asks it has not read this one.
    """
    places = _places(question, values)
    listed: set[str] = set()
    for first, second in pairwise(sorted(places, key=lambda name: min(places[name]))):
        between = split_words(question)[max(places[first]) + 1 : min(places[second])]
        listed |= {first, second} if _JOINERS.issuperset(between) else set()
    answers = " ".join(str(m.get("content")) for m in conversation if m["role"] == "user")
    return any(is_mentioned(values[name], answers) for name in listed)


def _named(question: str, names: Collection[str]) -> list[str]:
    """Return the parameters with all words in a question, in the order of the question."""
    places = _places(question, names)
    return sorted(places, key=lambda name: (max(places[name]), name))


def _places(question: str, names: Collection[str]) -> dict[str, set[int]]:
    """Return the positions in a question of each parameter's words.

    A name within a longer one, as "city" in "departure city", is not meant. Names that are mere
    function words ("to") are meant only at the end.
    """
    words = split_words(question)
    positions: dict[str, set[int]] = {}
    for name in names:
        parts = split_words(name)
        places = range(len(words))
        if _FUNCTION_WORDS.issuperset(parts):
            places = places[-len(parts) :]
        matches = [[place for place in places if _alike(words[place], part)] for part in parts]
        if parts and all(matches):
            positions[name] = {match[0] for match in matches}
    return {
        name: places
        for name, places in positions.items()
        if not any(places < other for other in positions.values())
    }


def _described(question: str, values: Mapping[str, Value], task: Task) -> str | None:
    """Return the one parameter that a question describes by words of its name or description.

    None where none does, more than one, or one that the user does not know.

    A word that several parameters have counts less for each. Words of the request and of the
    functions do not count, as any question may have them.
    """
    request = [str(message.get("content", "")) for turn in task.question for message in turn]
    functions = [f"{doc.name} {doc.description}" for doc in task.functions]
    common = {*_FUNCTION_WORDS, *split_words(" ".join([*request, *functions]))}
    question_words = [word for word in split_words(question) if word not in common]
    texts = dict.fromkeys(values, "") | _descriptions(task)
    matched = {
        name: {word for word in question_words if any(_alike(word, part) for part in words)}
        for name, words in ((name, split_words(f"{name} {text}")) for name, text in texts.items())
    }
    shared = Counter(word for words in matched.values() for word in words)
    scores = {name: sum(1 / shared[word] for word in words) for name, words in matched.items()}
    best = max(scores.values(), default=0)
    first = [name for name, score in scores.items() if score == best > 0]
    return first[0] if len(first) == 1 and first[0] in values else None


def _descriptions(task: Task) -> dict[str, str]:
    """Return the descriptions of all parameters that a task offers, by name."""
    texts: dict[str, str] = {}
    for doc in task.functions:
        for name, declared in doc.parameters.get("properties", {}).items():
            text = str(declared.get("description", "")) if isinstance(declared, Mapping) else ""
            texts[name] = f"{texts.get(name, '')} {text}"
    return texts


def _alike(word: str, other: str) -> bool:
    """Whether two words differ only by an ending or an abbreviation: levels, maximum."""
    short, long = sorted((word, other), key=len)
    if short in _SHORT_FORMS and long.startswith(_SHORT_FORMS[short]):
        return True
    return long.startswith(short) and long[len(short) :] in _ENDINGS


def _is_said_next(task: Task, turn: int, value: Value) -> bool:
    following = task.question[turn + 1] if turn + 1 < len(task.question) else ()
    return any(is_mentioned(value, str(message.get("content", ""))) for message in following)


def _is_of_the_agent(text: str, task: Task) -> bool:
    """Whether a text mentions something that the agent has to know by itself."""
    return _OF_THE_AGENT.search(text) is not None or any(
        f"{doc.name}(" in text or ("_" in doc.name and doc.name in text) for doc in task.functions
    )


def _why_not(question: str, task: Task) -> str:
    if _is_of_the_agent(question, task):
        return "refusal"
    asks = is_question(question) and not _FUNCTION_WORDS.issuperset(split_words(question))
    return "unknown" if asks else "unclear"
