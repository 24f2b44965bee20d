"""Strict verdict: what BFCL's leniency let pass.

Every leniency has an error type of its own, "strict:" and its name; the message says which step and
what it was.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from fctncalling.checkers import check
from fctncalling.checkers.python_values import Fault
from fctncalling.checkers.strict_answer import strict_answer_fault
from fctncalling.checkers.strict_values import strict_calls_fault
from fctncalling.data.agentic_tasks import is_prerequisite
from fctncalling.data.format_sensitivity import PromptVariant
from fctncalling.data.types import StepRecord, Task, Verdict
from fctncalling.envs.handlers import get_handler
from fctncalling.envs.judging.arbitrary_calls import arbitrary_call_fault
from fctncalling.envs.python_source.parse import parse_expression

MAX_CALLS = (10, 3)  # of a turn: so many, and so many for each call of its ground truth
_PROMPTING = get_handler("python_calls")


def strict_verdict(task: Task, steps: Sequence[StepRecord], official: Verdict) -> Verdict:
    """Return the official verdict, or the first leniency that a valid one relied on.

    Forgiven are, by the name after "strict:" and in this order:
    - `unread_calls`: no call is expected, and calls that could not be read pass for an abstention;
    - `call_while_function_withheld`: another function, or the same one, is called in the turn that
      waits for one that
      is not offered yet;
    - `call_in_empty_turn`: calls in any other turn whose ground truth is empty;
    - `function_not_offered`: calls of functions that do not exist or are not offered yet, nested
      ones too;
    - `nested_call`: a call as an argument of another, which BFCL's checkers never see;
    - `lenient_syntax`: calls that do not mean in Python what they are read as: bare names read as
      strings, positional
      arguments and second values of a name dropped, `+5` read as -5, sums computed, brackets or
      fences mended. Messages in other forms than Python calls are not looked at for this;
    - `needless_calls`: far more calls in a turn than its ground truth has (`MAX_CALLS`);
    - `changed_number`, `dropped_punctuation`, `punctuation_for_nothing`: arguments that are the
      accepted ones only
      without blanks and punctuation, "1.2" for "12", "---" for an omitted text;
    - `arbitrary_call`: any call passes where the right one is nowhere written down (relevance):
      arguments that are
      missing or unknown, or of which none is told in the question;
    - `answer_outside_field`, `changed_number`, `answer_denied`, `answer_among_others`: an agentic
      answer that is
      mentioned, but not given (`fctncalling.checkers.strict_answer`).
    """
    if not official.valid or is_prerequisite(task):
        return official
    fault = _unread_calls(task, steps) or _first_of_turns(task, steps) or _answer_fault(task, steps)
    return official if fault is None else Verdict(False, 0.0, *fault, official.per_turn)


def forgiven_in_turn(task: Task, steps: Sequence[StepRecord], turn: int) -> str | None:
    """Return the error type of the first leniency that a turn's calls relied on; None if they
    relied on none.
    """
    fault = _first_of_turns(task, [step for step in steps if step.turn == turn])
    return None if fault is None else fault.error_type


def _unread_calls(task: Task, steps: Sequence[StepRecord]) -> Fault | None:
    if task.kind == "irrelevance" and any(step.error == "malformed" for step in steps):
        return Fault("strict:unread_calls", f"{steps[-1].text[:200]!r}")
    return None


def _first_of_turns(task: Task, steps: Sequence[StepRecord]) -> Fault | None:
    """Return what calls had to be forgiven first, whatever they led to."""
    rules = {
        "call_while_function_withheld": _calls_while_withheld,
        "call_in_empty_turn": _calls_in_empty_turn,
        "function_not_offered": _calls_what_is_not_offered,
        "nested_call": lambda _, step: any(map(_nested_names, step.executed)),
        "lenient_syntax": _is_leniently_read,
    }
    for name, forgiven in rules.items():
        for index, step in enumerate(steps):
            if step.calls and forgiven(task, step):
                message = f"step {index} (turn {step.turn}): {step.text[:200]!r}"
                return Fault(f"strict:{name}", message)
    return _needless_calls(task, steps)


def _answer_fault(task: Task, steps: Sequence[StepRecord]) -> Fault | None:
    """Return what the values of a single-turn or agentic answer had to be forgiven."""
    kind = task.kind
    if kind == "agentic":
        last = next((step.text for step in reversed(steps) if not step.calls), "")
        return (
            strict_answer_fault(last, task.ground_truth or (), _question_text(task))
            if last
            else None
        )
    if kind not in ("simple", "multiple", "parallel", "relevance"):
        return None
    calls = [call for step in steps for call in step.calls]
    if kind == "relevance":
        return arbitrary_call_fault(calls, task.functions, _question_text(task))
    record = [{call.name: dict(call.arguments)} for call in calls]
    for underscore_to_dot in (
        False,
        True,
    ):  # names as they are, or as restricted interfaces want them
        if check(task, record, underscore_to_dot=underscore_to_dot).valid:
            return strict_calls_fault(task, record, underscore_to_dot=underscore_to_dot)
    return None  # what was judged is no record of these calls: nothing can be said


def _question_text(task: Task) -> str:
    return " ".join(str(message.get("content", "")) for turn in task.question for message in turn)


def _withheld(task: Task, turn: int) -> set[str]:
    """Return the functions that are not offered yet in a turn."""
    return {name for at, names in task.missed_functions.items() if at > turn for name in names}


def _expected(task: Task, turn: int) -> set[str]:
    """Return the functions that a turn's ground truth calls:
    a few call one before it is offered.
    """
    truth = (task.ground_truth or ())[turn] if task.is_multi_turn else ()
    return {str(text).partition("(")[0].strip() for text in truth}


def _calls_while_withheld(task: Task, step: StepRecord) -> bool:
    return _calls_in_empty_turn(task, step) and step.turn + 1 in task.missed_functions


def _calls_in_empty_turn(task: Task, step: StepRecord) -> bool:
    return task.is_multi_turn and not (task.ground_truth or ())[step.turn]


def _calls_what_is_not_offered(task: Task, step: StepRecord) -> bool:
    withheld = _withheld(task, step.turn) - _expected(task, step.turn)
    documented = {doc.name for doc in task.functions}
    if (
        not task.is_multi_turn
    ):  # interfaces with restricted names are offered an underscore for a dot
        documented |= {name.replace(".", "_") for name in documented}
    nested = {name for text in step.executed for name in _nested_names(text)}
    return bool(nested & withheld) or any(
        call.name not in documented - withheld for call in step.calls
    )


def _nested_names(text: str) -> list[str]:
    """Return the functions that are called inside the arguments of an executed call."""
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
        num_expected = len((task.ground_truth or ())[turn])
        if count > MAX_CALLS[0] + MAX_CALLS[1] * num_expected:
            message = f"turn {turn}: {count} calls where its ground truth has {num_expected}"
            return Fault("strict:needless_calls", message)
    return None


def _is_leniently_read(task: Task, step: StepRecord) -> bool:
    variant = task.extra.get("prompt_variant")
    if isinstance(variant, PromptVariant) and (variant.tagged or variant.return_format != "python"):
        return False
    if (
        task.language != "python"
        or not _PROMPTING.recognises(step.text)
        or step.text.lstrip().startswith(("{", "[{"))
    ):
        return False
    try:
        return _tree(step.text.strip()) != _tree(_PROMPTING.render(step.calls))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return True  # as it stands, it is no Python: something was mended


def _tree(text: str) -> list[str]:
    body = parse_expression(text)
    return [
        ast.dump(node) for node in (body.elts if isinstance(body, ast.List | ast.Tuple) else [body])
    ]
