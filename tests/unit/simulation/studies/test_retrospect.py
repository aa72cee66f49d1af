"""Starts of a log beside those of a replay: the same, elsewhere, earlier, later, never."""

from __future__ import annotations

import pytest

from gpupool.base.errors import BadTrace
from gpupool.base.units import NANOS_PER_SECOND as NS
from gpupool.simulation.studies.decisions import COLUMNS
from gpupool.simulation.studies.retrospect import Retrospect, compare_starts, cut_trace
from gpupool.simulation.traces.eventlog import EventLog, LoggedStart
from gpupool.simulation.traces.trace import WorkloadTrace
from tests.support.simulation_builders import job

BEGIN = 1_795_000_000 * NS


def log(*names: str) -> EventLog:
    """Jobs that were submitted at 0, 1, ... s and started 10 s later on card 0 of n0."""
    arrivals = tuple(job(name, at, 5) for at, name in enumerate(names))
    starts = {one.job: LoggedStart(one.at_ns + 10 * NS, "n0", (0,)) for one in arrivals}
    return EventLog(WorkloadTrace("the log", arrivals), BEGIN, starts)


def placed(claim: str, time: str, node: str = "n0", cards: str = "0") -> tuple[object, ...]:
    cells = {"time": time, "event": "placed", "claim": claim, "node": node, "cards": cards}
    return tuple({**dict.fromkeys(COLUMNS, ""), **cells, "reason": f"for {claim}"}.values())


def compare(found: EventLog, *rows: tuple[object, ...], from_ns: int | None = None) -> Retrospect:
    return compare_starts("fgd", found, found.trace, rows, from_ns)


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        (placed("a", "10"), "same"),
        (placed("a", "10.999999999"), "same"),
        (placed("a", "11"), "later"),
        (placed("a", "9"), "earlier"),
        (placed("a", "10", node="n1"), "elsewhere"),
        (placed("a", "10", cards="1"), "elsewhere"),
        (placed("b", "10"), "never"),
    ],
)
def test_verdict_of_a_start_follows_from_time_and_place(
    row: tuple[object, ...], verdict: str
) -> None:
    found = compare(log("a"), row)
    assert [one.verdict for one in found.jobs] == [verdict]
    assert found.verdict_counts == {verdict: 1}
    assert (found.differing_jobs == []) is (verdict == "same")


def test_compare_takes_the_first_start_of_an_evicted_job() -> None:
    (found,) = compare(log("a"), placed("a", "10"), placed("a", "99", node="n1")).jobs
    assert found.replayed == LoggedStart(BEGIN + 10 * NS, "n0", (0,))
    assert (found.submitted_ns, found.reason) == (BEGIN, "for a")


def test_compare_leaves_out_jobs_before_from_and_jobs_never_started() -> None:
    given = log("a", "b", "c")
    started = EventLog(given.trace, BEGIN, {n: given.starts[n] for n in ("a", "b")})
    found = compare(started, placed("b", "11"), from_ns=BEGIN + 1 * NS)
    assert [one.job for one in found.jobs] == ["b"]
    with pytest.raises(BadTrace, match="no job of that time that was placed") as caught:
        compare(started, from_ns=BEGIN + 2 * NS)
    assert caught.value.hint == "an earlier --from"


def test_cut_trace_keeps_jobs_before_the_instant_alone() -> None:
    given = log("a", "b", "c")
    assert [one.job for one in cut_trace(given, BEGIN + 2 * NS).arrivals] == ["a", "b"]
    assert len(cut_trace(given, None).arrivals) == 3
    with pytest.raises(BadTrace, match="no job that was submitted before then"):
        cut_trace(given, BEGIN)
