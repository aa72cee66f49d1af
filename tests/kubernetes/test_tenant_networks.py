"""Networks of Tenants on a real API server with Kube-OVN's definitions and without its controller,
whose word the tests say. The policy on addresses is tried as a tenant meets it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.kubernetes.manifests import address_policy, install
from gpupool.kubernetes.networks.kube_ovn import KIND_BY_NAME, KINDS
from gpupool.kubernetes.resources.tenant import TENANTS
from tests.support import pages
from tests.support.cluster.api import Api, Object, RefusedError
from tests.support.cluster.cluster import Cluster
from tests.support.cluster_pool import ClusterPool
from tests.support.kube_ovn_networks import (
    build_network,
    build_tenant,
    build_wide_network,
    list_definitions,
)
from tests.unit.kubernetes.networks.test_evidence import IN_FORCE

KUBE_OVN = "kube-system"
SPACES = ("vision-train", "vision-serve", "speech")
SWITCH = "ovn.kubernetes.io/logical_switch"
NETWORK, PEERINGS = "NetworkInForce", "PeeringsInForce"


@pytest.fixture(scope="module")
def pool(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPool]:
    with ClusterPool(cluster, tmp_path_factory.mktemp("networks")) as made:
        for space in SPACES:
            cluster.access().namespace(space)
            made.admin.until(f"/api/v1/namespaces/{space}/serviceaccounts/default", bool)
        made.start("--kube-ovn-namespace", KUBE_OVN)
        yield made
        uninstall(made.admin)


@pytest.fixture(autouse=True)
def _nothing_is_left(pool: ClusterPool) -> Iterator[None]:
    yield
    assert pool.running, pool.log()
    pool.admin.delete(TENANTS)
    pool.until(lambda: not list_ours(pool.admin), "nothing of the tenants")


def install_definitions(admin: Api) -> None:
    for made in list_definitions():
        admin.apply(install.path_of(made), made)
    for made in list_definitions():
        admin.until(install.path_of(made), is_established)


def is_established(found: Object) -> bool:
    conditions = found.get("status", {}).get("conditions", ())
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


def install_rights(admin: Api) -> None:
    for made in install.kube_ovn(kube_ovn_namespace=KUBE_OVN):
        admin.apply(install.path_of(made), made)


def uninstall(admin: Api) -> None:
    for made in install.kube_ovn(kube_ovn_namespace=KUBE_OVN):
        if admin.find(install.path_of(made)):
            admin.delete(install.path_of(made))
    for made in list_definitions():
        if admin.find(install.path_of(made)):
            admin.delete(install.path_of(made))


@pytest.fixture(scope="module")
def rights(pool: ClusterPool) -> None:
    """What the controller may do: with the chart's switch, also where Kube-OVN is missing."""
    for made in install.kube_ovn(kube_ovn_namespace=KUBE_OVN):
        if made["kind"].startswith("ClusterRole"):
            pool.admin.apply(install.path_of(made), made)


@pytest.fixture(scope="module")
def kube_ovn(pool: ClusterPool, rights: None) -> None:
    """Its definitions and the policy; both are there."""
    install_definitions(pool.admin)
    install_rights(pool.admin)
    pool.until(
        lambda: is_refused(pool.admin, "vision-serve", {SWITCH: "x"}), "the policy in effect"
    )


def apply(admin: Api, name: str, network: Object | None, *spaces: str) -> None:
    admin.apply(f"{TENANTS}/{name}", build_tenant(name, network, *spaces))


def conditions_of(found: Object) -> dict[str, Any]:
    return {one["type"]: one for one in found.get("status", {}).get("conditions", ())}


def until_condition(pool: ClusterPool, name: str, kind: str, status: str, words: str) -> None:
    def holds(found: Object) -> bool:
        one = conditions_of(found).get(kind, {})
        observed = found.get("status", {}).get("observedGeneration")
        is_new = observed == found["metadata"]["generation"]
        return is_new and one.get("status") == status and words in one["message"]

    pool.admin.until(f"{TENANTS}/{name}", holds, 20)


def path_of(kind: str, name: str) -> str:
    return f"{KIND_BY_NAME[kind].path}/{name}"


def list_ours(admin: Api) -> dict[str, list[str]]:
    """By kind the names of objects of Tenants."""
    found = {}
    for kind in KINDS:
        answer = admin.find(f"{kind.path}?labelSelector=gpupool.dev/tenant")
        if answer is not None and answer["items"]:
            found[kind.name] = [one["metadata"]["name"] for one in answer["items"]]
    return found


