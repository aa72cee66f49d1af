"""Passes over an API server in memory: what is asked, what one refused object costs, what is told."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from typing import Any

import pytest

from gpupool.base.errors import ApiServerRejection
from gpupool.kubernetes.manifests import address_policy, install
from gpupool.kubernetes.networks.kube_ovn import KIND_BY_NAME, KINDS, Json
from gpupool.kubernetes.networks.reconciler import PENDING_SECONDS, REPAIR_SECONDS, TenantNetworks
from gpupool.kubernetes.resources.tenant import TenantRegistry
from tests.support.kube_memory import MemoryApi
from tests.support.kube_ovn_networks import build_definition, build_network, build_tenant
from tests.support.virtual_time import end_task, on_virtual_time
from tests.unit.kubernetes.networks.test_evidence import IN_FORCE

KUBE_OVN = "kube-system"


class ClusterMemory(MemoryApi):
    """With Kube-OVN's definitions and the policy.

    It refuses objects whose name is in `refused`, and the deletion of those in `conflicts`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[str] = set()
        self.conflicts: set[str] = set()
        self.reads = 0
        for kind in KINDS:
            self.put(kind.definition_path, build_definition(kind.name))
        for made in address_policy.objects(KUBE_OVN):
            self.put(install.path_of(made), made)

    async def request(self, method: str, path: str, body: Any = None, **more: Any) -> Json:
        path = path.partition("?")[0]
        name = path.rpartition("/")[2]
        if method == "GET":
            self.reads += 1
        if name in self.refused:
            raise ApiServerRejection(f"{name} is invalid", status=422, reason="Invalid")
        if method == "DELETE" and name in self.conflicts:
            raise ApiServerRejection(f"{name} has another uid", status=409, reason="Conflict")
        if method == "PATCH":
            self.writes.append((0.0, method, path))
            return self.put(path, copy.deepcopy(body))
        if path not in self.objects:
            raise ApiServerRejection(f"{path} not found", status=404, reason="NotFound")
        if method == "DELETE":
            self.writes.append((0.0, method, path))
            return self.objects.pop(path)
        return copy.deepcopy(self.objects[path])

    def put_in_force(self) -> None:
        """As Kube-OVN reports it."""
        for kind in KINDS:
            for path, one in self.objects.items():
                if path.startswith(f"{kind.path}/"):
                    one["status"] = IN_FORCE[kind.name]


class Rig:
    """The networks of a leader, beside a cluster in memory."""

    def __init__(self, kube_ovn: str | None = KUBE_OVN) -> None:
        self.api = ClusterMemory()
        self.tenants = TenantRegistry()
        self.wakes = 0
        self.networks = TenantNetworks(self.api, self.tenants, kube_ovn, self._wake)

    def _wake(self) -> None:
        self.wakes += 1

    def note(self, name: str, network: Json | None, *spaces: str) -> None:
        made = build_tenant(name, network, *spaces)
        made["metadata"]["uid"] = f"uid-of-{name}"
        self.tenants.note_tenant(made, False)

    def condition(self, tenant: str) -> tuple[str, str]:
        """Status and message of the network's condition."""
        one = self.networks.build_conditions(tenant)[0]
        return one["status"], one["message"]


def run(work: Callable[[Rig], Any], kube_ovn: str | None = KUBE_OVN) -> None:
    async def body() -> None:
        rig = Rig(kube_ovn)
        task = asyncio.create_task(rig.networks.run())
        await work(rig)
        await end_task(task)

    on_virtual_time(body())


def test_nothing_is_asked_before_the_tenants_are_listed() -> None:
    async def work(rig: Rig) -> None:
        await asyncio.sleep(10 * REPAIR_SECONDS)
        assert rig.api.reads == 0

    run(work)


def test_a_network_is_in_force_once_kube_ovn_says_so() -> None:
    async def work(rig: Rig) -> None:
        rig.note("vision", build_network(), "a")
        assert rig.condition("vision")[0] == "Unknown"
        rig.networks.note_tenants()
        await asyncio.sleep(PENDING_SECONDS / 2)
        assert rig.condition("vision") == (
            "False",
            "Kube-OVN has yet to put in force: Vpc gp-vision, Subnet gp-vision--main",
        )
        rig.api.put_in_force()
        await asyncio.sleep(2 * PENDING_SECONDS)
        assert rig.condition("vision")[0] == "True"
        wakes = rig.wakes
        writes = len(rig.api.writes)
        await asyncio.sleep(5 * REPAIR_SECONDS)
        assert (rig.wakes, len(rig.api.writes)) == (wakes, writes)

    run(work)


