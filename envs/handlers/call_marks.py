"""Marks that open calls: tests whether one opens in a text, by the grammar of its form."""

from __future__ import annotations

import re
from functools import cache, cached_property

from fctncalling.envs.handlers.call_forms import CALL_FORMS, CallForm

_HOLES = {"name": r"(?P<name>[^\W\d][\w.\-/]*+)", "id": r'[^<>|\[\]{}"\s]*+', "number": r"\w*+"}
# Hole of a body -> what it begins with.
_BODIES: dict[str, str] = dict.fromkeys(("object", "list", "lines"), r"[\[{]")
_BODIES |= {"arguments": r"\{", "python": r"\["}


def flexible(literal: str) -> str:
    """Return a pattern of a literal that allows any blanks between its words."""
    return r"\s*+".join(map(re.escape, literal.split()))


class Way:
    """One way to write calls: patterns that open and close their body."""

    def __init__(self, form: CallForm, parts: list[str]) -> None:
        place = next(index for index, part in enumerate(parts) if index % 2 and part in _BODIES)
        self.body = parts[place]
        self._before = parts[:place]
        self.is_bare = not parts[0].strip()  # without a mark
        self.closing = parts[-1].split()
        self._tagged = bool(form.argument) and self.body == "arguments"
        self._follows = _BODIES[self.body]
        if self.is_bare and self.body == "list" and not form.alone:
            self._follows = r"\[\s*\{"
        if self._tagged:
            ends = flexible(form.argument_parts[0]), re.escape(self.closing[0])
            self._follows = f"(?:{'|'.join(ends)})"

    @cached_property
    def opening(self) -> re.Pattern[str]:
        """Pattern of the text before a body, with a lookahead on the body's first character."""
        # Blanks may be missing, but not the line's end behind a name with nothing in front. No
        # pattern of blanks meets another: 65,000 blanks would take minutes.
        pattern = ""
        for index, part in enumerate(self._before):
            if part == "\n":
                pattern += r"[^\S\n]*+\n" if self.is_bare else ""
            elif piece := _HOLES[part] if index % 2 else flexible(part):
                pattern += rf"\s*+{piece}"
        return re.compile(rf"{pattern}\s*+(?={self._follows})")

    @cached_property
    def close(self) -> re.Pattern[str]:
        """Pattern of the text after a body; it may be missing at the text's end, but for tags."""
        pattern = ""
        for word in reversed(self.closing):
            pattern = rf"\s*(?:{re.escape(word)}{pattern}|\Z)"
        if self._tagged:
            pattern = pattern.removesuffix(r"|\Z)") + ")"
        return re.compile(pattern)


@cache
def ways_of(form: CallForm) -> tuple[Way, ...]:
    """Return the ways to write calls in a form, as patterns."""
    return tuple(Way(form, parts) for parts in form.ways)


FORMS_BY_MARK: dict[str, tuple[CallForm, ...]] = {
    mark: tuple(form for form in CALL_FORMS.values() if mark in form.marks)
    for mark in dict.fromkeys(mark for form in CALL_FORMS.values() for mark in form.marks)
}
"""Mark -> the forms that it opens, in their table's order."""
_TAGS = ["<functions>", *(mark for mark in FORMS_BY_MARK if mark[0] in "<[]")]
MARK = re.compile("|".join(map(re.escape, sorted(_TAGS, key=len, reverse=True))))
"""The marks that are tags or special tokens, in any text; words that are marks are in `WORDS`."""
_SPECIAL = ("<|", "<\uff5c", "[TOOL", "]<]")  # begin special tokens, which stand anywhere in a line

# What follows the mark of a call that was tried, rather than of one that is named in prose: the end
# of the text; an object, a list with something in it, a text or a tag; nothing but the tag that
# closes; a channel's address; or a name, and behind it a bracket, a tag, the end of the line or the
# text, a number, an attribute, or a value.
_TRIED = re.compile(
    r"""\s*(?:\Z|\{|\[(?!\s*\])|["'](?=\w)|\]<\]|<(?:[\w|\uff5c]|\Z)|</[\w:]+>\s*\Z|to=\w"""
    r"""|[^\W\d][\w.\-/]*(?:[(\[{<\n]|>\s*(?:\Z|[<{])|:\d|\s+\w+="|\s*(?:\Z|[:=]\s*(?:["'{]|\Z))))"""
)
_KEYS = "name|function|tool_name|tool_calls|arguments|parameters|type|id"
# Calls at the start of a text that no mark opens: JSON, in a fence or a list perhaps, with a key of
# calls, or cut before it; a name in a line of its own, an object below it; words that are marks.
_BARE = re.compile(
    rf"""\s*(?:(?:```\w*\s*)?(?:\[\s*)?\{{\s*(?:\Z|["'](?:(?:{_KEYS})["']|\w{{0,9}}\Z))"""
    r"""|[^\W\d][\w.\-/]*\n\{["']\w|>>>[\w.\-/]*(?:\n|\Z)|to=functions\.)"""
)
_LED = r"functools\[\{|Action:\s*(?:```|[\w.\-/]+\s+Action Input:)"  # calls that begin a line
_LINE = re.compile(f"{MARK.pattern}|{_LED}")
WORDS = re.compile(r"\s*(?:[\w.\-/]+\n\{|>>>|to=functions\.|Action:|functools\[)")
"""What opens calls of forms whose marks are words, at the start of a text."""
_AT_START = re.compile(rf"[\s`]*(?:\[|\{{|{_LINE.pattern})")


def is_opened(text: str, mark: re.Match[str]) -> bool:
    """Whether a call, complete or not, begins at a mark, rather than prose about the mark."""
    return _TRIED.match(text, mark.end()) is not None


def is_within_call(text: str, place: int) -> bool:
    """Whether a place is inside a call: after a mark that opens one, before its closing mark."""
    if not text[:place].strip():
        return False
    if _AT_START.match(text) or _BARE.match(text):
        return True
    index = 0
    while mark := MARK.search(text, index, place):
        index = mark.end()
        if is_opened(text, mark):
            ways = (way for form in FORMS_BY_MARK.get(mark[0], ()) for way in ways_of(form))
            ends = [text.find(way.closing[0], index) for way in ways if way.closing]
            end = min((end for end in ends if end >= 0), default=-1)
            if end < 0:
                return text.count('"', index, place) % 2 == 1
            if end > place:
                return mark[0] not in text[place:end]
            index = end
    return False


def bears_mark(text: str) -> bool:
    """Whether a call opens in a message without thoughts.

    At the start of a line, or with a special token anywhere; the grammar of a form, or the end of
    the text, follows. Marks that are named in words are none.
    """
    last = text[text.rfind("\n") + 1 :].strip(" \t`")
    is_cut = len(last) > 1 and last[0] in "<[]" and any(mark.startswith(last) for mark in _TAGS)
    if is_cut or _BARE.match(text):
        return True
    if "<" not in text and "[" not in text and "Action:" not in text:  # and so no mark
        return False
    for mark in _LINE.finditer(text):
        line = text.rfind("\n", 0, mark.start()) + 1
        if (mark[0].startswith(_SPECIAL) or not text[line : mark.start()].strip()) and (
            mark[0][0] not in "<[]" or is_opened(text, mark)
        ):
            return True
    return False
