"""Consistency checks: stored numbers that contradict each other or the episode's log.

Each catches a kind of bug that ruins training silently: a shifted mask, tool text in the loss, a
wrong discount, a cut action trained as a whole one, a reward on the wrong turn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fctncalling.data.token_file import TokenFile
from fctncalling.lab.viewer.credit_rows import Credit, CreditRows, credit_of_lanes
from fctncalling.lab.viewer.token_lanes import EpisodeLanes, bootstrap_values

_SHOWN = 40
_UNKNOWN = "\N{REPLACEMENT CHARACTER}"  # part of a character: no text of its own


def spelling_findings(
    tokens: TokenFile, lanes: EpisodeLanes, record: Mapping[str, Any]
) -> Iterator[tuple[int, str]]:
    """Yield (acted token, what is wrong) for actions whose tokens are not the logged text's.

    Whether the trained tokens spell the logged answers: a shifted mask or tool text shows here.
    """
    ends = np.flatnonzero(tokens.ends_action[lanes.acted])
    steps = record.get("steps") or ()
    if not len(lanes.acted) or not steps:
        return
    if len(ends) != len(steps):
        yield 0, f"{len(ends)} trained actions, but the log has {len(steps)} answers"
        return
    found = list(_by_action(tokens, lanes, ends.tolist(), steps))
    yield from found or _other_ids(tokens, lanes, record.get("tokens") or ())


def _by_action(
    tokens: TokenFile, lanes: EpisodeLanes, ends: list[int], steps: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[int, str]]:
    texts = tokens.texts
    start = 0
    for number, end in zip(lanes.steps, ends, strict=True):
        pieces = [texts[place] for place in lanes.acted[start : end + 1]]
        spelled = "".join(_UNKNOWN if _is_name(piece) else piece for piece in pieces)
        shown = [*(steps[number - 1].get("results") or () if number else ())]
        shown += steps[number].get("results") or ()
        fault = _fault(spelled, str(steps[number].get("text", "")), shown)
        if fault:
            yield start, f"action {number + 1}: {fault}"
        start = end + 1


def _is_name(piece: str) -> bool:
    """Whether a piece is the name of a token that is a part of a character: "[##Ã]", "[<0xC3>]"."""
    named = piece[:1] == "[" and piece[-1:] == "]" and len(piece) > 2
    return named and ("<0x" in piece or not piece.isascii())


def _other_ids(
    tokens: TokenFile, lanes: EpisodeLanes, rows: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[int, str]]:
    """Yield the first trained token that is not the sampled one of the log."""
    logged: list[int] = []
    before: list[int] = []
    for row in rows:
        before = [*before[: row.get("shared") or 0], *(row.get("ids") or ())]
        place = 0
        for number, length in enumerate(row.get("runs") or ()):
            logged += before[place : place + length] if number % 2 else ()
            place += length
    trained: list[int] = tokens.ids[lanes.acted].tolist()
    if logged and logged != trained:
        pairs = enumerate(zip(logged, trained, strict=False))
        first = next((at for at, (old, new) in pairs if old != new), len(trained) - 1)
        yield first, f"token {first + 1} is not the sampled one: {len(logged)} tokens are logged"


def _fault(spelled: str, text: str, results: Sequence[Any]) -> str | None:
    """Return why the trained text is not the answer; special tokens may follow it."""
    if _UNKNOWN in spelled or _UNKNOWN in text:
        return None
    trained, answer = _plain(spelled), _plain(text)
    if not trained.startswith(answer):  # a piece that goes on with a word bears a mark on its own
        answer = answer.removeprefix("##")
    if trained.startswith(answer) and _is_special(trained[len(answer) :]):
        return None
    tool_text = [_plain(str(each)) for each in results]
    if any(each and each in trained.replace(answer, "", 1) for each in tool_text):
        return f"text of a tool is trained on: {_short(spelled)}"
    if answer and answer in trained:
        return f"more than the answer is trained on: {_short(spelled)}"
    return f"{_short(spelled)} is trained on, the answer is {_short(text)}"


def _is_special(rest: str) -> bool:
    """Whether a text can be an end of turn: nothing, or one special token."""
    return not rest or (rest[0] in "<[" and rest[-1] in ">]" and rest.count(rest[-1]) == 1)


def _plain(text: str) -> str:
    return "".join(text.split())


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


TOLERANCE = 1e-4
"""Relative to the largest number compared: sums of float32 in another order stay below it."""
MAX_MISMATCH = 0.1
"""Mean |log-probability before the update - as sampled| of an episode, in nats."""
GAMMAS = (1.0, 0.999, 0.997, 0.995, 0.99, 0.98, 0.97, 0.95, 0.9, 0.8, 0.5)


class Contradiction(NamedTuple):
    """Finding of a check: its name, where (episode, acted token), and what it is."""

    check: str
    episode: int
    token: int | None  # index among the episode's acted tokens
    message: str


class ConsistencyInput(NamedTuple):
    """Data that the checks look at."""

    tokens: TokenFile
    lanes: Sequence[EpisodeLanes]
    records: Sequence[Mapping[str, Any]]  # the episode log's line of each episode
    config: Mapping[str, Any]
    credit: CreditRows


def consistency_findings(checked: ConsistencyInput) -> dict[str, list[Contradiction]]:
    """Return the findings of each check, an empty list for a check that passed or cannot be made.

    Of the latter `CreditRows.unchecked` says why.
    """
    return {name: list(check(checked)) for name, check in CHECKS.items()}


def _mask_spells_answer(checked: ConsistencyInput) -> Iterator[Contradiction]:
    for index, lane in enumerate(checked.lanes):
        for token, message in spelling_findings(checked.tokens, lane, checked.records[index]):
            yield Contradiction("mask", index, token, message)


def _only_sampled_tokens(checked: ConsistencyInput) -> Iterator[Contradiction]:
    tokens = checked.tokens
    wrong = ~tokens.acted & (tokens.in_loss | tokens.ends_action | np.isfinite(tokens.advantages))
    for index, lane in enumerate(checked.lanes):
        count = sum(int(wrong[row].sum()) for row in lane.rows)
        if count:
            text = f"{count} tokens of tools or users carry numbers of the loss"
            yield Contradiction("context", index, None, text)


def _actions_end(checked: ConsistencyInput) -> Iterator[Contradiction]:
    """A stretch of sampled tokens ends with the end of an action, or time runs on across turns."""
    tokens = checked.tokens
    for index, lane in enumerate(checked.lanes):
        acted = lane.acted
        if not len(acted):
            continue
        last = np.append(np.diff(acted) > 1, True)
        for row in lane.rows[1:]:  # neighbours in the file, rows of their own
            last |= np.append(acted[1:] == row.start, False)
        text = "an action stops here without the mark that it ends"
        for token in np.flatnonzero(last & ~tokens.ends_action[acted])[:3]:
            yield Contradiction("ends", index, int(token), text)


def _truncation(checked: ConsistencyInput) -> Iterator[Contradiction]:
    config, tokens = checked.config, checked.tokens
    is_fresh = not np.nan_to_num(tokens.values).any()  # a critic that has learned nothing says 0
    for index, lane in enumerate(checked.lanes):
        episode = tokens.episodes[index]
        cut = not episode["terminated"] and config.get("truncation_bootstrap", True)
        cut &= tokens.header["lam"] is not None  # else a critic that knows nothing counts as 0
        for part, value in zip(lane.parts, bootstrap_values(tokens, index, lane), strict=True):
            if not lane.learned or math.isnan(value):
                continue
            if cut and value == 0.0 and not is_fresh:
                text = "the episode was cut off, but is trained as if it had ended: bootstrap is 0"
                yield Contradiction("truncation", index, part.stop - 1, text)
            if episode["terminated"] and value != 0.0:
                went_on = "the episode has ended, but is trained as if it went on"
                text = f"{went_on}: bootstrap {value:.4g}"
                yield Contradiction("truncation", index, part.stop - 1, text)


def _cut_actions(checked: ConsistencyInput) -> Iterator[Contradiction]:
    """As many actions are out of the loss as --max_new_tokens cut, if --overlong mask says so."""
    tokens = checked.tokens
    if checked.config.get("overlong") != "mask":
        return
    last_ids = tokens.ids[tokens.ends_action]
    stop = int(np.bincount(last_ids).argmax()) if len(last_ids) else -1
    for index, lane in enumerate(checked.lanes):
        num_cut = int(checked.records[index].get("num_actions_truncated") or 0)
        ends = np.flatnonzero(tokens.ends_action[lane.acted])
        if not lane.learned or not num_cut or not len(ends):
            continue
        parts = np.split(lane.acted, ends[:-1] + 1)
        masked = sum(not tokens.in_loss[part].any() for part in parts)
        if masked >= num_cut:
            continue
        trained = [
            number
            for number, part in enumerate(parts)
            if tokens.in_loss[part].any() and tokens.ids[part[-1]] != stop
        ]
        token = int(ends[trained[0] - 1]) + 1 if trained and trained[0] else 0
        text = f"{num_cut} cut actions (--max_new_tokens), {masked} masked: trained as whole ones"
        yield Contradiction("cut", index, token, text)


def _rewards(checked: ConsistencyInput) -> Iterator[Contradiction]:
    """The reward of a step stands at the end of its action; scaling and penalties are allowed."""
    config, tokens = checked.config, checked.tokens
    in_reward = config.get("kl_coef") and config.get("kl_mode") == "reward"
    if in_reward or config.get("overlong") == "penalty":
        return
    for index, lane in enumerate(checked.lanes):
        steps = checked.records[index].get("steps") or ()
        ends = np.flatnonzero(tokens.ends_action[lane.acted])
        if not lane.learned or len(ends) != len(steps):
            continue
        expected = _expected_rewards(lane, ends, steps)
        stored = tokens.rewards[lane.acted].astype(np.float64)
        scale = _scale(stored, expected, config)
        for token in np.flatnonzero(~np.isclose(stored, scale * expected, atol=1e-5))[:2]:
            where = lane.steps[int(np.searchsorted(ends, token))] + 1
            logged = f"the log has {expected[token] * scale:.4g} there"
            text = f"reward {stored[token]:.4g} at a token of action {where}, but {logged}"
            yield Contradiction("rewards", index, int(token), text)


def _expected_rewards(
    lane: EpisodeLanes, ends: NDArray[np.int64], steps: Sequence[Mapping[str, Any]]
) -> NDArray[np.float64]:
    """Return the reward of each acted token: what was paid from its action to its role's next."""
    expected = np.zeros(len(lane.acted))
    for part in lane.parts:
        inside = np.flatnonzero((ends >= part.start) & (ends < part.stop))
        own = [lane.steps[action] for action in inside]
        role = str(steps[own[0]].get("role") or "") if own else ""
        for number, (action, first) in enumerate(zip(inside, own, strict=True)):
            until = own[number + 1] if number + 1 < len(own) else len(steps)
            paid = [_paid(step, role) for step in steps[first:until]]
            expected[ends[action]] = sum(paid)
    return expected


