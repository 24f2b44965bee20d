"""Readings: the decoder and spelling of a model's answers, and their source."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from fctncalling.cli.score.answer_decoders import (
    DEFAULTS,
    OPENAI,
    AnswerDecoder,
    answer_decoder,
    is_openai_call,
    own_text_decoders,
)
from fctncalling.cli.shared.jsonl_records import InputError
from fctncalling.data.types import FunctionDoc, Task
from fctncalling.envs.conversations import task_for_form
from fctncalling.envs.handlers import HANDLERS, DecodeError, bears_call
from fctncalling.envs.handlers.handler import split_thought
from fctncalling.envs.handlers.registry import detect_handler

SPELLINGS = ("keep", "underscore", "auto")
_TABLE = Path(__file__).with_name("leaderboard_models.json")
_JSON_KEYS = {"tool_name": "CohereHandler", "name": "MiningHandler"}
"""Key of a call in a list -> the handler's class that reads such lists."""


class LeaderboardModel(NamedTuple):
    """Entry of the leaderboard's package about a model's answers."""

    handler: str  # class of the package
    holds: str  # what lines hold: "text" or "lists"
    dots: str
    release: str


@cache
def leaderboard_models() -> dict[str, LeaderboardModel]:
    """Return name of a model's result folder -> how it is read, of the newest release."""
    found: dict[str, LeaderboardModel] = {}
    for release, groups in json.loads(_TABLE.read_text("utf-8")).items():
        for each in groups:
            known = LeaderboardModel(each["handler"], each["holds"], each["dots"], release)
            found |= {model: known for model in each["models"] if model not in found}
    return found


class Reading(NamedTuple):
    """Reading of a model's answers: decoder, spelling, and who chose them."""

    decoder: AnswerDecoder
    underscores: bool  # whether dots of names are expected as underscores
    source: str  # "flag", "answers", "record", "default", or a release of the leaderboard

    @property
    def form(self) -> str:
        """The form in which `judge` takes what is read."""
        keeps = self.decoder.form == "tool_call" and not self.underscores
        return "tool_call_dots" if keeps else self.decoder.form

    @property
    def is_official(self) -> bool:
        """Whether decoder and spelling were given: by a release, or by the user."""
        return self.source not in ("default", "answers")

    @property
    def is_told(self) -> bool:
        """Whether a table explains how the answers were read, since none of their lines does."""
        return self.source != "record"

    def task(self, task: Task) -> Task:
        """Return the task for judging, with names as the model spells them."""
        renamed = self.underscores and self.decoder.form == "prompting"
        return task_for_form(task, "tool_call") if renamed else task

    def functions(self, task: Task) -> Sequence[FunctionDoc]:
        """Return the functions on offer, for decoders that need types of values."""
        if self.decoder.handler is None:
            return ()
        return (task_for_form(task, "tool_call") if self.underscores else task).functions

    @property
    def takes_texts(self) -> bool:
        """Whether answers are read as texts of the model; else as tool calls of an interface."""
        return (
            self.decoder.form == "prompting"
            or self.decoder.takes_text
            or bool(self.decoder.handler)
        )

    def words(self) -> str:
        """Return what reads the answers, in words."""
        name, names = self.decoder.name, "underscores for dots" if self.underscores else "dots kept"
        if self.source == "default":
            is_usual = self.underscores == (self.decoder.form == "tool_call")
            return f"BFCL's default decoder{'' if is_usual else f', {names}'}"
        told = {"flag": "as asked", "answers": "found in the answers", "record": "as recorded"}
        return f"{name}, {names} ({told.get(self.source, f'leaderboard {self.source}')})"


def add_reading_arguments(parser: argparse._ActionsContainer) -> None:
    """Add the flags that choose how answers are read."""
    handler = (
        "of bfcl-eval (such as QwenFCHandler) or of ours (hermes_calls) that reads the answers; "
        "auto: found in them; default: the model's own, where its folder's name is known"
    )
    dots = "of functions' names in the answers; default: as the handler sends them"
    parser.add_argument("--handler", metavar="NAME", help=handler)
    parser.add_argument("--dots", choices=SPELLINGS, default="auto", help=dots)


