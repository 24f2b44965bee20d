"""Credit vectors: inputs of advantage functions with what closed forms say of them.

    python -m fctncalling.lab.conformance.credit_vectors > credit_vectors.json

makes the file beside this one. Expected values come from sums in exact fractions, token by token
and action by action; no tensor and no function of ours is used. Two conventions are known: time
passes between actions (what TPPO does: every token of an action has the action's lambda-return as
its target), or between the tokens that the policy wrote.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).with_name("credit_vectors.json")
GAMMA = Fraction(19, 20)
LAM = Fraction(9, 10)
GROUP_CONVENTIONS = ("mean", "mean_over_deviation", "mean_over_sample_deviation", "leave_one_out")
"""What a return is compared with: its group's mean (over its deviation, the population's or the
sample's), or the others' mean.
"""

Number = Fraction | None  # None: not a number


class TokenSegment(NamedTuple):
    """Tokens in a row: written by the policy (one action) or not."""

    values: Sequence[Number]  # of the state before each token
    reward: Number = Fraction(0)  # at the last token
    written: bool = True


def action_level_advantages(row: Sequence[TokenSegment], bootstrap: Fraction) -> list[Number]:
    """Return advantages where time passes between actions: lambda-return less the token's value."""
    found: list[Number] = []
    ahead, target = bootstrap, bootstrap  # value and lambda-return of what follows
    for segment in reversed(row):
        if not segment.written:
            found[:0] = [None] * len(segment.values)
            continue
        values = [_known(value) for value in segment.values]
        target = _known(segment.reward) + GAMMA * ((1 - LAM) * ahead + LAM * target)
        ahead = values[0]
        found[:0] = [target - value for value in values]
    return found


def token_level_advantages(row: Sequence[TokenSegment], bootstrap: Fraction) -> list[Number]:
    """Return advantages where time passes between written tokens: a sum of their surprises."""
    found: list[Number] = []
    ahead, sum_ahead = bootstrap, Fraction(0)
    for segment in reversed(row):
        rewards = [Fraction(0)] * (len(segment.values) - 1) + [segment.reward]
        for value, reward in zip(reversed(segment.values), reversed(rewards), strict=True):
            if not segment.written:
                found.insert(0, None)
                continue
            surprise = _known(reward) + GAMMA * ahead - _known(value)
            sum_ahead = surprise + GAMMA * LAM * sum_ahead
            ahead = _known(value)
            found.insert(0, sum_ahead)
    return found


def _known(number: Number) -> Fraction:
    assert number is not None, "only what no policy wrote may be no number"
    return number


def _numbers(*texts: str) -> list[Number]:
    return [None if text == "nan" else Fraction(text) for text in texts]


def token_level_test_vector(
    name: str, rows: Sequence[Sequence[TokenSegment]], bootstrap: Sequence[str]
) -> dict[str, Any]:
    """Return one vector of token-level functions; rows are padded by their own segments."""
    after = [Fraction(each) for each in bootstrap]
    pairs = list(zip(rows, after, strict=True))
    return {
        "name": name,
        "claim": CLAIMS[name],
        "gamma": float(GAMMA),
        "lam": float(LAM),
        "values": [_floats([v for each in row for v in each.values]) for row in rows],
        "rewards": [_floats(_rewards(row)) for row in rows],
        "written": [[each.written for each in row for _ in each.values] for row in rows],
        "ends_action": [
            [each.written and last for each in row for last in _lasts(each)] for row in rows
        ],
        "bootstrap": _floats(after),
        "expected": {
            "between_actions": [_floats(action_level_advantages(*pair)) for pair in pairs],
            "between_tokens": [_floats(token_level_advantages(*pair)) for pair in pairs],
        },
    }


def _lasts(segment: TokenSegment) -> list[bool]:
    return [*([False] * (len(segment.values) - 1)), True]


def _rewards(row: Sequence[TokenSegment]) -> list[Number]:
    return [
        each.reward if last else (Fraction(0) if each.reward is not None else None)
        for each in row
        for last in _lasts(each)
    ]


def _floats(numbers: Sequence[Number]) -> list[float | None]:
    return [None if each is None else float(each) for each in numbers]


FIRST = TokenSegment(_numbers("0.3", "0.4"))
LAST = TokenSegment(_numbers("0.5", "0.6", "0.2", "0.7"), Fraction(1))


def _tool(*values: str) -> TokenSegment:
    return TokenSegment(_numbers(*values), written=False)


CLAIMS = {
    "plain": "two actions with a tool token between them",
    "tool_tokens": "8 more tool tokens move no credit",
    "tool_value": "a value on a tool token leaks nowhere",
    "tool_nan": "a NaN on a tool token spreads nowhere",
    "short_wording": "both actions in one token: the first one's credit is gamma times lambda",
    "long_wording": "both actions in ten tokens: between actions that credit is the same",
    "action_reward": "an action's own reward counts from that action on",
    "masked_last": "a reward on a token that nobody wrote is no action's: callers put it on one",
    "masked_end": "a last token that nobody wrote changes nothing before it",
    "padding": "padding to the right and to the left, NaN in it, changes no row",
    "truncation": "a cut episode goes on from the value after it, an ended one from 0",
    "groups": "each group by itself",
    "interleaved": "members of a group need not be neighbours",
    "invalid_member": "a member whose tools failed is no 0: the others are as if it were not there",
    "equal_outcomes": "a group of equal outcomes tells nothing, and is no NaN",
}
"""Name of a vector -> what it shows."""


