"""Incremental chat-template tokenisation: sampled tokens are never re-encoded."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from fctncalling.algorithms.policy.answer_ends import AnswerEnds, find_answer_ends
from fctncalling.algorithms.policy.marker_escaper import MARKER, MarkerEscaper
from fctncalling.algorithms.policy.message_renderer import (
    PROBE_TOOL,
    MessageRenderer,
    TemplateRefusal,
    assistant,
    tool,
    user,
)
from fctncalling.algorithms.policy.template_messages import (
    calls_message,
    name_results,
    num_results,
)
from fctncalling.data.types import Call, Message
from fctncalling.data.unsafe_text import encodable_text

logger = logging.getLogger(__name__)

PLAIN_TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message.role + '|>\n' + message.content }}"
    "{{ (eos_token if message.role == 'assistant' else '') + '\n' }}{% endfor %}"
    "{{ '<|assistant|>\n' if add_generation_prompt else '' }}"
)


def fallback_template(tokenizer: Any) -> str | None:
    """Return a fallback template of chats, with a warning, for a tokenizer without; else None."""
    if getattr(tokenizer, "chat_template", None):
        return None
    logger.warning(
        "the tokenizer has no chat template: a plain built-in one (<|user|> ... <|assistant|> ...) "
        "is used. Give the model's own with --chat_template FILE."
    )
    return PLAIN_TEMPLATE


def bos_ids(tokenizer: Any) -> list[int]:
    """Return the BOS ids: [BOS id] if the tokenizer puts one before a text; else []."""
    bos = tokenizer.bos_token_id
    return [bos] if bos is not None and tokenizer("").input_ids[:1] == [bos] else []


_PROBE_CALL = Call("fctnprobecall", {"a": "x"})
_THOUGHT_TAG = re.compile(r"</?[^<>\n]*think[^<>\n]*>|\[/?THINK\]")


class ChatTemplate:
    """Chat template of a tokenizer, for prompts that grow by appending tokens.

    What the template can do is found by rendering probes, never by its name: `takes_tools` (else
    the system message carries the prompting instructions), `tool_role` and `system_role` (else such
    messages come as user messages), `append_only` (else the history must be rendered again for each
    step in which the template would write it otherwise).

    Text that comes from tools, users and function docs is not trusted: wherever it spells a special
    token or one of the template's own markers, an invisible WORD JOINER is put after the first
    character, so it stays readable and is encoded as ordinary text.
    """

    def __init__(
        self,
        tokenizer: Any,
        chat_template: str | None = None,
        *,
        listed_ends: Collection[int] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        """listed_ends: ends in generation_config.json; kwargs: arguments of every rendering."""
        self.tokenizer = tokenizer
        self.kwargs = dict(kwargs or {})
        self._variants: dict[str, ChatTemplate] = {}
        source = chat_template or fallback_template(tokenizer)
        # A chat template writes BOS itself, where the model knows one; the plain one does not.
        self.opening_ids: list[int] = bos_ids(tokenizer) if source == PLAIN_TEMPLATE else []
        self._escaper = MarkerEscaper(())
        self._tails: dict[str, list[int]] = {}
        self._prompts: dict[str, list[int]] = {}  # of the last texts
        self.renderer = MessageRenderer(tokenizer, source, self.kwargs)
        if source is None and (self.renderer.takes_tools or self.renderer.is_named):
            own = tokenizer.get_chat_template(tools=[PROBE_TOOL])
            self.renderer = MessageRenderer(tokenizer, own, self.kwargs)
        self.source = self.renderer.source
        self.takes_tools = self.renderer.takes_tools
        self.ends: AnswerEnds = find_answer_ends(
            tokenizer,
            lambda messages, prompt: self.renderer.render(messages, prompt=prompt),
            self.encode,
            listed_ends,
        )
        self.stop_texts = tuple(self.spell([each]) for each in sorted(self.stop_ids))
        self.renderer.find_roles(self.stop_texts)
        self.header = self.renderer.answer_header()
        self.system_role = self.renderer.system_role
        self.tool_role = self.renderer.tool_role or self.renderer.result_role
        self._escaper = MarkerEscaper(self._find_markers())
        self.append_only = self._is_append_only()
        logger.info(
            "chat template: tools %s; tool role %s; %s",
            "rendered by the template" if self.takes_tools else "described in the system message",
            "rendered" if self.tool_role else "replaced by the user role",
            "append-only, one row per episode"
            if self.append_only
            else "rewrites its history, a new row for each step that it changes",
        )

    def render_prompt(
        self, messages: Sequence[Message], tools: Sequence[Any] = (), instructions: str = ""
    ) -> list[int]:
        """Render the prompt of an episode, the first, to token ids, generation prompt included.

        `tools` are OpenAI-form schemas; `instructions` replaces them where the template takes no
        tools. Raises TemplateRefusal for messages that the template does not take.
        """
        opened = self._escaper.escape_messages(self._opening(messages, instructions))
        text = self.renderer.render(opened, self._shown(tools))
        if text not in self._prompts:  # all members of a group have one
            if len(self._prompts) >= 64:
                self._prompts.clear()
            self._prompts[text] = self.encode(text)
        return [*self.opening_ids, *self._prompts[text]]

    def render_delta(
        self, messages: Sequence[Message], last_id: int | None = None, calls: Message | None = None
    ) -> list[int]:
        """Render the delta, the new messages after an action and the next prompt, to token ids.

        `last_id` is the action's last sampled token; None stands for the end that the template
        writes. That is left out if it was sampled, so an action that was cut, or ended otherwise,
        is closed here. `calls`: message of its calls (`calls_message`), which results answer.
        Raises TemplateRefusal for messages that the template does not take.
        """
        key = repr((messages, calls))  # with every field: calls and tools are shown too
        ids = self._tails.get(key)
        if ids is None:
            ids = self.encode(self._tail(messages, calls))
            if len(self._tails) >= 8192:
                self._tails.clear()
            self._tails[key] = ids
        return ids[self.ends.num_written(ids, last_id) :]

    def render_full(
        self,
        history: Sequence[Message],
        tools: Sequence[Any] = (),
        instructions: str = "",
        trusted: Sequence[int] = (),
    ) -> list[int]:
        """Render the full history to token ids, where the template cannot append."""
        text = self.text_of_history(history, tools, instructions, trusted)
        return [*self.opening_ids, *self.encode(text)]

    def text_of_history(
        self,
        history: Sequence[Message],
        tools: Sequence[Any] = (),
        instructions: str = "",
        trusted: Sequence[int] = (),
    ) -> str:
        """Return what the template writes for a history, with the next generation prompt.

        `trusted` are the indices of messages that the policy wrote itself, which are rendered as
        they are: their content is what was sampled, their calls stand in it; `own_form`
        is what the template is given where it does not take the text. Raises TemplateRefusal.
        """
        cleaned = [
            m if i in trusted else self._escaper.escape_messages([m])[0]
            for i, m in enumerate(history)
        ]
        shown, refusal = self._shown(tools), TemplateRefusal("no history")
        instructions = self._escaper.escape_value(instructions)
        for form, plain in (
            (self._as_sampled, False),
            (self._in_own_form, False),
            (self._as_words, True),
        ):
            try:
                played = [
                    form(m, cleaned[i + 1 : i + 2]) if i in trusted else m
                    for i, m in enumerate(cleaned)
                ]
                opened = self._opening(played, instructions)
                return self.renderer.render(opened, shown, plain_results=plain)
            except TemplateRefusal as error:
                refusal = error
        raise refusal

    def text_of_calls(self, calls: Sequence[Call], tools: Sequence[Any] = (), **fields: Any) -> str:
        """Return the answer that the template writes for calls; "" where it writes none.

        fields: others of the message, such as `reasoning_content`. Raises TemplateRefusal.
        """
        if not self.renderer.shows_calls:
            return ""
        message = {**self.calls_message(calls), **fields}
        return self.renderer.text_of_calls(message, self.stop_texts, self._shown(tools))

    def calls_message(self, calls: Sequence[Call], num_before: int = 0, text: str = "") -> Message:
        """Return the message of calls as this template wants it; see `calls_message`."""
        named = self.renderer.shape.named_ids
        return calls_message(calls, num_before, text=text, named_ids=named)

    def with_own_calls(self, messages: Sequence[Message]) -> list[Message]:
        """Return a task's messages with call ids as the template wants them, without text at calls.

        As they are, text in place of calls, where the template writes no calls.
        """
        found, ids = list[Message](), dict[str, str]()
        for message in messages:
            listed = message.get("tool_calls") if self.renderer.shows_calls else None
            if listed:
                functions = [each["function"] for each in listed]
                calls = [Call(each["name"], each["arguments"]) for each in functions]
                message = self.calls_message(calls, len(ids))
                made = [each["id"] for each in message["tool_calls"]]
                ids |= zip([each["id"] for each in listed], made, strict=True)
            elif message.get("tool_call_id") in ids:
                message = {**message, "tool_call_id": ids[message["tool_call_id"]]}
            found.append(message)
        return found

    def encode(self, text: str) -> list[int]:
        """Encode a text to token ids without special tokens.

        Tokenizers take no surrogate code points.
        """
        ids: list[int] = self.tokenizer.encode(encodable_text(text), add_special_tokens=False)
        return ids

    def encode_untrusted(self, text: str, tags: Sequence[str] = ()) -> list[int]:
        """Encode untrusted text; it never becomes a special token or a marker.

        `tags` are the environment's own marks, which it has broken in what tools said itself: some
        tokenizers have a token for them, and they are to be read as that.
        """
        return self.encode(self.escape_specials(text, tags))

    def escape_specials(self, text: str, tags: Sequence[str] = ()) -> str:
        """Escape specials (special tokens and template markers) in a text, but those in `tags`."""
        return self._escaper.escape(text, tags)

    def decode(self, ids: Sequence[int]) -> str:
        """Decode an action's token ids to text, without its end token."""
        return self.spell(ids[:-1] if ids and ids[-1] in self.stop_ids else ids)

    def spell(self, ids: Sequence[int]) -> str:
        """Spell out token ids as text, special tokens included."""
        text: str = self.tokenizer.decode(
            list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return text

    # Ends and arguments

    @property
    def stop_ids(self) -> frozenset[int]:
        """Ids at which sampling ends."""
        return self.ends.stops

    @property
    def end_of_turn_id(self) -> int:
        """Id of the end that the model knows behind words."""
        return self.ends.of_words

    def uses_argument(self, name: str) -> bool:
        """Whether the template's source names an argument."""
        source = self.source or self.tokenizer.get_chat_template()
        return re.search(rf"\b{re.escape(name)}\b", source) is not None

    def with_kwargs(self, kwargs: Mapping[str, Any]) -> ChatTemplate:
        """Return this template with other arguments in its renderings, cached."""
        if not kwargs or (merged := {**self.kwargs, **kwargs}) == self.kwargs:
            return self
        merged = {name: self._escaper.escape_value(value) for name, value in merged.items()}
        key = repr(sorted(merged.items()))
        if key not in self._variants:
            if len(self._variants) >= 64:
                self._variants.clear()
            self._variants[key] = ChatTemplate(
                self.tokenizer, self.source, listed_ends=self.stop_ids, kwargs=merged
            )
        return self._variants[key]

    # How messages are rendered

    def _opening(self, messages: Sequence[Message], instructions: str) -> list[Message]:
        if self.takes_tools or not instructions:
            return list(messages)
        if messages and messages[0]["role"] == "system":
            joined = f"{instructions}\n\n{messages[0].get('content') or ''}"
            return [{**messages[0], "content": joined}, *messages[1:]]
        return [{"role": "system", "content": instructions}, *messages]

    def _shown(self, tools: Sequence[Any]) -> list[Any] | None:
        return self._escaper.escape_value(list(tools)) if tools and self.takes_tools else None

    def _tail(self, messages: Sequence[Message], calls: Message | None = None) -> str:
        """Return the text between an answer and the messages that follow it.

        Behind its calls, where results answer them and the template says so otherwise; behind a
        text where that fails.
        """
        messages = self._escaper.escape_messages(messages)
        if calls is not None and self.renderer.behind_calls and num_results(messages):
            calls = {**self._escaper.escape_messages([calls])[0], "content": ""}
            with contextlib.suppress(TemplateRefusal):
                return self.renderer.tail_of_calls(calls, messages, self.stop_texts)
        return self.renderer.tail_of_text(messages)

    def _as_sampled(self, message: Message, following: Sequence[Message]) -> Message:
        """Return a message of the policy as its text; in its own form where results need calls."""
        needs_calls = self.renderer.behind_calls and num_results(following)
        if not needs_calls or not message.get("tool_calls"):
            return self._as_words(message, following)
        own = self._in_own_form(message, following)
        return own if "own_form" in message else {**own, "content": self._before_calls(message)}

    def _before_calls(self, message: Message) -> str:
        """Return what a message of the policy thinks and says before its calls, as sampled.

        Up to the mark that the template writes before a function's name; "" where none is found.
        """
        text, name = message["content"], message["tool_calls"][0]["function"]["name"]
        written = self.renderer.text_of_calls({**message, "content": ""}, self.stop_texts)
        marks = _THOUGHT_TAG.sub("", written.partition(name)[0]).split()
        behind = max((tag.end() for tag in _THOUGHT_TAG.finditer(text)), default=0)
        at = text.find(marks[0], behind) if marks else 0
        return str(text[: max(at, 0)]).rstrip()

    @staticmethod
    def _as_words(message: Message, following: Sequence[Message]) -> Message:
        """Return a message of the policy as its text."""
        return {"role": "assistant", "content": message["content"]}

    def _in_own_form(self, message: Message, following: Sequence[Message]) -> Message:
        """Return a message of the policy as its words and calls, as the template writes them.

        Its words are what stands behind the header that the template writes before an answer.
        """
        if own := message.get("own_form"):
            return self._escaper.escape_messages([own])[0]
        if message.get("tool_calls"):
            return {**self._escaper.escape_messages([message])[0], "content": ""}
        words = message["content"].rpartition(self.header)[2] if self.header else ""
        return {"role": "assistant", "content": words or message["content"]}

    # What the template can do

    def _find_markers(self) -> set[str]:
        """Return the added tokens, and the markers that the template writes around contents."""
        markers = {str(token) for token in self.tokenizer.added_tokens_decoder.values()}
        probe = [user("q"), assistant("a"), tool("r"), user("q")]
        system = {"role": "system", "content": "s"}
        for tools, messages in (
            (None, [system, *probe]),
            ([PROBE_TOOL] if self.takes_tools else None, probe),
        ):
            # A template that wants tool calls before tool results shows its markers elsewhere.
            with contextlib.suppress(TemplateRefusal):
                markers.update(MARKER.findall(self.renderer.render(messages, tools)))
        if self.renderer.behind_calls:
            calls = self.calls_message([_PROBE_CALL])
            tail = self.renderer.tail_of_calls(calls, name_results([tool("r")], calls), ())
            markers.update(MARKER.findall(tail))
        return markers

    def _is_append_only(self) -> bool:
        """Whether first + actions + deltas spell what the template writes for the conversation."""
        try:
            return all(self._grows(thought) for thought in ("", "why"))
        except TemplateRefusal:
            return False

    def _grows(self, thought: str) -> bool:
        """Whether a conversation with a thought in each answer, or none, grows by appending."""
        tools = [PROBE_TOOL] if self.takes_tools else None
        history = self._opening([user("q1")], "" if self.takes_tools else "instructions")
        text = self.renderer.render(history, tools)
        follow_ups = (
            [tool("r1")],
            [user("q2")] if self.renderer.behind_calls else [tool("r2"), tool("r3")],
            [user("q2")],
            [tool("r4")],
            [user("q3")],
        )
        for number, new in enumerate(follow_ups):
            said, written = self._probe_answer(number, new, thought)
            new = name_results(new, said)
            text += written + self._tail(new, said if said.get("tool_calls") else None)
            history = [*history, said, *new]
            if text != self.renderer.render(history, tools):
                return False
        return True

    def _probe_answer(
        self, number: int, new: Sequence[Message], thought: str
    ) -> tuple[Message, str]:
        """Return an answer that messages follow, and its text as a policy writes it."""
        if self.renderer.behind_calls and num_results(new):
            said = {**self.calls_message([_PROBE_CALL], number), "reasoning_content": thought}
            return said, self.renderer.text_of_calls(said, self.stop_texts)
        text = f"<think>\n{thought}\n</think>\n\nanswer" if thought else "answer"
        return assistant(text), self.header + text
