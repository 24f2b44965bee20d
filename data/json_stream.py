"""Streaming reader of a JSON array or JSON Lines: entries one at a time, with their line numbers.

BFCL's files are JSON Lines in spite of their `.json` names; merged files are one JSON array. The
first character tells which. Memory holds one entry and one chunk, however long the file is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, TextIO

from fctncalling.data.errors import Location, TaskError

CHUNK_CHARS = 1 << 16
BLANK = " \t\r\n"
# An error this close to the end of the text read so far may only mean that a word (-Infinity,
# \\uXXXX) is cut in two by the chunk.
LONGEST_WORD_CHARS = 16
MAX_LINE_CHARS = 1 << 25
"""Longest line, and longest entry of an array: a hundred times what a long episode needs."""
EXPECTED = "expected one JSON object a line, or one JSON array of objects"


class LongLineError(ValueError):
    """Error of a line too long to read into memory."""


def bounded_lines(stream: IO[str]) -> Iterator[str]:
    """Yield the lines of a stream; raise LongLineError, with the number, for too long a line."""
    number = 0
    while text := stream.readline(MAX_LINE_CHARS + 1):
        number += 1
        if len(text) > MAX_LINE_CHARS:
            raise LongLineError(
                f"line {number}: has more than {MAX_LINE_CHARS:,} characters: expected one JSON "
                "object a line"
            )
        yield text


def read_entries(path: Path) -> Iterator[tuple[int, Any]]:
    """Read every entry of a JSON array or JSON Lines file: yield (line number, value).

    Raises TaskError where it is missing, empty or broken.
    """
    if path.exists() and not path.is_dir() and not path.is_file():
        raise TaskError(f"{path}: is a device or a pipe: expected a file")  # it may have no end
    try:
        with path.open(encoding="utf-8-sig") as stream:
            window = _Window(stream, path)
            first = window.peek()
            if first == "":
                raise TaskError(f"{path}: the file is empty: {EXPECTED}")
            if first == "[":
                yield from _array_entries(window)
                return
            stream.seek(0)
            yield from _line_entries(stream, path)
    except LongLineError as error:
        raise TaskError(f"{path} {error}") from None
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        raise TaskError(f"{path}: no such file ({error.strerror}): {EXPECTED}") from None
    except UnicodeDecodeError as error:
        raise TaskError(f"{path}: not UTF-8 text ({error.reason}): {EXPECTED}") from None


def _line_entries(stream: TextIO, path: Path) -> Iterator[tuple[int, Any]]:
    for line, text in enumerate(bounded_lines(stream), start=1):
        if text.isspace():
            continue
        try:
            value = json.loads(text)
        except json.JSONDecodeError as error:
            raise Location(path, line).error(
                f"broken JSON ({error.msg}, column {error.colno}): {EXPECTED}"
            ) from None
        except (RecursionError, ValueError) as error:
            raise Location(path, line).error(
                f"JSON beyond what can be read ({error}): {EXPECTED}"
            ) from None
        yield line, value


def _array_entries(window: _Window) -> Iterator[tuple[int, Any]]:
    window.take()
    if window.peek() == "]":
        window.take()
    else:
        closing = ","
        while closing == ",":
            if not window.peek():
                raise window.error("the array does not end")
            line = window.line
            yield line, window.value()
            closing = window.peek()
            if closing not in (",", "]"):
                raise window.error(
                    "expected ',' or ']' after the entry" if closing else "the array does not end"
                )
            window.take()
    if window.peek():
        raise window.error("text after the array")


class _Window:
    """Sliding piece of the file: the unread rest of the last chunk, and its line number."""

    def __init__(self, stream: TextIO, path: Path) -> None:
        self.line = 1
        self._stream = stream
        self._path = path
        self._text = ""
        self._at = 0
        self._ended = False
        self._decoder = json.JSONDecoder()

    def error(self, text: str, line: int | None = None) -> TaskError:
        return Location(self._path, self.line if line is None else line).error(
            f"broken JSON ({text}): {EXPECTED}"
        )

    def peek(self) -> str:
        """Return the next character that is not blank, "" at the end of the file."""
        while True:
            while self._at < len(self._text):
                char = self._text[self._at]
                if char not in BLANK:
                    return char
                self.line += char == "\n"
                self._at += 1
            if self._ended:
                return ""
            self._fill()

    def take(self) -> None:
        """Skip the character that `peek` returned."""
        self._at += 1

    def value(self) -> Any:
        """Decode the JSON value that begins at the character that `peek` returned."""
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                # The decoder cannot tell a broken value from one that the chunk cuts: read on while
                # the error may come from the cut.
                if self._ended or not self._may_go_on(error):
                    line = self.line + self._text.count("\n", self._at, error.pos)
                    raise self.error(error.msg, line) from None
                self._fill()
            except (RecursionError, ValueError) as error:
                raise self.error(str(error)) from None
            else:
                self.line += self._text.count("\n", self._at, end)
                self._at = end
                return value

    def _may_go_on(self, error: json.JSONDecodeError) -> bool:
        return (
            error.msg.startswith("Unterminated")
            or error.pos >= len(self._text) - LONGEST_WORD_CHARS
        )

    def _fill(self) -> None:
        # Doubling the text keeps a long entry linear: it is decoded anew after each read, about
        # log2(length / CHUNK_CHARS) times.
        rest = self._text[self._at :]
        if len(rest) > MAX_LINE_CHARS:
            raise self.error(f"an entry of more than {MAX_LINE_CHARS:,} characters")
        more = self._stream.read(max(CHUNK_CHARS, len(rest)))
        self._ended = not more
        self._text = rest + more
        self._at = 0
