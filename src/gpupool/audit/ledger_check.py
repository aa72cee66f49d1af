"""Checks a fenced job's files (usage counters, limits, grants) against what its cards report."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from gpupool.audit.card_processes import CardProcesses
from gpupool.audit.findings import (
    CODE_ALLOWANCE_BYTES,
    AuditFinding,
    CardProcess,
    LedgerComparison,
    ShrunkShares,
    compare_ledger,
    sum_held_bytes,
)
from gpupool.audit.mapping_check import FencedJob
from gpupool.mechanisms.fenced_files import FencedFiles
from gpupool.mechanisms.regions import (
    DamagedRegion,
    FenceUsage,
    check_grants,
    cut_to_page,
    read_limits,
    read_usage,
    write_overhead,
)

#: Bytes. Unaccounted memory is charged in whole steps, so that flickering figures change no page.
OVERHEAD_STEP_BYTES: Final = 1 << 20
#: Further looks at a new finding. A program that takes and gives back as fast as it can is misread
#: at one look with a chance of one in seven at most, so by all of them practically never.
LOOKS_AGAIN: Final = 7

#: By card and pid.
ProcessBytes = Mapping[str, Mapping[int, int]]


class LedgerCheck:
    """Checks the files of fenced jobs; keeps the bytes beyond their counters. Not thread-safe."""

    def __init__(self, cards: CardProcesses) -> None:
        self._cards = cards
        self._shrunk = ShrunkShares()
        self._unaccounted: dict[str, ProcessBytes] = {}
        #: Whether a job that was looked at has processes on a card or in its ledger; the caller
        #: resets it.
        self.any_uses_a_card = False

    def find_unaccounted(self, allocation: str) -> ProcessBytes | None:
        """Return the bytes beyond the counters at the last look; None before the first."""
        return self._unaccounted.get(allocation)

    def keep_only(self, live: Collection[str]) -> None:
        """Forget every allocation that is not in `live`."""
        self._shrunk.keep_only(live)
        for gone in self._unaccounted.keys() - set(live):
            del self._unaccounted[gone]

    def check_job(
        self,
        one: FencedJob,
        known: FencedFiles,
        before: FenceUsage | str,
        cards: Mapping[str, Sequence[CardProcess]],
        told: Collection[tuple[str, int]],
    ) -> tuple[list[AuditFinding], ProcessBytes]:
        """Return the findings of a job and the bytes beyond its counters.

        The bytes take effect by `keep_figures`.

        Args:
            before: the counters before the cards were read, or how they are damaged.
            told: kinds and pids of the findings of the last look.
        """
        after = read_usage_now(known)
        found = [*_check_limits(known), *_check_grants_page(known)]
        if isinstance(before, str) or isinstance(after, str):
            return [
                *found,
                AuditFinding("region", after if isinstance(after, str) else str(before)),
            ], {}
        allowed = self._shrunk.update_allowed(
            one.allocation, known.wanted, sum_held_bytes(cards), known.highest
        )
        result = compare_ledger(known.wanted, before, after, cards, _find_allowance(known), allowed)
        result = self._confirm_new(one, known, result, allowed, told)
        # A page that was changed is evidence: it stays as it was found.
        if not found:
            _charge_unaccounted(known, result.unaccounted)
        self.any_uses_a_card = self.any_uses_a_card or bool(cards) or bool(after.processes)
        return [*found, *result.findings], result.unaccounted

    def keep_figures(self, allocation: str, unaccounted: ProcessBytes) -> None:
        """Store the figures of a look that was completed."""
        self._unaccounted[allocation] = unaccounted

    def _confirm_new(
        self,
        one: FencedJob,
        known: FencedFiles,
        result: LedgerComparison,
        allowed: Mapping[str, int],
        told: Collection[tuple[str, int]],
    ) -> LedgerComparison:
        """Look again at once at what is new, since a job can be killed for it."""
        old = self._unaccounted.get(one.allocation, {})
        for _ in range(LOOKS_AGAIN):
            new = any((finding.kind, finding.pid) not in told for finding in result.findings)
            if not new and result.find_largest_growth(old) < OVERHEAD_STEP_BYTES:
                break
            before = read_usage_now(known)
            cards = self._cards.list_processes([(one, known)]).get(one.allocation, {})
            after = read_usage_now(known)
            if isinstance(before, str) or isinstance(after, str):
                break
            again = compare_ledger(
                known.wanted, before, after, cards, _find_allowance(known), allowed
            )
            result = result.confirm_with(again)
        return result


def read_usage_now(known: FencedFiles) -> FenceUsage | str:
    """Return the usage counters, or how their file is damaged."""
    try:
        return read_usage(known.usage, known.uuids)
    except FileNotFoundError:
        return "its usage file is gone"
    except DamagedRegion as error:
        return f"its usage file is damaged: {error}"


def _find_allowance(known: FencedFiles) -> int:
    # A simulated driver takes no memory for code, heaps or stacks.
    return 0 if known.simulated else CODE_ALLOWANCE_BYTES


def _charge_unaccounted(known: FencedFiles, unaccounted: ProcessBytes) -> None:
    """Charge what the card reports beyond the counters to the share, through its limits page."""
    for place, uuid in enumerate(known.uuids):
        beyond = sum(unaccounted.get(uuid, {}).values())
        write_overhead(known.limits, place, beyond // OVERHEAD_STEP_BYTES * OVERHEAD_STEP_BYTES)


# An agent that is short of descriptors or memory has seen nothing of a page: other errors than a
# missing file end the look, and the next one comes soon.
def _check_limits(known: FencedFiles) -> list[AuditFinding]:
    try:
        if read_limits(known.limits) == cut_to_page(known.wanted):
            return []
    except (FileNotFoundError, DamagedRegion) as error:
        return [AuditFinding("limits", f"its limits page was changed: {error}")]
    return [AuditFinding("limits", "its limits page says other than what was granted")]


def _check_grants_page(known: FencedFiles) -> list[AuditFinding]:
    """Find a damaged grants page. Existing mappings stay valid; new processes are refused."""
    try:
        check_grants(known.grants)
    except (FileNotFoundError, DamagedRegion) as error:
        return [AuditFinding("grants", f"its grants page was changed: {error}")]
    return []
