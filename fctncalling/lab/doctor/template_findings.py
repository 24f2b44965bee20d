"""Findings on a chat template: how it treats a conversation, and whether training can trust it."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from inspect import signature
from itertools import takewhile
from operator import eq
from typing import Any, NamedTuple

from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.policy.marker_escaper import MARKER
from fctncalling.algorithms.policy.message_renderer import MessageRenderer, TemplateRefusal
from fctncalling.algorithms.policy.template_messages import name_results, num_results
from fctncalling.call_form import PROBE_CALLS, PROBE_DOC, TemplateForm, find_call_form
from fctncalling.data.types import Call, FunctionDoc, Message
from fctncalling.envs.handlers import get_handler
from fctncalling.envs.handlers.handler import THOUGHTS
from fctncalling.envs.prompting.prompts import to_openai_tool
from fctncalling.lab.doctor.finding import NOTHING, HealthCheck, fault, note, sound

ANSWER = "fctnprobe Answer 1"
WIDTH = 24  # characters of a difference that are shown
UNENDED = -1  # stands for an action's last id that is no end of turn: its closing is rendered too
TYPED_DOC = FunctionDoc(
    "fctnprobe.tool",
    "fctnprobedescription of a tool.",
    {
        "type": "dict",
        "properties": {
            "fctnprobetext": {"type": "string", "enum": ["fctnprobeenum", "b"]},
            "fctnproberate": {"type": "float"},
            "fctnprobepair": {"type": "tuple", "items": {"type": "integer"}},
            "fctnprobenest": {
                "type": "dict",
                "properties": {"fctnprobeinner": {"type": "boolean"}},
            },
        },
        "required": ["fctnprobetext"],
    },
)


def probe_tools() -> list[Any]:
    """Return one tool with every kind of BFCL type."""
    return [to_openai_tool(TYPED_DOC)]


def user_message(content: str) -> Message:
    """Return a user message."""
    return {"role": "user", "content": content}


def assistant_message(content: str) -> Message:
    """Return an assistant message."""
    return {"role": "assistant", "content": content}


def tool_message(content: str) -> Message:
    """Return a tool result."""
    return {"role": "tool", "name": "f(a='x')", "content": content}


def played_answer(
    template: ChatTemplate, answer: str, messages: Sequence[Message], num_calls: int = 0
) -> tuple[str, Message, list[Message]]:
    """Return an answer as a policy writes it, its message, and the messages that follow it.

    Where the template renders results behind calls in a way of its own, the answer is a call.
    """
    results = num_results(messages)
    if not (template.renderer.behind_calls and results):
        return template.header + answer, assistant_message(answer), list(messages)
    calls = [Call(TYPED_DOC.name, {"fctnprobetext": "b"})] * results
    said = template.calls_message(calls, num_calls)
    text = template.renderer.text_of_calls(said, template.stop_texts)
    return text, {**said, "content": text}, name_results(messages, said)


def appended_and_rendered_texts(
    template: ChatTemplate, exchanges: Sequence[tuple[str, Sequence[Message]]]
) -> tuple[str, str]:
    """Return a conversation as training grows it, and as the template writes it whole.

    exchanges: (what the policy answers, the messages behind it).
    """
    opening = ([user_message("fctnprobequestion")], probe_tools(), "instructions")
    ids = template.render_prompt(*opening)
    history, written, num_calls = [*opening[0]], list[int](), 0
    for answer, messages in exchanges:
        text, said, following = played_answer(template, answer, messages, num_calls)
        calls = said if said.get("tool_calls") else None
        num_calls += len(said.get("tool_calls") or ())
        ids = [*ids, *template.encode(text), *template.render_delta(following, UNENDED, calls)]
        written.append(len(history))
        history += [said, *following]
    whole = template.render_full(history, opening[1], opening[2], trusted=written)
    return template.spell(ids), template.spell(whole)


def first_difference(one: str, other: str) -> str:
    """Return the first difference of two texts, each cut to WIDTH characters."""
    at = sum(takewhile(bool, map(eq, one, other)))
    return f"{one[at : at + WIDTH]!r} became {other[at : at + WIDTH]!r}"


SAMPLES = (
    "[weather.get(city='Rome', days=3, celsius=True)]",
    "[f(a=[1, 2.5], b={'c': 'x  y'}), g(text=\"it's\")]",
    '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>',
    "naïve 漢字 — 1,000.5\n\n\tIndented  text",
)
"""Actions as policies write them; none of them may be lost by the tokenizer."""


def token_findings(tokenizer: Any, template: ChatTemplate) -> Iterator[HealthCheck]:
    """Yield the findings on a tokenizer under its chat template."""
    yield _begin_of_text(tokenizer, template)
    yield _padding(tokenizer, template)
    yield _lossless(template)
    yield _untrusted(tokenizer, template)


def _begin_of_text(tokenizer: Any, template: ChatTemplate) -> HealthCheck:
    bos = tokenizer.bos_token_id
    ids = template.render_prompt([user_message("q")])
    mark = repr(tokenizer.bos_token)
    own = bos is not None and list(tokenizer("a").input_ids[:1]) == [bos]
    if bos is not None and ids[:2] == [bos, bos]:
        why = "The model knows texts with one alone"
        cure = f"{CURE} that writes bos_token once"
        return fault("begin of text", f"prompts begin with {mark} twice", cure, why=why)
    if own and ids[:1] != [bos]:
        message = f"prompts begin without {mark}, which the tokenizer puts before texts"
        why = "The model knows no texts without it"
        return fault("begin of text", message, f"{CURE} that writes bos_token", why=why)
    message = f"prompts begin with {mark}" if ids[:1] == [bos] else "prompts need no mark there"
    return sound("begin of text", message)


def _padding(tokenizer: Any, template: ChatTemplate) -> HealthCheck:
    pad, eos = tokenizer.pad_token_id, tokenizer.eos_token_id
    if pad is None:
        message = "the tokenizer has no token for padding"
        return note(
            "padding", message, NOTHING, why="Training here needs none: padding is known by place"
        )
    if pad in (eos, template.end_of_turn_id):
        name = "eos" if pad == eos else "the end of an answer"
        why = "Here that end is trained all the same: padding is known by its place"
        message = f"the token for padding, {tokenizer.pad_token!r}, is {name}, too"
        return note("padding", message, NOTHING, why=why)
    if eos != template.end_of_turn_id and eos is not None:
        end = template.spell([template.end_of_turn_id])
        message = f"answers end with {end!r}, the tokenizer's eos is {tokenizer.eos_token!r}"
        return note("padding", message, NOTHING, why="Generation stops at both")
    return sound("padding", f"{tokenizer.pad_token!r}, which ends no answer")


def _lossless(template: ChatTemplate) -> HealthCheck:
    for text in SAMPLES:
        back = template.spell(template.encode(text))
        if back != text:
            message = f"the tokenizer does not give back what it read: {text!r} became {back!r}"
            why = "Calls are read from decoded text, and would be others than the model wrote"
            cure = "Take the model's own tokenizer, or mend its normalizer or decoder"
            return fault("lossless", message, cure, why=why)
    count = f"{len(SAMPLES)} of {len(SAMPLES)}"
    return sound("lossless", f"{count} texts come back from the tokenizer as they were")


def _untrusted(tokenizer: Any, template: ChatTemplate) -> HealthCheck:
    special = {id_: str(token) for id_, token in tokenizer.added_tokens_decoder.items()}

    def count(content: str) -> int:
        return sum(id_ in special for id_ in template.render_delta([tool_message(content)]))

    harmless = count("ab")
    alive = [text for text in special.values() if text.strip() and count(f"a{text}b") != harmless]
    if alive:
        message = f"{len(alive)} special tokens work within a tool's result: {', '.join(alive[:3])}"
        why = "A tool could end the model's answer, or speak as the user"
        cure = f"{CURE} that writes results as they are"
        return fault("untrusted text", message, cure, why=why)
    tokens = f"{len(special)} special tokens"
    return sound("untrusted text", f"within a tool's result {tokens} are plain text to the model")


BOUNDARIES: dict[str, tuple[str, list[Message]]] = {
    "assistant -> tool": (ANSWER, [tool_message("fctnprobefirst")]),
    "assistant -> two tools": (
        ANSWER,
        [tool_message("fctnprobefirst"), tool_message("fctnprobesecond")],
    ),
    "assistant -> user": (ANSWER, [user_message("fctnprobenext")]),
    "tool -> user": (ANSWER, [tool_message("fctnprobefirst"), user_message("fctnprobenext")]),
    "empty assistant": ("", [user_message("fctnprobenext")]),
    "reasoning": (
        f"<think>\nfctnprobethought\n</think>\n\n{ANSWER}",
        [tool_message("fctnprobefirst")],
    ),
    "calls": ("[f(a='x'), g(b={'c': [1, 2.5]})]", [tool_message("fctnprobefirst")]),
}
"""Kind of boundary -> what the policy says, and the messages behind it."""

WORDS = (ANSWER, "[f(a='x', b=\"y\", c={'d': 1}, e=a<b & c>d)]")
FILE = "--chat_template FILE"
CURE = f"Give {FILE}"
INVALID = "Episodes that come to it are left out of training, and counted as invalid"
RARE = f"{NOTHING} where your model and tasks seldom do"
_CLOSING_MARK = re.compile(r"<[|/]?[\w:-]+\|?>|\[/?[A-Z_]{3,}\]")


def question_and_answer(answer: str, *questions: str) -> list[Message]:
    """Return a question, its answer, and further questions."""
    return [user_message("q"), assistant_message(answer), *map(user_message, questions)]


class TemplateRenderer(NamedTuple):
    """A chat template as its tokenizer renders it, and as training appends to it."""

    tokenizer: Any
    template: ChatTemplate

    def render_messages(self, messages: Sequence[Message], *, prompt: bool = False) -> str:
        """Render messages of user and assistant."""
        return self.template.renderer.render(messages, prompt=prompt)


def template_findings(
    tokenizer: Any, source: str | None = None, listed_ends: Sequence[int] = ()
) -> list[HealthCheck]:
    """Check a tokenizer's chat template, or the text `source` in its place; return findings."""
    try:
        template = ChatTemplate(tokenizer, source, listed_ends=listed_ends)
        TemplateRenderer(tokenizer, template).render_messages(question_and_answer("a", "r"))
    except Exception as error:  # templates raise what Jinja does, and what they like
        changed = _changed_words(MessageRenderer(tokenizer, source))
        message = f"no conversation can be rendered ({_first_line(error)})"
        why = "Training writes every prompt with the template"
        return [fault("template", changed or message, f"{CURE} that can", why=why)]
    return chat_template_findings(template)


