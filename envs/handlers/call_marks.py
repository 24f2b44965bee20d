"""Marks that open calls: where one stands in a text with its form's grammar behind it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fctncalling.envs.handlers.call_format import skip_blanks
from fctncalling.envs.handlers.call_forms import CALL_FORMS, CallForm

NAME = re.compile(r"[^\W\d][\w.\-/]*")
WORD = re.compile(r"[^<>|\[\]{}\"\s]*")
CUT, ABSENT = -1, -2  # the text ends within a literal; something else stands there
_BODIES = {"arguments": "{", "object": "{", "list": "[{", "lines": "{[", "python": "["}
FORMS_BY_MARK: dict[str, tuple[CallForm, ...]] = {
    mark: tuple(form for form in CALL_FORMS.values() if mark in form.marks)
    for mark in sorted({mark for form in CALL_FORMS.values() for mark in form.marks} - {""})
}
"""Mark -> the forms that it opens, in their table's order."""
OTHER_MARKS = ("[TOOL_CALLS]", "<|python_tag|>", "<|python_start|>", "<functions>")
"""Marks of forms that handlers of their own read."""
_ANY = "|".join(map(re.escape, sorted((*FORMS_BY_MARK, *OTHER_MARKS), key=len, reverse=True)))
MARK = re.compile(_ANY)
_SPECIAL = re.compile(r"<[|｜]|\[TOOL")  # a special token's, which stands anywhere
# What follows a broken call's mark: an object, a text, or a name with what no prose has behind it.
_TRIED = re.compile(
    r"""\s*(?:\Z|\{|\[(?!\s*\])|["'](?=\w)|<\w|[^\W\d][\w.\-/]*(?:\s*(?:\Z|[(\[{<]|:\s*["'{])|\n))"""
)
_EMPTY = re.compile(r"\s*</[\w:]+>\s*\Z")
_KEYS = "name|function|tool_name|tool_calls|arguments|parameters|type|id"
_BARE = re.compile(  # JSON with nothing in front, cut perhaps; a call behind its name
    rf"""\s*(?:```\w*\s*)?(?:\[\s*)?\{{\s*(?:\Z|["'](?:(?:{_KEYS})["']|\w{{0,9}}\Z))"""
    r"|\s*[^\W\d][\w.\-/]*\n\{"
)
_AT_START = re.compile(rf"[\s`]*(?:\[(?!/?THINK)|\{{|{_ANY})")


def literal_end(literal: str, text: str, index: int) -> int:
    """Return the index behind a literal, whatever blanks are in it; else CUT or ABSENT."""
    for token in literal.split():
        index = skip_blanks(text, index)
        if not text.startswith(token, index):
            rest = text[index : index + len(token)]
            is_cut = index + len(rest) == len(text) and token.startswith(rest)
            return CUT if is_cut else ABSENT
        index += len(token)
    return index


def opens_at(form: CallForm, way: list[str], text: str, index: int) -> bool:
    """Whether a call written in a way opens at an index: as far as its body or the text's end."""
    for place, part in enumerate(way):
        if place % 2 == 0:
            index = literal_end(part, text, index)
            if index < 0:
                return index == CUT
        elif part in ("name", "id", "number"):
            found = (NAME if part == "name" else WORD).match(text, index)
            if found is None:
                return index == len(text)
            index = found.end()
        else:
            index = skip_blanks(text, index)
            if index == len(text) or part != "arguments" or not form.argument:
                return text[index : index + 1] in _BODIES[part]
            following = (form.argument_parts[0], *way[place + 1].split()[:1])
            return any(literal_end(each, text, index) != ABSENT for each in following)
    return True


def form_at(text: str, index: int, mark: str) -> CallForm | None:
    """Return the form whose call opens with a mark at an index; None where the mark is named."""
    for form in FORMS_BY_MARK.get(mark, ()):
        if any(opens_at(form, way, text, index) for way in form.openings):
            return form
    return None


def is_opened(text: str, index: int, mark: str) -> bool:
    """Whether a call, whole or broken, opens with a mark at an index, rather than its name."""
    end = index + len(mark)
    tried = mark[0] in "<[" and (_TRIED.match(text, end) or _EMPTY.match(text, end))
    return bool(tried) or form_at(text, index, mark) is not None


def opened_marks(text: str) -> Iterator[tuple[int, str]]:
    """Yield the places and marks at which calls open, whole or broken."""
    return (
        (each.start(), each[0])
        for each in MARK.finditer(text)
        if is_opened(text, *each.span()[:1], each[0])
    )


def opens_with_call(text: str) -> bool:
    """Whether a text begins with what opens calls: a mark, a list or an object."""
    return _AT_START.match(text) is not None


def bears_mark(text: str) -> bool:
    """Whether a call opens in a message without thoughts.

    At the start of a line, or with a special token anywhere; the grammar of a form, or the end of
    the text, follows. Marks that are named in words are none.
    """
    if _BARE.match(text):
        return True
    last = text[text.rfind("\n") + 1 :].lstrip(" \t`")
    if (
        len(last) > 1
        and last[0] in "<["
        and any(mark.startswith(last) for mark in (*FORMS_BY_MARK, *OTHER_MARKS))
    ):
        return True
    return any(
        _SPECIAL.match(mark) or not text[text.rfind("\n", 0, start) + 1 : start].strip(" \t`")
        for start, mark in opened_marks(text)
    )
