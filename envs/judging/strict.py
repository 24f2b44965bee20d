"""Strict verdict: finds the leniency of BFCL that an answer needed.

Every leniency has an error type of its own, "strict:" and its name; the message says which step and
what it was.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from fctncalling.checkers import check
from fctncalling.checkers.python_values import Fault, prepare_python_argument
from fctncalling.checkers.strict_checker import strict_answer_fault, strict_calls_fault
from fctncalling.data.format_sensitivity import PromptVariant
from fctncalling.data.types import Call, FunctionDoc, StepRecord, Task, Verdict
from fctncalling.envs.handlers import DecodeError, split_thought
from fctncalling.envs.handlers.handler import UNREAD
from fctncalling.envs.handlers.registry import PROMPTING, detect_handler
from fctncalling.envs.handlers.return_formats import CLOSE_TAG, OPEN_TAG
from fctncalling.envs.python_source.call_source import parse_expression

_WORD = re.compile(r"\w+")
_MIN_LETTERS = 3  # of a word taken as mentioned: shorter ones occur in any text
_SAMPLE = frozenset({"value", "string", "text", "true", "false", "none", "the", "and", "for"})
_MAX_NAMED = 3  # words of what any question may consist of: a name, a place
_QUERY = ("query", "question", "search", "prompt", "message", "text", "translat", "keyword")
_ENOUGH = 2  # mentions; one common word of the question is in reach of anybody
_NOTHING = re.compile(r"\[\s*(?:(?:None|null)\s*)?\]")  # a list without a call
_MERE_BRACKETS = re.compile(r"\s*\[[\w\s.,;:/-]*\]\s*\w")  # "[ls] cannot do that": words, no call
# "[ls(a=1), cd] there is no cd": refused in words, where a turn waits for a function
_REFUSED_NAME = re.compile(r"\s*\[(?:.*,\s*)?[\w.]+\]\s+\w", re.DOTALL)
_FORMAT = re.compile(r"\b(?:YYYY|DD|HH:MM)\b")  # of a date or time, in a description


def arbitrary_call_fault(
    calls: Sequence[Call], functions: Sequence[FunctionDoc], question: str
) -> Fault | None:
    """Return the fault of calls with arguments that the question does not ask for, or None.

    Arguments do not fit the docs (type, enum, a date without digits), one text serves for two of
    them or repeats most of the question where no query is taken, or they mention too little of it.

    A number, a name or two words of the question are enough. A call without arguments is right
    where its function has no parameters that are required.

    Do calls have anything to do with the question, where no right one is written down (relevance)?
    """
    docs = {doc.name.replace(".", "_"): doc for doc in functions}
    for call in calls:
        doc = docs.get(call.name.replace(".", "_"))
        if doc is None:
            return _arbitrary(f"{call.name} is not offered")
        documented = doc.parameters.get("properties", {})
        missing = [
            name for name in doc.parameters.get("required", ()) if name not in call.arguments
        ]
        unknown = [name for name in call.arguments if name not in documented]
        if missing or unknown:
            return _arbitrary(f"{call.name}: missing {missing}, unknown {unknown}"[:300])
        for name, value in call.arguments.items():
            if misfit := _misfit(value, documented[name]):
                return _arbitrary(f"{call.name}: {name} is {misfit}")
        texts = [value for value in call.arguments.values() if isinstance(value, str) and value]
        if len(set(texts)) < len(texts):
            return _arbitrary(f"{call.name}: one text for two parameters")
        if any(_repeats(text, question) for text in texts) and not _takes_query(doc):
            return _arbitrary(f"{call.name}: a text repeats most of the question")
        if call.arguments and _mentions(call, question, docs) < _ENOUGH:
            return _arbitrary(f"{call.name}: its arguments say too little of the question")
    return None


def _repeats(text: str, question: str) -> bool:
    """Whether a text of several words has more than half of the question's words."""
    words, asked = _WORD.findall(text.casefold()), _WORD.findall(question.casefold())
    return len(words) > _MAX_NAMED and len(Counter(words) & Counter(asked)) * 2 > len(set(asked))


def _takes_query(doc: FunctionDoc) -> bool:
    """Whether a function takes a query in words, by the names of it and its parameters."""
    names = (doc.name, *doc.parameters.get("properties", {}))
    return any(word in name.casefold() for name in names for word in _QUERY)


