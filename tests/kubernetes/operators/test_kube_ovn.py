"""Networks of Tenants carried out by Kube-OVN's own controller, down to OVN's northbound database."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from gpupool.kubernetes.resources.tenant import TENANTS
from tests.kubernetes.test_tenant_networks import (
    SWITCH,
    apply,
    install_definitions,
    install_rights,
    is_refused,
    list_ours,
    pod,
    uninstall,
    until_condition,
)
from tests.support.cluster.api import Api, Object
from tests.support.cluster.cluster import Cluster
from tests.support.cluster_pool import ClusterPool
from tests.support.kube_ovn_networks import build_network, build_wide_network
from tests.support.operators.kube_ovn import NAMESPACE, Northbound, running, why_not

ADDRESS = "ovn.kubernetes.io/ip_address"
SPACES = ("vision", "speech")
#: What enables NAT gateways in Kube-OVN. No node runs the image here.
NAT_GATEWAYS = {
    "ovn-vpc-nat-gw-config": {"enable-vpc-nat-gw": "true"},
    "ovn-vpc-nat-config": {"image": "docker.io/kubeovn/vpc-nat-gateway:v1.17.0"},
}


@pytest.fixture(scope="module")
def northbound(cluster: Cluster, pool: ClusterPool) -> Iterator[Northbound]:
    """Kube-OVN on its definitions, two namespaces, and a pool that manages networks."""
    if reason := why_not():
        pytest.skip(reason)
    for space in SPACES:
        cluster.access().namespace(space)
        pool.admin.until(f"/api/v1/namespaces/{space}/serviceaccounts/default", bool)
    install_definitions(pool.admin)
    with running(cluster) as database:
        yield database
        pool.admin.delete(TENANTS)
        pool.until(lambda: not list_ours(pool.admin), "nothing of the tenants", 60)
    uninstall(pool.admin)


@pytest.fixture(scope="module")
def networks(pool: ClusterPool, northbound: Northbound) -> None:
    install_rights(pool.admin)
    pool.until(lambda: is_refused(pool.admin, "speech", {SWITCH: "x"}), "the policy in effect")
    pool.kill()
    pool.start("--kube-ovn-namespace", NAMESPACE)


def annotations_of(found: Object) -> dict[str, str]:
    notes: dict[str, str] = found["metadata"].get("annotations") or {}
    return notes


def create_pod(
    admin: Api,
    space: str,
    name: str,
    annotations: dict[str, str],
    labels: dict[str, str] | None = None,
) -> Object:
    """A pod on a node, as kube-scheduler leaves it; with the address that Kube-OVN gives it."""
    made = pod(name, annotations)
    made["metadata"]["labels"] = labels or {}
    made["spec"]["nodeName"] = "operators-00000"
    path = f"/api/v1/namespaces/{space}/pods"
    admin.create(path, made)
    return admin.until(f"{path}/{name}", lambda one: ADDRESS in annotations_of(one), 30)


def test_without_the_policy_a_pod_gets_into_the_network_of_another(
    pool: ClusterPool, northbound: Northbound
) -> None:
    """Why there is a policy. Fails once Kube-OVN compares the namespace itself."""
    subnet = {
        "apiVersion": "kubeovn.io/v1",
        "kind": "Subnet",
        "metadata": {"name": "open"},
        "spec": {"protocol": "IPv4", "cidrBlock": "10.77.0.0/24", "namespaces": ["speech"]},
    }
    path = "/apis/kubeovn.io/v1/subnets"
    pool.admin.create(path, subnet)
    pool.until(lambda: "open" in northbound.list_names("Logical_Switch"), "the switch in OVN")
    intruder = create_pod(pool.admin, "vision", "intruder", {SWITCH: "open"})
    assert annotations_of(intruder)[ADDRESS].startswith("10.77.0.")
    pool.admin.delete("/api/v1/namespaces/vision/pods/intruder?gracePeriodSeconds=0")
    pool.admin.delete(f"{path}/open")
    pool.admin.until_gone(f"{path}/open")


def test_without_the_policy_a_service_gets_into_the_network_of_another(
    pool: ClusterPool, northbound: Northbound
) -> None:
    """Why the policy covers services. Fails once Kube-OVN compares the namespace itself."""
    admin = pool.admin
    path = "/apis/kubeovn.io/v1"
    create_victim(admin, path)
    services = "/api/v1/namespaces/vision/services"
    slices = "/apis/discovery.k8s.io/v1/namespaces/vision/endpointslices"
    lure = {f"ovn.kubernetes.io/{key}": value for key, value in LURE.items()}
    meta = {"name": "lure", "annotations": lure}
    ports = [{"port": 80}]
    admin.create(
        services,
        {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"ports": ports}},
    )
    admin.create(
        slices,
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "lure", "labels": {"kubernetes.io/service-name": "lure"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.78.0.66"]}],
            "ports": [{"port": 80, "name": ""}],
        },
    )
    pool.until(lambda: "10.78.0.10:80" in list_balanced(northbound), "the address in the network")
    admin.delete(f"{services}/lure")
    pool.until(lambda: "10.78.0.10:80" not in list_balanced(northbound), "the address gone")
    for kind in ("subnets/victim-main", "vpcs/victim"):
        admin.delete(f"{path}/{kind}")
        admin.until_gone(f"{path}/{kind}")


LURE = {
    "logical_router": "victim",
    "logical_switch": "victim-main",
    "switch_lb_vip": "10.78.0.10",
    # Without probes: they would need a pod of Kube-OVN's behind the address.
    "service_health_check": "false",
}


def create_victim(admin: Api, path: str) -> None:
    """A network with one subnet, of the namespace `speech`."""
    specs = {
        "vpcs/victim": ("Vpc", {"namespaces": ["speech"]}),
        "subnets/victim-main": (
            "Subnet",
            {
                "vpc": "victim",
                "protocol": "IPv4",
                "cidrBlock": "10.78.0.0/24",
                "namespaces": ["speech"],
            },
        ),
    }
    for place, (kind, spec) in specs.items():
        plural, name = place.split("/")
        made = {"apiVersion": "kubeovn.io/v1", "kind": kind, "metadata": {"name": name}}
        admin.create(f"{path}/{plural}", {**made, "spec": spec})
    admin.until(f"{path}/vpcs/victim", lambda found: found.get("status", {}).get("standby"), 30)


def list_balanced(northbound: Northbound) -> str:
    return northbound.ask(
        "--bare", "--columns=vips", "find", "Load_Balancer", "name=vpc-victim-tcp-load"
    )


def build_dual(number: int, *peers: str) -> dict[str, Any]:
    """A network with both families."""
    network = build_network(f"10.{number}.0.0/24", *peers)
    network["subnets"][0]["cidr6"] = f"fd00:{number}::/64"
    return network


def test_two_peered_tenants_with_their_pods_are_in_ovn(
    pool: ClusterPool, northbound: Northbound, networks: None
) -> None:
    admin = pool.admin
    apply(admin, "vision", build_dual(1, "speech"), "vision")
    begin = time.monotonic()
    apply(admin, "speech", build_dual(2, "vision"), "speech")
    for name in SPACES:
        until_condition(pool, name, "NetworkInForce", "True", "reports every object in force")
        until_condition(pool, name, "PeeringsInForce", "True", "joined with")
    print(f"two peered networks in force after {time.monotonic() - begin:.1f} s")
    switches = {"gp-vision--main", "gp-speech--main"}
    assert switches <= northbound.list_names("Logical_Switch")
    assert {"gp-vision", "gp-speech"} <= northbound.list_names("Logical_Router")
    ports = northbound.list_names("Logical_Router_Port")
    assert {"gp-vision-gp-speech", "gp-speech-gp-vision"} <= ports
    routes = northbound.ask("lr-route-list", "gp-vision")
    assert "10.2.0.0/24" in routes
    assert "fd00:2::/64" in routes

    made = {}
    for name, number in (("vision", 1), ("speech", 2)):
        made[name] = create_pod(admin, name, "worker", {})
        four, six = annotations_of(made[name])[ADDRESS].split(",")
        assert four.startswith(f"10.{number}.0.")
        assert six.startswith(f"fd00:{number}::")
        assert f"worker.{name}" in northbound.ask("lsp-list", f"gp-{name}--main")
    for family in (0, 1):
        leads = partial(
            leads_to, northbound, made["vision"], made["speech"], traffic="udp", family=family
        )
        pool.until(leads, "a packet to the peer")


def leads_to(
    northbound: Northbound,
    sender: Object,
    receiver: Object,
    traffic: str,
    *states: str,
    family: int = 0,
) -> bool:
    """Return whether OVN leads a packet from one pod to the other, over the router between them."""
    notes = annotations_of(sender)
    router = notes["ovn.kubernetes.io/logical_router"]
    switch = notes[SWITCH]
    port = f"{router}-{switch}"
    hop = northbound.ask("--bare", "--columns=mac", "find", "Logical_Router_Port", f"name={port}")
    source, target = (annotations_of(one)[ADDRESS].split(",")[family] for one in (sender, receiver))
    version = (4, 6)[family]
    terms = [
        f'inport == "{name_port(sender)}"',
        f"eth.src == {notes['ovn.kubernetes.io/mac_address']}",
        f"eth.dst == {hop.strip()}",
        f"ip{version}.src == {source}",
        f"ip{version}.dst == {target}",
        "ip.ttl == 64",
        traffic,
    ]
    return f'output("{name_port(receiver)}")' in northbound.trace(" && ".join(terms), *states)


def name_port(made: Object) -> str:
    return f"{made['metadata']['name']}.{made['metadata']['namespace']}"


def test_the_pod_that_names_the_network_of_another_is_refused(
    pool: ClusterPool, networks: None
) -> None:
    assert is_refused(pool.admin, "vision", {SWITCH: "gp-speech--main"})
    assert is_refused(pool.admin, "vision", {ADDRESS: "10.1.0.77"})


def test_overlapping_tenants_stay_apart_and_a_repair_reaches_ovn(
    pool: ClusterPool, northbound: Northbound, networks: None
) -> None:
    """Kube-OVN deletes the switch of a subnet that is deleted; the pool makes both again."""
    admin = pool.admin
    pool.admin.delete("/api/v1/namespaces/speech/pods/worker?gracePeriodSeconds=0")
    apply(admin, "speech", build_dual(2), "speech")
    pool.until(
        lambda: "gp-vision-gp-speech" not in northbound.list_names("Logical_Router_Port"),
        "no port between the two",
    )
    path = "/apis/kubeovn.io/v1/subnets/gp-speech--main"
    before = northbound_uuid(northbound, "gp-speech--main")
    admin.delete(path)

    def is_again() -> bool:
        return northbound_uuid(northbound, "gp-speech--main") not in ("", before)

    pool.until(is_again, "another switch in OVN", 60)
    until_condition(pool, "speech", "NetworkInForce", "True", "reports every object in force")


def northbound_uuid(northbound: Northbound, switch: str) -> str:
    return northbound.ask(
        "--bare", "--columns=_uuid", "find", "Logical_Switch", f"name={switch}"
    ).strip()


def test_accepted_traffic_and_routes_are_in_ovn_and_leave_it(
    pool: ClusterPool, cluster: Cluster, northbound: Northbound, networks: None
) -> None:
    """Routes are looked up and not traced: Debian's OVN puts Kube-OVN's own route by source first,
    Kube-OVN's patched OVN puts it last."""
    admin = pool.admin
    cluster.access().namespace("speech-train")
    admin.until("/api/v1/namespaces/speech-train/serviceaccounts/default", bool)
    serve = {
        "name": "serve",
        "cidr": "10.4.1.0/24",
        "namespaces": ["speech"],
        "accepts": [{"protocol": "tcp", "port": 8000, "lastPort": 8100, "from": "10.4.2.0/24"}],
    }
    train = {"name": "train", "cidr": "10.4.2.0/24", "namespaces": ["speech-train"]}
    routes = [
        {"prefix": "172.20.0.0/16", "via": "10.4.1.9"},
        {"prefix": "172.20.99.0/24", "discard": True},
        {"prefix": "0.0.0.0/0", "via": "10.4.1.9", "subnet": "train"},
    ]
    spaces = ("speech", "speech-train")
    apply(admin, "speech", {"subnets": [serve, train], "routes": routes}, *spaces)
    until_condition(pool, "speech", "NetworkInForce", "True", "reports every object in force")

    # Kube-OVN reports a router once and not its changes, so these are awaited.
    whole = {"172.20.0.0/16", "0.0.0.0/0", "10.4.1.9"}
    pool.until(lambda: whole <= list_routes(northbound, "gp-speech--train"), "the subnet's table")
    assert "172.20.0.0/16" in list_routes(northbound, "")
    assert "0.0.0.0/0" not in list_routes(northbound, "")
    port = ("--bare", "--columns=options", "find", "Logical_Router_Port")
    pool.until(
        lambda: "gp-speech--train" in northbound.ask(*port, "name=gp-speech-gp-speech--train"),
        "the subnet's packets looked up in its table",
    )
    pool.until(
        lambda: "ip4.dst == 172.20.99.0/24" in northbound.ask("lr-policy-list", "gp-speech"),
        "the discarded prefix",
    )

    one = create_pod(admin, "speech", "one", {})
    other = create_pod(admin, "speech-train", "other", {})
    closed = "tcp && tcp.dst == 22"
    pool.until(lambda: not leads_to(northbound, other, one, closed), "the subnet closed")
    assert leads_to(northbound, other, one, "tcp && tcp.dst == 8050")
    assert not leads_to(northbound, other, one, "tcp && tcp.dst == 8101")
    assert not leads_to(northbound, other, one, "udp && udp.dst == 8050")
    assert not leads_to(northbound, other, one, "icmp4")
    for protocol in (47, 132, 200):
        assert not leads_to(northbound, other, one, f"ip.proto == {protocol}")
    # What a pod opens itself, and the answer to it.
    assert leads_to(northbound, one, other, closed)
    assert leads_to(northbound, other, one, "tcp && tcp.src == 22", "est,rpl", "est,rpl")

    admin.create(POLICIES, WIDE_POLICY)
    pool.until(lambda: "tcp.dst == 22" in list_policies(northbound), "the policy in OVN")
    assert not leads_to(northbound, other, one, closed)
    assert not leads_to(northbound, other, one, "tcp && tcp.dst == 8050")
    admin.delete(f"{POLICIES}/wide")
    pool.until(
        lambda: leads_to(northbound, other, one, "tcp && tcp.dst == 8050"), "no policy any more"
    )

    del serve["accepts"]
    apply(admin, "speech", {"subnets": [serve, train]}, *spaces)
    pool.until(
        lambda: leads_to(northbound, other, one, "tcp && tcp.dst == 22"), "everything accepted"
    )
    pool.until(
        lambda: (
            "172.20." not in northbound.ask("lr-policy-list", "gp-speech")
            and "172.20." not in northbound.ask("lr-route-list", "gp-speech")
        ),
        "no route of the tenant's own",
    )
    for space, name in (("speech", "one"), ("speech-train", "other")):
        admin.delete(f"/api/v1/namespaces/{space}/pods/{name}?gracePeriodSeconds=0")


