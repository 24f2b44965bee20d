"""Texts of single tokens, so that a reader of a token file needs no tokenizer."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fctncalling.algorithms.policy.chat_template import ChatTemplate

BRACKET, WORD = "[", "a"
UNDECODED = "\ufffd"
NUM_COMPARED = 4  # rows of an update whose texts are compared with what the tokenizer decodes


class TokenTexts:
    """Text of each token id, computed once.

    What the token adds behind a bracket, for alone tokenizers strip a space or mark.

    Some tokenizers, as WordPiece's, spell no space between two words: it is implied.
    """

    def __init__(self, template: ChatTemplate) -> None:
        self._template = template
        self._pieces: dict[int, str] = {}
        self._gaps: dict[int, tuple[bool, bool]] = {}

    @cached_property
    def _bracket(self) -> list[int]:
        return self._template.encode(BRACKET)[-1:]

    @cached_property
    def _word(self) -> list[int]:
        return self._template.encode(WORD)[-1:]

    @cached_property
    def _implies_spaces(self) -> bool:
        return bool(self._word) and self._implies_space(self._word, self._word)

    def pieces(self, ids: Sequence[int]) -> dict[int, str]:
        """Return the text of each id; its name in brackets if it is no whole character."""
        return {token: self._piece(token) for token in ids}

    def implied_spaces(self, rows: Sequence[Sequence[int]]) -> NDArray[np.bool_]:
        """Return for each token of all rows, joined, whether a space is implied before it."""
        if not self._implies_spaces:
            return np.zeros(sum(map(len, rows)), dtype=np.bool_)
        compared = rows[:NUM_COMPARED]
        found = [list(self._by_neighbours(row)) for row in compared]
        if all(self._joined(row, spaces) for row, spaces in zip(compared, found, strict=True)):
            spaces = itertools.chain(*found, *map(self._by_neighbours, rows[NUM_COMPARED:]))
        else:
            spaces = itertools.chain.from_iterable(map(self._by_alignment, rows))
        return np.fromiter(spaces, dtype=np.bool_)

    def _by_neighbours(self, ids: Sequence[int]) -> Iterator[bool]:
        """Yield whether each token and the one before it imply a space beside a word."""
        before = False
        for token in ids:
            gap = self._gaps.get(token)
            if gap is None:
                gap = self._gaps[token] = (
                    self._implies_space(self._word, [token]),
                    self._implies_space([token], self._word),
                )
            yield before and gap[0]
            before = gap[1]

    def _by_alignment(self, ids: Sequence[int]) -> Iterator[bool]:
        """Yield where the decoded row has a space that no token spells.

        False from the first token on that does not fit.
        """
        text, place, fits = self._template.spell(ids), 0, True
        for token in ids:
            piece = self._piece(token)
            space = fits and not text.startswith(piece, place)
            fits = fits and text.startswith(piece, place + space)
            yield space and fits and text[place] == " "
            place += space + len(piece)

    def _joined(self, ids: Sequence[int], spaces: Sequence[bool]) -> bool:
        """Return whether pieces and spaces are the row as the tokenizer decodes it."""
        pieces = map(self._piece, ids)
        text = "".join(
            f" {each}" if space else each for each, space in zip(pieces, spaces, strict=True)
        )
        return text == self._template.spell(ids)

    def _implies_space(self, before: Sequence[int], after: Sequence[int]) -> bool:
        together = self._template.spell([*before, *after])
        return together == f"{self._template.spell(before)} {self._piece(after[0])}"

    def _piece(self, token: int) -> str:
        if token not in self._pieces:
            text = self._template.spell([*self._bracket, token])
            opening = self._template.spell(self._bracket)
            whole = text.startswith(opening) and UNDECODED not in text
            self._pieces[token] = text[len(opening) :] if whole else self._name(token)
        return self._pieces[token]

    def _name(self, token: int) -> str:
        return f"[{self._template.tokenizer.convert_ids_to_tokens([token])[0]}]"
