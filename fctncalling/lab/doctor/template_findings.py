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
from fctncalling.lab.doctor.finding import HealthCheck, fault, note, sound

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
        return fault("begin of text", f"prompts begin with {mark} twice", "Mend it")
    if own and ids[:1] != [bos]:
        message = f"prompts begin without {mark}, which the tokenizer puts before texts"
        return fault("begin of text", message, "Give --chat_template FILE that writes bos_token")
    message = f"prompts begin with {mark}" if ids[:1] == [bos] else "none is wanted"
    return sound("begin of text", message)


def _padding(tokenizer: Any, template: ChatTemplate) -> HealthCheck:
    pad, eos = tokenizer.pad_token_id, tokenizer.eos_token_id
    if pad is None:
        message = "the tokenizer has no pad token: masks count positions, none is needed"
        return note("padding", message)
    if pad in (eos, template.end_of_turn_id):
        name = "eos" if pad == eos else "the end of turn"
        reason = "masks count positions and not ids, so the end of turn is trained all the same"
        return note("padding", f"pad equals {name} ({tokenizer.pad_token!r}): {reason}")
    if eos != template.end_of_turn_id and eos is not None:
        end = template.spell([template.end_of_turn_id])
        message = f"answers end with {end!r}, the tokenizer's eos is {tokenizer.eos_token!r}"
        return note("padding", f"{message}: both are stops")
    return sound("padding", f"{tokenizer.pad_token!r}, apart from the end of turn")


def _lossless(template: ChatTemplate) -> HealthCheck:
    for text in SAMPLES:
        back = template.spell(template.encode(text))
        if back != text:
            message = f"the tokenizer does not give back what it read: {text!r} became {back!r}"
            return fault("lossless", message, "Calls are read from decoded text: mend its decoder")
    return sound("lossless", f"{len(SAMPLES)} of {len(SAMPLES)} texts come back as they were")


def _untrusted(tokenizer: Any, template: ChatTemplate) -> HealthCheck:
    special = {id_: str(token) for id_, token in tokenizer.added_tokens_decoder.items()}

    def count(content: str) -> int:
        return sum(id_ in special for id_ in template.render_delta([tool_message(content)]))

    harmless = count("ab")
    alive = [text for text in special.values() if text.strip() and count(f"a{text}b") != harmless]
    if alive:
        message = f"{len(alive)} special strings stay special in tool text: {', '.join(alive[:3])}"
        return fault("untrusted text", message, "A tool could end the policy's turn")
    return sound("untrusted text", f"{len(special)} special strings are broken in tool text")


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
CURE = "Give --chat_template FILE"
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
        return [fault("template", changed or message, f"{CURE} that can")]
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
            message = f"{name}: the template fails on it ({_first_line(error)})"
            found.append(fault(name, message, f"{CURE} that renders it"))
    found += call_findings(template, handler)
    return [*found, *token_findings(template.tokenizer, template)]


def _generation_prompt(probe: TemplateRenderer) -> Iterator[HealthCheck]:
    without = probe.render_messages([user_message("q")])
    prompt = probe.render_messages([user_message("q")], prompt=True)
    history = probe.render_messages(question_and_answer(ANSWER))
    header = history.partition(ANSWER)[0]
    extra = header.removeprefix(prompt) if header.startswith(prompt) else ""
    if prompt == without and _heads_a_message(extra, prompt):
        effect = "the policy would have to write the header of its own message"
        message = f"add_generation_prompt changes nothing: {effect}"
        yield fault("generation prompt", message, f"{CURE} that has one")
        return
    if extra and not extra.strip():
        message = f"the history puts {extra!r} before an answer, the prompt does not"
        yield note("generation prompt", message)
        return
    if ANSWER not in history or header == prompt:
        yield sound("generation prompt", "the same header in the prompt and in the history")
    elif prompt.startswith(header):
        opening = repr(prompt[len(header) :])
        message = f"the prompt opens the answer with {opening}, which the history lacks"
        yield note("generation prompt", message, _cost(probe))
    else:
        difference = first_difference(prompt, header)
        message = f"prompt and history head an answer differently: {difference}"
        yield note("generation prompt", message, _cost(probe))


