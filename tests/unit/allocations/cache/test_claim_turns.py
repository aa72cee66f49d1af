"""Claims for which jobs leave their seats have the next turn, for a while."""

from __future__ import annotations

from dataclasses import replace

from gpupool.allocations.cache.claim_turns import ClaimTurns
from gpupool.allocations.cache.job_queue import JobQueue
from gpupool.allocations.cache.pending_jobs import QueueEntry
from gpupool.allocations.ledger.running_jobs import IdleSuspension, SeatHolder
from gpupool.base.units import GIB, NANOS_PER_SECOND
from gpupool.model.allocation import Seat
from gpupool.model.claim import Shape
from gpupool.model.suspension import SuspensionState
from gpupool.scheduling.snapshot.claims import ClassKey

HALF = Shape(500, 8 * GIB)
SEATS = (Seat("node-1/0", 500, 8 * GIB),)
RUNS = SeatHolder("j-1", "nlp", 0, SEATS, HALF, 5, None, False, "", None, "j-1", requeue=False)


def suspend(state: SuspensionState, claim: str = "new") -> SeatHolder:
    return replace(RUNS, idle_suspension=IdleSuspension(state, claim))


class Rig:
    """A queue with the claim `new`, and its turns."""

    def __init__(self) -> None:
        self.now_ns = 0
        queue = JobQueue()
        queue.add_entry(QueueEntry("new", ClassKey("nlp", 0, HALF, None), 0))
        self.turns = ClaimTurns(queue, lambda: self.now_ns)


def test_a_claim_has_its_turn_until_a_minute_after_its_last_victim_left() -> None:
    rig = Rig()
    other = replace(suspend(SuspensionState.SUSPENDING), job="j-2")
    rig.turns.record_holders([suspend(SuspensionState.SUSPENDING), other])
    rig.turns.record_departure("j-2")
    rig.now_ns = 3600 * NANOS_PER_SECOND
    assert rig.turns.list_claims() == ("new",)
    rig.turns.record_holders([suspend(SuspensionState.SUSPENDED)])
    rig.now_ns += 59 * NANOS_PER_SECOND
    assert rig.turns.list_claims() == ("new",)
    rig.now_ns += NANOS_PER_SECOND
    assert rig.turns.list_claims() == ()


def test_a_suspend_that_the_node_refuses_ends_the_turn_as_a_departure_does() -> None:
    rig = Rig()
    rig.turns.record_holders([suspend(SuspensionState.SUSPENDING)])
    rig.turns.record_holders([suspend(SuspensionState.FAILED)])
    rig.now_ns = 60 * NANOS_PER_SECOND
    assert rig.turns.list_claims() == ()


def test_a_job_that_wants_to_work_again_is_no_claim() -> None:
    rig = Rig()
    rig.turns.record_holders([suspend(SuspensionState.SUSPENDING, "j-back"), RUNS])
    assert rig.turns.list_claims() == ()


def test_an_eviction_counts_and_a_migration_does_not() -> None:
    rig = Rig()
    rig.turns.record_evictions({"j-1": "new", "j-2": "j-2"})
    assert rig.turns.list_claims() == ("new",)
    rig.turns.remove_claim("new")
    assert rig.turns.list_claims() == ()
