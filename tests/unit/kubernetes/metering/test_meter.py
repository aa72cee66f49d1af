"""What a meter says of a ledger that is no more comes after all that was said of it before."""

from __future__ import annotations

from dataclasses import replace

from gpupool.base.units import NANOS_PER_SECOND as NS
from gpupool.kubernetes.metering.meter import JournalPage, build_statement, close_missing_ledger
from gpupool.kubernetes.resources.closed_intervals import ClosedInterval
from gpupool.kubernetes.resources.gpu_node import Entry, GpuNode
from gpupool.kubernetes.resources.gpu_node_status import SlotUse
from gpupool.kubernetes.resources.gpu_time import GpuTime
from gpupool.model.allocation import Seat
from gpupool.wire.cluster import ClusterNodeIn


def age(said: dict[str, int]) -> tuple[int, int]:
    """By which a server tells the newer of two statements."""
    return said["born_ns"], said["generation"]


def test_a_statement_has_what_containers_used_where_something_counts_it() -> None:
    held = Entry("u", "space", "a", "main", (Seat("GPU-0", 300, 1 << 30),), "team", held_ns=5)
    entries = [replace(held, container=name) for name in ("main", "helper")]
    over = ClosedInterval(
        "v", "space", "b", "main", held.seats, "team", "", 3, 4, GpuTime(1700, 200, 30)
    )
    node = GpuNode(
        "n",
        entries=tuple(entries),
        slots=(SlotUse("u", "main", spent=GpuTime(0)), SlotUse("u", "helper")),
    )
    said = ClusterNodeIn.model_validate(build_statement(node, 1, [over]))
    assert [one.gpu_milliseconds for one in said.held] == [0, None]
    (ended,) = said.ended
    sums = (ended.gpu_milliseconds, ended.borrowed_milliseconds, ended.denied_milliseconds)
    assert sums == (1700, 200, 30)
    assert said.held[0].borrowed_milliseconds is None


def test_what_is_left_in_pages_is_newer_than_a_ledger_that_was_made_in_the_same_second() -> None:
    last = build_statement(GpuNode("n", version=900), 7 * NS, ())
    after = build_statement(
        *close_missing_ledger(
            "n", [JournalPage("/one", 5 * NS, []), JournalPage("/two", 7 * NS, [])]
        ),
        (),
    )
    assert age(after) > age(last)
    assert age(after) < age(build_statement(GpuNode("n", version=1), 8 * NS, ())), (
        "and older than a ledger that comes again"
    )
