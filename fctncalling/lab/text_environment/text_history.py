"""Episode with tools in mid-generation, as text, ids and authors."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from fctncalling.envs.conversations import escape_unprintable
from fctncalling.envs.errors import import_extra
from fctncalling.lab.page.report_page import html_page

if TYPE_CHECKING:
    from rich.console import Console


Span = tuple[int, int]


class TextHistory:
    """Segments of an episode in order: the query, then the policy's and the tools' texts.

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
        self.logprobs: list[float] = []  # of each token as it was sampled; NaN where unknown
        self._mask: list[int] = []
        self.slot: int | None = None  # of the engine that keeps its attention cache
        self.num_cached = 0  # tokens that the slot has read or sampled
        self.append_segment(text, tokens, system=system)

    def append_segment(
        self,
        text: str,
        tokens: Tensor | Sequence[int],
        system: bool = True,
        logprobs: Sequence[float] | None = None,
    ) -> None:
        """Append a segment that the system or the policy wrote.

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
        """1 for tokens that the policy wrote, else 0; (T,) int64."""
        return torch.tensor(self._mask, dtype=torch.int64)

    @property
    def last_text_segment(self) -> str:
        """Text of the last segment."""
        start, end = self.text_spans[-1]
        return self.text[start:end]

    @property
    def last_token_segment(self) -> Tensor:
        """Token ids of the last segment."""
        start, end = self.token_spans[-1]
        return self.tokens[start:end]

    @property
    def num_answered_calls(self) -> int:
        """Number of answered calls: the system's segments after the query."""
        return sum(self.system_spans[1:])

    @property
    def last_words(self) -> tuple[int, int]:
        """First and end of the policy's segments since the system's last one.

        Equal for none.
        """
        first = len(self.system_spans)
        while first > 0 and not self.system_spans[first - 1]:
            first -= 1
        return first, len(self.system_spans)

    def split_query_response_tokens(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the query's ids, all later ids, and the mask of the later ones."""
        end = self.token_spans[0][1]
        return self.tokens[:end], self.tokens[end:], self.token_masks[end:]

    def to_dict(self) -> dict[str, Any]:
        """Convert the history to JSON values: a line of a file that `view` displays."""
        reward = float(self.reward)
        return {
            "text": self.text,
            "text_spans": [list(span) for span in self.text_spans],
            "system_spans": list(self.system_spans),
            "ids": list(self.ids),
            "token_spans": [list(span) for span in self.token_spans],
            "logprobs": [None if math.isnan(logprob) else logprob for logprob in self.logprobs],
            "reward": reward if math.isfinite(reward) else None,
            "completed": self.completed,
            "truncated": self.truncated,
            "invalid": self.invalid,
        }

    def show_text(self, show_legend: bool = False, *, console: Console | None = None) -> None:
        """Print the episode's text, coloured by author, and its reward; needs rich."""
        self._show(None, show_legend, console)

    def show_tokens(
        self, tokenizer: Any, show_legend: bool = False, *, console: Console | None = None
    ) -> None:
        """Print the episode's tokens as the tokenizer spells them, coloured by author.

        Needs rich.
        """
        self._show(tokenizer, show_legend, console)

    def _show(self, tokenizer: Any, show_legend: bool, console: Console | None) -> None:
        pieces = [
            (words.replace("\n", "\\n") + " " if tip else words, style.style)
            for words, style, tip in styled_pieces(self, tokenizer)
        ]
        print_styled([*pieces, (f"\n\n{self.outcome}", REWARD.style)], console)
        if show_legend:
            self.show_colour_legend(console=console)

    def show_colour_legend(self, *, console: Console | None = None) -> None:
        """Print the legend of the colours; needs rich."""
        keys = [part for style in STYLES for part in (("|", ""), (style.label, style.style))]
        print_styled([("\n(Colour Legend: ", ""), *keys[1:], (")", "")], console)

    @property
    def outcome(self) -> str:
        """Reward of the episode, and why it was cut, if it was."""
        reward = float(self.reward)
        text = f"Reward: {'none' if math.isnan(reward) else f'{reward:g}'}"
        if self.invalid:
            return f"{text} (invalid: infrastructure failed)"
        if not self.completed:
            return f"{text} (running)"
        return f"{text} (truncated)" if self.truncated else text

    def to_html(self, tokenizer: Any = None) -> str:
        """Format the episode as a self-contained HTML page.

        With a tokenizer every token is a box of its own, with its id and log-probability as a tool
        tip.
        """
        pieces = styled_pieces(self, tokenizer)
        spans = (_span(words, style, tip) for words, style, tip in pieces if words or tip)
        keys = " ".join(_span(style.label, style) for style in STYLES)
        head = f'<h1>Episode</h1><p class="sentence">{html.escape(self.outcome)}</p>'
        said = f'<p class="said">{"".join(spans)}</p><p>{keys}</p>'
        return html_page("Episode", f'<div class="sheet report">{head}\n{said}</div>')


class Style(NamedTuple):
    """Display style of one author's text."""

    label: str
    style: str  # for rich
    background: str  # for a browser


# Black text on each: 10:1 or more (WCAG AA asks for 4.5:1). Written as numbers, as themes change
# what "black" is.
PROMPT = Style("Prompt", "#000000 on #d9d9d9", "#d9d9d9")
SYSTEM = Style("Tool", "#000000 on #5fd7c7", "#5fd7c7")
MODEL = Style("Model", "#000000 on #8fd0ff", "#8fd0ff")
REWARD = Style("Reward", "#000000 on #ffc4ff", "#ffc4ff")
CONTEXT = 8  # tokens before one that are decoded with it: a character has four bytes at most
STYLES = (PROMPT, SYSTEM, MODEL, REWARD)


def print_styled(pieces: Iterable[tuple[str, str]], console: Console | None) -> None:
    """Print (text, style) pieces as one text, on stdout if no console is given.

    Raises MissingExtra if rich is not installed.
    """
    text = import_extra("rich.text", "train", "showing an episode").Text.assemble(*pieces)
    (console or import_extra("rich.console", "train", "showing an episode").Console()).print(text)


def styled_pieces(history: TextHistory, tokenizer: Any = None) -> Iterator[tuple[str, Style, str]]:
    """Yield (text, style, tip) of each segment, or with a tokenizer of each token.

    Control and invisible characters are escapes, in tokens line breaks too.
    """
    for index, system in enumerate(history.system_spans):
        style = PROMPT if index == 0 else SYSTEM if system else MODEL
        if tokenizer is None:
            start, end = history.text_spans[index]
            yield escape_unprintable(history.text[start:end]), style, ""
            continue
        for position in range(*history.token_spans[index]):
            logprob = history.logprobs[position]
            note = "" if math.isnan(logprob) else f", log-probability {logprob:.3f}"
            text = escape_unprintable(token_text(tokenizer, history.ids, position))
            yield text, style, f"id {history.ids[position]}{note}"


def _span(text: str, style: Style, tip: str = "") -> str:
    colours = f"background: {style.background}; color: #000"
    shape = "tok" if tip else style.label.lower()
    title = html.escape(tip)
    return f'<span class="{shape}" title="{title}" style="{colours}">{html.escape(text)}</span>'


def token_text(tokenizer: Any, ids: Sequence[int], position: int) -> str:
    """Return the text of a token, blanks included.

    Its bytes if it is part of a character.
    """
    start = max(0, position - CONTEXT)
    plainly = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
    before = tokenizer.decode(list(ids[start:position]), **plainly)
    whole = tokenizer.decode(list(ids[start : position + 1]), **plainly)
    if whole.startswith(before) and not whole.endswith("\ufffd"):
        return str(whole[len(before) :])
    return f"[{tokenizer.convert_ids_to_tokens([ids[position]])[0]}]"
