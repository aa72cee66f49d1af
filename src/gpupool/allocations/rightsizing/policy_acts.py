"""What a policy does with one running job: each is one transaction with its event. Idempotent.

A proposal changes nothing of the job, and is reported once until it differs by more than a step.

A look has decided before. Each act reads its job again and decides again, so that a resize, a stop or
another policy between the two wins.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import Any, Final

import sqlalchemy as sa

from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.lifecycle.resize import RequestedSize, resize_job
from gpupool.allocations.lifecycle.resize_headroom import JobResizeHeadroom
from gpupool.allocations.placement.placer import Placer
from gpupool.allocations.rightsizing.advice_book import AdviceBook
from gpupool.allocations.rightsizing.policy_rows import (
    PolicyStanding,
    pause_family,
    read_standing,
)
from gpupool.allocations.rightsizing.running_shares import (
    EndedShare,
    RunningShare,
    read_running_share,
    read_use,
)
from gpupool.allocations.store.advice_rows import (
    APPLIED,
    LAPSED,
    PROPOSED,
    RETURNED,
    WAITS,
    AdvisedShare,
)
from gpupool.allocations.store.advice_tables import advice_runs
from gpupool.base.errors import RequestRejection, StaleGeneration, WrongState
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.metering.job_use.tables import use_histograms
from gpupool.metering.service import MeteringService
from gpupool.rightsizing.policy import (
    PAUSE_SECONDS,
    POLICY_RULES,
    AdviceMode,
    AdviceTarget,
    limit_advice,
)
from gpupool.scheduling import Snapshot
from gpupool.store.database import Store, WriteTransaction

PAUSE_NS: Final = PAUSE_SECONDS * NANOS_PER_SECOND

log = logging.getLogger(__name__)


class PolicyActs:
    """Gives running jobs their advice, and back what they asked for. Thread-safe."""

    def __init__(
        self,
        store: Store,
        metering: MeteringService,
        cache: LedgerCache,
        placer: Placer,
        book: AdviceBook,
    ) -> None:
        self._store = store
        self._metering = metering
        self._cache = cache
        self._placer = placer
        self._book = book

    def choose_share(self, unit: RunningShare, standing: PolicyStanding) -> AdvisedShare | None:
        """Choose what a running job gets, or would get, instead of its request; None: nothing."""
        share = unit.request
        advice = None if share is None else self._book.advise(unit.key, share)
        if share is None or advice is None:
            return None
        rule = standing.find_rule(unit.key)
        if rule is None or not rule.bounds.covers(AdviceTarget.RUNNING):
            return None
        given = limit_advice(rule.bounds, share, advice)
        if given is None:
            return None
        return AdvisedShare(
            rule.policy,
            APPLIED if rule.bounds.mode is AdviceMode.APPLY else PROPOSED,
            share.gpu_milli,
            share.memory_bytes,
            given.gpu_milli,
            given.memory_bytes,
        )

    def apply(self, unit: RunningShare) -> bool:
        """Resize a running job to its advice; return whether it was."""
        try:
            with (
                self._placer.pause_placement() as snapshot,
                self._store.write(freeing=True) as write,
            ):
                known = read_running_share(write.connection, unit.row_id)
                standing = read_standing(write.connection, write.now_ns)
                chosen = None if known is None else self.choose_share(known, standing)
                if known is None or chosen is None or chosen.state != APPLIED:
                    return False
                self._resize(write, known, chosen.gpu_milli, chosen.memory_bytes or 0, snapshot)
                _write_run(write, known, chosen)
                data = chosen.write_event_data(known.name)
                tenant_id, _, _ = known.owner
                write.event("job.advice-applied", known.job, tenant_id=tenant_id, data=data)
                write.announce(("job", known.job))
        except (RequestRejection, StaleGeneration) as error:
            # It is being moved or stopped, or its card lacks what grows: the next look tries again.
            log.info("advice of job %s is not applied: %s", unit.job, error)
            return False
        return True

    def propose(self, unit: RunningShare) -> bool:
        """Propose a running job its advice; return whether it is reported."""
        with self._store.write() as write:
            known = read_running_share(write.connection, unit.row_id)
            standing = read_standing(write.connection, write.now_ns)
            chosen = None if known is None else self.choose_share(known, standing)
            if known is None or chosen is None or chosen.state != PROPOSED:
                return False
            if not must_propose(known, chosen):
                return False
            last = known.proposal
            is_news = last is None or differs_by_step(last, chosen)
            # The next proposal is compared with the last one that was reported.
            again = chosen if last is None else replace(last, state=PROPOSED, policy=chosen.policy)
            _write_run(write, known, chosen if is_news else again)
            write.announce(("job", known.job))
            if is_news:
                # `is_running` makes it a message: of a new job its submission tells it.
                data = chosen.write_event_data(known.name) | {"is_running": True}
                tenant_id, _, _ = known.owner
                write.event("job.advice-proposed", known.job, tenant_id=tenant_id, data=data)
        return is_news

    def withdraw(self, unit: RunningShare) -> None:
        """Let a proposal lapse that no policy makes any more; what it said is kept."""
        with self._store.write() as write:
            known = read_running_share(write.connection, unit.row_id)
            if known is None or not known.has_open_proposal:
                return
            standing = read_standing(write.connection, write.now_ns)
            chosen = self.choose_share(known, standing)
            if chosen is not None and chosen.state == PROPOSED:
                return
            mine = sa.and_(advice_runs.c.job_id == known.row_id, advice_runs.c.state == PROPOSED)
            write.execute(advice_runs.update().where(mine).values(state=LAPSED))
            write.announce(("job", known.job))

    def give_back(self, unit: RunningShare) -> bool:
        """Give a job what it asked for, and leave its family alone; False: there is no room yet."""
        try:
            with self._placer.pause_placement() as snapshot, self._store.write() as write:
                known = read_running_share(write.connection, unit.row_id)
                if known is None or not known.must_return:
                    return True
                return self._write_return(write, known, snapshot)
        except (WrongState, StaleGeneration) as error:
            log.info("job %s does not get its share back yet: %s", unit.job, error)
            return False

    def _write_return(
        self, write: WriteTransaction, unit: RunningShare, snapshot: Snapshot
    ) -> bool:
        change = unit.change
        assert change is not None
        rejection = None
        try:
            self._resize(write, unit, change.asked_milli, change.asked_bytes or 0, snapshot)
        except WrongState:
            raise
        except RequestRejection as error:
            # Raised before anything is written.
            rejection = error
        state = RETURNED if rejection is None else WAITS
        tenant_id, _, _ = unit.owner
        is_waiting = unit.run_is_of_now and unit.run is not None and unit.run.state == WAITS
        if rejection is None or not is_waiting:
            settled = replace(change, state=state)
            _write_run(write, unit, settled)
            data: dict[str, Any] = settled.write_event_data(unit.name)
            if rejection is not None:
                data |= {"reason": rejection.message, "hint": rejection.hint}
            kind = "job.advice-returned" if rejection is None else "job.advice-return-waits"
            write.event(kind, unit.job, tenant_id=tenant_id, data=data)
            write.announce(("job", unit.job))
            self._pause(write, unit.owner, unit.key.pattern, unit.job, write.now_ns + PAUSE_NS)
        return rejection is None

    def pause_after_end(self, ended: EndedShare) -> None:
        """Leave the family of a job alone that ended with too small a share. Idempotent."""
        with self._store.write() as write:
            until_ns = ended.ended_ns + PAUSE_NS
            self._pause(write, ended.owner, ended.key.pattern, ended.job, until_ns)

    @staticmethod
    def _pause(
        write: WriteTransaction, owner: tuple[int, int, int], pattern: str, job: str, until_ns: int
    ) -> None:
        if pause_family(write, owner, pattern, job, until_ns):
            data = {"family": pattern, "until_ns": until_ns}
            write.event("advice.family-paused", job, tenant_id=owner[0], data=data)

    def _resize(
        self,
        write: WriteTransaction,
        unit: RunningShare,
        gpu_milli: int,
        memory_bytes: int,
        snapshot: Snapshot,
    ) -> None:
        headroom = JobResizeHeadroom(snapshot, write.now_ns)
        size = RequestedSize(gpu_milli, memory_bytes)
        result = resize_job(write, self._metering, unit.row_id, size, headroom)
        write.note(partial(self._cache.apply_change, result.granted))


def must_propose(unit: RunningShare, chosen: AdvisedShare) -> bool:
    """Whether a proposal is to be written: it is new, differs by a step, or had lapsed."""
    last = unit.proposal
    return last is None or last.state == LAPSED or differs_by_step(last, chosen)


def differs_by_step(last: AdvisedShare, chosen: AdvisedShare) -> bool:
    """Whether advice differs from what was proposed last by more than it is rounded to."""
    rules = POLICY_RULES
    memory = abs((chosen.memory_bytes or 0) - (last.memory_bytes or 0))
    return abs(chosen.gpu_milli - last.gpu_milli) > rules.step_milli or memory > rules.step_bytes


def _write_run(write: WriteTransaction, unit: RunningShare, share: AdvisedShare) -> None:
    """Write the row of a job, with what was measured of it before this change."""
    mine = use_histograms.c.job_id == unit.row_id
    query = sa.select(use_histograms.c.bins, use_histograms.c.limited_milliseconds).where(mine)
    row = write.execute(query).one_or_none()
    measured_ms, limited_ms = (0, 0) if row is None else read_use(row)
    write.execute(advice_runs.delete().where(advice_runs.c.job_id == unit.row_id))
    write.execute(
        advice_runs.insert(),
        {
            "job_id": unit.row_id,
            "allocation_id": unit.allocation_id,
            "policy": share.policy,
            "state": share.state,
            "asked_milli": share.asked_milli,
            "asked_bytes": share.asked_bytes,
            "gpu_milli": share.gpu_milli,
            "memory_bytes": share.memory_bytes,
            "measured_ms": measured_ms,
            "limited_ms": limited_ms,
            "at_ns": write.now_ns,
        },
    )
