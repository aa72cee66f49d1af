"""No pod is let go without its entry in a ledger, whatever one of two controllers hears or writes
late.

Two controllers in one process hear what a test tells them, so each order of events is written down
and not left to chance. One that was let go all the same (a store was restored, a ledger deleted)
gets an entry again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gpupool.kubernetes.client.api import KubeApi
from gpupool.kubernetes.client.connection import load_kubeconfig
from gpupool.kubernetes.controller.controller import PoolController
from gpupool.kubernetes.controller.gang_timeouts import HALF_SECONDS
from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.manifests import install
from gpupool.kubernetes.resources import names
from tests.support.cluster.api import Api
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.pods import is_bound
from tests.support.cluster_pool import ClusterPool, fresh
from tests.support.kube_builders import asking, pod

NODE = "letgo-00000"
MANAGED = f"/api/v1/pods?labelSelector={names.MANAGED}%3Dtrue"
LATER_SECONDS = HALF_SECONDS + 1


@pytest.fixture(scope="module")
def pool(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPool]:
    with ClusterPool(cluster, tmp_path_factory.mktemp("letgo")) as made:
        made.adopt(cluster.simulate_nodes(1, prefix="letgo"), 2)
        yield made


@pytest.fixture(autouse=True)
def empty(pool: ClusterPool, admin: Api, pods_path: str) -> Iterator[None]:
    """Every test begins with an empty ledger."""
    yield
    admin.delete(f"{pods_path}?gracePeriodSeconds=0")
    run(pool, lambda controller: forget_entries(controller.api), 1)
    no_slots(pool)


async def forget_entries(api: KubeApi) -> None:
    """As a restored store has it: the ledger is there, and nothing stands in it."""
    node = await ledger.read_ledger(api, NODE)
    assert node is not None
    assert await ledger.write_entries(api, node, (), time.time_ns())


def no_slots(pool: ClusterPool) -> None:
    pool.until(
        lambda: not pool.admin.get(f"{ledger.NODES}/{NODE}")["status"].get("slots"),
        "no slot in use",
    )


@asynccontextmanager
async def controllers(pool: ClusterPool, count: int) -> AsyncIterator[list[PoolController]]:
    async with KubeApi(load_kubeconfig(pool.kubeconfig(install.CONTROLLER))) as api:
        yield [PoolController(api, time.time_ns) for _ in range(count)]


def run(pool: ClusterPool, steps: Callable[..., Awaitable[Any]], count: int = 2) -> Any:
    async def all_steps() -> Any:
        async with controllers(pool, count) as made:
            return await steps(*made)

    return asyncio.run(all_steps())


def hear_ledger(controller: PoolController, admin: Api) -> None:
    controller.intake.note_node(admin.get(f"/api/v1/nodes/{NODE}"), False)
    controller.intake.note_ledger(admin.get(f"{ledger.NODES}/{NODE}"), False)


def hear_pods(controller: PoolController, admin: Api) -> None:
    for one in admin.get(MANAGED)["items"]:
        controller.intake.note_pod(one, False)


def create(admin: Api, pods_path: str, name: str, **more: Any) -> str:
    made = pod(name, {"main": asking(1, 600)}, namespace=pods_path.split("/")[4], **more)
    return str(admin.create(pods_path, fresh(made))["metadata"]["uid"])


def states(pool: ClusterPool) -> list[tuple[str, str]]:
    return [(entry["pod"], entry["state"]) for entry in pool.entries()[NODE]]


def gates(admin: Api, path: str) -> list[str]:
    return [gate["name"] for gate in admin.get(path)["spec"].get("schedulingGates", [])]


def test_an_entry_whose_pod_was_not_heard_of_yet_stays(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    """The second controller hears of the ledger before it hears of the pod: both come by
    connections of their own."""
    uid = create(admin, pods_path, "late")

    async def steps(first: PoolController, second: PoolController) -> None:
        hear_ledger(first, admin)
        hear_pods(first, admin)
        await first.reconcile()
        hear_ledger(second, admin)
        await second.reconcile()
        assert states(pool) == [("late", "reserved")]
        await first._gate_removal._release_pod(uid)

    run(pool, steps)
    admin.until(f"{pods_path}/late", is_bound)
    assert [name for name, _ in states(pool)] == ["late"]


def test_an_entry_whose_pod_went_before_it_was_heard_of_drains(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    create(admin, pods_path, "gone")

    async def steps(first: PoolController, second: PoolController) -> None:
        hear_ledger(first, admin)
        hear_pods(first, admin)
        await first.reconcile()
        admin.delete(f"{pods_path}/gone?gracePeriodSeconds=0")
        hear_ledger(second, admin)
        await second.reconcile()
        assert states(pool) == [("gone", "draining")]

    run(pool, steps)


def seated_gang(
    pool: ClusterPool, admin: Api, pods_path: str
) -> Callable[[PoolController], Awaitable[str]]:
    """Two members have cards, and the second one goes before anybody is let go; the uid of the one
    that is left."""

    async def steps(first: PoolController) -> str:
        gang = {"gang": {"name": "pair", "size": 2, "minimum": 2}}
        uid = create(admin, pods_path, "one", **gang)
        create(admin, pods_path, "two", **gang)
        hear_ledger(first, admin)
        hear_pods(first, admin)
        await first.reconcile()
        assert states(pool) == [("one", "reserved"), ("two", "reserved")]
        admin.delete(f"{pods_path}/two?gracePeriodSeconds=0")
        return uid

    return steps


async def give_up(admin: Api, second: PoolController) -> None:
    """Half a gang has waited long enough by this controller's clock: its seats go."""
    hear_ledger(second, admin)
    hear_pods(second, admin)
    await second.reconcile()  # the lost member's entry drains: the gang is half
    hear_ledger(second, admin)
    second._gang_timeouts.expired_seats(second.cluster)
    second._gang_timeouts._seconds = lambda: time.monotonic() + LATER_SECONDS
    await second.reconcile()


