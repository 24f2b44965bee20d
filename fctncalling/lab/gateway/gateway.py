"""Gateway: sessions by id, their requests answered by a sampler, their ends handed on."""

from __future__ import annotations

import contextlib
import json
import math
import re
import secrets
import threading
import time
import zlib
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from typing import Any

import torch

from fctncalling.algorithms.generation.engine_api import Action, EngineError
from fctncalling.algorithms.policy.answer_ends import REFUSALS
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.data.errors import MAX_REWARD
from fctncalling.lab.gateway.completion_request import (
    CompletionRequest,
    GatewayError,
    invalid_field,
)
from fctncalling.lab.gateway.gateway_session import NO_REWARD, GatewaySession, SessionTask
from fctncalling.lab.gateway.openai_answers import AnsweredRequest, answer_message
from fctncalling.lab.gateway.rendering import (
    ContextCallForm,
    MessageRendering,
    RenderedPrompt,
    find_continued_action,
    function_docs,
)
from fctncalling.lab.gateway.sampler import Sampler, SamplingJob
from fctncalling.lab.own_api.function_choice import FunctionChoice

_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
DEFAULT_SESSION = "default"
MAX_REMEMBERED = 10_000  # sessions that ended and are still reported

OnToken = Callable[[int, int, float | None], None]  # (choice, token id, log-probability)
Score = Callable[[list[Any], list[Any]], float]  # (messages, token rows) -> reward


@dataclass(frozen=True)
class GatewaySettings:
    """Limits of a gateway, and defaults of its sessions."""

    model: str = "policy"
    max_episode_tokens: int = 2048  # longest prompt and answer together
    temperature: float = 1.0  # of requests that name none
    fixed_temperature: bool = False  # requests' own is ignored, as in training
    request_timeout_s: float = 600.0
    session_timeout_s: float = 900.0  # without a request
    max_sessions: int = 256  # open at a time
    max_actions: int = 1000  # of a session
    missing_reward: float | None = None  # of a session that got none; None: it is invalid
    token: str = ""  # that opens sessions; "": anybody who reaches the port does
    offered: int | None = None  # tools that a request is offered at most; None: all it brings
    opens_on_use: bool = True  # a session begins with its first request, else by `open` alone
    seed: int = 0


