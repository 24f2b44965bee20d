"""Dialogue: one episode as OpenAI-form messages, for agents of other libraries."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from fctncalling.data.types import Message, Task, Verdict, tool_call
from fctncalling.data.unsafe_text import encodable_text
from fctncalling.envs.conversations import CONVERSATIONS, task_for_form
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.handlers.registry import get_handler, handler_for
from fctncalling.envs.judging.judge import judge
from fctncalling.envs.judging.oracle import oracle_calls

__path__: list[str] = []  # it was a folder: the former names of its files go on to work
NOT_RUN = "Error: this call was not run."
DONE = "Done."


class Opening(NamedTuple):
    """Start of a dialogue."""

    messages: list[Message]
    tools: list[dict[str, Any]]


class Dialogue:
    """One episode of a task as chat messages: `open()`, then `reply(message)` until `done`.

    `form` is how the agent is asked: "tool_call" (schemas in `tools`, calls in the message's
    `tool_calls`, every one answered by a message of role "tool"), "prompting" (BFCL's: docs in the
    system message, calls in the text) or "tools_text" (schemas in `tools`, calls in the text, in
    whatever form the model has). `keywords` are those of `FunctionCallingEnv`.

    Raises LookupError for an unknown form.
    """

    def __init__(self, task: Task, *, form: str = "tool_call", **keywords: Any) -> None:
        if form not in CONVERSATIONS:
            raise LookupError(
                f'no form is called "{form}": expected one of {", ".join(CONVERSATIONS)}'
            )
        self.task = task_for_form(task, form)
        self.form = form
        self.done = False
        self.reward = 0.0  # of all steps so far
        self.info: dict[str, Any] = {}  # of the last step
        handler = "auto" if form == "tools_text" else handler_for(self.task, form).name
        self._env = FunctionCallingEnv(tasks=[self.task], **{"handler": handler, **keywords})
        self._conversation = CONVERSATIONS[form]()

    def open(self, seed: int | None = None) -> list[Message]:
        """Begin the episode anew; return the opening messages."""
        observation, info = self._env.reset(seed=seed, options={"task_id": self.task.id})
        self.info = info
        self.done = False
        self.reward = 0.0
        self._conversation = CONVERSATIONS[self.form]()
        self._conversation.observe(observation, self.info)
        return list(self._conversation.messages)

    def reply(self, message: Mapping[str, Any] | str) -> list[Message]:
        """Play the assistant's message; return the messages that answer it.

        They are results of its calls, or the user's next turn; after the last turn there are none.
        `tool_calls` of another shape than OpenAI's are the model's mistake: a step of error
        "malformed".
        """
        if not self.info:
            self.open()
        message = {"role": "assistant", "content": message} if isinstance(message, str) else message
        action = self._conversation.to_action(message)
        observation, reward, terminated, truncated, info = self._env.step(action)
        self.info = info
        self.done = terminated or truncated
        self.reward += float(reward)
        before = len(self._conversation.messages)
        if self.done and not info["messages"]:
            self._conversation.end()
        else:
            self._conversation.observe(observation, info)
        new = self._conversation.messages[before:]
        answers = [each for each in new if each["role"] != "assistant"]
        if self.sends_tools and not self.done:
            return [*_unanswered(message, answers), *answers]
        return answers

    @property
    def sends_tools(self) -> bool:
        """Whether schemas are offered next to the messages, and not in the system message."""
        return self._conversation.sends_tools

    @property
    def tools(self) -> list[dict[str, Any]]:
        """OpenAI schemas of the functions offered in this turn; [] in the prompting form."""
        return list(self.info.get("tools", ())) if self.sends_tools else []

    @property
    def messages(self) -> list[Message]:
        """The conversation so far, in a form that chat interfaces accept."""
        return list(self._conversation.messages)

    @property
    def verdict(self) -> Verdict | None:
        """BFCL's verdict; None before the end.

        Raises InfrastructureError for an episode that says nothing about the agent: drop it.
        """
        if self.info.get("invalid"):
            raise InfrastructureError(str(self.info.get("invalid_reason", "")))
        verdict: Verdict | None = self.info.get("verdict")
        return verdict

    def verdict_so_far(self) -> Verdict:
        """Return BFCL's verdict on the episode as if the agent stopped here."""
        if (verdict := self.verdict) is not None:
            return verdict
        steps = self._env.episode.steps
        if not self.task.executes_calls and self.task.kind != "clarify":
            return self._judged(steps[-1].text if steps else "")
        turns = max((step.turn for step in steps), default=-1) + 1
        texts = [[step.text for step in steps if step.turn == turn] for turn in range(turns)]
        return self._judged(texts)

    def _judged(self, response: Any) -> Verdict:
        own = self._env._tools.classes  # of the user's tools
        return judge(self.task, response, self.judged_form, extra_tools=own)

    @property
    def judged_form(self) -> str:
        """The form of the actions, as `judge` names it."""
        return "tool_call" if self.form == "tool_call" else "prompting"

    def close(self) -> None:
        """End the processes of tools that were given as a list."""
        self._env.close()


def opening(task: Task, form: str = "tool_call", **keywords: Any) -> Opening:
    """Return the messages and tool schemas that a task begins with; keywords as for `Dialogue`."""
    dialogue = Dialogue(task, form=form, **keywords)
    messages = dialogue.open()
    return Opening(messages, dialogue.tools)