def put_in_force(admin: Api) -> None:
    """As Kube-OVN's controller reports objects that it has written to OVN."""
    for kind, names in list_ours(admin).items():
        for name in names:
            admin.merge(f"{path_of(kind, name)}/status", {"status": IN_FORCE[kind]})


def pod(name: str, annotations: dict[str, str]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"containers": [{"name": "main", "image": "x"}]},
    }


def is_refused(admin: Api, space: str, annotations: dict[str, str]) -> bool:
    try:
        admin.create(f"/api/v1/namespaces/{space}/pods?dryRun=All", pod("p", annotations))
    except RefusedError as refusal:
        assert "choose a network, an address or a limit" in refusal.body
        return True
    return False


def test_without_kube_ovn_the_tenant_is_told_and_its_quotas_hold(
    pool: ClusterPool, rights: None
) -> None:
    apply(pool.admin, "vision", build_network(), "vision-train")
    until_condition(pool, "vision", NETWORK, "False", "GP-2083: Kube-OVN is not installed")
    assert conditions_of(pool.admin.get(f"{TENANTS}/vision"))["InForce"]["status"] == "True"


def test_without_the_policy_nothing_is_written(pool: ClusterPool, rights: None) -> None:
    install_definitions(pool.admin)
    apply(pool.admin, "vision", build_network(), "vision-train")
    until_condition(pool, "vision", NETWORK, "False", "pods could enter the networks of other")
    assert list_ours(pool.admin) == {}


def test_a_network_is_written_reported_repaired_and_deleted_with_its_tenant(
    pool: ClusterPool, kube_ovn: None
) -> None:
    admin = pool.admin
    apply(admin, "vision", build_wide_network(), "vision-train", "vision-serve")
    until_condition(pool, "vision", NETWORK, "False", "has yet to put in force: Vpc gp-vision")
    assert set(list_ours(admin)) == {kind.name for kind in KINDS}
    put_in_force(admin)
    until_condition(pool, "vision", NETWORK, "True", "reports every object in force")

    admin.merge(path_of("Subnet", "gp-vision--train"), {"spec": {"namespaces": ["speech"]}})
    admin.delete(path_of("IptablesDnatRule", "gp-vision--ssh"))
    admin.until(
        path_of("Subnet", "gp-vision--train"),
        lambda found: found["spec"]["namespaces"] == ["vision-train"],
        20,
    )
    admin.until(path_of("IptablesDnatRule", "gp-vision--ssh"), bool, 20)

    plain = {"subnets": build_wide_network()["subnets"]}
    apply(admin, "vision", plain, "vision-train", "vision-serve")
    pool.until(lambda: set(list_ours(admin)) == {"Vpc", "Subnet"}, "no gateway any more", 60)
    admin.delete(f"{TENANTS}/vision")
    pool.until(lambda: not list_ours(admin), "nothing of the tenant", 60)


def test_peers_are_joined_when_both_agree_and_parted_when_one_leaves(
    pool: ClusterPool, kube_ovn: None
) -> None:
    admin = pool.admin
    apply(admin, "vision", build_network("10.1.0.0/24", "speech"), "vision-train")
    apply(admin, "speech", build_network("10.2.0.0/24"), "speech")
    until_condition(pool, "vision", PEERINGS, "False", "speech: it has not agreed")
    apply(admin, "speech", build_network("10.2.0.0/24", "vision"), "speech")
    for name, peer in (("vision", "speech"), ("speech", "vision")):
        vpc = admin.until(
            path_of("Vpc", f"gp-{name}"), lambda found: found["spec"].get("vpcPeerings"), 20
        )
        assert [one["remoteVpc"] for one in vpc["spec"]["vpcPeerings"]] == [f"gp-{peer}"]
    put_in_force(admin)
    until_condition(pool, "vision", PEERINGS, "True", "joined with speech")
    apply(admin, "speech", build_network("10.1.0.0/16", "vision"), "speech")
    until_condition(
        pool, "speech", NETWORK, "False", "cidrBlock 10.2.0.0/24, which Kube-OVN cannot"
    )
    until_condition(pool, "vision", PEERINGS, "False", "speech 10.1.0.0/16 and vision 10.1.0.0/24")
    apply(admin, "speech", build_network("10.2.0.0/24"), "speech")
    admin.until(path_of("Vpc", "gp-vision"), lambda found: not found["spec"].get("vpcPeerings"), 20)


