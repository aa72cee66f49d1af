"""What a cluster's Kube-OVN lacks of what a network needs."""

from __future__ import annotations

import copy

from gpupool.kubernetes.networks.definitions import list_missing_fields
from gpupool.kubernetes.networks.kube_ovn import KIND_BY_NAME, KINDS, Json
from tests.support.kube_ovn_networks import build_definition, build_network, build_wide_network
from tests.unit.kubernetes.networks.test_compiler import SPACES, compile_all

ALL = {kind.plural: build_definition(kind.name) for kind in KINDS}
WIDE = compile_all(("vision", build_wide_network(), SPACES))


def without(kind: str, *path: str) -> dict[str, Json]:
    """The definitions without one field of a spec."""
    changed = copy.deepcopy(ALL)
    version = changed[KIND_BY_NAME[kind].plural]["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    for name in path[:-1]:
        schema = schema["properties"][name]["items"]
    del schema["properties"][path[-1]]
    return changed


def test_nothing_is_missing_of_the_version_that_we_write_for() -> None:
    assert list_missing_fields(WIDE, ALL) == []


def test_a_field_that_an_older_version_lacks_is_named_once() -> None:
    assert list_missing_fields(WIDE, without("Subnet", "enableDHCP")) == ["Subnet.spec.enableDHCP"]
    rules = without("QoSPolicy", "bandwidthLimitRules", "burstMax")
    assert list_missing_fields(WIDE, rules) == ["QoSPolicy.spec.bandwidthLimitRules.burstMax"]


def test_a_definition_that_is_absent_or_not_served_is_named() -> None:
    absent = {name: one for name, one in ALL.items() if name != "vpcs"}
    assert list_missing_fields(WIDE, absent) == ["vpcs.kubeovn.io/v1"]
    older = copy.deepcopy(ALL)
    older["vpcs"]["spec"]["versions"][0]["served"] = False
    assert list_missing_fields(WIDE, older) == ["vpcs.kubeovn.io/v1"]


def test_only_what_a_network_uses_is_needed() -> None:
    plain = compile_all(("vision", build_network(), ("a",)))
    both = {name: ALL[name] for name in ("vpcs", "subnets")}
    assert list_missing_fields(plain, both) == []


def test_a_part_that_takes_any_field_lacks_none() -> None:
    open_ = copy.deepcopy(ALL)
    version = open_["vpcs"]["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"]["properties"]["spec"] = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    assert list_missing_fields(WIDE, open_) == []
