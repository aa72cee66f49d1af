"""The checks of one card, in order: each tries a promise of shares with real jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpupool.base.errors import ServiceUnavailable
from gpupool.verification.bench import VerificationBench
from gpupool.verification.check_run import CheckRun
from gpupool.verification.compute_check import check_burst, check_fixed, check_mixed
from gpupool.verification.findings import PromiseFinding, VerificationFindings
from gpupool.verification.memory_check import check_memory
from gpupool.verification.neighbour_check import check_neighbours
from gpupool.verification.resize_check import check_resize
from gpupool.verification.scale import CheckScale


@dataclass(frozen=True)
class CardCheck:
    """One check.

    Attributes:
        words: What is checked, for the terminal.
        run: Blocks until the check is done, and adds its findings.
        is_slow: Whether a quick verification leaves it out.
    """

    words: str
    run: Callable[[CheckRun], None]
    is_slow: bool = False


#: The checks by name, in the order in which they run.
CHECKS: Final[dict[str, CardCheck]] = {
    "memory": CardCheck("limits, and who is refused", check_memory),
    "fixed": CardCheck("three shares beside each other", check_fixed),
    "mixed": CardCheck("graphs beside long kernels", check_mixed, is_slow=True),
    "burst": CardCheck("what is idle is lent and given back", check_burst),
    "neighbours": CardCheck("busy, crashing, killed", check_neighbours),
    "resize": CardCheck("both ways, of a running job", check_resize),
}


class CardChecks:
    """All checks of one card."""

    def __init__(self, bench: VerificationBench, scale: CheckScale, memory_bytes: int) -> None:
        """Make the checks.

        Args:
            bench: Submits the jobs.
            scale: How long the checks run and which error they allow.
            memory_bytes: The card's memory.
        """
        self._run = CheckRun(bench, scale, memory_bytes)
        self._scale = scale

    @property
    def findings(self) -> VerificationFindings:
        """What the checks have found so far."""
        return self._run.found

    def run_checks(self, only: Sequence[str] = ()) -> Iterator[str]:
        """Run every check, or those named; yield the words of each before it begins.

        A check that cannot be shown on this card becomes a promise that is not kept.
        """
        for name, check in CHECKS.items():
            if only and name not in only:
                continue
            if check.is_slow and self._scale.quick:
                continue
            yield f"{name}: {check.words}"
            try:
                check.run(self._run)
            except ServiceUnavailable as error:
                self._run.add_findings(
                    PromiseFinding(name, check.words, "it can be shown", error.message, False)
                )

    def find_identity(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Find what the driver reported to the first job that it answered, and that job.

        Returns:
            The card as the driver reported it, and the job as the pool has it; both empty where no
            job was answered.
        """
        for task in self._run.tasks:
            card = task.record.find_first("card")
            if card is not None:
                return card, task.fetch_job()
        return {}, {}