def test_an_object_of_others_is_left_and_reported(pool: ClusterPool, kube_ovn: None) -> None:
    kind = KIND_BY_NAME["Vpc"]
    foreign = {
        "apiVersion": "kubeovn.io/v1",
        "kind": "Vpc",
        "metadata": {"name": "gp-speech"},
        "spec": {"namespaces": ["default"]},
    }
    pool.admin.create(kind.path, foreign)
    apply(pool.admin, "speech", build_network(), "speech")
    until_condition(pool, "speech", NETWORK, "False", "gp-speech exists and is not of this Tenant")
    assert pool.admin.get(f"{kind.path}/gp-speech")["spec"]["namespaces"] == ["default"]
    pool.admin.delete(f"{kind.path}/gp-speech")
    pool.admin.until(
        f"{kind.path}/gp-speech", lambda found: found["spec"]["namespaces"] == ["speech"], 20
    )


def test_a_network_that_cannot_be_read_keeps_what_was_in_force(
    pool: ClusterPool, kube_ovn: None
) -> None:
    apply(pool.admin, "vision", build_network(), "vision-train")
    pool.admin.until(path_of("Subnet", "gp-vision--main"), bool, 20)
    apply(pool.admin, "vision", build_network("10.1.0.7/24"), "vision-train")
    until_condition(
        pool, "vision", NETWORK, "False", "GP-1060: '10.1.0.7/24' is not an IPv4 prefix"
    )
    assert set(list_ours(pool.admin)) == {"Vpc", "Subnet"}


def test_a_controller_that_is_killed_goes_on(pool: ClusterPool, kube_ovn: None) -> None:
    apply(pool.admin, "vision", build_network(), "vision-train")
    apply(pool.admin, "speech", build_network("10.2.0.0/24"), "speech")
    pool.admin.until(path_of("Subnet", "gp-speech--main"), bool, 20)
    before = pool.admin.get(path_of("Subnet", "gp-vision--main"))["metadata"]["resourceVersion"]
    pool.kill()
    apply(pool.admin, "speech", None, "speech")
    pool.start("--kube-ovn-namespace", KUBE_OVN)
    pool.admin.until_gone(path_of("Vpc", "gp-speech"), 60)
    pool.admin.until_gone(path_of("Subnet", "gp-speech--main"), 60)
    now = pool.admin.get(path_of("Subnet", "gp-vision--main"))["metadata"]["resourceVersion"]
    assert now == before


FOREIGN = {
    "a switch": SWITCH,
    "an address": "ovn.kubernetes.io/ip_address",
    "another provider's switch": "net1.speech.ovn.kubernetes.io/logical_switch",
    "a router": "ovn.kubernetes.io/logical_router",
    "no port security": "ovn.kubernetes.io/port_security",
    "somebody's VIP": "ovn.kubernetes.io/vip",
    "a floating address": "ovn.kubernetes.io/eip",
    "a way out": "ovn.kubernetes.io/snat",
    "a rate to it": "ovn.kubernetes.io/ingress_rate",
    "a rate from it": "ovn.kubernetes.io/egress_rate",
    "a burst": "ovn.kubernetes.io/egress_burst",
    "a rate of an interface": "net1.vision.ovn.net1.kubernetes.io/ingress_rate",
    "a queue": "ovn.kubernetes.io/limit",
    "a security group": "ovn.kubernetes.io/security_groups",
    "a route to it from outside": "ovn.kubernetes.io/bgp",
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_pod_cannot_choose_its_network(pool: ClusterPool, kube_ovn: None, name: str) -> None:
    assert is_refused(pool.admin, "vision-serve", {FOREIGN[name]: "gp-speech--main"})


def test_other_annotations_and_kube_ovns_own_pods_are_let_in(
    pool: ClusterPool, kube_ovn: None
) -> None:
    fine = {"my.own/note": "a", "kubernetes.io/description": "b"}
    assert not is_refused(pool.admin, "vision-serve", fine)
    assert not is_refused(pool.admin, KUBE_OVN, {SWITCH: "gp-vision--main"})


LIMIT = "ovn.kubernetes.io/egress_rate"


def test_a_running_pod_cannot_lift_its_limit(
    pool: ClusterPool, cluster: Cluster, kube_ovn: None
) -> None:
    admin = pool.admin
    pods = "/api/v1/namespaces/vision-serve/pods"
    admin.create(pods, pod("limited", {}))
    controller = as_kube_ovn(cluster)
    controller.merge(f"{pods}/limited", {"metadata": {"annotations": {LIMIT: "100"}}})
    controller.close()
    for value in (None, "0", "1000"):
        with pytest.raises(RefusedError, match="choose a network, an address or a limit"):
            admin.merge(f"{pods}/limited", {"metadata": {"annotations": {LIMIT: value}}})
    admin.merge(f"{pods}/limited", {"metadata": {"labels": {"a": "b"}}})
    with pytest.raises(RefusedError, match="choose a network, an address or a limit"):
        admin.merge("/api/v1/namespaces/vision-serve", {"metadata": {"annotations": {LIMIT: "9"}}})
    admin.delete(f"{pods}/limited?gracePeriodSeconds=0")


def service(annotations: dict[str, str]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "store", "annotations": annotations},
        "spec": {"ports": [{"port": 80}]},
    }


