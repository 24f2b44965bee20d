"""Redaction of secrets in what an endpoint answers."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

REDACTED = "[redacted]"
_LEAST_IN_ERRORS, _LEAST_IN_ANSWERS = 4, 6
"""Shortest secret that is searched for: a placeholder such as "none" may be a word of an answer."""
_CREDENTIALS = re.compile(r"(?<=://)[^/\s?#\"'<>]+@")


class Redactor:
    """Redactor of secrets in texts, however an endpoint writes them back.

    API keys and URL credentials never reach results, logs or error messages.
    """

    def __init__(self, key: str, url: str) -> None:
        secrets = {key, *_credentials(url)} - {""}
        self._in_errors = _pattern(secrets, _LEAST_IN_ERRORS)
        self._in_answers = _pattern(secrets, _LEAST_IN_ANSWERS)

    def redact_text(self, text: str) -> str:
        """Redact an error text: its secrets, and the credentials of URLs."""
        return _CREDENTIALS.sub(f"{REDACTED}@", _replaced(self._in_errors, text))

    def redact_json(self, value: Any) -> Any:
        """Redact the secrets in a JSON value; RecursionError if it nests too deep."""
        if isinstance(value, str):
            return _replaced(self._in_answers, value)
        if isinstance(value, Mapping):
            return {self.redact_json(key): self.redact_json(item) for key, item in value.items()}
        return [self.redact_json(item) for item in value] if isinstance(value, list) else value


def without_credentials(url: str) -> str:
    """Return a URL without credentials: user, password and query."""
    return _CREDENTIALS.sub("", url).partition("?")[0]


def _credentials(url: str) -> set[str]:
    """Return the password of a URL, and user and password together as HTTP sends them."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return set()
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if not user and not password:
        return set()
    pair = f"{user}:{password}"
    own = {password, pair} if password else {user}  # a token alone
    return {*own, _base64(pair)}


def _pattern(secrets: set[str], least: int) -> re.Pattern[str] | None:
    long_enough = {secret for secret in secrets if len(secret) >= least}
    forms = {*long_enough, *map(_base64, long_enough)}
    longest_first = sorted(forms, key=len, reverse=True)
    return re.compile("|".join(map(_however_written, longest_first))) if forms else None


def _base64(secret: str) -> str:
    return base64.b64encode(secret.encode()).decode().rstrip("=")


def _however_written(secret: str) -> str:
    r"""Return the pattern of a text whose characters may be escaped.

    By backslashes, as JSON in JSON has them, as \u005c, or as %5C.
    """
    return "".join(map(_character, secret))


def _character(char: str) -> str:
    plain = char if char.isalnum() else rf"\\*{re.escape(char)}"
    units = char.encode("utf-16-be").hex()
    escaped = "".join(rf"\\+u{units[at : at + 4]}" for at in range(0, len(units), 4))
    percent = "".join(f"%{byte:02x}" for byte in char.encode())
    return f"(?:{plain}|(?i:{escaped}|{percent}))"


def _replaced(pattern: re.Pattern[str] | None, text: str) -> str:
    return text if pattern is None else pattern.sub(REDACTED, text)
