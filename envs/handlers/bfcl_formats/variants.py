"""Handlers of format sensitivity's prompt configurations."""

from __future__ import annotations

from collections.abc import Sequence

from fctncalling.data.format_sensitivity import PromptVariant
from fctncalling.data.types import Call
from fctncalling.envs.handlers.bfcl_formats.json_and_tagged import JsonReturn, TaggedPython
from fctncalling.envs.handlers.bfcl_formats.xml import ConciseXml, VerboseXml
from fctncalling.envs.handlers.handler import DecodedAction, Handler
from fctncalling.envs.handlers.python_calls import PythonCalls

RETURN_HANDLERS: dict[tuple[str, bool], Handler] = {
    ("python", False): PythonCalls(),
    ("python", True): TaggedPython(),
    **{
        (form.format, tagged): form(tagged=tagged)
        for form in (JsonReturn, VerboseXml, ConciseXml)
        for tagged in (False, True)
    },
}
"""(BFCL's return format, whether it is tagged) -> the handler that reads and writes it."""


class VariantCalls(Handler):
    """Handler of a prompt variant's return format.

    Its name is the variant's, which words the instructions.
    """

    def __init__(self, variant: PromptVariant) -> None:
        self.variant = variant
        self.name = str(variant)
        self._form = RETURN_HANDLERS[variant.return_format, variant.tagged]

    def recognises(self, text: str) -> bool:
        """Whether the text looks as if it were meant in the return format."""
        return self._form.recognises(text)

    def decode_action(self, text: str) -> DecodedAction:
        """Decode a text once; raises DecodeError."""
        return self._form.decode_action(text)

    def render(self, calls: Sequence[Call]) -> str:
        """Return the canonical text of calls; ValueError for what the format cannot say."""
        return self._form.render(calls)
