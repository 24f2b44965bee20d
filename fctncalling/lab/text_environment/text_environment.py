"""Text environment as in TRL: queries in, episodes with tools in mid-generation out.

A front on this project's own parts: the syntax and the tools are `ToolTextEnv`'s, generation is the
rollout's engine with its attention caches, and `text_trainer` learns from what `run` returns. Only
the loop is here: subclasses override its steps (`generate`, `step`, the checks of ends), of which
the ordinary rollout knows nothing.
"""

from __future__ import annotations

import inspect
import json
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor

from fctncalling.algorithms.generation.engine import GenerationEngine
from fctncalling.algorithms.generation.engine_api import Request
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.handlers import TEXT_HANDLERS
from fctncalling.envs.handlers.inline import (
    CALL,
    QUERY,
    REQUEST,
    RESPONSE,
    SUBMIT,
    CallBlock,
    InlineCalls,
    PausedMessage,
    TrlRequestCalls,
)
from fctncalling.envs.tool_text.tools import InlineTools, InlineToolsArgument
from fctncalling.envs.tools.box.toolbox import ToolBox
from fctncalling.lab.text_environment.raw_text import (
    RawTextTemplate,
    language_model,
    parse_generation_kwargs,
)
from fctncalling.lab.text_environment.text_history import TextHistory

logger = logging.getLogger(__name__)

RewardFunction = Callable[..., Any]
OnToken = Callable[[int, int, float | None], None]


def call_reward_fn(
    function: RewardFunction, responses: Sequence[str], keywords: Mapping[str, Any]
) -> list[Any]:
    """Call a reward function; return one reward for each response.

    A function is given all responses and the keywords as they are, and returns a sequence; a single
    number stands for every response. One that names its parameters in the singular (`answer`, where
    `answers` is given) is asked response by response; where it raises for one, that response's
    reward is NaN, which learning leaves out.
    """
    plurals = _plurals(function, keywords)
    if plurals is None:
        rewards = function(list(responses), **keywords)
        rewards = rewards if hasattr(rewards, "__len__") else [rewards] * len(responses)
        if len(rewards) != len(responses):
            raise ValueError(
                f"reward_fn returned {len(rewards)} rewards for {len(responses)} responses: "
                "expected one each"
            )
        return list(rewards)
    rewards = []
    for index, response in enumerate(responses):
        arguments = {name: keywords[plural][index] for name, plural in plurals.items()}
        try:
            rewards.append(function(response, **arguments))
        except Exception as error:
            details = (repr(error), index, response[:80])
            logger.warning("reward_fn raised %s for response %d (%r): it gets none", *details)
            rewards.append(math.nan)
    return rewards