def _arbitrary(message: str) -> Fault:
    return Fault("strict:arbitrary_call", message)


def _misfit(value: Any, declared: Mapping[str, Any]) -> str | None:
    """Return why a value does not fit its parameter; None if it may."""
    try:
        argument, expected, _ = prepare_python_argument(value, declared)
    except ValueError:  # a documented type that is none of ours
        argument, expected = value, object
    if not isinstance(argument, expected) and declared.get("type") != "any":
        return f"of type {type(value).__name__}"
    listed = declared.get("enum")
    if isinstance(listed, list) and listed and value not in listed and value != "":
        return f"none of {listed}"[:200]
    dated = isinstance(value, str) and _FORMAT.search(str(declared.get("description", "")))
    return "no date or time" if dated and value and not any(map(str.isdigit, value)) else None


def _mentions(call: Call, question: str, functions: Iterable[str]) -> int:
    """Count how much of the question the arguments of a call mention, up to `_ENOUGH`.

    A number, or a word with a capital in mid-sentence, counts two; any other word one, and a true
    flag that the question names.
    """
    for name in functions:  # what the question says of functions is no value
        question = re.sub(rf"\b{re.escape(name)}\b", " ", question)
    words = set(_WORD.findall(question.casefold())) - _SAMPLE
    names = {name.casefold() for name in re.findall(r"(?<=[a-z,] )[A-Z]\w+", question)}
    mentioned = set[str]()
    count = 0
    for parameter, value in call.arguments.items():
        for leaf in _leaves(value):
            if leaf is True:
                mentioned |= {*_WORD.findall(parameter.replace("_", " ").casefold())} & words
            elif isinstance(leaf, bool) or leaf is None:
                continue
            elif isinstance(leaf, int | float):
                count += _ENOUGH * (str(leaf).removesuffix(".0") in words)
            else:
                mentioned |= {*_WORD.findall(str(leaf).casefold())} & words
                # scripts that set no blanks between words
                count += _ENOUGH * (not str(leaf).isascii() and str(leaf) in question)
    mentioned = {word for word in mentioned if len(word) >= _MIN_LETTERS or word.isdigit()}
    return count + sum(_ENOUGH if word in names or word.isdigit() else 1 for word in mentioned)


def _leaves(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]


MAX_CALLS = (6, 2)  # of a turn: so many, and so many for each call of its ground truth
MAX_TRIES = 3  # calls of one function with other arguments, beyond those of the ground truth
_MAX_OBJECTS = 100  # of a text that are looked at for keys that stand twice


LENIENCIES = {
    "unread_calls": "calls that cannot be read pass for no call, or for a question",
    "call_while_function_withheld": "a call in the turn that waits for a function not offered yet",
    "call_in_empty_turn": "calls in any other turn whose ground truth is empty",
    "function_not_offered": "calls of functions that do not exist or are not offered yet",
    "nested_call": "a call as an argument of another, which BFCL's checkers never see",
    "lenient_syntax": "no Python: bare names as strings, positional arguments dropped, +5 as -5, "
    "sums computed, brackets or fences mended",
    "repeated_key": "a key twice in a JSON object, of which all but the last are dropped",
    "needless_calls": "far more calls in a turn than its ground truth has, or many tries of one",
    "changed_number": 'a number that is right only without its punctuation, "1.2" for "12"',
    "dropped_punctuation": "a text that is right only without its blanks and punctuation",
    "punctuation_for_nothing": 'punctuation, "---", for an omitted text',
    "arbitrary_call": "any call where the right one is nowhere written down: its arguments do not "
    "fit their docs, or say too little of the question",
    "answer_outside_field": "an agentic answer that stands outside the field for it",
    "answer_denied": "an agentic answer that is mentioned, and denied",
    "answer_among_others": "an agentic answer that is mentioned among others",
}
"""Name behind "strict:" -> what BFCL forgives, in the order in which it is looked for."""


def strict_verdict(task: Task, steps: Sequence[StepRecord], official: Verdict) -> Verdict:
    """Return the official verdict, or the first of LENIENCIES that it relied on."""
    if not official.valid or task.is_memory_prerequisite:
        return official
    fault = _unread_calls(task, steps) or _first_of_turns(task, steps) or _answer_fault(task, steps)
    return official if fault is None else Verdict(False, 0.0, *fault, official.per_turn)


