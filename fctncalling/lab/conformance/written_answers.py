"""Made answers, written as a model's handler has them, and the scorer of ours that reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fctncalling.cli.score.readings import Reading, ReadingFlags
from fctncalling.cli.shared.jsonl_records import InputError
from fctncalling.data.types import Call, Task
from fctncalling.envs.handlers import DecodeError, get_handler
from fctncalling.envs.handlers.registry import handler_for
from fctncalling.envs.judging.judge import judge
from fctncalling.lab.conformance.made_answers import ANSWER_FORM, task_of


class AnswerWriter:
    """Writer of made answers in the form of a handler of ours; what it cannot say is left out."""

    def __init__(self, flags: ReadingFlags) -> None:
        self.left_out = 0
        name = flags.handler or "auto"
        if name != "auto" and "Handler" in name:
            raise InputError(
                f"--handler {name}: here answers are written, too: name a handler of ours, such as "
                "hermes_calls"
            )
        self._handler = None if name == "auto" else get_handler(name)
        named = flags._replace(handler=None if name == "auto" else name)
        keeps = "keep" if flags.dots == "auto" else flags.dots  # as the answers are made
        self.reading = named._replace(dots=keeps).reading("", ())

    def written(self, task: Task, response: Any) -> Any:
        """Return a response in the form, None where it holds what the form cannot say."""
        if self._handler is None and not self.reading.underscores:
            return response
        try:
            if task.is_multi_turn:
                return [[self._text(task, step) for step in turn] for turn in response]
            return self._text(task, response)
        except ValueError:
            self.left_out += 1
            return None

    def _text(self, task: Task, text: str) -> str:
        try:
            calls: Sequence[Call] = handler_for(task, ANSWER_FORM).decode(text)
        except DecodeError:
            if task.kind in ("irrelevance", "relevance"):
                return text  # words, which hold no call in any form
            raise
        if self.reading.underscores and not task.executes_calls:
            if {each.name for each in calls} & _names_with_underscores_only(task):
                raise ValueError("a name that is wrong by its dots alone cannot be told any more")
            calls = [Call(each.name.replace(".", "_"), each.arguments) for each in calls]
        written = (self._handler or handler_for(task, ANSWER_FORM)).render(calls)
        decoder = self.reading.decoder
        if not decoder.is_default:
            read = json.loads(decoder.decode(written, self.reading.functions(task), executes=True))
            if read != [{each.name: json.dumps(dict(each.arguments))} for each in calls]:
                raise ValueError("its values would be read as others, by the types of the function")
        return written


def _names_with_underscores_only(task: Task) -> set[str]:
    """Return the names of functions with dots, with underscores in their place."""
    return {doc.name.replace(".", "_") for doc in task.functions if "." in doc.name}


class WrittenScorer:
    """Scorer of ours that reads answers as they were written."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def valid(self, record: Mapping[str, Any]) -> bool:
        """Return whether the answer of a line is valid."""
        task, answer = task_of(record), record["answer"]["text"]
        decoder = self._reading.decoder
        if not decoder.is_default:
            functions = self._reading.functions(task)
            answer = (
                [[decoder.decode(step, functions, executes=True) for step in t] for t in answer]
                if task.is_multi_turn
                else decoder.decode(answer, functions)
            )
        return judge(self._reading.task(task), answer, self._reading.form).valid
