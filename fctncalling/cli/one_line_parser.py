"""Command lines whose mistakes are told in one line, with the nearest flag, instead of below a screen of usage."""

from __future__ import annotations

import argparse
import difflib
import sys
from typing import NoReturn


class OneLineParser(argparse.ArgumentParser):
    """An ArgumentParser that says what is wrong, and where the flags are listed."""

    def error(self, message: str) -> NoReturn:
        """Print the mistake and exit with 2."""
        unknown, _, words = message.partition("unrecognized arguments: ")
        near = [] if unknown or not words else self._nearest(words.split()[0].partition("=")[0])
        hint = f"; is {near[0]} meant?" if near else ""
        print(f"error: {message}{hint} (--help lists every flag)", file=sys.stderr)
        raise SystemExit(2)

    def _nearest(self, word: str) -> list[str]:
        return difflib.get_close_matches(word, list(self._option_string_actions), n=1, cutoff=0.75)
