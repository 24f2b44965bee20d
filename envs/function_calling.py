"""FunctionCallingEnv: BFCL tasks as a Gymnasium environment; an action is one assistant message."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.error import ResetNeeded

from fctncalling.data.types import Episode, Message, Task
from fctncalling.data.unsafe_text import cut_text, encodable_text, encodable_value, join_surrogates
from fctncalling.envs.conversations import check_render_mode, transcript
from fctncalling.envs.episode.state import EpisodeState
from fctncalling.envs.episode_runner import EpisodeRunner
from fctncalling.envs.errors import InfrastructureError, MissingExtra
from fctncalling.envs.handlers import get_handler, split_thought
from fctncalling.envs.handlers.registry import resolve_handler
from fctncalling.envs.prompting import prompts
from fctncalling.envs.rewards import STRICT_REWARDS, UserReward, get_reward, is_user_reward
from fctncalling.envs.spaces import OBSERVATION_BYTES, UnicodeText
from fctncalling.envs.task_set import TaskSet, make_task_set, requested_task_id
from fctncalling.envs.tools.bfcl.long_context import LongContextError
from fctncalling.envs.tools.local_corpus import CorpusError
from fctncalling.envs.user_tools import ToolsArgument, UserTools
from fctncalling.envs.users.user_names import User, may_answer_slowly

logger = logging.getLogger(__name__)
Step = tuple[str, float, bool, bool, dict[str, Any]]


@lru_cache(maxsize=256)  # once for each class
def say_unreadable(what: str) -> None:
    """Warn, once per class, that a tool's state cannot be read."""
    logger.warning(
        'no info["state_hash"], no info["place"]: %s, which cannot be read; --group_baseline state '
        "keeps the algorithm's estimate there. Give the tool a method _hashed_state that returns "
        "what decides its results",
        what,
    )


