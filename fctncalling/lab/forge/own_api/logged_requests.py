"""Requests of the user's logs, as tasks with the calls that answered them.

What cannot be used is left out and counted, with its reason and the number of the first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fctncalling.cli.shared.jsonl_records import InputError
from fctncalling.conversations import ConversationLog, Unreadable, exchanges
from fctncalling.conversations.conversation import Exchange, offered_call
from fctncalling.conversations.logged_tasks import offered_calls, question
from fctncalling.data.types import Call
from fctncalling.lab.forge.own_api.drawn_call import (
    AskableApi,
    DrawnCall,
    RequestDraft,
)
from fctncalling.lab.forge.own_api.own_entries import draft_entry, draft_fault

MAX_REQUEST = 20_000  # characters


class LoggedRequests:
    """Requests of a log that calls answered; the left-out ones are counted during reading.

    A request stands behind the messages before it, without those of the system.
    """

    def __init__(self, path: Path, api: AskableApi) -> None:
        if path.exists() and not path.is_file():
            raise InputError(f"--from_logs {path}: is no file but a folder, a device or a pipe")
        path.open("rb").close()
        self._api = api
        self._log = ConversationLog(path, api.api)
        self._seen: set[int] = set()
        self.count = 0
        self.num_results = 0  # of those counted that follow results rather than a user's words

    def tasks(self) -> Iterator[dict[str, Any]]:
        """Yield a task for each message or result that calls answered."""
        for number, conversation in self._log.conversations():
            answered = [each for each in exchanges(conversation) if each.calls]
            if not answered and not conversation.fault:
                self._log.leave_out("no user message that is answered by calls", number)
            for each in answered:
                try:
                    entry = self._task(each)
                except Unreadable as error:
                    self._log.leave_out(str(error), number)
                except (RecursionError, OverflowError, ValueError) as error:
                    why = f"cannot be judged: {type(error).__name__}: {error}"
                    self._log.leave_out(why, number)
                else:
                    self.count += 1
                    self.num_results += each.history[-1]["role"] == "tool"
                    yield entry

    def left_out(self) -> str:
        """Return the left-out lines, the commonest reasons first, each with its first line."""
        return self._log.left_out()

    def _task(self, exchange: Exchange) -> dict[str, Any]:
        history = [each for each in exchange.history if each["role"] != "system"]
        messages = question(history, lambda call: offered_call(self._api.api, call))
        text, calls = messages[-1]["content"], offered_calls(self._api.api, exchange.calls)
        if len(text) > MAX_REQUEST:
            raise Unreadable(f"a request of more than {MAX_REQUEST:,} characters")
        draft = RequestDraft(text, [self._drawn(each) for each in calls])
        key = hash(json.dumps(messages, sort_keys=True))
        if key in self._seen:
            raise Unreadable("is there twice")
        category = "multiple" if len(calls) == 1 else "parallel_multiple"
        text = "\n".join(str(each["content"]) for each in messages if each["role"] == "user")
        offer = self._api.offers.chosen(text, [each.function for each in draft.calls])
        entry = draft_entry(draft, category, self.count, offer)
        entry["question"] = [messages]
        if fault := draft_fault(entry, draft):
            raise Unreadable(fault)
        self._seen.add(key)
        return entry

    def _drawn(self, call: Call) -> DrawnCall:
        return DrawnCall(self._api.words[call.name], call.arguments)