def _paid(step: Mapping[str, Any], role: str) -> float:
    """Return what a step paid a role; a team whose roles are paid alike logs one reward."""
    own = step.get("rewards")
    return float((own.get(role, 0.0) if isinstance(own, dict) else step.get("reward")) or 0.0)


def _scale(stored: Any, expected: Any, config: Mapping[str, Any]) -> float:
    scale = config.get("reward_scale", 1.0)
    if isinstance(scale, int | float) and not config.get("normalize_rewards"):
        return float(scale)
    largest = float(np.abs(expected).max(initial=0.0))
    return float(np.abs(stored).max()) / largest if largest else 1.0


def _discount(checked: ConsistencyInput) -> Iterator[Contradiction]:
    """The stored advantages before whitening are those of the run's formula."""
    tokens, own = checked.tokens, checked.credit.of_loss
    resolved = checked.config.get("resolved")
    configured = resolved.get("gamma") if isinstance(resolved, dict) else None
    header = tokens.header["gamma"]
    if isinstance(configured, int | float) and not math.isclose(configured, header):
        text = f"gamma is {header} here, {configured} in config.json"
        yield Contradiction("credit", 0, None, text)
    if own is None:
        return
    found = list(_contradictions(checked, own))
    hint = _better_gamma(checked) if found else ""
    for index, token, stored, expected in found:
        text = f"advantage {stored:.5g} stored, {expected:.5g} by the formula{hint}"
        yield Contradiction("credit", index, token, text)


