"""Agreement of a parser with the calls that a model's template wrote."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from fctncalling.cli.shared.jsonl_records import InputError, with_progress_bar
from fctncalling.cli.shared.task_finder import iter_category_tasks
from fctncalling.data.categories import AST, RELEVANCE
from fctncalling.data.types import Task, tool_call
from fctncalling.envs.handlers import get_handler
from fctncalling.envs.prompting.prompts import to_openai_tool
from fctncalling.lab.conformance.agreement import Agreement
from fctncalling.lab.conformance.made_answers import calls_json
from fctncalling.lab.conformance.scorer_process import PARSER, ScorerTimeLimits, scorer_replies
from fctncalling.lab.conformance.single_turn_mutations import right_answer_draft

WRITTEN = (*(name for name in AST if "java" not in name), *RELEVANCE)
"""Categories whose calls are JSON."""

_MARK = "fctnprobeanswer"
_WORDS = "I look that up."
_REFUSAL = "None of the functions fits; could you tell me more?"
Render = Callable[..., str]


class RenderedTruth(NamedTuple):
    """Text of a model, with the calls in it."""

    task: Task
    stratum: str
    text: str
    calls: list[dict[str, Any]]
    tools: list[dict[str, Any]]


def load_chat_template(model: str, source: Path | None) -> Render:
    """Return the chat template of a model or a file; raises InputError if there is none."""
    from transformers import AutoTokenizer

    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(model, trust_remote_code=False)
        template = source.read_text("utf-8") if source else tokenizer.get_chat_template(tools=[{}])
    except (OSError, ValueError) as error:
        told = " ".join(str(error).split())[:200]
        raise InputError(f"{source or model}: no chat template can be read ({told})") from None

    def render(messages: Sequence[Any], tools: Any, *, prompt: bool) -> str:
        text: str = tokenizer.apply_chat_template(
            messages,
            tools=tools,
            chat_template=template,
            tokenize=False,
            add_generation_prompt=prompt,
            **({} if tokenizer.bos_token else {"bos_token": ""}),
        )
        return text

    return render


def rendered_truths(folder: Path, category: str, render: Render) -> Iterator[RenderedTruth]:
    """Yield a category's right answers as a template writes them; raises InputError if it cannot.

    Every fourth one has words before its calls.
    """
    for number, task in enumerate(iter_category_tasks(folder, category)):
        calls = _calls_of(task)
        if calls is None:
            continue
        words = _REFUSAL if not calls else _WORDS if number % 4 == 3 else ""
        tools = [to_openai_tool(doc) for doc in task.functions]
        yield RenderedTruth(
            task,
            "wrong/without_calls"
            if not calls
            else f"valid/{'words_before' if words else _kind(calls)}",
            _written(task, calls, words, tools, render),
            calls,
            tools,
        )


def _calls_of(task: Task) -> list[dict[str, Any]] | None:
    """Return the right calls; None if there are none as JSON."""
    if task.kind == "relevance":
        return None
    if task.kind == "irrelevance":
        return []
    draft = right_answer_draft(task)
    if draft is None:
        return None
    calls = [{"name": call.name, "arguments": call.arguments} for call in draft.calls]
    plain: list[dict[str, Any]] = json.loads(json.dumps(calls))
    return plain


def _kind(calls: Sequence[dict[str, Any]]) -> str:
    text = json.dumps([call["arguments"] for call in calls], ensure_ascii=False)
    values = [value for call in calls for value in call["arguments"].values()]
    if any("." in call["name"] for call in calls):
        return "dotted_name"
    if not text.isascii() or any(mark in text for mark in ("\\", "<", "'", "{{")):
        return "marks_in_text"
    if any(isinstance(value, list | dict) for value in values):
        return "nested_values"
    return "several_calls" if len(calls) > 1 else "one_call"


def _written(task: Task, calls: Any, words: str, tools: Any, render: Render) -> str:
    """Return the model's message: the template's text between prompt and end of turn."""
    asked = list(task.question[0])
    faults = []
    for form in (dict, json.dumps):  # templates want the arguments as an object, or as text
        made = [
            tool_call(f"call_{index:05d}", call["name"], form(call["arguments"]))
            for index, call in enumerate(calls)
        ]
        answer = {"role": "assistant", "content": words, **({"tool_calls": made} if made else {})}
        try:
            prompt = render(asked, tools, prompt=True)
            whole = render([*asked, answer], tools, prompt=False)
            plain = render([*asked, {"role": "assistant", "content": _MARK}], tools, prompt=False)
        except Exception as error:  # a template raises what it likes
            faults.append(" ".join(str(error).split())[:200])
            continue
        text = whole[len(prompt) :].removesuffix(plain.partition(_MARK)[2])
        if whole.startswith(prompt) and all(call["name"] in text for call in calls):
            return text
        faults.append(
            "it writes no calls behind its prompt: expected a model that calls functions, or "
            "--chat_template FILE of one"
        )
    raise InputError(f"the chat template cannot write the answer to {task.id}: {faults[0]}")


_SHOWN = 300  # characters of a text in a report


def parser_agreement(
    parser: str, limits: ScorerTimeLimits, folder: Path, categories: Sequence[str], render: Render
) -> Agreement:
    """Return how far a parser (self, a command or module:function) reads the rendered calls."""
    agreement = Agreement()
    awaited: dict[str, RenderedTruth] = {}
    records = _records(folder, categories, render, awaited)
    handler = get_handler("auto")

    def own(record: dict[str, Any]) -> list[dict[str, Any]] | None:
        return calls_json(handler, record["text"])

    replies = scorer_replies(parser, limits, PARSER, records, own)
    for reply in with_progress_bar(replies, "parsing", "text"):
        _count(agreement, awaited.pop(reply.answer_id), reply.told, reply.why)
    return agreement


def _records(
    folder: Path, categories: Sequence[str], render: Render, awaited: dict[str, RenderedTruth]
) -> Iterator[dict[str, Any]]:
    found = (each for category in categories for each in rendered_truths(folder, category, render))
    for number, truth in enumerate(found, 1):
        awaited[str(number)] = truth
        yield {"id": str(number), "text": truth.text, "tools": truth.tools}


def _count(agreement: Agreement, truth: RenderedTruth, told: Any, why: str) -> None:
    read = [_plain(call) for call in told or ()]
    one, other = (json.dumps(calls, sort_keys=True) for calls in (read, truth.calls))
    words = (
        f"{truth.task.id}: the parser reads {_shown(read) if told else why or 'no call'}, written "
        f"is {_shown(truth.calls) if truth.calls else 'no call'}: {truth.text[:_SHOWN]}"
    )
    # as texts: 1 is apart from 1.0 and true
    agreement.count(truth.stratum, bool(truth.calls), one == other, words)


def _plain(call: dict[str, Any]) -> dict[str, Any]:
    """Return a parser's call with its arguments as an object; OpenAI's are text."""
    function = call.get("function")
    call = function if isinstance(function, dict) else call
    arguments = call.get("arguments")
    if isinstance(arguments, str):
        with suppress(ValueError, RecursionError):
            arguments = json.loads(arguments)
    return {"name": call.get("name"), "arguments": arguments}


def _shown(calls: Any) -> str:
    return json.dumps(calls, ensure_ascii=False)[:_SHOWN]
