"""A fenced job's own files beside what its cards say of its memory: the ledger, the limits and the grants page."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from gpupool.audit.card_processes import CardProcesses
from gpupool.audit.findings import CODE_ALLOWANCE_BYTES, CardProcess, Comparison, Finding, Shrunk, compare, held_on
from gpupool.audit.sight import FencedJob
from gpupool.mechanisms.fence import FencedFiles
from gpupool.mechanisms.regions import (
    FenceUsage,
    RegionDamaged,
    as_on_page,
    check_grants,
    read_limits,
    read_usage,
    write_overhead,
)

OVERHEAD_STEP_BYTES: Final = 1 << 20
LOOKS_AGAIN: Final = 7

Bytes = Mapping[str, Mapping[int, int]]
"""By card and pid."""


class LedgerLook:
    """Keeps what cards said beyond the ledgers. Not thread-safe."""

    def __init__(self, cards: CardProcesses) -> None:
        self._cards, self._shrunk = cards, Shrunk()
        self._unaccounted: dict[str, Bytes] = {}
        self.any_uses_a_card = False
        """Whether a job that was looked at has processes on a card or in its ledger; the caller resets it."""

    def unaccounted(self, allocation: str) -> Bytes | None:
        """Bytes beyond the ledger by the last look; None before the first."""
        return self._unaccounted.get(allocation)

    def forget(self, live: Collection[str]) -> None:
        """Keep these allocations alone."""
        self._shrunk.forget(live)
        for gone in self._unaccounted.keys() - set(live):
            del self._unaccounted[gone]

    def findings(
        self,
        one: FencedJob,
        known: FencedFiles,
        before: FenceUsage | str,
        cards: Mapping[str, Sequence[CardProcess]],
        told: Collection[tuple[str, int]],
    ) -> tuple[list[Finding], Bytes]:
        """What is wrong, and bytes beyond the ledger, which count from `keep` on.

        `before`: the ledger before the cards were asked; `told`: findings of the last look.
        """
        after = usage_now(known)
        found = [*_limits_changed(known), *_grants_damaged(known)]
        if isinstance(before, str) or isinstance(after, str):
            return [*found, Finding("region", after if isinstance(after, str) else str(before))], {}
        allowed = self._shrunk.allowed(one.allocation, known.wanted, held_on(cards))
        result = compare(known.wanted, before, after, cards, _allowance(known), allowed)
        result = self._sure(one, known, result, allowed, told)
        if not found:
            _charge(known, result.unaccounted)
        self.any_uses_a_card = self.any_uses_a_card or bool(cards) or bool(after.processes)
        return [*found, *result.findings], result.unaccounted

    def keep(self, allocation: str, unaccounted: Bytes) -> None:
        """The look was whole: its figures are the allocation's."""
        self._unaccounted[allocation] = unaccounted

    def _sure(
        self,
        one: FencedJob,
        known: FencedFiles,
        result: Comparison,
        allowed: Mapping[str, int],
        told: Collection[tuple[str, int]],
    ) -> Comparison:
        """What is new is looked at again at once, since a job can be ended for it. One instant of a program that takes
        and gives back as fast as it can is misread with a chance of one in seven at most: so often, never.
        """
        old = self._unaccounted.get(one.allocation, {})
        for _ in range(LOOKS_AGAIN):
            new = any((finding.kind, finding.pid) not in told for finding in result.findings)
            if not new and result.beyond(old) < OVERHEAD_STEP_BYTES:
                break
            before = usage_now(known)
            cards = self._cards.of([(one, known)]).get(one.allocation, {})
            after = usage_now(known)
            if isinstance(before, str) or isinstance(after, str):
                break
            again = compare(known.wanted, before, after, cards, _allowance(known), allowed)
            result = result.confirmed(again)
        return result


def usage_now(known: FencedFiles) -> FenceUsage | str:
    """What the ledger says, or how it is damaged."""
    try:
        return read_usage(known.usage, known.uuids)
    except FileNotFoundError:
        return "its usage file is gone"
    except RegionDamaged as error:
        return f"its usage file is damaged: {error}"


def _allowance(known: FencedFiles) -> int:
    """A simulated card knows of nothing but what was asked for."""
    return 0 if known.simulated else CODE_ALLOWANCE_BYTES


def _charge(known: FencedFiles, unaccounted: Bytes) -> None:
    """What the card says beyond the ledger is in the share too. In whole steps, for figures that flicker."""
    for place, uuid in enumerate(known.uuids):
        beyond = sum(unaccounted.get(uuid, {}).values())
        write_overhead(known.limits, place, beyond // OVERHEAD_STEP_BYTES * OVERHEAD_STEP_BYTES)


def _limits_changed(known: FencedFiles) -> list[Finding]:
    try:
        if read_limits(known.limits) == as_on_page(known.wanted):
            return []
    except (OSError, RegionDamaged) as error:
        return [Finding("limits", f"its limits page was changed: {error}")]
    return [Finding("limits", "its limits page says other than what was granted")]


def _grants_damaged(known: FencedFiles) -> list[Finding]:
    """Who has the page mapped keeps it; who starts now gets no card."""
    try:
        check_grants(known.grants)
    except (OSError, RegionDamaged) as error:
        return [Finding("grants", f"its grants page was changed: {error}")]
    return []
