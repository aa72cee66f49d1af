"""What a finding does: it is told once while it lasts, and its job is ended or frozen where the pool wants that."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import Final

from gpupool.audit.findings import Finding
from gpupool.audit.sight import FencedJob

REACTIONS: Final = ("warn", "freeze", "kill")

log = logging.getLogger(__name__)


def _never(_one: FencedJob) -> None:
    raise AssertionError("this agent freezes nothing")


class Answering:
    """`tell` takes a finding and what was done for it, `kill` and `freeze` do it. Not thread-safe."""

    def __init__(
        self,
        reaction: str,
        tell: Callable[[FencedJob, Finding, str], None],
        kill: Callable[[FencedJob, str], None],
        freeze: Callable[[FencedJob], None] = _never,
    ) -> None:
        self._reaction = reaction
        self._tell, self._kill, self._freeze = tell, kill, freeze
        self._told: dict[str, frozenset[tuple[str, int]]] = {}
        self._unseen: set[str] = set()

    def told(self, allocation: str) -> Collection[tuple[str, int]]:
        """Kinds and pids of what was found at the last look and told."""
        return self._told.get(allocation, frozenset())

    def forget(self, live: Collection[str]) -> None:
        """Keep these allocations alone."""
        self._told = {allocation: told for allocation, told in self._told.items() if allocation in live}
        self._unseen &= set(live)

    def answer(self, one: FencedJob, findings: Sequence[Finding], *, whole: bool = True) -> None:
        """Tell what is new; the reaction is repeated, since it can be undone.

        `whole`: these are all findings of the job, so others have ended.
        """
        told = self._told.get(one.allocation, frozenset())
        for finding in findings:
            reaction = "warn" if finding.only_tell else self._reaction
            if (finding.kind, finding.pid) not in told:
                log.warning("job %s: %s: %s (%s)", one.job, finding.kind, finding.text, reaction)
                self._tell(one, finding, reaction)
        found = frozenset((finding.kind, finding.pid) for finding in findings)
        self._told[one.allocation] = found if whole else told | found
        answered = [finding for finding in findings if not finding.only_tell]
        if answered and self._reaction == "kill":
            self._kill(one, answered[0].text)
        elif answered and self._reaction == "freeze":
            self._freeze(one)

    def tell_unseen(self, one: FencedJob, why: str) -> None:
        """Something of the job's cards cannot be seen (`why`, empty when all can).

        Nobody is ended for it: whose doing it is, is not known.
        """
        if not why:
            self._unseen.discard(one.allocation)
        elif one.allocation not in self._unseen:
            self._unseen.add(one.allocation)
            log.warning("job %s: %s", one.job, why)
            self._tell(one, Finding("unseen", why), "warn")
