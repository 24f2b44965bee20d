"""Core types: tasks, calls, steps, episodes, verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fctncalling.data import categories

Message = dict[str, Any]
"""One OpenAI-form chat message: role, content and, where the role has them, name, tool_call_id,
tools.
"""


@dataclass(frozen=True)
class FunctionDoc:
    """Doc of one function, with BFCL's types in `parameters` (dict, float, ...)."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    response: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Call:
    """Call of one function, parsed: keyword arguments as literals, in the order written."""

    name: str
    arguments: Mapping[str, Any]


def tool_call(call_id: Any, name: str, arguments: Any) -> dict[str, Any]:
    """Return a Call in OpenAI's form, as in the `tool_calls` of a message."""
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


@dataclass(frozen=True)
class Task:
    """Task: one benchmark entry. Never mutate its fields: environments copy what they change.

    `ground_truth` is, by category: a list of {function: {parameter: [accepted values]}} (single
    turn), a list (turns) of lists of Python call strings (multi turn), a list of accepted strings
    (agentic), or None (irrelevance and relevance have none). `functions` holds every documented
    function, the held-out ones included; `missed_functions` maps a turn index to the names that are
    offered only from that turn on.
    """

    id: str
    # BFCL's name without prefix or version: "simple_python", "multi_turn_miss_func", ...
    category: str
    question: Sequence[Sequence[Message]]  # turns of messages; a held-out function's turn is empty
    functions: Sequence[FunctionDoc] = ()
    ground_truth: Sequence[Any] | None = None
    initial_config: Mapping[str, Any] = field(default_factory=dict)
    involved_classes: Sequence[str] = ()
    missed_functions: Mapping[int, Sequence[str]] = field(default_factory=dict)
    # Fields of the entry that no checker reads.
    extra: Mapping[str, Any] = field(default_factory=dict)
    # Involved class -> "module:Class" the entry names.
    tool_paths: Mapping[str, str] = field(default_factory=dict)
    difficulty: float | None = None  # 0 (easy) to 1, as the entry says; None where it says nothing

    @property
    def kind(self) -> str:
        """Kind of check of the task's category; see `category_kind`."""
        return categories.category_kind(self.category)

    @property
    def language(self) -> str:
        """Language of the task's arguments: python, java or javascript."""
        return categories.category_language(self.category)

    @property
    def executes_calls(self) -> bool:
        """Whether the task's calls are executed, over several steps, with results for the agent.

        Raises UnsupportedCategory.
        """
        return self.kind in ("multi_turn", "agentic")

    @property
    def is_memory_prerequisite(self) -> bool:
        """Whether the task only fills a memory for later questions and is not judged."""
        return self.category.startswith("memory") and self.category.endswith("_prereq")

    @property
    def is_multi_turn(self) -> bool:
        """Whether the task is scored by executing calls on stateful tools."""
        return self.category.startswith("multi_turn")

    @property
    def long_context(self) -> bool:
        """Whether the task is a long-context one of BFCL, with large tables in its tools."""
        return "long_context" in self.category or "composite" in self.category


@dataclass(frozen=True)
class StepRecord:
    """Record of one step: an assistant message, its calls, results, error and reward."""

    turn: int
    text: str
    calls: Sequence[Call] = ()
    executed: Sequence[str] = ()  # the call strings handed to the tools, in order
    results: Sequence[str] = ()  # one result text per executed call
    # no_call, malformed, unread_call, unknown_function, bad_arguments, tool_error, step_limit
    error: str | None = None
    reward: float = 0.0

    @classmethod
    def from_info(cls, turn: int, text: str, reward: float, info: Mapping[str, Any]) -> StepRecord:
        """Make a step record from an `info`, with the results that the agent read."""
        messages = info.get("messages") or ()
        results = [message for message in messages if message.get("role") == "tool"]
        return cls(
            turn,
            text,
            calls=tuple(info.get("calls") or ()),
            executed=tuple(str(result.get("name", "")) for result in results),
            results=tuple(str(result.get("content", "")) for result in results),
            error=info.get("error"),
            reward=reward,
        )


@dataclass(frozen=True)
class TurnResults:
    """Results of the calls of one turn, and the tools' public state at its end."""

    results: Sequence[str]
    # class name -> public attribute -> value, private copies
    states: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Verdict:
    """Verdict of a checker; `error_type` is from BFCL's vocabulary, None if valid."""

    valid: bool
    score: float  # 1.0 or 0.0 officially; the share of turns passed where progress is asked for
    error_type: str | None = None
    message: str = ""
    per_turn: tuple[bool, ...] = ()


@dataclass(frozen=True)
class Episode:
    """Episode: all steps of one task, its verdict and how it ended."""

    task_id: str
    category: str
    steps: Sequence[StepRecord]
    verdict: Verdict | None = None  # None while running or where infrastructure failed
    terminated: bool = False
    truncated: bool = False
    invalid: bool = False  # infrastructure failed: drop it, never score it 0
    seed: int | None = None
