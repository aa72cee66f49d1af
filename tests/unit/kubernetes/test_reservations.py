"""Reservations are judged once, beside those before; what was accepted stays so."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from gpupool.kubernetes.hosts import Host
from gpupool.kubernetes.objects import GpuNode
from gpupool.kubernetes.pods import read_pod
from gpupool.kubernetes.pool import Pool
from gpupool.kubernetes.reservations import AGAIN_SECONDS, Reservations, reservation_of
from gpupool.kubernetes.schemas import crds
from gpupool.scheduling.cycle import cycle
from tests.support.hand_clock import Clock
from tests.support.kube_builders import CREATED, asking, gpu_node, node, pod

NS = 10**9
HOUR = 3600 * NS
NOW = int(datetime.fromisoformat(CREATED).timestamp()) * NS


@pytest.fixture
def pool() -> Pool:
    made = Pool()
    note_node(made, "n0")
    return made


def note_node(pool: Pool, name: str) -> None:
    pool.note_host(name, Host.from_json(node(name)))
    pool.note_ledger(name, GpuNode.from_json(gpu_node(name)))


def made(name: str = "demo", *, status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    meta = {"name": name, "uid": f"uid-{name}", "creationTimestamp": CREATED, "generation": 1}
    return {"metadata": meta, "spec": {"tenant": "default", **spec}, "status": status or {}}


def test_what_the_object_asks() -> None:
    found = reservation_of(
        made(gpus=2, gpuMilli=300, memory="8Gi", model="l40s", replicas=3, duration="2h", every="1d")
    )
    assert (found.shape.count, found.shape.gpu_milli, found.shape.memory_bytes) == (2, 300, 8 << 30)
    assert (found.shape.model, found.replicas, found.name, found.tenant) == ("L40S", 3, "demo", "default")
    assert (found.start_ns, found.end_ns, found.every_ns) == (NOW, NOW + 2 * HOUR, 24 * HOUR)


def test_the_oldest_is_judged_first_and_the_later_one_gets_what_is_left(pool: Pool) -> None:
    known = Reservations(Clock())
    known.note(made("late", gpus=2, start="2026-11-22T02:00:00Z", duration="2h"), False)
    known.note(made("early", gpus=3, start="2026-11-22T01:00:00Z", duration="2h"), False)
    known.settle(pool, NOW)
    assert known.accepted("early")
    refusal = known.refusal("late")
    assert refusal is not None
    assert "collides with reservation early" in refusal.message
    assert [one.name for one in pool.reservations] == ["early"]


def test_a_new_leader_keeps_what_was_accepted_though_its_start_has_passed(pool: Pool) -> None:
    said = {"conditions": [{"type": "Accepted", "status": "True"}]}
    known = Reservations(Clock())
    known.note(made(gpus=3, start="2026-11-21T23:00:00Z", duration="2h", status=said), False)
    known.note(made("new", start="2026-11-21T23:00:00Z", duration="2h"), False)
    known.settle(pool, NOW)
    assert known.accepted("demo")
    refusal = known.refusal("new")
    assert refusal is not None
    assert "in the past" in refusal.message


def test_what_was_refused_is_judged_again_when_the_pool_may_have_grown(pool: Pool) -> None:
    clock = Clock()
    known = Reservations(clock)
    known.note(made(gpus=4, replicas=2), False)
    known.settle(pool, NOW)
    assert known.refusal("demo") is not None
    note_node(pool, "n1")
    known.settle(pool, NOW)
    assert not known.accepted("demo")
    assert known.next_look(NOW) == AGAIN_SECONDS
    clock.now = AGAIN_SECONDS
    known.settle(pool, NOW)
    assert known.accepted("demo")
    assert known.refusal("demo") is None


def test_it_is_kept_while_it_lasts_and_its_end_is_looked_at(pool: Pool) -> None:
    known = Reservations(Clock())
    known.note(made(gpus=4, duration="1h"), False)
    known.settle(pool, NOW)
    assert known.next_look(NOW) == 3600
    pod_of_default = pod("a", {"main": asking(1, 1000, None)})
    pool.note_pod("uid-a", read_pod(pod_of_default))
    assert cycle(pool.snapshot(NOW), NOW).placements == ()
    pod_of_default["metadata"]["labels"]["gpupool.dev/reservation"] = "demo"
    pool.note_pod("uid-a", read_pod(pod_of_default))
    assert len(cycle(pool.snapshot(NOW), NOW).placements) == 1
    known.settle(pool, NOW + HOUR)
    assert pool.reservations == ()


def test_one_that_is_gone_keeps_nothing(pool: Pool) -> None:
    known = Reservations(Clock())
    known.note(made(gpus=4), False)
    known.settle(pool, NOW)
    known.note(made(gpus=4), True)
    known.settle(pool, NOW)
    assert pool.reservations == ()


def test_every_definition_has_columns_and_conditions() -> None:
    for one in crds():
        (version,) = one["spec"]["versions"]
        assert version["additionalPrinterColumns"]
        assert "conditions" in version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