def test_an_object_that_never_gets_in_force_is_asked_for_ever_less_often() -> None:
    async def work(rig: Rig) -> None:
        rig.note("vision", build_network(), "a")
        rig.networks.note_tenants()
        await asyncio.sleep(3 * REPAIR_SECONDS)
        reads = rig.api.reads
        await asyncio.sleep(10 * REPAIR_SECONDS)
        assert rig.api.reads - reads == 10 * (len(KINDS) + 2)

    run(work)


def test_an_object_that_is_refused_costs_its_own_tenant_alone() -> None:
    async def work(rig: Rig) -> None:
        rig.api.refused.add("gp-vision--main")
        rig.note("vision", build_network(), "a")
        rig.note("speech", build_network(), "b")
        rig.networks.note_tenants()
        await asyncio.sleep(PENDING_SECONDS / 2)
        status, message = rig.condition("vision")
        assert (status, "gp-vision--main is invalid" in message) == ("False", True)
        assert "yet to put in force" in rig.condition("speech")[1]
        rig.api.refused.clear()
        await asyncio.sleep(2 * REPAIR_SECONDS)
        assert "yet to put in force" in rig.condition("vision")[1]

    run(work)


def test_a_network_that_a_tenant_drops_is_deleted_and_not_mentioned() -> None:
    async def work(rig: Rig) -> None:
        rig.note("vision", build_network(), "a")
        rig.networks.note_tenants()
        await asyncio.sleep(PENDING_SECONDS / 2)
        rig.note("vision", None, "a")
        rig.networks.note_tenants()
        await asyncio.sleep(PENDING_SECONDS / 2)
        assert rig.networks.build_conditions("vision") == []
        await asyncio.sleep(2 * PENDING_SECONDS)
        left = [path for path in rig.api.objects if path.startswith(KIND_BY_NAME["Vpc"].path)]
        assert left == []

    run(work)


def test_a_deletion_in_conflict_is_logged_and_repeated(caplog: pytest.LogCaptureFixture) -> None:
    async def work(rig: Rig) -> None:
        rig.note("vision", build_network(), "a")
        rig.networks.note_tenants()
        await asyncio.sleep(PENDING_SECONDS / 2)
        rig.api.conflicts.add("gp-vision--main")
        rig.note("vision", None, "a")
        rig.networks.note_tenants()
        await asyncio.sleep(PENDING_SECONDS / 2)
        assert "gp-vision--main is not deleted" in caplog.text
        assert "has another uid" in caplog.text
        rig.api.conflicts.clear()
        await asyncio.sleep(4 * PENDING_SECONDS)
        left = [path for path in rig.api.objects if path.startswith(KIND_BY_NAME["Vpc"].path)]
        assert left == []

    run(work)


def test_without_a_place_of_kube_ovn_tenants_are_told_how_to_get_networks() -> None:
    async def work(rig: Rig) -> None:
        rig.note("vision", build_network(), "a")
        rig.networks.note_tenants()
        await asyncio.sleep(PENDING_SECONDS)
        assert rig.condition("vision")[1] == (
            "GP-2083: this pool manages no networks of Tenants; what was in force stays;"
            " install the chart with kubeOvn.enabled=true"
        )
        assert rig.api.reads == 0

    run(work, None)


def test_a_policy_that_somebody_weakened_stops_writes_and_keeps_what_is_there() -> None:
    async def work(rig: Rig) -> None:
        rig.note("vision", build_network(), "a")
        rig.networks.note_tenants()
        await asyncio.sleep(PENDING_SECONDS / 2)
        policy, _ = address_policy.objects(KUBE_OVN)
        rig.api.objects[install.path_of(policy)]["spec"]["failurePolicy"] = "Ignore"
        writes = len(rig.api.writes)
        rig.note("speech", build_network(), "b")
        rig.networks.note_tenants()
        await asyncio.sleep(2 * REPAIR_SECONDS)
        for tenant in ("vision", "speech"):
            assert "pods could enter the networks of other tenants" in rig.condition(tenant)[1]
        assert len(rig.api.writes) == writes

    run(work)


def test_a_network_that_cannot_be_read_is_told_with_what_is_wrong() -> None:
    async def work(rig: Rig) -> None:
        rig.note("vision", build_network("10.1.0.0/33"), "a")
        rig.networks.note_tenants()
        await asyncio.sleep(PENDING_SECONDS)
        assert "GP-1060: '10.1.0.0/33' is not an IPv4 prefix" in rig.condition("vision")[1]

    run(work)
