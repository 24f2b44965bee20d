"""OpenAPI 2 and 3: each operation is a function, all that it takes one list of arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from fctncalling.specification.api import CollectedFunctions, OwnApi, SpecificationError, shown
from fctncalling.specification.document import ReferenceResolver
from fctncalling.specification.schema import MAX_EXAMPLES, SchemaReader, as_list, text_list, text_of

_WORD_BORDER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")


class OperationOrigins:
    """Servers and security schemes of a document's operations."""

    def __init__(self, document: Mapping[str, Any], references: ReferenceResolver) -> None:
        self._document = document
        components = document.get("components")
        given = components.get("securitySchemes") if isinstance(components, Mapping) else None
        given = document.get("securityDefinitions", given)  # OpenAPI 2
        schemes = given if isinstance(given, Mapping) else {}
        self.schemes = {
            str(name): _scheme(str(name), references.followed(each, f"securitySchemes.{name}")[0])
            for name, each in schemes.items()
        }

    def of(self, method: str, path: str, levels: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return method, path, server and security; `levels`: the operation, then its path item."""
        every = [*levels, self._document]
        servers = next((each["servers"] for each in every if as_list(each.get("servers"))), None)
        servers = self._of_openapi_2() if servers is None else servers
        security: Any = next((each["security"] for each in every if "security" in each), [])
        origin = {"method": method.upper(), "path": path, "server": _server(servers)}
        alternatives = [
            [self.schemes.get(str(name)) or _scheme(str(name), None) for name in each]
            for each in as_list(security)
            if isinstance(each, Mapping)
        ]
        return {**origin, "security": alternatives} if alternatives else origin

    def _of_openapi_2(self) -> list[dict[str, str]]:
        """Return the server that host, basePath and schemes say."""
        host, base = (text_of(self._document.get(key)) for key in ("host", "basePath"))
        schemes = text_list(self._document.get("schemes"))
        scheme = "https" if "https" in schemes or not schemes else schemes[0]
        return [{"url": f"{scheme}://{host}{base}" if host else base}]

    def is_key(self, name: str, place: str) -> bool:
        """Whether a parameter is the key of a security scheme, which no user says."""
        return any(
            each.get("in") == place and str(each.get("name")).lower() == name.lower()
            for each in self.schemes.values()
        )


def _server(servers: Sequence[Any]) -> str:
    """Return the address of the first server, its variables at their defaults."""
    first = servers[0] if servers else None
    if not isinstance(first, Mapping):
        return ""
    address = text_of(first.get("url"))
    variables = first.get("variables")
    for name, each in variables.items() if isinstance(variables, Mapping) else ():
        if isinstance(each, Mapping) and "default" in each:
            address = address.replace(f"{{{name}}}", str(each["default"]))
    return address.rstrip("/")


def _scheme(name: str, given: Any) -> dict[str, str]:
    """Return a security scheme as the sender wants it, with the variable that holds its key."""
    scheme: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    kind, variable = text_of(scheme.get("type")), _variable(name)
    if kind == "apiKey":
        place, key = text_of(scheme.get("in")), text_of(scheme.get("name"))
        return {"type": kind, "in": place, "name": key, "variable": variable}
    if kind == "http":
        kind = text_of(scheme.get("scheme")).lower()
    elif kind in ("oauth2", "openIdConnect"):
        kind = "bearer"
    return {"type": kind or "unknown", "variable": variable}


def _variable(name: str) -> str:
    """Return the environment variable of a scheme: BEARER_AUTH of bearerAuth."""
    return "_".join(filter(None, _WORD_BORDER.split(name))).upper() or "API_KEY"


def parameter_origin(parameter: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return the place of a parameter in the request, and its style if not the default."""
    kept = {key: parameter[key] for key in ("style", "explode") if key in parameter}
    if parameter.get("type") == "array":  # OpenAPI 2
        kept["explode"] = parameter.get("collectionFormat") == "multi"
    if place == "formData":
        return {"name": parameter["name"], "in": "body", "form": True}
    is_json = "schema" not in parameter and isinstance(parameter.get("content"), Mapping)
    return {"name": parameter["name"], "in": place, **kept, **({"json": True} if is_json else {})}


def client_header(parameter: Mapping[str, Any], *, required: bool) -> dict[str, Any]:
    """Return a header that a client sets: its documented value, and the variable that has another.

    A value is documented as the default, the only one or the example.
    """
    schema = parameter.get("schema")
    schema = schema if isinstance(schema, Mapping) else parameter
    listed = as_list(schema.get("enum"))
    given = (schema.get("default"), *listed[:1], schema.get("example"), parameter.get("example"))
    value = next((str(each) for each in given if isinstance(each, str | int) and each != ""), "")
    name = parameter["name"]
    return {"name": name, "value": value, "variable": _variable(name), "required": required}


METHODS = ("get", "put", "post", "delete", "patch", "query")
LEFT_OUT = ("head", "options", "trace")
OF_A_PATH = ("parameters", "servers", "summary", "description", "additionalOperations", "$ref")
OF_THE_CONNECTION = {"accept", "authorization", "content-type", "user-agent"}
"""Headers that a client sets: OpenAPI says that parameters of these names are ignored."""


_KEY_IN_WORDS = re.compile(
    r"(?:your |an? |the )?(?:authentication|api|bearer) (?:token|key)\b", re.I
)


class Operation(NamedTuple):
    """One operation and its path item."""

    method: str
    path: str
    given: Mapping[str, Any]
    item: Mapping[str, Any]

    @property
    def title(self) -> str:
        """How messages name it."""
        return f"{self.method.upper()} {self.path:.100}"


@dataclass(frozen=True)
class OperationArgument:
    """One argument of an operation."""

    name: str
    schema: dict[str, Any]
    required: bool
    origin: dict[str, Any]  # "in": path, query, header, body or whole body; "name": its own


def api_of_openapi_document(
    document: Mapping[str, Any], spec: str, path: Path | None = None
) -> OwnApi:
    """Return the API of an OpenAPI document; SpecificationError for another document."""
    version = shown(document.get("openapi", document.get("swagger", "")), 20)
    if not re.match(r"(2\.0|3\.[012])(\.|$)", version.strip("'")):
        raise SpecificationError(
            f"{spec}: openapi: {version}: expected 2.0, 3.0, 3.1 or 3.2: convert it, for instance "
            "with npx @openapitools/openapi-generator-cli"
        )
    reader = _Operations(document, spec, path)
    collected = CollectedFunctions(spec)
    if version.startswith("'3.2"):
        collected.notes.add(f"openapi: {version}: read as 3.1")
    for operation in reader.operations():
        where = operation.title
        given = operation.given.get("operationId")
        otherwise = _name_of(operation.method, operation.path)
        name = given if isinstance(given, str) and given.strip() else otherwise
        if name is not given:
            collected.notes.add(f"{where}: has no operationId: called {name}")
        arguments, origin = reader.arguments(operation)
        collected.add(
            name,
            _description(operation.given),
            {each.name: each.schema for each in arguments},
            [each.name for each in arguments if each.required],
            where,
            otherwise=otherwise,
            origin=origin,
            places={each.name: each.origin for each in arguments},
        )
    title = document.get("info", {}).get("title") if isinstance(document.get("info"), dict) else ""
    collected.notes.extend(reader.notes)
    name = text_of(title) or (path.stem if path else spec)
    return collected.api(name)


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
        self._schemas = SchemaReader(self._references, spec)
        self._origins = OperationOrigins(document, self._references)
        self.notes = self._schemas.notes
        self._headers: list[dict[str, Any]] = []  # of one operation, that its client sets

    def operations(self) -> Iterator[Operation]:
        """Yield the operations that can be functions; count the others by reason."""
        paths, webhooks = self._document.get("paths"), self._document.get("webhooks")
        sent = len(webhooks) if isinstance(webhooks, Mapping) else 0
        why = "webhooks, which the API calls"
        if not isinstance(paths, Mapping) or not paths:
            told = f", but {sent} {why}" if sent else ""
            raise SpecificationError(
                f"{self._spec}: paths: expected at least one, found none{told}"
            )
        self.notes.leave_out(why, "webhooks", sent)
        for path, given in paths.items():
            if str(path).startswith("x-"):
                continue
            item, _ = self._references.followed(given, f"{path!s:.100}")
            if not isinstance(item, Mapping):
                raise SpecificationError(
                    f"{self._spec}: paths: {path!s:.100}: expected an object of operations, found "
                    f"{shown(item)}"
                )
            others = item.get("additionalOperations")  # OpenAPI 3.2
            every = {**item, **(others if isinstance(others, Mapping) else {})}
            for method, operation in every.items():
                if method in OF_A_PATH or str(method).startswith("x-"):
                    continue
                found = self._operation(str(method), str(path), operation, item)
                if found is not None:
                    yield found

    def _operation(
        self, method: str, path: str, given: Any, item: Mapping[str, Any]
    ) -> Operation | None:
        where = f"{method.upper()} {path:.100}"
        if method in LEFT_OUT:
            self.notes.leave_out(f"{method.upper()}, which answers nothing", where)
            return None
        operation, _ = self._references.followed(given, where)
        if method not in METHODS and not (method.isupper() and method.isalpha()):
            self.notes.leave_out("under a name that is no method", where)
        elif not isinstance(operation, Mapping):
            self.notes.leave_out(f"no operation but {shown(operation)}", where)
        elif operation.get("deprecated") is True:
            self.notes.leave_out("deprecated", where)
        else:
            return Operation(method, path, operation, item)
        return None

    def arguments(self, operation: Operation) -> tuple[list[OperationArgument], dict[str, Any]]:
        """Return an operation's arguments and its origin.

        Arguments are those of the path, the query, headers and the body.
        """
        where, given = operation.title, operation.given
        self._headers = []
        found = {
            (each.name, each.origin["in"]): each
            for listed in (operation.item.get("parameters"), given.get("parameters"))
            for each in self._parameters(listed, where)
        }
        for name in re.findall(r"\{([^{}]+)\}", operation.path):
            if (name, "path") not in found:
                self.notes.add(f"{where}: {name} is in the path only: taken as a text")
                origin = {"name": name, "in": "path"}
                found[name, "path"] = OperationArgument(name, {"type": "string"}, True, origin)
        media_type, of_body = self._body(given.get("requestBody"), where)
        if "swagger" in self._document:  # OpenAPI 2: its parameters hold the body
            of_body = [found.pop(key) for key in [*found] if "body" in found[key].origin["in"]]
            media_type = self._media_type(given, of_body)
        arguments: dict[str, OperationArgument] = {}
        for each in found.values():
            name = each.name if each.name not in arguments else f"{each.origin['in']}_{each.name}"
            arguments[name] = replace(each, name=name)
        for each in of_body:
            name = each.name if each.name not in arguments else f"body_{each.name}"
            if name != each.name:
                self.notes.add(f"{where}: {each.name} is twice: the body's is {name}")
            arguments[name] = replace(each, name=name)
        origin = self._origins.of(operation.method, operation.path, (given, operation.item))
        tags = text_list(given.get("tags"))
        more = {"body": media_type, "tags": tags, "headers": self._headers}
        return [*arguments.values()], {**origin, **{key: e for key, e in more.items() if e}}

    def _parameters(self, listed: Any, where: str) -> Iterator[OperationArgument]:
        for given in as_list(self._references.followed(listed, where)[0]):
            parameter, _ = self._references.followed(given, where)
            if not isinstance(parameter, Mapping) or not isinstance(parameter.get("name"), str):
                raise SpecificationError(
                    f"{self._spec}: {where}: parameters: expected objects with name and in, found "
                    f"{shown(parameter)}"
                )
            name, place = parameter["name"], parameter.get("in", "query")
            place = place if isinstance(place, str) else "query"
            required = place == "path" or parameter.get("required") is True
            if why := self._why_left_out(parameter, place, required):
                self.notes.leave_out(f"parameters: {why}", f"{where}: {name}")
                continue
            if place == "body":  # OpenAPI 2
                yield from self._of_body(parameter.get("schema"), parameter, where)
                continue
            typed = parameter if "type" in parameter else None  # OpenAPI 2
            raw = parameter.get("schema", typed or _schema_of_content(parameter.get("content"))[1])
            schema = self._schemas.read(raw, f"{where}: {name:.60}")
            schema.setdefault("type", "string")
            if text := text_of(parameter.get("description")):
                schema["description"] = text
            examples = parameter.get("examples")
            told = examples.values() if isinstance(examples, Mapping) else ()
            values = [each["value"] for each in told if isinstance(each, dict) and "value" in each]
            values = [parameter["example"], *values] if "example" in parameter else values
            if values:
                schema["examples"] = [*values[:MAX_EXAMPLES], *schema.get("examples", ())]
            yield OperationArgument(name, schema, required, parameter_origin(parameter, place))

    def _why_left_out(self, parameter: Mapping[str, Any], place: str, required: bool) -> str:
        name = parameter["name"]
        if place == "cookie" or (place == "header" and name.lower() in OF_THE_CONNECTION):
            return "a client sets it"
        if self._origins.is_key(name, place):
            return "the key of a security scheme"
        told = text_of(parameter.get("description"))
        if self._origins.schemes and place != "path" and _KEY_IN_WORDS.match(told):
            return "the key of a security scheme"
        if place == "header":  # the revision of an API, a request's key: no user says these
            self._headers.append(client_header(parameter, required=required))
            return "a client sets it"
        if place == "querystring":  # OpenAPI 3.2: the query as one text
            return "a whole query string"
        return "deprecated" if parameter.get("deprecated") is True and not required else ""

    def _body(self, given: Any, where: str) -> tuple[str, list[OperationArgument]]:
        """Return a body's media type and its arguments."""
        body, _ = self._references.followed(given, f"{where}: requestBody")
        if not isinstance(body, Mapping):
            return "", []
        media_type, raw = _schema_of_content(body.get("content"))
        return media_type, self._of_body(raw, body, where)

    def _of_body(self, raw: Any, body: Mapping[str, Any], where: str) -> list[OperationArgument]:
        """Return the keys of a body as arguments, or the whole of it as one."""
        schema = self._schemas.read(raw, f"{where}: body")
        needed = schema.get("required", [])
        if schema.get("properties"):
            if "oneOf" in schema:
                self.notes.add(
                    f"{where}: body: several forms: the keys of all of them are arguments"
                )
            return [
                OperationArgument(name, each, name in needed, {"name": name, "in": "body"})
                for name, each in schema["properties"].items()
            ]
        if not schema:
            return []
        schema.setdefault("type", "string")
        if text := text_of(body.get("description")):
            schema.setdefault("description", text)
        origin = {"name": "body", "in": "whole body"}
        required = body.get("required") is True
        return [OperationArgument("body", schema, required, origin)]

    def _media_type(
        self, operation: Mapping[str, Any], of_body: Sequence[OperationArgument]
    ) -> str:
        """Return the media type of a body in OpenAPI 2: JSON, or a form if it takes no other."""
        if not of_body:
            return ""
        is_form = any("form" in each.origin for each in of_body)
        taken = text_list(operation.get("consumes", self._document.get("consumes")))
        wanted = "form" if is_form else "json"
        usual = "application/x-www-form-urlencoded" if is_form else "application/json"
        return next((each for each in taken if wanted in each), usual)


def _schema_of_content(content: Any) -> tuple[str, Any]:
    """Return media type and schema of the JSON form of a body, else of a form's, else the first."""
    if not isinstance(content, Mapping) or not content:
        return "", None
    kinds = sorted(content, key=lambda name: ("json" not in str(name), "form" not in str(name)))
    chosen = content[kinds[0]]
    return str(kinds[0]), chosen.get("schema") if isinstance(chosen, Mapping) else None
