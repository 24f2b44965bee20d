"""Rendering: the messages of a request as token ids, sampled answers by their sampled ids.

Wherever an assistant message is one that the policy sampled in this session, its own ids stand in
the prompt, never its text encoded again. What the agent changed is text like any other: context.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from operator import eq
from typing import Any, NamedTuple

from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.policy.message_renderer import TemplateRefusal
from fctncalling.call_form import find_call_form
from fctncalling.data.types import Call, FunctionDoc, Message, tool_call
from fctncalling.envs.handlers import get_handler
from fctncalling.envs.prompting.prompts import system_prompt
from fctncalling.lab.gateway.action_forest import ROOT, ActionForest, RowEnd, SampledAction
from fctncalling.lab.gateway.completion_request import GatewayError, message_key
from fctncalling.lab.gateway.openai_answers import AnswerMessage


class PromptDrift(NamedTuple):
    """Place at which a request leaves the sampled tokens, and why."""

    request: int
    message: int  # index in the request
    kind: str  # edited, foreign, moved, rewritten
    why: str


class RenderedPrompt(NamedTuple):
    """Prompt of a request: its ids, the actions in it, and its departures from sampled tokens."""

    ids: list[int]
    referred: set[int]  # actions that stand in it, as they were or changed
    drift: list[PromptDrift]
    conversation: int = 0  # hash of the messages


@dataclass
class AnsweredMessages:
    """Answers of a session, by which its later requests are recognised."""

    by_key: dict[str, list[int]] = field(default_factory=dict)
    by_call: dict[str, int] = field(default_factory=dict)
    by_conversation: dict[int, list[int]] = field(default_factory=dict)
    keys: dict[int, str] = field(default_factory=dict)

    def remember(self, number: int, answer: AnswerMessage, conversation: int) -> None:
        """Remember the message of an action, and the conversation before it."""
        self.by_conversation.setdefault(conversation, []).append(number)
        self.by_key.setdefault(answer.key, []).append(number)
        self.keys[number] = answer.key
        self.by_call |= dict.fromkeys(answer.call_ids, number)

    def echoed_actions(self, message: Message) -> list[int]:
        """Return the actions that a message may be, the likeliest last."""
        found = self.by_key.get(message_key(message), [])
        named = [number for number in self.referred_by_call(message) if number in found]
        return [*found, *named]

    def referred_by_call(self, message: Message) -> list[int]:
        """Return the actions with the call ids of a message."""
        ids = (call["id"] for call in message.get("tool_calls", ()))
        return [self.by_call[call_id] for call_id in ids if call_id in self.by_call]


@dataclass
class MessageRendering:
    """One pass over the messages of a request, which makes its prompt."""

    messages: Sequence[Message]
    tools: Sequence[Any]
    request: int  # number
    template: ChatTemplate
    form: ContextCallForm
    forest: ActionForest
    answered: AnsweredMessages

    def __post_init__(self) -> None:
        self.shown = self.form.shown(self.messages)
        self.opening = self.tools, self.form.instructions(self.tools)
        self.ids: list[int] = []
        self.end = ROOT  # of the last action in `ids` that goes on from those before it
        self.segment: list[Message] = []  # context that is not in `ids` yet
        self.calls: Message | None = None  # of the action that stands last in `ids`
        self.referred: set[int] = set()
        self.conversation = 0  # hash of the messages before
        self.found: list[tuple[int, Callable[[], PromptDrift]]] = []  # with the place in `ids`

    def prompt(self) -> RenderedPrompt:
        """Return the prompt; GatewayError if the chat template refuses the messages."""
        try:
            return self.appended() if self.template.append_only else self.rewritten()
        except TemplateRefusal as error:
            fault = f"messages: the model's chat template refuses them: {error}"
            raise GatewayError(400, fault, param="messages") from None

    def appended(self) -> RenderedPrompt:
        """Return ids that are put together piece by piece: context, action, context, ..."""
        for index, message, candidates in self._read():
            if candidates and (self.ids or self.segment):
                self.ids += self._segment_ids()
                self.segment = []
                self._take(index, candidates)
                self.calls = self.shown[index] if message.get("tool_calls") else None
                continue
            self.segment.append(self.shown[index])
        self.ids += self._segment_ids()
        covered = len(self.ids) - len(self.forest.locate(self.ids, self.end).context)
        return self._prompt(self.ids, covered)

    def rewritten(self) -> RenderedPrompt:
        """Return the ids of a template that renders a history anew, sampled texts as they were."""
        history: list[Message] = []
        echoes: dict[int, int] = {}
        for index, _, candidates in self._read():
            if candidates:
                echoes[index] = candidates[-1]
                text = self.template.decode(self.forest.actions[candidates[-1]].ids)
                own = self.shown[index]
                listed = {"tool_calls": own["tool_calls"]} if own.get("tool_calls") else {}
                history.append({"role": "assistant", "content": text, "own_form": own, **listed})
                continue
            history.append(self.shown[index])
        self.referred |= {self.forest.firsts[number] for number in echoes.values()}
        if echoes:
            ids = self.template.render_full(history, *self.opening, trusted=sorted(echoes))
        else:
            ids = self.template.render_prompt(history, *self.opening)
        last = max(echoes, default=None)
        if last is not None and self.forest.locate(ids).parent != self.forest.firsts[echoes[last]]:
            row, why = self.forest.path(echoes[last]), "the chat template renders the history anew"
            self._note(last, "rewritten", lambda: f"{why}: {_agreement(ids, row)}")
        return self._prompt(ids, 0)

    def _read(self) -> Iterator[tuple[int, Message, list[int]]]:
        """Yield each message with the actions that it may be; note those not sampled."""
        for index, message in enumerate(self.messages):
            candidates = (
                self.answered.echoed_actions(message) if message["role"] == "assistant" else []
            )
            if message["role"] == "assistant" and not candidates and self.forest.actions:
                self._note_unknown(index, message)
            yield index, message, candidates
            self.conversation = hash((self.conversation, message["role"], message_key(message)))

    def _prompt(self, ids: list[int], covered: int) -> RenderedPrompt:
        """Return the prompt, without drift that was reported for the row that it continues."""
        drift = [tell() for at, tell in self.found if at >= covered]
        return RenderedPrompt(ids, self.referred, drift, self.conversation)

    def _segment_ids(self) -> list[int]:
        """Return the ids of the open segment and of the opening of an assistant message."""
        if not self.ids:
            return self.template.render_prompt(self.segment, *self.opening)
        return self.template.render_delta(self.segment, self.ids[-1], self.calls)

    def _take(self, index: int, candidates: list[int]) -> None:
        """Append the ids of the action that a message is: one sampled right here, if there is."""
        position = self.forest.locate(self.ids, self.end)
        here = {action.number for action in self.forest.choices(position)}
        firsts = [self.forest.firsts[each] for each in reversed(candidates)]
        number = next((each for each in firsts if each in here), firsts[0])
        action = self.forest.actions[number]
        self.referred.add(number)
        at = len(self.ids)
        if number in here:
            self.end = RowEnd(at + len(action.ids), number)
        else:
            why = "it was sampled after another history"
            self._note(
                index,
                "moved",
                lambda: f"{why}: {_agreement(self.ids[:at], self.forest.prompt(number))}",
            )
        self.ids += action.ids

    def _note_unknown(self, index: int, message: Message) -> None:
        """Note an assistant message that was not sampled so: edited, or from elsewhere."""
        named = self.answered.referred_by_call(message)
        choices = named[-1:] or self.answered.by_conversation.get(self.conversation, [])
        actions = sorted({self.forest.firsts[number] for number in choices})
        if not actions:
            self._note(index, "foreign", lambda: "no action of this session is this message")
        elif len(actions) > 1:
            self._note(index, "edited", lambda: "it is none of the choices that were sampled here")
        else:
            self.referred.add(actions[0])
            self._note(index, "edited", lambda: self._edit(actions[0], message))

    def _edit(self, number: int, message: Message) -> str:
        """Return how a message differs from the action that it was: the first place of it."""
        sampled, sent = self.answered.keys.get(number, ""), message_key(message)
        at = _num_common(sampled, sent)
        part = slice(max(0, at - 10), at + 20)
        return f"action {number} was sampled otherwise: {sampled[part]!r} became {sent[part]!r}"

    def _note(self, index: int, kind: str, why: Callable[[], str]) -> None:
        """Note a drift; why: called only if the drift is new."""
        self.found.append((len(self.ids), lambda: PromptDrift(self.request, index, kind, why())))


def _agreement(ids: Sequence[int], sampled: Sequence[int]) -> str:
    return f"{_num_common(ids, sampled)} of {len(sampled)} tokens agree"


def _num_common(one: Sequence[Any], other: Sequence[Any]) -> int:
    common: int = sum(takewhile(bool, map(eq, one, other)))
    return common


def find_continued_action(
    prompt: str, template: ChatTemplate, forest: ActionForest
) -> tuple[SampledAction | None, str]:
    """Return the action that a raw prompt continues, and the text after it."""
    ends: dict[int | None, int] = {None: 0}  # action -> where its row ends, in tokens
    for action in forest.actions:
        ends[action.number] = ends[action.parent] + len(action.context) + len(action.ids)
    for action in sorted(forest.actions, key=lambda each: -ends[each.number]):
        row = template.spell(forest.path(action.number))
        if prompt.startswith(row):
            return forest.actions[forest.firsts[action.number]], prompt[len(row) :]
    return None, prompt


class ContextCallForm:
    """Form of calls in context messages: the chat template's, or text if it shows none."""

    def __init__(self, template: ChatTemplate, handler: str = "auto", style: str = "bfcl") -> None:
        """handler: name of the form that calls are read in; style: of docs in instructions."""
        self._template = template
        self._style = style
        self.call_form = find_call_form(template)
        own = self.call_form.handler_name if handler == "auto" else handler
        self.handler = get_handler(own)
        self.writes_calls = template.renderer.shows_calls

    def shown(self, messages: Sequence[Message]) -> list[Message]:
        """Return messages as the template is given them.

        A result gets the name of the function whose call it answers where the template fails on
        one without.
        """
        names = {
            call["id"]: call["name"] for each in messages for call in each.get("tool_calls", ())
        }
        shown = []
        for message in messages:
            answered = names.get(message.get("tool_call_id", ""))
            if answered is not None and self._template.renderer.needs_names:
                message = {"name": answered, **message}
            shown.append(self._with_calls(message) if message.get("tool_calls") else message)
        return shown

    def _with_calls(self, message: Message) -> Message:
        calls = message["tool_calls"]
        if self.writes_calls:
            return {**message, "tool_calls": [_openai_call(call) for call in calls]}
        rest = {name: value for name, value in message.items() if name != "tool_calls"}
        return {**rest, "content": f"{message['content']}{self._written(calls)}"}

    def instructions(self, tools: Sequence[Any]) -> str:
        """Return the system text that describes tools if the template takes none."""
        if self._template.takes_tools or not tools:
            return ""
        docs = function_docs(tools)
        return system_prompt(docs, self.handler, many_turns=True, style=self._style)

    def _written(self, calls: Sequence[dict[str, str]]) -> str:
        try:
            written = []
            for call in calls:
                arguments = json.loads(call["arguments"])
                arguments = arguments if isinstance(arguments, dict) else {"value": arguments}
                written.append(Call(call["name"], arguments))
            return self.handler.render(written)
        except (ValueError, TypeError):  # what the form cannot say
            return json.dumps([_openai_call(call)["function"] for call in calls])


def _openai_call(call: dict[str, str]) -> dict[str, Any]:
    try:
        arguments: Any = json.loads(call["arguments"])
    except (ValueError, RecursionError):
        arguments = call["arguments"]
    return tool_call(call["id"], call["name"], arguments)


def function_docs(tools: Sequence[Any]) -> list[FunctionDoc]:
    """Return the docs of the functions that tools are, in OpenAI's form."""
    functions = (tool["function"] for tool in tools)
    return [
        FunctionDoc(
            each["name"],
            str(each.get("description") or ""),
            parameters
            if isinstance(parameters := each.get("parameters"), dict)
            else {"type": "dict", "properties": {}},
        )
        for each in functions
    ]