def test_a_service_cannot_choose_its_network_and_may_be_replaced(
    pool: ClusterPool, cluster: Cluster, kube_ovn: None
) -> None:
    admin = pool.admin
    services = "/api/v1/namespaces/vision-serve/services"
    for key in ("vpc", "logical_router", "switch_lb_vip", "attachmentprovider"):
        with pytest.raises(RefusedError, match="choose a network, an address or a limit"):
            admin.create(services, service({f"ovn.kubernetes.io/{key}": "gp-speech"}))
    admin.create(services, service({"my.own/note": "a"}))
    controller = as_kube_ovn(cluster)
    vpc = "ovn.kubernetes.io/vpc"
    controller.merge(f"{services}/store", {"metadata": {"annotations": {vpc: "gp-vision"}}})
    controller.close()
    with pytest.raises(RefusedError, match="choose a network, an address or a limit"):
        admin.merge(f"{services}/store", {"metadata": {"annotations": {vpc: "gp-speech"}}})
    admin.merge(f"{services}/store", {"metadata": {"annotations": {vpc: None}}})
    admin.delete(f"{services}/store")


def test_a_running_pod_and_a_namespace_cannot_be_moved(
    pool: ClusterPool, cluster: Cluster, kube_ovn: None
) -> None:
    admin = pool.admin
    pods = "/api/v1/namespaces/vision-serve/pods"
    admin.create(pods, pod("running", {"my.own/note": "a"}))
    controller = as_kube_ovn(cluster)
    own = {"metadata": {"annotations": {SWITCH: "gp-vision--main"}}}
    controller.merge(f"{pods}/running", own)
    admin.merge(f"{pods}/running", {"metadata": {"labels": {"a": "b"}}})
    moved = {"metadata": {"annotations": {SWITCH: "gp-speech--main"}}}
    removed = {"metadata": {"annotations": {SWITCH: None}}}
    for path in (f"{pods}/running", f"{pods}/running/status", "/api/v1/namespaces/vision-serve"):
        for patch in (moved, removed) if "pods" in path else (moved,):
            with pytest.raises(RefusedError, match="choose a network, an address or a limit"):
                admin.merge(path, patch)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "running", **moved["metadata"]},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "none"},
    }
    with pytest.raises(RefusedError, match="choose a network, an address or a limit"):
        admin.create(f"{pods}/running/binding", binding)
    controller.close()
    admin.delete(f"{pods}/running?gracePeriodSeconds=0")


def test_the_page_gives_two_tenants_a_network_a_way_out_and_takes_both_away(
    pool: ClusterPool, cluster: Cluster, kube_ovn: None, tmp_path: Path
) -> None:
    cluster.access().namespace("vision")
    page = "network-kube-ovn.md"
    pages.write_files(page, tmp_path)
    environ = {
        **os.environ,
        "KUBECONFIG": str(cluster.kubeconfig),
        "PYTHONPATH": str(pages.ROOT),
    }
    said = []
    for line in pages.typed(page):
        words = [sys.executable, "-m", "tests.support.kubectl", *shlex.split(line)[1:]]
        done = subprocess.run(
            words, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{line}: {done.stderr}"
        said.append(done.stdout)
        if line.endswith("networks.yaml") and "apply" in line:
            until_condition(pool, "vision", PEERINGS, "False", "not in force yet: speech")
        if line.endswith("parts.yaml"):
            pool.admin.until(path_of("Subnet", "gp-speech--serve"), is_guarded, 20)
        if line.endswith("gateway.yaml"):
            pool.until(
                lambda: set(list_ours(pool.admin)) == {kind.name for kind in KINDS},
                "every kind of the page's table",
            )
    assert "has yet to put in force: Vpc gp-vision" in said[1]
    pool.until(lambda: not list_ours(pool.admin), "nothing of the tenants", 20)


def is_guarded(found: Object) -> bool:
    return bool(found["spec"].get("acls"))


def as_kube_ovn(cluster: Cluster) -> Api:
    """The account of Kube-OVN's controller."""
    access = cluster.access()
    rules = [{"apiGroups": [""], "resources": ["pods", "services"], "verbs": ["get", "patch"]}]
    account = address_policy.ACCOUNTS[0]
    access.service_account(KUBE_OVN, account, rules)
    return access.client(access.token(KUBE_OVN, account))
