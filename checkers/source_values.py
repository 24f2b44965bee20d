"""Arguments written as Java or JavaScript source text: their classes by documented type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fctncalling.checkers.python_values import (
    Accepted,
    Fault,
    PreparedArgument,
    argument_fault,
    short_repr,
)


class SourceLanguage(NamedTuple):
    """Source language in which BFCL writes arguments: Java or JavaScript."""

    name: str
    error_type: str  # of an argument that is no text
    types: Mapping[str, type]  # documented type -> the class of its values
    list_types: tuple[str, ...]  # documented types whose items have a type too
    value_of: Callable[[str, str, str | None], Any]  # (text, type, type of items) -> value

    def python_class(self, name: Any) -> type:
        """Return the Python class of a documented type; ValueError for an unknown one."""
        if name not in self.types:
            raise ValueError(
                f"documented {self.name} type {name!r}: expected one of {', '.join(self.types)}"
            )
        return self.types[name]

    def prepare_argument(self, value: Any, declared: Mapping[str, Any]) -> PreparedArgument | Fault:
        """Parse an argument's source text for comparison; a fault if it is no text.

        Raises ValueError for an unknown documented type.
        """
        name, item = declared.get("type"), None
        expected = self.python_class(name)
        if name in self.list_types and isinstance(declared.get("items"), Mapping):
            item = declared["items"].get("type")
        item_class = None if item is None else self.python_class(item)
        if type(value) is not str:
            return Fault(
                self.error_type,
                f"expected {self.name} source text, got {type(value).__name__} {short_repr(value)}",
            )
        return PreparedArgument(self.value_of(value, str(name), item), expected, item_class)

    def fault(
        self, parameter: str, value: Any, declared: Mapping[str, Any], accepted: Accepted
    ) -> Fault | None:
        """Return the fault of an argument. Raises ValueError for an unknown type."""
        argument = self.prepare_argument(value, declared)
        if isinstance(argument, Fault):
            return argument
        return argument_fault(parameter, argument, accepted)


def parse_number_or_text(text: str) -> int | float | str:
    """Parse a text as a number; return the text itself if it is none."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
