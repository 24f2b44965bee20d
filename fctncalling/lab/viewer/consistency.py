"""Consistency checks: stored numbers that contradict each other or the episode's log.

Each rule catches a kind of bug that ruins training silently: a shifted mask, tool text in the
loss, a wrong discount, a cut action trained as a whole one, a reward on the wrong turn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fctncalling.data.token_file import TokenFile
from fctncalling.lab.viewer.credit_rows import (
    Credit,
    CreditRows,
    EpisodeLanes,
    bootstrap_values,
    credit_of_lanes,
)

Record = Mapping[str, Any]
Finding = tuple[int | None, str]
"""Index among the episode's acted tokens, None for the whole episode; and what is wrong."""

TOLERANCE = 1e-4
"""Relative to the largest number compared: sums of float32 in another order stay below it."""
MAX_MISMATCH = 0.1
"""Mean |log-probability before the update - as sampled| of an episode, in nats."""
GAMMAS = (1.0, 0.999, 0.997, 0.995, 0.99, 0.98, 0.97, 0.95, 0.9, 0.8, 0.5)
_SHOWN = 40
_UNKNOWN = "\N{REPLACEMENT CHARACTER}"  # part of a character: no text of its own


class Checked(NamedTuple):
    """Episode of a token file, with its line of the log."""

    tokens: TokenFile
    number: int  # among the file's episodes, from 0
    lane: EpisodeLanes
    record: Record
    config: Record
    credit: Credit | None  # that the loss took, recomputed

    @property
    def episode(self) -> Record:
        """The header's entry of the episode."""
        return dict(self.tokens.episodes[self.number])

    @property
    def steps(self) -> Sequence[Record]:
        """The log's steps of the episode."""
        return self.record.get("steps") or ()

    @property
    def ends(self) -> NDArray[np.int64]:
        """The last token of each action, among the acted ones."""
        return np.flatnonzero(self.tokens.ends_action[self.lane.acted])

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return a field of the file at the acted tokens, (N,)."""
        return np.asarray(getattr(self.tokens, name)[self.lane.acted], dtype=np.float64)


def consistency_checks(
    tokens: TokenFile,
    lanes: Sequence[EpisodeLanes],
    records: Sequence[Record],
    config: Record,
    credit: CreditRows,
) -> list[dict[str, Any]]:
    """Return each rule as JSON, with its findings and why it could not be checked.

    records: the log's line of each episode of the file.
    """
    of_loss = credit.of_loss or [None] * len(lanes)
    described = enumerate(zip(lanes, records, of_loss, strict=True))
    checked = [Checked(tokens, index, *parts[:2], config, parts[2]) for index, parts in described]
    checks = []
    for name, rule in RULES.items():
        findings = [
            {"check": name, "episode": each.episode["episode_id"], "token": token, "message": text}
            for each in checked
            if each.lane.learned or not rule.of_learned
            for token, text in rule.findings(each)
        ]
        checks.append({"check": name, "holds": rule.holds, "findings": findings, "unchecked": ""})
        if name == "credit":
            checks[-1]["unchecked"] = credit.unchecked
            hint = _better_gamma(tokens, checked, credit.own) if findings else ""
            for finding in findings:
                finding["message"] += hint if finding["token"] is not None else ""
    return checks


def _spelling(checked: Checked) -> Iterator[Finding]:
    """Yield actions with trained tokens unlike the logged text: shifted mask, tool text."""
    count, steps = len(checked.ends), checked.steps
    if not len(checked.lane.acted) or not steps:
        return
    if count != len(steps):
        yield 0, f"{count} trained actions, but the log has {len(steps)} answers"
        return
    yield from list(_misspelled(checked)) or _other_ids(checked)


def _misspelled(checked: Checked) -> Iterator[Finding]:
    texts, steps, start = checked.tokens.texts, checked.steps, 0
    for number, end in zip(checked.lane.steps, checked.ends.tolist(), strict=True):
        pieces = [texts[place] for place in checked.lane.acted[start : end + 1]]
        spelled = "".join(_UNKNOWN if _is_name(piece) else piece for piece in pieces)
        near = steps[max(0, number - 1) : number + 1]
        results = [result for step in near for result in step.get("results") or ()]
        if fault := _fault(spelled, str(steps[number].get("text", "")), results):
            yield start, f"action {number + 1}: {fault}"
        start = end + 1


def _is_name(piece: str) -> bool:
    """Whether a piece is the name of a token that is a part of a character: "[##Ã]", "[<0xC3>]"."""
    named = piece[:1] == "[" and piece[-1:] == "]" and len(piece) > 2
    return named and ("<0x" in piece or not piece.isascii())


def _other_ids(checked: Checked) -> Iterator[Finding]:
    """Yield the first trained token that is not the sampled one of the log."""
    logged: list[int] = []
    before: list[int] = []
    for row in checked.record.get("tokens") or ():
        before = [*before[: row.get("shared") or 0], *(row.get("ids") or ())]
        edges = [0, *accumulate(row.get("runs") or ())]
        for first, end in zip(edges[1::2], edges[2::2], strict=False):
            logged += before[first:end]
    trained: list[int] = checked.tokens.ids[checked.lane.acted].tolist()
    if logged and logged != trained:
        pairs = enumerate(zip(logged, trained, strict=False))
        first = next((at for at, (old, new) in pairs if old != new), len(trained) - 1)
        yield first, f"token {first + 1} is not the sampled one: {len(logged)} tokens are logged"


def _fault(spelled: str, text: str, results: Sequence[Any]) -> str | None:
    """Return why the trained text is not the answer; special tokens may follow it."""
    if _UNKNOWN in spelled or _UNKNOWN in text:
        return None
    trained, answer, *of_tools = ("".join(str(each).split()) for each in (spelled, text, *results))
    if not trained.startswith(answer):  # a piece that goes on with a word bears a mark on its own
        answer = answer.removeprefix("##")
    rest = trained[len(answer) :]
    is_special = not rest or (rest[0] in "<[" and rest[-1] in ">]" and rest.count(rest[-1]) == 1)
    if trained.startswith(answer) and is_special:  # nothing, or one special token: an end of turn
        return None
    if any(each and each in trained.replace(answer, "", 1) for each in of_tools):
        return f"text of a tool is trained on: {_short(spelled)}"
    if answer and answer in trained:
        return f"more than the answer is trained on: {_short(spelled)}"
    return f"{_short(spelled)} is trained on, the answer is {_short(text)}"


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def _context(checked: Checked) -> Iterator[Finding]:
    tokens, count = checked.tokens, 0
    for row in checked.lane.rows:
        numbers = (
            tokens.in_loss[row] | tokens.ends_action[row] | np.isfinite(tokens.advantages[row])
        )
        count += int((numbers & ~tokens.acted[row]).sum())
    if count:
        yield None, f"{count} tokens of tools or users carry numbers of the loss"


def _ends(checked: Checked) -> Iterator[Finding]:
    """A stretch of sampled tokens ends with the end of an action, or time runs on across turns."""
    acted = checked.lane.acted
    if not len(acted):
        return
    last = np.append(np.diff(acted) > 1, True)
    for row in checked.lane.rows[1:]:  # neighbours in the file, rows of their own
        last |= np.append(acted[1:] == row.start, False)
    for token in np.flatnonzero(last & ~checked.tokens.ends_action[acted])[:3]:
        yield int(token), "an action stops here without the mark that it ends"


def _truncation(checked: Checked) -> Iterator[Finding]:
    tokens, ended = checked.tokens, checked.episode["terminated"]
    # A critic that has learned nothing says 0, and so does one without weight (--lam auto).
    is_fresh = not np.nan_to_num(tokens.values).any()
    cut = not ended and checked.config.get("truncation_bootstrap", True)
    cut &= tokens.header["lam"] is not None and not is_fresh
    values = bootstrap_values(tokens, checked.number, checked.lane)
    for part, value in zip(checked.lane.parts, values, strict=True):
        if cut and value == 0.0:
            text = "the episode was cut off, but is trained as if it had ended: bootstrap is 0"
            yield part.stop - 1, text
        if ended and value and not math.isnan(value):
            text = f"the episode has ended, but is trained as if it went on: bootstrap {value:.4g}"
            yield part.stop - 1, text


def _cut_actions(checked: Checked) -> Iterator[Finding]:
    tokens, ends = checked.tokens, checked.ends
    num_cut = int(checked.record.get("num_actions_truncated") or 0)
    if checked.config.get("overlong") != "mask" or not num_cut or not len(ends):
        return
    parts = np.split(checked.lane.acted, ends[:-1] + 1)
    in_loss = [bool(tokens.in_loss[part].any()) for part in parts]
    if (masked := in_loss.count(False)) >= num_cut:
        return
    stop = int(np.bincount(tokens.ids[tokens.ends_action]).argmax())
    trained = (
        int(np.searchsorted(checked.lane.acted, part[0]))
        for part, is_trained in zip(parts, in_loss, strict=True)
        if is_trained and tokens.ids[part[-1]] != stop
    )
    text = f"{num_cut} cut actions (--max_new_tokens), {masked} masked: trained as whole ones"
    yield next(trained, 0), text


def _rewards(checked: Checked) -> Iterator[Finding]:
    """Yield rewards not at the end of their action; scaling and penalties are allowed."""
    config, ends, lane = checked.config, checked.ends, checked.lane
    in_reward = config.get("kl_coef") and config.get("kl_mode") == "reward"
    if in_reward or config.get("overlong") == "penalty" or len(ends) != len(checked.steps):
        return
    stored, expected = checked.numbers("rewards"), _expected_rewards(checked)
    expected *= _scale(stored, expected, config)
    for token in np.flatnonzero(~np.isclose(stored, expected, atol=1e-5))[:2]:
        where = lane.steps[int(np.searchsorted(ends, token))] + 1
        logged = f"the log has {expected[token]:.4g} there"
        text = f"reward {stored[token]:.4g} at a token of action {where}, but {logged}"
        yield int(token), text


def _expected_rewards(checked: Checked) -> NDArray[np.float64]:
    """Return the expected reward of each acted token, up to its role's next action."""
    lane, steps, ends = checked.lane, checked.steps, checked.ends
    expected = np.zeros(len(lane.acted))
    for part in lane.parts:
        inside = np.flatnonzero((ends >= part.start) & (ends < part.stop))
        own = [lane.steps[action] for action in inside]
        role = str(steps[own[0]].get("role") or "") if own else ""
        for action, first, until in zip(inside, own, [*own[1:], len(steps)], strict=True):
            expected[ends[action]] = sum(_paid(step, role) for step in steps[first:until])
    return expected