class FunctionCallingEnv(gymnasium.Env[str, str]):
    """Gymnasium environment of function-calling tasks in BFCL's format, one task an episode.

    A step is one assistant message, a turn all that answers one user message.

    ## Action space
    `UnicodeText`: an assistant message. One with calls has them executed and is answered by their
    results; one without calls ends the turn.

    ## Observation space
    `UnicodeText`: what BFCL shows a model that is prompted in plain text; at the start the system
    text and the first turn, later the results of the calls or the next turn. The same comes as
    chat messages and tool schemas in `info`. At most `OBSERVATION_BYTES`: a longer one is cut.

    `info` holds, after `reset` and each `step` (its values are private copies):

    - `task_id`, `category`: str. `turn`: int, the turn that the next action belongs to, from 0.
    - `messages`: list of dict, new since the last action, in OpenAI form: opening messages, or the
      results (role "tool"), or the next turn. Without the action itself.
    - `tools`: list of dict, OpenAI schemas of the functions that are offered in this turn.
    - `calls`: list of Call, what the last action called; [] after `reset`.
    - `error`: str or None, what was wrong with the last action: "no_call", "malformed",
      "unread_call" (a call's mark opens, none can be read), "unknown_function", "bad_arguments",
      "tool_error" or "step_limit".
    - `stop`: list of str behind which generation of the next action ends; [] where only the end of
      the message does.
    - `continuation`: "message": the next action is a message of its own (ToolTextEnv also has
      "text": the observation goes on inside the unfinished message).

    and where it applies:

    - `state_hash`: str, of what decides the future (unless the episode ended, or a tool's state
      cannot be read). See `fctncalling.envs.episode_runner.state_hash`.
    - `place`: (int, int, bool), where a truth's calls are known: turn, calls of the truth still to
      come, whether the episode is on the truth's path. See
      `fctncalling.envs.episode_runner.place_on_path`.
    - `instructions`: str, the system text of the prompting form (`reset`).
    - `repairs`: list of str, what a lenient handler mended before it read the action.
    - `observation_bytes_cut`: int, by how much the observation was cut.
    - `verdict`: Verdict or None, BFCL's (last step; None: the task has no answer, or is invalid).
    - `ground_truth`: what the verdict was judged against (last step).
    - `strict_verdict`: Verdict, what is left where nothing is forgiven (last step, `strict`).
    - `snapshot`: dict, the memory that a prerequisite conversation left behind (its last step).
    - `invalid`: True and `invalid_reason`: str, where infrastructure failed.

    ## Rewards
    "success" pays 1 with a valid verdict at the end, "progress" shares that out over the turns;
    "strict" and "strict_progress" pay for what needs no forgiveness. Or a callable. See
    `fctncalling.envs.rewards`.

    ## Starting state
    `options={"task_id": ...}`, or a task drawn from `np_random`; its tools are fresh instances.

    ## Episode end
    Terminated after the last turn, or by one step too many in a turn. Truncated only where
    infrastructure fails (a tool, the truth, the checker, `user`): reward 0, `invalid`; drop it.

    ## Arguments

    - `dataset_path` or `tasks`: what to play; neither gives the embedded training set.
    - `handler`: how calls are written. "auto" reads every form that is known (Java and JavaScript
      tasks: BFCL's form), "python_calls" exactly what BFCL's prompting models may write,
      "lenient:python_calls" (and the like) also what can be repaired to it.
    - `reward`: a name from above, or (StepRecord, Verdict or None) -> float.
    - `max_steps_per_turn`: as BFCL counts: one more calling step is executed, and ends the task.
    - `strict`: report `strict_verdict`; the strict rewards do so too.
    - `retry_malformed`: answer calls that cannot be read by an error message, as a step of the
      turn, where BFCL ends the turn.
    - `corrective_feedback`: let a wrong call's result say what to mend; verdicts stay.
    - `prompt_style`: function docs in `instructions`, "bfcl" as JSON, "compact" as signatures.
    - `tools`: a mapping of classes of your own for the `involved_classes` of your tasks; or a list
      of what is offered next to the functions of every task whose calls are executed: typed
      functions, callables from text to text, Tool objects, a PythonExecutor, classes, and
      "mcp:COMMAND or URL" for the tools of an MCP server (see `fctncalling.envs.user_tools`). Or a
      ToolBox, which several environments may share.
    - `allow_task_tools`: import the classes that tasks name by their path (`"involved_classes":
      ["my_tools.MyAPI"]`). That runs their modules' code, hence only for files you trust; else they
      are refused.
    - `user`: called with the conversation and {"task_id", "category", "turn", "task"} when a
      message calls nothing; the text it returns answers within the turn (such a message is a
      question: its error is "no_call"), None goes on to the scripted next turn. Or a name, such as
      "rule" (see `fctncalling.envs.users`).
    - `render_mode`: "ansi" (`render` returns the transcript), "human" (printed at once), or None.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "human"], "render_fps": 4}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(
        self,
        *,
        dataset_path: str | Path | None = None,
        tasks: Sequence[Task] | TaskSet | None = None,
        handler: str = "auto",
        reward: str | UserReward = "success",
        max_steps_per_turn: int = 20,
        strict: bool = False,
        retry_malformed: bool = False,
        corrective_feedback: bool = False,
        prompt_style: str = "bfcl",
        tools: ToolsArgument = None,
        allow_task_tools: bool = False,
        user: User | str | None = None,
        render_mode: str | None = None,
    ) -> None:
        check_render_mode(render_mode, self.metadata["render_modes"])
        self.render_mode = render_mode
        foreign = (
            tools is not None
            or allow_task_tools
            or is_user_reward(reward)
            or may_answer_slowly(user)
        )
        self.metadata = {**self.metadata, "in_process_tools": not foreign}  # which may wait
        self.action_space = UnicodeText()
        self.observation_space = UnicodeText(OBSERVATION_BYTES)
        self._tools = UserTools(tools)
        self._tasks = task_set = make_task_set(dataset_path, tasks, self._tools.specified)
        self._tools.import_task_tools(
            task_set.with_tool_paths, task_set.origin, allowed=allow_task_tools
        )
        self._tools.refuse_name_clashes(task_set.tasks, task_set.origin)
        self._runner = EpisodeRunner(
            handler=get_handler(handler),
            reward=get_reward(reward),
            tools=self._tools,
            user=user,
            max_steps_per_turn=max_steps_per_turn,
            strict=strict or reward in STRICT_REWARDS,
            retry_malformed=retry_malformed,
            corrective_feedback=corrective_feedback,
            prompt_style=prompt_style,
        )
        self._state: EpisodeState | None = None
        self._num_rendered = 0  # messages that are already on the screen ("human")

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Tasks that the environment plays, in order."""
        return self._tasks.tasks

    @property
    def task(self) -> Task:
        """Task of the current (or last) episode, with the docs of all functions offered."""
        return self._required_state("task").task

    @property
    def ground_truth(self) -> Any:
        """Ground truth of the current (or last) task; `info` has it only at the end."""
        return copy.deepcopy(self._required_state("ground_truth").task.ground_truth)

    def executes_calls(self, task_id: str) -> bool:
        """Whether a task executes calls; in other tasks the first message is the answer."""
        return self._tasks.by_id(task_id).executes_calls

    @property
    def episode(self) -> Episode:
        """Episode so far, or the last one."""
        return self._required_state("episode").to_episode(seed=self._np_random_seed)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Reset to the task `options["task_id"]`, or to one drawn from `np_random`.

        Returns the first turn and its `info`.

        Raises UnknownTask (a KeyError), LookupError for a tool class or handler that is missing,
        UnsupportedCategory, LongContextError, MissingExtra or CorpusError where the tools lack
        something, ToolDefinitionError for a class of which no docs can be made.
        """
        super().reset(seed=seed)
        task_id, tasks = requested_task_id(options), self._tasks
        task = tasks.sample(self.np_random) if task_id is None else tasks.by_id(task_id)
        session, extra = None, dict[str, Any]()
        try:
            session = self._tools.tool_session(task)
        except InfrastructureError as failure:  # reported now; the first step ends the episode
            if isinstance(failure.__cause__, LongContextError | MissingExtra | CorpusError):
                # every such task would fail alike: a setup to mend
                raise failure.__cause__ from None
            extra = {"invalid": True, "invalid_reason": str(failure)}
        state = EpisodeState(
            self._tools.with_tool_docs(task), session, invalid_reason=extra.get("invalid_reason")
        )
        self._state = state
        self._num_rendered = 0
        prompt = self._runner.task_prompt(state.task)
        messages = prompt.messages(0, session.prompt_context() if session else "")
        observation = f"{prompt.system}\n\n{prompts.join_contents(messages)}"
        extra["instructions"] = prompt.system
        return self._observation_and_info(state, observation, messages, extra)

    def step(self, action: str) -> Step:
        """Play one assistant message; return (observation, reward, terminated, truncated, info).

        Raises ResetNeeded before the first reset and after the end, TypeError for no `str`.
        """
        state = self._required_state("step")
        if state.is_over:
            raise ResetNeeded(
                f'step: task "{state.task.id}" has ended. Call reset() before the next step().'
            )
        if not isinstance(action, str):
            kind = type(action).__name__
            raise TypeError(
                f"step: the action is a {kind}: expected a str, the assistant's message."
            )
        text = join_surrogates(str(action))  # numpy's strings become plain ones
        thought, content, _ = split_thought(text)
        message: Message = {"role": "assistant", "content": content}
        state.add_messages([{**message, "reasoning_content": thought} if thought else message])
        try:
            if state.invalid_reason is not None:
                raise InfrastructureError(state.invalid_reason)
            played = self._runner.play_message(state, text)
        except InfrastructureError as failure:
            state.fail(text, str(failure))
            extra = {"verdict": None, "invalid": True, "invalid_reason": str(failure)}
            observation, info = self._observation_and_info(state, "", [], extra)
            return observation, 0.0, False, True, info
        observation, info = self._observation_and_info(
            state, played.observation, played.messages, played.extra
        )
        return observation, played.step.reward, state.terminated, False, info

    def _observation_and_info(
        self,
        state: EpisodeState,
        observation: str,
        messages: list[Message],
        extra: Mapping[str, Any],
    ) -> tuple[str, dict[str, Any]]:
        """Build the observation, cut to its bound, and its `info` of private copies."""
        observation, messages = encodable_text(observation), encodable_value(messages)
        state.add_messages(copy.deepcopy(messages))
        last = state.steps[-1] if state.steps else None
        info: dict[str, Any] = {
            "task_id": state.task.id,
            "category": state.task.category,
            "turn": state.turn,
            "messages": messages,
            "tools": self._runner.task_prompt(state.task).tools(state.turn),
            "calls": copy.deepcopy(list(last.calls)) if last else [],
            "error": last.error if last else None,
            "stop": list(getattr(resolve_handler(self._runner.handler, state.task), "stop", ())),
            "continuation": "message",
            **extra,
        }
        if not state.is_over and state.invalid_reason is None:
            if (state_hash := self._runner.state_hash(state, observation)) is not None:
                info["state_hash"] = state_hash
            else:
                say_unreadable(state.unreadable)
            if (place := self._runner.episode_place(state)) is not None:
                info["place"] = place
        observation, cut = cut_text(observation, OBSERVATION_BYTES)
        if cut:
            info["observation_bytes_cut"] = cut
        if self.render_mode == "human":
            print(transcript(state.conversation[self._num_rendered :], state.verdict), flush=True)
            self._num_rendered = len(state.conversation)
        return observation, info

    def render(self) -> str | None:
        """Render the transcript so far ("ansi"); None for "human", which prints each step."""
        if self.render_mode != "ansi":
            return None
        state = self._required_state("render")
        return transcript(state.conversation, state.verdict)

    def close(self) -> None:
        """End the processes of the tools that were given as a list."""
        self._tools.close()

    def get_state(self) -> dict[str, Any]:
        """Copy the environment's state, random stream included."""
        return {
            "np_random": copy.deepcopy(self.np_random),
            "np_random_seed": self._np_random_seed,
            "play": None if self._state is None else self._state.get_state(),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `get_state`, of this environment or one with equal arguments."""
        restored = None
        if state["play"] is not None:
            task = self._tasks.by_id(state["play"]["task_id"])
            session = None if state["play"]["session"] is None else self._tools.tool_session(task)
            restored = EpisodeState(self._tools.with_tool_docs(task), session)
            restored.set_state(state["play"])
        self._np_random = copy.deepcopy(state["np_random"])
        self._np_random_seed = state["np_random_seed"]
        self._state = restored
        self._num_rendered = len(restored.conversation) if restored else 0

    def _required_state(self, what: str) -> EpisodeState:
        if self._state is None:
            raise ResetNeeded(f"{what}: no task has begun. Call reset() first.")
        return self._state
