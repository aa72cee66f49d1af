"""Compares objects with the cluster's definitions of Kube-OVN. Pure.

The API server drops fields that a definition lacks without an error, so an older Kube-OVN would
carry half of a network.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpupool.kubernetes.networks.kube_ovn import API_VERSION, KIND_BY_NAME

_VERSION = API_VERSION.rpartition("/")[2]


def list_missing_fields(
    objects: Iterable[Mapping[str, Any]], definitions: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Return what the definitions lack, as `Kind.spec.field` or the name of the definition.

    Args:
        definitions: the CustomResourceDefinitions that the cluster has, by plural name.
    """
    missing: dict[str, None] = {}
    for found in objects:
        kind = KIND_BY_NAME[found["kind"]]
        definition = definitions.get(kind.plural)
        schema = None if definition is None else find_schema(definition)
        if schema is None:
            missing[f"{kind.plural}.{API_VERSION}"] = None
            continue
        properties = schema.get("properties") or {}
        for field in _list_unknown(found["spec"], properties.get("spec") or {}, "spec"):
            missing[f"{kind.name}.{field}"] = None
    return list(missing)


def find_schema(definition: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the schema of the served version that gpupool writes; None where it is not served."""
    for version in definition["spec"]["versions"]:
        if version["name"] == _VERSION and version.get("served"):
            schema: Mapping[str, Any] = version.get("schema", {}).get("openAPIV3Schema", {})
            return schema
    return None


def _list_unknown(value: object, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        properties = schema.get("properties") or {}
        for name, part in value.items():
            if name in properties:
                yield from _list_unknown(part, properties[name], f"{path}.{name}")
            elif not schema.get("x-kubernetes-preserve-unknown-fields"):
                yield f"{path}.{name}"
    elif isinstance(value, list):
        for part in value:
            yield from _list_unknown(part, schema.get("items") or {}, path)