def _paid(step: Record, role: str) -> float:
    """Return a role's reward of a step; a team with equal pay logs one reward."""
    own = step.get("rewards")
    return float((own.get(role, 0.0) if isinstance(own, dict) else step.get("reward")) or 0.0)


def _scale(stored: NDArray[np.float64], expected: NDArray[np.float64], config: Record) -> float:
    scale = config.get("reward_scale", 1.0)
    if isinstance(scale, int | float) and not config.get("normalize_rewards"):
        return float(scale)
    largest = float(np.abs(expected).max(initial=0.0))
    return float(np.abs(stored).max()) / largest if largest else 1.0


def _discount(checked: Checked) -> Iterator[Finding]:
    resolved, header = checked.config.get("resolved"), checked.tokens.header["gamma"]
    configured = resolved.get("gamma") if isinstance(resolved, dict) else None
    configured = configured if isinstance(configured, int | float) else header
    if checked.number == 0 and not math.isclose(configured, header):
        yield None, f"gamma is {header} here, {configured} in config.json"
    if checked.credit is not None:
        expected = checked.credit.advantages
        for token, stored in _farthest(checked.numbers("raw_advantages"), expected):
            yield token, f"advantage {stored:.5g} stored, {expected[token]:.5g} by the formula"


def _farthest(
    stored: NDArray[np.float64], expected: NDArray[np.float64]
) -> Iterator[tuple[int, float]]:
    """Yield the token farthest from its expected number, with its number, unless all agree."""
    off = np.nan_to_num(np.abs(stored - expected))
    if off.max(initial=0.0) > TOLERANCE * max(1.0, float(np.abs(expected).max())):
        yield int(off.argmax()), float(stored[off.argmax()])


