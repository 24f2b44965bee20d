"""Tool-integrated reasoning: an environment of tools called inside one assistant message."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.error import ResetNeeded

from fctncalling.checkers.math.answer import check_answer, extract_final_answer, restates_question
from fctncalling.checkers.math.symbolic import SymbolicComparer
from fctncalling.data.types import Call, Message, Verdict
from fctncalling.data.unsafe_text import cut_text, encodable_text, encodable_value, join_surrogates
from fctncalling.envs.conversations import check_render_mode, transcript
from fctncalling.envs.episode.state import reraise_as_infrastructure
from fctncalling.envs.errors import InfrastructureError, import_extra
from fctncalling.envs.handlers import TEXT_HANDLERS
from fctncalling.envs.handlers.inline import InlineCalls, PausedMessage
from fctncalling.envs.rewards import paid_by_user
from fctncalling.envs.spaces import OBSERVATION_BYTES, UnicodeText
from fctncalling.envs.task_set import TaskList, requested_task_id
from fctncalling.envs.tool_text.tasks import (
    CalculatorTasks,
    MathTasks,
    QuestionTask,
    TextTasks,
    load_text_tasks,
)
from fctncalling.envs.tool_text.tools import InlineTools, InlineToolsArgument

REWARDS = ("numeric", "aime", "text", "symbolic")
# relative: calculators answer `48.0` where 48 is meant, and rounding is the tool's own
NUMERIC_TOLERANCE = 1e-9
TextReward = Callable[[str, QuestionTask], float]
Step = tuple[str, float, bool, bool, dict[str, Any]]


@dataclass
class _Message:
    """Answer that is being written."""

    task: QuestionTask
    words: str = ""  # the policy's own since the last result
    conversation: list[Message] = field(default_factory=list)
    num_calls: int = 0
    num_steps: int = 0
    ended: bool = False
    verdict: Verdict | None = None


class ToolTextEnv(gymnasium.Env[str, str]):
    """Gymnasium environment of questions, answered with tool calls inside one message.

    The result of a call is the observation, to be appended raw to the unfinished message
    (`info["continuation"]` is "text", `info["stop"]` the strings at which generation should pause).
    Reward comes at the end, for the policy's words behind the last result: nothing that a tool
    says, and nothing inside a call, is an answer.

    `tasks`: a list of QuestionTask, or a maker of them; `dataset_path`: a JSON Lines file instead;
    neither: sums. `tools`: see `InlineTools`; one ToolBox may serve many environments. `handler`:
    "request_call" (TRL's), "python_block" (OpenRLHF's), "markdown_block", "hermes_text". `reward`:
    how the final answer is compared with the task's, for a reward of 1; or a callable of the
    answer's text
        and the task. "numeric": a number that is written out, for what would have to be computed is
        no answer; "aime": a whole number from 0 to 999; "text": the same words; "symbolic": an
        equal expression, by SymPy (the extra `fctncalling[math]`), yet never one of the question,
        however it is written, nor one that leaves something to be computed.
    `prompt`: what stands before every question: how to call, examples.
    `max_turns`: calls that are answered; one more ends the episode, with error "step_limit".
    `max_tool_response`: characters of a result that are shown.

    Where infrastructure fails (a tool's process, `reward`), the episode is truncated and
    `info["invalid"]` True.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(
        self,
        *,
        tasks: Sequence[QuestionTask] | TextTasks | None = None,
        dataset_path: str | Path | None = None,
        tools: InlineToolsArgument = ("calculator",),
        handler: str = "request_call",
        reward: str | TextReward = "numeric",
        prompt: str = "",
        max_turns: int = 4,
        max_tool_response: int = 1000,
        render_mode: str | None = None,
    ) -> None:
        check_render_mode(render_mode, self.metadata["render_modes"])
        _check_choices(handler, reward)
        for name, value in (("max_turns", max_turns), ("max_tool_response", max_tool_response)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name}={value!r}: expected a whole number of at least 1.")
        self.render_mode = render_mode
        self.metadata = {
            **self.metadata,
            "in_process_tools": tools == ("calculator",) and not callable(reward),
        }
        self.action_space = UnicodeText()
        self.observation_space = UnicodeText(OBSERVATION_BYTES)
        self.tasks = _tasks(tasks, dataset_path)
        self._syntax: InlineCalls = TEXT_HANDLERS[handler]
        self._reward = reward
        self._prompt = prompt
        self._max_turns = max_turns
        self._tools = InlineTools(tools, self._syntax, max_characters=max_tool_response)
        if reward == "symbolic":
            import_extra("sympy", "math", 'reward="symbolic"')
        self._comparer = SymbolicComparer() if reward == "symbolic" else None
        self._message: _Message | None = None

    @property
    def ground_truth(self) -> str:
        """Ground truth of the current (or last) task; `info` has it only at the end."""
        return self._required("ground_truth").task.answer

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Reset to the task `options["task_id"]`, or to one drawn from `np_random`.

        Raises UnknownTask (a KeyError).
        """
        super().reset(seed=seed)
        task_id = requested_task_id(options)
        task = self.tasks.sample(self.np_random) if task_id is None else self.tasks.by_id(task_id)
        question: Message = {"role": "user", "content": f"{self._prompt}{task.prompt}"}
        self._message = _Message(task, conversation=[dict(question)])
        return self._observation_and_info(
            self._message, str(question["content"]), [question], {"continuation": "message"}
        )

    def step(self, action: str) -> Step:
        """Take the policy's text up to its next call, or to the end of its answer.

        Returns (observation, reward, terminated, truncated, info).
        """
        message = self._required("step")
        if message.ended:
            raise ResetNeeded(
                f'step: task "{message.task.id}" has ended. Call reset() before the next step().'
            )
        if not isinstance(action, str):
            raise TypeError(f"step: the action is a {type(action).__name__}: expected a str.")
        text = join_surrogates(str(action))
        start, message.words = len(message.words), message.words + text
        message.conversation.append({"role": "assistant", "content": text})
        message.num_steps += 1
        pause = self._syntax.paused_message(message.words, start)
        try:
            outcome = pause.outcome(
                calls_left=message.num_calls < self._max_turns,
                pauses_left=message.num_steps <= self._max_turns * 4,
            )
            if outcome == "continue":
                observation, info = self._observation_and_info(message, "", [], {})
                return observation, 0.0, False, False, info
            if outcome == "answer":
                return self._answered(message, pause)
            return self._ended(message, "step_limit" if outcome == "step_limit" else None)
        except InfrastructureError as failure:
            message.ended = True
            extra = {"verdict": None, "invalid": True, "invalid_reason": str(failure)}
            observation, info = self._observation_and_info(message, "", [], extra)
            return observation, 0.0, False, True, info

    def _answered(self, message: _Message, pause: PausedMessage) -> Step:
        """Return the step of an executed call: its result continues the message."""
        assert pause.block is not None
        answer = self._tools.run_block(pause.block)
        message.num_calls += 1
        message.words = ""
        result: Message = {"role": "tool", "name": answer.executed, "content": answer.text}
        calls = [Call(name, arguments) for name, arguments in (pause.block.record or {}).items()]
        extra = {"calls": calls, "error": answer.error}
        observation, info = self._observation_and_info(
            message, self._syntax.format_result(answer.text), [result], extra
        )
        return observation, 0.0, False, False, info

    def _ended(self, message: _Message, error: str | None) -> Step:
        message.verdict = self._judged(message)
        message.ended = True
        extra = {
            "verdict": message.verdict,
            "is_success": message.verdict.valid,
            "error": error,
            "ground_truth": message.task.answer,
        }
        observation, info = self._observation_and_info(message, "", [], extra)
        return observation, message.verdict.score, True, False, info

    def _judged(self, message: _Message) -> Verdict:
        answer, task = self._syntax.final_answer(message.words), message.task
        if callable(self._reward):
            text = self._syntax.text_without_calls(message.words)
            reward = paid_by_user(self._reward, text, task)
            return Verdict(reward > 0, reward)
        if self._reward == "text":
            right = " ".join(answer.split()) == " ".join(task.answer.split())
            return Verdict(right, float(right), None if right else "answer:wrong")
        form: Any = self._reward
        if form == "symbolic":
            with reraise_as_infrastructure("reward"):
                verdict = check_answer(answer, [task.answer], form, comparer=self._comparer)
            if verdict.valid and restates_question(
                extract_final_answer(answer), task.prompt, task.answer
            ):
                reason = f"{answer!r:.100} is the question, or has to be computed"
                return Verdict(False, 0.0, "answer:restated", reason)
            return verdict
        return check_answer(answer, [task.answer], form, tolerance=NUMERIC_TOLERANCE)

    def _observation_and_info(
        self, message: _Message, observation: str, messages: list[Message], extra: Mapping[str, Any]
    ) -> tuple[str, dict[str, Any]]:
        """Build the observation, cut to its bound, and its `info` of private copies."""
        observation, messages = encodable_text(observation), encodable_value(messages)
        results = [entry for entry in messages if entry["role"] == "tool"]
        message.conversation += copy.deepcopy(results)
        info: dict[str, Any] = {
            "task_id": message.task.id,
            "category": message.task.category,
            "turn": 0,
            "messages": messages,
            "tools": [],
            "calls": [],
            "error": None,
            "stop": list(self._syntax.stop),
            "continuation": self._syntax.continuation,
            "tags": list(self._syntax.tags),
            **extra,
        }
        return cut_text(observation, OBSERVATION_BYTES)[0], info

    def render(self) -> str | None:
        """Render the transcript so far ("ansi"); None otherwise."""
        if self.render_mode != "ansi":
            return None
        message = self._required("render")
        return transcript(message.conversation, message.verdict)

    def close(self) -> None:
        """Close the tools and SymPy's interpreter that the environment started."""
        self._tools.close()
        if self._comparer is not None:
            self._comparer.close()

    def get_state(self) -> dict[str, Any]:
        """Copy the environment's state, random stream included."""
        return copy.deepcopy(
            {"np_random": self.np_random, "seed": self._np_random_seed, "message": self._message}
        )

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `get_state`, of this environment or one with equal arguments."""
        state = copy.deepcopy(dict(state))
        self._np_random = state["np_random"]
        self._np_random_seed = state["seed"]
        self._message = state["message"]

    def _required(self, what: str) -> _Message:
        if self._message is None:
            raise ResetNeeded(f"{what}: no task has begun. Call reset() first.")
        return self._message


def _tasks(
    tasks: Sequence[QuestionTask] | TextTasks | None, dataset_path: str | Path | None
) -> TextTasks:
    if tasks is not None and dataset_path is not None:
        raise ValueError(
            f"dataset_path={str(dataset_path)!r} and tasks are both given: pass one of the two."
        )
    if dataset_path is not None:
        return TaskList(load_text_tasks(dataset_path), str(dataset_path))
    if tasks is None:
        return CalculatorTasks()
    return TaskList(tasks) if isinstance(tasks, Sequence) else tasks


def _check_choices(handler: str, reward: str | TextReward) -> None:
    if handler not in TEXT_HANDLERS:
        raise LookupError(
            f"handler={handler!r}: calls in mid-generation are {', '.join(TEXT_HANDLERS)}."
        )
    if not callable(reward) and reward not in REWARDS:
        raise ValueError(f"reward={reward!r}: expected one of {', '.join(REWARDS)}, or a callable.")


def calculator_env(**keywords: Any) -> ToolTextEnv:
    """Make TRL's environment "learning to use a calculator".

    Generated sums, its call syntax, reward 1 for the right result: the defaults of ToolTextEnv,
    whose keywords it takes.
    """
    return ToolTextEnv(**keywords)


def python_math_env(**keywords: Any) -> ToolTextEnv:
    """Make ToolGRPO's environment: problems solved by writing Python.

    Keywords are ToolTextEnv's, and win: handler="markdown_block" takes fenced blocks,
    "request_call" several tools.
    """
    if keywords.get("tasks") is None and keywords.get("dataset_path") is None:
        keywords["tasks"] = MathTasks()
    defaults: dict[str, Any] = {"handler": "python_block", "tools": ("python_executor",)}
    return ToolTextEnv(**{**defaults, "reward": "aime", **keywords})


JOBS: dict[str, Callable[..., ToolTextEnv]] = {
    "calculator": calculator_env,
    "python_math": python_math_env,
    "tool_text": ToolTextEnv,
}
"""`--env_name` -> what makes the environment."""
