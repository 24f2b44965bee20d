"""Redaction of secrets: API keys and URL credentials never reach results,
logs or error messages.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote, urlsplit

REDACTED = "[redacted]"
_LEAST_IN_ERRORS, _LEAST_IN_ANSWERS = 4, 6
"""Shortest secret that is searched for: a placeholder such as "none" may be a word of an answer."""
_CREDENTIALS = re.compile(r"(?<=://)[^/\s?#\"'<>]+@")


class Redactor:
    """Replaces known secrets, however an endpoint writes them back."""

    def __init__(self, key: str, url: str) -> None:
        secrets = {key, *_credentials(url)} - {""}
        self._in_errors = _pattern(secrets, _LEAST_IN_ERRORS)
        self._in_answers = _pattern(secrets, _LEAST_IN_ANSWERS)

    def error(self, text: str) -> str:
        """Return an error text without secrets and without the credentials of any URL."""
        return _CREDENTIALS.sub(f"{REDACTED}@", _replaced(self._in_errors, text))

    def answer(self, value: Any) -> Any:
        """Return a JSON value without secrets; RecursionError if it nests too deep."""
        if isinstance(value, str):
            return _replaced(self._in_answers, value)
        if isinstance(value, Mapping):
            return {self.answer(key): self.answer(item) for key, item in value.items()}
        return [self.answer(item) for item in value] if isinstance(value, list) else value


def without_credentials(url: str) -> str:
    """Return a URL as it may be shown: without user, password and query."""
    return _CREDENTIALS.sub("", url).partition("?")[0]


def _credentials(url: str) -> set[str]:
    """Return the password of a URL, and user and password together as HTTP sends them."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return set()
    if parts.password is None:
        return {unquote(parts.username or "")}  # a token alone
    password = unquote(parts.password)
    pair = f"{unquote(parts.username or '')}:{password}"
    return {password, pair, base64.b64encode(pair.encode()).decode()}


def _pattern(secrets: set[str], least: int) -> re.Pattern[str] | None:
    forms = {
        form
        for secret in secrets
        if len(secret) >= least
        for form in (
            secret,
            quote(secret, safe=""),
            base64.b64encode(secret.encode()).decode(),
        )
    }
    longest_first = sorted(forms, key=len, reverse=True)
    return re.compile("|".join(map(_escaped_or_not, longest_first))) if forms else None


def _escaped_or_not(secret: str) -> str:
    """Return the pattern of a text with backslashes before its marks, as JSON in JSON has them."""
    return "".join(char if char.isalnum() else rf"\\*{re.escape(char)}" for char in secret)


def _replaced(pattern: re.Pattern[str] | None, text: str) -> str:
    return text if pattern is None else pattern.sub(REDACTED, text)