class Gateway:
    """Server of sessions' requests; `on_end` gets each session once, when it is over."""

    def __init__(
        self,
        template: ChatTemplate,
        sampler: Sampler,
        settings: GatewaySettings,
        *,
        form: ContextCallForm | None = None,
        score: Score | None = None,
    ) -> None:
        self.template = template
        self.sampler = sampler
        self.settings = settings
        self.form = form or ContextCallForm(template)
        self.score = score
        self.on_end: Callable[[GatewaySession], None] = lambda session: None
        self.version = 0  # of the weights that sample now
        self.sessions: dict[str, GatewaySession] = {}
        self.ended: dict[str, tuple[str, dict[str, Any]]] = {}  # id -> key, report
        self._lock = threading.Lock()

    def open(
        self,
        key: str,
        session_id: str = "",
        *,
        own_key: str | None = None,
        seed: int | None = None,
        task: SessionTask | None = None,
    ) -> GatewaySession:
        """Open a session with the gateway's token as `key`; own_key: its key from then on.

        None: the key of who asks.
        """
        token = self.settings.token
        if token and not secrets.compare_digest(key.encode(), token.encode()):
            raise GatewayError(401, "the gateway's token is needed to open a session")
        session_id = session_id or secrets.token_hex(8)
        if not _ID.fullmatch(session_id):
            expected = "expected 1 to 64 of A-Z a-z 0-9 . _ -"
            raise GatewayError(400, f"session {session_id!r:.80}: {expected}")
        if seed is None:
            seed = zlib.crc32(f"{self.settings.seed} {session_id}".encode())
        with self._lock:
            if session_id in self.sessions or session_id in self.ended:
                raise GatewayError(409, f"session {session_id}: it exists; choose another id")
            if len(self.sessions) >= self.settings.max_sessions:
                raise GatewayError(
                    429,
                    f"{len(self.sessions)} sessions are open, which is the most: end one by "
                    "POST /s/ID/end",
                )
            own_key = key if own_key is None else own_key
            task = task or SessionTask()
            session = GatewaySession(session_id, own_key, seed, task, self.version)
            self.sessions[session_id] = session
        return session

    def session(self, session_id: str, key: str, *, opens: bool = True) -> GatewaySession:
        """Return the session of an id, opened by its first use; 401 for another session's key."""
        with self._lock:
            session = self.sessions.get(session_id)
            ended = self.ended.get(session_id)
        if session is None and ended is not None and ended[0] == key:
            raise GatewayError(
                410,
                f"session {session_id} has ended ({ended[1]['invalid_reason'] or 'valid'}): "
                "another episode needs another id",
            )
        if session is None and ended is None and opens and self.settings.opens_on_use:
            session = self.open(key, session_id)
            session.opened_by_use = True
            return session
        if session is None or not session.admits(key):
            fault = "there is none that this key opens"
            raise GatewayError(401, f"session {session_id!r:.80}: {fault}")
        return session

    def complete(
        self, session: GatewaySession, request: CompletionRequest, on_token: OnToken | None = None
    ) -> AnsweredRequest:
        """Sample the choices of a request and record them; GatewayError if that fails."""
        request = with_offered_tools(request, self.settings.offered)
        given = (None, self.settings.temperature)
        if self.settings.fixed_temperature and request.temperature not in given:
            ignored = (*request.ignored, "temperature")
            request = replace(request, temperature=None, ignored=ignored)
        prompt, number = self._begin(session, request)
        futures = [
            self.sampler.submit(self._job(session, request, prompt.ids, choice, on_token))
            for choice in range(request.n)
        ]
        actions = self._awaited(futures)
        reads: dict[str, Any] = {
            "handler": self.form.handler if request.reads_calls else None,
            "functions": function_docs(request.tools),
            "header": self.template.header if request.is_chat and on_token is None else None,
        }
        with session.lock:
            self._require_open(session)
            sampled, messages = [], []
            for action in actions:
                text = self.template.decode(action.ids)
                one = session.record(number, prompt.ids, action, text)
                message = answer_message(
                    text, session=session.id, number=one.number, stop=action.stop, **reads
                )
                if request.is_chat:
                    session.answer(one.number, message, prompt.conversation)
                sampled.append(one)
                messages.append(message)
            session.conversation = [*request.as_sent, messages[0].message]
            session.last_used = time.monotonic()
        kind = "chatcmpl" if request.is_chat else "cmpl"
        answer_id = f"{kind}-{session.id}-{number}"
        return AnsweredRequest(
            answer_id, self.settings.model, request, prompt.ids, sampled, messages, session.id
        )

    def _begin(
        self, session: GatewaySession, request: CompletionRequest
    ) -> tuple[RenderedPrompt, int]:
        """Render a request and number it; a session that only had refused ones is dropped."""
        with session.lock:
            try:
                self._require_open(session)
                template, request = _with_template_kwargs(self.template, request)
                prompt = self._prompt(session, request, template)
                self._require_room(session, prompt.ids)
            except GatewayError:  # a refused first request opens no session
                with self._lock:
                    if session.opened_by_use and not session.num_requests and not session.ended:
                        self.sessions.pop(session.id, None)
                raise
            with self._lock:  # it may have been dropped while this request waited for its lock
                if self.sessions.setdefault(session.id, session) is not session:
                    raise GatewayError(409, f"session {session.id}: it began anew; ask once more")
            return prompt, session.begin_request(prompt, request)

    def reward(self, session: GatewaySession, value: Any) -> None:
        """Add a reward to the session's last action."""
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not abs(value) <= MAX_REWARD:  # NaN is not either
            expected = f"a number from -{MAX_REWARD:g} to {MAX_REWARD:g}"
            raise invalid_field("reward", f"got {value!r:.60}, expected {expected}")
        with session.lock:
            self._require_open(session)
            if not session.forest.actions:
                raise GatewayError(
                    400, f"session {session.id}: no action was sampled that could earn a reward"
                )
            session.reward(float(value))
            session.last_used = time.monotonic()

    def end(self, session: GatewaySession, reason: str = "") -> dict[str, Any]:
        """End a session, scored if it has no reward yet; return its report.

        reason: why it is invalid. A session that has ended stays as it is. GatewayError 507 where
        `on_end` cannot write: the session then stays open.
        """
        with session.lock:
            if session.ended:
                return session.report()
            if not reason and session.forest.actions and not session.rewards:
                reason = self._score(session)
            session.end(reason)
            report = session.report()
            try:
                self.on_end(session)
            except OSError as error:
                session.reopen()
                fault = error.strerror or type(error).__name__
                raise GatewayError(
                    507,
                    f"session {session.id} cannot be recorded: {fault}; it stays open: make room "
                    "and end it again",
                ) from None
        with self._lock:
            self.sessions.pop(session.id, None)
            self.ended[session.id] = session.key, report
            while len(self.ended) > MAX_REMEMBERED:
                del self.ended[next(iter(self.ended))]
        return report

    def expire(self, now: float | None = None) -> None:
        """End sessions that were not used for too long; those that cannot be recorded stay open."""
        now, limit = time.monotonic() if now is None else now, self.settings.session_timeout_s
        with self._lock:
            late = [each for each in self.sessions.values() if now - each.last_used > limit]
        for session in late:
            with contextlib.suppress(GatewayError):
                self.end(session, f"no request for {limit:g} s")

    def close(self) -> list[GatewaySession]:
        """End all sessions that are open: they are invalid. Return those that were not recorded."""
        for session in list(self.sessions.values()):
            with contextlib.suppress(GatewayError):
                self.end(session, "the gateway closed before the session ended")
        return list(self.sessions.values())

    def _score(self, session: GatewaySession) -> str:
        """Pay the session by the user's function, or the default; return the failure, if any."""
        value = self.settings.missing_reward
        if self.score is not None:
            rows = session.to_record().rows
            try:
                value = float(self.score(list(session.conversation), rows))
            except Exception as error:  # of the user's function
                return f"the reward function raised {type(error).__name__}: {error}"
            if not math.isfinite(value):
                return f"the reward function returned {value}"
        if value is None:
            return NO_REWARD
        session.reward(value)
        return ""

    def _prompt(
        self, session: GatewaySession, request: CompletionRequest, template: ChatTemplate
    ) -> RenderedPrompt:
        if request.is_chat:
            rendering = MessageRendering(
                request.messages,
                request.tools,
                session.num_requests,
                template,
                self.form,
                session.forest,
                session.answered,
            )
            return rendering.prompt()
        if isinstance(request.prompt, str):
            action, rest = find_continued_action(request.prompt, self.template, session.forest)
            before = session.forest.path(action.number if action else None)
            return RenderedPrompt([*before, *self.template.encode(rest)], set(), [])
        size = len(self.template.tokenizer)
        if not all(0 <= token < size for token in request.prompt):
            raise invalid_field("prompt", f"expected token ids from 0 to {size - 1}")
        return RenderedPrompt(list(request.prompt), set(), [])

    def _require_room(self, session: GatewaySession, ids: list[int]) -> None:
        limit = self.settings.max_episode_tokens
        if not ids:
            raise invalid_field("prompt", "it has no token")
        if len(ids) >= limit:
            raise GatewayError(
                400,
                f"This model's maximum context length is {limit} tokens, of which the prompt takes "
                f"{len(ids)}: shorten it, or raise --max_episode_tokens",
                param="messages",
                code="context_length_exceeded",
            )
        if len(session.forest.actions) >= self.settings.max_actions:
            number = f"{self.settings.max_actions} actions"
            raise GatewayError(400, f"session {session.id}: it has {number}, which is the most")

    @staticmethod
    def _require_open(session: GatewaySession) -> None:
        if session.ended:
            raise GatewayError(410, f"session {session.id} has ended: open another")

    def _job(
        self,
        session: GatewaySession,
        request: CompletionRequest,
        ids: list[int],
        choice: int,
        on_token: OnToken | None,
    ) -> SamplingJob:
        stream, temperature = session.stream, request.temperature
        if request.seed is not None:
            stream = torch.Generator().manual_seed((request.seed + choice) % 2**63)
        if temperature is None:
            temperature = self.settings.temperature
        room = self.settings.max_episode_tokens - len(ids)
        return SamplingJob(
            ids,
            session.id,
            stream,
            temperature,
            min(request.max_tokens or room, room),
            request.stop,
            None if on_token is None else partial(on_token, choice),
        )

    def _awaited(self, futures: list[Future[Action]]) -> list[Action]:
        limit = self.settings.request_timeout_s
        until = time.monotonic() + limit
        try:
            return [each.result(max(0.0, until - time.monotonic())) for each in futures]
        except (FutureTimeout, EngineError) as error:
            for each in futures:
                each.cancel()
            if isinstance(error, EngineError):
                raise GatewayError(503, f"no action was sampled: {error}") from None
            raise GatewayError(504, f"no action was sampled in {limit:g} s") from None


