"""Agreement of a parser with the calls that a model's template wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fctncalling.cli.shared.jsonl_records import with_progress_bar
from fctncalling.envs.handlers import DecodeError, get_handler
from fctncalling.lab.conformance.agreement import Agreement
from fctncalling.lab.conformance.rendered_truths import Render, RenderedTruth, rendered_truths
from fctncalling.lab.conformance.scorer_process import PARSER, ScorerProcess, ScorerTimeLimits

SELF = "self"
_SHOWN = 300  # characters of a text in a report


def parser_agreement(
    parser: str, limits: ScorerTimeLimits, folder: Path, categories: Sequence[str], render: Render
) -> Agreement:
    """Return how far a parser reads what was written: self, a command or module:function."""
    agreement = Agreement()
    awaited: dict[str, RenderedTruth] = {}
    records = _records(folder, categories, render, awaited)
    if parser == SELF:
        for record in with_progress_bar(records, "parsing", "text"):
            _count(agreement, awaited.pop(record["id"]), _own_calls(record["text"]), "")
        return agreement
    with ScorerProcess(parser, limits, PARSER) as process:
        for given in with_progress_bar(process.judge_records(records), "parsing", "text"):
            _count(agreement, awaited.pop(given.answer_id), given.told, given.why)
    return agreement


def _records(
    folder: Path, categories: Sequence[str], render: Render, awaited: dict[str, RenderedTruth]
) -> Iterator[dict[str, Any]]:
    found = (each for category in categories for each in rendered_truths(folder, category, render))
    for number, truth in enumerate(found, 1):
        awaited[str(number)] = truth
        yield {"id": str(number), "text": truth.text, "tools": truth.tools}


def _own_calls(text: str) -> list[dict[str, Any]] | None:
    try:
        calls = get_handler("auto").decode(text)
    except DecodeError:
        return None
    return [{"name": call.name, "arguments": dict(call.arguments)} for call in calls]


def _count(agreement: Agreement, truth: RenderedTruth, told: Any, why: str) -> None:
    read = [_plain(call) for call in told or ()]
    agrees = _same(read, truth.calls)
    words = (
        f"{truth.task.id}: the parser reads {_shown(read) if told else why or 'no call'}, written "
        f"is {_shown(truth.calls) if truth.calls else 'no call'}: {truth.text[:_SHOWN]}"
    )
    agreement.count(truth.stratum, bool(truth.calls), agrees, words)


def _plain(call: dict[str, Any]) -> dict[str, Any]:
    """Return a parser's call with its arguments as an object; OpenAI's are text."""
    function = call.get("function")
    call = function if isinstance(function, dict) else call
    arguments = call.get("arguments")
    if isinstance(arguments, str):
        with suppress(ValueError, RecursionError):
            arguments = json.loads(arguments)
    return {"name": call.get("name"), "arguments": arguments}


def _same(read: Any, written: Any) -> bool:
    """Whether calls are equal, 1 apart from 1.0 and true."""
    return json.dumps(read, sort_keys=True) == json.dumps(written, sort_keys=True)


def _shown(calls: Any) -> str:
    return json.dumps(calls, ensure_ascii=False)[:_SHOWN]
