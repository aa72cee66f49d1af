"""Words in which our definitions are written: OpenAPI v3 as CustomResourceDefinitions take it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpupool.kubernetes.resources import names

Schema = dict[str, Any]


def definition(
    kind: str,
    plural: str,
    short: tuple[str, ...],
    spec: Schema,
    status: Schema,
    columns: tuple[tuple[str, str, str, int], ...],
    rules: tuple[Schema, ...] = (),
) -> Schema:
    """A definition of ours; columns are (name, type, path, priority), rules are about the whole
    object."""
    shown = []
    for n, t, path, rank in columns:
        shown.append({"name": n, "type": t, "jsonPath": path, "priority": rank})
    both: Schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    if rules:
        both["x-kubernetes-validations"] = list(rules)
    version = {
        "name": names.VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": both},
        "subresources": {"status": {}},
        "additionalPrinterColumns": shown,
    }
    called = {"kind": kind, "plural": plural, "singular": kind.lower(), "shortNames": list(short)}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{names.GROUP}"},
        "spec": {
            "group": names.GROUP,
            "scope": "Cluster",
            "names": {**called, "categories": ["gpupool"]},
            "versions": [version],
        },
    }


def record(properties: Mapping[str, Schema], required: tuple[str, ...] = ()) -> Schema:
    found: Schema = {"type": "object", "properties": dict(properties)}
    return {**found, "required": list(required)} if required else found


def opaque(of: Schema) -> Schema:
    """A record that the API server does not look into: its fields are named for people alone.

    Every field with a schema of its own costs the API server at each write of the object, whatever
    changed: 40 entries of a ledger half of what the write costs (docs/measured). For what one
    writer of ours alone may write.
    """
    fields = ", ".join(of["properties"])
    return {
        "type": "object",
        "description": f"fields: {fields}",
        "x-kubernetes-preserve-unknown-fields": True,
    }


def array_of(items: Schema, most: int, keys: tuple[str, ...] = (), default: Any = None) -> Schema:
    found: Schema = {"type": "array", "items": items, "maxItems": most}
    if keys:
        found |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}
    return found if default is None else {**found, "default": default}


def words(kind: Any, default: str | None = None) -> Schema:
    found: Schema = {"type": "string", "enum": [one.value for one in kind]}
    return found if default is None else {**found, "default": default}


def text(longest: int) -> Schema:
    return {"type": "string", "maxLength": longest}


def whole(most: int | None = None) -> Schema:
    found: Schema = {"type": "integer", "format": "int64", "minimum": 0}
    return found if most is None else {**found, "maximum": most}


def quantity() -> Schema:
    return {"x-kubernetes-int-or-string": True}


def condition() -> Schema:
    return record(
        {
            "type": text(63),
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "reason": text(63),
            "message": text(1024),
            "lastTransitionTime": {"type": "string", "format": "date-time"},
        },
        required=("type", "status"),
    )
