"""Collected: functions as they are read, with unique names and what was renamed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fctncalling.data.types import FunctionDoc
from fctncalling.lab.own_api.api import OwnApi, SpecificationError
from fctncalling.lab.own_api.specifications.bfcl_form import function_doc
from fctncalling.lab.own_api.specifications.names import callable_name

MAX_FUNCTIONS = 1_000
MAX_NOTES = 200


@dataclass
class CollectedFunctions:
    """Functions of one specification."""

    spec: str
    functions: dict[str, FunctionDoc] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    schemas: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    original_names: dict[str, str] = field(default_factory=dict)
    original_parameters: dict[tuple[str, str], str] = field(default_factory=dict)

    def add(
        self,
        name: str,
        description: str,
        properties: Mapping[str, Mapping[str, Any]],
        required: list[str],
        where: str,
        *,
        otherwise: str = "",
    ) -> None:
        """Add a function under a name that a call can bear; SpecificationError for too many."""
        if len(self.functions) >= MAX_FUNCTIONS:
            raise SpecificationError(
                f"{self.spec}: more than {MAX_FUNCTIONS} functions: give those that a model is to "
                "call"
            )
        own = callable_name(
            name, self.functions, otherwise or f"function_{len(self.functions) + 1}"
        )
        if own != name:
            self.original_names[own] = name
            why = "is there twice" if name in self.functions else "is no name for a call"
            self.notes.append(f"{where}: {name!r:.60} {why}: called {own}")
        if not description.strip():
            self.notes.append(f"{where}: has no description: {own} is all that is known of it")
        kept = self._parameters(own, properties, where)
        needed = [each for each, old in kept.items() if old in required]
        for missing in [each for each in required if each not in properties]:
            self.notes.append(f"{where}: {missing!r:.40} is demanded but not described: left out")
        schemas = {each: properties[old] for each, old in kept.items()}
        for parameter, schema in schemas.items():
            self.schemas[own, parameter] = schema
            if schema.get("type", "any") == "any":
                self.notes.append(f"{where}: {parameter}: any value is taken")
        self.functions[own] = function_doc(own, description, schemas, needed)

    def _parameters(
        self, function: str, properties: Mapping[str, Any], where: str
    ) -> dict[str, str]:
        """Return the parameters by names that a call can bear -> their own."""
        kept: dict[str, str] = {}
        for old in properties:
            new = callable_name(old, kept, f"argument_{len(kept) + 1}")
            kept[new] = old
            if new != old:
                self.original_parameters[function, new] = old
                self.notes.append(f"{where}: parameter {old!r:.60} is called {new}")
        return kept

    def api(self, name: str, **more: Any) -> OwnApi:
        """Return the API; SpecificationError where it has no function."""
        if not self.functions:
            raise SpecificationError(f"{self.spec}: describes no function")
        notes = list(dict.fromkeys(self.notes))
        if len(notes) > MAX_NOTES:
            notes = [*notes[:MAX_NOTES], f"{len(notes) - MAX_NOTES} further notes"]
        return OwnApi(
            name,
            tuple(self.functions.values()),
            self.spec,
            notes=tuple(notes),
            schemas=self.schemas,
            original_names=self.original_names,
            original_parameters=self.original_parameters,
            **more,
        )
