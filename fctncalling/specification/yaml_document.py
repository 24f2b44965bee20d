"""YAML as JSON would have it: a date is a text, `no` and `on` are texts.

Values are built of the parser's events, so that depth, number, and what aliases and merge keys
unfold to are bounded while they are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fctncalling.specification.api import SpecificationError

MAX_VALUES = 600_000  # twice what the largest public documents hold
MAX_NESTING = 200
MAX_NUMBER = 100  # characters
_TEXT_OF_ONE_VALUE = 100  # characters: a long text counts as several values
_TAG = "tag:yaml.org,2002:"
_BOOL = re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")


@dataclass
class ValueBudget:
    """Budget of the values that one specification may hold, its aliases written out."""

    values_left: int = MAX_VALUES

    def spend(self, count: int, place: str) -> None:
        """Take values; SpecificationError where there are too many."""
        self.values_left -= count
        if self.values_left < 0:
            raise SpecificationError(
                f"{place}: more than {MAX_VALUES:,} values, aliases written out: give the part "
                "that a model is to call"
            )


def read_yaml(text: str, place: str, budget: ValueBudget) -> Any:
    """Return the value of a YAML document; SpecificationError, with its line, where it is none."""
    try:
        import yaml
    except ImportError:
        raise SpecificationError(
            f"{place}: YAML needs PyYAML: pip install 'fctncalling[api]', or give the document as "
            "JSON"
        ) from None
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _Builder(yaml, place, budget).value(yaml.parse(text, loader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise SpecificationError(f"{place}{line}: no YAML: {problem}") from None


@dataclass
class _Open:
    """A list or an object that has not ended."""

    anchor: str | None
    items: list[Any] = field(default_factory=list)  # of an object keys and values in turn
    is_object: bool = False
    size: int = 1  # values, written out


class _Builder:
    def __init__(self, yaml: Any, place: str, budget: ValueBudget) -> None:
        self._yaml = yaml
        self._place = place
        self._budget = budget
        self._constructor = yaml.constructor.SafeConstructor()
        self._plain: dict[str, Any] = {}
        self._merge = object()  # key that stands for <<

    def value(self, events: Iterable[Any]) -> Any:
        """Return the value of the one document that events describe."""
        yaml = self._yaml
        top = _Open(None)
        opened = [top]
        anchors: dict[str, tuple[Any, int]] = {}
        for event in events:
            kind = type(event)
            if kind is yaml.ScalarEvent:
                value = self._scalar(event)
                size = 1 + len(event.value) // _TEXT_OF_ONE_VALUE
            elif kind is yaml.AliasEvent:
                if event.anchor not in anchors:
                    raise self._error(event, f"alias {event.anchor:.40} of nothing that has ended")
                value, size = anchors[event.anchor]
            elif kind in (yaml.MappingStartEvent, yaml.SequenceStartEvent):
                self._require_plain(event, len(opened))
                is_object = kind is yaml.MappingStartEvent
                opened.append(_Open(event.anchor, is_object=is_object))
                continue
            elif kind in (yaml.MappingEndEvent, yaml.SequenceEndEvent):
                ended = opened.pop()
                value, size = self._ended(ended, event), ended.size
                event.anchor = ended.anchor
            else:
                continue
            if kind is not yaml.AliasEvent and event.anchor is not None:
                anchors[event.anchor] = value, size
            ended_value = kind in (yaml.MappingEndEvent, yaml.SequenceEndEvent)
            self._budget.spend(1 if ended_value else size, self._place)
            opened[-1].items.append(value)
            opened[-1].size += size
        if len(top.items) > 1:
            raise SpecificationError(f"{self._place}: no YAML: several documents, expected one")
        return top.items[0] if top.items else None

    def _require_plain(self, event: Any, depth: int) -> None:
        if depth > MAX_NESTING:
            raise self._error(event, f"nests deeper than {MAX_NESTING}")
        if event.tag not in (None, "!", f"{_TAG}map", f"{_TAG}seq"):
            raise self._error(event, f"tag {event.tag:.60} is not read")

    def _ended(self, ended: _Open, event: Any) -> Any:
        if not ended.is_object:
            return ended.items
        found: dict[Any, Any] = {}
        merged: dict[Any, Any] = {}
        each = iter(ended.items)
        for key, value in zip(each, each, strict=True):
            if key is self._merge:
                parts = value if isinstance(value, list) else [value]
                if not all(isinstance(part, Mapping) for part in parts):
                    raise self._error(event, "<< wants an object, or a list of them")
                for part in reversed(parts):
                    merged |= part
            else:
                try:
                    found[key] = value
                except TypeError:
                    raise self._error(event, "a list or an object is no key") from None
        return {**merged, **found}

    def _scalar(self, event: Any) -> Any:
        text: str = event.value
        if event.tag not in (None, "!"):
            return self._made(event.tag, text, event)
        if not event.implicit[0]:
            return text
        if text not in self._plain:
            self._plain[text] = self._of_plain(text, event)
        return self._plain[text]

    def _of_plain(self, text: str, event: Any) -> Any:
        """Return what a text without quotes means."""
        if text == "<<":
            return self._merge
        if _BOOL.match(text):
            return text.lower() == "true"
        for tag, pattern in self._yaml.SafeLoader.yaml_implicit_resolvers.get(text[:1], ()):
            if tag.removeprefix(_TAG) in ("null", "int", "float") and pattern.match(text):
                return self._made(tag, text, event)
        return text

    def _made(self, tag: str, text: str, event: Any) -> Any:
        make: Callable[[Any, Any], Any] | None = self._constructor.yaml_constructors.get(tag)
        kind = tag.removeprefix(_TAG)
        if kind not in ("null", "bool", "int", "float", "str") or make is None:
            raise self._error(event, f"tag {tag:.60} is not read")
        if kind in ("int", "float") and len(text) > MAX_NUMBER:
            raise self._error(event, f"a number of {len(text)} digits: at most {MAX_NUMBER}")
        try:
            return make(self._constructor, self._yaml.ScalarNode(tag, text))
        except (ValueError, KeyError):
            raise self._error(event, f"{text!r:.40} is no {kind}") from None

    def _error(self, event: Any, problem: str) -> SpecificationError:
        return SpecificationError(
            f"{self._place} line {event.start_mark.line + 1}: no YAML: {problem}"
        )
