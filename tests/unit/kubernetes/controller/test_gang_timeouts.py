"""Seats of a gang that does not come together are freed in time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.kubernetes.controller.gang_timeouts import (
    EMPTY_SECONDS,
    HALF_SECONDS,
    MISSING_SECONDS,
    GangTimeouts,
)
from gpupool.kubernetes.ledger.entry_lifecycle import reconcile_entries
from gpupool.kubernetes.resources import gang as gangs
from tests.support.gang_rounds import holders, member, note, pool_of, write


@pytest.mark.parametrize("half", [True, False])
def test_seats_of_a_gang_that_does_not_come_together_are_given_up_in_time(half: bool) -> None:
    now = 0.0
    pool = pool_of(2)
    note(pool, member("w0", 6))
    write(pool)
    if half:
        known = pool.ledgers["n1"]
        pool.note_ledger("n1", replace(known, entries=(), version=known.version + 1))
    else:
        pool.note_pod("uid-w0", None)
        for known in list(pool.ledgers.values()):
            ghosts = tuple(entry for entry in known.entries if gangs.is_future_member(entry.uid))
            pool.note_ledger(known.name, replace(known, entries=ghosts, version=known.version + 1))
    holding = GangTimeouts(lambda: now)
    assert holding.expired_seats(pool) == frozenset()
    patience = HALF_SECONDS if half else EMPTY_SECONDS
    assert holding.next_look() == patience
    now = patience
    assert holding.expired_seats(pool) == {"default/train"}
    for known in pool.ledgers.values():
        assert reconcile_entries(known, pool.pods, given_up=frozenset({"default/train"})) == ()


def test_a_seat_that_nobody_comes_for_is_given_back_once_everybody_else_is_ready() -> None:
    now = 0.0
    pool, holding = pool_of(2), GangTimeouts(lambda: now)
    note(pool, member("w0", 3), member("w1", 3))
    write(pool)
    runs = [member(name, 3) for name in ("w0", "w1")]
    for made in runs:
        made["spec"] |= {
            "schedulingGates": [],
            "nodeName": pool.ledger_node_of(made["metadata"]["uid"]),
        }
    note(pool, *runs)
    assert holders(pool) == ["gang/default/train/0", "uid-w0", "uid-w1"]
    assert (holding.expired_seats(pool), holding.next_look()) == (frozenset(), None), (
        "one may come when they are ready"
    )
    for made in runs:
        made["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    note(pool, *runs)
    assert (holding.expired_seats(pool), holding.next_look()) == (frozenset(), MISSING_SECONDS)
    now = MISSING_SECONDS
    given_up = holding.expired_seats(pool)
    write(pool, given_up)
    assert holders(pool) == ["uid-w0", "uid-w1"]
    assert write(pool) == 0, "it is not reserved again"
    note(pool, member("w2", 3))
    write(pool)
    assert holders(pool) == ["uid-w0", "uid-w1", "uid-w2"]
