"""Episode and token records, the rollout's output and the update's input, and their metrics."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fctncalling.data.categories import WITHOUT_ANSWER
from fctncalling.data.types import Episode

FIELDS = ("ids", "acted", "ends_action", "rollout_logprobs", "rewards")
"""Lists of a token record, with one entry a token."""
OF_ACTED = ("rollout_logprobs", "rewards")  # of them, those that are 0.0 where nothing was acted
CLARIFY = "clarify"  # what the categories of questioning tasks begin with
Place = tuple[int, int, bool]
"""Turn, calls of the truth still to come, whether the episode is on the truth's path."""
PARSE_ERRORS = frozenset({"malformed", "unread_call", "unknown_function", "bad_arguments"})


class RowArrays(NamedTuple):
    """Arrays of a row of T tokens: token ids, and which of them the policy sampled."""

    ids: NDArray[np.int32]  # (T,)
    acted: NDArray[np.bool_]  # (T,)


@dataclass
class TokenRecord:
    """Record of tokens: of an episode (append-only chat template), or of one step of it.

    All lists have one entry a token. Tokens sampled by the policy are `acted`; all others (system,
    user, tool, template) are context. The ids are those sampled, never decoded and encoded again.
    """

    ids: list[int]
    acted: list[bool]
    ends_action: list[bool]  # the last sampled token of its action
    rollout_logprobs: list[float]  # as sampled, NaN where unknown; 0.0 where not acted
    rewards: list[float]  # the step's reward on the token that ends its action, 0.0 elsewhere
    role: str = ""  # info["role"] of its acted tokens; empty where the environment names none
    # what a central critic reads in its place (see `add_critic_rows`)
    joint: RowArrays | None = None
    version: int | None = None  # of the weights that sampled it; None: those of its round

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields as pickle and other processes take them, some 8 bytes a token."""
        packed: dict[str, Any] = {"ids": array("i", self.ids)}
        packed |= {name: bytes(getattr(self, name)) for name in ("acted", "ends_action")}
        for name in OF_ACTED:
            packed[name] = array("d", itertools.compress(getattr(self, name), self.acted))
        return self.__dict__ | packed

    def __setstate__(self, state: dict[str, Any]) -> None:
        unpacked: dict[str, Any] = {"ids": state["ids"].tolist()}
        unpacked |= {n: np.frombuffer(state[n], bool).tolist() for n in ("acted", "ends_action")}
        places = np.flatnonzero(unpacked["acted"]).tolist()
        for name in OF_ACTED:
            unpacked[name] = [0.0] * len(state["ids"])
            for place, value in zip(places, state[name], strict=True):
                unpacked[name][place] = value
        self.__dict__ |= state | unpacked

    @property
    def num_acted(self) -> int:
        """Number of acted tokens, those that the policy sampled."""
        return self.acted.count(True)


@dataclass
class EpisodeRecord:
    """Record of one episode for training: its token rows and how it ended."""

    task_id: str
    category: str
    # one row (append-only template) or one per step; includes the context after the last action
    rows: list[TokenRecord]
    terminated: bool = False
    # cut by an outside budget: bootstrap with the value after the last row's last token
    truncated: bool = False
    invalid: bool = False  # infrastructure failed: dropped and counted, never scored
    invalid_reason: str = ""  # what failed
    success: bool | None = False  # None: nobody judged it, a reward is all there is
    strict_success: bool | None = None  # success by the strict verdict; None without one
    strict_error_type: str | None = None  # the strict verdict's, with its message
    strict_message: str = ""
    episode_return: float = 0.0
    num_steps: int = 0
    num_actions_truncated: int = 0  # actions cut by --max_new_tokens
    num_words: list[int] = field(default_factory=list)  # of each action's text; or empty
    # indices, from 0, of the actions cut by --max_new_tokens
    cut_actions: list[int] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)  # info["error"] of each step that had one
    env_seed: int | None = None  # that the environment was reset with
    next_turn: int | None = None  # info["turn"] behind the last step; None: not known
    episode: object | None = None  # fctncalling.data.types.Episode, for the episode log
    # The environment's messages in OpenAI form: those of reset, then those after each step.
    messages: list[list[Any]] = field(default_factory=list)
    # info["ground_truth"] at the episode's end, or the environment's attribute, if there
    ground_truth: Any = None
    # info["role"] of each action in time order, empty where the environment names none; rows are
    # then sorted by role, each role's in time order
    roles: list[str] = field(default_factory=list)
    role_rewards: list[dict[str, float]] = field(default_factory=list)  # info["rewards"] by step
    role: str = ""  # of a role's part of an episode (see split_by_role)
    # info["state_hash"] before each action; empty where the environment offers none
    state_hashes: list[str] = field(default_factory=list)
    # info["place"] before each action, and behind the last where the episode was cut; empty where
    # the environment does not name all of them
    places: list[Place] = field(default_factory=list)
    state: str = ""  # info["state"] of reset: what a central critic knows beside the conversation

    @property
    def group_key(self) -> tuple[str, int | None, str]:
        """Group key of the episode (GRPO): task, environment seed and role."""
        return self.task_id, self.env_seed, self.role


def lack_ground_truths(episodes: Sequence[EpisodeRecord]) -> bool:
    """Whether episodes lack ground truths, all of them, though tasks of their kinds have some."""
    return not any(
        episode.ground_truth is not None or episode.category in WITHOUT_ANSWER
        for episode in episodes
    )


def task_outcomes(episodes: Sequence[EpisodeRecord], *, strict: bool) -> list[tuple[str, bool]]:
    """Return the outcomes of tasks, (task id, success), one for each valid episode.

    strict: by the strict verdict, where the environment gave one.
    """
    return [
        (
            episode.task_id,
            _was_solved(episode)
            if not strict or episode.strict_success is None
            else episode.strict_success,
        )
        for episode in episodes
        if not episode.invalid
    ]


def _was_solved(episode: EpisodeRecord) -> bool:
    """Whether an episode succeeded; if it was not judged, whether its return is positive."""
    return episode.episode_return > 0 if episode.success is None else episode.success


def check_token_record(row: TokenRecord) -> None:
    """Check a token record; ValueError if its lists are inconsistent.

    A shifted mask would train on context.
    """
    sizes = {name: len(getattr(row, name)) for name in FIELDS}
    if len(set(sizes.values())) != 1:
        raise ValueError(f"token record: all lists must have one entry a token, got {sizes}")
    if row.acted and row.acted[0]:
        raise ValueError(
            "token record: the first token is acted, but no token before it could have predicted it"
        )
    for index, (acted, ends_action, reward) in enumerate(
        zip(row.acted, row.ends_action, row.rewards, strict=True)
    ):
        if not acted and (ends_action or reward):
            raise ValueError(
                f"token record: token {index} was not acted, yet has ends_action={ends_action}, "
                f"reward={reward}: rewards belong to the acted token that ends their action, or "
                "they would vanish"
            )


class ActionFacts(NamedTuple):
    """Facts of all actions of some episodes, in order."""

    turns: list[int]  # from 1: a user's message begins the next; 1 in an episode without messages
    num_words: list[int]  # 0 in an episode without `num_words`
    cut: list[bool]  # by --max_new_tokens


def action_facts(episodes: Sequence[EpisodeRecord]) -> ActionFacts:
    """Return facts of the episodes' actions; ValueError if a row is inconsistent."""
    facts = ActionFacts([], [], [])
    for episode in episodes:
        for row in episode.rows:
            check_token_record(row)
        num_actions = sum(sum(row.ends_action) for row in episode.rows)
        counted = len(episode.num_words) == num_actions
        facts.num_words.extend(episode.num_words if counted else [0] * num_actions)
        turn = 1
        for action in range(num_actions):
            if 0 < action < len(episode.messages):
                turn += any(message["role"] == "user" for message in episode.messages[action])
            facts.turns.append(turn)
            facts.cut.append(action in episode.cut_actions)
    return facts


