"""A network as Kube-OVN's objects: all of one compared with a file, and the rules behind it."""

from __future__ import annotations

import os
from pathlib import Path

import yaml

from gpupool.kubernetes.networks.compiler import compile_network
from gpupool.kubernetes.networks.judgement import judge_networks
from gpupool.kubernetes.networks.kube_ovn import KINDS, Json
from gpupool.kubernetes.resources.tenant_network import TenantNetwork
from tests.support.kube_ovn_networks import build_network, build_wide_network, wish_of

GOLDEN = Path(__file__).parents[3] / "golden" / "kube_ovn_networks.yaml"
SPACES = ("vision-train", "vision-serve")


def compile_all(*wanted: tuple[str, Json, tuple[str, ...]]) -> list[Json]:
    wishes = {name: wish_of(name, network, *spaces) for name, network, spaces in wanted}
    verdicts = judge_networks(wishes)
    objects = []
    for name, wish in wishes.items():
        assert wish.network is not None
        objects += compile_network(wish, wish.network, verdicts[name])
    return objects


def specs_of(objects: list[Json], kind: str) -> list[Json]:
    return [one["spec"] for one in objects if one["kind"] == kind]


def test_two_peered_networks_compile_to_the_objects_of_the_file() -> None:
    objects = compile_all(
        ("vision", build_wide_network(), SPACES),
        ("speech", build_network("10.2.0.0/24", "vision"), ("speech",)),
    )
    text = yaml.safe_dump_all(objects, sort_keys=False)
    if os.environ.get("GPUPOOL_UPDATE_GOLDEN") == "1":
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text(), f"{GOLDEN} differs; GPUPOOL_UPDATE_GOLDEN=1 writes it anew"
    assert {one["kind"] for one in objects} == {kind.name for kind in KINDS}


def test_peers_route_to_each_other_over_their_link() -> None:
    objects = compile_all(
        ("a", build_network("10.1.0.0/24", "b"), ("x",)),
        ("b", build_network("10.2.0.0/24", "a"), ("y",)),
    )
    one, other = specs_of(objects, "Vpc")
    (mine,) = one["vpcPeerings"]
    (theirs,) = other["vpcPeerings"]
    assert (mine["remoteVpc"], theirs["remoteVpc"]) == ("gp-b", "gp-a")
    (route,) = one["staticRoutes"]
    assert route["cidr"] == "10.2.0.0/24"
    assert f"{route['nextHopIP']}/30" == theirs["localConnectIP"]
    (back,) = other["staticRoutes"]
    assert f"{back['nextHopIP']}/30" == mine["localConnectIP"]


def test_a_gateway_brings_the_default_route() -> None:
    (vpc,) = specs_of(compile_all(("vision", build_wide_network(), SPACES)), "Vpc")
    assert vpc["staticRoutes"][0] == {
        "cidr": "0.0.0.0/0",
        "nextHopIP": "10.1.0.254",
        "policy": "policyDst",
        "routeTable": "",
    }


def test_a_limit_bursts_for_one_second_and_its_end_is_written() -> None:
    objects = compile_all(("vision", build_wide_network(), SPACES))
    limit = next(one for one in specs_of(objects, "QoSPolicy") if one["bindingType"] == "EIP")
    assert {(one["rateMax"], one["burstMax"]) for one in limit["bandwidthLimitRules"]} == {
        ("100", "13")
    }
    assert [one["qosPolicy"] for one in specs_of(objects, "IptablesEIP")] == [
        "gp-vision--out--rate",
        "",
        "",
    ]


def test_every_object_names_its_tenant_and_has_no_owner() -> None:
    for one in compile_all(("vision", build_wide_network(), SPACES)):
        meta = one["metadata"]
        assert meta["labels"] == {"gpupool.dev/tenant": "vision"}
        assert "ownerReferences" not in meta
        assert meta["name"].startswith("gp-vision")


def test_parts_that_pods_are_made_of_fit_a_label() -> None:
    name = "v" * 32
    network = build_wide_network()
    network["subnets"][0]["name"] = "t" * 20
    network["gateway"]["subnet"] = "t" * 20
    network["gateway"]["addresses"][0] |= {"name": "a" * 20, "snat": ["t" * 20]}
    objects = compile_all((name, network, SPACES))
    for one in objects:
        longest = 63 - len("vpc-nat-gw--0") - len("-0123456789")
        most = longest if one["kind"] == "VpcNatGateway" else 253
        assert len(one["metadata"]["name"]) <= most
    assert max(len(one["metadata"]["name"]) for one in objects if one["kind"] == "Subnet") <= 63
    # Kube-OVN labels an address with its limit.
    assert max(len(one["metadata"]["name"]) for one in objects if one["kind"] == "QoSPolicy") <= 63


def test_the_same_wish_compiles_to_the_same_objects() -> None:
    network = build_wide_network()
    network["gateway"]["nodeSelector"] = {"b": "2", "a": "1"}
    turned = {**network, "gateway": {**network["gateway"], "nodeSelector": {"a": "1", "b": "2"}}}
    assert TenantNetwork.from_json(network) == TenantNetwork.from_json(turned)
    (gateway,) = specs_of(compile_all(("vision", network, SPACES)), "VpcNatGateway")
    assert gateway["selector"] == ["a: 1", "b: 2"]
