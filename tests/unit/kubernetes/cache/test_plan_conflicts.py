"""What a pod asks beside cards is judged node by node, and pods of one plan beside each other."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.kubernetes.cache import plan_conflicts
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.resources.gpu_node_status import ForeignUsage
from gpupool.kubernetes.resources.pod_constraints import (
    AffinityTerm,
    HostPort,
    LabelSelector,
)
from gpupool.kubernetes.resources.pod_requests import sum_foreign_usage
from tests.support.kube_builders import gang, pod
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


def with_port(name: str, number: int, **more: Any) -> dict[str, Any]:
    made = pod(name, WHOLE, **more)
    made["spec"]["containers"][0]["ports"] = [{"containerPort": number, "hostPort": number}]
    return made


def test_others_come_as_they_were_reported() -> None:
    apart = affinity("podAntiAffinity", ZONE, "x", namespaceSelector={"matchLabels": {"team": "a"}})
    told = sum_foreign_usage(
        [{**with_port("x", 80), "metadata": {**other("x")["metadata"]}}, other("y", apart)]
    )
    assert told.ports == (HostPort(80),)
    assert told.apart == (
        AffinityTerm(
            ZONE,
            LabelSelector((("app", "In", ("x",)),)),
            (),
            LabelSelector((("team", "In", ("a",)),)),
        ),
    )
    assert ForeignUsage.from_json(told.to_json()) == told


def test_a_port_that_is_taken_and_one_that_another_pod_of_the_plan_takes(
    pool: ClusterCache,
) -> None:
    report(pool, "n0", with_port("x", 80) | {"metadata": other("x")["metadata"]})
    note(pool, *(with_port(f"p{n}", 80) for n in range(3)))
    first = placed(pool)
    assert len(first) == 1
    assert first != ["n0"]


def test_a_gang_that_wants_a_node_for_each_member_waits_for_that_many(pool: ClusterCache) -> None:
    note(pool, *(with_port(f"p{n}", 80, gang=gang(5)) for n in range(5)))
    assert placed(pool) == []
    assert plan_conflicts.crowded_gangs(pool) == {
        "default/train": "5 members each want a node of their own, and 4 can take one now"
    }


def test_who_is_kept_away_by_a_pod_of_the_same_plan_is_left_out(pool: ClusterCache) -> None:
    one = pod("a", WHOLE, spec={**affinity("podAntiAffinity", ZONE, "loud"), "priority": 9})
    note(pool, one, labelled(pod("b", WHOLE), "loud"))
    assert len(placed(pool)) == 1