def seated(pool: ClusterPool) -> list[str]:
    return [name for name, state in states(pool) if name and state != "draining"]


def release_after_giving_up(
    pool: ClusterPool, admin: Api, pods_path: str, before: Callable[[PoolController], None]
) -> None:
    """The second controller gives half a gang's seats up, then the first one would let its pod go;
    it must not."""

    async def steps(first: PoolController, second: PoolController) -> None:
        uid = await seated_gang(pool, admin, pods_path)(first)
        await give_up(admin, second)
        assert seated(pool) == []
        before(first)
        await first._gate_removal._release_pod(uid)
        assert gates(admin, f"{pods_path}/one") == [names.GATE]

    run(pool, steps)


def test_a_release_that_is_late_does_not_let_go_a_pod_whose_seat_was_given_up(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    """The first controller stood still between its ledger write and the release, past its lease."""
    release_after_giving_up(pool, admin, pods_path, lambda _: None)


def test_a_controller_that_knows_the_pod_and_not_its_ledger_does_not_let_it_go(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    release_after_giving_up(pool, admin, pods_path, lambda first: hear_pods(first, admin))


def test_a_seat_is_not_given_up_when_its_pod_was_let_go_meanwhile(
    pool: ClusterPool, admin: Api, pods_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second controller has not heard that the first one let the pod go."""

    async def steps(first: PoolController, second: PoolController) -> None:
        uid = await seated_gang(pool, admin, pods_path)(first)
        hear_pods(second, admin)
        await first._gate_removal._release_pod(uid)
        assert gates(admin, f"{pods_path}/one") == []
        monkeypatch.setattr(second.intake, "note_pod", lambda *_: None)
        await give_up(admin, second)
        assert seated(pool) == ["one"]

    run(pool, steps)


def test_a_plan_made_before_another_wrote_the_ledger_is_made_anew(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    """What another controller wrote is heard between the plan and the write: the plan knew nothing
    of it."""
    for name in ("one", "two"):
        create(admin, pods_path, name)

    async def steps(first: PoolController, second: PoolController) -> None:
        for each in (first, second):
            hear_ledger(each, admin)
            hear_pods(each, admin)
        plan = second._make_plan()
        await first.reconcile()
        before = states(pool)
        hear_ledger(second, admin)
        assert await second._ledger_writer.write_plan(plan)
        assert states(pool) == before

    run(pool, steps)


@pytest.mark.parametrize("direct", [False, True], ids=["by the gate", "direct"])
def test_a_pod_that_was_let_go_and_stands_in_no_ledger_gets_an_entry_on_its_node(
    pool: ClusterPool, admin: Api, pods_path: str, direct: bool
) -> None:
    uid = create(admin, pods_path, "lost", direct=direct)

    async def steps(first: PoolController, second: PoolController) -> None:
        hear_ledger(first, admin)
        hear_pods(first, admin)
        await first.reconcile()
        await first._gate_removal._release_pod(uid)
        await asyncio.to_thread(admin.until, f"{pods_path}/lost", is_bound)
        await forget_entries(first.api)
        await asyncio.to_thread(no_slots, pool)
        hear_ledger(second, admin)
        hear_pods(second, admin)
        # The API server answers a conflict where the node's agent writes its status meanwhile, and
        # a slot that the agent was making for the entry before is in the way until it is gone.
        end = time.monotonic() + 30
        while await second.reconcile() or not states(pool):
            assert time.monotonic() < end, pool.admin.get(f"{ledger.NODES}/{NODE}")
            await asyncio.to_thread(no_slots, pool)
            hear_ledger(second, admin)
        assert states(pool) == [("lost", "reserved")]
        assert [event.reason for event in second.events.pending_events] == ["EntryRestored"]

    run(pool, steps)


def test_a_binding_that_is_late_does_not_bind_a_pod_that_changed(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    uid = create(admin, pods_path, "direct", direct=True)

    async def steps(first: PoolController) -> None:
        hear_ledger(first, admin)
        hear_pods(first, admin)
        await first.reconcile()
        admin.merge(f"{pods_path}/direct", {"metadata": {"annotations": {"test/changed": "yes"}}})
        await first._gate_removal._release_pod(uid)
        assert not is_bound(admin.get(f"{pods_path}/direct"))

    run(pool, steps, 1)
