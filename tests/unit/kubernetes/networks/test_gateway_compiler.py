"""Gateways: limits of both kinds, and floating addresses."""

from __future__ import annotations

from typing import Any

from gpupool.kubernetes.networks.gateway_compiler import Part, compile_gateway
from gpupool.kubernetes.networks.kube_ovn import Json
from gpupool.kubernetes.resources.network_parts.network_gateways import read_gateway
from gpupool.kubernetes.resources.network_parts.subnets import read_subnet

SUBNETS = (read_subnet({"name": "main", "cidr": "10.1.0.0/24"}),)


def compile_parts(*addresses: Json, **fields: Any) -> list[Part]:
    found = {"externalSubnet": "outside", "address": "10.1.0.254", "addresses": list(addresses)}
    return list(compile_gateway("vision", read_gateway({**found, **fields}, SUBNETS), SUBNETS))


def spec_of(parts: list[Part], kind: str) -> Json:
    (spec,) = [one for found, _, one in parts if found == kind]
    return spec


def test_a_limit_of_the_gateway_is_shared_and_comes_after_those_of_addresses() -> None:
    parts = compile_parts({"name": "out", "megabits": 100}, megabits=500)
    limits = {part: spec for kind, part, spec in parts if kind == "QoSPolicy"}
    whole = limits["gateway--whole"]
    assert (whole["bindingType"], whole["shared"]) == ("NATGW", True)
    least = min(one["priority"] for one in whole["bandwidthLimitRules"])
    assert all(one["priority"] < least for one in limits["out--rate"]["bandwidthLimitRules"])
    assert spec_of(parts, "VpcNatGateway")["qosPolicy"] == "gp-vision--gateway--whole"


def test_the_end_of_a_limit_of_the_gateway_is_written() -> None:
    assert spec_of(compile_parts(), "VpcNatGateway")["qosPolicy"] == ""


def test_limits_are_created_before_what_names_them() -> None:
    parts = compile_parts({"name": "out", "megabits": 100, "snat": ["main"]}, megabits=500)
    assert [kind for kind, _, _ in parts] == [
        "QoSPolicy",
        "QoSPolicy",
        "VpcNatGateway",
        "IptablesEIP",
        "IptablesSnatRule",
    ]


def test_a_floating_address_leads_to_its_pod() -> None:
    parts = compile_parts({"name": "own", "target": "10.1.0.10"})
    assert spec_of(parts, "IptablesFIPRule") == {"eip": "gp-vision--own", "internalIp": "10.1.0.10"}


def test_objects_that_kube_ovn_locks_by_name_have_different_names() -> None:
    parts = compile_parts(
        {"name": "gateway", "megabits": 9},
        {"name": "own", "target": "10.1.0.10"},
        megabits=500,
    )
    names = [part for kind, part, _ in parts if kind != "VpcNatGateway"]
    assert len(set(names)) == len(names)