def token_vectors() -> list[dict[str, Any]]:
    """Return the vectors of token-level functions."""
    nan = TokenSegment([None], None, written=False)
    padding = TokenSegment([None] * 3, None, written=False)
    tool = _tool("0.1")
    paid, unpaid = FIRST._replace(reward=Fraction(-1, 4)), LAST._replace(reward=Fraction(0))
    late = _tool("0.9")._replace(reward=Fraction(1))
    made: dict[str, tuple[list[list[TokenSegment]], list[str]]] = {
        "plain": ([[FIRST, tool, LAST]], ["0"]),
        "tool_tokens": ([[FIRST, _tool(*["0.1"] * 9), LAST]], ["0"]),
        "tool_value": ([[FIRST, _tool("100"), LAST]], ["0"]),
        "tool_nan": ([[FIRST, nan, LAST]], ["0"]),
        "short_wording": ([_worded(1)], ["0"]),
        "long_wording": ([_worded(10)], ["0"]),
        "action_reward": ([[paid, tool, LAST]], ["0"]),
        "masked_last": ([[FIRST, tool, unpaid, late]], ["0"]),
        "masked_end": ([[FIRST, tool, LAST, _tool("0.9")]], ["0"]),
        "padding": ([[FIRST, LAST, padding], [padding, FIRST, LAST]], ["0", "0"]),
        "truncation": ([[FIRST, LAST], [FIRST, LAST]], ["0.8", "0"]),
    }
    return [token_level_test_vector(name, *each) for name, each in made.items()]


def _worded(count: int) -> list[TokenSegment]:
    """Return two actions of so many tokens, a tool token between them, values of 0, a reward."""
    action = TokenSegment([Fraction(0)] * count)
    return [action, _tool("0"), action._replace(reward=Fraction(1))]


def group_baseline_vector(
    name: str, returns: Sequence[str], group: Sequence[int]
) -> dict[str, Any]:
    """Return one vector of group baselines; an invalid member's return is no number."""
    numbers = _numbers(*returns)
    valid = [number is not None for number in numbers]
    peers = [
        [
            _known(other)
            for other, of in zip(numbers, group, strict=True)
            if of == own and other is not None
        ]
        for own in group
    ]
    of_members = [_of_group(*pair) for pair in zip(numbers, peers, strict=True)]
    expected = dict(zip(GROUP_CONVENTIONS, zip(*of_members, strict=True), strict=True))
    return {
        "name": name,
        "claim": CLAIMS[name],
        "returns": _floats(numbers),
        "group": list(group),
        "valid": valid,
        "expected": expected,
    }


def _of_group(number: Number, members: Sequence[Fraction]) -> list[float | None]:
    """Return a member's advantage in each convention; None for an invalid one."""
    if number is None:
        return [None] * len(GROUP_CONVENTIONS)
    count, mean = len(members), sum(members) / len(members)
    squares = float(sum((each - mean) ** 2 for each in members))
    centred = float(number - mean)
    scales = [(squares / count) ** 0.5, (squares / (count - 1)) ** 0.5]
    scaled = [centred / scale if scale else 0.0 for scale in scales]
    return [centred, *scaled, float(number - (sum(members) - number) / (count - 1))]


def group_baseline_vectors() -> list[dict[str, Any]]:
    """Return the vectors of group baselines."""
    two, mixed = [0, 0, 0, 1, 1, 1], [0, 1, 0, 1, 0, 1]
    return [
        group_baseline_vector("groups", ["1", "0", "0", "1", "1", "0.5"], two),
        group_baseline_vector("interleaved", ["1", "1", "0", "0.5", "0", "1"], mixed),
        group_baseline_vector("invalid_member", ["1", "nan", "0", "1", "0", "0"], two),
        group_baseline_vector("equal_outcomes", ["1", "1", "1", "0", "0", "0"], two),
    ]


def vectors_text() -> str:
    """Return the file's text, a vector a line; null is no number, or nothing expected."""
    kinds = {"tokens": token_vectors(), "groups": group_baseline_vectors()}
    parts = [f'"{kind}": [\n{chr(10).join(_lines(made))}\n]' for kind, made in kinds.items()]
    return "{" + ",\n".join(parts) + "}\n"


def _lines(made: Sequence[dict[str, Any]]) -> list[str]:
    lines = [json.dumps(each) for each in made]
    return [*(f"{line}," for line in lines[:-1]), lines[-1]]


if __name__ == "__main__":
    print(vectors_text(), end="")
