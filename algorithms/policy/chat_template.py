"""Incremental chat-template tokenisation: sampled tokens are never re-encoded."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from fctncalling.algorithms.policy.answer_ends import REFUSALS, AnswerEnds, find_answer_ends
from fctncalling.data.types import Message
from fctncalling.data.unsafe_text import break_marker, encodable_text

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


def replace_unknown_roles(
    messages: Sequence[Message], known_roles: Mapping[str, bool], *, merge_users: bool
) -> list[Message]:
    """Replace unknown roles, which the template does not know, in messages by "user".

    known_roles: role -> whether the template renders it; roles not in it are known. A replaced
    message is merged with a neighbouring user message; two that were user messages from the start
    only with `merge_users` (templates that drop all but the last of them).
    """
    adapted: list[Message] = []
    replaced_before = False  # the previous message got the user role here
    for message in messages:
        role = message["role"]
        known = known_roles.get(role, True)
        message = {
            **message,
            "role": role if known else "user",
            "content": message.get("content") or "",
        }
        follows_user = adapted and adapted[-1]["role"] == message["role"] == "user"
        if follows_user and (merge_users or replaced_before or not known):
            joined = f"{adapted[-1]['content']}\n{message['content']}"
            adapted[-1] = {**adapted[-1], "content": joined}
        else:
            adapted.append(message)
        replaced_before = not known
    return adapted


_MARKER = re.compile(r"<\|?/?[\w:-]+\|?>|\[/?[A-Z_]{3,}\]")


class MarkerEscaper:
    """Escaper of template markers in untrusted text (tool results, user messages, docs).

    An invisible character after a marker's first character (`break_marker`) leaves it readable, and
    the tokenizer encodes it as ordinary text in place of a special token.
    """

    def __init__(self, markers: Collection[str]) -> None:
        """markers: strings to break, such as special tokens; shorter than two characters: not."""
        words = sorted(
            (word for word in markers if len(word.strip()) > 1), key=lambda word: (-len(word), word)
        )
        self._pattern = re.compile("|".join(map(re.escape, words))) if words else None

    def escape(self, text: str, keep: Sequence[str] = ()) -> str:
        """Escape every marker in a text, except those in `keep`."""
        if self._pattern is None:
            return text
        kept = frozenset(keep)
        return self._pattern.sub(
            lambda match: match[0] if match[0] in kept else _broken(match), text
        )

    def escape_value(self, value: Any) -> Any:
        """Escape a JSON value: the markers in all its strings, keys included."""
        if isinstance(value, str):
            return self.escape(value)
        if isinstance(value, Mapping):
            return {self.escape_value(k): self.escape_value(v) for k, v in value.items()}
        return [self.escape_value(v) for v in value] if isinstance(value, list | tuple) else value

    def escape_messages(self, messages: Sequence[Message]) -> list[Message]:
        """Escape the markers in all fields of messages but their roles."""
        return [
            {k: v if k == "role" else self.escape_value(v) for k, v in message.items()}
            for message in messages
        ]


def _broken(match: re.Match[str]) -> str:
    return break_marker(match[0])


logger = logging.getLogger(__name__)

_ACTION = "fctnprobeaction"  # placeholder of an action; templates pass it through unchanged
_PROBE_TOOL = {
    "type": "function",
    "function": {
        "name": "fctnprobefunction",
        "description": "A probe.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "string", "description": "x"}},
            "required": [],
        },
    },
}


class ChatTemplate:
    """Chat template of a tokenizer, for prompts that grow by appending tokens.

    What the template can do is found by rendering probes, never by its name: `takes_tools` (else
    the system message carries the prompting instructions), `tool_role` and `system_role` (else such
    messages come as user messages), `append_only` (else the history must be rendered again for each
    step).

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
        """listed_ends: those of the model (see answer_ends); kwargs: of each rendering."""
        self.tokenizer = tokenizer
        self.kwargs = dict(kwargs or {})
        self._variants: dict[str, ChatTemplate] = {}
        self.source: str | None = chat_template or fallback_template(tokenizer)
        # A chat template writes BOS itself, where the model knows one; the plain one does not.
        self.opening_ids: list[int] = bos_ids(tokenizer) if self.source == PLAIN_TEMPLATE else []
        self._escaper = MarkerEscaper(())
        self._tails: dict[str, list[int]] = {}
        self.tool_role = False
        self.system_role = False
        self.merges_users = False
        self.takes_tools = self._shows([_user("q")], "fctnprobefunction", tools=[_PROBE_TOOL])
        if chat_template is None and self.takes_tools and getattr(tokenizer, "chat_template", None):
            self.source = tokenizer.get_chat_template(tools=[_PROBE_TOOL])
        self._find_roles()
        self.ends: AnswerEnds = find_answer_ends(
            tokenizer, lambda m, prompt: self._render(m, prompt=prompt), self.encode, listed_ends
        )
        self._escaper = MarkerEscaper(self._find_markers())
        self.append_only = self._is_append_only()
        logger.info(
            "chat template: tools %s; tool role %s; %s",
            "rendered by the template" if self.takes_tools else "described in the system message",
            "rendered" if self.tool_role else "replaced by the user role",
            "append-only, one row per episode"
            if self.append_only
            else "rewrites its history, one row per step",
        )

    def render_prompt(
        self, messages: Sequence[Message], tools: Sequence[Any] = (), instructions: str = ""
    ) -> list[int]:
        """Render the prompt of an episode, the first, to token ids, generation prompt included.

        `tools` are OpenAI-form schemas; `instructions` replaces them where the template takes no
        tools.
        """
        opened = self._escaper.escape_messages(self._opening(messages, instructions))
        return [*self.opening_ids, *self.encode(self._render(opened, self._shown(tools)))]

    def render_delta(self, messages: Sequence[Message], last_id: int | None = None) -> list[int]:
        """Render the delta, new messages behind an action with the next prompt, to token ids.

        `last_id` is the action's last sampled token; None stands for the end that the template
        writes. That is left out if it was sampled, so an action that was cut, or ended otherwise,
        is closed here.
        """
        key = repr(messages)  # with every field: calls and tools are shown too
        ids = self._tails.get(key)
        if ids is None:
            ids = self.encode(self._tail(self._escaper.escape_messages(messages)))
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
        """Render the full history to token ids, where the template cannot append.

        `trusted` are the indices of messages that the policy wrote itself, which are rendered as
        they are.
        """
        cleaned = [
            m if i in trusted else self._escaper.escape_messages([m])[0]
            for i, m in enumerate(history)
        ]
        opened = self._opening(cleaned, self._escaper.escape_value(instructions))
        return [*self.opening_ids, *self.encode(self._render(opened, self._shown(tools)))]

    def encode(self, text: str) -> list[int]:
        """Encode a text to token ids; nothing is put in front or behind.

        Tokenizers take no surrogate code points.
        """
        ids: list[int] = self.tokenizer.encode(encodable_text(text), add_special_tokens=False)
        return ids

    def encode_untrusted(self, text: str, tags: Sequence[str] = ()) -> list[int]:
        """Encode untrusted text: nothing of it becomes a special token or a marker.

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
        """Return this template with other arguments in its renderings; it is kept."""
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

    def _adapt_roles(self, messages: Sequence[Message]) -> list[Message]:
        known = {"tool": self.tool_role, "system": self.system_role}
        return replace_unknown_roles(messages, known, merge_users=self.merges_users)

    def _render(
        self, messages: Sequence[Message], tools: list[Any] | None = None, prompt: bool = True
    ) -> str:
        text: str = self.tokenizer.apply_chat_template(
            self._adapt_roles(messages),
            tools=tools,
            chat_template=self.source,
            tokenize=False,
            add_generation_prompt=prompt,
            **self.kwargs,
        )
        return text

    def _tail(self, messages: Sequence[Message], prompt: bool = True) -> str:
        """Return what the template writes behind an assistant message that new messages follow."""
        played = [_user("q"), {"role": "assistant", "content": _ACTION}]
        text = self._render([*played, *messages], prompt=prompt)
        return text[text.index(_ACTION) + len(_ACTION) :]

    # What the template can do

    def _shows(
        self, messages: Sequence[Message], needle: str, tools: list[Any] | None = None
    ) -> bool:
        try:
            return needle in self._render(messages, tools)
        except REFUSALS:
            return False

    def _find_roles(self) -> None:
        self.system_role = True
        system = {"role": "system", "content": "fctnprobesystem"}
        self.system_role = self._shows([system, _user("q")], "fctnprobesystem")
        self.tool_role = True
        played = [_user("q"), {"role": "assistant", "content": _ACTION}]
        self.tool_role = self._shows(
            [*played, _tool("fctnproberesult"), _tool("r")], "fctnproberesult"
        )
        self.merges_users = not self._shows([_user("fctnprobeuser"), _user("q")], "fctnprobeuser")

    def _find_markers(self) -> set[str]:
        """Return the added tokens, and the markers that the template writes around contents."""
        markers = {str(token) for token in self.tokenizer.added_tokens_decoder.values()}
        probe = [_user("q"), {"role": "assistant", "content": "a"}, _tool("r"), _user("q")]
        system = {"role": "system", "content": "s"}
        for tools, messages in (
            (None, [system, *probe]),
            ([_PROBE_TOOL] if self.takes_tools else None, probe),
        ):
            # A template that wants tool calls before tool results shows its markers elsewhere.
            with contextlib.suppress(*REFUSALS):
                markers.update(_MARKER.findall(self._render(messages, tools)))
        return markers

    def _is_append_only(self) -> bool:
        """Whether first + actions + deltas spell what the template writes for the conversation."""
        tools = [_PROBE_TOOL] if self.takes_tools else None
        follow_ups = (
            [_tool("r1")],
            [_tool("r2"), _tool("r3")],
            [_user("q2")],
            [_tool("r4")],
            [_user("q3")],
        )
        try:
            for answer in ("answer", "<think>\nwhy\n</think>\n\nanswer"):
                history = self._opening([_user("q1")], "" if self.takes_tools else "instructions")
                text = self._render(history, tools)
                for new in follow_ups:
                    text += answer + self._tail(new)
                    history = [*history, {"role": "assistant", "content": answer}, *new]
                    if text != self._render(history, tools):
                        return False
        except REFUSALS:
            return False
        return True


def _user(content: str) -> Message:
    return {"role": "user", "content": content}


def _tool(content: str) -> Message:
    return {"role": "tool", "name": "f(a='x')", "content": content}