def episode_metrics(records: Sequence[EpisodeRecord]) -> dict[str, float | None]:
    """Return the metrics of a batch of episodes.

    Means over valid episodes; error rates per step.
    """
    valid = [record for record in records if not record.invalid]
    num_invalid = sum(record.invalid for record in records)
    metrics: dict[str, float | None] = {
        "env/episodes": len(records),
        "env/invalid": num_invalid,
        "env/invalid_rate": num_invalid / len(records) if records else None,
    }
    if not valid:
        return metrics
    steps = max(1, sum(record.num_steps for record in valid))
    errors = [error for record in valid for error in record.errors]
    metrics |= {
        "charts/episodic_return": fmean(record.episode_return for record in valid),
        "charts/episodic_length": fmean(record.num_steps for record in valid),
        "env/turns_mean": fmean(_num_turns(record) for record in valid),
        "env/parse_error_rate": sum(error in PARSE_ERRORS for error in errors) / steps,
        "env/tool_error_rate": sum(error == "tool_error" for error in errors) / steps,
        "env/truncated_rate": fmean(record.truncated for record in valid),
        **_token_metrics(valid, steps),
    }
    metrics |= question_rates_by_category(valid, "env/asked")
    return metrics | success_metrics(valid, "env/success_rate", "env/success_rate_strict")


