"""What the checks of one card share: the jobs' bench, the scale, the findings.

Time is the jobs' own CLOCK_MONOTONIC, which is one clock for all of a machine; requests are timed
by it as well where the pool is on this machine. Rates are parts of a card's time.
"""

from __future__ import annotations

from typing import Any, Final

from gpupool.base.errors import ServiceUnavailable
from gpupool.base.units import MIB, NANOS_PER_MILLISECOND
from gpupool.verification.bench import VerificationBench
from gpupool.verification.findings import PromiseFinding, VerificationFindings
from gpupool.verification.scale import CheckScale
from gpupool.verification.statistics import RateEstimate, RateStretch, compute_overlap
from gpupool.verification.verification_job import VerificationJob

#: A change of a share is in force within this time.
CHANGE_NS: Final = 200 * NANOS_PER_MILLISECOND
#: The time that a load needs to find its pace; it is not counted.
SETTLE_NS: Final = 300 * NANOS_PER_MILLISECOND
#: Bytes that a job allocates where a check needs memory in use, if its share has twice as many.
TOUCHED_BYTES: Final = 256 * MIB


class CheckRun:
    """The shared state of the checks of one card."""

    def __init__(self, bench: VerificationBench, scale: CheckScale, memory_bytes: int) -> None:
        """Make the state.

        Args:
            bench: Submits the jobs.
            scale: How long the checks run and which error they allow.
            memory_bytes: The card's memory; each job gets an eighth of it.
        """
        self.bench = bench
        self.scale = scale
        self.found = VerificationFindings()
        self.share_bytes = memory_bytes // 8 // MIB * MIB
        # The second is None where the caller may not make tenants.
        self.first_tenant, self.second_tenant = bench.choose_tenants()
        self.tasks: list[VerificationJob] = []

    def add_findings(self, *findings: PromiseFinding) -> None:
        """Add findings to the result."""
        self.found.findings += findings

    def submit_burn(self, what: str, *words: str, milli: int, **options: Any) -> VerificationJob:
        """Submit a job of `gpupool burn`. Blocks for one request.

        Args:
            what: The job's purpose; part of its name.
            words: The options of `gpupool burn`.
            milli: Thousandths of the card.
            options: Options of `Bench.submit`, above the usual memory and tenant.
        """
        options = {"memory_bytes": self.share_bytes, "tenant": self.first_tenant, **options}
        task = self.bench.submit_burn(what, words, gpu_milli=milli, **options)
        self.tasks.append(task)
        return task

    def stop_job(self, task: VerificationJob) -> None:
        """Stop a job and read the rest of its output. Blocks until it has ended."""
        task.stop_job()
        task.await_end(30)


def format_percent(part: float, digits: int = 0) -> str:
    """Format a part as percent, like `29.8 %`."""
    return f"{part * 100:.{digits}f} %"


def format_error(got: RateEstimate) -> str:
    """Format the error of an estimate in points of a card."""
    return "unknown" if got.error is None else f"{got.error * 100:.1f} points"


def find_overlap(series: list[list[RateStretch]], *, settle: bool = True) -> tuple[int, int]:
    """Find the begin and end, in nanoseconds, of the time in which all series ran.

    Raises:
        ServiceUnavailable: There is no such time.
    """
    try:
        return compute_overlap(series, SETTLE_NS if settle else 0)
    except ValueError as error:
        raise ServiceUnavailable(f"nothing can be compared: {error}") from error
