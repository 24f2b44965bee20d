"""PettingZoo: the team environment as an agent environment cycle (extra `multi-agent`).

A file of its own, since it alone needs PettingZoo.
"""

from __future__ import annotations

from typing import Any

from gymnasium.spaces import Dict

from fctncalling.envs.errors import MissingExtra
from fctncalling.envs.spaces import OBSERVATION_BYTES, UnicodeText
from fctncalling.envs.team import TeamEnv

try:
    from pettingzoo import AECEnv  # pyright: ignore[reportMissingImports]
except ImportError as error:
    raise MissingExtra(
        f"{__name__} needs the library pettingzoo, which cannot be imported ({error}). Install it "
        "with `pip install 'fctncalling[multi-agent]'`."
    ) from error


Observation = dict[str, str]


class TeamAECEnv(AECEnv[str, Observation, str | None]):
    """AEC environment of a team; `env.last()` is the view of the role in turn.

    Arguments are TeamEnv's. `rewards` are the team's for all, or each role's own where the team
    file pays them so. Agents end together. An agent that is observed out of turn sees what it saw
    last. Each role has spaces of its own. An observation is {"text": ...}, for PettingZoo's tests
    take a bare one for an array.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - PettingZoo declares it as an instance variable
        "render_modes": ["human", "ansi"],
        "name": "team_v0",
        "is_parallelizable": False,
    }

    agent_selection: str

    def __init__(self, *, render_mode: str | None = None, **keywords: Any) -> None:
        super().__init__()
        # What people read is the same text, printed.
        text_mode = "ansi" if render_mode == "human" else render_mode
        self.env = TeamEnv(render_mode=text_mode, **keywords)
        self.render_mode = render_mode
        self.possible_agents = list(self.env.team.roles)
        self.observation_spaces = {
            role: Dict({"text": UnicodeText(OBSERVATION_BYTES)}) for role in self.possible_agents
        }
        self.action_spaces = {role: UnicodeText() for role in self.possible_agents}

    def observation_space(self, agent: str) -> Dict:
        """Return the space of a role's observations."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> UnicodeText:
        """Return the space of a role's messages."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin the task `options["task_id"]`, or a random one.

        PettingZoo wants any other option ignored.
        """
        options = {key: value for key, value in (options or {}).items() if key == "task_id"}
        observation, info = self.env.reset(seed=seed, options=options)
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        self._observations: dict[str, Observation] = {agent: {"text": ""} for agent in self.agents}
        self._take(observation, info)

    def step(self, action: str | None) -> None:
        """Play a message of `agent_selection`; None for an agent with an ended episode."""
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        if action is None:
            raise TypeError(f"step: the {agent} is in turn and acts: expected a str, got None.")
        self._cumulative_rewards[agent] = 0.0
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.rewards = dict(info.get("rewards") or dict.fromkeys(self.agents, reward))
        self.terminations = dict.fromkeys(self.agents, terminated)
        self.truncations = dict.fromkeys(self.agents, truncated)
        if terminated or truncated:
            for ended in self.agents:
                self.infos[ended] = {**info, "role": ended}
            self.agent_selection = self.agents[0]
        else:
            self._take(observation, info)
        self._accumulate_rewards()

    def observe(self, agent: str) -> Observation:
        """Return a role's view when its turn last came; "" before its first."""
        return self._observations[agent]

    def render(self) -> str | None:
        """Return the conversation so far ("ansi"), or print it ("human")."""
        text = self.env.render()
        if self.render_mode != "human":
            return text
        print(text)
        return None

    def close(self) -> None:
        """Close the team environment."""
        self.env.close()

    def _take(self, observation: str, info: dict[str, Any]) -> None:
        """Store the view of the role in turn."""
        self.agent_selection = info["role"]
        self._observations[info["role"]] = {"text": observation}
        self.infos[info["role"]] = info
