"""Origin of a function: how its operation is sent, and the keys that it wants."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fctncalling.specification.document import ReferenceResolver
from fctncalling.specification.schema import as_list, text_list, text_of

_WORD_BORDER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")


class OperationOrigins:
    """Servers and security schemes of a document's operations."""

    def __init__(self, document: Mapping[str, Any], references: ReferenceResolver) -> None:
        self._document = document
        components = document.get("components")
        given = components.get("securitySchemes") if isinstance(components, Mapping) else None
        given = document.get("securityDefinitions", given)  # OpenAPI 2
        schemes = given if isinstance(given, Mapping) else {}
        self._schemes = {
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
            [self._schemes.get(str(name)) or _scheme(str(name), None) for name in each]
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

    @property
    def has_schemes(self) -> bool:
        """Whether the document has security schemes, which say how keys are sent."""
        return bool(self._schemes)

    def is_key(self, name: str, place: str) -> bool:
        """Whether a parameter is the key of a security scheme, which no user says."""
        return any(
            each.get("in") == place and str(each.get("name")).lower() == name.lower()
            for each in self._schemes.values()
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
    """Return where a parameter stands in the request, and what of its style is no default."""
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
