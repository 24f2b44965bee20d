"""Mutations of calls and their text: missing, spurious, renamed, out of order, in other forms."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

from fctncalling.data.types import Call
from fctncalling.lab.conformance.drafts import AnswerDraft, double_quoted_python_literal
from fctncalling.lab.conformance.mutated import Mutated, Mutation

Make = Callable[[AnswerDraft, random.Random], Mutated | None]
REFUSALS = (
    "I cannot do that with the functions that I have.",
    "None of the functions fits; could you tell me more?",
    "Nothing to call here.",
)


def _form(change: str, write: Callable[[AnswerDraft], str], *, python: bool = False) -> Make:
    """Return a mutation that writes the right calls in another form."""

    def make(draft: AnswerDraft, rng: random.Random) -> Mutated | None:
        if not draft.calls or (python and not draft.is_python):
            return None
        try:
            return Mutated(write(draft), change)
        except (TypeError, ValueError):
            return None

    return make


def _double_quotes(draft: AnswerDraft, rng: random.Random) -> Mutated | None:
    text = draft.text(write=double_quoted_python_literal) if draft.is_python else draft.text()
    return Mutated(text, "strings in double quotes") if text != draft.text() else None


def _json_calls(draft: AnswerDraft) -> str:
    return json.dumps([{"name": call.name, "arguments": call.arguments} for call in draft.calls])


def _call_order(draft: AnswerDraft, rng: random.Random) -> Mutated | None:
    turned = draft.with_calls(draft.calls[::-1]).text()
    return Mutated(turned, "the calls in reversed order") if turned != draft.text() else None


def _missing_call(draft: AnswerDraft, rng: random.Random) -> Mutated | None:
    if not draft.calls:
        return None
    lost = rng.randrange(len(draft.calls))
    kept = [call for index, call in enumerate(draft.calls) if index != lost]
    return Mutated(
        draft.with_calls(kept).text(), f"the call of {draft.calls[lost].name} is missing"
    )


def _call_twice(draft: AnswerDraft, rng: random.Random) -> Mutated | None:
    if not draft.calls:
        return None
    call = rng.choice(draft.calls)
    return Mutated(draft.with_calls((*draft.calls, call)).text(), f"{call.name} is called twice")


def _other_function(draft: AnswerDraft, rng: random.Random) -> Mutated | None:
    used = {call.name for call in draft.calls}
    unused = [doc.name for doc in draft.task.functions if doc.name not in used]
    if not draft.calls or not unused:
        return None
    name = rng.choice(unused)
    more = draft.with_calls((*draft.calls, Call(name, {})))
    return Mutated(more.text(), f"{name} is called, too")


def _duplicate_for_missing(draft: AnswerDraft, rng: random.Random) -> Mutated | None:
    if len(draft.calls) < 2:
        return None
    return Mutated(
        draft.with_call(len(draft.calls) - 1, draft.calls[0]).text(),
        f"the first call stands in the place of the last, {draft.calls[-1].name}",
    )


def _renamed(rename: Callable[[str], str]) -> Make:
    def make(draft: AnswerDraft, rng: random.Random) -> Mutated | None:
        if not draft.calls:
            return None
        index = rng.randrange(len(draft.calls))
        call = draft.calls[index]
        name = rename(call.name)
        text = draft.with_call(index, Call(name, call.arguments)).text()
        return Mutated(text, f"{call.name} is called {name}") if name != call.name else None

    return make


def _function_exchanged(draft: AnswerDraft, rng: random.Random) -> Mutated | None:
    used = {call.name for call in draft.calls}
    unused = [doc.name for doc in draft.task.functions if doc.name not in used]
    if not draft.calls or not unused:
        return None
    name, last = rng.choice(unused), draft.calls[-1]
    text = draft.with_call(len(draft.calls) - 1, Call(name, last.arguments)).text()
    return Mutated(text, f"{name} is called with the arguments of {last.name}")


def _words(*texts: str) -> Make:
    def make(draft: AnswerDraft, rng: random.Random) -> Mutated | None:
        text = rng.choice(texts)
        return Mutated(text, f"no call, only the text {text!r}")

    return make


CALL_MUTATIONS = {
    "canonical": Mutation("valid", _form("the right calls as they are", AnswerDraft.text)),
    "spacing": Mutation(
        "valid",
        _form(
            "blanks around every sign",
            lambda draft: draft.text(equals=" = ", comma=" , ", opening=" ( ", around=" [ {} ] "),
        ),
    ),
    "line_breaks": Mutation(
        "valid",
        _form("a line for each argument", lambda draft: draft.text(comma=",\n  "), python=True),
    ),
    "double_quotes": Mutation("valid", _double_quotes),
    "trailing_comma": Mutation(
        "valid",
        _form(
            "a comma behind the last call", lambda draft: draft.text(around="[{},]"), python=True
        ),
    ),
    "call_order": Mutation("valid", _call_order),
    "no_brackets": Mutation(
        "lenient", _form("no brackets around the calls", lambda draft: draft.text(around="{}"))
    ),
    "plain_fence": Mutation(
        "lenient", _form("a plain fence around", lambda draft: draft.text(around="```\n[{}]\n```"))
    ),
    "words_before": Mutation(
        "harsh", _form("words before the calls", lambda draft: f"Sure! {draft.text()}")
    ),
    "words_behind": Mutation(
        "harsh", _form("words behind the calls", lambda draft: f"{draft.text()} Done.")
    ),
    "python_fence": Mutation(
        "harsh",
        _form(
            "a fence of Python around",
            lambda draft: draft.text(around="```python\n[{}]\n```"),
            python=True,
        ),
    ),
    "json_calls": Mutation(
        "harsh", _form("the calls as JSON where a list was asked for", _json_calls)
    ),
    "unclosed": Mutation(
        "wrong", _form("the last parenthesis is missing", lambda draft: draft.text()[:-2])
    ),
    "positional": Mutation("wrong", _form("arguments without names", AnswerDraft.positional_text)),
    "missing_call": Mutation("wrong", _missing_call),
    "spurious_twice": Mutation("wrong", _call_twice),
    "spurious_other": Mutation("wrong", _other_function),
    "duplicate_for_missing": Mutation("wrong", _duplicate_for_missing),
    "function_name": Mutation("wrong", _renamed(lambda name: f"{name}_v2")),
    "function_exchanged": Mutation("wrong", _function_exchanged),
    "name_without_dots": Mutation("wrong", _renamed(lambda name: name.replace(".", "_"))),
    "only_words": Mutation("wrong", _words(*REFUSALS)),
    "empty_object": Mutation("wrong", _words("I do not know. {}")),
    "empty": Mutation("wrong", _words("", "[]")),
}
"""Name -> mutation of a draft's calls and of their text."""


