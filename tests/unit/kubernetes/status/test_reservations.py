"""Reservations are judged once, beside those before; what was accepted stays so."""

from __future__ import annotations

import pytest

from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.manifests.crds import crds
from gpupool.kubernetes.resources.gpu_node import GpuNode
from gpupool.kubernetes.resources.node import NodeFacts
from gpupool.kubernetes.resources.pod import read_pod
from gpupool.kubernetes.status.reservation import ReservationStatus
from gpupool.kubernetes.status.reservations import (
    AGAIN_SECONDS,
    ReservationRegistry,
)
from gpupool.scheduling.engine.cycle import cycle
from tests.support.hand_clock import Clock
from tests.support.kube_builders import asking, gpu_node, node, pod
from tests.support.reservation_objects import HOUR, NOW, made
from tests.support.scripted_api import ScriptedApi


@pytest.fixture
def pool() -> ClusterCache:
    made = ClusterCache()
    note_node(made, "n0")
    return made


def note_node(pool: ClusterCache, name: str) -> None:
    pool.note_host(name, NodeFacts.from_json(node(name)))
    pool.note_ledger(name, GpuNode.from_json(gpu_node(name)))


def test_the_oldest_is_judged_first_and_the_later_one_gets_what_is_left(pool: ClusterCache) -> None:
    known = ReservationRegistry(Clock())
    known.note_reservation(made("late", gpus=2, start="2026-11-22T02:00:00Z", duration="2h"), False)
    known.note_reservation(
        made("early", gpus=3, start="2026-11-22T01:00:00Z", duration="2h"), False
    )
    known.judge_reservations(pool, NOW)
    assert known.is_accepted("early")
    refusal = known.refusal("late")
    assert refusal is not None
    assert "collides with reservation early" in refusal.message
    assert [one.name for one in pool.reservations] == ["early"]


def test_a_new_leader_keeps_what_was_accepted_though_its_start_has_passed(
    pool: ClusterCache,
) -> None:
    said = {"conditions": [{"type": "Accepted", "status": "True"}]}
    known = ReservationRegistry(Clock())
    known.note_reservation(
        made(gpus=3, start="2026-11-21T23:00:00Z", duration="2h", status=said), False
    )
    known.note_reservation(made("new", start="2026-11-21T23:00:00Z", duration="2h"), False)
    known.judge_reservations(pool, NOW)
    assert known.is_accepted("demo")
    refusal = known.refusal("new")
    assert refusal is not None
    assert "in the past" in refusal.message


def test_what_was_refused_is_judged_again_when_the_pool_may_have_grown(pool: ClusterCache) -> None:
    clock = Clock()
    known = ReservationRegistry(clock)
    known.note_reservation(made(gpus=4, replicas=2), False)
    known.judge_reservations(pool, NOW)
    assert known.refusal("demo") is not None
    note_node(pool, "n1")
    known.judge_reservations(pool, NOW)
    assert not known.is_accepted("demo")
    assert known.next_look(NOW) == AGAIN_SECONDS
    clock.now = AGAIN_SECONDS
    known.judge_reservations(pool, NOW)
    assert known.is_accepted("demo")
    assert known.refusal("demo") is None


def test_it_is_kept_while_it_lasts_and_its_end_is_looked_at(pool: ClusterCache) -> None:
    known = ReservationRegistry(Clock())
    known.note_reservation(made(gpus=4, duration="1h"), False)
    known.judge_reservations(pool, NOW)
    assert known.next_look(NOW) == 3600
    pod_of_default = pod("a", {"main": asking(1, 1000, None)})
    pool.note_pod("uid-a", read_pod(pod_of_default))
    assert cycle(pool.take_snapshot(NOW), NOW).placements == ()
    pod_of_default["metadata"]["labels"]["gpupool.dev/reservation"] = "demo"
    pool.note_pod("uid-a", read_pod(pod_of_default))
    assert len(cycle(pool.take_snapshot(NOW), NOW).placements) == 1
    known.judge_reservations(pool, NOW + HOUR)
    assert pool.reservations == ()


def test_one_that_is_gone_keeps_nothing(pool: ClusterCache) -> None:
    known = ReservationRegistry(Clock())
    known.note_reservation(made(gpus=4), False)
    known.judge_reservations(pool, NOW)
    known.note_reservation(made(gpus=4), True)
    known.judge_reservations(pool, NOW)
    assert pool.reservations == ()


def test_every_definition_has_columns_and_conditions() -> None:
    for one in crds():
        (version,) = one["spec"]["versions"]
        assert version["additionalPrinterColumns"]
        assert (
            "conditions"
            in version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
        )


def test_a_spec_that_the_answer_to_a_status_has_is_news_when_the_watch_reports_it() -> None:
    known = ReservationRegistry(Clock())
    known.note_reservation(made("lab", gpus=2), False)
    changed = made("lab", gpus=3)
    changed["status"] = {"observedGeneration": 1}
    known.note_status("lab", changed)
    assert known.known["lab"].status == {"observedGeneration": 1}
    assert known.note_reservation(changed, False)
    known.note_reservation(changed, True)
    known.note_status("lab", changed)
    assert known.known == {}


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"start": "2026-12-01t00:00:00z"}, ""),
        ({"start": "2026-12-01T00:00:00+99:99"}, "GP-1004"),
        ({"start": "2026-12-01T23:59:60Z"}, "GP-1004"),
        ({"start": "0001-01-01T00:00:00+14:00"}, "GP-1004"),
        ({"start": "2026-12-01T00:00:00Z", "end": "9999-12-31T23:59:59Z"}, ""),
        ({"memory": "1e99"}, "GP-2004"),
        ({"memory": "-1"}, "GP-1001"),
    ],
)
def test_instants_and_sizes_that_the_definition_takes_are_read_or_refused(
    pool: ClusterCache, spec: dict[str, str], code: str
) -> None:
    """The API server takes RFC 3339 in either case and any quantity."""
    known = ReservationRegistry(Clock())
    known.note_reservation(made(**spec), False)
    known.judge_reservations(pool, NOW)
    refusal = known.refusal("demo")
    assert (refusal.code if refusal else "") == code
    status = ReservationStatus(ScriptedApi(), known, lambda: NOW)
    status.update_due()
    pool.note_pod("uid-a", read_pod(pod()))
    assert len(cycle(pool.take_snapshot(NOW), NOW).placements) == 1
