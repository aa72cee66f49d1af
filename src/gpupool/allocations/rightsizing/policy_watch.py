"""The thread that applies or proposes advice to running jobs, and takes back what was too little.

A pool without policies and without changed jobs is asked for both once in each look, and nothing else.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Hashable
from typing import Final

import sqlalchemy as sa

from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.placement.placer import Placer
from gpupool.allocations.rightsizing.advice_book import AdviceBook
from gpupool.allocations.rightsizing.policies import TOPIC
from gpupool.allocations.rightsizing.policy_acts import PolicyActs, must_propose
from gpupool.allocations.rightsizing.policy_rows import (
    AdvicePolicy,
    forget_pauses,
    read_policies,
    read_standing,
)
from gpupool.allocations.rightsizing.running_shares import (
    RunningShare,
    read_changed_shares,
    read_ended_shares,
    read_running_shares,
)
from gpupool.allocations.store.advice_rows import APPLIED
from gpupool.allocations.store.advice_tables import advice_pauses
from gpupool.base.silence import mark_busy
from gpupool.base.supervision import SupervisedThread
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.metering.service import MeteringService
from gpupool.rightsizing.policy import AdviceMode, AdviceTarget
from gpupool.store.database import Store

#: Seconds from one look to the next: use is written every five minutes.
PAUSE_SECONDS: Final = 30.0
#: So soon a share that found no room is tried again.
RETRY_SECONDS: Final = 5.0
#: Families are read again so often: an advice of days changes little in it, and reading takes 0.7 s.
REFRESH_NS: Final = 600 * NANOS_PER_SECOND
#: Jobs that ended so long before the first look are judged too: a server was down meanwhile.
FIRST_LOOK_NS: Final = 86_400 * NANOS_PER_SECOND
#: An end is reported after its instant: looks overlap by this much.
OVERLAP_NS: Final = 600 * NANOS_PER_SECOND
#: Running jobs that one look changes at most: placement pauses for each.
MOST_CHANGES: Final = 50
#: A look takes at most so long.
BUSY_SECONDS: Final = 120.0

log = logging.getLogger(__name__)


class PolicyWatch:
    """Looks at running jobs. Thread-safe; `look` may be called without the thread."""

    def __init__(
        self,
        store: Store,
        metering: MeteringService,
        cache: LedgerCache,
        placer: Placer,
        book: AdviceBook,
    ) -> None:
        self._store = store
        self._book = book
        self._acts = PolicyActs(store, metering, cache, placer, book)
        self._refreshed_ns: int | None = None
        self._ended_ns: int | None = None
        self._is_waiting = False
        self._has_news = True
        self._looking = threading.Lock()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread = SupervisedThread("advice-policies", self._run)
        store.notifier.add_listener(self._listen)

    def start(self) -> None:
        """Start the thread; it looks at once."""
        self._thread.start()
        self._wake.set()

    def close(self) -> None:
        """Stop the thread after the look in progress."""
        self._closing.set()
        self._thread.stop()
        self._wake.set()
        self._thread.join()

    def _listen(self, topics: frozenset[Hashable]) -> None:
        if TOPIC in topics:
            self._has_news = True
            self._wake.set()

    def _run(self) -> None:
        while not self._closing.is_set():
            self._wake.wait(RETRY_SECONDS if self._is_waiting else PAUSE_SECONDS)
            self._wake.clear()
            if self._closing.is_set():
                return
            began = time.monotonic()
            with mark_busy(BUSY_SECONDS):
                self.look()
            self._thread.mark_well()
            # A look of a large pool is not followed at once by the next one.
            self._closing.wait(min(PAUSE_SECONDS, time.monotonic() - began))

    def look(self) -> None:
        """Give back what was too little, then apply or propose advice. Idempotent."""
        with self._looking:
            now_ns = self._store.clock.now_ns()
            with self._store.read() as connection:
                policies = read_policies(connection)
                changed = read_changed_shares(connection)
                has_old_pauses = _has_old_pauses(connection, now_ns)
            if has_old_pauses:
                with self._store.write(freeing=True) as write:
                    forget_pauses(write)
            self._give_back(changed)
            self._judge_ended(now_ns)
            self._refresh(policies, now_ns)
            has_proposals = any(one.has_open_proposal for one in changed)
            if has_proposals or any(_is_about_running(one) for one in policies):
                self._judge_running()

    def _give_back(self, changed: list[RunningShare]) -> None:
        is_waiting = False
        for unit in changed:
            if unit.must_return and not self._acts.give_back(unit):
                is_waiting = True
        self._is_waiting = is_waiting

    def _judge_ended(self, now_ns: int) -> None:
        since_ns = now_ns - FIRST_LOOK_NS if self._ended_ns is None else self._ended_ns
        with self._store.read() as connection:
            ended = read_ended_shares(connection, since_ns)
        for one in ended:
            if one.was_too_small:
                self._acts.pause_after_end(one)
        self._ended_ns = now_ns - OVERLAP_NS

    def _refresh(self, policies: list[AdvicePolicy], now_ns: int) -> None:
        if all(one.bounds.mode is AdviceMode.OFF for one in policies):
            self._book.clear()
            self._refreshed_ns = None
            return
        last_ns = self._refreshed_ns
        if last_ns is not None and now_ns - last_ns < REFRESH_NS and not self._has_news:
            return
        self._has_news = False
        self._book.refresh()
        self._refreshed_ns = now_ns

    def _judge_running(self) -> None:
        """Apply advice to running jobs, propose it, and let proposals lapse that are no more."""
        with self._store.read() as connection:
            standing = read_standing(connection, self._store.clock.now_ns())
            units = read_running_shares(connection)
        applied = list[RunningShare]()
        proposed = list[RunningShare]()
        lapsed = list[RunningShare]()
        for unit in units:
            chosen = self._acts.choose_share(unit, standing)
            if chosen is not None and chosen.state == APPLIED:
                applied.append(unit)
            elif chosen is not None and must_propose(unit, chosen):
                proposed.append(unit)
            elif chosen is None and unit.has_open_proposal:
                lapsed.append(unit)
        for unit in applied[:MOST_CHANGES]:
            if self._acts.apply(unit):
                log.info("job %s runs with the share of its advice", unit.job)
        for unit in proposed[:MOST_CHANGES]:
            self._acts.propose(unit)
        for unit in lapsed[:MOST_CHANGES]:
            self._acts.withdraw(unit)


def _is_about_running(policy: AdvicePolicy) -> bool:
    bounds = policy.bounds
    return bounds.mode is not AdviceMode.OFF and bounds.covers(AdviceTarget.RUNNING)


def _has_old_pauses(connection: sa.Connection, now_ns: int) -> bool:
    query = sa.select(advice_pauses.c.id).where(advice_pauses.c.until_ns <= now_ns).limit(1)
    return connection.execute(query).first() is not None