def chat_template_findings(template: ChatTemplate, handler: str = "auto") -> list[HealthCheck]:
    """Check a chat template that can be rendered; return findings; takes some 0.1 s.

    handler: that training is given; a form named there need not be the template's own.
    """
    probe = TemplateRenderer(template.tokenizer, template)
    found: list[HealthCheck] = []
    checks: tuple[Callable[[TemplateRenderer], Iterator[HealthCheck]], ...] = (
        _generation_prompt,
        _words,
        _end_of_turn,
        _results,
        _tools,
        _boundaries,
        _clock,
    )
    for check in checks:
        try:
            found += check(probe)
        except Exception as error:
            name = check.__name__.strip("_").replace("_", " ")
            message = f"{name}: the template ends in an error there ({_first_line(error)})"
            why = "Episodes that come to it would fail"
            found.append(fault(name, message, f"{CURE} that renders it", why=why))
    found += call_findings(template, handler)
    return [*found, *token_findings(template.tokenizer, template)]


def _generation_prompt(probe: TemplateRenderer) -> Iterator[HealthCheck]:
    without = probe.render_messages([user_message("q")])
    prompt = probe.render_messages([user_message("q")], prompt=True)
    history = probe.render_messages(question_and_answer(ANSWER))
    header = history.partition(ANSWER)[0]
    extra = header.removeprefix(prompt) if header.startswith(prompt) else ""
    if prompt == without and _heads_a_message(extra, prompt):
        message = "the prompt opens no answer: add_generation_prompt changes nothing"
        why = "The model would have to write that opening itself"
        yield fault("generation prompt", message, f"{CURE} that opens it", why=why)
        return
    if extra and not extra.strip():
        message = f"the history puts {extra!r} before an answer, the prompt does not"
        why = "The model reads its earlier answers a little otherwise than it wrote them"
        yield note("generation prompt", message, NOTHING, why=why)
        return
    if ANSWER not in history or header == prompt:
        yield sound("generation prompt", "an answer opens in the prompt as it does in the history")
    elif prompt.startswith(header):
        opening = repr(prompt[len(header) :])
        message = f"the prompt opens the answer with {opening}, which the history lacks"
        yield note("generation prompt", message, NOTHING, why=_cost(probe))
    else:
        difference = first_difference(prompt, header)
        message = f"an answer opens otherwise in the prompt than in the history: {difference}"
        yield note("generation prompt", message, NOTHING, why=_cost(probe))