def _contradictions(
    checked: ConsistencyInput, own: Sequence[Credit | None]
) -> Iterator[tuple[int, int, float, float]]:
    """Yield (episode, token, stored, recomputed) of each episode's largest contradiction."""
    for index, (lane, credit) in enumerate(zip(checked.lanes, own, strict=True)):
        if credit is None:
            continue
        stored = checked.tokens.raw_advantages[lane.acted].astype(np.float64)
        expected = credit.advantages
        off = np.abs(stored - expected)
        token = int(np.nanargmax(off)) if np.isfinite(off).any() else 0
        if off[token] > TOLERANCE * max(1.0, float(np.abs(expected).max())):
            yield index, token, float(stored[token]), float(expected[token])


def _better_gamma(checked: ConsistencyInput) -> str:
    """Return the discount that the stored advantages agree with, as a remark; or nothing."""
    tokens, lanes = checked.tokens, checked.lanes
    name, baseline = tokens.header["algorithm_name"], checked.credit.own
    for gamma in GAMMAS:
        settings = {**tokens.header, "gamma": gamma}
        own = credit_of_lanes(name, tokens, lanes, settings, baseline) or []
        if not any(_contradictions(checked, own)):
            return f" with gamma {tokens.header['gamma']:g}; they agree with gamma {gamma:g}"
    return ""


