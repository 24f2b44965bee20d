"""Function docs of API classes: BFCL's `multi_turn_func_doc/` files, or the user's."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fctncalling.data.errors import Location, TaskError
from fctncalling.data.json_stream import read_entries
from fctncalling.data.types import FunctionDoc
from fctncalling.data.validation import explain_invalid, is_function_doc

DocSource = str | Path | Mapping[str, Iterable[Mapping[str, Any] | FunctionDoc]]
"""A folder of doc files, one doc file, or a mapping of class name to docs."""

DOC_FILES = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
    "WebSearchAPI": "web_search",
    "MemoryAPI_kv": "memory_kv",
    "MemoryAPI_vector": "memory_vector",
    "MemoryAPI_rec_sum": "memory_rec_sum",
}
"""BFCL's class names and the stems of their doc files; any other class is looked for under its name
in snake case.
"""

# The backend that documents it (key-value, vector, summary) is chosen when the task is run, not in
# the task file.
WITHOUT_DOCS = frozenset({"MemoryAPI"})


class MissingDocs(TaskError):
    """Error of a class without documented functions."""


class FunctionDocs:
    """Function docs by class, each file read once and shared by the tasks that name the class.

    Of `self_documented` classes docs may be missing. `packaged` is a folder to read where the
    source is a path at which nothing is.
    """

    def __init__(
        self,
        source: DocSource,
        self_documented: frozenset[str] = frozenset(),
        packaged: Path | None = None,
    ) -> None:
        self._packaged = packaged
        self.self_documented = self_documented
        self._source = Path(source) if isinstance(source, str) else source
        self._of_class: dict[str, tuple[FunctionDoc, ...]] = {}
        self._by_name: dict[str, FunctionDoc] | None = None

    def class_docs(
        self, classes: Sequence[str], place: Location, self_documented: Collection[str] = ()
    ) -> tuple[FunctionDoc, ...]:
        """Return the function docs of some classes, in their order.

        TaskError at `place` where a class without docs is not in `self_documented`.
        """
        return tuple(doc for name in classes for doc in self._docs_of(name, place, self_documented))

    def by_name(
        self,
        name: str,
        classes: Sequence[str],
        place: Location,
        self_documented: Collection[str] = (),
    ) -> FunctionDoc:
        """Return a function's doc by its name: of the involved classes first, then of any."""
        for doc in self.class_docs(classes, place, self_documented):
            if doc.name == name:
                return doc
        if self._by_name is None:
            self._by_name = {doc.name: doc for doc in self._all()}
        if name not in self._by_name:
            involved = (
                ", ".join(doc.name for doc in self.class_docs(classes, place, self_documented))
                or "none"
            )
            raise place.error(
                f'function: "{name}" has no function doc: expected a name documented in '
                f"{self._where()} (of the involved classes: {involved})"
            )
        return self._by_name[name]

    def _docs_of(
        self, name: str, place: Location, self_documented: Collection[str]
    ) -> tuple[FunctionDoc, ...]:
        if name in self._of_class:
            return self._of_class[name]
        try:
            docs = () if name in WITHOUT_DOCS else self._find(name, place)
        except MissingDocs:
            if name in self_documented:
                return ()
            raise
        self._of_class[name] = docs
        return docs

    def _find(self, name: str, place: Location) -> tuple[FunctionDoc, ...]:
        if isinstance(self._source, Mapping):
            if name in self._source:
                return tuple(_from_mapping(self._source[name], f'function docs of class "{name}"'))
            available = ", ".join(self._source) or "none"
        else:
            stems = (DOC_FILES.get(name, _snake_case(name)), name)
            for file in (*self._files(), *self._packaged_files()):
                if file.stem in stems:
                    return tuple(_from_file(file))
            available = ", ".join(file.name for file in self._files() if file.exists()) or "none"
            available = f"{available} (looked for {stems[0]}.json)"
        raise MissingDocs(
            f'{place}: involved_classes: class "{name}" has no function docs. A class of your own: '
            f'--tools {name}=MODULE:CLASS, in Python tools={{"{name}": class}}. Else: docs in '
            f"{self._where()}, which has {available}"
        )

    def _files(self) -> list[Path]:
        assert isinstance(self._source, Path)
        return sorted(self._source.glob("*.json")) if self._source.is_dir() else [self._source]

    def _packaged_files(self) -> list[Path]:
        """List the packaged docs of BFCL's classes if the source is missing."""
        if self._packaged is None or self._source_exists():
            return []
        return sorted(self._packaged.glob("*.json"))

    def _source_exists(self) -> bool:
        return isinstance(self._source, Mapping) or self._source.exists()

    def _all(self) -> Iterator[FunctionDoc]:
        if isinstance(self._source, Mapping):
            for name, docs in self._source.items():
                yield from _from_mapping(docs, f'function docs of class "{name}"')
        else:
            for file in (*self._files(), *self._packaged_files()):
                if file.exists():
                    yield from _from_file(file)

    def _where(self) -> str:
        return "the function_docs given" if isinstance(self._source, Mapping) else str(self._source)


def parse_function_doc(raw: Mapping[str, Any]) -> FunctionDoc:
    """Convert a checked JSON doc to a FunctionDoc; `parameters` is shared."""
    return FunctionDoc(raw["name"], raw["description"], raw["parameters"], raw.get("response"))


def _from_file(path: Path) -> Iterator[FunctionDoc]:
    for line, raw in read_entries(path):
        if not is_function_doc(raw):
            raise Location(path, line).error(explain_invalid(raw, "function_doc"))
        yield parse_function_doc(raw)


def _from_mapping(
    docs: Iterable[Mapping[str, Any] | FunctionDoc], where: str
) -> Iterator[FunctionDoc]:
    for raw in docs:
        if isinstance(raw, FunctionDoc):
            yield raw
        elif is_function_doc(raw):
            yield parse_function_doc(raw)
        else:
            raise TaskError(f"{where}: {explain_invalid(raw, 'function_doc')}")


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
