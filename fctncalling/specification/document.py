"""Documents of a specification: JSON, JSON Lines and YAML, and the references in them.

A document may be a stranger's: nothing but files below the first one's folder is read, and all of
them together are bounded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from referencing import Registry, Resource, Specification
from referencing.exceptions import PointerToNowhere, Unresolvable

from fctncalling.data.unsafe_text import encodable_value
from fctncalling.specification.api import SpecificationError
from fctncalling.specification.yaml_document import ValueBudget, read_yaml

MAX_BYTES = 16_000_000
MAX_DIGITS = 100
SUFFIXES = (".yaml", ".yml", ".json", ".jsonl")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass
class DocumentBudget(ValueBudget):
    """Budget of one specification: bytes and values, all its files together."""

    bytes_left: int = MAX_BYTES


def read_document(path: Path, spec: str, budget: DocumentBudget | None = None) -> Any:
    """Return the contents of a file; SpecificationError where it cannot be read as what it is."""
    budget = budget or DocumentBudget()
    try:
        if path.exists() and not path.is_file():
            raise SpecificationError(f"{spec}: cannot be read: expected a file")
        with path.open("rb") as file:
            read = file.read(budget.bytes_left + 1)
        text = read.decode(json.detect_encoding(read))
    except (OSError, UnicodeDecodeError) as error:
        raise SpecificationError(f"{spec}: cannot be read: {error}") from None
    if len(read) > budget.bytes_left:
        raise SpecificationError(f"{spec}: larger than {MAX_BYTES // 1_000_000} MB")
    budget.bytes_left -= len(read)
    if (values := _marked_values(text)) > budget.values_left:
        budget.spend(values, spec)
    is_yaml = path.suffix in (".yaml", ".yml")
    document = read_yaml(text, spec, budget) if is_yaml else _json(text, spec, budget)
    return encodable_value(document) if _SURROGATE.search(text) else document


def _marked_values(text: str) -> int:
    """Return about how many values a text holds, before they take memory: so many marks begin one.

    JSON has no value without one of them before it; YAML has others on lines of their own.
    """
    return sum(map(text.count, ",[{"))


def _json(text: str, spec: str, budget: ValueBudget) -> Any:
    budget.spend(_marked_values(text), spec)
    try:
        return json.loads(text, parse_int=_integer)
    except RecursionError:
        raise SpecificationError(f"{spec}: nests too deep") from None
    except json.JSONDecodeError as error:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) > 1 and error.msg == "Extra data":
            return [_json_line(line, number, spec) for number, line in enumerate(lines, 1)]
        raise SpecificationError(f"{spec} line {error.lineno}: no JSON: {error.msg}") from None
    except ValueError as error:
        raise SpecificationError(f"{spec}: no JSON: {error}") from None


def _json_line(line: str, number: int, spec: str) -> Any:
    try:
        return json.loads(line, parse_int=_integer)
    except (ValueError, RecursionError) as error:
        raise SpecificationError(f"{spec} line {number}: no JSON: {error}") from None


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits: expected at most {MAX_DIGITS}")
    return int(digits)


MAX_CHAIN = 50  # references to references


class ReferenceResolver:
    """Resolver of `$ref`; the library `referencing` does it, which jsonschema uses.

    Without a path the document is no file, and refers to none.
    """

    def __init__(self, document: Any, place: str, path: Path | None = None) -> None:
        self._place = place
        self._folder = None if path is None else path.resolve().parent
        self._budget = DocumentBudget()
        self._read: dict[str, Resource[Any]] = {}
        self._found: dict[str, Any] = {}
        base = path.resolve().as_uri() if path is not None else "urn:specification"
        self._base = base.rpartition("/")[0] + "/"
        resource: Resource[Any] = Specification.OPAQUE.create_resource(document)
        make_registry: Any = Registry  # its types know no retrieve
        registry: Registry[Any] = make_registry(retrieve=self._retrieve)
        self._resolver = registry.with_resource(base, resource).resolver(base)

    def followed(self, value: Any, where: str, seen: tuple[str, ...] = ()) -> tuple[Any, str]:
        """Return what a value refers to, itself if it is no reference, and the last reference.

        What stands beside a reference is kept, as OpenAPI 3.1 has it. SpecificationError, naming
        the place, for a reference to nothing.
        """
        if not isinstance(value, Mapping) or not isinstance(value.get("$ref"), str):
            return value, seen[-1] if seen else ""
        reference = value["$ref"]
        if reference in seen or len(seen) >= MAX_CHAIN:
            raise SpecificationError(
                f"{self._place}: {where}: $ref {reference:.200} leads back to itself: name a schema"
            )
        try:
            found = self._contents(reference)
        except (Unresolvable, ValueError, TypeError) as error:
            raise SpecificationError(
                f"{self._place}: {where}: $ref {reference:.200} leads nowhere: {_reason(error)}"
            ) from None
        beside = {key: each for key, each in value.items() if key != "$ref"}
        if beside and isinstance(found, Mapping):
            found = {**found, **beside}
        return self.followed(found, where, (*seen, reference))

    def _contents(self, reference: str) -> Any:
        if reference not in self._found:
            self._found[reference] = self._resolver.lookup(reference).contents
        return self._found[reference]

    def _retrieve(self, uri: str) -> Resource[Any]:
        if uri not in self._read:
            path = self._path_below_folder(uri)
            document = read_document(path, f"{self._place}: {path}", self._budget)
            moved = self._from_first_document(document, uri)
            self._read[uri] = Specification.OPAQUE.create_resource(moved)
        return self._read[uri]

    def _from_first_document(self, value: Any, uri: str) -> Any:
        """Return a file's contents with its references as the first document would write them.

        They are relative to the file that they stand in, and what is taken out of it is no longer
        there. Bounded by the budget that reading it took.
        """
        if isinstance(value, list):
            return [self._from_first_document(each, uri) for each in value]
        if not isinstance(value, dict):
            return value
        found = {key: self._from_first_document(each, uri) for key, each in value.items()}
        if isinstance(reference := value.get("$ref"), str):
            found["$ref"] = urljoin(uri, reference).removeprefix(self._base)
        return found

    def _path_below_folder(self, uri: str) -> Path:
        """Return the file of a URI; SpecificationError where a stranger has no business there."""
        parts = urlsplit(uri)
        if parts.scheme != "file" or parts.netloc or self._folder is None:
            raise SpecificationError(
                f"{self._place}: refers to {uri:.200}: only files beside it are read: download "
                "that one"
            )
        path = Path(unquote(parts.path)).resolve()
        below = (
            path.relative_to(self._folder).parts if path.is_relative_to(self._folder) else (".",)
        )
        if any(each.startswith(".") for each in below):
            raise SpecificationError(
                f"{self._place}: refers to {uri:.200}: only files below {self._folder} are read, "
                "no hidden ones: copy that one there"
            )
        return path


def _reason(error: BaseException) -> str:
    """Return the reason of a failed look-up: this project's error, if the library wrapped it."""
    if isinstance(error, PointerToNowhere):
        return "there is no such place"
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, SpecificationError):
        cause = cause.__cause__
    return str(cause or "no place of this document and no file beside it")