def _better_gamma(tokens: TokenFile, checked: Sequence[Checked], baseline: str) -> str:
    """Return a remark on the discount that the stored advantages agree with; or ""."""
    lanes, header = [each.lane for each in checked], tokens.header
    for gamma in GAMMAS:
        settings = {**header, "gamma": gamma}
        own = credit_of_lanes(header["algorithm_name"], tokens, lanes, settings, baseline)
        pairs = zip(checked, own or [], strict=False)
        if not any(
            list(_farthest(each.numbers("raw_advantages"), credit.advantages))
            for each, credit in pairs
            if credit
        ):
            return f" with gamma {header['gamma']:g}; they agree with gamma {gamma:g}"
    return ""


def _whitening(checked: Checked) -> Iterator[Finding]:
    """Advantages in the loss are (raw - mean) / deviation."""
    header = checked.tokens.header
    mean, deviation = header["whitening_mean"], header["whitening_std"]
    places = np.flatnonzero(checked.tokens.in_loss[checked.lane.acted])
    if checked.config.get("permute_advantages") or not header["has_signal"] or not len(places):
        return
    expected = checked.numbers("raw_advantages")[places]
    if mean is not None and deviation:
        expected = (expected - mean) / deviation
    for at, _ in _farthest(checked.numbers("advantages")[places], expected):
        yield int(places[at]), "not the whitened advantage of this token"


def _mismatch(checked: Checked) -> Iterator[Finding]:
    off = np.abs(checked.numbers("old_logprobs") - checked.numbers("rollout_logprobs"))
    if np.isfinite(off).any() and (mean := np.nanmean(off)) > MAX_MISMATCH:
        text = f"sampled and trained log-probabilities differ by {mean:.3g} on average"
        yield int(np.nanargmax(off)), text


class Rule(NamedTuple):
    """Rule of a check: the statement, and the search for violations."""

    holds: str
    findings: Callable[[Checked], Iterator[Finding]]
    of_learned: bool = True  # of episodes that were learned from alone


RULES = {
    "mask": Rule("trained tokens spell the logged answers", _spelling, of_learned=False),
    "context": Rule("no number of the loss at tool or user text", _context, of_learned=False),
    "ends": Rule("each action is marked as ended", _ends, of_learned=False),
    "truncation": Rule("cut-off episodes bootstrap, ended ones do not", _truncation),
    "cut": Rule("cut actions are masked as --overlong says", _cut_actions),
    "rewards": Rule("rewards stand at the end of their own action", _rewards),
    "credit": Rule(
        "advantages before whitening are those of the run's formula", _discount, of_learned=False
    ),
    "whitening": Rule("advantages in the loss are the whitened ones", _whitening),
    "mismatch": Rule("sampler and trainer agree on log-probabilities", _mismatch),
}
