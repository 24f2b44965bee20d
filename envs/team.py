"""Gymnasium environment of several roles in one conversation, each with its view and tools."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gymnasium.error import ResetNeeded

from fctncalling.data.types import Call, Message, Task, Verdict
from fctncalling.data.unsafe_text import cut_text, encodable_text, encodable_value, join_surrogates
from fctncalling.envs.conversations import transcript
from fctncalling.envs.episode_runner import ParsedMessage, parse_message
from fctncalling.envs.function_calling import FunctionCallingEnv, Step
from fctncalling.envs.handlers.handler import UNREAD
from fctncalling.envs.handlers.registry import resolve_handler
from fctncalling.envs.spaces import OBSERVATION_BYTES
from fctncalling.envs.teams import Team, TeamRole, load_team
from fctncalling.envs.teams.parcels import parcel_tasks
from fctncalling.envs.teams.role_prompts import (
    DraftMessage,
    RolePrompts,
    RoleViews,
    TeamConversation,
    common_info,
    initial_team_state,
    team_observation,
    with_role_system_message,
)
from fctncalling.envs.teams.team import TOOL, USER

NUM_DEFAULT_TASKS = 256


class TeamEnv(FunctionCallingEnv):
    """Gymnasium environment of BFCL tasks played by a team, one role's message a step.

    `info["role"]` names the role that acts next; observation, `info["messages"]`, `info["tools"]`
    and `info["instructions"]` are what that role sees since it last acted. The other fields are
    those of `FunctionCallingEnv`, `calls` and `error` about the last action. Calls run, and answers
    end the user's turn, as there; so a team of one role plays as an agent alone does.

    `info["state"]` of reset is what all roles are told at the beginning, for a central critic.
    Rewards are the team's. Where the team file pays roles otherwise, `info["rewards"]` has what
    this step paid each role.

    ## Arguments
    - `team`: a Team, a JSON or YAML file, or a built-in name (see `fctncalling.envs.teams`).
    - `dataset_path` or `tasks`: BFCL tasks, whose entries may have a field "knowledge", texts by
      name; neither: parcels (see `fctncalling.envs.teams.parcels`).
    - `handler`, `prompt_style`, and any other keyword: FunctionCallingEnv's.

    Raises TeamError for a team that cannot be read, or that does not fit the tasks.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(
        self,
        *,
        team: Team | str | Path = "parcels",
        dataset_path: str | Path | None = None,
        tasks: Sequence[Task] | None = None,
        prompt_style: str = "bfcl",
        **keywords: Any,
    ) -> None:
        self.team = team if isinstance(team, Team) else load_team(team)
        if tasks is None and dataset_path is None:
            tasks = parcel_tasks("train", NUM_DEFAULT_TASKS)
        super().__init__(
            dataset_path=dataset_path, tasks=tasks, prompt_style=prompt_style, **keywords
        )
        self._prompts = RolePrompts(self._runner.handler, prompt_style)
        self._check_team(own_tools=keywords.get("tools") is not None)
        self._conversation: TeamConversation

    @property
    def roles(self) -> tuple[str, ...]:
        """Names of the roles, as in `info["role"]`."""
        return tuple(self.team.roles)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Reset to the task `options["task_id"]`, or a random one; return the first role's view.

        Raises as FunctionCallingEnv's does.
        """
        _, info = super().reset(seed=seed, options=options)
        talk = TeamConversation(self.team, RoleViews(self.team.roles))
        talk.views.deliver(USER, info["messages"])
        talk.log += copy.deepcopy(info["messages"])
        self._conversation = talk
        common = {key: value for key, value in common_info(info).items() if key != "messages"}
        common["state"] = encodable_text(initial_team_state(self.team, self.task))
        return self._role_observation_and_info(talk, common)

    def step(self, action: str) -> Step:
        """Play one message of the role `info["role"]`.

        Returns Gymnasium's five values, with the view of the next role. Raises ResetNeeded before
        the first reset and after the end, TypeError for no `str`.
        """
        self._required_state("step")
        talk = self._conversation
        if talk.ended:
            raise ResetNeeded("step: the task has ended. Call reset() before the next step().")
        if not isinstance(action, str):
            raise TypeError(f"step: the action is a {type(action).__name__}: expected a str.")
        text = join_surrogates(str(action))
        talk.log.append({"role": "assistant", "speaker": talk.role, "content": text})
        return self._play(talk, text)

    def _play(self, talk: TeamConversation, text: str) -> Step:
        """Play a message: a call or an answer, an approval, or a message to the other roles."""
        role, approval = self.team.roles[talk.role], self.team.approval
        parsed = self._parsed(role, text)
        if (foreign := self._foreign_call(role, parsed.calls)) is not None:
            return self._refuse(talk, parsed.calls, foreign)
        talk.share_message(text)
        has_calls = bool(parsed.calls) or parsed.error in UNREAD
        if approval is not None and approval.role == role.name and not has_calls:
            draft, talk.draft = talk.draft, None
            if draft is None or not approval.applies(role.name, text):
                return self._hand_on(talk, ())
            talk.position = draft.position
            return self._environment_step(talk, draft.text, spoke=role.name)
        if not has_calls and not self.team.answer.applies(role.name, text):
            return self._hand_on(talk, ())
        if approval is not None and approval.role != role.name:
            talk.draft = DraftMessage(talk.position, text)
            return self._hand_on(talk, parsed.calls)
        return self._environment_step(talk, text, spoke=role.name)

    def _environment_step(self, talk: TeamConversation, text: str, *, spoke: str) -> Step:
        """Pass a message of the role in turn to the environment; `spoke`: the role of the step."""
        _, reward, terminated, truncated, info = super().step(text)
        writer = talk.role
        talk.ended = terminated or truncated
        talk.verdict = info.get("verdict")
        talk.log += copy.deepcopy(info["messages"])
        if info["turn"] != talk.turn:
            talk.begin_turn(info["turn"])
            talk.views.deliver(USER, info["messages"])
        else:
            for message in info["messages"]:
                source = TOOL if message["role"] == "tool" else USER
                talk.views.deliver(source, [message], owner=talk.role)
        common = common_info(info)
        common |= self.team.rewards_info(reward, spoke, writer if info["error"] else None)
        observation, info = self._role_observation_and_info(talk, common)
        return observation, reward, terminated, truncated, info

    def _hand_on(self, talk: TeamConversation, calls: Sequence[Call]) -> Step:
        """Pass the turn to the next role."""
        spoke = talk.role
        talk.pass_turn()
        return self._without_environment(talk, spoke, calls, None)

    def _refuse(self, talk: TeamConversation, calls: Sequence[Call], foreign: str) -> Step:
        """Answer a call of another role's tool with an error; no call is executed."""
        tools = self._prompts.tools(self.task, talk.turn, self.team.roles[talk.role])
        names = [tool["function"]["name"] for tool in tools]
        content = (
            f'Error: the {talk.role} cannot call "{foreign}". '
            f"Its functions: {', '.join(names) or 'none'}."
        )
        message: Message = {"role": "tool", "name": foreign, "content": content}
        talk.views.deliver("", [message], owner=talk.role)
        talk.log.append(dict(message))
        return self._without_environment(talk, talk.role, calls, "unknown_function")

    def _without_environment(
        self, talk: TeamConversation, spoke: str, calls: Sequence[Call], error: str | None
    ) -> Step:
        """Return the step of a message that did not reach the environment."""
        task = self.task
        info: dict[str, Any] = {"task_id": task.id, "category": task.category, "calls": list(calls)}
        talk.ended = talk.count_message()
        if talk.ended:
            reason = f"{self.team.max_messages} messages passed without a call or an answer"
            talk.verdict = Verdict(False, 0.0, "team:message_limit", reason)
            error = "step_limit"
            info |= {"verdict": talk.verdict, "ground_truth": copy.deepcopy(task.ground_truth)}
        info |= {"error": error, **self.team.rewards_info(0.0, spoke, spoke if error else None)}
        observation, info = self._role_observation_and_info(talk, info)
        return observation, 0.0, talk.ended, False, info

    def _role_observation_and_info(
        self, talk: TeamConversation, common: dict[str, Any]
    ) -> tuple[str, dict[str, Any]]:
        """Build the view of the role in turn; at the end, the messages of the last step."""
        role, task, system = self.team.roles[talk.role], self.task, ""
        messages = common.pop("messages", []) if talk.ended else talk.views.take_unread(role.name)
        messages = encodable_value(messages)
        if not talk.ended and role.name not in talk.opened:
            talk.opened.add(role.name)
            messages = with_role_system_message(role, task, messages)
            system = self._prompts.instructions(task, role)
            common["instructions"] = system
        contents = team_observation(messages)
        whole = encodable_text(f"{system}\n\n{contents}" if system else contents)
        observation, cut = cut_text(whole, OBSERVATION_BYTES)
        if cut:
            common["observation_bytes_cut"] = cut
        return observation, {
            **common,
            "role": role.name,
            "turn": talk.turn,
            "messages": messages,
            "tools": self._prompts.tools(task, talk.turn, role),
            "stop": list(getattr(resolve_handler(self._prompts.handler, task), "stop", ())),
            "continuation": "message",
        }

    def _parsed(self, role: TeamRole, text: str) -> ParsedMessage:
        """Parse a message as the environment would.

        A role without tools and answers writes no calls, whatever its text looks like.
        """
        if not role.calls_tools and self.team.answer.role != role.name:
            return ParsedMessage((), (), None, None, "")
        task = self.task
        return parse_message(
            resolve_handler(self._prompts.handler, task), text, executes=task.executes_calls
        )

    def _foreign_call(self, role: TeamRole, calls: Sequence[Call]) -> str | None:
        """Return the first called function that only other roles may call, or None."""
        offered = {doc.name for doc in self.task.functions}
        names = (call.name for call in calls)
        return next((n for n in names if n in offered and not role.may_call(n)), None)

    def _check_team(self, *, own_tools: bool) -> None:
        """Raise TeamError if no task has the team's tools or knowledge.

        Docs of the user's own tools are made only when a task is played.
        """
        functions = {doc.name for task in self.tasks for doc in task.functions}
        if own_tools:
            functions |= {name for role in self.team.roles.values() for name in role.tools or ()}
        knowledge = {name for task in self.tasks for name in task.extra.get("knowledge", ())}
        self.team.check_tasks(functions, knowledge)

    def render(self) -> str | None:
        """Render the conversation so far ("ansi"), each role under its name; None otherwise."""
        if self.render_mode != "ansi":
            return None
        self._required_state("render")
        return transcript(self._conversation.log, self._conversation.verdict)

    def get_state(self) -> dict[str, Any]:
        """Copy the environment's state, random stream included."""
        conversation = None if self._state is None else self._conversation
        return {**super().get_state(), "conversation": copy.deepcopy(conversation)}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `get_state`, of this environment or one with equal arguments."""
        super().set_state(state)
        self._conversation = copy.deepcopy(state["conversation"])