def _heads_a_message(text: str, prompt: str) -> bool:
    """Whether a text before an answer heads a message, with marks that others open with, too."""
    marks = MARKER.findall(text)
    return bool(text.strip()) and (not marks or any(mark in prompt for mark in marks))


def _words(probe: TemplateRenderer) -> Iterator[HealthCheck]:
    if probe.template.renderer.shape.content_parts:
        yield note("contents", "the template wants each as a list of parts: they are given so")
    if message := _changed_words(probe.template.renderer):
        yield fault("assistant's words", message, f"{CURE} that renders them as they are")
        return
    yield sound("assistant's words", "rendered as they were written")


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
        message = f"{names} ends an answer; it is sampled, trained, and a stop"
        yield sound("end of turn", message, id=template.end_of_turn_id)
        return
    mark = _CLOSING_MARK.search(last)
    if mark is not None:
        pieces = len(template.encode(mark[0]))
        lacking = f"which is no token of the tokenizer ({pieces} pieces)"
        message = f"the template closes an answer with {mark[0]!r}, {lacking}"
        cure = "Is it another model's template? Add the token, or mend it"
        yield fault("end of turn", message, cure)
        return
    stand_in = f"{end!r} stands in, and is trained as the end"
    message = f"no token closes an answer in the template: {stand_in}"
    yield note("end of turn", message, id=template.end_of_turn_id)


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
        yield fault("tool results", message, f"{CURE} that renders every message")
    elif not template.tool_role:
        yield note("tool results", "the template has no tool role: results come as user messages")
    else:
        yield sound("tool results", "every result is rendered in its own role")
    if not template.system_role:
        yield note("system message", "the template has no system role: it comes as a user message")


def _tools(probe: TemplateRenderer) -> Iterator[HealthCheck]:
    template = probe.template
    if not template.takes_tools:
        yield note("tools", "the template takes none: the system message describes them instead")
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
        yield fault("tools", message, f"{CURE} that shows them, or one without tools")
    elif lost:
        yield note("tools", message)
    else:
        yield sound("tools", "names, types, nested parameters and descriptions are rendered")


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
        yield note("boundaries", message, "Such an episode is invalid, and counted", kind=kind)
    if not broken:
        yield sound("append-only", f"at all {len(BOUNDARIES)} kinds of boundary")
        return
    kinds = "everywhere" if len(broken) == len(BOUNDARIES) else f"at {', '.join(broken)}"
    grown, whole = next(iter(broken.values()))
    if list(broken) == ["reasoning"] and "fctnprobethought" not in whole:
        message = "earlier reasoning (<think>) is dropped from the history"
    elif _moved(probe.template):
        message = "the tools move to the last user message"
    else:
        message = f"the history is rewritten {kinds}: {first_difference(grown, whole)}"
    yield note("append-only", message, _cost(probe), broken=list(broken))


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
        message = "the template writes today's date: prompts change from one day to the next"
        yield note("clock", message, "A file with a fixed date makes runs repeatable")


def _cost(probe: TemplateRenderer) -> str:
    if probe.template.append_only:
        return ""
    return "Trained with one row a step, which reads the history again: more tokens, same objective"


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:240]}"


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
            fault("call form", form.line, FORM_CURE)
            if handler == "auto"
            else note("call form", form.line)
        )
    else:
        yield sound("call form", form.line, handler=form.written)
    if form.text and any(getattr(template.tokenizer, each, None) for each in RESPONSE_SCHEMAS):
        yield _schema_finding(template, form)
    refused = [text for text in _own_texts(template, form.text) if not _takes(template, text)]
    if refused:
        shown = " ".join(refused[0].split())[:80]
        message = f"the template refuses an earlier answer such as {shown!r}"
        yield note("own texts", message, "Such an episode is invalid, and counted")
    else:
        yield sound("own texts", "its own calls and thoughts are taken back in the history")
    if form.text and (lost := _lost_words(template, form.text)):
        message = f"what is {lost} before calls is left out of the prompts behind their results"
        yield note("before calls", message, "Later steps are trained without it")


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
            cure = "What a server reads by the schema is not what training reads"
            return note("response schema", message, cure)
    return sound("response schema", f"the tokenizer's own reads calls as {form.written} does")


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
