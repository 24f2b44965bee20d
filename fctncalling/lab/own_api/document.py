"""Documents of a specification: JSON, JSON Lines and YAML, and the references in them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from referencing import Registry, Resource, Specification
from referencing.exceptions import PointerToNowhere, Unresolvable, Unretrievable

from fctncalling.lab.own_api.api import SpecificationError

MAX_BYTES = 32_000_000
SUFFIXES = (".yaml", ".yml", ".json", ".jsonl")


def read_document(path: Path, spec: str) -> Any:
    """Return the contents of a file; SpecificationError where it cannot be read as what it is."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise SpecificationError(f"{spec}: larger than {MAX_BYTES // 1_000_000} MB")
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecificationError(f"{spec}: cannot be read: {error}") from None
    if path.suffix in (".yaml", ".yml"):
        return _yaml(text, spec)
    try:
        return json.loads(text)
    except RecursionError:
        raise SpecificationError(f"{spec}: nests too deep") from None
    except json.JSONDecodeError as error:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) > 1 and error.msg == "Extra data":
            return [_json_line(line, number, spec) for number, line in enumerate(lines, 1)]
        raise SpecificationError(f"{spec} line {error.lineno}: no JSON: {error.msg}") from None


def _json_line(line: str, number: int, spec: str) -> Any:
    try:
        return json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise SpecificationError(f"{spec} line {number}: no JSON: {error}") from None


def _yaml(text: str, spec: str) -> Any:
    """Return a YAML document as JSON would have it: a date is a text, `no` and `on` are texts."""
    try:
        import yaml
    except ImportError:
        raise SpecificationError(
            f"{spec}: YAML needs PyYAML: pip install 'fctncalling[api]', or give the document as "
            "JSON"
        ) from None

    class Loader(yaml.SafeLoader):
        """Loader with the scalars of JSON only."""

    Loader.yaml_implicit_resolvers = {
        letter: [(tag, each) for tag, each in resolvers if not tag.endswith(("timestamp", "bool"))]
        for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:bool", re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
    )
    try:
        return yaml.load(text, Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise SpecificationError(f"{spec}{line}: no YAML: {problem}") from None
    except RecursionError:
        raise SpecificationError(f"{spec}: nests too deep") from None


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
