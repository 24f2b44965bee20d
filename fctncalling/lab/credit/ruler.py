"""Branched truth: V, Q and A of the current policy, by continuing from copies of a state."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.generation.engine_api import Engine
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.rollout.collect import collect
from fctncalling.envs.episode.state import UnreadableStateError, content_hash


class Snapshot(NamedTuple):
    """State before an action, from which branches start."""

    task_id: str
    state: Any  # of the environment's get_state
    observation: Any
    info: dict[str, Any]  # with every message so far, and the opening's tools and instructions
    texts: tuple[str, ...]  # the agent's messages so far
    state_hash: str  # equal where the same actions have the same future


class BranchingEnv:
    """Environment with episodes that begin at a reset or at a stored snapshot.

    Episodes are named by keys: `origins` says for each what it starts from, a task id or a
    Snapshot. `trace` takes, for each key, the snapshots before its actions. A branch is shown the
    whole conversation as its first messages, and begins with the tokens that its snapshot's info
    names as `prompt_ids`; `measure_truth` compares them with the episode's.
    """

    def __init__(self, env: Any, origins: Mapping[str, Any], trace: dict[str, list[Snapshot]]):
        self.env = env
        self.origins = origins
        self.trace = trace
        self._key = ""
        self._now: Snapshot | None = None
        self._records = False
        self._unreadable = count()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin the episode with the key `options["task_id"]`."""
        self._key = str((options or {})["task_id"])
        origin = self.origins[self._key]
        self._records = not isinstance(origin, Snapshot)
        if isinstance(origin, Snapshot):
            self.env.unwrapped.set_state(origin.state)
            self._now = origin
            info = dict(origin.info, messages=list(origin.info["messages"]))
            return origin.observation, info
        observation, info = self.env.reset(seed=seed, options={"task_id": origin})
        self.trace[self._key] = []
        self._take(str(origin), observation, info, ())
        return observation, info

    def step(self, action: str) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take an action; store the state before it if the episode began at a task."""
        before = self._now
        assert before is not None
        if self._records:
            self.trace[self._key].append(before)
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self._records and not (terminated or truncated):
            message = {"role": "assistant", "content": action}
            history = [*before.info["messages"], message, *info["messages"]]
            opening = {
                name: before.info[name] for name in ("tools", "instructions") if name in before.info
            }
            after = {**info, **opening, "messages": history}
            self._take(before.task_id, observation, after, (*before.texts, action))
        return observation, reward, terminated, truncated, info

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _take(
        self, task_id: str, observation: Any, info: dict[str, Any], texts: tuple[str, ...]
    ) -> None:
        state = self.env.unwrapped.get_state()
        hash_ = info.get("state_hash") or tool_state_hash(state, observation, info)
        hash_ = hash_ or f"unreadable {next(self._unreadable)}"  # a state like no other
        info = dict(info, messages=list(info["messages"]))
        self._now = Snapshot(task_id, state, observation, info, texts, str(hash_))


def tool_state_hash(state: Any, observation: Any, info: Mapping[str, Any]) -> str:
    """Hash `get_state`, turn and observation, for environments without a state hash.

    "" where the state cannot be read.
    """
    try:
        return content_hash([info.get("turn"), str(observation), state])
    except UnreadableStateError:
        return ""


PRIOR = 0.1  # of a state's variance, worth one branch: equal returns do not prove it to be 0
Vector = NDArray[np.float64]


class UngradableRunError(ValueError):
    """Error of a run that cannot be graded."""


@dataclass(frozen=True)
class RulerSettings:
    """Numbers of graded episodes and of branches per state."""

    group_size: int = 8
    discount: float = 1.0
    standard_error: float = 0.05  # wanted, of an action's advantage
    min_branches: int = 16  # of each state
    max_branches: int = 200
    num_envs: int = 96
    max_episode_tokens: int = 2048
    seed: int = 1


@dataclass
class BranchedTruth:
    """Sampled episodes with the true value of every state on their way.

    `values[e][t]` is V of the state before action t of episode e; A(t) = r(t) + discount V(t + 1)
    - V(t), with V = 0 after the end. Actions of one episode share the noise of the state between
    them; episodes of a group share states whose histories are equal.
    """

    episodes: list[EpisodeRecord]
    snapshots: list[list[Snapshot]]  # before each action
    rewards: list[Vector]  # of each action
    values: list[Vector]
    value_variances: list[Vector]  # of the values' means
    halves: tuple[list[Vector], list[Vector]]  # values by the even and by the odd branches
    num_branches: int = 0
    num_branch_steps: int = 0
    num_states: int = 0
    same_prefixes: int = 0  # states whose branches began with the episode's own tokens
    cpu_seconds: float = 0.0
    discount: float = 1.0

    def advantages(self, values: Sequence[Vector] | None = None) -> list[Vector]:
        """Return the advantage of every action, by the true or other values."""
        return [
            rewards + self.discount * np.append(at[1:], 0.0) - at
            for rewards, at in zip(self.rewards, values or self.values, strict=True)
        ]

    def standard_errors(self) -> list[Vector]:
        """Return the standard error of every action's advantage."""
        return [
            np.sqrt(at + self.discount**2 * np.append(at[1:], 0.0)) for at in self.value_variances
        ]


