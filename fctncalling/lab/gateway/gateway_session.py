"""GatewaySession: one episode of an agent, from its requests to an EpisodeRecord."""

from __future__ import annotations

import hmac
import json
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.generation.engine_api import Action
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.run.logs import episode_json, write_json
from fctncalling.algorithms.run.run_lock import lock_for_file
from fctncalling.data.types import Call, Episode, Message, StepRecord
from fctncalling.data.unsafe_text import json_text
from fctncalling.lab.gateway.action_forest import (
    ActionForest,
    SampledAction,
    kept_actions,
    rewards_of_actions,
    training_rows,
)
from fctncalling.lab.gateway.completion_request import CompletionRequest
from fctncalling.lab.gateway.openai_answers import AnswerMessage
from fctncalling.lab.gateway.rendering import AnsweredMessages, PromptDrift, RenderedPrompt

NO_REWARD = "no reward was given"
NO_CALL = "the agent asked for no completion"


@dataclass(frozen=True)
class SessionTask:
    """Task of a session."""

    id: str = ""
    category: str = "gateway"
    env_seed: int | None = None  # members of a group share it


@dataclass
class GatewaySession:
    """State of a session; methods but `report` are called under its lock."""

    id: str
    key: str  # who may use it: the bearer token of its requests; "": whoever has none
    seed: int
    task: SessionTask = field(default_factory=SessionTask)
    version: int = 0  # of the weights that sample
    forest: ActionForest = field(default_factory=ActionForest)
    answered: AnsweredMessages = field(default_factory=AnsweredMessages)
    drift: list[PromptDrift] = field(default_factory=list)
    referred: set[int] = field(default_factory=set)
    ignored: dict[str, int] = field(default_factory=dict)  # field of requests -> how often
    heard: dict[int, list[Message]] = field(default_factory=dict)  # request -> its new messages
    texts: list[str] = field(default_factory=list)  # of the actions
    calls: list[tuple[Call, ...]] = field(default_factory=list)  # of the actions, as answered
    conversation: list[Any] = field(default_factory=list)  # the last request's, and its answer
    rewards: list[tuple[int, float]] = field(default_factory=list)  # (last action then, reward)
    num_requests: int = 0
    success: bool | None = None
    ended: bool = False
    opened_by_use: bool = False  # by its first request, not by `open`
    invalid_reason: str = ""
    began: float | None = None  # time.monotonic() of the first request
    last_used: float = field(default_factory=time.monotonic)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.stream = torch.Generator().manual_seed(self.seed)

    def admits(self, key: str) -> bool:
        """Whether a key opens this session."""
        return hmac.compare_digest(self.key.encode(), key.encode())

    def begin_request(self, prompt: RenderedPrompt, request: CompletionRequest) -> int:
        """Take a request; return its number."""
        number = self.num_requests
        self.num_requests += 1
        self.last_used = time.monotonic()
        self.began = self.last_used if self.began is None else self.began
        self.referred |= prompt.referred
        self.drift += prompt.drift
        answers = [at for at, each in enumerate(request.messages) if each["role"] == "assistant"]
        self.heard[number] = list(request.messages[max(answers, default=-1) + 1 :])
        for name in request.ignored:
            self.ignored[name] = self.ignored.get(name, 0) + 1
        return number

    def record(
        self, request: int, prompt: Sequence[int], action: Action, text: str
    ) -> SampledAction:
        """Record an action that a request was answered with.

        Its place is looked up now: another request may have been answered meanwhile.
        """
        place = self.forest.locate(prompt)
        sampled = SampledAction(
            len(self.forest.actions),
            request,
            place.parent,
            place.context,
            tuple(action.ids),
            tuple(action.logprobs),
            truncated=action.truncated,
            version=self.version,
        )
        self.forest.add(sampled)
        self.texts.append(text)
        self.calls.append(())
        return sampled

    def answer(self, number: int, answer: AnswerMessage, conversation: int) -> None:
        """Remember the message that an action was sent as, and to which messages."""
        self.answered.remember(number, answer, conversation)
        self.calls[number] = answer.calls

    def reward(self, value: float) -> None:
        """Add a reward to the last action so far."""
        self.rewards.append((len(self.forest.actions) - 1, value))

    def end(self, reason: str = "") -> None:
        """End the session; with a reason it is invalid."""
        self.ended = True
        if not self.forest.actions:
            reason = reason or NO_CALL
        elif not self.rewards:
            reason = reason or NO_REWARD
        self.invalid_reason = reason

    def reopen(self) -> None:
        """Take an end back that could not be recorded."""
        self.ended = False
        self.invalid_reason = ""

    def to_record(self) -> EpisodeRecord:
        """Return the episode for training and for the episode log."""
        kept = kept_actions(self.forest, self.referred)
        paid = rewards_of_actions(kept, self.rewards)
        actions = [self.forest.actions[number] for number in kept]
        total = sum(paid.values())
        heard = [self.heard.get(action.request, []) for action in actions]
        steps = [
            self._step(index, number, paid.get(number, 0.0), [*heard[1:], []][index])
            for index, number in enumerate(kept)
        ]
        invalid = bool(self.invalid_reason)
        cut = [index for index, action in enumerate(actions) if action.truncated]
        return EpisodeRecord(
            self.task.id or self.id,
            self.task.category,
            training_rows(self.forest, kept, paid),
            terminated=not invalid,
            truncated=False,
            invalid=invalid,
            invalid_reason=self.invalid_reason,
            success=not invalid and self.success,
            episode_return=total,
            num_steps=len(kept),
            num_actions_truncated=len(cut),
            cut_actions=cut,
            num_words=[max(1, len(step.text.split())) for step in steps],
            messages=[*heard, []] if heard else [],
            env_seed=self.task.env_seed,
            episode=Episode(
                self.task.id or self.id,
                self.task.category,
                tuple(steps),
                terminated=not invalid,
                invalid=invalid,
                seed=self.task.env_seed,
            ),
        )

    def _step(
        self, index: int, number: int, reward: float, answers: Sequence[Message]
    ) -> StepRecord:
        results = [each for each in answers if each["role"] == "tool"]
        return StepRecord(
            index,
            self.texts[number],
            calls=self.calls[number],
            executed=tuple(str(each.get("name", "")) for each in results),
            results=tuple(str(each["content"]) for each in results),
            reward=reward,
        )

    def report(self) -> dict[str, Any]:
        """Return the state of the session as JSON."""
        with self.lock:
            kept = kept_actions(self.forest, self.referred)
            return {
                "session": self.id,
                "requests": self.num_requests,
                "actions": len(self.forest.actions),
                "kept_actions": kept,
                "rows": len(training_rows(self.forest, kept, {})),
                "reward": sum(value for _, value in self.rewards) if self.rewards else None,
                "ended": self.ended,
                "invalid_reason": self.invalid_reason,
                "drift": [each._asdict() for each in self.drift],
                "ignored": dict(self.ignored),
            }


