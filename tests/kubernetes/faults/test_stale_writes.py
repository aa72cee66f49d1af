"""What somebody else wrote in between: a round is begun anew at once, not when something happens again, and a status
reaches its own object alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

from gpupool.kubernetes.client.api import KubeApi
from gpupool.kubernetes.client.connection import load_kubeconfig
from gpupool.kubernetes.controller.controller import PoolController
from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.manifests import install
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.status.reservation import ReservationStatus
from gpupool.kubernetes.status.reservations import RESERVATIONS, ReservationRegistry
from tests.support.cluster.api import Api
from tests.support.cluster.cluster import Cluster
from tests.support.cluster_pool import ClusterPool, fresh
from tests.support.kube_builders import pod

NODE, OTHER = "stale-00000", "stale-00001"
MANAGED = f"/api/v1/pods?labelSelector={names.MANAGED}%3Dtrue"


@pytest.fixture(scope="module")
def pool(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPool]:
    with ClusterPool(cluster, tmp_path_factory.mktemp("stale")) as made:
        made.adopt(cluster.simulate_nodes(2, prefix="stale"), 1)
        yield made


def note_all(controller: PoolController, admin: Api, node: str = NODE) -> None:
    """What its watches would tell, now and no later."""
    controller.intake.note_node(admin.get(f"/api/v1/nodes/{node}"), False)
    controller.intake.note_ledger(admin.get(f"{ledger.NODES}/{node}"), False)
    for one in admin.get(MANAGED)["items"]:
        controller.intake.note_pod(one, False)


def test_a_card_that_is_told_lost_by_the_answer_to_a_write_is_lost(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    """The agent's report came between the last that the watch told and the write: the watch tells
    it no more."""

    async def told() -> list[str]:
        async with KubeApi(load_kubeconfig(pool.kubeconfig(install.CONTROLLER))) as api:
            controller = PoolController(api, time.time_ns)
            admin.create(pods_path, fresh(pod("ill", namespace=pods_path.split("/")[4])))
            note_all(controller, admin, OTHER)
            cards = admin.get(f"{ledger.NODES}/{OTHER}")["status"]["cards"]
            ill = [{**card, "health": "failed", "healthReason": "Xid 79"} for card in cards]
            admin.merge(f"{ledger.NODES}/{OTHER}/status", {"status": {"cards": ill}})
            await controller.reconcile()
            note_all(controller, admin, OTHER)
            return [event.reason for event in controller.events.pending_events]

    assert "CardLost" in asyncio.run(told())
    admin.delete(f"{pods_path}/ill?gracePeriodSeconds=0")


def test_a_release_of_cards_that_met_another_writer_is_written_in_the_next_round(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    """Nobody waits for these cards and nothing else happens: only the round itself knows that it is
    not done."""

    async def rounds() -> list[bool]:
        async with KubeApi(load_kubeconfig(pool.kubeconfig(install.CONTROLLER))) as api:
            controller = PoolController(api, time.time_ns)
            made = admin.create(pods_path, fresh(pod("one", namespace=pods_path.split("/")[4])))
            note_all(controller, admin)
            await controller.reconcile()
            assert [entry["pod"] for entry in pool.entries()[NODE]] == ["one"]
            admin.delete(f"{pods_path}/one?gracePeriodSeconds=0")
            controller.intake.note_pod(made, True)
            admin.merge(f"{ledger.NODES}/{NODE}", {"spec": {"mode": "whole"}})
            return [await controller.reconcile(), await controller.reconcile()]

    met, written = asyncio.run(rounds())
    assert (met, written) == (True, False)
    assert [entry["state"] for entry in pool.entries()[NODE]] in (["draining"], [])


def test_the_status_of_a_deleted_reservation_does_not_reach_another_of_its_name(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    tenant = pods_path.split("/")[4]
    registry = ReservationRegistry(time.monotonic)
    registry.note_reservation(_reserve(admin, tenant, 1), False)
    admin.delete(f"{RESERVATIONS}/again")
    _reserve(admin, tenant, 2)

    async def write() -> None:
        async with Answered(load_kubeconfig(pool.kubeconfig(install.CONTROLLER))) as api:
            status = ReservationStatus(api, registry, time.time_ns)
            status.update_due()
            writing = asyncio.create_task(status.run())
            await asyncio.wait_for(api.answered.wait(), 30)
            writing.cancel()

    asyncio.run(write())
    found = admin.get(f"{RESERVATIONS}/again")
    admin.delete(f"{RESERVATIONS}/again")
    assert found["spec"]["gpus"] == 2
    assert not found.get("status")


class Answered(KubeApi):
    """Tells when the answer to a patch has come."""

    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self.answered = asyncio.Event()

    async def patch(self, *words: Any, **settings: Any) -> Any:
        try:
            return await super().patch(*words, **settings)
        finally:
            self.answered.set()


def _reserve(admin: Api, tenant: str, gpus: int) -> Any:
    made = {"apiVersion": names.API_VERSION, "kind": "Reservation", "metadata": {"name": "again"}}
    spec = {"tenant": tenant, "gpus": gpus, "duration": "1h"}
    return admin.create(RESERVATIONS, {**made, "spec": spec})
