"""What is written and deleted, whatever the cluster has, and what of others is left alone."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gpupool.kubernetes.networks.kube_ovn import KINDS, OWNER, Json, key_of
from gpupool.kubernetes.networks.object_changes import (
    ObjectChanges,
    contains,
    find_conflict,
    plan_changes,
)
from tests.support.kube_ovn_networks import build_network, build_wide_network
from tests.unit.kubernetes.networks.test_compiler import SPACES, compile_all

WIDE = compile_all(("vision", build_wide_network(), SPACES))
WANTED = {"vision": WIDE}


def as_live(*objects: Json) -> dict[tuple[str, str], Json]:
    live = {}
    for one in copy.deepcopy(objects):
        one["metadata"]["uid"] = f"uid of {one['metadata']['name']}"
        live[key_of(one)] = one
    return live


def plan(live: dict[tuple[str, str], Json], *unchanged: str) -> ObjectChanges:
    return plan_changes({} if unchanged else WANTED, live, unchanged)


def kinds(objects: tuple[Json, ...]) -> list[str]:
    return list(dict.fromkeys(one["kind"] for one in objects))


def test_all_is_created_in_an_order_in_which_each_finds_what_it_names() -> None:
    changes = plan({})
    assert len(changes.applied) == len(WIDE)
    assert kinds(changes.applied)[:2] == ["Vpc", "Subnet"]
    order = kinds(changes.applied)
    assert order.index("QoSPolicy") < order.index("IptablesEIP") < order.index("IptablesSnatRule")


def test_nothing_is_written_twice() -> None:
    assert plan(as_live(*WIDE)) == ObjectChanges((), ())


def test_what_kube_ovn_adds_is_no_difference() -> None:
    live = as_live(*WIDE)
    vpc = live[("Vpc", "gp-vision")]
    vpc["spec"]["enableBfd"] = True
    vpc["spec"]["staticRoutes"][0]["ecmpMode"] = ""
    subnet = live[("Subnet", "gp-vision--train")]
    subnet["spec"] |= {
        "gatewayType": "distributed",
        "excludeIps": ["10.1.0.1..10.1.0.9", "10.1.0.254"],
    }
    assert plan(live) == ObjectChanges((), ())


@pytest.mark.parametrize(
    ("key", "field", "value"),
    [
        (("Vpc", "gp-vision"), "staticRoutes", []),
        (("Subnet", "gp-vision--train"), "namespaces", ["vision-train", "speech"]),
        (("Subnet", "gp-vision--train"), "excludeIps", ["10.1.0.1"]),
        (("IptablesEIP", "gp-vision--out"), "qosPolicy", ""),
        (("IptablesDnatRule", "gp-vision--ssh"), "internalPort", "23"),
    ],
)
def test_what_others_changed_is_written_again(key: tuple[str, str], field: str, value: Any) -> None:
    live = as_live(*WIDE)
    live[key]["spec"][field] = value
    assert [key_of(one) for one in plan(live).applied] == [key]


def test_a_subnet_waits_for_the_addresses_of_the_one_that_it_replaces() -> None:
    vpc, train, *_ = copy.deepcopy(WIDE)
    train["metadata"]["name"] = "gp-vision--old"
    live = as_live(vpc, train)
    names = [key_of(one) for one in plan(live).applied]
    assert ("Subnet", "gp-vision--train") not in names
    assert ("Subnet", "gp-vision--serve") in names
    assert [key_of(one) for one in plan(live).deleted] == [("Subnet", "gp-vision--old")]
    train["spec"]["vpc"] = "gp-speech"
    names = [key_of(one) for one in plan(as_live(vpc, train)).applied]
    assert ("Subnet", "gp-vision--train") in names


def test_dropped_objects_go_kind_by_kind_and_the_last_kind_first() -> None:
    live = as_live(*WIDE)
    gone = []
    while (changes := plan_changes({"vision": []}, live, [])).has_leftovers:
        (kind,) = kinds(changes.deleted)
        gone.append(kind)
        for one in changes.deleted:
            one["metadata"]["deletionTimestamp"] = "2026-11-28T00:00:00Z"
        waiting = plan_changes({"vision": []}, live, [])
        assert (waiting.deleted, waiting.has_leftovers) == ((), True)
        live = {key: one for key, one in live.items() if one not in changes.deleted}
    assert gone == [kind.name for kind in reversed(KINDS)]


def test_words_of_others_that_are_no_addresses_break_nothing() -> None:
    live = as_live(*WIDE)
    spec = live[("Subnet", "gp-vision--train")]["spec"]
    spec["excludeIps"] = ["fd00::1", "nonsense", "10.1.0.1..10.1.0.9", "10.1.0.254"]
    assert plan(live).applied == ()
    live[("Subnet", "other")] = {
        "kind": "Subnet",
        "metadata": {"name": "other"},
        "spec": {"vpc": "gp-vision", "cidrBlock": "nonsense,fd00::/64"},
    }
    del live[("Subnet", "gp-vision--serve")]
    assert [key_of(one) for one in plan(live).applied] == [("Subnet", "gp-vision--serve")]


def test_only_a_subnet_that_is_going_loses_its_probe_address() -> None:
    live = as_live(*WIDE)
    assert plan(live).emptied == ()
    assert plan_changes({}, live, []).emptied == ()
    live[("Subnet", "gp-vision--serve")]["metadata"]["deletionTimestamp"] = "2026-11-28T00:00:00Z"
    assert plan(live).emptied == ()
    assert plan_changes({}, live, []).emptied == ("gp-vision--serve",)


def test_a_tenant_that_is_slow_to_go_holds_up_no_other() -> None:
    vision = as_live(*WIDE)
    speech = as_live(*compile_all(("speech", build_network(), ("speech",))))
    deleted = plan_changes({}, vision | speech, []).deleted
    assert {one["kind"] for one in deleted} == {"SwitchLBRule", "Subnet"}


def test_objects_of_others_and_of_refused_networks_stay() -> None:
    foreign = copy.deepcopy(WIDE[0])
    del foreign["metadata"]["labels"]
    assert plan_changes({}, as_live(foreign), []) == ObjectChanges((), ())
    assert plan(as_live(*WIDE), "vision") == ObjectChanges((), ())


def test_an_object_of_somebody_else_under_our_name_is_a_conflict() -> None:
    live = as_live(*WIDE)
    live[("Vpc", "gp-vision")]["metadata"]["labels"] = {"gpupool.dev/tenant": "speech"}
    found = find_conflict(WIDE, live)
    assert found is not None
    assert found.message == "Vpc gp-vision exists and is not of this Tenant"


def test_a_field_that_cannot_change_is_a_conflict() -> None:
    assert find_conflict(WIDE, as_live(*WIDE)) is None
    live = as_live(*WIDE)
    live[("Subnet", "gp-vision--train")]["spec"]["cidrBlock"] = "10.9.0.0/24"
    found = find_conflict(WIDE, live)
    assert found is not None
    assert "has cidrBlock 10.9.0.0/24, which Kube-OVN cannot change to 10.1.0.0/24" in found.message


def test_absent_and_empty_are_the_same() -> None:
    assert contains({"a": [], "b": False, "c": ""}, {})
    assert not contains({"a": ["x"]}, {})
    assert not contains({"b": True}, {"b": False})


def test_a_dual_subnet_waits_for_the_ipv6_prefix_of_a_dropped_one() -> None:
    spec = {"vpc": "gp-a", "cidrBlock": "10.1.0.0/24,fd00:1::/64"}
    wanted = {"kind": "Subnet", "metadata": {"name": "new", "labels": {OWNER: "a"}}, "spec": spec}
    old = {
        "kind": "Subnet",
        "metadata": {"name": "old", "labels": {OWNER: "a"}, "uid": "1"},
        "spec": {"vpc": "gp-a", "cidrBlock": "10.9.0.0/24,fd00:1::/64"},
    }
    assert not plan_changes({"a": [wanted]}, {("Subnet", "old"): old}, ()).applied
    assert plan_changes({"a": [wanted]}, {}, ()).applied == (wanted,)
