"""GPU time that cards report for fenced jobs beside what the arbiter says of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType

from gpupool.audit.card_processes import OnCards
from gpupool.audit.ended_work import EndedNs
from gpupool.audit.findings import Finding
from gpupool.audit.sight import FencedJob
from gpupool.audit.time_audit import TimeAudit
from gpupool.mechanisms.arbiter import ShareStatus
from gpupool.mechanisms.fence import FencedFiles
from gpupool.mechanisms.regions import DeviceLimit

Granted = Callable[[], tuple[int, tuple[ShareStatus, ...]] | None]
"""The arbiter's pid and what it says of each share; None without an answer."""


class GrantedTime:
    """`granted` asks the arbiter and blocks for 5 s at most. Not thread-safe."""

    def __init__(self, granted: Granted, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._granted, self._now_ns = granted, now_ns
        self._audit = TimeAudit()

    def forget(self, live: Collection[str]) -> None:
        """Keep these allocations alone."""
        self._audit.forget(live)

    def findings(
        self,
        looked: Sequence[tuple[FencedJob, FencedFiles]],
        seen: OnCards,
        ended: EndedNs = MappingProxyType({}),
    ) -> Mapping[str, Sequence[Finding]]:
        """By allocation, what the card says that its processes had and the arbiter has neither granted nor seen.

        `ended` is what those had that have ended, beyond what was seen of them on the cards.
        """
        said = self._granted() if seen or ended else None
        if said is None:
            return {}
        arbiter, statuses = said
        accounts = {(each.allocation, each.device): each for each in statuses}
        found: dict[str, list[Finding]] = {}
        for one, known in looked:
            for place, limit in enumerate(known.wanted.devices):
                here = seen.get(one.allocation, {}).get(limit.uuid, ())
                used = {process.pid: process.gpu_ns for process in here if process.gpu_ns is not None}
                account = accounts.get((one.allocation, place))
                if account is None or len(used) < len(here) or _has_the_whole_card(limit):
                    continue
                mark, sampled = (arbiter, known.wanted.generation), not known.simulated
                over_ns = ended.get(one.allocation, {}).get(limit.uuid, 0)
                now = self._now_ns()
                text = self._audit.look(limit, used, account, now, ended_ns=over_ns, mark=mark, sampled=sampled)
                if text:
                    found.setdefault(one.allocation, []).append(Finding("time", text, only_tell=sampled))
        return found


def _has_the_whole_card(limit: DeviceLimit) -> bool:
    """Such a share asks no arbiter, so no account of its time exists to compare with."""
    return limit.sharing == "fixed" and limit.gpu_milli >= 1000
