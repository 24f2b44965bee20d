"""RuleUser: a deterministic user that answers questions about the values of its task."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fctncalling.checkers.said_values import Value, is_said, spoken, words_of
from fctncalling.data.types import Message, Task
from fctncalling.envs.users.known_values import known_values

REGISTERS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "plain": {
        "value": ("{value}", "the {name} is {value}"),
        "unknown": ("i do not know that",),
        "unclear": ("what would you like to know",),
        "refusal": ("i only know what i want not how you do it",),
    },
    "curt": {
        "value": ("{value}.",),
        "unknown": ("No idea.",),
        "unclear": ("What do you mean?",),
        "refusal": ("That is your job.",),
    },
    "polite": {
        "value": (
            "Thank you for asking: {value}, please.",
            "Of course. The {name} should be {value}, please.",
        ),
        "unknown": ("I am sorry, I do not know that.",),
        "unclear": ("I am sorry, what would you like to know?",),
        "refusal": ("I am sorry, I only know what I want, not how you do it.",),
    },
    "chatty": {
        "value": (
            "Oh, did I forget that? I had {value} in mind, as always on days like this.",
            "Good question! My neighbour asked me the same. {value} would be it, I think.",
        ),
        "unknown": ("Hm, nobody has ever asked me that. I really cannot say.",),
        "unclear": ("Sorry, I was not listening. What did you want to know?",),
        "refusal": ("Ha, if I knew how these things work I would not need you!",),
    },
}
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


class RuleUser:
    """A user that answers a question with one value, or says why not.

    It knows `known_values` of its task. Of a question that names parameters it answers the first
    one named; of one that names none, the value that it offers ("low or high?"), or else the one
    that nobody has said yet ("what do you mean?"), if there is just one. It refuses to speak of
    functions, calls and the like, so that begging brings nothing but values. A message that asks
    nothing it leaves to the script, and also a question that the task's next turn answers.

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
        """Return the answer to the conversation's last message; None for the script's next turn."""
        task: Task = about["task"]
        turn = int(about["turn"])
        question = str(conversation[-1].get("content") or "")
        asks = is_question(question)
        if not asks and (task.kind != "clarify" or not _speaks(question)):
            return None
        known = known_values(task, turn)
        name = self._asked(question, known, task, conversation)
        if name is not None and _is_said_next(task, turn, known[name]):
            return None
        if name is not None:
            return self._say("value", task, len(conversation), name=name, value=known[name])
        if turn + 1 < len(task.question):
            return None  # the script goes on, and may answer it
        return self._say(_why_not(question, task), task, len(conversation))

    def _asked(
        self,
        question: str,
        known: Mapping[str, Value],
        task: Task,
        conversation: Sequence[Message],
    ) -> str | None:
        """Return the parameter that a question is about; None where it is about none that the user
        knows.
        """
        if (named := _first_named(question, list(known))) is not None:
            return named
        if _first_named(question, _parameters(task)) or _is_of_the_agent(question, task):
            return None
        offered = [name for name, value in known.items() if is_said(value, question)]
        if len(offered) == 1 and OR in words_of(question):
            return offered[0]
        said = " ".join(str(m.get("content", "")) for m in conversation if m["role"] == "user")
        open_ones = [name for name, value in known.items() if not is_said(value, said)]
        return open_ones[0] if len(open_ones) == 1 else None

    def _say(self, what: str, task: Task, length: int, *, name: str = "", value: Value = "") -> str:
        draw = random.Random(f"{self.seed} {task.id}")
        register = self.register
        if register == MIXED:
            register = draw.choice(list(REGISTERS))
        wordings = REGISTERS[register][what]
        wording = wordings[(draw.randrange(len(wordings)) + length) % len(wordings)]
        return wording.format(name=" ".join(words_of(name)), value=spoken(value))


def is_question(text: str) -> bool:
    """Whether a message asks something."""
    words = words_of(text)
    return "?" in text or (bool(words) and not _ASKING.isdisjoint(words[:4]))


def _first_named(question: str, names: Sequence[str]) -> str | None:
    """Return the parameter whose words occur first in a question, plurals included."""
    words = words_of(question)
    words = [word for each in words for word in (each, each.removesuffix("s"))]
    found = {
        name: max(words.index(part) for part in parts)
        for name in names
        if (parts := [part.removesuffix("s") for part in words_of(name)])
        and all(part in words for part in parts)
    }
    return min(found, key=lambda name: found[name], default=None)


def _parameters(task: Task) -> list[str]:
    return [name for doc in task.functions for name in doc.parameters.get("properties", {})]


def _is_said_next(task: Task, turn: int, value: Value) -> bool:
    following = task.question[turn + 1] if turn + 1 < len(task.question) else ()
    return any(is_said(value, str(message.get("content", ""))) for message in following)


def _speaks(text: str) -> bool:
    """Whether a message has words of its own: a call that cannot be read is no question."""
    return bool(words_of(text)) and not any(mark in text for mark in "[](){}<>")


def _is_of_the_agent(text: str, task: Task) -> bool:
    """Whether a text speaks of what an agent has to know by itself."""
    return _OF_THE_AGENT.search(text) is not None or any(
        f"{doc.name}(" in text or ("_" in doc.name and doc.name in text) for doc in task.functions
    )


def _why_not(question: str, task: Task) -> str:
    if _is_of_the_agent(question, task):
        return "refusal"
    return "unknown" if is_question(question) and len(words_of(question)) > 1 else "unclear"