class ReadingFlags(NamedTuple):
    """Flags of the command line that choose how answers are read."""

    handler: str | None = None
    dots: str = "auto"
    form: str | None = None

    @classmethod
    def of(cls, args: argparse.Namespace) -> ReadingFlags:
        """Return the flags among parsed arguments; InputError for an unknown handler."""
        flags = cls(args.handler, args.dots, getattr(args, "form", None))
        if flags.form and flags.handler:
            raise InputError("--form and --handler both say how answers are read: name one")
        if flags.handler not in (None, "auto"):
            flags._decoder(flags.handler or "", "text")
        return flags

    @property
    def names_reading(self) -> bool:
        """Whether the user chose the decoder; then only an empty reading raises a doubt."""
        return bool(self.form) or self.handler not in (None, "auto")

    def reading(self, model: str, answers: Iterable[Any], recorded: str | None = None) -> Reading:
        """Return how a model's answers are read; `recorded`: the form that their lines name."""
        sample = list(answers)
        holds = _held_form(sample)
        known = leaderboard_models().get(model) if not self.form else None
        if self.form:
            decoder, source = DEFAULTS[self.form], "flag"
        elif self.handler not in (None, "auto"):
            decoder, source = self._decoder(self.handler or "", holds), "flag"
            if self.handler == "tool_calls" and _holds_openai_calls(sample):
                decoder = OPENAI
        elif recorded and not (self.handler and recorded != "decoded_calls"):
            decoder, source = DEFAULTS[recorded.removesuffix("_dots")], "record"
        elif known:
            decoder, source = answer_decoder(known.handler, known.holds), known.release
        elif self.handler:
            decoder, source = _found_decoder(sample, holds), "answers"
        else:
            decoder = DEFAULTS["tool_call" if holds == "lists" else "prompting"]
            source = "default"
        underscores = decoder.form == "tool_call" and recorded != "tool_call_dots"
        of_class = {e.dots for e in leaderboard_models().values() if e.handler == decoder.name}
        if self.dots != "auto":
            underscores = self.dots == "underscore"
        elif known and source != "record":
            underscores = known.dots == "underscore"
        elif source == "flag" and len(of_class) == 1:
            underscores = of_class == {"underscore"}
        elif source == "answers" or (source == "flag" and not decoder.is_default):
            names = list(_called_names(decoder, sample))
            underscores = not any("." in name for name in names) if names else underscores
        return Reading(decoder, underscores, source)

    @staticmethod
    def _decoder(name: str, holds: str) -> AnswerDecoder:
        classes = sorted({each.handler for each in leaderboard_models().values()})
        try:
            if "Handler" in name and name not in classes:
                raise LookupError(name)
            return answer_decoder(name, holds)
        except LookupError:
            ours = [each for each in HANDLERS if each.endswith("_calls")]
            near = get_close_matches(name, [*classes, *ours], 3, 0.0)
            raise InputError(
                f"--handler {name}: no handler is called so: expected auto, a handler's class in "
                f"bfcl-eval or a handler of ours, such as {', '.join(near)}"
            ) from None


def _found_decoder(sample: list[Any], holds: str) -> AnswerDecoder:
    """Return the decoder of most of the answers that call something."""
    if holds == "lists" and _holds_openai_calls(sample):
        return OPENAI
    if holds == "lists":
        calls = [each for each in _leaves(sample) if isinstance(each, dict) and each]
        keys = Counter(next((key for key in _JSON_KEYS if key in each), "") for each in calls)
        if key := keys.most_common(1)[0][0]:
            return answer_decoder(_JSON_KEYS[key], "lists")
        as_text = [isinstance(next(iter(each.values())), str) for each in calls]
        return DEFAULTS["tool_call"] if 2 * sum(as_text) >= len(as_text) else _NOVA
    texts = [each for each in _leaves(sample) if isinstance(each, str)]
    of_openai = [_holds_openai_calls([text]) for text in texts]
    if 2 * sum(of_openai) > sum(map(holds_calls, texts)):
        return OPENAI
    found: Counter[str] = Counter()
    found.update(name for text in texts if (name := _handler_that_reads(text)))
    if not found:  # none of ours reads any: perhaps a handler of the leaderboard does
        for decoder in own_text_decoders():
            found[decoder.name] = sum(any(map(any, _calls(decoder, text))) for text in texts)
    name, count = found.most_common(1)[0] if found else ("", 0)
    return answer_decoder(name if count else "python_calls", "text")


def _held_form(sample: Sequence[Any]) -> str:
    """Return what most answers with calls hold: "lists", as interfaces return them, or "text".

    Chat says nothing: models of either form chat where no function fits. Of as many, "text".
    """
    num_lists = sum(map(holds_objects, sample))
    texts = (each for each in sample if num_lists and not holds_objects(each))
    num_texts = sum(holds_calls(each) or any(map(_bears_call, _leaves(each))) for each in texts)
    return "lists" if num_lists > num_texts else "text"


def _bears_call(text: Any) -> bool:
    return isinstance(text, str) and bears_call(text)


def holds_objects(answer: Any) -> bool:
    """Whether an answer holds objects, as an interface returns calls; else it is text alone."""
    return any(isinstance(each, dict) for each in _leaves(answer))


def holds_calls(answer: Any) -> bool:
    """Whether a handler of ours, or OpenAI's form, finds calls in an answer."""
    return _holds_openai_calls([answer]) or any(map(_handler_that_reads, _leaves(answer)))


def _handler_that_reads(text: Any) -> str | None:
    """Return the name of the handler of ours that finds calls in a text; None without."""
    rest = split_thought(text).rest if isinstance(text, str) else ""
    handler = detect_handler(rest)
    try:
        return handler.name if handler.decode_action(rest).record else None
    except DecodeError:
        return None


def _holds_openai_calls(sample: list[Any]) -> bool:
    """Whether most calls of the answers are as OpenAI's interface returns them, or their text."""
    calls = [
        each for each in _leaves(list(map(_loaded, _leaves(sample)))) if isinstance(each, dict)
    ]
    return 2 * sum(map(is_openai_call, calls)) > len(calls)


def _loaded(answer: Any) -> Any:
    """Return the list of an answer that is its JSON text; other answers unchanged."""
    if not (isinstance(answer, str) and answer.lstrip().startswith("[")):
        return answer
    try:
        return json.loads(answer)
    except (ValueError, RecursionError):
        return answer


_NOVA = answer_decoder("NovaHandler", "lists")


def _called_names(decoder: AnswerDecoder, sample: list[Any]) -> Iterator[str]:
    """Yield the names of functions that answers call."""
    for answer in sample if decoder.form == "tool_call" else ():
        for call in _calls(decoder, answer):
            yield from map(str, call if isinstance(call, dict) else ())


def _calls(decoder: AnswerDecoder, answer: Any) -> list[Any]:
    """Return the calls that a decoder of the form "tool_call" reads in an answer."""
    text = json.dumps(answer) if decoder.is_default else decoder.decode(answer)
    try:
        calls = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return calls if isinstance(calls, list) else []


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    else:
        yield value
