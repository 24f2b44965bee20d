"""What BFCL forgives, reported apart from its verdict: the official verdict never changes."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from fctncalling.checkers import kind_of, language_of
from fctncalling.data.format_sensitivity import PromptVariant
from fctncalling.data.types import StepRecord, Task, Verdict
from fctncalling.envs.handlers import get_handler
from fctncalling.envs.handlers.source import parse_expression

_PROMPTING = get_handler("python_calls")


def strict_verdict(task: Task, steps: Sequence[StepRecord], official: Verdict) -> Verdict:
    """Return the official verdict where it is a failure or nothing had to be forgiven; else what had to be, first.

    Forgiven are, in this order: calls in a turn whose ground truth is empty (`strict:call_in_empty_turn`), calls of
    functions that do not exist or are not offered yet (`strict:function_not_offered`), and calls that do not mean in
    Python what they are read as: bare names read as strings, positional arguments and second values of a name
    dropped, `+5` read as -5, sums computed, brackets or fences mended (`strict:lenient_syntax`). Messages in other
    forms than Python calls are not looked at for the last. Where no call is expected, calls that could not be read
    pass for an abstention (`strict:unread_calls`).
    """
    if not official.valid:
        return official
    if kind_of(task.category) == "irrelevance" and any(step.error == "malformed" for step in steps):
        return Verdict(
            False, 0.0, "strict:unread_calls", f"{steps[-1].text[:200]!r}", official.per_turn
        )
    rules = {
        "call_in_empty_turn": _calls_in_empty_turn,
        "function_not_offered": _calls_what_is_not_offered,
        "lenient_syntax": _is_leniently_read,
    }
    for name, forgiven in rules.items():
        for index, step in enumerate(steps):
            if step.calls and forgiven(task, step):
                told = f"step {index} (turn {step.turn}): {step.text[:200]!r}"
                return Verdict(False, 0.0, f"strict:{name}", told, official.per_turn)
    return official


def _calls_in_empty_turn(task: Task, step: StepRecord) -> bool:
    return task.is_multi_turn and not (task.ground_truth or ())[step.turn]


def _calls_what_is_not_offered(task: Task, step: StepRecord) -> bool:
    missed = {
        name for turn, names in task.missed_functions.items() if turn > step.turn for name in names
    }
    offered = {doc.name for doc in task.functions} - missed
    return any(call.name not in offered for call in step.calls)


def _is_leniently_read(task: Task, step: StepRecord) -> bool:
    variant = task.extra.get("prompt_variant")
    if isinstance(variant, PromptVariant) and (variant.tagged or variant.return_format != "python"):
        return False
    if (
        language_of(task.category) != "python"
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
