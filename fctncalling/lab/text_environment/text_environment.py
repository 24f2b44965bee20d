"""Text environment as in TRL: queries in, episodes with tools in mid-generation out.

A front on this project's own parts: the syntax and the tools are `ToolTextEnv`'s, generation is the
rollout's engine with its attention caches, and `text_trainer` learns from what `run` returns.
"""

from __future__ import annotations

import inspect
import json
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from torch import Tensor

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
from fctncalling.envs.tool_text.tools import InlineToolResult, InlineTools, InlineToolsArgument
from fctncalling.envs.tools.box.toolbox import ToolBox
from fctncalling.lab.text_environment.history_generator import (
    HistoryGenerator,
    OnToken,
    RawTextTemplate,
    language_model,
    parse_generation_kwargs,
)
from fctncalling.lab.text_environment.text_history import TextHistory

logger = logging.getLogger(__name__)

RewardFunction = Callable[..., Any]


def call_reward_fn(
    function: RewardFunction, responses: Sequence[str], keywords: Mapping[str, Any]
) -> list[Any]:
    """Call a reward function; return one reward for each response.

    A function is given all responses and the keywords as they are, and returns a sequence; a single
    number stands for every response. One that names its parameters in the singular (`answer`, where
    `answers` is given) is asked response by response; where it raises for one, that response's
    reward is NaN, which learning leaves out.
    """
    single = _singular_arguments(function, keywords)
    if single is not None:
        return [
            _call_one(function, index, response, single) for index, response in enumerate(responses)
        ]
    rewards = function(list(responses), **keywords)
    if not hasattr(rewards, "__len__"):
        return [rewards] * len(responses)
    if len(rewards) != len(responses):
        raise ValueError(
            f"reward_fn returned {len(rewards)} rewards for {len(responses)} responses: expected "
            "one each"
        )
    return list(rewards)


def _singular_arguments(
    function: RewardFunction, keywords: Mapping[str, Any]
) -> dict[str, Sequence[Any]] | None:
    """Map plural keywords to the singular parameters of a function of one response.

    None for others.
    """
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    if takes_any or set(keywords) & set(parameters):
        return None
    arguments = {name: keywords[f"{name}s"] for name in parameters if f"{name}s" in keywords}
    return arguments if arguments and len(arguments) == len(keywords) else None