def _heads_a_message(text: str, prompt: str) -> bool:
    """Whether a text before an answer heads a message, with marks that others open with, too."""
    marks = MARKER.findall(text)
    return bool(text.strip()) and (not marks or any(mark in prompt for mark in marks))


def _words(probe: TemplateRenderer) -> Iterator[HealthCheck]:
    if probe.template.renderer.shape.content_parts:
        message = "the template takes each message's text as a list of parts"
        yield note("contents", message, NOTHING, why="It is given so")
    if message := _changed_words(probe.template.renderer):
        why = "The model would read other words than it wrote"
        cure = f"{CURE} that renders them as they are"
        yield fault("assistant's words", message, cure, why=why)
        return
    yield sound("assistant's words", "earlier answers stand in the prompt as they were written")


def _changed_words(renderer: MessageRenderer) -> str:
    """Report words that the template changes; "" if none."""
    for words in WORDS:
        try:
            text = renderer.render(question_and_answer(words, "r"), prompt=False)
        except TemplateRefusal:
            return ""  # another check reports that nothing can be rendered
        if words not in text:
            return f"the assistant's words are changed in the history: {words!r} is not in it"
    return ""


def _end_of_turn(probe: TemplateRenderer) -> Iterator[HealthCheck]:
    template = probe.template
    answered = probe.render_messages(question_and_answer(ANSWER))
    last = answered.partition(ANSWER)[2]
    between = probe.render_messages(question_and_answer(ANSWER, "fctnprobenext"))
    between = between.partition(ANSWER)[2].partition("fctnprobenext")[0]
    end = template.spell([template.end_of_turn_id])
    if end in last or (end in between and not last.strip()):
        names = " or ".join(repr(template.spell([id_])) for id_ in template.ends.taught)
        message = f"{names} ends an answer: it is learned, and generation stops there"
        yield sound("end of turn", message, id=template.end_of_turn_id)
        return
    mark = _CLOSING_MARK.search(last)
    if mark is not None:
        pieces = len(template.encode(mark[0]))
        lacking = f"which is no token of the tokenizer ({pieces} pieces)"
        message = f"the template closes an answer with {mark[0]!r}, {lacking}"
        why = "Generation cannot stop there; it may be another model's template"
        cure = f"{CURE} of this model, or add the token to the tokenizer"
        yield fault("end of turn", message, cure, why=why)
        return
    message = f"no token closes an answer in the template: training puts {end!r} there"
    why = "Else the model would never learn to stop"
    yield note("end of turn", message, NOTHING, why=why, id=template.end_of_turn_id)