def first_leniency_in_turn(task: Task, steps: Sequence[StepRecord], turn: int) -> str | None:
    """Return the first leniency that calls in a turn relied on, as an error type.

    None if they relied on none.
    """
    here = [step for step in steps if step.turn == turn]
    fault = _unread_calls(task, here) or _first_of_turns(task, here)
    return None if fault is None else fault.error_type


def _unread_calls(task: Task, steps: Sequence[StepRecord]) -> Fault | None:
    """Return the fault of unreadable calls in a message that should be words or a question."""
    for index, step in enumerate(steps):
        tried = step.error in UNREAD
        if not step.calls and step.error != "unread_call" and _is_refusal(task, _spoken(step)):
            continue
        if task.kind == "irrelevance":
            tried |= bool(step.calls)  # which BFCL did not read
        elif task.kind == "clarify":
            tried = not step.calls and (tried or PROMPTING.recognises(step.text))
        elif not _calls_in_empty_turn(task, step):
            continue
        if tried:
            message = f"step {index} (turn {step.turn}): {step.text[:200]!r}"
            return Fault("strict:unread_calls", message)
    return None


def _is_refusal(task: Task, text: str) -> bool:
    """Whether a text that begins with a bracket is a refusal: words, or an empty list of calls."""
    if _MERE_BRACKETS.match(text) or _NOTHING.fullmatch(text.strip()):
        return True
    return task.is_multi_turn and _REFUSED_NAME.match(text) is not None


def _spoken(step: StepRecord) -> str:
    """Return the text of a step without its thoughts."""
    return split_thought(step.text).rest


def _first_of_turns(task: Task, steps: Sequence[StepRecord]) -> Fault | None:
    """Return the first leniency that calls of any turn relied on."""
    rules: dict[str, Callable[[Task, StepRecord], bool]] = {
        "call_while_function_withheld": _calls_while_withheld,
        "call_in_empty_turn": _calls_in_empty_turn,
        "function_not_offered": _calls_what_is_not_offered,
        "nested_call": lambda _, step: any(map(_nested_names, step.executed)),
        "lenient_syntax": _is_leniently_read,
        "repeated_key": lambda _, step: (
            detect_handler(_spoken(step)) is not PROMPTING and _repeats_a_key(_spoken(step))
        ),
    }
    for name, forgiven in rules.items():
        for index, step in enumerate(steps):
            if step.calls and forgiven(task, step):
                message = f"step {index} (turn {step.turn}): {step.text[:200]!r}"
                return Fault(f"strict:{name}", message)
    return _needless_calls(task, steps)


def _answer_fault(task: Task, steps: Sequence[StepRecord]) -> Fault | None:
    """Return the leniency that the values of a single-turn or agentic answer relied on."""
    kind = task.kind
    if kind == "agentic":
        last = next((_spoken(step) for step in reversed(steps) if not step.calls), "")
        if last:
            return strict_answer_fault(last, task.ground_truth or (), _question_text(task))
        return None
    if kind not in ("simple", "multiple", "parallel", "relevance"):
        return None
    calls = [call for step in steps for call in step.calls]
    if kind == "relevance":
        return arbitrary_call_fault(calls, task.functions, _question_text(task))
    record = [{call.name: dict(call.arguments)} for call in calls]
    # names as they are, or as restricted interfaces want them
    for underscore_to_dot in (False, True):
        if check(task, record, underscore_to_dot=underscore_to_dot).valid:
            return strict_calls_fault(task, record, underscore_to_dot=underscore_to_dot)
    return None  # what was judged is no record of these calls: nothing can be said


def _question_text(task: Task) -> str:
    return " ".join(str(message.get("content", "")) for turn in task.question for message in turn)


def _withheld(task: Task, turn: int) -> set[str]:
    """Return the functions that are not yet offered in a turn."""
    return {name for at, names in task.missed_functions.items() if at > turn for name in names}


def _expected(task: Task, turn: int) -> set[str]:
    """Return the functions that a turn's ground truth calls.

    A few call one before it is offered.
    """
    truth = (task.ground_truth or ())[turn] if task.is_multi_turn else ()
    return {function_of(str(text)) for text in truth}


def function_of(call: str) -> str:
    """Return the function name of a call string."""
    return call.partition("(")[0].strip()


