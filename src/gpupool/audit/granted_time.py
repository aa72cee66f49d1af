"""Compares the GPU time that cards report for fenced jobs with what the arbiter granted them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType

from gpupool.audit.card_processes import OnCards
from gpupool.audit.ended_processes import EndedNs
from gpupool.audit.findings import AuditFinding
from gpupool.audit.mapping_check import FencedJob
from gpupool.audit.time_audit import TimeAudit
from gpupool.mechanisms.arbiter import ShareStatus
from gpupool.mechanisms.fenced_files import FencedFiles
from gpupool.mechanisms.regions import DeviceLimit

#: The arbiter's pid and what it says of each share; None without an answer.
Granted = Callable[[], tuple[int, tuple[ShareStatus, ...]] | None]


class GrantedTimeCheck:
    """Finds jobs that used more GPU time than they were granted. Not thread-safe.

    Args:
        granted: queries the arbiter; blocks for 5 s at most.
    """

    def __init__(self, granted: Granted, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._granted = granted
        self._now_ns = now_ns
        self._audit = TimeAudit()

    def keep_only(self, live: Collection[str]) -> None:
        """Forget every allocation that is not in `live`."""
        self._audit.keep_only(live)

    def find_overuse(
        self,
        looked: Sequence[tuple[FencedJob, FencedFiles]],
        seen: OnCards,
        ended: EndedNs = MappingProxyType({}),
    ) -> Mapping[str, Sequence[AuditFinding]]:
        """Return, by allocation, GPU time that the arbiter has neither granted nor seen.

        Args:
            ended: nanoseconds of ended processes beyond what was seen of them on the cards.
        """
        said = self._granted() if seen or ended else None
        if said is None:
            return {}
        arbiter, statuses = said
        accounts = {(each.allocation, each.device): each for each in statuses}
        found: dict[str, list[AuditFinding]] = {}
        for one, known in looked:
            for place, limit in enumerate(known.wanted.devices):
                here = seen.get(one.allocation, {}).get(limit.uuid, ())
                used: dict[int, int] = {}
                for process in here:
                    if process.gpu_ns is not None:
                        used[process.pid] = process.gpu_ns
                account = accounts.get((one.allocation, place))
                # Without a figure for each process the sum would be too low to judge the card by.
                if account is None or len(used) < len(here) or _has_the_whole_card(limit):
                    continue
                mark = (arbiter, known.wanted.generation)
                sampled = not known.simulated
                over_ns = ended.get(one.allocation, {}).get(limit.uuid, 0)
                now = self._now_ns()
                text = self._audit.add_look(
                    limit, used, account, now, ended_ns=over_ns, mark=mark, sampled=sampled
                )
                if text:
                    found.setdefault(one.allocation, []).append(
                        AuditFinding("time", text, only_tell=sampled)
                    )
        return found


def _has_the_whole_card(limit: DeviceLimit) -> bool:
    """Such a share asks no arbiter, so no account of its time exists to compare with."""
    return limit.sharing == "fixed" and limit.gpu_milli >= 1000