def _call_of(name: str | None, change: str) -> Make:
    """Return a mutation that calls the first function on offer, or one of another name."""

    def make(draft: AnswerDraft, rng: random.Random) -> Mutated | None:
        called = name or next((doc.name for doc in draft.task.functions), None)
        if called is None:
            return None
        return Mutated(draft.with_calls([Call(called, {"a": 1})]).text(), change)

    return make


_CALLED = _call_of(None, "the first function on offer is called")
_UNKNOWN = _call_of("no_such_function", "a function is called that is not on offer")
_MALFORMED = Mutated("[no_such_function(", "a call that does not parse")

IRRELEVANCE_MUTATIONS = {
    "only_words": Mutation("valid", _words(*REFUSALS)),
    "empty": Mutation("valid", _words("", "[]")),
    "malformed_call": Mutation("lenient", lambda draft, rng: _MALFORMED),
    "json_call": Mutation("lenient", lambda draft, rng: _json_of_first(draft)),
    "call_where_none_fits": Mutation("wrong", _CALLED),
    "unknown_function": Mutation("wrong", _UNKNOWN),
}
"""Mutations where no function fits."""

RELEVANCE_MUTATIONS = {
    "any_call": Mutation("valid", _CALLED),
    "unknown_function": Mutation("lenient", _UNKNOWN),
    "only_words": Mutation("wrong", _words(*REFUSALS)),
    "empty_object": Mutation("wrong", _words("I do not know. {}")),
    "malformed_call": Mutation("wrong", lambda draft, rng: _MALFORMED),
}
"""Mutations where some call is expected."""


def _json_of_first(draft: AnswerDraft) -> Mutated | None:
    called = next((Call(doc.name, {"a": 1}) for doc in draft.task.functions), None)
    if called is None:
        return None
    text = _json_calls(draft.with_calls([called]))
    return Mutated(text, "a call as JSON, which BFCL does not read in this form")
