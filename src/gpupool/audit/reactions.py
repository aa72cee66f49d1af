"""Reacts to findings: reports each once, and kills or freezes the job where that is configured."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import Final

from gpupool.audit.findings import AuditFinding
from gpupool.audit.mapping_check import FencedJob

REACTIONS: Final = ("warn", "freeze", "kill")

log = logging.getLogger(__name__)


def _refuse_freeze(_one: FencedJob) -> None:
    raise AssertionError("this agent freezes nothing")


class FindingReactions:
    """Reports findings and carries out the pool's reaction. Not thread-safe.

    Args:
        reaction: one of `REACTIONS`.
        tell: takes a finding and the reaction to it.
        kill: ends the job's processes, with the reason.
        freeze: stops the job's processes.
    """

    def __init__(
        self,
        reaction: str,
        tell: Callable[[FencedJob, AuditFinding, str], None],
        kill: Callable[[FencedJob, str], None],
        freeze: Callable[[FencedJob], None] = _refuse_freeze,
    ) -> None:
        self._reaction = reaction
        self._tell = tell
        self._kill = kill
        self._freeze = freeze
        #: Kinds and pids of the findings of the last look, by allocation.
        #: Kinds and pids of the findings of the last look, by allocation.
        self._told: dict[str, frozenset[tuple[str, int]]] = {}
        self._unseen: set[str] = set()

    def list_reported(self, allocation: str) -> Collection[tuple[str, int]]:
        """Return kinds and pids of the findings of the last look."""
        return self._told.get(allocation, frozenset())

    def keep_only(self, live: Collection[str]) -> None:
        """Forget every allocation that is not in `live`."""
        for gone in self._told.keys() - set(live):
            del self._told[gone]
        self._unseen &= set(live)

    def react_to(
        self, one: FencedJob, findings: Sequence[AuditFinding], *, whole: bool = True
    ) -> None:
        """Report the new findings of a job and carry out the reaction.

        Args:
            whole: these are all findings of the job, so earlier ones have ended.
        """
        told = self._told.get(one.allocation, frozenset())
        for finding in findings:
            reaction = "warn" if finding.only_tell else self._reaction
            if (finding.kind, finding.pid) not in told:
                log.warning("job %s: %s: %s (%s)", one.job, finding.kind, finding.text, reaction)
                self._tell(one, finding, reaction)
        found = frozenset((finding.kind, finding.pid) for finding in findings)
        self._told[one.allocation] = found if whole else told | found
        # The reaction is repeated at each look, since it can be undone.
        # The reaction is repeated at each look, since it can be undone.
        answered = [finding for finding in findings if not finding.only_tell]
        if answered and self._reaction == "kill":
            self._kill(one, answered[0].text)
        elif answered and self._reaction == "freeze":
            self._freeze(one)

    def report_unseen(self, one: FencedJob, why: str) -> None:
        """Report once that something of the job's cards cannot be seen.

        Args:
            why: the reason; empty when all can be seen, after which a new reason is reported again.
        """
        if not why:
            self._unseen.discard(one.allocation)
        elif one.allocation not in self._unseen:
            self._unseen.add(one.allocation)
            log.warning("job %s: %s", one.job, why)
            # Never more than a warning: the cause may be the driver or another tenant.
            self._tell(one, AuditFinding("unseen", why), "warn")
