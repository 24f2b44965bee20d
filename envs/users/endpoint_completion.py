"""A chat completion of an OpenAI-compatible endpoint, by the standard library alone."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from fctncalling.data.types import Message
from fctncalling.data.unsafe_text import encodable_value
from fctncalling.envs.errors import InfrastructureError

BASE_URL = "https://api.openai.com/v1"
API_KEY = "OPENAI_API_KEY"
MAX_BYTES = 2**20  # of an answer
MAX_TOKENS = 120
ATTEMPTS = 3
_TRANSIENT = (408, 409, 425, 429)


class EndpointChatModel:
    """Chat model behind an endpoint, greedy and seeded, with retries.

    `base_url`: none for `OPENAI_BASE_URL`, else OpenAI's. The key is that of `OPENAI_API_KEY`.
    Raises ValueError for an address that is none of http or https.
    """

    def __init__(
        self, model: str, base_url: str = "", *, seed: int = 0, timeout_s: float = 30.0
    ) -> None:
        base = base_url or os.environ.get("OPENAI_BASE_URL") or BASE_URL
        if not base.startswith(("http://", "https://")):
            raise ValueError(f'user openai:{model}: address "{base}": expected http:// or https://')
        self.model = model
        self.url = f"{base.rstrip('/')}/chat/completions"
        self._seed = seed
        self._timeout_s = timeout_s

    def __call__(self, messages: list[Message]) -> str:
        """Return the text of the model's message; raises InfrastructureError."""
        from urllib.error import HTTPError

        body = {
            "model": self.model,
            "messages": messages,
            "temperature": 0.0,
            "seed": self._seed,
            "max_tokens": MAX_TOKENS,
        }
        data = json.dumps(encodable_value(body), ensure_ascii=False).encode()
        for attempt in range(ATTEMPTS):
            last = attempt + 1 == ATTEMPTS
            try:
                return _text(self._post(data))
            except HTTPError as error:
                if last or not (error.code in _TRANSIENT or error.code >= 500):
                    raise InfrastructureError(f"{self.url}: HTTP {error.code}") from None
            except OSError as error:  # refused, timed out, broken off
                if last:
                    raise InfrastructureError(f"{self.url}: {_why(error)}") from None
            time.sleep(0.2 * 2.0**attempt)
        raise AssertionError("the last attempt returns or raises")

    def _post(self, data: bytes) -> bytes:
        from urllib.request import Request, urlopen  # late: they take as long as all of ours

        headers = {"Content-Type": "application/json"}
        if key := os.environ.get(API_KEY, "").strip():
            headers["Authorization"] = f"Bearer {key}"
        request = Request(self.url, data=data, headers=headers)
        with urlopen(request, timeout=self._timeout_s) as reply:
            answer: bytes = reply.read(MAX_BYTES + 1)
        if len(answer) > MAX_BYTES:
            raise InfrastructureError(f"{self.url}: the answer has more than {MAX_BYTES:,} bytes")
        return answer


def _text(data: bytes) -> str:
    """Return the text of an answer; "" where its message has none."""
    try:
        message: Any = json.loads(data)["choices"][0]["message"]
        content = message.get("content")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        shown = data[:80].decode("utf-8", "replace")
        raise InfrastructureError(f"no message in the answer: {shown!r}") from None
    return content if isinstance(content, str) else ""


def _why(error: OSError) -> str:
    reason = getattr(error, "reason", None)
    return str(reason or error or type(error).__name__)
