"""MessageRenderer: messages to text by a chat template, in the shape that the template takes."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fctncalling.algorithms.policy.template_messages import (
    as_parts,
    calls_message,
    name_results,
    num_results,
    replace_unknown_roles,
    with_text_arguments,
)
from fctncalling.data.types import Call, Message

ACTION = "fctnprobeaction"  # placeholder of an action; templates pass it through unchanged
PROBE_TOOL = {
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
_PROBE_WORDS = ("fctnprobecall", "fctnprobename", "fctnprobevalue")
_CALL = Call(_PROBE_WORDS[0], {_PROBE_WORDS[1]: _PROBE_WORDS[2]})
_TOOL_NAMES = re.compile(r"(?<![\w.'\"])\w*(?:tool|func)\w*", re.IGNORECASE)


class TemplateRefusal(ValueError):
    """Refusal of a chat template: it raised on messages, or does not show them."""


class MessageShape(NamedTuple):
    """Shape in which a template takes messages."""

    tools_as: str = "tools"  # or another name, or "message", "message text": the system's own
    content_parts: bool = False  # contents are lists of parts
    no_tools: list[Any] | None = None  # what stands for no tools
    text_arguments: bool = False  # of calls: JSON text
    named_ids: bool = False  # ids of calls hold their functions' names, as Kimi's do
    under_system: bool = False  # tools are shown under a system message alone
    tools_of_calls: bool = False  # calls are written where tools are given alone


class MessageRenderer:
    """Renderer of messages by a chat template, with the template's abilities found by probing it.

    - `takes_tools`: it shows tools, handed to it as `tools`, under another name, or in the system
      message.
    - `system_role`, `tool_role`: it renders such messages; else they come as user messages.
    - `result_role`: it renders tool results behind an assistant message with calls;
      `behind_calls`: it does so otherwise than behind a text, or there alone.
    - `shows_calls`: it writes the calls of an assistant message; `calls_refusal`: it fails on them.
    - `needs_names`: it fails on a result without the name of its function.
    - `merges_users`: of several user messages in a row it shows the last alone.
    """

    system_role = True
    tool_role = True
    result_role = True
    merges_users = False
    shows_calls = False
    calls_refusal = ""
    behind_calls = False
    needs_names = False

    def __init__(
        self, tokenizer: Any, source: str | None, kwargs: Mapping[str, Any] | None = None
    ) -> None:
        """kwargs: arguments of each rendering."""
        self.tokenizer = tokenizer
        self.kwargs = dict(kwargs or {})
        self.source = source
        self.shape = MessageShape()
        self.is_named = isinstance(getattr(tokenizer, "chat_template", None), dict)
        # Some templates read tools under a name of their own: every variable that sounds so is
        # tried.
        written = self.source or str(getattr(tokenizer, "chat_template", ""))
        self._names = sorted(set(_TOOL_NAMES.findall(written)) - {"tools"})
        # In this order: how tools are handed over is tried with a shape that shows messages.
        self._find_shape()
        self.takes_tools = self._takes_tools()

    def find_roles(self, stops: Iterable[str]) -> None:
        """Find the roles that the template renders; stops: texts of tokens that end an answer."""
        system = {"role": "system", "content": "fctnprobesystem"}
        self.system_role = self.shows([system, user("q")], "fctnprobesystem")
        self.shows_calls = self._shows_calls()
        # Two results, since templates that fold results together lose the first of them.
        results = [{**tool("fctnproberesult"), "name": "f(a='x')"}, tool("r")]
        self.tool_role = self.shows([user("q"), assistant(ACTION), *results], "fctnproberesult")
        # The first of two user messages is gone where the template shows the last alone.
        self.merges_users = not self.shows([user("fctnprobeuser"), user("q")], "fctnprobeuser")
        self.result_role = False
        if self.shows_calls:
            self._find_results(results[:1], tuple(stops))

    def _find_results(self, results: list[Message], stops: Sequence[str]) -> None:
        """Find whether results behind calls are shown, and shown otherwise than behind a text."""
        self.result_role = True
        calls = calls_message([_CALL], named_ids=self.shape.named_ids)
        try:
            behind = self.tail_of_calls(calls, name_results(results, calls), stops)
        except TemplateRefusal:
            behind = ""
        self.result_role = "fctnproberesult" in behind
        # The same results without names: whether the template then refuses, or drops them.
        bare = [{**each, "tool_call_id": "0"} for each in results]
        bare = [{k: v for k, v in each.items() if k != "name"} for each in bare]
        self.needs_names = not self.shows([user("q"), calls, *bare], "fctnproberesult")
        if self.result_role:
            # Where both tails are alike, results follow texts, and calls need no rendering.
            self.behind_calls = not self.tool_role or behind != self.tail_of_text(results)

    def render(
        self,
        messages: Sequence[Message],
        tools: list[Any] | None = None,
        *,
        prompt: bool = True,
        plain_results: bool = False,
    ) -> str:
        """Render messages and the generation prompt to text; raises TemplateRefusal.

        plain_results: tool results come as user messages.
        """
        known = {"tool": self.tool_role, "result": self.result_role, "system": self.system_role}
        if plain_results:
            known |= {"tool": False, "result": False}
        adapted = replace_unknown_roles(messages, known, merge_users=self.merges_users)
        # An empty system message opens the branch of the template that shows tools.
        if tools and self.shape.under_system and adapted[0]["role"] != "system":
            adapted = [{"role": "system", "content": ""}, *adapted]
        handed: dict[str, Any] = {"tools": self.shape.no_tools}
        if not self.shape.tools_as.startswith("message"):
            handed[self.shape.tools_as] = tools or self.shape.no_tools
        elif tools:
            adapted = _in_system_message(
                adapted, tools, as_text=self.shape.tools_as.endswith("text")
            )
        if self.shape.content_parts:
            adapted = as_parts(adapted)
        if self.shape.text_arguments:
            adapted = with_text_arguments(adapted)
        try:
            text: str = self.tokenizer.apply_chat_template(
                adapted,
                chat_template=self.source,
                tokenize=False,
                add_generation_prompt=prompt,
                **{**self.kwargs, **handed},
            )
        except Exception as error:  # templates raise what Jinja does, and what they like
            line = next(iter(str(error).splitlines()), "")[:240]
            raise TemplateRefusal(f"{type(error).__name__}: {line}") from error
        return text

    def tail_of_text(self, messages: Sequence[Message], *, prompt: bool = True) -> str:
        """Return the text that the template writes after an answer, before the next message.

        Results come as user messages where it does not take what follows them.
        """
        # Whatever the history does to the question: the tail stands behind the marked action.
        talk = [user("q"), assistant(ACTION), *messages]
        try:
            text = self.render(talk, prompt=prompt)
        except TemplateRefusal:
            if num_results(messages) in (0, len(messages)):
                raise
            text = self.render(talk, prompt=prompt, plain_results=True)
        if ACTION not in text:
            raise TemplateRefusal("the assistant's words are changed in the history")
        return text.partition(ACTION)[2]

    def tail_of_calls(
        self, calls: Message, messages: Sequence[Message], stops: Sequence[str]
    ) -> str:
        """Return the text that the template writes after the calls, before the next message.

        calls: their message, no text of it spelling one of the stops; they end at the first stop.
        """
        tools, talk = self._tools_of_calls, [user("q"), calls]
        text = self.render([*talk, *messages], tools)
        # Calls have no marker that survives every template: their end is searched between where the
        # text parts from the question's alone and where it depends on the message behind them.
        start = _num_common(self.render(talk[:1], tools), text)
        # Any other first letter: the texts then part at the message's content at the latest.
        changed = "1" if str(messages[0].get("content")).startswith("0") else "0"
        other = self.render([*talk, {**messages[0], "content": changed}, *messages[1:]], tools)
        latest = _num_common(other, text)
        ends = [at for stop in stops if start <= (at := text.find(stop, start)) <= latest]
        if not ends:  # where the text parts from the one that has nothing behind the calls
            ends = [_num_common(self.render(talk, tools, prompt=False), text)]
        return text[min(ends) :]

    def text_of_calls(
        self, calls: Message, stops: Sequence[str], tools: list[Any] | None = None
    ) -> str:
        """Return the answer that the template writes for an assistant message with calls.

        From the generation prompt to the end of the answer; "" where it writes none.
        """
        question, tools = user("fctnprobequestion"), tools or self._tools_of_calls
        prompt = self.render([question], tools)
        for is_prompt in (False, True):  # some write another opening for a prompt
            text = self.render([question, calls], tools, prompt=is_prompt)
            start = _header_end(prompt, text)
            if question["content"] in text[:start]:
                break
        ends = [at for stop in stops if (at := text.find(stop, start)) >= 0]
        return text[start : min(ends, default=len(text))]

    def answer_header(self) -> str:
        """Return the text that the template writes between the generation prompt and the answer.

        "" where the prompt opens an answer otherwise than the history does.
        """
        header = self.render([user("q"), assistant(ACTION)], prompt=False).partition(ACTION)[0]
        prompt = self.render([user("q")])
        return header.removeprefix(prompt) if header.startswith(prompt) else ""

    def shows(
        self, messages: Sequence[Message], needle: str, tools: list[Any] | None = None
    ) -> bool:
        """Return whether the rendered messages contain a text."""
        try:
            return needle in self.render(messages, tools)
        except TemplateRefusal:
            return False

    def _find_shape(self) -> None:
        """Find how the template wants no tools (None or a list) and contents (texts or parts)."""
        talk = [user("fctnprobeuser"), assistant(ACTION)]
        names = ("tools", *self._names)
        # The usual shape first; the first that shows both a question and an answer is taken.
        shapes: Iterable[Any] = itertools.product(names, (False, True), (None, []))
        for shape in shapes:
            self.shape = MessageShape(*shape)
            if self.shows(talk[:1], "fctnprobeuser") and self.shows(talk, ACTION):
                return
        self.shape = MessageShape()

    def _takes_tools(self) -> bool:
        """Find how the template is handed tools: whether it shows them at all."""
        usual = self.shape
        # All places without a system message before any with one: most templates need none.
        places = (usual.tools_as, "message", "message text", *self._names)
        for under_system, place in itertools.product((False, True), places):
            self.shape = usual._replace(tools_as=place, under_system=under_system)
            if self.shows([user("q")], "fctnprobefunction", [PROBE_TOOL]):
                return True
        self.shape = usual
        return False

    def _shows_calls(self) -> bool:
        """Find how the template is handed calls; last, so that arguments become a Python dict."""
        usual, as_dict = self.shape, list[MessageShape]()
        ways = (False, True)
        for tools, as_text, named in itertools.product(ways[: 1 + self.takes_tools], ways, ways):
            self.shape = usual._replace(
                text_arguments=as_text, named_ids=named, tools_of_calls=tools
            )
            calls = calls_message([_CALL], named_ids=named)
            try:
                text = self.render([user("q"), calls], self._tools_of_calls, prompt=False)
            except TemplateRefusal as error:
                self.calls_refusal = str(error)
                continue
            # A dict's repr is no JSON: such a shape is taken only where no other shows the call.
            if all(word in text for word in _PROBE_WORDS):
                if f"{{'{_PROBE_WORDS[1]}'" not in text:
                    return True
                as_dict.append(self.shape)
        self.shape = next(iter(as_dict), usual)
        return bool(as_dict)

    @property
    def _tools_of_calls(self) -> list[Any] | None:
        return [PROBE_TOOL] if self.shape.tools_of_calls else None


def _in_system_message(
    messages: Sequence[Message], tools: list[Any], *, as_text: bool
) -> list[Message]:
    """Return messages with the tools written into the system message."""
    shown = json.dumps(tools, ensure_ascii=False) if as_text else tools
    if not messages or messages[0]["role"] != "system":
        messages = [{"role": "system", "content": ""}, *messages]
    return [{**messages[0], "tools": shown}, *messages[1:]]


def user(content: str) -> Message:
    """Return a user message."""
    return {"role": "user", "content": content}


def assistant(content: str) -> Message:
    """Return an assistant message."""
    return {"role": "assistant", "content": content}


def tool(content: str) -> Message:
    """Return a tool result, named as environments name theirs."""
    return {"role": "tool", "name": "f(a='x')", "content": content}


def _header_end(prompt: str, text: str) -> int:
    """Return the index at which the header of an answer ends in a rendered text.

    As with a thought: what both share ends behind a mark or a line, never within one.
    """
    if text.startswith(prompt):
        return len(prompt)
    shared = text[: _num_common(prompt, text)]
    return max(shared.rfind(each) for each in (">", "]", "\n")) + 1


def _num_common(one: str, other: str) -> int:
    """Return the number of characters with which both texts begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
