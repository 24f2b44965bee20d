"""OpenAPI 3.0 and 3.1: each operation is a function, all that it takes one list of arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fctncalling.lab.own_api.api import CollectedFunctions, OwnApi, SpecificationError, shown
from fctncalling.lab.own_api.document import ReferenceResolver
from fctncalling.lab.own_api.schema import MAX_EXAMPLES, SchemaReader, text_of

METHODS = ("get", "put", "post", "delete", "patch")
LEFT_OUT = ("head", "options", "trace")
OF_THE_CONNECTION = {"accept", "authorization", "content-type", "user-agent"}
"""Headers that a client sets: OpenAPI says that parameters of these names are ignored."""


@dataclass(frozen=True)
class OperationArgument:
    """One argument of an operation."""

    name: str
    schema: dict[str, Any]
    required: bool
    where: str  # path, query, header, cookie or body


def api_of_openapi_document(
    document: Mapping[str, Any], spec: str, path: Path | None = None
) -> OwnApi:
    """Return the API of an OpenAPI document; SpecificationError where it is none."""
    version = document.get("openapi", "")
    if not re.match(r"3\.[01](\.|$)", shown(version).strip("'")):
        raise SpecificationError(
            f"{spec}: openapi: {shown(version, 20)}: expected 3.0 or 3.1: convert it, for instance "
            "with npx @openapitools/openapi-generator-cli or npx swagger2openapi"
        )
    reader = _Operations(document, spec, path)
    collected = CollectedFunctions(spec)
    for method, route, operation, shared in reader.operations():
        where = f"{method.upper()} {route:.100}"
        given = operation.get("operationId")
        otherwise = _name_of(method, route)
        name = given if isinstance(given, str) and given.strip() else otherwise
        if name is not given:
            collected.notes.add(f"{where}: has no operationId: called {name}")
        arguments = list(reader.arguments(operation, shared, route, where))
        schemas = {each.name: each.schema for each in arguments}
        required = [each.name for each in arguments if each.required]
        collected.add(name, _description(operation), schemas, required, where, otherwise=otherwise)
    title = document.get("info", {}).get("title") if isinstance(document.get("info"), dict) else ""
    collected.notes.extend(reader.schemas.notes)
    return collected.api(text_of(title) or (path.stem if path else spec))


def _name_of(method: str, path: str) -> str:
    words = re.sub(r"[^A-Za-z0-9]+", "_", path).strip("_")
    return f"{method}_{words}" if words else method


def _description(operation: Mapping[str, Any]) -> str:
    summary, text = (text_of(operation.get(key)).strip() for key in ("summary", "description"))
    text = re.split(r"\n\s*\n", text)[0]
    if summary and text and not text.lower().startswith(summary.lower().rstrip(".")):
        return f"{summary.rstrip('.')}. {text}"
    return text or summary


class _Operations:
    """Operations of a document, with their arguments."""

    def __init__(self, document: Mapping[str, Any], spec: str, path: Path | None) -> None:
        self._document = document
        self._spec = spec
        self._references = ReferenceResolver(document, spec, path)
        self.schemas = SchemaReader(self._references, spec)

    def operations(self) -> Iterator[tuple[str, str, Mapping[str, Any], Any]]:
        """Yield (method, path, operation, parameters of the path)."""
        paths = self._document.get("paths")
        if not isinstance(paths, Mapping) or not paths:
            raise SpecificationError(f"{self._spec}: paths: expected at least one, found none")
        for path, given in paths.items():
            item, _ = self._references.followed(given, f"{path!s:.100}")
            if not isinstance(item, Mapping):
                raise SpecificationError(
                    f"{self._spec}: paths: {path!s:.100}: expected an object of operations, found "
                    f"{shown(item)}"
                )
            for method, operation in item.items():
                if method in METHODS and isinstance(operation, Mapping):
                    yield method, str(path), operation, item.get("parameters")
                elif method in LEFT_OUT:
                    self.schemas.notes.add(
                        f"{method.upper()} {path!s:.100}: left out: answers nothing"
                    )

    def arguments(
        self, operation: Mapping[str, Any], shared: Any, path: str, where: str
    ) -> Iterator[OperationArgument]:
        """Yield an operation's arguments: those of the path, the query, headers and the body."""
        found = {
            (each.name, each.where): each
            for listed in (shared, operation.get("parameters"))
            for each in self._parameters(listed, where)
        }
        for name in re.findall(r"\{([^{}]+)\}", path):
            if (name, "path") not in found:
                self.schemas.notes.add(f"{where}: {name} is in the path only: taken as a text")
                found[name, "path"] = OperationArgument(name, {"type": "string"}, True, "path")
        taken: set[str] = set()
        for each in found.values():
            name = each.name if each.name not in taken else f"{each.where}_{each.name}"
            taken.add(name)
            yield replace(each, name=name)
        for each in self._body(operation.get("requestBody"), where):
            name = each.name if each.name not in taken else f"body_{each.name}"
            if name != each.name:
                self.schemas.notes.add(f"{where}: {each.name} is twice: the body's is {name}")
            taken.add(name)
            yield replace(each, name=name)

    def _parameters(self, listed: Any, where: str) -> Iterator[OperationArgument]:
        for given in listed if isinstance(listed, list) else ():
            parameter, _ = self._references.followed(given, where)
            if not isinstance(parameter, Mapping) or not isinstance(parameter.get("name"), str):
                raise SpecificationError(
                    f"{self._spec}: {where}: parameters: expected objects with name and in, found "
                    f"{shown(parameter)}"
                )
            name, place = parameter["name"], parameter.get("in", "query")
            place = place if isinstance(place, str) else "query"
            if place == "cookie" or (place == "header" and name.lower() in OF_THE_CONNECTION):
                self.schemas.notes.add(f"{where}: {name}: left out: a client sets it")
                continue
            raw = parameter.get("schema", _content_schema(parameter.get("content")))
            schema = self.schemas.read(raw, f"{where}: {name:.60}")
            schema.setdefault("type", "string")
            if text := text_of(parameter.get("description")):
                schema["description"] = text
            examples = parameter.get("examples")
            told = examples.values() if isinstance(examples, Mapping) else ()
            values = [each["value"] for each in told if isinstance(each, dict) and "value" in each]
            values = [parameter["example"], *values] if "example" in parameter else values
            if values:
                schema["examples"] = [*values[:MAX_EXAMPLES], *schema.get("examples", ())]
            required = place == "path" or parameter.get("required") is True
            yield OperationArgument(name, schema, required, place)

    def _body(self, given: Any, where: str) -> Iterator[OperationArgument]:
        body, _ = self._references.followed(given, f"{where}: requestBody")
        if not isinstance(body, Mapping):
            return
        schema = self.schemas.read(_content_schema(body.get("content")), f"{where}: body")
        needed = schema.get("required", [])
        if schema.get("properties"):
            if "oneOf" in schema:
                self.schemas.notes.add(
                    f"{where}: body: several forms: the keys of all of them are arguments"
                )
            for name, each in schema["properties"].items():
                yield OperationArgument(name, each, name in needed, "body")
        elif schema:
            schema.setdefault("type", "string")
            if text := text_of(body.get("description")):
                schema.setdefault("description", text)
            yield OperationArgument("body", schema, body.get("required") is True, "body")


def _content_schema(content: Any) -> Any:
    """Return the schema of the JSON form of a body, else of a form's, else of the first."""
    if not isinstance(content, Mapping):
        return None
    kinds = sorted(content, key=lambda name: ("json" not in str(name), "form" not in str(name)))
    chosen = content[kinds[0]] if kinds else None
    return chosen.get("schema") if isinstance(chosen, Mapping) else None
