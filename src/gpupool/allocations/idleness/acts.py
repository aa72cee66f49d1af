"""One step of a ladder, and the way back: each is one transaction with its event. Idempotent.

What is written was decided on a look before. Each act reads its unit again and decides again, so a
keep, a stop or a resize between the two wins.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.idleness.events import describe_return, describe_step
from gpupool.allocations.idleness.ladder import IdleAct, IdleStep, decide
from gpupool.allocations.idleness.policy import IdleRule
from gpupool.allocations.idleness.progress import (
    close_spans,
    delete_state,
    open_span,
    record_step,
    sum_dry_milli,
    write_state,
)
from gpupool.allocations.idleness.units import IdleUnit, UnitActivity, read_unit
from gpupool.allocations.lifecycle.resize import RequestedSize, resize_job
from gpupool.allocations.lifecycle.resize_headroom import JobResizeHeadroom
from gpupool.allocations.lifecycle.stop_requests import request_stop
from gpupool.allocations.lifecycle.suspension import suspend_job
from gpupool.allocations.placement.placer import Placer
from gpupool.base.errors import RequestRejection, StaleGeneration, WrongState
from gpupool.metering.service import MeteringService
from gpupool.model.suspension import IDLE_RULE
from gpupool.scheduling import Snapshot
from gpupool.store.database import Store, WriteTransaction

#: Seconds between SIGTERM and SIGKILL of a job that is stopped, to save its work.
STOP_GRACE_SECONDS: Final = 30

log = logging.getLogger(__name__)


class SkippedStep(Exception):
    """A step cannot be taken on this job: the ladder goes on with the next one."""


class IdleActs:
    """Takes steps and brings jobs back. Thread-safe; one thread at a time decides."""

    def __init__(
        self, store: Store, metering: MeteringService, cache: LedgerCache, placer: Placer
    ) -> None:
        self._store = store
        self._metering = metering
        self._cache = cache
        self._placer = placer
        self._verbs: dict[IdleAct, Callable[..., dict[str, Any]]] = {
            IdleAct.WARN: self._warn,
            IdleAct.SHRINK: self._shrink,
            IdleAct.SUSPEND: self._suspend,
            IdleAct.STOP: self._stop,
        }

    def take_step(self, unit: IdleUnit, step: IdleStep, rule: IdleRule, seen: UnitActivity) -> bool:
        """Take a step; return whether it was. One that the job cannot take is recorded as skipped."""
        try:
            return self._write_step(unit, step, rule, seen)
        except (WrongState, StaleGeneration) as error:
            # It is being resized, moved or stopped: the next look decides again.
            log.info("idle job %s: %s waits: %s", unit.job, step.act, error)
            return False
        except (SkippedStep, RequestRejection) as error:
            return self._skip_step(unit, step, rule, seen, str(error).splitlines()[0])

    def _write_step(
        self, unit: IdleUnit, step: IdleStep, rule: IdleRule, seen: UnitActivity
    ) -> bool:
        # Placement pauses, as a shrink changes what cards have free.
        with self._placer.pause_placement() as snapshot, self._store.write(freeing=True) as write:
            known = self._read_due(write, unit, step, rule, seen)
            if known is None:
                return False
            data = describe_step(known, step, rule, seen, write.now_ns)
            if rule.is_dry:
                self._count_dry(write, known, step, seen)
                kind = "job.idle-dry-run"
            else:
                data |= self._verbs[step.act](write, known, step, seen, snapshot)
                kind = EVENT_KINDS[step.act]
            write.event(kind, known.job, tenant_id=known.tenant_id, data=data)
            write.announce(("job", known.job))
        return True

    def _read_due(
        self,
        write: WriteTransaction,
        unit: IdleUnit,
        step: IdleStep,
        rule: IdleRule,
        seen: UnitActivity,
    ) -> IdleUnit | None:
        """Read the unit again; None where the step is not due any more."""
        known = read_unit(write.connection, unit)
        if known is None or known.suspension != unit.suspension:
            return None
        state = known.state
        progress = None if state is None else state.progress
        keep_until_ns = None if state is None else state.keep_until_ns
        due = decide(rule.ladder, seen.last_ns, keep_until_ns, progress, seen.observed_ns)
        return known if due == step else None

    def _skip_step(
        self, unit: IdleUnit, step: IdleStep, rule: IdleRule, seen: UnitActivity, why: str
    ) -> bool:
        with self._store.write(freeing=True) as write:
            known = self._read_due(write, unit, step, rule, seen)
            if known is None:
                return False
            record_step(write, known, step, seen, dry_run=rule.is_dry, skip=why[:400])
            data = {"name": known.name, "act": str(step.act), "reason": why}
            write.event("job.idle-skipped", known.job, tenant_id=known.tenant_id, data=data)
            write.announce(("job", known.job))
        return True

    # --- the steps ------------------------------------------------------------------------

    def _count_dry(
        self, write: WriteTransaction, unit: IdleUnit, step: IdleStep, seen: UnitActivity
    ) -> None:
        held = unit.milli * unit.cards - sum_dry_milli(write.connection, unit.row_id)
        gives = _count_given(unit, step, held)
        if gives > 0:
            open_span(write, unit, step.act, gives, dry_run=True)
        record_step(write, unit, step, seen, dry_run=True)

    def _warn(
        self,
        write: WriteTransaction,
        unit: IdleUnit,
        step: IdleStep,
        seen: UnitActivity,
        _snapshot: Snapshot,
    ) -> dict[str, Any]:
        record_step(write, unit, step, seen, dry_run=False)
        return {}

    def _shrink(
        self,
        write: WriteTransaction,
        unit: IdleUnit,
        step: IdleStep,
        seen: UnitActivity,
        snapshot: Snapshot,
    ) -> dict[str, Any]:
        target = step.gpu_milli or 0
        if unit.is_gang:
            raise SkippedStep("a member of a gang does not shrink: the others wait for it")
        if unit.is_away or unit.milli <= target:
            raise SkippedStep(f"it holds {unit.milli} thousandths of each card already")
        headroom = JobResizeHeadroom(snapshot, write.now_ns)
        size = RequestedSize(target, None)
        result = resize_job(write, self._metering, unit.row_id, size, headroom)
        write.note(partial(self._cache.apply_change, result.granted))
        open_span(write, unit, step.act, (unit.milli - target) * unit.cards, dry_run=False)
        # One that has not grown back yet keeps the size that it had at first.
        state = unit.state
        first = unit.milli if state is None or state.milli_before is None else state.milli_before
        more = {"milli_before": first, "milli_after": target, "wait_ns": None}
        record_step(write, unit, step, seen, dry_run=False, **more)
        return {"gpu_milli": target, "gpu_milli_before": unit.milli}

    def _suspend(
        self,
        write: WriteTransaction,
        unit: IdleUnit,
        step: IdleStep,
        seen: UnitActivity,
        _snapshot: Snapshot,
    ) -> dict[str, Any]:
        if unit.is_gang:
            raise SkippedStep("a gang cannot be suspended")
        if not unit.agrees:
            raise SkippedStep("it was not submitted with --when-idle suspend")
        asked = suspend_job(write, unit.row_id, IDLE_RULE)
        if asked is not None:
            write.note(partial(self._cache.apply_change, asked))
            open_span(write, unit, step.act, unit.milli * unit.cards, dry_run=False)
        record_step(write, unit, step, seen, dry_run=False)
        return {}

    def _stop(
        self,
        write: WriteTransaction,
        unit: IdleUnit,
        step: IdleStep,
        seen: UnitActivity,
        _snapshot: Snapshot,
    ) -> dict[str, Any]:
        gone, asked = request_stop(write, unit.members, "idle", STOP_GRACE_SECONDS)
        write.note(partial(self._cache.dequeue_jobs, gone))
        write.note(partial(self._cache.record_leaving_jobs, asked))
        close_spans(write, unit.row_id)
        open_span(write, unit, step.act, unit.milli * unit.cards, dry_run=False)
        record_step(write, unit, step, seen, dry_run=False)
        return {"jobs": len(unit.members)}

    # --- the way back ---------------------------------------------------------------------

    def bring_back(self, unit: IdleUnit, last_ns: int, *, is_forced: bool = False) -> None:
        """Begin a job's ladder anew after activity, and give it the share that it had. Idempotent.

        Args:
            unit: as a look has seen it.
            last_ns: its activity.
            is_forced: also without activity, because its rule has gone.
        """
        try:
            with self._placer.pause_placement() as snapshot, self._store.write() as write:
                known = read_unit(write.connection, unit)
                state = None if known is None else known.state
                if known is None or state is None:
                    return
                if not (is_forced or state.must_grow or state.progress.has_ended(last_ns)):
                    return
                self._write_return(write, known, last_ns, snapshot)
        except (WrongState, StaleGeneration) as error:
            log.info("idle job %s is not brought back yet: %s", unit.job, error)

    def _write_return(
        self, write: WriteTransaction, unit: IdleUnit, last_ns: int, snapshot: Snapshot
    ) -> None:
        state = unit.state
        assert state is not None
        rejection = self._grow(write, unit, snapshot)
        has_given = state.act in (IdleAct.SHRINK, IdleAct.SUSPEND) and not state.dry_run
        if state.act is not None:
            close_spans(write, unit.row_id)
        if rejection is None:
            delete_state(write, unit.row_id)
            if state.keep_until_ns is not None and state.keep_until_ns > write.now_ns:
                kept = {"since_ns": last_ns, "keep_until_ns": state.keep_until_ns}
                write_state(write, unit.row_id, kept)
            if (has_given and not state.skip) or state.milli_before is not None:
                data = describe_return(unit)
                write.event("job.idle-returned", unit.job, tenant_id=unit.tenant_id, data=data)
        elif state.wait_ns is None:
            waits = {"since_ns": last_ns, "act": None, "wait_ns": write.now_ns}
            write_state(write, unit.row_id, waits)
            data = describe_return(unit) | {"reason": rejection.message, "hint": rejection.hint}
            write.event("job.idle-return-waits", unit.job, tenant_id=unit.tenant_id, data=data)
        elif state.act is not None:
            write_state(write, unit.row_id, {"since_ns": last_ns, "act": None})
        write.announce(("job", unit.job))

    def _grow(
        self, write: WriteTransaction, unit: IdleUnit, snapshot: Snapshot
    ) -> RequestRejection | None:
        """Give a shrunk job its share again; return why it cannot have it now."""
        state = unit.state
        if state is None or state.milli_before is None or unit.is_away:
            return None
        if unit.milli != state.milli_after:
            return None  # its user has resized it since
        headroom = JobResizeHeadroom(snapshot, write.now_ns)
        size = RequestedSize(state.milli_before, None)
        try:
            result = resize_job(write, self._metering, unit.row_id, size, headroom)
        except WrongState:
            raise
        except RequestRejection as error:
            # Raised before anything is written.
            return error
        write.note(partial(self._cache.apply_change, result.granted))
        return None


EVENT_KINDS: Final = {
    IdleAct.WARN: "job.idle-warned",
    IdleAct.SHRINK: "job.idle-shrunk",
    IdleAct.SUSPEND: "job.idle-suspended",
    IdleAct.STOP: "job.idle-stopped",
}


def _count_given(unit: IdleUnit, step: IdleStep, held: int) -> int:
    """Count the compute that a step gives back of what is still held."""
    if step.act is IdleAct.WARN:
        return 0
    if step.act is IdleAct.SHRINK:
        return 0 if unit.is_gang else held - (step.gpu_milli or 0) * unit.cards
    if step.act is IdleAct.SUSPEND and (unit.is_gang or not unit.agrees):
        return 0
    return held
