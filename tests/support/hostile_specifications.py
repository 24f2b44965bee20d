"""Specifications that a stranger made to read other files, to hang or to fill the memory."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

SECRET = "U0VDUkVUOnRva2Vu"  # in files that no specification may read


def write_hostile_specifications(folder: Path) -> list[Path]:
    """Write the specifications, and secrets beside their folder; return the files in order."""
    outside, inside = folder / "outside", folder / "inside"
    (inside / ".hidden").mkdir(parents=True)
    outside.mkdir()
    for secret in (outside / "secret.json", inside / ".hidden" / "secret.json"):
        secret.write_text(json.dumps({"enum": [SECRET], "description": SECRET}), "utf-8")
    (inside / "link.json").symlink_to(outside / "secret.json")
    (inside / "linked").symlink_to(outside)
    os.mkfifo(inside / "pipe.json")
    written = []
    texts = {**_references(outside), **_aliases(), **_patterns(), **_sizes(), **_odd_values()}
    for name, text in {**texts, **_encodings()}.items():
        path = inside / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
        written.append(path)
    return written


def _document(schema: Any, **more: Any) -> dict[str, Any]:
    """Return an API with a plain function, and one whose body is `schema`."""
    zone = {"name": "zone", "in": "query", "schema": {"type": "string", "enum": ["lawn", "beds"]}}
    body = {"content": {"application/json": {"schema": schema}}}
    water = {"operationId": "water", "summary": "Water a zone.", "parameters": [zone]}
    mow = {"operationId": "mow", "summary": "Mow a zone.", "requestBody": body}
    paths = {"/water": {"post": water}, "/mow": {"post": mow}}
    return {"openapi": "3.1.0", "info": {"title": "Garden"}, "paths": paths, **more}


def _with(field: Any, **more: Any) -> str:
    """Return a document whose body has a parameter of this schema."""
    return json.dumps(_document({"type": "object", "properties": {"note": field}}, **more))


def _references(outside: Path) -> dict[str, str]:
    targets = {
        "device": "file:///dev/zero",
        "fifo": "pipe.json",
        "parent": "../outside/secret.json",
        "encoded_parent": "%2e%2e/outside/secret.json",
        "absolute": (outside / "secret.json").as_uri(),
        "link": "link.json#/description",
        "linked_folder": "linked/secret.json",
        "hidden": ".hidden/secret.json",
        "host": "file://example.org/etc/hosts",
        "url": "http://127.0.0.1:9/schema.json",
        "folder": "./",
        "process": "file:///proc/self/environ",
        "null": "secret%00.json",
        "long": "#/" + "a/" * 100_000,
    }
    found = {f"reference_{name}.json": _with({"$ref": to}) for name, to in targets.items()}
    levels = {
        f"S{level}": {
            "type": "object",
            "properties": {
                f"p{n}": {"$ref": f"#/components/schemas/S{level + 1}"} for n in range(9)
            },
        }
        for level in range(9)
    }
    first = {"$ref": "#/components/schemas/S0"}
    body = {"content": {"application/json": {"schema": first}}}
    paths = {f"/r{n}": {"post": {"summary": "Do it.", "requestBody": body}} for n in range(60)}
    bomb = _document(first, components={"schemas": levels})
    found["reference_bomb.json"] = json.dumps({**bomb, "paths": {**bomb["paths"], **paths}})
    doubled = {
        f"A{n}": {"allOf": [{"$ref": f"#/components/schemas/A{n + 1}"}] * 2} for n in range(30)
    }
    doubled["A30"] = {"properties": {"note": {"type": "string"}}}
    found["reference_all_of.json"] = json.dumps(
        _document({"$ref": "#/components/schemas/A0"}, components={"schemas": doubled})
    )
    tool = {"name": "f", "parameters": {"properties": {"x": {"$ref": targets["absolute"]}}}}
    found["reference_of_tool.json"] = json.dumps([tool])
    return found


_BOMB = "\n".join(
    [f"  - &b0 [{', '.join('lol' for _ in range(9))}]"]
    + [f"  - &b{n} [{', '.join([f'*b{n - 1}'] * 9)}]" for n in range(1, 10)]
)
_GARDEN = """
paths:
  /mow:
    post:
      summary: Mow a zone.
      parameters:
        - {{name: zone, in: query, schema: {schema}}}