EPISODES = Path("episodes", "train_000000.jsonl")


class SessionLog:
    """Log of ended sessions, a JSON line each, as `view` and `--sft_episodes` read them.

    RunLockedError where another process writes to the folder. A half line that a killed process
    left is removed, and `removed_bytes` has its length.
    """

    def __init__(self, folder: Path, template: ChatTemplate, config: dict[str, Any]) -> None:
        self.path = folder / EPISODES
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._folder_lock = lock_for_file(self.path)
        write_json(folder / "config.json", {"command": "gateway", **config})
        self._template = template
        self.removed_bytes = _end_last_line(self.path)
        # Without a buffer: what a full disk refuses is not written later, behind other lines.
        self._file = self.path.open("ab", buffering=0)
        self._lock = threading.Lock()
        self.valid = 0
        self.invalid: dict[str, int] = {}  # reason -> sessions
        self.drift: dict[str, int] = {}  # kind -> places

    def write(self, session: GatewaySession) -> None:
        """Append an ended session as one whole line, or none; OSError if that fails."""
        with session.lock:
            line = session_line(session, self._template)
        with self._lock:
            self._append(json_text(line, default=repr).encode() + b"\n")
            if session.invalid_reason:
                reason = session.invalid_reason
                self.invalid[reason] = self.invalid.get(reason, 0) + 1
            else:
                self.valid += 1
            for each in session.drift:
                self.drift[each.kind] = self.drift.get(each.kind, 0) + 1

    def _append(self, line: bytes) -> None:
        """Write a whole line, or none of it."""
        size, rest = os.fstat(self._file.fileno()).st_size, memoryview(line)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            self._file.truncate(size)
            raise

    def summary(self) -> str:
        """Summarise the recorded sessions in a few lines."""
        lines = [f"{self.valid} sessions with a reward, {sum(self.invalid.values())} invalid"]
        lines += [f"  {count} invalid: {reason}" for reason, count in self.invalid.items()]
        lines += [f"  drift: {count} {kind}" for kind, count in sorted(self.drift.items())]
        return "\n".join(lines)

    def counts(self) -> dict[str, Any]:
        """Return the counts of recorded sessions as JSON."""
        return {"valid": self.valid, "invalid": dict(self.invalid), "drift": dict(self.drift)}

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()
            self._folder_lock.release(remove=True)


def _end_last_line(path: Path) -> int:
    """End a file's last line if a kill cut it; return the number of bytes removed.

    A line that is whole but for its newline is kept.
    """
    if not path.exists():
        return 0
    with path.open("rb+") as file:
        size = file.seek(0, os.SEEK_END)
        start, last = size, b""
        while start and b"\n" not in last:
            start = max(0, start - (1 << 16))
            file.seek(start)
            last = file.read(size - start)
        last = last[last.rfind(b"\n") + 1 :]
        try:
            whole = not last or bool(json.loads(last))
        except ValueError:
            whole = False
        file.seek(0, os.SEEK_END)
        if whole:
            file.write(b"\n" if last else b"")
            return 0
        file.truncate(size - len(last))
        return len(last)


def belongs_to_another_command(folder: Path) -> bool:
    """Whether another command than a gateway wrote to a folder."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return (folder / EPISODES).exists()
    except ValueError:
        return True
    return not isinstance(config, dict) or config.get("command") != "gateway"


def session_line(session: GatewaySession, template: ChatTemplate) -> dict[str, Any]:
    """Return a session as JSON: its episode, every action of its forest, its drift."""
    record = session.to_record()
    kept = kept_actions(session.forest, session.referred)
    line = episode_json(record, template.spell) | {"session": session.id, "seed": session.seed}
    line |= {"invalid_reason": record.invalid_reason} if record.invalid else {}
    return line | {
        "row_versions": [row.version for row in record.rows],
        "forest": [
            {
                "action": action.number,
                "request": action.request,
                "parent": action.parent,
                "kept": action.number in kept,
                "version": action.version,
                "text": session.texts[action.number],
                "context": list(action.context),
                "ids": list(action.ids),
                "logprobs": list(action.logprobs),
            }
            for action in session.forest.actions
        ],
        "drift": [each._asdict() for each in session.drift],
        "ignored": session.ignored,
    }
