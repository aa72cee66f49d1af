"""Checks that a running job gets its new size, larger and smaller, in time."""

from __future__ import annotations

import time

from gpupool.base.units import NANOS_PER_MILLISECOND, NANOS_PER_SECOND
from gpupool.verification.check_run import CHANGE_NS, CheckRun
from gpupool.verification.findings import PromiseFinding, RateLine, RateTimeline, TimeMark
from gpupool.verification.statistics import compute_mean_rate, find_change
from gpupool.verification.verification_job import VerificationJob


def check_resize(run: CheckRun) -> None:
    """Check a running job that grows and shrinks."""
    words = ("--kernel-us", "200", "--interval-ms", "20", "--watch-memory", "--seconds", "60")
    task = run.submit_burn("resize", *words, milli=200)
    small = run.share_bytes
    large = 2 * small
    task.await_load(run.scale.alone)
    grown = _resize_job(run, task, 600, large)
    shrunk = _resize_job(run, task, 200, small)
    run.stop_job(task)
    series = task.record.list_stretches()
    marks = [
        TimeMark(at, f"to {milli / 1000:g}") for at, milli in ((grown[0], 600), (shrunk[0], 200))
    ]
    if run.bench.api.local:
        lines = (RateLine("resized", series),)
        run.found.timelines.append(
            RateTimeline("A running job is resized", lines, marks, (0.2, 0.6))
        )
    _judge_resize(run, "grows", task, grown, shrunk[0], (0.2, 0.6), large)
    _judge_resize(run, "shrinks", task, shrunk, None, (0.6, 0.2), small)


def _resize_job(
    run: CheckRun, task: VerificationJob, milli: int, memory: int
) -> tuple[int, float | None]:
    """Resize a job; return when it was requested (ns), and after how many ms it was in force."""
    began = time.monotonic_ns()
    body = {"gpu_milli": milli, "memory_bytes": memory}
    told = run.bench.api.request("POST", f"jobs/{task.id}/resize", body, query={"wait_seconds": 5})
    task.read_log(0)
    so_far = task.record.list_stretches()
    task.await_load((so_far[-1].end_ns - so_far[0].begin_ns) / NANOS_PER_SECOND + run.scale.beside)
    return began, told["applied_milliseconds"]


def _judge_resize(
    run: CheckRun,
    way: str,
    task: VerificationJob,
    change: tuple[int, float | None],
    until: int | None,
    rates: tuple[float, float],
    memory: int,
) -> None:
    at, applied = change
    if not run.bench.api.local:
        run.add_findings(_judge_change(f"resize-{way}", f"Its node says that it {way}", applied))
        return
    series = [s for s in task.record.list_stretches() if until is None or s.begin_ns < until]
    was = compute_mean_rate(series, at - NANOS_PER_SECOND, at)
    had = was is not None and abs(was - rates[0]) < abs(was - rates[1])
    compute = find_change(series, at, *rates) if had else None
    memory_ns: int | None = None
    for line in task.record.list_lines("memory"):
        if line["at_ns"] >= at and line["total_bytes"] == memory:
            memory_ns = line["at_ns"] - at
            break
    for what, found in (("compute", compute), ("memory", memory_ns)):
        title = f"A running job {way}: its {what} is the new one"
        run.add_findings(
            _judge_change(
                f"resize-{way}-{what}",
                title,
                None if found is None else found / NANOS_PER_MILLISECOND,
            )
        )


def _judge_change(key: str, title: str, milliseconds: float | None) -> PromiseFinding:
    kept = milliseconds is not None and milliseconds <= CHANGE_NS / NANOS_PER_MILLISECOND
    text = "never" if milliseconds is None else f"after {milliseconds:.0f} ms"
    return PromiseFinding(
        key,
        title,
        f"within {CHANGE_NS // NANOS_PER_MILLISECOND} ms",
        text,
        kept,
        {"milliseconds": milliseconds},
    )