def score(
    messages: Sequence[Mapping[str, Any]], task: Task, *, form: str | None = None, **keywords: Any
) -> Verdict:
    """Return BFCL's verdict on a conversation: its assistant messages are played in order.

    What others said in it (tool results, user turns) does not count: the task's own tools and turns
    take their place. `form`: "tool_call" or "prompting"; default: "tool_call" where a message has
    `tool_calls`, else "prompting". Messages after the end of the episode are ignored; if some are
    missing, the verdict is on what there is. Raises InfrastructureError where the tools failed: not
    a verdict on the agent.
    """
    answers = [message for message in messages if message.get("role") == "assistant"]
    if form is None:
        form = "tool_call" if any(each.get("tool_calls") for each in answers) else "prompting"
    with closing(Dialogue(task, form=form, **keywords)) as dialogue:
        dialogue.open()
        for answer in answers:
            if dialogue.done:
                break
            dialogue.reply(answer)
        return dialogue.verdict_so_far()


class CallByCall:
    """Episode that is played by one call after the other, as agents with tools play it.

    Each call is a step. Calls that a task does not execute are kept, and handed in together by
    `end_turn`. Keywords are those of `Dialogue`.
    """

    def __init__(self, task: Task, **keywords: Any) -> None:
        self.dialogue = Dialogue(task, **keywords)
        self.opening = self.dialogue.open()
        self._kept: list[dict[str, Any]] = []
        self._num_calls = 0

    def play(self, name: str, arguments: Mapping[str, Any]) -> list[Message] | None:
        """Play a call; return the messages that answer it, None for a call that is kept."""
        self._num_calls += 1
        call = tool_call(f"call_{self._num_calls}", name, json.dumps(dict(arguments)))
        if not self.dialogue.task.executes_calls:
            self._kept.append(call)
            return None
        return self.dialogue.reply({"role": "assistant", "content": None, "tool_calls": [call]})

    def end_turn(self, text: str = DONE) -> list[Message]:
        """End the turn with a text, and the calls kept; return the messages that answer it."""
        message: Message = {"role": "assistant", "content": text}
        if self._kept:
            message["tool_calls"], self._kept = self._kept, []
        return self.dialogue.reply(message)


def oracle_messages(task: Task, form: str = "tool_call") -> list[Message]:
    """Return the assistant's messages that solve a task: the calls of each turn, then a text.

    form: "tool_call", or "prompting" with the calls in the text. Raises ValueError for a ground
    truth that cannot be written as calls.
    """
    messages: list[Message] = []
    for calls in oracle_calls(task_for_form(task, form)):
        if calls and form == "tool_call":
            listed = [
                tool_call(f"c{len(messages)}_{index}", call.name, json.dumps(dict(call.arguments)))
                for index, call in enumerate(calls)
            ]
            messages.append({"role": "assistant", "content": None, "tool_calls": listed})
        elif calls:
            text = get_handler("python_calls").render(calls)
            messages.append({"role": "assistant", "content": text})
        if task.executes_calls or not calls:
            messages.append({"role": "assistant", "content": DONE})
    return messages


def _unanswered(message: Mapping[str, Any], answers: Sequence[Message]) -> list[Message]:
    """Return a tool message for each call of a message that has none among its answers."""
    if any(each["role"] == "tool" for each in answers):
        return []
    calls = message.get("tool_calls")
    return [
        {"role": "tool", "tool_call_id": str(call.get("id", "")), "content": NOT_RUN}
        for call in (calls if isinstance(calls, list | tuple) else ())
        if isinstance(call, Mapping)
    ]


def info_to_json(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return an `info` as plain dicts, lists, texts and numbers, which `json.dumps` accepts.

    Records (`Call`, `Verdict`) become dicts of their fields, tuples lists, numbers that JSON lacks
    and other objects their `repr`.
    """
    plain: dict[str, Any] = _plain(info)
    return plain


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {encodable_text(str(key)): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in value]
    if isinstance(value, str):
        return encodable_text(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return repr(value)


class PlayedTask(NamedTuple):
    """Outcome of an episode."""

    verdict: Verdict
    reward: float
    messages: list[Message]


def play(
    task: Task,
    client: Any,
    model: str,
    *,
    sampling: Mapping[str, Any] | None = None,
    **keywords: Any,
) -> PlayedTask:
    """Play a task with a model behind `openai.OpenAI`, or any client of that form.

    sampling: further arguments of each request. keywords: as for `Dialogue`, `form` among them.
    What the client raises is raised; InfrastructureError where the tools failed.
    """
    with closing(Dialogue(task, **keywords)) as dialogue:
        dialogue.open()
        while not dialogue.done:
            asked = _request(dialogue, model, sampling)
            dialogue.reply(_message(client.chat.completions.create(**asked)))
        return _played(dialogue)


async def aplay(
    task: Task,
    client: Any,
    model: str,
    *,
    sampling: Mapping[str, Any] | None = None,
    **keywords: Any,
) -> PlayedTask:
    """Play a task with a model behind `openai.AsyncOpenAI`, as `play` does; tools run in a thread.

    Several at once: asyncio.gather.
    """
    with closing(Dialogue(task, **keywords)) as dialogue:
        dialogue.open()
        while not dialogue.done:
            asked = _request(dialogue, model, sampling)
            said = _message(await client.chat.completions.create(**asked))
            await asyncio.to_thread(dialogue.reply, said)
        return _played(dialogue)


def _request(dialogue: Dialogue, model: str, sampling: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the arguments of the next request; `tools` only if there are some."""
    tools = {"tools": dialogue.tools} if dialogue.tools else {}
    return {"model": model, "messages": dialogue.messages, **tools, **(sampling or {})}


def _message(completion: Any) -> Mapping[str, Any]:
    """Return the message of a completion's first choice as a dict."""
    message = completion.choices[0].message
    return message if isinstance(message, Mapping) else message.model_dump(exclude_none=True)


def _played(dialogue: Dialogue) -> PlayedTask:
    verdict = dialogue.verdict
    assert verdict is not None
    return PlayedTask(verdict, dialogue.reward, dialogue.messages)
