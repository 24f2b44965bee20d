"""What a failed answer has to mend: named causes, each with its cure."""

from __future__ import annotations

from dataclasses import dataclass

from fctncalling.data.types import Verdict

FORM_CURES = {
    "separator": (
        "Ask for one list, [f(a=1), g(b=2)]: commas between the calls, no line breaks, semicolons "
        "or bullets."
    ),
    "brackets": "One pair of brackets around all calls, and each call closed: [f(a=1), g(b=2)].",
    "wrong form": (
        "The model writes calls in a form of its own (JSON, tags): show it [f(a=1)] in the system "
        "message, or offer the tools by its chat template (`run --form tool_call`)."
    ),
    "fenced code": "Ask for the bare list: a fence of ```python is no part of an answer.",
    "text around the calls": "Ask for the calls alone, without a word before or after the list.",
    "reasoning in the answer": (
        "Cut the reasoning (up to </think>) off before the answer is stored, or turn it off."
    ),
    "code instead of calls": (
        "The model writes a program: ask for calls alone, without assignments, print or def."
    ),
    "positional arguments": "Ask for named arguments, f(a=1): positional ones are dropped.",
    "tags missing": "Ask for the tags of the task's format around the list of calls.",
    "truncated": (
        "The answer ends in the middle: raise the limit of new tokens, or shorten reasoning."
    ),
    "unreadable call": (
        "An argument is no literal (a sum of names, an f-string, a keyword such as from=): ask for "
        "literal values."
    ),
}
"""Causes in how an answer is written -> what to change."""

CURES = {
    **FORM_CURES,
    "never called": (
        "The model answers in words: check that the functions are in the prompt it was given, and "
        "that it is instructed to answer with a call."
    ),
    "too few calls": "One call for each thing that is asked, all in one answer: show an example.",
    "too many calls": "Ask for no call beyond those that the question needs.",
    "misspelt function": "Have the function's name copied letter by letter, dots included.",
    "wrong function": "The model picks another function: look at the descriptions it chose by.",
    "missing argument": "Name the parameters that must be given although they look optional.",
    "unexpected argument": (
        "Optional parameters that the question does not mention are to be left out."
    ),
    "wrong type": (
        "Values of the documented types: 5 and not '5', True and not 'true', ['a'] and not 'a'."
    ),
    "wrong argument": (
        "The form is right and the value is not: this is what training, or a better model, mends."
    ),
    "call order": (
        "The checker takes the first call that fits; the same calls in the truth's order pass."
    ),
    "called without need": "Tell the model to say in words that no function fits, with no call.",
    "stopped early": (
        "The turn ended before all its calls were made: let the model go on after results, until "
        "nothing is left to do."
    ),
    "no call in the turn": "The model answered a turn in words where calls were expected.",
    "missing call": "A call of the truth was never made.",
    "extra call": "A call beyond the truth's changed the state: ask for no more than is needed.",
    "step limit": "The model never ended its turn: it has to answer in words when it is done.",
    "turns missing": "The dialogue ended before its last turn: look for crashes and time limits.",
    "too many turns": "More turns than the task has: are the answers of another version's tasks?",
    "inference error": "The model's server failed: the text of the error stands in the answer.",
    "context overflow": "The dialogue outgrew the context: a longer one, or shorter tool docs.",
    "wrong answer": "The last message mentions none of the accepted answers.",
    "answer not in the last message": "The answer was given earlier: the last message counts.",
    "never answered": "Every message calls a function: the answer has to come without a call.",
    "faulty ground truth": (
        "No answer passes, whatever it says (`lint` tells why): leave the task out of account."
    ),
}
"""Cause -> what to change, in one or two sentences."""


@dataclass(frozen=True)
class Diagnosis:
    """One judged answer: where it is wrong, all that has to be mended, what came near it."""

    verdict: Verdict
    causes: tuple[str, ...] = ()  # what has to be mended, the first thing first
    where: tuple[str, ...] = ()  # parameters, functions or attributes of the first cause
    complaint: str = ""  # the decoder's, the checker's or a tool's
    answer: str = ""  # as text, for the reader
    nearest: str | None = None  # an answer that passes, as near to it as was found
    turn: int | None = None  # the first that fails, from 0; None where there are no turns
    form_suffices: bool = False  # it passes once it is written as the decoder wants it
    types_suffice: bool = False  # it passes once its form and its argument types are mended

    @property
    def cause(self) -> str:
        """What to mend first; "" where the answer is right."""
        return self.causes[0] if self.causes else ""
