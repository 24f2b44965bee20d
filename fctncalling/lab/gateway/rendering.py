"""Rendering: the messages of a request as token ids, with the ids of what was sampled in them.

Wherever an assistant message is one that the policy sampled in this session, its own ids stand in
the prompt, never its text encoded again. What the agent changed is text like any other: context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.policy.message_renderer import TemplateRefusal
from fctncalling.data.types import Message
from fctncalling.lab.gateway.action_forest import ROOT, ActionForest, RowEnd, SampledAction
from fctncalling.lab.gateway.chat_messages import ContextCallForm, message_key
from fctncalling.lab.gateway.gateway_error import GatewayError
from fctncalling.lab.gateway.openai_answers import AnswerMessage


class PromptDrift(NamedTuple):
    """Place where a request does not go on from what was sampled, and why."""

    request: int
    message: int  # index in the request
    kind: str  # edited, foreign, moved, rewritten
    why: str


class RenderedPrompt(NamedTuple):
    """Prompt of a request: its ids, what it refers to, and where it left what was sampled."""

    ids: list[int]
    referred: set[int]  # actions that stand in it, as they were or changed
    drift: list[PromptDrift]
    conversation: int = 0  # hash of the messages


@dataclass
class AnsweredMessages:
    """Messages that were answered with in a session, to be known again."""

    by_key: dict[str, list[int]] = field(default_factory=dict)
    by_call: dict[str, int] = field(default_factory=dict)
    by_conversation: dict[int, list[int]] = field(default_factory=dict)
    keys: dict[int, str] = field(default_factory=dict)

    def remember(self, number: int, answer: AnswerMessage, conversation: int) -> None:
        """Remember what an action was answered as, and to which messages."""
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
        """Return the actions whose calls a message has by their ids."""
        ids = (call["id"] for call in message.get("tool_calls", ()))
        return [self.by_call[call_id] for call_id in ids if call_id in self.by_call]


def render_messages(
    messages: Sequence[Message],
    opening: tuple[Sequence[Any], str],
    request: int,
    *,
    template: ChatTemplate,
    form: ContextCallForm,
    forest: ActionForest,
    answered: AnsweredMessages,
) -> RenderedPrompt:
    """Return the prompt of a conversation; opening: its tools and instructions."""
    walk = _Walk(messages, opening, request, template, form, forest, answered)
    try:
        return walk.appended() if template.append_only else walk.rewritten()
    except TemplateRefusal as error:
        raise GatewayError(
            400, f"messages: the model's chat template refuses them: {error}", param="messages"
        ) from None


class _Walk:
    """One pass over the messages of a request."""

    def __init__(
        self,
        messages: Sequence[Message],
        opening: tuple[Sequence[Any], str],
        request: int,
        template: ChatTemplate,
        form: ContextCallForm,
        forest: ActionForest,
        answered: AnsweredMessages,
    ) -> None:
        self.messages = messages
        self.shown = form.shown(messages)
        self.opening = opening
        self.request = request
        self.template = template
        self.forest = forest
        self.answered = answered
        self.ids: list[int] = []
        self.end = ROOT  # of the last action in `ids` that goes on from those before it
        self.segment: list[Message] = []  # context that is not in `ids` yet
        self.calls: Message | None = None  # of the action that stands last in `ids`
        self.referred: set[int] = set()
        self.conversation = 0  # hash of the messages before
        self.found: list[tuple[int, Callable[[], PromptDrift]]] = []  # with the place in `ids`

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
        """Yield each message with the actions that it may be; note what was not sampled so."""
        for index, message in enumerate(self.messages):
            candidates = (
                self.answered.echoed_actions(message) if message["role"] == "assistant" else []
            )
            if message["role"] == "assistant" and not candidates and self.forest.actions:
                self._note_unknown(index, message)
            yield index, message, candidates
            self.conversation = hash((self.conversation, message["role"], message_key(message)))

    def _prompt(self, ids: list[int], covered: int) -> RenderedPrompt:
        """Return the prompt; what drifted in the row that it goes on was told before."""
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
        """Return how a message differs from the action that it was."""
        difference = _difference(self.answered.keys.get(number, ""), message_key(message))
        return f"action {number} was sampled otherwise: {difference}"

    def _note(self, index: int, kind: str, why: Callable[[], str]) -> None:
        """Note a drift; why: told only where it is new."""
        self.found.append((len(self.ids), lambda: PromptDrift(self.request, index, kind, why())))


def _agreement(ids: Sequence[int], sampled: Sequence[int]) -> str:
    return f"{_num_common(ids, sampled)} of {len(sampled)} tokens agree"


def _difference(sampled: str, sent: str) -> str:
    """Return the first place at which two messages differ, in a few words."""
    at = _num_common(sampled, sent)
    start = max(0, at - 10)
    return f"{sampled[start : at + 20]!r} became {sent[start : at + 20]!r}"


def _num_common(one: Sequence[Any], other: Sequence[Any]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def find_continued_action(
    prompt: str, template: ChatTemplate, forest: ActionForest
) -> tuple[SampledAction | None, str]:
    """Return the action whose row a raw prompt goes on, and the text behind it."""
    ends: dict[int | None, int] = {None: 0}  # action -> where its row ends, in tokens
    for action in forest.actions:
        ends[action.number] = ends[action.parent] + len(action.context) + len(action.ids)
    for action in sorted(forest.actions, key=lambda each: -ends[each.number]):
        row = template.spell(forest.path(action.number))
        if prompt.startswith(row):
            return forest.actions[forest.firsts[action.number]], prompt[len(row) :]
    return None, prompt
