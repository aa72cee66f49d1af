"""Pods are kept near each other or apart, by host and by zone."""

from __future__ import annotations

import pytest

from gpupool.kubernetes.cache import plan_conflicts
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.resources.pod_constraints import (
    HOSTNAME,
)
from gpupool.scheduling.engine.cycle import cycle
from tests.support.kube_builders import pod
from tests.support.zoned_pool import (
    WHOLE,
    ZONE,
    affinity,
    labelled,
    note,
    other,
    placed,
    report,
    zoned_pool,
)


@pytest.fixture
def pool() -> ClusterCache:
    return zoned_pool()


def test_pods_keep_away_from_each_other_within_one_plan(pool: ClusterCache) -> None:
    apart = affinity("podAntiAffinity", HOSTNAME, "web")
    note(pool, *(labelled(pod(f"p{n}", WHOLE, spec=apart), "web") for n in range(3)))
    assert len(placed(pool)) == 1


def test_pods_there_keep_a_pod_away_from_their_whole_domain(pool: ClusterCache) -> None:
    report(pool, "n0", other("guard", affinity("podAntiAffinity", ZONE, "loud")))
    note(pool, labelled(pod("a", WHOLE), "loud"), labelled(pod("b", WHOLE), "quiet"))
    crowded = plan_conflicts.crowded_gangs(pool)
    plan = cycle(pool.take_snapshot(without=crowded), 0)
    found = {one.job: one.node for one in plan.placements}
    assert found["uid-a/main"] in ("n2", "n3")


def test_the_first_of_a_herd_goes_anywhere_and_a_guest_waits_for_its_host(
    pool: ClusterCache,
) -> None:
    near = affinity("podAffinity", ZONE, "herd")
    note(pool, labelled(pod("guest", WHOLE, spec=near), "guest"))
    assert placed(pool) == []
    note(pool, labelled(pod("first", WHOLE, spec=near), "herd"))
    assert len(placed(pool)) == 1
    pool.predicates.around.note_pod(other("host", at="n3", app="herd"), False)
    assert set(placed(pool)) <= {"n2", "n3"}


def test_a_pod_around_may_be_gone_by_its_name_alone(pool: ClusterCache) -> None:
    """So a list tells of what was deleted while no watch was there."""
    near = affinity("podAffinity", ZONE, "herd")
    pool.predicates.around.note_pod(other("host", at="n3", app="herd"), False)
    gone = {"metadata": {"name": "host", "namespace": "default", "uid": "uid-host"}}
    pool.predicates.around.note_pod(gone, True)
    note(pool, labelled(pod("guest", WHOLE, spec=near), "guest"))
    assert placed(pool) == []