def _results(probe: TemplateRenderer) -> Iterator[HealthCheck]:
    template = probe.template
    behind = [
        *(tool_message("fctnprobefirst"), tool_message("fctnprobesecond")),
        user_message("fctnprobenext"),
    ]
    _, said, following = played_answer(template, ANSWER, behind)
    history = [user_message("q"), said, *following]
    text = template.spell(template.render_full(history, trusted=[1]))
    lost = [name for name in ("first", "second", "next") if f"fctnprobe{name}" not in text]
    if lost:
        missing = f"the {', '.join(lost)} one is not rendered"
        message = f"of two results and a question behind them, {missing}"
        why = "The model would not read what it asked for"
        yield fault("tool results", message, f"{CURE} that renders every message", why=why)
    elif not template.tool_role:
        message = "the template has no tool role"
        yield note("tool results", message, NOTHING, why="Results come as messages of the user")
    else:
        yield sound("tool results", "every result reaches the model, named as a tool's")
    if not template.system_role:
        message = "the template has no system role"
        yield note(
            "system message", message, NOTHING, why="Instructions come as a message of the user"
        )


def _tools(probe: TemplateRenderer) -> Iterator[HealthCheck]:
    template = probe.template
    if not template.takes_tools:
        message = "the template has no place for tools"
        yield note("tools", message, NOTHING, why="The system message describes them instead")
        return
    text = template.spell(template.render_prompt([user_message("q")], probe_tools()))
    parts = {
        "parameter names": ("fctnprobetext", "fctnproberate", "fctnprobepair"),
        "nested parameters": ("fctnprobeinner",),
        "descriptions": ("fctnprobedescription",),
        "enumerated values": ("fctnprobeenum",),
    }
    lost = [name for name, words in parts.items() if any(word not in text for word in words)]
    shown = text.lower()  # some write NUMBER, or the types of another language
    types = (("number", "float"), ("array", "list", "[]", "tuple"))
    if any(all(word not in shown for word in words) for words in types):
        lost.append("types")
    message = f"the template shows tools without their {', '.join(lost)}"
    if "parameter names" in lost:
        why = "The model cannot know how to call them"
        yield fault("tools", message, f"{CURE} that shows them, or one without tools", why=why)
    elif lost:
        cure = f"Where your tools need them, give {FILE} that shows them"
        yield note("tools", message, cure, why="The model has to guess these")
    else:
        yield sound("tools", "prompts show their names, types, nested parameters and descriptions")


