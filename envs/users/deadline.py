"""A deadline for what may hang."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from fctncalling.envs.errors import InfrastructureError


def within(seconds: float, work: Callable[[], Any], name: str) -> Any:
    """Return the result of some work; its exceptions are raised here.

    Raises InfrastructureError where it takes longer: its thread is left behind, and ends with the
    process at the latest.
    """
    result: list[Any] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            result.append(work())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, name=f"user {name}", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise InfrastructureError(f"user {name}: no answer within {seconds:g} s")
    if failure:
        raise InfrastructureError(
            f"user {name}: {type(failure[0]).__name__}: {failure[0]}"
        ) from failure[0]
    return result[0]
