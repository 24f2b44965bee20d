"""BFCL's multi-turn checker: compares states and results with the ground truth's, per turn.

A turn passes when every public attribute of every tool equals the truth's and when every result of
the truth's calls of this turn stands among all the model's results so far, as a multiset. A turn
whose truth is empty passes always.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fctncalling.checkers.python_values import Fault, short_repr
from fctncalling.data.types import TurnResults, Verdict

States = Mapping[str, Mapping[str, Any]]


class LiveTurnResults(NamedTuple):
    """Results of one turn and the tools' live states, valid until the next turn is played."""

    results: Sequence[str]
    states: States


Turn = TurnResults | LiveTurnResults


def check_turns(record: Any, truth: Sequence[TurnResults]) -> Verdict:
    """Check a model's turns against the truth's and return the multi-turn verdict.

    `per_turn` judges each turn by itself. `record` is a sequence of TurnResults; anything else is
    an answer that broke off (multi_turn:inference_error).
    """
    if not isinstance(record, Sequence) or isinstance(record, str):
        fault = Fault("multi_turn:inference_error", "the answer is no list of turns")
        return Verdict(False, 0.0, *fault, (False,) * len(truth))
    return check_turn_pairs(zip(record, truth, strict=False), len(record), len(truth))


def check_turn_pairs(
    pairs: Iterable[tuple[Turn, Turn]], num_turns: int, num_expected: int
) -> Verdict:
    """Check pairs of turns, the model's and the truth's, and return the multi-turn verdict.

    Each pair is compared at once and dropped.
    """
    so_far: dict[str, int] = {}
    faults = []
    for turn, truth in pairs:
        for text in turn.results:
            so_far[text] = so_far.get(text, 0) + 1
        faults.append(turn_fault(turn, truth, so_far))
    per_turn = tuple(fault is None for fault in faults) + (False,) * (num_expected - len(faults))
    if num_turns != num_expected:
        message = f"expected {num_expected} turns, got {num_turns}"
        return Verdict(False, 0.0, "multi_turn:force_terminated", message, per_turn)
    for index, first in enumerate(faults):
        if first:
            return Verdict(False, 0.0, first.error_type, f"turn {index}: {first.message}", per_turn)
    return Verdict(True, 1.0, per_turn=per_turn)


def turn_fault(turn: Turn, truth: Turn, results_so_far: Mapping[str, int]) -> Fault | None:
    """Return the fault of a turn's results or state, None if they are right.

    `results_so_far` counts the model's result texts of this and all earlier turns.
    """
    if not truth.results:
        return None
    if not turn.results:
        return Fault("multi_turn:empty_turn_model_response", "calls were expected, none was made")
    different = state_differences(turn.states, truth.states)
    if different:
        return Fault(
            "multi_turn:instance_state_mismatch", f"not as expected: {', '.join(different)}"
        )
    missing = () if turn.results == truth.results else _missing(truth.results, results_so_far)
    if missing:
        message = ", ".join(map(short_repr, missing))
        return Fault("multi_turn:execution_response_mismatch", f"results never seen: {message}")
    return None


def _missing(expected: Iterable[str], seen: Mapping[str, int]) -> list[str]:
    """Return the texts that were seen less often than expected."""
    counts: dict[str, int] = {}
    for text in expected:
        counts[text] = counts.get(text, 0) + 1
    return [text for text, count in counts.items() if count > seen.get(text, 0)]


def state_differences(states: States, truth: States) -> list[str]:
    """List "Class.attribute" of each public attribute in which two states differ.

    The order is that of the truth.
    """
    different = []
    for name, attributes in truth.items():
        state = states.get(name, {})
        for attribute, expected in attributes.items():
            if attribute[:1] == "_":
                continue
            try:
                differs = attribute not in state or state[attribute] != expected
            except RecursionError:
                # nested deeper than the interpreter compares: nothing says they are equal
                differs = True
            if differs:
                different.append(f"{name}.{attribute}")
    return different