@dataclass
class _State:
    """Distinct history of a group, and the returns of its branches."""

    snapshot: Snapshot
    returns: list[float] = field(default_factory=list)

    @property
    def variance(self) -> float:
        """Variance of one return, shrunk towards PRIOR."""
        count = len(self.returns)
        return (count * float(np.var(self.returns)) + PRIOR) / (count + 1)

    def wanted(self, settings: RulerSettings) -> int:
        """Return how many more branches this state needs."""
        if not self.returns:
            return settings.min_branches
        needed = math.ceil(self.variance / (settings.standard_error**2 / 2))
        return max(0, min(needed, settings.max_branches) - len(self.returns))


OpenEngine = Callable[[], AbstractContextManager[Engine]]


class BranchPlayer:
    """Player of tasks and branches with one policy, many concurrently."""

    def __init__(
        self,
        make_env: Callable[[], Any],
        open_engine: OpenEngine,
        template: ChatTemplate,
        settings: RulerSettings,
    ) -> None:
        self.settings = settings
        self._make_env = make_env
        self._open_engine = open_engine
        self.template = template

    def play(
        self,
        origins: Mapping[str, Any],
        seed: int,
        group_size: int = 1,
        on_episode: Callable[[EpisodeRecord], None] | None = None,
    ) -> tuple[list[EpisodeRecord], dict[str, list[Snapshot]]]:
        """Play an episode for each key; return episodes in order, with snapshots."""
        trace: dict[str, list[Snapshot]] = {}
        count = min(self.settings.num_envs, len(origins))
        envs: list[Any] = [BranchingEnv(self._make_env(), origins, trace) for _ in range(count)]
        try:
            with torch.inference_mode(), self._open_engine() as engine:
                episodes = collect(
                    envs,
                    engine,
                    self.template,
                    list(origins),
                    max_episode_tokens=self.settings.max_episode_tokens,
                    seed=seed,
                    group_size=group_size,
                    on_episode=on_episode,
                )
        finally:
            for env in envs:
                env.close()
        return episodes, trace


def measure_truth(
    player: BranchPlayer, task_ids: Sequence[str], progress: Callable[[str], None] = lambda _: None
) -> BranchedTruth:
    """Sample groups of episodes, and measure the true values of their states by branches."""
    settings = player.settings
    truth = sample_groups(player, task_ids)
    # The policy reads the whole history, so only equal histories have one value by right; the
    # state-matched estimator assumes that equal tool states are alike.
    nodes: dict[_Key, _State] = {}
    for place, step, key in _keys(truth):
        nodes.setdefault(key, _State(truth.snapshots[place][step]))
    truth.num_states = len(nodes)
    first_rows: dict[int, Any] = {}
    number, states = 0, list(nodes.values())
    while wanted := {index: n for index, s in enumerate(states) if (n := s.wanted(settings))}:
        number += 1
        jobs = [index for index, count in wanted.items() for _ in range(count)]
        progress(f"round {number}: {len(jobs):,} branches from {len(wanted):,} states")
        origins = {f"{index}/{n}": states[index].snapshot for n, index in enumerate(jobs)}
        tell = _tell_tenths(len(jobs), progress)
        episodes, _ = player.play(origins, settings.seed + 1000 * number, on_episode=tell)
        for index, branch in zip(jobs, episodes, strict=True):
            if not branch.invalid:
                states[index].returns.append(discounted_return(branch, settings.discount))
                first_rows.setdefault(index, branch.rows[0])
            truth.num_branches += 1
            truth.num_branch_steps += branch.num_steps
        if any(not states[index].returns for index in wanted):
            fault = "every branch of a state is invalid: its tools cannot be copied"
            raise UngradableRunError(fault)
    places = {key: index for index, key in enumerate(nodes)}
    _fill(truth, nodes)
    truth.same_prefixes = sum(
        _same_prefix(truth, key, first_rows.get(index)) for key, index in places.items()
    )
    return truth