def success_metrics(
    records: Sequence[EpisodeRecord], name: str, strict_name: str
) -> dict[str, float | None]:
    """Return success metrics: rates, official and strict, overall and by category.

    Rates are left out where nobody judged: official, strict.
    """
    metrics: dict[str, float | None] = {}
    for key, rate in ((name, success_rate), (strict_name, strict_success_rate)):
        if rate(records) is None:
            continue
        metrics[key] = rate(records)
        for category in sorted({record.category for record in records if not record.invalid}):
            metrics[f"{key}/{category}"] = rate([r for r in records if r.category == category])
    return metrics


def success_rate(records: Sequence[EpisodeRecord]) -> float | None:
    """Return the success rate by the official verdict, of valid episodes; None without any."""
    judged = [
        record.success for record in records if not record.invalid and record.success is not None
    ]
    return fmean(judged) if judged else None


def strict_success_rate(records: Sequence[EpisodeRecord]) -> float | None:
    """Return the success rate by the strict verdict, of valid episodes.

    None without any such verdict.

    An episode that was cut before its end has no verdict of either kind, and is not solved.
    """
    valid = [record for record in records if not record.invalid]
    if all(record.strict_success is None for record in valid):
        return None
    return fmean(bool(record.strict_success) for record in valid)


def mean_return_without_verdict(records: Sequence[EpisodeRecord]) -> float | None:
    """Return the mean return without verdict: of valid episodes of such environments.

    Their success is a return above 0 and says little; None for others.
    """
    valid = [record.episode_return for record in records if not record.invalid]
    return fmean(valid) if valid and strict_success_rate(records) is None else None


def question_rates_by_category(
    records: Sequence[EpisodeRecord], name: str
) -> dict[str, float | None]:
    """Return question rates by category, of the categories of questioning tasks.

    {} where there is none.
    """
    categories = sorted({each.category for each in records if each.category.startswith(CLARIFY)})
    return {
        f"{name}/{category}": question_rate([r for r in records if r.category == category])
        for category in categories
    }


def question_rate(records: Sequence[EpisodeRecord]) -> float | None:
    """Return the rate of valid episodes with a question to the user; None without any."""
    valid = ["no_call" in record.errors for record in records if not record.invalid]
    return fmean(valid) if valid else None


def _token_metrics(valid: Sequence[EpisodeRecord], steps: int) -> dict[str, float | None]:
    acted = sum(row.num_acted for record in valid for row in record.rows)
    total = sum(len(row.ids) for record in valid for row in record.rows)
    prompts = [
        row.acted.index(True) for record in valid for row in record.rows[:1] if row.num_acted
    ]
    return {
        "tokens/prompt_length_mean": fmean(prompts) if prompts else None,
        "tokens/episode_length_mean": total / len(valid),
        "tokens/action_length_mean": acted / steps,
        "tokens/action_truncated_rate": sum(record.num_actions_truncated for record in valid)
        / steps,
    }


def _num_turns(record: EpisodeRecord) -> int:
    steps = record.episode.steps if isinstance(record.episode, Episode) else ()
    return max((step.turn + 1 for step in steps), default=0)