def _call_one(
    function: RewardFunction, index: int, response: str, keywords: Mapping[str, Sequence[Any]]
) -> Any:
    arguments = {name: values[index] for name, values in keywords.items()}
    try:
        return function(response, **arguments)
    except Exception as error:
        details = (repr(error), index, response[:80])
        logger.warning("reward_fn raised %s for response %d (%r): it gets none", *details)
        return math.nan


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
    _template_of: Any = None  # syntax
    _generator_of: Any = None  # model
    _generator: HistoryGenerator
    _tools: InlineTools
    _built_tools: Mapping[str, Any]

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
        opened = [self._opened(query) for query in queries]
        histories: list[TextHistory] = []
        for first in range(0, len(opened), self.batch_size):
            histories += self._play(opened[first : first + self.batch_size], first)
        self.compute_reward(histories, **rewards_kwargs)
        parts = [history.split_query_response_tokens() for history in histories]
        queries_ids, responses, masks = ([part[at] for part in parts] for at in range(3))
        return queries_ids, responses, masks, [history.reward for history in histories], histories

    def _play(self, histories: list[TextHistory], first: int) -> list[TextHistory]:
        """Play concurrent episodes to their ends; `first` is the query number of the first."""
        with self._generator.session(histories, first):
            while any(not history.completed for history in histories):
                histories = self.generate(histories)
                for history in histories:
                    if not history.completed and len(history.system_spans) == 1:
                        history.append_segment("", (), system=False)  # the policy had its turn
                self.tasks_end_check(histories)
                if is_overridden(self, "step", _STEP):
                    histories = [h if h.completed else self.step(h) for h in histories]
                else:
                    self._answer_calls([history for history in histories if not history.completed])
                self.tasks_end_check(histories, model_turn=False)
        return histories

    def generate(self, histories: Sequence[TextHistory]) -> list[TextHistory]:
        """Generate in every unfinished episode, up to its next call or its end.

        One that has no room left, or not a token that could be gone on from, is truncated.
        """
        self._refresh()
        for history in histories:
            if not history.completed and (self._full(history) or not history.ids):
                history.complete(truncated=True)
        unfinished = [history for history in histories if not history.completed]
        self._generator.generate(unfinished, self.max_length)
        return list(histories)

    def step(self, history: TextHistory) -> TextHistory:
        """Answer the call at which an episode paused; complete an episode at its end.

        Where nobody has spoken yet, the call that the opening text holds is answered.
        """
        self._refresh()
        if not history.completed and len(history.system_spans) == 1:
            pause = self.syntax.paused_message(history.text)
            if pause.kind == "call":
                self._answer([(history, self._read(history.text, pause))])
            else:
                history.complete()
            return history
        truncated, ended = self.task_end_check(history)
        if ended:
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
            over = over and history.system_spans[-1]
            return full or over, full or over
        _, pause = self._pause(history)
        if pause.kind == "open" and self._generator.stopped(history):
            return False, True
        rambles = len(history.system_spans) > MAX_PAUSES * (self.max_turns + 1)
        outcome = pause.outcome(calls_left=not over, pauses_left=not (full or rambles))
        if outcome == "end":
            return pause.kind == "end" and full and not self._generator.stopped(history), True
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
        responses = [
            self.syntax.text_without_calls(self._generator.last_words(history)[0])
            for history in histories
        ]
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
        self._refresh_syntax()
        if self._template_of is not self.syntax or self.template.tokenizer is not self.tokenizer:
            self.template = RawTextTemplate(self.tokenizer, tags=self.syntax.tags)
            self._template_of = self.syntax
        sampling = parse_generation_kwargs(self.generation_kwargs, self.template.stop_ids)
        if self._generator_of is not self.model:
            generator = HistoryGenerator(language_model(self.model), self.template)
            former = None if self._generator_of is None else self._generator.max_positions
            if self.max_length in (None, former):
                self.max_length = generator.max_positions
            self._generator = generator
            self._generator_of = self.model
        self._generator.configure(self.template, self.syntax.stop, sampling, self.on_token)
        self._refresh_tools()

    def _refresh_syntax(self) -> None:
        marks = (self.request_token, self.call_token, self.response_token, self.submit_token)
        if marks == self._marks:
            return
        if not isinstance(self.syntax, TrlRequestCalls):
            raise ValueError(
                f"request_token and its like are marks of handler 'request_call'; this one is "
                f"{self.syntax.name!r}, whose marks stand fast"
            )
        self.syntax = TrlRequestCalls(*marks)
        self._marks = marks

    def _refresh_tools(self) -> None:
        given, former = self.tools, self.__dict__.get("_tools")
        if former is None or not isinstance(given, Mapping) or not _same(given, self._built_tools):
            if isinstance(given, Iterable) and not isinstance(given, Mapping | ToolBox | str):
                given = list(given)  # to iterate twice; InlineTools rejects invalid ones
            self._tools = tools = InlineTools(given, self.syntax)
            if not isinstance(given, Mapping):
                names = (doc.name for doc in tools.box.docs)
                each_given = tools.box.tools if isinstance(given, ToolBox) else given
                self.tools = dict(zip(names, each_given, strict=True))
            self._built_tools = dict(self.tools)
            if former is not None:
                former.close()
        self._tools.syntax = self.syntax
        self._tools.max_characters = self.max_tool_response

    def _generate_batched(
        self,
        query_tensors: Sequence[Tensor | Sequence[int]],
        batch_size: int = 16,
        pad_to_multiple_of: int | None = None,
    ) -> list[Tensor]:
        """Generate after each query up to a call or the end; return the new ids.

        A private name of TRL's that its users' subclasses call. Nothing is padded here.
        """
        self._refresh()
        histories = [
            TextHistory(self.template.spell(ids := [int(token) for token in query]), ids)
            for query in query_tensors
        ]
        for first in range(0, len(histories), batch_size):
            self._generator.generate(histories[first : first + batch_size], self.max_length)
        return [history.last_token_segment for history in histories]

    def _opened(self, query: str) -> TextHistory:
        ids = self.template.query((self.prompt or "") + query)
        return TextHistory(self.template.spell(ids), ids, system=True)

    def _full(self, history: TextHistory) -> bool:
        return self.max_length is not None and len(history.ids) >= self.max_length

    def _answer_calls(self, histories: Sequence[TextHistory]) -> None:
        """Answer the calls of many episodes; their tools run at once."""
        blocks = [(history, self._read(*self._pause(history))) for history in histories]
        self._answer([(history, block) for history, block in blocks if block is not None])

    def _answer(self, blocks: Sequence[tuple[TextHistory, CallBlock | None]]) -> None:
        calls = [block for _, block in blocks if block is not None]
        with ThreadPoolExecutor(max(1, min(len(calls), MAX_THREADS))) as threads:
            answers = list(threads.map(self._answer_or_failure, calls))
        for (history, _), answer in zip(blocks, answers, strict=True):
            if isinstance(answer, InfrastructureError):
                history.invalid = True
                history.complete(truncated=True)
                continue
            ids = self.template.encode_untrusted(self.syntax.format_result(answer.text))
            if self.max_length is not None:
                ids = ids[: max(0, self.max_length - len(history.ids))]
            self._generator.append_tool_output(history, ids)

    def _answer_or_failure(self, block: CallBlock) -> InlineToolResult | InfrastructureError:
        try:
            return self._tools.run_block(block)
        except InfrastructureError as failure:
            return failure

    def _read(self, words: str, pause: PausedMessage) -> CallBlock | None:
        """Parse the call at a pause, by a subclass's `parse_tool_call` if it overrides that."""
        if not is_overridden(self, "parse_tool_call", _PARSE_TOOL_CALL):
            return pause.block
        tool, query = self.parse_tool_call(words)
        return (
            pause.block if tool is None else CallBlock(0, len(words), {tool: {QUERY: query or ""}})
        )

    def _pause(self, history: TextHistory) -> tuple[str, PausedMessage]:
        words, start = self._generator.last_words(history)
        return words, self.syntax.paused_message(words, start)


_STEP, _PARSE_TOOL_CALL = TextEnvironment.step, TextEnvironment.parse_tool_call


def is_overridden(environment: object, name: str, own: Any) -> bool:
    """Whether a method was overridden by a subclass or by assignment."""
    return getattr(getattr(environment, name), "__func__", None) is not own


def _same(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    return left.keys() == right.keys() and all(left[name] is right[name] for name in left)
