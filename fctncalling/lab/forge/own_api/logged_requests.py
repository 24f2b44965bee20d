"""Logged requests: tasks of a user's own traffic, with the calls that were made as truths."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fctncalling.cli.shared.jsonl_records import InputError
from fctncalling.lab.forge.own_api.askable_api import AskableApi
from fctncalling.lab.forge.own_api.drawn_call import DrawnCall, RequestDraft, accepted_arguments
from fctncalling.lab.forge.own_api.own_entries import draft_entry, draft_fault


def logged_tasks(path: Path, api: AskableApi) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Return a task for each conversation that begins with a request and calls; what was left out.

    Lines hold {"messages": [...]} or the messages alone, in OpenAI's form.
    """
    tasks: list[dict[str, Any]] = []
    left_out, seen = Counter[str](), set[str]()
    for messages in _conversations(path):
        request = _request(messages)
        if request is None:
            left_out["no user message that is answered by calls"] += 1
            continue
        text, calls = request
        try:
            draft = RequestDraft(text, [_drawn(api, call) for call in calls])
        except _Unusable as error:
            left_out[str(error)] += 1
            continue
        category = "multiple" if len(calls) == 1 else "parallel_multiple"
        entry = draft_entry(api, draft, category, len(tasks))
        fault = "is there twice" if text in seen else draft_fault(entry, draft)
        if fault:
            left_out[fault] += 1
            continue
        seen.add(text)
        tasks.append(entry)
    return tasks, left_out


class _Unusable(Exception):
    """A logged call that the API does not know."""


def _conversations(path: Path) -> Iterator[Sequence[Mapping[str, Any]]]:
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                messages = record["messages"] if isinstance(record, dict) else record
                if not all(isinstance(each, dict) for each in messages):
                    raise TypeError
            except (ValueError, KeyError, TypeError):
                raise InputError(
                    f'{path}:{number}: expected {{"messages": [...]}} in OpenAI\'s form'
                ) from None
            yield messages


def _request(messages: Sequence[Mapping[str, Any]]) -> tuple[str, list[Mapping[str, Any]]] | None:
    """Return the first request with the calls that answer it; None where there are none."""
    talk = [each for each in messages if each.get("role") not in ("system", "developer")]
    if len(talk) < 2 or talk[0].get("role") != "user" or talk[1].get("role") != "assistant":
        return None
    text, calls = talk[0].get("content"), talk[1].get("tool_calls") or []
    functions = [each.get("function", each) for each in calls if isinstance(each, dict)]
    return (text, functions) if isinstance(text, str) and text.strip() and functions else None


def _drawn(api: AskableApi, call: Mapping[str, Any]) -> DrawnCall:
    name, arguments = str(call.get("name")), call.get("arguments") or {}
    words = api.words.get(name)
    if words is None:
        raise _Unusable(f"calls {name}, which the API does not have")
    try:
        given: dict[str, Any] = dict(
            json.loads(arguments) if isinstance(arguments, str) else arguments
        )
    except (ValueError, TypeError):
        raise _Unusable(f"calls {name} with arguments that are no JSON") from None
    if foreign := [each for each in given if each not in words.kinds]:
        raise _Unusable(f"gives {name} {foreign[0]}, which it does not take")
    return DrawnCall(name, given, accepted_arguments(words, given))