def _calls_while_withheld(task: Task, step: StepRecord) -> bool:
    return _calls_in_empty_turn(task, step) and step.turn + 1 in task.missed_functions


def _calls_in_empty_turn(task: Task, step: StepRecord) -> bool:
    return task.is_multi_turn and not (task.ground_truth or ())[step.turn]


def _calls_what_is_not_offered(task: Task, step: StepRecord) -> bool:
    withheld = _withheld(task, step.turn) - _expected(task, step.turn)
    documented = {doc.name for doc in task.functions}
    # interfaces with restricted names are offered an underscore for a dot
    if not task.is_multi_turn:
        documented |= {name.replace(".", "_") for name in documented}
    nested = {name for text in step.executed for name in _nested_names(text)}
    return bool(nested & withheld) or any(
        call.name not in documented - withheld for call in step.calls
    )


def _nested_names(text: str) -> list[str]:
    """Return the functions called inside the arguments of an executed call."""
    if text.count("(") < 2:
        return []
    try:
        tree = parse_expression(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return []
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node is not tree]
    return [ast.unparse(call.func) for call in calls]


def _needless_calls(task: Task, steps: Sequence[StepRecord]) -> Fault | None:
    if not task.is_multi_turn:
        return None
    for turn in sorted({step.turn for step in steps}):
        here = [step for step in steps if step.turn == turn]
        count = sum(max(len(step.calls), len(step.executed)) for step in here)
        truth = [str(text) for text in (task.ground_truth or ())[turn]]
        if count > MAX_CALLS[0] + MAX_CALLS[1] * len(truth):
            message = f"turn {turn}: {count} calls where its ground truth has {len(truth)}"
            return Fault("strict:needless_calls", message)
        tried = Counter(call.name for call in distinct_calls(here))
        for name, expected in Counter(map(function_of, truth)).items():
            if tried[name] > expected + MAX_TRIES:
                message = f"turn {turn}: {name} tried with {tried[name]} arguments for {expected}"
                return Fault("strict:needless_calls", message)
    return None


def distinct_calls(steps: Sequence[StepRecord]) -> list[Call]:
    """Return the distinct calls of steps, in order."""
    calls: list[Call] = []
    for call in (call for step in steps for call in step.calls):
        calls += [] if call in calls else [call]
    return calls


def _is_leniently_read(task: Task, step: StepRecord) -> bool:
    variant = task.extra.get("prompt_variant")
    if isinstance(variant, PromptVariant) and (variant.tagged or variant.return_format != "python"):
        return False
    source = _python_source(step) if task.language == "python" else None
    if source is None:
        return False
    try:
        return _tree(source) != _tree(PROMPTING.render(step.calls))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return True  # as it stands, it is no Python: something was mended


def _python_source(step: StepRecord) -> str | None:
    """Return the Python source of a step's calls; None if they had another form.

    What reads as the same calls in Python is Python, whatever marks of other forms stand in it.
    """
    text = _spoken(step).strip()
    handler = detect_handler(text)
    if handler is PROMPTING:
        return text if "(" in text else None
    with suppress(DecodeError):
        if PROMPTING.decode(text) == list(step.calls):
            return text
    if handler.name in ("llama_pythonic_calls", "lfm2_calls"):
        return text[text.find("[") : text.rfind("]") + 1]
    if handler.name == "bfcl_python_tagged":
        return text.partition(OPEN_TAG)[2].partition(CLOSE_TAG)[0].strip()
    return None


def _tree(text: str) -> list[str]:
    body = parse_expression(text)
    return [
        ast.dump(node) for node in (body.elts if isinstance(body, ast.List | ast.Tuple) else [body])
    ]


def _repeats_a_key(text: str) -> bool:
    """Whether a JSON object in a text, or in a string within it, has a key twice."""
    repeated = False

    def read(pairs: list[tuple[str, Any]]) -> None:
        nonlocal repeated
        repeated |= len({key for key, _ in pairs}) < len(pairs)
        repeated |= any(isinstance(value, str) and _repeats_a_key(value) for _, value in pairs)

    decoder = json.JSONDecoder(object_pairs_hook=read)
    place = -1
    for _ in range(_MAX_OBJECTS):
        place = text.find("{", place + 1)
        if place < 0 or repeated:
            break
        try:
            _, place = decoder.raw_decode(text, place)
            place -= 1
        except (ValueError, RecursionError):
            continue
    return repeated
