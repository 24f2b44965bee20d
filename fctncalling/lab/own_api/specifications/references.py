"""References of a document, to places in it and to files beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from referencing import Registry, Resource, Specification
from referencing.exceptions import PointerToNowhere, Unresolvable, Unretrievable

from fctncalling.lab.own_api.api import SpecificationError
from fctncalling.lab.own_api.specifications.document import read_document

MAX_CHAIN = 50  # references to references


class ReferenceResolver:
    """Resolver of `$ref`; the library `referencing` does it, which jsonschema uses."""

    def __init__(self, document: Any, place: str, path: Path | None = None) -> None:
        self._place = place
        base = path.resolve().as_uri() if path is not None else "urn:specification"
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
                f"{self._place}: {where}: $ref {reference} leads back to itself: name a schema"
            )
        try:
            found = self._resolver.lookup(reference).contents
        except (Unresolvable, ValueError, TypeError) as error:
            raise SpecificationError(
                f"{self._place}: {where}: $ref {reference} leads nowhere: {_reason(error)}"
            ) from None
        beside = {key: each for key, each in value.items() if key != "$ref"}
        if beside and isinstance(found, Mapping):
            found = {**found, **beside}
        return self.followed(found, where, (*seen, reference))

    def _retrieve(self, uri: str) -> Resource[Any]:
        parts = urlsplit(uri)
        if parts.scheme != "file":
            raise SpecificationError(
                f"{self._place}: refers to {uri}: only files beside it are read: download that one"
            )
        document = read_document(Path(unquote(parts.path)), f"{self._place}: {parts.path}")
        return Specification.OPAQUE.create_resource(document)


def _reason(error: BaseException) -> str:
    cause = error.__cause__
    if isinstance(error, Unretrievable) and isinstance(cause, SpecificationError):
        return str(cause)
    if isinstance(error, PointerToNowhere):
        return "there is no such place"
    return "no place of this document and no file beside it"
