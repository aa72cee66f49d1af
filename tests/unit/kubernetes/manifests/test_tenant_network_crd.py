"""The definition bounds what a network may have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from gpupool.kubernetes.manifests.tenant_network_crd import tenant_network


def list_schemas(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    for part in schema.get("properties", {}).values():
        yield from list_schemas(part)
    if "items" in schema:
        yield from list_schemas(schema["items"])


def test_every_list_and_text_has_a_bound() -> None:
    for schema in list_schemas(tenant_network()):
        if schema["type"] == "array":
            assert schema["maxItems"] <= 256
        if schema["type"] == "string":
            assert "maxLength" in schema or "enum" in schema


def test_names_with_a_double_hyphen_are_refused_by_the_api_server() -> None:
    pattern = tenant_network()["properties"]["subnets"]["items"]["properties"]["name"]["pattern"]
    assert re.search(pattern, "a-b")
    assert not re.search(pattern, "a--b")
