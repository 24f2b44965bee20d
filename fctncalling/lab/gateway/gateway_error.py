"""GatewayError: a request that is refused, in the form of OpenAI's errors."""

from __future__ import annotations

from typing import Any


class GatewayError(Exception):
    """Refusal of a request: an HTTP status, and one line that says what to change."""

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code

    def body(self) -> dict[str, Any]:
        """Return the error as OpenAI's clients read it."""
        return {
            "error": {
                "message": str(self),
                "type": _TYPES.get(self.status, "invalid_request_error"),
                "param": self.param,
                "code": self.code,
            }
        }


def invalid_field(name: str, message: str) -> GatewayError:
    """Return the refusal of a field of a request, which `message` says what to change in."""
    return GatewayError(400, f"{name}: {message}", param=name)


_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "server_error",
    504: "server_error",
    507: "server_error",
}