POLICIES = "/apis/networking.k8s.io/v1/namespaces/speech/networkpolicies"
#: Takes port 22 from everywhere and so no other port, whatever the subnet accepts.
WIDE_POLICY: Object = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "wide"},
    "spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 22, "protocol": "TCP"}]}]},
}


def list_policies(northbound: Northbound) -> str:
    return northbound.ask("--bare", "--columns=match", "find", "ACL", "priority=2001")


def list_routes(northbound: Northbound, table: str) -> set[str]:
    """Words of one route table of the tenant speech."""
    text = northbound.ask(f"--route-table={table}", "lr-route-list", "gp-speech")
    return set(text.split())


def test_a_gateway_gets_its_pod_its_route_and_its_balancer(
    pool: ClusterPool, cluster: Cluster, northbound: Northbound, networks: None
) -> None:
    """No image runs here, so Kube-OVN reports no address of the gateway, and the status names them."""
    admin = pool.admin
    for space in ("vision-train", "vision-serve"):
        cluster.access().namespace(space)
        admin.until(f"/api/v1/namespaces/{space}/serviceaccounts/default", bool)
    for name, data in NAT_GATEWAYS.items():
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{name}"
        meta = {"name": name}
        admin.apply(path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})
    outside = {
        "apiVersion": "kubeovn.io/v1",
        "kind": "Subnet",
        "metadata": {"name": "outside"},
        "spec": {
            "protocol": "IPv4",
            "cidrBlock": "203.0.113.0/24",
            "gateway": "203.0.113.1",
            "provider": "outside.kube-system",
            "disableGatewayCheck": True,
        },
    }
    admin.apply("/apis/kubeovn.io/v1/subnets/outside", outside)
    # The new subnet has the addresses of the old one, which lasts as long as its pod.
    apply(admin, "vision", build_wide_network(), "vision-train", "vision-serve")
    until_condition(pool, "vision", "NetworkInForce", "False", "Subnet gp-vision--train")
    admin.delete("/api/v1/namespaces/vision/pods/worker?gracePeriodSeconds=0")
    worker = create_pod(admin, "vision-serve", "web", {}, {"app": "web"})
    address = annotations_of(worker)[ADDRESS]
    ready = {"type": "Ready", "status": "True"}
    status = {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [ready],
    }
    admin.merge("/api/v1/namespaces/vision-serve/pods/web/status", {"status": status})

    gateway = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/vpc-nat-gw-gp-vision"
    admin.until(gateway, bool, 30)
    admin.until(f"/api/v1/namespaces/{NAMESPACE}/pods/vpc-nat-gw-gp-vision-0", bool, 30)
    assert "10.1.0.254" in northbound.ask("lr-route-list", "gp-vision")
    pool.until(
        lambda: f"{address}:8080" in northbound.ask("lb-list"), "the balancer's pod in OVN", 60
    )
    for limit in ("gateway--whole", "out--rate"):
        path = f"/apis/kubeovn.io/v1/qos-policies/gp-vision--{limit}"
        admin.until(path, lambda found: found.get("status", {}).get("bindingType"), 30)
    until_condition(pool, "vision", "NetworkInForce", "False", "IptablesEIP gp-vision--in")
    floating = "/apis/kubeovn.io/v1/iptables-fip-rules/gp-vision--own--floating"
    assert not admin.get(floating).get("status", {}).get("ready")
    admin.delete("/api/v1/namespaces/vision-serve/pods/web?gracePeriodSeconds=0")
    apply(admin, "vision", build_network("10.3.0.0/24"), "vision")
    until_condition(pool, "vision", "NetworkInForce", "True", "reports every object in force")

    def is_gone() -> bool:
        # No kubelet ends the gateway's pod here.
        admin.delete(f"/api/v1/namespaces/{NAMESPACE}/pods?gracePeriodSeconds=0")
        return set(list_ours(admin)) == {"Vpc", "Subnet"}

    pool.until(is_gone, "nothing of the gateway", 60)


def test_a_deleted_tenant_leaves_nothing_in_ovn(
    pool: ClusterPool, northbound: Northbound, networks: None
) -> None:
    assert list_rows(northbound) >= {"gp-vision", "gp-vision--main", "gp-speech"}
    for name in SPACES:
        pool.admin.delete(f"{TENANTS}/{name}")
    pool.until(lambda: not list_rows(northbound), "no switch and no router of the tenants", 60)


def list_rows(northbound: Northbound) -> set[str]:
    """Switches and routers of Tenants."""
    rows = northbound.list_names("Logical_Switch") | northbound.list_names("Logical_Router")
    return {name for name in rows if name.startswith("gp-")}
