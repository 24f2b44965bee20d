"""Episodes as people see them: readable colours, and tokens as the text that they are."""

from __future__ import annotations

import io
import re

import pytest
from tokenizers_for_text import TOKENIZERS

from fctncalling import TextHistory
from fctncalling.lab.text_environment.text_history import STYLES, token_text


def luminance(colour: str) -> float:
    """Return the relative luminance of #rrggbb, as WCAG 2 defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("paint", STYLES, ids=lambda paint: paint.label)
def test_text_on_colour_has_the_contrast_of_wcag_aa(paint: tuple[str, str, str]) -> None:
    _, style, background = paint
    front, behind = style.split(" on ")
    assert behind == background
    light, dark = sorted((luminance(front), luminance(behind)), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5


@pytest.mark.parametrize("name", TOKENIZERS)
def test_tokens_are_shown_as_text_and_never_in_a_tokenizers_own_marks(name: str) -> None:
    tokenizer = TOKENIZERS[name]()
    ids = tokenizer("What is 36 * 44 ?", add_special_tokens=False).input_ids
    texts = [token_text(tokenizer, ids, position) for position in range(len(ids))]
    assert "".join(texts).strip() == "What is 36 * 44 ?"
    history = TextHistory("What is 36 * 44 ?", ids)
    assert not re.search("[ĠĊ▁]|##", history.to_html(tokenizer))
    rich = pytest.importorskip("rich.console")
    console = rich.Console(file=io.StringIO(), width=200)
    history.show_tokens(tokenizer, console=console)
    assert not re.search("[ĠĊ▁]|##", console.file.getvalue())


def test_a_part_of_a_character_is_shown_as_its_token() -> None:
    tokenizer = TOKENIZERS["byte-level"]()
    ids = tokenizer("漢", add_special_tokens=False).input_ids
    assert len(ids) > 1
    assert token_text(tokenizer, ids, 0).startswith("[")
