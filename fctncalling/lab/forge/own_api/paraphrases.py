"""Paraphrases of forged requests by a language model, kept where they lead to the same calls."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fctncalling.checkers.clarify import is_mentioned
from fctncalling.cli.shared.jsonl_records import InputError
from fctncalling.data.types import Message
from fctncalling.envs.handlers.registry import get_handler
from fctncalling.envs.judging.judge import judge
from fctncalling.envs.prompting.prompts import system_prompt
from fctncalling.evaluation.agents.agent import AgentSetupError, AgentUnavailable, ContextOverflow
from fctncalling.evaluation.agents.endpoint import EndpointAgent, EndpointSettings
from fctncalling.lab.forge.forged_entry import entry_task

REQUEST = (
    "Say this request in other words, as a person would. Keep all names, numbers, codes and dates "
    "as they are. Answer with the request alone.\n\n{text}"
)
PARAPHRASED = ("multiple", "parallel_multiple", "irrelevance")
_CODE = re.compile(r"[\w@.+:/-]*[\d@][\w@.+:/-]*")


class Paraphraser:
    """Asks an endpoint for other words, and again for the calls; the log has all answers.

    `source` is the endpoint's URL, or a log, which is then all that is asked. What is in the log
    at `log` already is not asked again.
    """

    def __init__(self, source: str, model: str, log: Path) -> None:
        from_log = Path(source).is_file()
        self.log = Path(source) if from_log else log
        self._source = source
        self._known = dict(_answers(self.log))
        self.counts: Counter[str] = Counter()
        try:
            settings = EndpointSettings(model, base_url=source, max_tokens=512)
            self._endpoint = None if from_log else EndpointAgent(settings)
        except AgentSetupError as error:
            raise InputError(f"--paraphrase {source}: {error}") from None

    def reworded(self, entry: dict[str, Any]) -> dict[str, Any]:
        """Return a task in other words; as it is where these do not say the same."""
        if not str(entry["id"]).startswith(PARAPHRASED):
            return entry
        [[message]] = entry["question"]
        text = str(message["content"])
        other = self._answer([_user(REQUEST.format(text=text))]).strip()
        other = re.sub(r'^"([^"]*)"$', r"\1", other)
        changed = {**entry, "question": [[{**message, "content": other}]]}
        if not other or other == text:
            why = "nothing new"
        elif not _reads(entry, text, other):
            why = "a value is gone"
        elif not self._leads_back(changed, other):
            why = "leads to other calls"
        else:
            self.counts["kept"] += 1
            return changed
        self.counts[why] += 1
        return entry

    def close(self) -> None:
        """Close the connection."""
        if self._endpoint is not None:
            self._endpoint.close()

    def _leads_back(self, entry: Mapping[str, Any], text: str) -> bool:
        """Return whether the model, asked for the calls of a request, gives those of the truth."""
        task = entry_task(entry)
        told = system_prompt(
            list(task.functions), get_handler("auto"), many_turns=False, style="compact"
        )
        answer = self._answer([{"role": "system", "content": told}, _user(text)])
        return judge(task, answer, "prompting").valid

    def _answer(self, messages: list[Message]) -> str:
        key = hashlib.sha256(json.dumps(messages).encode()).hexdigest()[:16]
        if key not in self._known:
            if self._endpoint is None:
                raise InputError(
                    f"--paraphrase {self._source}: has no answer to {messages[-1]['content']!r:.80}"
                    ": expected the log of the same command, or an endpoint's URL"
                )
            try:
                answer = str(self._endpoint.complete(messages).get("content") or "")
            except (AgentSetupError, AgentUnavailable, ContextOverflow) as error:
                raise InputError(f"--paraphrase {self._source}: {error}") from None
            self._known[key] = answer
            with self.log.open("a", encoding="utf-8") as file:
                line = {"key": key, "request": messages[-1]["content"], "answer": answer}
                file.write(f"{json.dumps(line)}\n")
        return self._known[key]


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _answers(log: Path) -> Iterator[tuple[str, str]]:
    """Yield (key, answer) of a log; InputError for what is none."""
    lines = log.read_text(encoding="utf-8").splitlines() if log.is_file() else []
    for number, text in enumerate(lines, 1):
        try:
            line = json.loads(text)
            yield line["key"], line["answer"]
        except (ValueError, KeyError, TypeError):
            raise InputError(
                f"--paraphrase: {log} line {number}: expected an answer's line, key and answer"
            ) from None


def _reads(entry: Mapping[str, Any], text: str, other: str) -> bool:
    """Return whether all that a text says to the letter, values and codes, stands in another."""
    codes = {found.strip(".,:-/") for found in _CODE.findall(text)}
    truth = [call for calls in entry.get("ground_truth", ()) for call in calls.values()]
    values = [accepted[0] for call in truth for accepted in call.values() if accepted[0] != ""]
    said = [each for each in values if not isinstance(each, bool) and is_mentioned(each, text)]
    return all(code in other for code in codes) and all(is_mentioned(each, other) for each in said)
