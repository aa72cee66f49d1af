"""What holds for Tenants' networks beside each other: namespaces, consent, overlaps, links."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from gpupool.kubernetes.networks.judgement import NetworkVerdict, NetworkWish, judge_networks
from gpupool.kubernetes.resources.network_parts.values import LINKS, LINKS6
from tests.support.kube_ovn_networks import build_network, build_wide_network, wish_of


def judge(*wishes: NetworkWish) -> dict[str, NetworkVerdict]:
    return judge_networks({wish.name: wish for wish in wishes})


def refusal_of(*wishes: NetworkWish) -> str:
    refusal = judge(*wishes)[wishes[0].name].refusal
    assert refusal is not None
    return refusal.message


def test_without_names_a_subnet_has_all_namespaces_of_its_tenant() -> None:
    verdicts = judge(wish_of("vision", build_network(), "a", "b"))
    assert verdicts["vision"].namespaces == {"main": ("a", "b")}


def test_a_namespace_that_no_tenant_lists_is_in_the_network_of_its_own_name() -> None:
    assert judge(wish_of("vision", build_network()))["vision"].namespaces == {"main": ("vision",)}
    verdicts = judge(wish_of("vision", build_network()), wish_of("lab", None, "vision"))
    assert verdicts["vision"].namespaces == {"main": ()}
    assert "lab" not in verdicts


def test_a_namespace_of_another_tenant_is_refused() -> None:
    taken = {"subnets": [{"name": "main", "cidr": "10.1.0.0/24", "namespaces": ["b"]}]}
    said = refusal_of(wish_of("vision", taken, "a"), wish_of("speech", None, "b"))
    assert said == "subnet main names namespace b, which is not of this Tenant"
    said = refusal_of(wish_of("vision", build_network(), "a"), wish_of("speech", None, "a"))
    assert said == "namespace a is listed by speech and vision"


def test_a_namespace_is_in_one_subnet() -> None:
    both: dict[str, Any] = build_network()
    both["subnets"].append({"name": "other", "cidr": "10.2.0.0/24"})
    assert (
        refusal_of(wish_of("vision", both, "a")) == "namespace a is in the subnets main and other"
    )


def test_a_balancer_leads_to_the_tenants_own_namespaces() -> None:
    said = refusal_of(wish_of("vision", {**build_wide_network(), "subnets": [
        {"name": "train", "cidr": "10.1.0.0/24"},
        {"name": "serve", "cidr": "10.1.1.0/24", "namespaces": ["x"]},
    ]}, "x", "y"))  # fmt: skip
    assert "is in the subnets" in said
    wide = build_wide_network()
    wide["balancers"][0]["namespace"] = "speech"
    said = refusal_of(wish_of("vision", wide, "vision-train", "vision-serve"))
    assert said == "balancer web names namespace 'speech', which is not of this Tenant"


@pytest.mark.parametrize("name", ["a--b", "a.b", "a" * 33, "gp", "x-gp", "gp-y"])
def test_names_that_could_be_taken_for_others_have_no_network(name: str) -> None:
    assert f"a Tenant called {name}" in refusal_of(wish_of(name, build_network(), "a"))


def test_a_peering_needs_both() -> None:
    one = wish_of("vision", build_network("10.1.0.0/24", "speech"), "a")
    alone = judge(one, wish_of("speech", build_network("10.2.0.0/24"), "b"))
    absent = judge(one)
    assert alone["vision"] == absent["vision"]
    assert alone["vision"].missing == ("speech: it has not agreed; add vision to its peers",)
    assert not alone["vision"].peerings
    assert not alone["speech"].peerings
    both = judge(one, wish_of("speech", build_network("10.2.0.0/24", "vision"), "b"))
    (mine,) = both["vision"].peerings
    (theirs,) = both["speech"].peerings
    assert mine.link == theirs.link
    assert (mine.is_first, theirs.is_first) == (False, True)
    assert [str(one) for one in mine.prefixes] == ["10.2.0.0/24"]
    assert not both["vision"].missing


def test_overlapping_peers_are_told_the_clashing_prefixes() -> None:
    verdicts = judge(
        wish_of("vision", build_network("10.1.0.0/16", "speech"), "a"),
        wish_of("speech", build_network("10.1.7.0/24", "vision"), "b"),
    )
    words = "overlapping subnets: speech 10.1.7.0/24 and vision 10.1.0.0/16"
    assert verdicts["vision"].missing == (f"speech: {words}",)
    assert verdicts["speech"].missing == (f"vision: {words}",)
    assert verdicts["vision"].refusal is None


def test_two_peers_of_one_network_may_not_overlap() -> None:
    verdicts = judge(
        wish_of("hub", build_network("10.0.0.0/24", "one", "two"), "a"),
        wish_of("one", build_network("10.5.0.0/24", "hub"), "b"),
        wish_of("two", build_network("10.5.0.0/24", "hub"), "c"),
    )
    assert [peering.peer for peering in verdicts["hub"].peerings] == ["one"]
    assert verdicts["two"].missing == (
        "hub: overlapping subnets: one 10.5.0.0/24 and two 10.5.0.0/24",
    )


def test_networks_that_are_not_peered_may_overlap() -> None:
    verdicts = judge(wish_of("a", build_network(), "x"), wish_of("b", build_network(), "y"))
    assert [one.refusal for one in verdicts.values()] == [None, None]


def test_links_of_one_router_differ_and_stay_when_peers_come() -> None:
    def hub(count: int) -> dict[str, NetworkVerdict]:
        spokes = [f"spoke{number}" for number in range(count)]
        wishes = [wish_of("hub", build_network("10.0.0.0/24", *spokes), "a")]
        for number, name in enumerate(spokes):
            wishes.append(wish_of(name, build_network(f"10.{number + 1}.0.0/24", "hub"), name))
        return judge(*wishes)

    few = {one.peer: one.link for one in hub(20)["hub"].peerings}
    many = {one.peer: one.link for one in hub(32)["hub"].peerings}
    assert len(set(many.values())) == 32
    assert few.items() <= many.items()
    ordered = sorted(many.values())
    assert all(not one.overlaps(other) for one, other in pairwise(ordered))
    assert all(link.subnet_of(LINKS) for link in ordered)


def test_a_fault_of_one_tenant_leaves_the_others() -> None:
    verdicts = judge(
        wish_of("a--b", build_network("10.1.0.0/24", "speech"), "a"),
        wish_of("speech", build_network("10.2.0.0/24", "a--b"), "b"),
    )
    assert verdicts["a--b"].refusal is not None
    assert verdicts["speech"].refusal is None
    assert verdicts["speech"].missing == ("a--b: it has not agreed; add speech to its peers",)


def with_ipv6(name: str, cidr: str, cidr6: str, peer: str) -> NetworkWish:
    network = build_network(cidr, peer)
    network["subnets"][0]["cidr6"] = cidr6
    return wish_of(name, network, name)


def test_peers_with_ipv6_have_a_link_and_routes_of_both_families() -> None:
    verdicts = judge(
        with_ipv6("one", "10.1.0.0/24", "fd00:1::/64", "two"),
        with_ipv6("two", "10.2.0.0/24", "fd00:2::/64", "one"),
    )
    (mine,) = verdicts["one"].peerings
    (theirs,) = verdicts["two"].peerings
    assert mine.link6 is not None
    assert mine.link6 == theirs.link6
    assert mine.link6.subnet_of(LINKS6)
    assert [str(one) for one in mine.prefixes] == ["10.2.0.0/24", "fd00:2::/64"]


def test_a_peer_without_ipv6_is_reached_by_ipv4_alone() -> None:
    verdicts = judge(
        with_ipv6("one", "10.1.0.0/24", "fd00:1::/64", "two"),
        wish_of("two", build_network("10.2.0.0/24", "one"), "two"),
    )
    (theirs,) = verdicts["two"].peerings
    assert theirs.link6 is None
    assert [str(one) for one in theirs.prefixes] == ["10.1.0.0/24"]


def test_peers_that_overlap_in_ipv6_alone_are_not_joined() -> None:
    verdicts = judge(
        with_ipv6("one", "10.1.0.0/24", "fd00:1::/64", "two"),
        with_ipv6("two", "10.2.0.0/24", "fd00:1::/64", "one"),
    )
    words = "overlapping subnets: one fd00:1::/64 and two fd00:1::/64"
    assert verdicts["one"].missing == (f"two: {words}",)