def _tell_tenths(total: int, progress: Callable[[str], None]) -> Callable[[EpisodeRecord], None]:
    """Return a callback for played branches that reports every tenth of a long round."""
    step, played = max(total // 10, 100), 0

    def tell(_: EpisodeRecord) -> None:
        nonlocal played
        played += 1
        if played % step == 0:
            progress(f"  {played:,} of {total:,} branches")

    return tell


def sample_groups(player: BranchPlayer, task_ids: Sequence[str]) -> BranchedTruth:
    """Sample a group of episodes for each task, without truth yet."""
    settings = player.settings
    origins = {
        f"{task_id} #{number}": task_id
        for task_id in task_ids
        for number in range(settings.group_size)
    }
    played, trace = player.play(origins, settings.seed, settings.group_size)
    records = [
        (replace(episode, task_id=origins[key]), trace[key])
        for key, episode in zip(origins, played, strict=True)
        if not episode.invalid and trace.get(key) and len(trace[key]) == episode.num_steps
    ]
    if not records:
        raise UngradableRunError("no valid episode was played: nothing can be graded")
    for episode, snapshots in records:
        for step, snapshot in enumerate(snapshots):
            snapshot.info["prompt_ids"] = _tokens_before(episode, step)
    return BranchedTruth(
        episodes=[episode for episode, _ in records],
        snapshots=[snapshots for _, snapshots in records],
        rewards=[step_rewards(episode) for episode, _ in records],
        values=[],
        value_variances=[],
        halves=([], []),
        discount=settings.discount,
    )


def step_rewards(episode: EpisodeRecord) -> Vector:
    """Return the reward of every action of an episode."""
    steps: Any = episode.episode
    return np.asarray([step.reward for step in steps.steps], dtype=np.float64)


def discounted_return(episode: EpisodeRecord, discount: float) -> float:
    """Return the discounted sum of an episode's rewards."""
    rewards = step_rewards(episode)
    return float(rewards @ discount ** np.arange(len(rewards)))


def returns_to_go(rewards: Vector, discount: float) -> Vector:
    """Return the discounted reward to go before each action."""
    later, returns = 0.0, np.zeros(len(rewards))
    for index in range(len(rewards) - 1, -1, -1):
        later = float(rewards[index]) + discount * later
        returns[index] = later
    return returns


_Key = tuple[str, tuple[str, ...]]


def _keys(truth: BranchedTruth) -> Iterator[tuple[int, int, _Key]]:
    for number, snapshots in enumerate(truth.snapshots):
        for step, snapshot in enumerate(snapshots):
            yield number, step, (snapshot.task_id, snapshot.texts)


def _fill(truth: BranchedTruth, states: Mapping[_Key, _State]) -> None:
    for snapshots in truth.snapshots:
        own = [states[snapshot.task_id, snapshot.texts] for snapshot in snapshots]
        returns = [np.asarray(state.returns) for state in own]
        truth.values.append(np.asarray([state_returns.mean() for state_returns in returns]))
        variances = [state.variance / len(state.returns) for state in own]
        truth.value_variances.append(np.asarray(variances))
        for offset, half in enumerate(truth.halves):
            parts = [state_returns[offset::2] for state_returns in returns]
            half.append(np.asarray([part.mean() if len(part) else 0.0 for part in parts]))


def _same_prefix(truth: BranchedTruth, key: _Key, branch: Any) -> bool:
    """Whether a branch began with the tokens that the episode had before the action."""
    if branch is None:
        return False
    for number, step, branch_key in _keys(truth):
        if branch_key == key:
            own = list(branch.ids[: branch.acted.index(True)])
            return _tokens_before(truth.episodes[number], step) == own
    return False


def _tokens_before(episode: EpisodeRecord, step: int) -> list[int]:
    """Return the tokens that the policy had read and written before an action."""
    apart = len(episode.rows) > 1  # one row an action
    row = episode.rows[step if apart else 0]
    return list(row.ids[: action_starts(row)[0 if apart else step]])


def action_starts(row: Any) -> list[int]:
    """Return the position of each action's first token in a row."""
    acted, ends = list(row.acted), list(row.ends_action)
    return [
        index
        for index, is_acted in enumerate(acted)
        if is_acted and (index == 0 or not acted[index - 1] or ends[index - 1])
    ]
