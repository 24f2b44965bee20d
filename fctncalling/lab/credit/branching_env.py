"""Branching environment: plays a task, or goes on from a snapshot of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fctncalling.envs.episode.state import content_hash


class Snapshot(NamedTuple):
    """State before an action: what branches start from."""

    task_id: str
    state: Any  # of the environment's get_state
    observation: Any
    info: dict[str, Any]  # with every message so far, and the opening's tools and instructions
    texts: tuple[str, ...]  # the agent's messages so far
    state_hash: str  # equal where the same actions have the same future


class BranchingEnv:
    """Environment whose episodes begin at a task's reset or at a stored snapshot.

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

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin the episode of the key `options["task_id"]`."""
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
        """Take an action; of an episode that began at a task, the state before it is kept."""
        before = self._now
        assert before is not None
        if self._records:
            self.trace[self._key].append(before)
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self._records and not (terminated or truncated):
            said = {"role": "assistant", "content": action}
            history = [*before.info["messages"], said, *info["messages"]]
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
        known = info.get("state_hash") or tool_state_hash(state, observation, info)
        info = dict(info, messages=list(info["messages"]))
        self._now = Snapshot(task_id, state, observation, info, texts, str(known))


def tool_state_hash(state: Any, observation: Any, info: Mapping[str, Any]) -> str:
    """Return a hash for environments that offer none: of `get_state`, turn and observation."""
    return content_hash([info.get("turn"), str(observation), state])