def _plurals(function: RewardFunction, keywords: Mapping[str, Any]) -> dict[str, str] | None:
    """Map the parameters of a function of one response to plural keywords; None for others."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    if takes_any or set(keywords) & set(parameters):
        return None
    plurals = {name: f"{name}s" for name in parameters if f"{name}s" in keywords}
    return plurals if plurals and len(plurals) == len(keywords) else None


Run = tuple[list[Tensor], list[Tensor], list[Tensor], list[Any], list[TextHistory]]
# segments of an episode for each call that may be answered, at marks that mean nothing
MAX_PAUSES = 8
MAX_THREADS = 32  # in which tools answer side by side


class TextEnvironment:
    """Text environment with tool calls in mid-generation; tracks token authorship.

    - `model`: a causal language model of transformers, or a policy with a value head around one;
      `tokenizer`: its own.
    - `tools`: a mapping from names to tools, or a list of them (an object without a name is called
      by its class). Functions run in processes with a time limit, which
      `as_tool(f, timeout_s=...)` sets (see `InlineTools`). The attribute is a dict from names to
      the tools as they were given.
    - `reward_fn`: see `call_reward_fn`; it is given the policy's words behind the last result,
      without its calls.
    - `prompt`: what stands before every query.
    - `max_turns`: calls that are answered. The last one's result ends the episode, so a call and an
      answer behind it need 2.
    - `max_tool_response`: characters of a result that are shown.
    - `max_length`: tokens of an episode; none: as many as the model reads.
    - `generation_kwargs`: see `parse_generation_kwargs`.
    - `handler`: the call syntax, one of TEXT_HANDLERS.
    - `batch_size`: episodes that run side by side.
    - `on_token`: called with (query's number, id, log-probability) as tokens are written, the last
      None for those of tools.
    - `use_cache`: accepted and ignored, caches are always kept.

    All of them are attributes that may be assigned later, `request_token`, `call_token`,
    `response_token` and `submit_token` too; `tools` and `generation_kwargs` may also be changed in
    place.
    """

    request_token, call_token, response_token, submit_token = REQUEST, CALL, RESPONSE, SUBMIT
    template: RawTextTemplate
    _marks = (REQUEST, CALL, RESPONSE, SUBMIT)  # those that `syntax` was made of
    _template_of: Any = None  # syntax and tokenizer
    _engine_of: Any = None  # model
    _engine: GenerationEngine
    _first = 0  # the number of slot 0's query
    _tools: InlineTools
    _tools_of: Any = None  # names and tools as they were given

    def __init__(
        self,
        model: Any = None,
        tokenizer: Any = None,
        tools: InlineToolsArgument | None = None,
        reward_fn: RewardFunction | None = None,
        prompt: str | None = None,
        max_turns: int = 4,
        max_tool_response: int = 100,
        max_length: int | None = None,
        generation_kwargs: Mapping[str, Any] | None = None,
        use_cache: bool = True,
        *,
        handler: str = "request_call",
        batch_size: int = 256,
        on_token: OnToken | None = None,
        max_tool_reponse: int | None = None,  # as TRL spelled it
    ) -> None:
        if handler not in TEXT_HANDLERS:
            raise LookupError(
                f"handler={handler!r}: calls in mid-generation are {', '.join(TEXT_HANDLERS)}."
            )
        self.model = model
        self.tokenizer = tokenizer
        self.on_token = on_token
        self.reward_fn = reward_fn
        self.prompt = prompt or ""
        self.max_turns = max_turns
        self.batch_size = batch_size
        self.max_tool_response = max_tool_response if max_tool_reponse is None else max_tool_reponse
        self.generation_kwargs = dict(generation_kwargs or {})
        self.max_length = max_length
        self.syntax: InlineCalls = TEXT_HANDLERS[handler]
        self.tools: Any = () if tools is None else tools
        if isinstance(tools, Mapping):
            self.tools = dict(tools)
        self._refresh()

    def run(self, queries: Sequence[str], **rewards_kwargs: Any) -> Run:
        """Play one episode for each query.

        Return (queries, responses, masks, rewards, histories), tensors of ids and masks.

        The keywords go to the reward function. A reward is NaN where an episode says nothing of the
        policy.
        """
        self._refresh()
        prompts = [self.template.query((self.prompt or "") + query) for query in queries]
        opened = [TextHistory(self.template.spell(ids), ids) for ids in prompts]
        histories: list[TextHistory] = []
        for first in range(0, len(opened), self.batch_size):
            histories += self._play(opened[first : first + self.batch_size], first)
        self.compute_reward(histories, **rewards_kwargs)
        parts = [history.split_query_response_tokens() for history in histories]
        queries_ids, responses, masks = ([part[at] for part in parts] for at in range(3))
        return queries_ids, responses, masks, [history.reward for history in histories], histories

    def _play(self, histories: list[TextHistory], first: int) -> list[TextHistory]:
        """Play concurrent episodes to their ends; `first` is the query number of the first."""
        with self._cached(histories, first):
            while any(not history.completed for history in histories):
                histories = self.generate(histories)
                for history in histories:
                    if not history.completed and len(history.system_spans) == 1:
                        history.append_segment("", (), system=False)  # the policy had its turn
                self.tasks_end_check(histories)
                if is_overridden(self.step, TextEnvironment.step):
                    histories = [h if h.completed else self.step(h) for h in histories]
                else:
                    self._answer_calls([history for history in histories if not history.completed])
                self.tasks_end_check(histories, model_turn=False)
        return histories

    @contextmanager
    def _cached(self, histories: Sequence[TextHistory], first: int = 0) -> Iterator[None]:
        """Context manager: keep the attention caches of histories, which may only grow meanwhile.

        Every episode draws from a random stream, seeded from torch's global one:
        `torch.manual_seed` makes a run repeatable, and what an episode says does not depend on
        those beside it.
        """
        engine = self._engine
        engine.allocate_slots(len(histories))
        seeds = torch.randint(2**31 - 1, (len(histories),)).tolist()
        for slot, (history, seed) in enumerate(zip(histories, seeds, strict=True)):
            engine.begin_sequence(slot, seed)
            history.slot, history.num_cached = slot, 0
        self._first = first
        try:
            yield
        finally:
            engine.release()  # the caches take memory that learning needs
            for history in histories:
                history.slot = None

    def generate(self, histories: Sequence[TextHistory]) -> list[TextHistory]:
        """Generate in every unfinished episode, up to its next call or its end.

        One that has no room left, or not a token that could be gone on from, is truncated.
        """
        self._refresh()
        for history in histories:
            if not history.completed and (self._full(history) or not history.ids):
                history.complete(truncated=True)
        unfinished = [history for history in histories if not history.completed]
        is_cached = all(history.slot is not None for history in unfinished)
        with nullcontext() if is_cached else self._cached(unfinished):
            requests = [
                Request(
                    history.slot or 0,
                    history.ids[history.num_cached :],
                    max_new_tokens=None if self._limit is None else self._limit - len(history.ids),
                    stop=self.syntax.stop,
                    on_token=self.on_token and partial(self.on_token, self._number(history)),
                )
                for history in unfinished
            ]
            actions = self._engine.generate(requests)
            for history, action in zip(unfinished, actions, strict=True):
                self._append(history, action.ids, system=False, logprobs=action.logprobs)
                history.num_cached = len(history.ids)
        return list(histories)

    def _number(self, history: TextHistory) -> int:
        """Return the number of the query that an episode answers."""
        return self._first + (history.slot or 0)

    def _append(
        self,
        history: TextHistory,
        ids: Sequence[int],
        *,
        system: bool,
        logprobs: Sequence[float] | None = None,
    ) -> None:
        text = self.template.decode_suffix([*history.ids, *ids], len(history.ids))
        history.append_segment(text, ids, system=system, logprobs=logprobs)

    def step(self, history: TextHistory) -> TextHistory:
        """Answer the call at which an episode paused; complete an episode at its end.

        Where nobody has spoken yet, the call that the opening text holds is answered.
        """
        self._refresh()
        if len(history.system_spans) > 1:
            truncated, ended = self.task_end_check(history)
        else:
            truncated, ended = False, self._pause(history)[1].kind != "call"
        if ended and not history.completed:
            history.complete(truncated=truncated)
        if not history.completed:
            self._answer_calls([history])
        return history

    def parse_tool_call(self, text: str) -> tuple[str | None, str | None]:
        """Return tool and query of a text's first call, (None, None) if it has none.

        A subclass may read a form of its own here; where arguments are many, the query is their
        JSON.
        """
        self._refresh()
        block = next(self.syntax.closed_blocks(text), None)
        if block is None or block.record is None:
            return None, None
        [(tool, arguments)] = block.record.items()
        values = list(arguments.values())
        is_text = len(values) == 1 and isinstance(values[0], str)
        return tool, values[0] if is_text else json.dumps(arguments)

    def tasks_end_check(
        self, histories: Sequence[TextHistory], model_turn: bool = True
    ) -> list[TextHistory]:
        """Complete the episodes that have reached their end."""
        for history in histories:
            truncated, ended = self.task_end_check(history, model_turn=model_turn)
            if ended:
                history.complete(truncated=truncated)
        return list(histories)

    def task_end_check(self, history: TextHistory, model_turn: bool = True) -> tuple[bool, bool]:
        """Return (truncated, ended) of an episode; tool results never end one.

        It ends at `max_length` tokens, where the policy submits or stops, and behind the last of
        `max_turns` results.
        """
        if history.completed:
            return False, False
        self._refresh()
        full, over = self._full(history), history.num_answered_calls >= self.max_turns
        if not model_turn:
            ended = full or (over and history.system_spans[-1])
            return ended, ended
        _, pause = self._pause(history)
        rambles = len(history.system_spans) > MAX_PAUSES * (self.max_turns + 1)
        outcome = pause.outcome(calls_left=not over, pauses_left=not (full or rambles))
        if outcome == "end":
            return pause.kind == "end" and full and not self._stopped(history), True
        return outcome == "step_limit", outcome == "step_limit"

    def compute_reward(
        self, histories: Sequence[TextHistory], **reward_kwargs: Any
    ) -> list[TextHistory]:
        """Reward every episode for the policy's text after the last result.

        NaN for an invalid one.
        """
        if self.reward_fn is None:
            raise ValueError(
                "no reward_fn was given: pass one to TextEnvironment, or rewards of your own to "
                "the trainer"
            )
        self._refresh()
        responses = [self.syntax.text_without_calls(self._words(h)[0]) for h in histories]
        rewards = call_reward_fn(self.reward_fn, responses, reward_kwargs)
        for history, reward in zip(histories, rewards, strict=True):
            history.reward = math.nan if history.invalid else reward
        return list(histories)

    def close(self) -> None:
        """End the processes of the tools."""
        self._tools.close()

    def _refresh(self) -> None:
        """Rebuild missing or outdated parts from the attributes.

        Nothing is checked where it is assigned: plain attributes and dicts are what users of such
        environments expect, and a dict that is changed in place tells nobody. What is compared
        here, before every use, takes microseconds.
        """
        marks = (self.request_token, self.call_token, self.response_token, self.submit_token)
        if marks != self._marks:
            if not isinstance(self.syntax, TrlRequestCalls):
                raise ValueError(
                    "request_token and its like are marks of handler 'request_call'; this one is "
                    f"{self.syntax.name!r}, whose marks stand fast"
                )
            self.syntax, self._marks = TrlRequestCalls(*marks), marks
        if self._template_of != (self.syntax, self.tokenizer):
            self.template = RawTextTemplate(self.tokenizer, tags=self.syntax.tags)
            self._template_of = (self.syntax, self.tokenizer)
        if self._engine_of is not self.model:
            self._engine = GenerationEngine(language_model(self.model), ())
            self._engine_of = self.model
        settings = parse_generation_kwargs(self.generation_kwargs, self.template.stop_ids)
        for name, value in {**settings, "decode": self.template.spell}.items():
            setattr(self._engine, name, value)
        self._refresh_tools()

    def _refresh_tools(self) -> None:
        given = self.tools
        if not isinstance(given, Mapping) or list(given.items()) != self._tools_of:
            if isinstance(given, Iterable) and not isinstance(given, Mapping | ToolBox | str):
                given = list(given)  # to iterate twice; InlineTools rejects invalid ones
            former = self.__dict__.get("_tools")
            self._tools = InlineTools(given, self.syntax)
            box = self._tools.box
            if not isinstance(given, Mapping):
                each_given = box.tools if isinstance(given, ToolBox) else given
                self.tools = dict(zip((doc.name for doc in box.docs), each_given, strict=True))
            self._tools_of = list(self.tools.items())
            if former is not None:
                former.close()
        self._tools.syntax = self.syntax
        self._tools.max_characters = self.max_tool_response

    @property
    def _limit(self) -> int | None:
        """Tokens of an episode at most."""
        config: Any = self._engine.model.config
        longest: int | None = getattr(config, "max_position_embeddings", None)
        return longest if self.max_length is None else self.max_length

    def _full(self, history: TextHistory) -> bool:
        return self._limit is not None and len(history.ids) >= self._limit

    def _stopped(self, history: TextHistory) -> bool:
        """Whether the policy's last token is an end token."""
        by_policy = bool(history.ids) and not history.system_spans[-1]
        return by_policy and history.ids[-1] in self._engine.stop_ids

    def _words(self, history: TextHistory) -> tuple[str, int]:
        """Return the policy's text since the last result, and the start of its last part.

        Without its end token.
        """
        first, end = history.last_words
        if first == end:
            return "", 0
        begin, stop = history.text_spans[first][0], len(history.text)
        if self._stopped(history):
            stop -= len(self.template.decode_suffix(history.ids, len(history.ids) - 1))
        return history.text[begin:stop], history.text_spans[-1][0] - begin

    def _pause(self, history: TextHistory) -> tuple[str, PausedMessage]:
        is_opening = len(history.system_spans) == 1
        words, start = (history.text, 0) if is_opening else self._words(history)
        return words, self.syntax.paused_message(words, start)

    def _answer_calls(self, histories: Sequence[TextHistory]) -> None:
        """Answer the calls of many episodes; their tools run at once."""
        calls = [(history, block) for history in histories if (block := self._read(history))]
        with ThreadPoolExecutor(max(1, min(len(calls), MAX_THREADS))) as threads:
            results = list(threads.map(self._result_or_none, [block for _, block in calls]))
        for (history, _), result in zip(calls, results, strict=True):
            if result is None:
                history.invalid = True
                history.complete(truncated=True)
                continue
            ids = self.template.encode_untrusted(self.syntax.format_result(result))
            if self._limit is not None:
                ids = ids[: max(0, self._limit - len(history.ids))]
            self._append(history, ids, system=True)
            if self.on_token is not None:
                for token in ids:
                    self.on_token(self._number(history), token, None)

    def _result_or_none(self, block: CallBlock) -> str | None:
        """Return a call's result; None if infrastructure failed."""
        try:
            return self._tools.run_block(block).text
        except InfrastructureError:
            return None

    def _read(self, history: TextHistory) -> CallBlock | None:
        """Parse the call at a pause, by a subclass's `parse_tool_call` if it overrides that."""
        words, pause = self._pause(history)
        if not is_overridden(self.parse_tool_call, TextEnvironment.parse_tool_call):
            return pause.block
        tool, query = self.parse_tool_call(words)
        return (
            pause.block if tool is None else CallBlock(0, len(words), {tool: {QUERY: query or ""}})
        )


def is_overridden(method: Any, own: Any) -> bool:
    """Whether a method was overridden by a subclass or by assignment."""
    return getattr(method, "__func__", None) is not own