def _boundaries(probe: TemplateRenderer) -> Iterator[HealthCheck]:
    broken: dict[str, tuple[str, str]] = {}
    refused: dict[str, TemplateRefusal] = {}
    for kind, exchange in BOUNDARIES.items():
        try:
            grown, whole = appended_and_rendered_texts(
                probe.template, [exchange, (ANSWER, [user_message("fctnprobelast")])]
            )
        except TemplateRefusal as error:
            refused[kind] = error
            continue
        if grown != whole:
            broken[kind] = grown, whole
    if len(refused) == len(BOUNDARIES):
        raise refused["assistant -> user"]
    if refused:
        kind, refusal = next(iter(refused.items()))
        message = f"the template refuses {', '.join(refused)} ({refusal})"
        yield note("boundaries", message, RARE, why=INVALID, kind=kind)
    if not broken:
        message = "a conversation only grows: what was written before stays as it is"
        yield sound("append-only", f"{message} ({len(BOUNDARIES)} cases tried)")
        return
    kinds = "everywhere" if len(broken) == len(BOUNDARIES) else f"at {', '.join(broken)}"
    grown, whole = next(iter(broken.values()))
    if list(broken) == ["reasoning"] and "fctnprobethought" not in whole:
        message = "earlier reasoning (<think>) is dropped from the history"
    elif _moved(probe.template):
        message = "the tools move to the last user message"
    else:
        message = f"the history is rewritten {kinds}: {first_difference(grown, whole)}"
    yield note("append-only", message, NOTHING, why=_cost(probe), broken=list(broken))


def _moved(template: ChatTemplate) -> bool:
    """Whether a second user message changes the text before the first."""
    tools = probe_tools()
    first = template.spell(template.render_full([user_message("fctnprobequestion")], tools))
    question = user_message("fctnprobequestion")
    history = [question, assistant_message(ANSWER), user_message("fctnprobenext")]
    later = template.spell(template.render_full(history, tools, trusted=[1]))
    before, after = (
        text.find("fctnprobe.tool") < text.find("fctnprobequestion") for text in (first, later)
    )
    return template.takes_tools and before != after


def _clock(probe: TemplateRenderer) -> Iterator[HealthCheck]:
    if "strftime_now" in str(probe.template.source):
        message = "the template writes today's date"
        why = "A run cannot be repeated exactly on another day"
        yield note("clock", message, f"To repeat runs, give {FILE} with a fixed date", why=why)


def _cost(probe: TemplateRenderer) -> str:
    if probe.template.append_only:
        return ""
    return "Each step is trained apart, with its history read again: slower, with the same result"


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:240]}"


FORM_WHY = "No call of the model would be understood, and none rewarded"
FORM_CURE = (
    "Name the form that the model writes with --handler, or give --chat_template FILE that writes "
    "its calls in a known one"
)
RESPONSE_SCHEMAS = ("response_template", "response_schema")
"""Attributes in which releases of transformers keep how answers are parsed."""


