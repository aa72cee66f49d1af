"""A leader learns from pods and ledgers what the next pods are likely to ask for, as a pool on one
machine does."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from gpupool.base.units import GIB
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.resources.gang import EXPECTED
from gpupool.kubernetes.resources.gpu_node import Entry, GpuNode
from gpupool.kubernetes.resources.node import NodeFacts
from gpupool.kubernetes.resources.pod import Pod, read_pod
from gpupool.model.allocation import Seat
from gpupool.scheduling.scoring.demand_knowledge import ENDING, FILLING, FIRST_CLAIMS, MOST_JOBS
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from tests.support.kube_builders import asking, gpu_node, node, pod

_VERSIONS = count(2)


@pytest.fixture
def pool() -> ClusterCache:
    made = ClusterCache()
    made.note_host("n0", NodeFacts.from_json(node("n0")))
    made.note_ledger("n0", GpuNode.from_json(gpu_node("n0")))
    return made


def asks(name: str, milli: int, *, created_ns: int = 1, owner: str = "") -> Pod:
    return replace(
        read_pod(pod(name, {"main": asking(1, milli)})), created_ns=created_ns, owner=owner
    )


def note(pool: ClusterCache, *pods: Pod) -> None:
    for one in pods:
        pool.note_pod(one.uid, one)


def expected(pool: ClusterCache) -> ExpectedDemand:
    return pool.take_snapshot().expected


def hold(pool: ClusterCache, *uids: str, milli: int = 1000) -> None:
    """The ledger holds these and nothing else."""
    entries = [
        Entry(uid, "default", uid, "main", (Seat("GPU-n0-0", milli, GIB),), "default")
        for uid in uids
    ]
    known = pool.ledgers["n0"].with_entries(entries)
    assert pool.note_ledger("n0", replace(known, version=next(_VERSIONS)))


def milli_of(found: ExpectedDemand) -> list[int]:
    return [shape.gpu_milli for shape in found.shapes]


def test_nothing_is_expected_of_a_few_pods_and_each_counts_once(pool: ClusterCache) -> None:
    pods = [asks(f"p{n}", 300) for n in range(FIRST_CLAIMS - 1)]
    for _ in range(2):
        note(pool, *pods)
    assert expected(pool) == ExpectedDemand()
    note(pool, asks("another", 500))
    assert milli_of(expected(pool)) == [300, 500]


def test_a_new_leader_learns_the_oldest_first_whatever_the_order_of_the_list() -> None:
    pods = [asks(f"p{n}", 100 * (1 + n % 3), created_ns=n) for n in range(60)]
    first, second = ClusterCache(), ClusterCache()
    note(first, *pods)
    note(second, *reversed(pods))
    assert first._demand.expected_demand(4) == second._demand.expected_demand(4) != ExpectedDemand()


def test_pods_that_one_owner_makes_at_once_count_as_one_array_does(pool: ClusterCache) -> None:
    note(pool, *(asks(f"many{n}", 100, owner="set") for n in range(MOST_JOBS + 44)))
    note(pool, *(asks(f"p{n}", 500, created_ns=2) for n in range(FIRST_CLAIMS)))
    found = expected(pool)
    assert milli_of(found) == [100, 500]
    assert found.counts[0] == pytest.approx(MOST_JOBS, rel=0.01)


def test_what_comes_back_says_that_claims_end(pool: ClusterCache) -> None:
    note(pool, *(asks(f"p{n}", 300) for n in range(FIRST_CLAIMS)))
    assert expected(pool).returned_pct == FILLING
    for n in range(8):
        hold(pool, f"runs{n}")
        hold(pool)
    assert expected(pool).returned_pct == ENDING


def test_what_a_new_leader_finds_in_ledgers_was_not_given_out_just_now(pool: ClusterCache) -> None:
    hold(pool, *(f"old{n}" for n in range(8)), milli=100)
    note(pool, *(asks(f"p{n}", 300) for n in range(FIRST_CLAIMS)))
    assert expected(pool).returned_pct == FILLING
    hold(pool)
    assert expected(pool).returned_pct == ENDING


def test_an_entry_that_is_written_again_and_a_seat_that_is_kept_tell_nothing(
    pool: ClusterCache,
) -> None:
    note(pool, *(asks(f"p{n}", 300) for n in range(FIRST_CLAIMS)))
    expected(pool)
    hold(pool, "runs")
    before = pool._demand._knowledge.returned_pct
    entry = replace(pool.ledgers["n0"].entries[0], generation=2)
    kept = replace(entry, uid=f"{EXPECTED}train/1")
    known = pool.ledgers["n0"].with_entries([entry, kept])
    pool.note_ledger("n0", replace(known, version=next(_VERSIONS)))
    pool.note_ledger("n0", replace(known.with_entries([entry]), version=next(_VERSIONS)))
    assert pool._demand._knowledge.returned_pct == before