def _whitening(checked: ConsistencyInput) -> Iterator[Contradiction]:
    """Advantages in the loss are (raw - mean) / deviation."""
    tokens, header = checked.tokens, checked.tokens.header
    mean, deviation = header["whitening_mean"], header["whitening_std"]
    if checked.config.get("permute_advantages") or not header["has_signal"]:
        return
    for index, lane in enumerate(checked.lanes):
        places = lane.acted[tokens.in_loss[lane.acted]]
        if not lane.learned or not len(places):
            continue
        raw = tokens.raw_advantages[places].astype(np.float64)
        expected = (raw - mean) / deviation if mean is not None and deviation else raw
        off = np.abs(tokens.advantages[places] - expected)
        if off.max() > TOLERANCE * max(1.0, float(np.abs(expected).max())):
            token = int(np.flatnonzero(lane.acted == places[off.argmax()])[0])
            text = "not the whitened advantage of this token"
            yield Contradiction("whitening", index, token, text)


def _mismatch(checked: ConsistencyInput) -> Iterator[Contradiction]:
    """The trainer reads the sampled tokens with the log-probabilities they were sampled with."""
    tokens = checked.tokens
    for index, lane in enumerate(checked.lanes):
        off = np.abs(tokens.old_logprobs[lane.acted] - tokens.rollout_logprobs[lane.acted])
        if lane.learned and np.isfinite(off).any() and np.nanmean(off) > MAX_MISMATCH:
            mean = f"{np.nanmean(off):.3g} on average"
            text = f"sampled and trained log-probabilities differ by {mean}"
            yield Contradiction("mismatch", index, int(np.nanargmax(off)), text)


CHECKS: dict[str, Callable[[ConsistencyInput], Iterator[Contradiction]]] = {
    "mask": _mask_spells_answer,
    "context": _only_sampled_tokens,
    "ends": _actions_end,
    "truncation": _truncation,
    "cut": _cut_actions,
    "rewards": _rewards,
    "credit": _discount,
    "whitening": _whitening,
    "mismatch": _mismatch,
}