def call_findings(template: ChatTemplate, handler: str = "auto") -> Iterator[HealthCheck]:
    """Yield findings on calls: read by a handler, and taken back by the template.

    handler: that training is given; under another than "auto" an unread form is no fault.
    """
    form = find_call_form(template)
    if form.is_unread or form.unread:
        yield (
            fault("call form", form.line, FORM_CURE, why=FORM_WHY)
            if handler == "auto"
            else note("call form", form.line, NOTHING, why=f"Calls are read by --handler {handler}")
        )
    else:
        yield sound("call form", form.line, handler=form.written)
    if form.text and any(getattr(template.tokenizer, each, None) for each in RESPONSE_SCHEMAS):
        yield _schema_finding(template, form)
    refused = [text for text in _own_texts(template, form.text) if not _takes(template, text)]
    if refused:
        shown = " ".join(refused[0].split())[:80]
        message = f"the template refuses an earlier answer such as {shown!r}"
        yield note("own texts", message, RARE, why=INVALID)
    else:
        message = "the history can hold the model's own calls and thoughts"
        yield sound("own texts", message)
    if form.text and (lost := _lost_words(template, form.text)):
        message = f"what is {lost} before a call leaves the prompt once its result is there"
        yield note(
            "before calls", message, NOTHING, why="Later steps are played and trained without it"
        )


def _schema_finding(template: ChatTemplate, form: TemplateForm) -> HealthCheck:
    """Return whether the tokenizer's response schema reads the template's calls as we do."""
    tools = [to_openai_tool(PROBE_DOC)]
    given = {
        "prefix": template.spell(
            template.render_prompt([{"role": "user", "content": "fctnprobequestion"}], tools)
        ),
        "tools": tools,
    }
    parse, handler = template.tokenizer.parse_response, get_handler(form.handler_name)
    given = {key: given[key] for key in given if key in signature(parse).parameters}
    end = template.spell([template.ends.of_calls])

    def parsed_calls(text: str) -> Iterable[Call]:
        return _calls_of_message(parse(text + end, **given))

    for call in PROBE_CALLS:
        text = template.text_of_calls([call], tools)
        ours = _shown(partial(handler.decode, text, [PROBE_DOC]))
        theirs = _shown(partial(parsed_calls, text))
        if ours != theirs:
            message = (
                f"the tokenizer's response schema reads {text.strip()[:80]!r} as {theirs}, "
                f"{form.written} as {ours}"
            )
            why = "A server that goes by the schema sees other calls than training rewards"
            cure = "Try calls on your server before you trust it"
            return note("response schema", message, cure, why=why)
    message = f"the tokenizer's own way to read calls agrees with ours ({form.written})"
    return sound("response schema", message)


def _shown(read: Callable[[], Iterable[Call]]) -> str:
    """Return calls as text for comparison, or the error of reading them."""
    try:
        calls = [{each.name: dict(each.arguments)} for each in read()]
    except Exception as error:  # whatever a schema of others, or a parser of it, raises
        return f"{type(error).__name__}: {error}".partition("\n")[0][:120]
    return json.dumps(calls, sort_keys=True, default=repr)[:200]


def _calls_of_message(message: Any) -> Iterator[Call]:
    for each in message.get("tool_calls") or ():
        function = each.get("function", each)
        arguments = function.get("arguments") or {}
        yield Call(
            function["name"], json.loads(arguments) if isinstance(arguments, str) else arguments
        )


def _own_texts(template: ChatTemplate, call: str) -> Iterator[str]:
    """Yield answers in the template's form: calls, and words after a thought."""
    source = str(template.source or template.tokenizer.get_chat_template())
    marks = ((opens, closes) for opens, closes in THOUGHTS.items() if opens in source)
    yield from (f"{opens}fctnprobethought{closes}{template.header}Done." for opens, closes in marks)
    if call:
        yield call


def _lost_words(template: ChatTemplate, call: str) -> str:
    """Return "thought" or "said", which results of calls push out of a history; else ""."""
    if template.append_only or not template.renderer.behind_calls:
        return ""
    thought = next(_own_texts(template, ""), "")
    said = template.calls_message(PROBE_CALLS[:1])
    said["content"] = (thought.removesuffix(f"{template.header}Done.") or "fctnprobethought") + call
    result = name_results([{"role": "tool", "content": "r"}], said)
    with contextlib.suppress(TemplateRefusal):
        talk = [{"role": "user", "content": "q"}, said, *result]
        if "fctnprobethought" in template.text_of_history(talk, trusted=[1]):
            return ""
    return "thought" if thought else "said"


def _takes(template: ChatTemplate, text: str) -> bool:
    user = {"role": "user", "content": "q"}
    try:
        template.render_full([user, {"role": "assistant", "content": text}, user], trusted=[1])
    except TemplateRefusal:
        return False
    return True