"""


def _aliases() -> dict[str, str]:
    head = f"openapi: 3.1.0\nx-bomb:\n{_BOMB}\n"
    schemas = {
        "enum": "{type: string, enum: *b9}",
        "default": "{type: array, default: *b9}",
        "type": "{type: *b9}",
        "title": "{title: *b9}",
        "schema": "*b9",
        "all_of": "{allOf: *b9}",
    }
    found = {
        f"alias_{name}.yaml": head + _GARDEN.format(schema=schema)
        for name, schema in schemas.items()
    }
    for field in ("swagger", "openapi", "tools", "paths"):
        found[f"alias_{field}.yaml"] = f"x-bomb:\n{_BOMB}\n{field}: *b9\n"
    merges = "\n".join(
        f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 9)}], k{n}: 1}}" for n in range(1, 12)
    )
    found["alias_merge.yaml"] = f"m0: &m0 {{k0: 1}}\n{merges}\nopenapi: 3.1.0\n"
    found["alias_of_itself.yaml"] = "openapi: 3.1.0\npaths: &p {/a: *p}\n"
    found["alias_of_text.yaml"] = (
        f"x: &t {'a' * 1_000_000}\n" + "openapi: 3.1.0\n" + f"enum: [{', '.join(['*t'] * 5000)}]\n"
    )
    return found


def _patterns() -> dict[str, str]:
    patterns = {
        "ahead": "(a|a){30}(?=z)b[0-9]",
        "not_ahead": "(a|aa){45}(?!b)b[0-9]",
        "nested": "((([0-9]{1000}){1000}){1000}){1000}",
        "least": "[0-9]{100000000}",
        "stars": "((((((((([0-9]*)*)*)*)*)*)*)*)*)*x",
        "empty": "((((){200}){200}){200}){200}[0-9]",
    }
    return {
        f"pattern_{name}.json": _with({"type": "string", "pattern": each})
        for name, each in patterns.items()
    }


def _sizes() -> dict[str, str]:
    text = {"type": "string", "description": "Number of the zone, such as Z-12."}
    many = {f"property{n}": text for n in range(19_000)}
    rows: Any = {"type": "string"}
    for _ in range(6):
        rows = {"type": "array", "minItems": 5, "items": rows}
    wide = {"type": "object", "required": [f"k{n}" for n in range(900)]}
    wide |= {"properties": {f"k{n}": text for n in range(900)}}
    return {
        "size_properties.json": json.dumps(_document({"type": "object", "properties": many})),
        "size_keys.json": _with(wide),
        "size_rows.json": _with(rows),
        "size_description.json": _with({"type": "string", "description": "one of a, " * 500_000}),
        "size_title.json": _with({"type": "string"}, info={"title": "x" * 5_000_000}),
        "size_enum.json": _with({"type": "string", "enum": [f"v{n}" for n in range(200_000)]}),
        "size_integer.json": _with({"type": "integer"}).replace(
            '"integer"', f'"integer", "minimum": {"9" * 5000}'
        ),
        "size_integer.yaml": f"openapi: 3.1.0\nx: {'9' * 5000}\n",
        "size_base_sixty.yaml": f"openapi: 3.1.0\nx: 1{':59' * 500_000}\n",
        "size_nested.json": "[" * 100_000,
        "size_nested.yaml": "[" * 100_000,
        "size_lists.json": "[" + "[]," * 5_000_000 + "[]]",
        "size_lists.yaml": "- [" + "[]," * 2_000_000 + "[]]",
        "size_zeros.json": "0" * 20_000_000,
    }


def _odd_values() -> dict[str, str]:
    objects = [{"a": 1}, {"a": 2}]
    odd_parameter = {"name": "zone", "in": ["query"], "schema": {"type": "string"}}
    odd = _document({"type": "object", "properties": {}})
    odd["paths"]["/mow"]["post"]["parameters"] = [odd_parameter]
    return {
        "odd_enum.json": _with({"enum": objects}),
        "odd_text_enum.json": _with({"type": "string", "enum": objects}),
        "odd_bounds.json": _with({"type": "number", "minimum": float("nan"), "maximum": 1e999}),
        "odd_examples.json": _with({"type": "number", "examples": [float("inf"), float("nan")]}),
        "odd_items.json": _with({"type": "array", "minItems": "x", "maxItems": [], "items": {}}),
        "odd_one_of.json": _with(
            {"oneOf": [{"properties": {"k": {"enum": [each]}}} for each in objects]}
        ),
        "odd_required.json": json.dumps(_document({"properties": {"a": {}}, "required": objects})),
        "odd_in.json": json.dumps(odd),
        "odd_identifier.json": _with(
            {"type": "integer", "description": "Number of it.", "minimum": 99_999}
        ),
        "odd_names.json": _with({"type": "string"}).replace('"note"', '"\\u001b[2J\\u0007"'),
        "odd_title.json": _with({}, info={"title": "<script>alert(1)</script> | x"}),
        "odd_tag.yaml": "openapi: !!python/object/apply:os.getcwd []\n",
        "odd_keys.yaml": "openapi: 3.1.0\n? [a, b]\n: 1\n",
    }


def _encodings() -> dict[str, bytes]:
    plain = _with({"type": "string"})
    return {
        "encoding_mark.json": b"\xef\xbb\xbf" + plain.encode(),
        "encoding_utf_16.json": plain.encode("utf-16"),
        "encoding_latin.json": plain.replace("Mow", "M\u00e4he").encode("latin-1"),
        "encoding_zero.json": plain.replace("Mow", "Mow\0").encode(),
        "encoding_surrogate.json": plain.replace("Mow", "Mow \\ud800").encode(),
        "encoding_noise.yaml": bytes(range(256)) * 4000,
    }