def _with_template_kwargs(
    template: ChatTemplate, request: CompletionRequest
) -> tuple[ChatTemplate, CompletionRequest]:
    """Return the template under a request's arguments; those that it does not use are ignored."""
    kwargs = request.template_kwargs
    try:
        unused = [name for name in kwargs if not template.uses_argument(name)]
        used = {name: kwargs[name] for name in kwargs if name not in unused}
        request = replace(request, ignored=(*request.ignored, *unused))
        return template.with_kwargs(used), request
    except REFUSALS as error:
        raise invalid_field("chat_template_kwargs", f"the chat template fails: {error}") from None


def with_offered_tools(request: CompletionRequest, offered: int | None) -> CompletionRequest:
    """Return a request with so many of its tools at most, chosen by the whole conversation.

    None: all of them, as sent.
    """
    if offered is None or len(request.tools) <= offered:
        return request
    texts = [str(each.get("content") or "") for each in request.messages if each["role"] == "user"]
    docs = [asdict(each) for each in function_docs(request.tools)]
    chosen = _choice(json.dumps(docs), offered).chosen("\n".join(texts))
    return replace(request, tools=tuple(request.tools[number] for number in chosen))


@lru_cache(maxsize=4)
def _choice(docs: str, offered: int) -> FunctionChoice:
    return FunctionChoice(json.loads(docs), offered, math.inf)
