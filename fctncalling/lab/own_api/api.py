"""OwnApi: a user's functions in one form, whatever they were specified in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fctncalling.data.types import FunctionDoc


class SpecificationError(ValueError):
    """Specification that cannot be used; the message names the place and the cure in one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


@dataclass(frozen=True)
class OwnApi:
    """An API: its functions with BFCL's types, all names unique and such as a call can bear.

    What BFCL's form of a parameter cannot say (patterns, examples, alternatives) is in `schemas`:
    JSON Schema without references, by function and parameter. `original_names` maps a function to
    the specification's name for it where that differs, `original_parameters` likewise.
    """

    name: str
    functions: tuple[FunctionDoc, ...]
    source: str  # the SPEC text
    tool_class: str | None = None  # "module:Class" of a Python class
    mcp: str | None = None  # a server's command or address
    scenarios: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()  # what was guessed or left out, for the user
    schemas: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    original_names: Mapping[str, str] = field(default_factory=dict)
    original_parameters: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @property
    def executes(self) -> bool:
        """Whether its functions can be executed."""
        return self.tool_class is not None or self.mcp is not None

    def function(self, name: str) -> FunctionDoc:
        """Return the function of a name; KeyError where there is none."""
        for each in self.functions:
            if each.name == name:
                return each
        raise KeyError(name)
