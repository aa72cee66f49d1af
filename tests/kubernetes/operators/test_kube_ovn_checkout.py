"""The definitions that tests bring along say the same as those of Kube-OVN's checkout."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpupool.kubernetes.networks.definitions import find_schema, list_missing_fields
from gpupool.kubernetes.networks.kube_ovn import KIND_BY_NAME, KINDS
from tests.support.kube_ovn_networks import (
    CHECKOUT_VARIABLE,
    INTERFACE,
    build_network,
    build_wide_network,
    find_checkout,
    list_definitions,
)
from tests.unit.kubernetes.networks.test_compiler import SPACES, compile_all


@pytest.fixture(scope="module")
def definitions() -> dict[str, dict[str, Any]]:
    """By plural name."""
    if find_checkout() is None:
        pytest.skip(f"{CHECKOUT_VARIABLE} names no checkout of github.com/kubeovn/kube-ovn")
    return {one["spec"]["names"]["plural"]: one for one in list_definitions()}


def list_types(schema: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
    yield path, schema["type"]
    for name, part in schema.get("properties", {}).items():
        yield from list_types(part, f"{path}.{name}")
    if "items" in schema:
        yield from list_types(schema["items"], f"{path}[]")


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS])
def test_fields_have_the_types_of_the_checkout(
    kind: str, definitions: dict[str, dict[str, Any]]
) -> None:
    schema = find_schema(definitions[KIND_BY_NAME[kind].plural])
    assert schema is not None
    theirs = dict(list_types(schema["properties"]["spec"], kind))
    ours = dict(list_types(INTERFACE[kind], kind))
    assert ours.items() <= theirs.items()


def test_no_compiled_field_is_unknown_to_the_checkout(
    definitions: dict[str, dict[str, Any]],
) -> None:
    objects = compile_all(
        ("vision", build_wide_network(), SPACES),
        ("speech", build_network("10.2.0.0/24", "vision"), ("speech",)),
    )
    assert {one["kind"] for one in objects} == {kind.name for kind in KINDS}
    assert list_missing_fields(objects, definitions) == []
