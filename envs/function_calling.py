"""FunctionCallingEnv: BFCL tasks as a Gymnasium environment in which an action is one assistant
message.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.error import ResetNeeded

from fctncalling.data.agentic_tasks import is_prerequisite
from fctncalling.data.surrogates import encodable, encodable_value, joined
from fctncalling.data.types import Episode, Message, StepRecord, Task
from fctncalling.envs.episode.feedback import classify_error, with_corrections
from fctncalling.envs.episode.parsing import ParsedMessage, parse_message
from fctncalling.envs.episode.state import EpisodeState, reraise_as_infrastructure
from fctncalling.envs.episode.transcript import transcript
from fctncalling.envs.errors import InfrastructureError, MissingExtra
from fctncalling.envs.handlers import Handler, get_handler
from fctncalling.envs.handlers.lenient import LenientCalls
from fctncalling.envs.handlers.registry import handler_for
from fctncalling.envs.judging.episode_judge import EpisodeJudge, bounded_memo
from fctncalling.envs.judging.strict import strict_verdict
from fctncalling.envs.prompting import prompts
from fctncalling.envs.prompting.task_prompt import TaskPrompt
from fctncalling.envs.rewards import STRICT_REWARDS, UserReward, get_reward
from fctncalling.envs.spaces import OBSERVATION_BYTES, UnicodeText, cut_text
from fctncalling.envs.task_set import task_set
from fctncalling.envs.tools.bfcl.long_context import LongContextError
from fctncalling.envs.tools.box.toolbox import truncate_together
from fctncalling.envs.tools.local_corpus import CorpusError
from fctncalling.envs.user_tools import ToolsArgument, UserTools

MAX_STEP_OUTPUT = (
    500_000  # characters of all results of a step that are shown; checkers see them whole
)
User = Callable[[list[Message], Mapping[str, Any]], str | None]
Step = tuple[str, float, bool, bool, dict[str, Any]]


class FunctionCallingEnv(gymnasium.Env[str, str]):
    """BFCL tasks, one per episode: a step is one assistant message, a turn all that answers one
    user message.

    Action and observation are texts; the observation is what BFCL shows a model that is prompted in
    plain text, and the same comes as chat messages and tool schemas in `info`. A message with calls
    has them executed and is answered by their results; one without calls ends the turn. After the
    last turn `info["verdict"]` holds BFCL's verdict.

    `dataset_path` or `tasks`: what to play; neither gives the embedded training set. `handler`: how
    calls are written. "auto" reads every form that is known (Java and JavaScript tasks: BFCL's
    form),
        "python_calls" exactly what BFCL's prompting models may write, "lenient:python_calls" (and
        the like) also what can be repaired to it, with an account of the repairs in
        `info["repairs"]` of each step.
    `reward`: "success", "progress", "strict", "strict_progress", or a callable (see
    `fctncalling.envs.rewards`). `max_steps_per_turn`: as BFCL counts it: one more calling step is
    still executed, and ends the task. `strict`: report, as `info["strict_verdict"]`, what BFCL
    forgives; the strict rewards do so too. `retry_malformed`: answer a message that looks like
    calls and cannot be read by an error message, as a step of the
        turn, where BFCL ends the turn.
    `corrective_feedback`: let a wrong call's result go on with what to mend; the verdict does not
    change. `tools`: a mapping of classes of your own for the `involved_classes` of your tasks; or a
    list of what is offered
        beside the functions of every task whose calls are executed: typed functions, callables from
        text to text, Tool objects, a PythonExecutor, classes (see `fctncalling.envs.user_tools`).
        Or a ToolBox, which several environments may share.
    `allow_task_tools`: import the classes that tasks name by their path (`"involved_classes":
    ["my_tools.MyAPI"]`).
        That runs their modules' code, hence only for files you trust; else they are refused.
    `user`: called with the conversation and {"task_id", "category", "turn"} when a message calls
    nothing. The text it
        returns answers within the turn, as a step of it; None goes on to the scripted next turn.
    `render_mode`: "ansi" (`render` returns the transcript), "human" (printed as it happens), or
    None.

    Where infrastructure fails (a tool, the truth, the checker, `user`), the episode is truncated
    with reward 0, `info["verdict"]` None, `info["invalid"]` True and the cause in
    `info["invalid_reason"]`: drop it, do not learn from it. An observation over `OBSERVATION_BYTES`
    is cut; `info["observation_bytes_cut"]` says by how much.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - Gymnasium declares it as an instance variable
        "render_modes": ["ansi", "human"],
        "render_fps": 4,
    }

    def __init__(
        self,
        *,
        dataset_path: str | Path | None = None,
        tasks: Sequence[Task] | None = None,
        handler: str = "auto",
        reward: str | UserReward = "success",
        max_steps_per_turn: int = 20,
        strict: bool = False,
        retry_malformed: bool = False,
        corrective_feedback: bool = False,
        tools: ToolsArgument = None,
        allow_task_tools: bool = False,
        user: User | None = None,
        render_mode: str | None = None,
    ) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise ValueError(
                f"render_mode={render_mode!r}: expected one of {self.metadata['render_modes']}, or "
                "None."
            )
        if (
            isinstance(max_steps_per_turn, bool)
            or not isinstance(max_steps_per_turn, int)
            or max_steps_per_turn < 1
        ):
            raise ValueError(
                f"max_steps_per_turn={max_steps_per_turn!r}: expected a whole number of at least 1."
            )
        self.render_mode = render_mode
        foreign = (
            tools is not None or allow_task_tools or user is not None or callable(reward)
        )  # may wait for anything
        self.metadata = {**self.metadata, "in_process_tools": not foreign}
        self.action_space = UnicodeText()
        self.observation_space = UnicodeText(OBSERVATION_BYTES)
        self._own_tools = UserTools(tools)
        self._user = user
        self._tasks = task_set(dataset_path, tasks, self._own_tools.specified)
        self._own_tools.import_task_tools(
            self._tasks.tasks, self._tasks.origin, allowed=allow_task_tools
        )
        self._handler = get_handler(handler)
        self._reward = get_reward(reward)
        self._max_steps_per_turn = max_steps_per_turn
        self._strict = strict or reward in STRICT_REWARDS
        self._retry_malformed = retry_malformed
        self._corrective = corrective_feedback
        self._referee = EpisodeJudge(self._own_tools.classes)
        self._offers: dict[str, TaskPrompt] = {}
        self._play: EpisodeState | None = None
        self._num_rendered = 0  # messages that are already on the screen ("human")

    @property
    def episode(self) -> Episode:
        """The running (or last) episode, as far as it was played."""
        return self._required_play("episode").episode(seed=self._np_random_seed)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Begin the task `options["task_id"]`, or one drawn from `np_random`; returns the first
        turn and its `info`.

        Here `info` also holds `instructions`, the system text of the prompting form. Raises
        UnknownTask (a KeyError), LookupError for a tool class or handler the task needs,
        UnsupportedCategory where no checker judges it, LongContextError, MissingExtra or
        CorpusError where what the task's tools need is not there, ToolDefinitionError for a class
        of which no docs can be made.
        """
        super().reset(seed=seed)
        task = self._tasks.choose(options, self.np_random)
        play, extra = EpisodeState(task, None), dict[str, Any]()
        try:
            play.session = self._own_tools.session(task)
        except InfrastructureError as failure:  # told now; the first step ends the episode
            if isinstance(failure.__cause__, LongContextError | MissingExtra | CorpusError):
                # every such task would fail alike: no episode, a setup to mend
                raise failure.__cause__ from None
            play.invalid_reason = str(failure)
            extra = {"invalid": True, "invalid_reason": str(failure)}
        self._play = play
        self._num_rendered = 0
        play.task = self._own_tools.with_tool_docs(task)
        offer = self._offer(play.task)
        messages = offer.messages(0, play.session.context() if play.session else "")
        observation = f"{offer.system}\n\n{prompts.join_contents(messages)}"
        return self._observation_and_info(
            play, observation, messages, {"instructions": offer.system, **extra}
        )

    def step(self, action: str) -> Step:
        """Play one assistant message; returns (observation, reward, terminated, truncated, info).

        Raises ResetNeeded before the first reset and after the end, TypeError where the action is
        no `str`.
        """
        play = self._required_play("step")
        if play.ended:
            raise ResetNeeded(
                f'step: task "{play.task.id}" has ended. Call reset() before the next step().'
            )
        if not isinstance(action, str):
            raise TypeError(
                f"step: the action is a {type(action).__name__}: expected a str, the assistant's "
                "message."
            )
        text = joined(str(action))  # numpy's strings become plain ones
        play.conversation.append({"role": "assistant", "content": text})
        try:
            if play.invalid_reason is not None:
                raise InfrastructureError(play.invalid_reason)
            return self._step_message(play, text)
        except InfrastructureError as failure:
            play.invalid_reason = str(failure)
            play.terminated = False
            play.truncated = True
            play.steps.append(StepRecord(play.turn, text))
            extra = {"verdict": None, "invalid": True, "invalid_reason": str(failure)}
            observation, info = self._observation_and_info(play, "", [], extra)
            return observation, 0.0, False, True, info

    def _step_message(self, play: EpisodeState, text: str) -> Step:
        """Return the step that a message makes. Raises InfrastructureError."""
        answer = parse_message(self._handler_of(play.task), text, executes=play.session is not None)
        results = play.execute(answer.executed, self._own_tools)
        step = StepRecord(play.turn, text, answer.calls, answer.executed, results, answer.error)
        if answer.calls:
            step = replace(step, error=classify_error(step, play.task.functions, play.knows))
        told = (
            with_corrections(step, self._offer(play.task).functions(play.turn), play.knows)
            if self._corrective
            else results
        )
        shown = replace(step, results=tuple(truncate_together(told, MAX_STEP_OUTPUT)))
        messages, observation = (
            prompts.tool_messages(shown.executed, shown.results),
            prompts.results_message(shown),
        )
        turn_ends = not answer.executed
        play.last_message = text if turn_ends else play.last_message
        if not answer.calls and (reply := self._reply(play, answer)) is not None:
            messages, observation, turn_ends = [{"role": "user", "content": reply}], reply, False
        play.steps_in_turn += not turn_ends
        if play.steps_in_turn > self._max_steps_per_turn:
            step, turn_ends = replace(step, error="step_limit"), True
        if turn_ends:
            play.terminated = play.in_last_turn or step.error == "step_limit"
            play.record_turn()
            if play.terminated:
                play.verdict = self._referee.verdict(play, answer.record)
            else:
                play.next_turn()
                messages = self._offer(play.task).messages(play.turn)
                observation = prompts.join_contents(messages)
        step = self._apply_reward(play, step, turn_ends)
        extra = self._final_info(play) if play.terminated else {}
        if isinstance(self._handler_of(play.task), LenientCalls):
            extra["repairs"] = list(answer.repairs)
        observation, info = self._observation_and_info(play, observation, messages, extra)
        return observation, step.reward, play.terminated, False, info

    def _reply(self, play: EpisodeState, answer: ParsedMessage) -> str | None:
        """Return what answers a message without calls within its turn; None where the turn ends."""
        if answer.error == "malformed" and self._retry_malformed:
            return prompts.unreadable_message(answer.complaint)
        if self._user is None:
            return None
        about = {"task_id": play.task.id, "category": play.task.category, "turn": play.turn}
        with reraise_as_infrastructure("user"):
            reply = self._user(copy.deepcopy(play.conversation), about)
        if reply is not None and not isinstance(reply, str):
            raise TypeError(
                f"user {self._user!r} returned {reply!r}: expected a str, or None to end the turn."
            )
        return reply

    def _apply_reward(self, play: EpisodeState, step: StepRecord, turn_ends: bool) -> StepRecord:
        """Return the step with its reward, and keep it."""
        if self._strict and play.verdict is not None:
            play.strict_verdict = strict_verdict(play.task, (*play.steps, step), play.verdict)
        outcome = self._referee.outcome(play, step, turn_ends=turn_ends)
        step = replace(step, reward=self._reward(outcome))
        play.paid += step.reward
        play.steps.append(step)
        return step

    def _final_info(self, play: EpisodeState) -> dict[str, Any]:
        if is_prerequisite(
            play.task
        ):  # what a question's `snapshot` is: the notes its conversations left behind
            return {"verdict": None, "snapshot": copy.deepcopy(dict(play.turns[-1].states))}
        final = {"verdict": play.verdict, "ground_truth": copy.deepcopy(play.task.ground_truth)}
        if self._strict and play.verdict is not None:
            final["strict_verdict"] = play.strict_verdict
        return final

    def _observation_and_info(
        self,
        play: EpisodeState,
        observation: str,
        messages: list[Message],
        extra: Mapping[str, Any],
    ) -> tuple[str, dict[str, Any]]:
        """Return an observation within its bound and its `info`, in which nothing is shared with
        the environment.
        """
        observation, messages = encodable(observation), encodable_value(messages)
        play.conversation += copy.deepcopy(messages)
        last = play.steps[-1] if play.steps else None
        handler = self._handler_of(play.task)
        info: dict[str, Any] = {
            "task_id": play.task.id,
            "category": play.task.category,
            "turn": play.turn,
            "messages": messages,
            "tools": self._offer(play.task).tools(play.turn),
            "calls": copy.deepcopy(list(last.calls)) if last else [],
            "error": last.error if last else None,
            "stop": list(getattr(handler, "stop", ())),
            "continuation": "message",
            **extra,
        }
        observation, cut = cut_text(observation, OBSERVATION_BYTES)
        if cut:
            info["observation_bytes_cut"] = cut
        if self.render_mode == "human":
            print(transcript(play.conversation[self._num_rendered :], play.verdict), flush=True)
            self._num_rendered = len(play.conversation)
        return observation, info

    def render(self) -> str | None:
        """Return the transcript so far ("ansi"); None otherwise: "human" prints each step as it is
        made.
        """
        if self.render_mode != "ansi":
            return None
        play = self._required_play("render")
        return transcript(play.conversation, play.verdict)

    def close(self) -> None:
        """End the processes of tools that were given as a list."""
        self._own_tools.close()

    def get_state(self) -> dict[str, Any]:
        """Return a private copy of everything that decides what comes next,
        random stream included.
        """
        return {
            "np_random": copy.deepcopy(self.np_random),
            "np_random_seed": self._np_random_seed,
            "play": None if self._play is None else self._play.get_state(),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go back to a state of `get_state`, of this environment or of one with the same tasks and
        keywords.
        """
        play = None
        if state["play"] is not None:
            task = self._tasks.by_id(state["play"]["task_id"])
            session = None if state["play"]["session"] is None else self._own_tools.session(task)
            play = EpisodeState(self._own_tools.with_tool_docs(task), session)
            play.set_state(state["play"])
        self._np_random = copy.deepcopy(state["np_random"])
        self._np_random_seed = state["np_random_seed"]
        self._play = play
        self._num_rendered = len(play.conversation) if play else 0

    def _handler_of(self, task: Task) -> Handler:
        return handler_for(task, "auto") if self._handler.name == "auto" else self._handler

    def _offer(self, task: Task) -> TaskPrompt:
        return bounded_memo(self._offers, task.id, lambda: TaskPrompt(task, self._handler_of(task)))

    def _required_play(self, what: str) -> EpisodeState:
        if self._play is None:
            raise ResetNeeded(f"{what}: no task has begun. Call reset() first.")
        return self._play
