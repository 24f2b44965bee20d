"""TextHistory: one episode with tools in mid-generation, as text, ids and authors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from rich.console import Console

Span = tuple[int, int]


class TextHistory:
    """Segments of an episode in order.

    The query first, then the policy's and the system's (tools').

    `text` and `tokens` hold all of it; `text_spans` and `token_spans` where each segment lies,
    `system_spans` whether the system wrote it, `token_masks` 1 for tokens of the policy.
    `completed`: nothing more comes; `truncated`: a limit on tokens or calls ended it. `reward` is
    NaN, and `invalid` true, where infrastructure failed and nothing can be said of the policy. Made
    by a TextEnvironment, every span's text is the decoding of its ids, in their place.
    """

    def __init__(self, text: str, tokens: Tensor | Sequence[int], system: bool = True) -> None:
        self.text = ""
        self.text_spans: list[Span] = []
        self.system_spans: list[bool] = []
        self.token_spans: list[Span] = []
        self.completed = False
        self.truncated = False
        self.invalid = False
        self.reward: Any = 0.0
        self.ids: list[int] = []  # what `tokens` is made of
        self.logprobs: list[
            float
        ] = []  # a token's log-probability as it was sampled; NaN where that is not known
        self._mask: list[int] = []
        self.append_segment(text, tokens, system=system)

    def append_segment(
        self,
        text: str,
        tokens: Tensor | Sequence[int],
        system: bool = True,
        logprobs: Sequence[float] | None = None,
    ) -> None:
        """Append a segment written by the system or the policy.

        An empty one is valid: its author had nothing to say.
        """
        ids = [int(token) for token in tokens]
        self.text_spans.append((len(self.text), len(self.text) + len(text)))
        self.token_spans.append((len(self.ids), len(self.ids) + len(ids)))
        self.system_spans.append(bool(system))
        self.text += text
        self.ids += ids
        self._mask += [0 if system else 1] * len(ids)
        self.logprobs += [math.nan] * len(ids) if logprobs is None else list(logprobs)

    def complete(self, truncated: bool = False) -> None:
        """Mark the episode as ended."""
        self.completed = True
        self.truncated = bool(truncated)

    @property
    def tokens(self) -> Tensor:
        """All token ids, (T,) int64."""
        return torch.tensor(self.ids, dtype=torch.int64)

    @property
    def token_masks(self) -> Tensor:
        """1 where the policy wrote the token, else 0; (T,) int64."""
        return torch.tensor(self._mask, dtype=torch.int64)

    @property
    def last_text_segment(self) -> str:
        """The text of the last segment, whoever wrote it."""
        start, end = self.text_spans[-1]
        return self.text[start:end]

    @property
    def last_token_segment(self) -> Tensor:
        """The token ids of the last segment."""
        start, end = self.token_spans[-1]
        return self.tokens[start:end]

    @property
    def num_answered_calls(self) -> int:
        """Segments of the system behind the query: the calls that were answered."""
        return sum(self.system_spans[1:])

    @property
    def last_words(self) -> tuple[int, int]:
        """The first and the end of the segments that the policy wrote since the system last did.

        Equal for none.
        """
        first = len(self.system_spans)
        while first > 0 and not self.system_spans[first - 1]:
            first -= 1
        return first, len(self.system_spans)

    def split_query_response_tokens(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the query's ids, the ids of all that followed, and the mask of the latter."""
        end = self.token_spans[0][1]
        return self.tokens[:end], self.tokens[end:], self.token_masks[end:]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as JSON values: a line of a file that `view` makes a page of."""
        reward = float(self.reward)
        return {
            "text": self.text,
            "text_spans": [list(span) for span in self.text_spans],
            "system_spans": list(self.system_spans),
            "ids": list(self.ids),
            "token_spans": [list(span) for span in self.token_spans],
            "logprobs": [None if math.isnan(each) else each for each in self.logprobs],
            "reward": reward if math.isfinite(reward) else None,
            "completed": self.completed,
            "truncated": self.truncated,
            "invalid": self.invalid,
        }

    def show_text(self, show_legend: bool = False, *, console: Console | None = None) -> None:
        """Print the episode's text, coloured by who wrote what, and its reward; needs rich."""
        from fctncalling.text_environment.history_view import console_or_default, legend, rich_text

        console = console_or_default(console)
        console.print(rich_text(self))
        if show_legend:
            console.print(legend())

    def show_tokens(
        self, tokenizer: Any, show_legend: bool = False, *, console: Console | None = None
    ) -> None:
        """Print the episode's tokens as the tokenizer spells them, coloured by who wrote what.

        Needs rich.
        """
        from fctncalling.text_environment.history_view import (
            console_or_default,
            legend,
            rich_tokens,
        )

        console = console_or_default(console)
        console.print(rich_tokens(self, tokenizer))
        if show_legend:
            console.print(legend())

    def show_colour_legend(self, *, console: Console | None = None) -> None:
        """Print which colour stands for whom; needs rich."""
        from fctncalling.text_environment.history_view import console_or_default, legend

        console_or_default(console).print(legend())

    def to_html(self, tokenizer: Any = None) -> str:
        """Return the episode as an HTML page that needs nothing else.

        With a tokenizer every token is a box of its own, with its id and log-probability as a tool
        tip.
        """
        from fctncalling.text_environment.history_view import to_html

        return to_html(self, tokenizer)
