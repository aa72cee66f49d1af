"""Members of a gang that have cards, and those that have ended, are counted."""

from __future__ import annotations

from dataclasses import replace

from gpupool.kubernetes.cache.cluster import ClusterCache
from tests.support.gang_rounds import holders, member, note, pool_of, write
from tests.support.kube_builders import gang, pod


def test_the_first_pod_reserves_for_all_and_the_others_take_their_seats_as_they_come() -> None:
    pool = pool_of(2)
    note(pool, member("w0", 6))
    assert write(pool) == 6
    assert holders(pool) == [*(f"gang/default/train/{n}" for n in range(5)), "uid-w0"]
    for n in range(1, 6):
        note(pool, member(f"w{n}", 6))
        assert pool.take_snapshot().waiting == (), "its seat is there: nothing is planned for it"
        assert write(pool) == 0
    assert holders(pool) == [f"uid-w{n}" for n in range(6)]


def test_a_half_written_gang_rolls_forward() -> None:
    pool = pool_of(2)
    note(pool, member("w0", 6))
    write(pool)
    lost = next(name for name, known in pool.ledgers.items() if len(known.entries) < 4)
    known = pool.ledgers[lost]
    pool.note_ledger(lost, replace(known, entries=(), version=known.version + 1))
    write(pool)
    assert len(holders(pool)) == 6


def test_members_that_ended_are_not_reserved_for_again() -> None:
    pool = pool_of(2)
    over = {**member("w0", 3), "status": {"phase": "Succeeded"}}
    over["spec"]["schedulingGates"] = []
    note(pool, over, member("w1", 3))
    write(pool)
    assert holders(pool) == ["gang/default/train/0", "uid-w1"]


def test_gang_whose_pods_are_gone_is_forgotten() -> None:
    """Every snapshot goes through the gangs of which a member has ended."""
    pool = ClusterCache()
    for number in range(3):
        one = pod("w", gang=gang(1, name=f"run-{number}"))
        one["metadata"]["uid"] = f"uid-{number}"
        note(pool, one)
        note(pool, {**one, "status": {"phase": "Succeeded"}})
        assert pool.members.begun_gangs == {f"default/run-{number}"}
        pool.note_pod(f"uid-{number}", None)
    assert not pool.members._over
