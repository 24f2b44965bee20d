"""ActionForest: the actions of a session, each after the tokens that it followed.

An action's parent is the action whose row its prompt goes on: the longest prefix in tokens. Rows
for training are read off the forest by pure functions: each kept action is acted in exactly one
row, in order of time, and is context wherever it stands again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fctncalling.algorithms.episodes import TokenRecord


@dataclass(frozen=True)
class SampledAction:
    """Action that the policy sampled for one request, with the context read before it."""

    number: int  # from 0, in order of time
    request: int  # of the session, from 0; its `n` choices share one
    parent: int | None  # action whose row goes on; None: a row begins
    context: tuple[int, ...]  # ids read since the parent's end; of the first in a row: the prompt
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    truncated: bool = False  # cut by a limit
    version: int = 0  # of the weights


class PromptPosition(NamedTuple):
    """Place of a prompt in a forest."""

    parent: int | None
    context: tuple[int, ...]  # what the prompt adds to the parent's row


class RowEnd(NamedTuple):
    """The end of an action in its row."""

    offset: int  # number of tokens of the row
    number: int | None  # of the action; None: nothing was sampled yet


ROOT = RowEnd(0, None)


@dataclass
class ActionForest:
    """Actions in order of time, and which go on from which.

    Of what was sampled twice behind the same tokens (a retry, two of `n` choices) the first is gone
    on from.
    """

    actions: list[SampledAction] = field(default_factory=list)
    children: dict[int | None, list[int]] = field(default_factory=dict)
    firsts: dict[int, int] = field(default_factory=dict)  # action -> the first with its tokens

    def add(self, action: SampledAction) -> None:
        """Append an action; its number is its place in the list."""
        siblings = self.choices(PromptPosition(action.parent, action.context))
        same = [each.number for each in siblings if each.ids == action.ids]
        self.actions.append(action)
        self.firsts[action.number] = same[0] if same else action.number
        if not same:
            self.children.setdefault(action.parent, []).append(action.number)

    def path(self, number: int | None) -> list[int]:
        """Return the ids of a row up to the end of an action; none for None."""
        parts: list[tuple[int, ...]] = []
        while number is not None:
            action = self.actions[number]
            parts += [action.ids, action.context]
            number = action.parent
        return [token for part in reversed(parts) for token in part]

    def prompt(self, number: int) -> list[int]:
        """Return all ids that an action followed."""
        action = self.actions[number]
        return [*self.path(action.parent), *action.context]

    def locate(self, prompt: Sequence[int], known: RowEnd = ROOT) -> PromptPosition:
        """Return a prompt's place: after the action with the longest row that it begins with.

        known: a row's end that the prompt goes on from for certain; only what is behind is read.
        """
        best = known
        open_ends = [known]
        while open_ends:
            start, number = open_ends.pop()
            for child in self.children.get(number, ()):
                action = self.actions[child]
                end = start + len(action.context) + len(action.ids)
                if tuple(prompt[start:end]) == action.context + action.ids:
                    open_ends.append(RowEnd(end, child))
                    best = max(best, open_ends[-1], key=lambda each: each.offset)
        return PromptPosition(best.number, tuple(prompt[best.offset :]))

    def choices(self, place: PromptPosition) -> list[SampledAction]:
        """Return the actions that followed the same tokens, each text once."""
        found = (self.actions[number] for number in self.children.get(place.parent, ()))
        return [action for action in found if action.context == place.context]


def kept_actions(forest: ActionForest, referred: Collection[int] = ()) -> list[int]:
    """Return the numbers of the actions that the agent went on from, in order of time.

    Of several that followed the same tokens (`n` choices, a retry), those count that a later
    prompt goes on from or refers to; if none does, those of the last request: it is the one whose
    answer the agent waited for.
    """
    siblings: dict[PromptPosition, list[SampledAction]] = {}
    for action in forest.actions:
        siblings.setdefault(PromptPosition(action.parent, action.context), []).append(action)
    kept: list[int] = []
    for group in siblings.values():
        used = [a for a in group if a.number in forest.children or a.number in referred]
        last = max(action.request for action in group)
        kept += [a.number for a in used or group if used or a.request == last]
    return sorted(kept)


def training_rows(
    forest: ActionForest, kept: Iterable[int], rewards: Mapping[int, float]
) -> list[TokenRecord]:
    """Return the token rows of the stored actions, in order of time.

    An action goes on in the row of the one before it where its tokens do and the weights are the
    same; else a row begins, in which all before the action is context.
    """
    rows: list[TokenRecord] = []
    before: SampledAction | None = None
    for number in kept:
        action = forest.actions[number]
        goes_on = before is not None and action.parent == before.number
        if before is None or not goes_on or action.version != before.version:
            rows.append(TokenRecord([], [], [], [], [], version=action.version))
            _append_context(rows[-1], forest.prompt(number))
        else:
            _append_context(rows[-1], action.context)
        _append_action(rows[-1], action, rewards.get(number, 0.0))
        before = action
    return rows


def rewards_of_actions(kept: Sequence[int], given: Iterable[tuple[int, float]]) -> dict[int, float]:
    """Return the reward of each stored action from (number of the last action then, reward) pairs.

    A reward for an action that was not kept goes to the last kept one before it, or else to the
    first.
    """
    placed: dict[int, float] = {}
    for number, reward in given:
        earlier = [each for each in kept if each <= number]
        if kept:
            target = earlier[-1] if earlier else kept[0]
            placed[target] = placed.get(target, 0.0) + reward
    return placed


def _append_context(row: TokenRecord, ids: Sequence[int]) -> None:
    row.ids += ids
    row.acted += [False] * len(ids)
    row.ends_action += [False] * len(ids)
    row.rollout_logprobs += [0.0] * len(ids)
    row.rewards += [0.0] * len(ids)


def _append_action(row: TokenRecord, action: SampledAction, reward: float) -> None:
    count = len(action.ids)
    row.ids += action.ids
    row.acted += [True] * count
    row.ends_action += [False] * (count - 1) + [True]
    row.rollout_logprobs += action.logprobs
    row.rewards += [0.0] * (count - 1) + [reward]
