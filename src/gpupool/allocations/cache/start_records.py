"""Stores promised and estimated starts over restarts, and counts how many of them came true.

A promise or an estimate has a row from its first statement until its claim starts or its instant
has passed. The transaction that deletes the row adds to the tally of its sort, so each statement
counts once, whenever the process dies. New statements and broken promises are written at once. An
estimate whose instant has passed is counted with the next write: until then its row stands, and a
restart finds it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.cache.start_moves import StartMoves, StartNotice, write_moves
from gpupool.allocations.store.hold_tables import broken_promises, estimates, promises
from gpupool.metering.tables import add_rows, start_tallies
from gpupool.scheduling import (
    LEEWAY_NS,
    PROMISE,
    ForecastOutcome,
    ForecastTally,
    Plan,
    PlannedStart,
    StartForecast,
    StartForecasts,
)
from gpupool.store.database import WriteTransaction

#: A claim, and the sort of a statement about its start.
_Key = tuple[str, str]

_DELETE_ESTIMATE = estimates.delete().where(
    estimates.c.claim == sa.bindparam("gone"), estimates.c.sort == sa.bindparam("of_sort")
)


class StartRecords:
    """Statements about starts, in memory and in the ledger. For one thread at a time, as plans."""

    def __init__(self) -> None:
        self.book = StartForecasts(leeway_ns=LEEWAY_NS)
        #: Promises that are not written yet, by claim.
        self._new: dict[str, tuple[StartForecast, PlannedStart]] = {}
        #: Estimates that are not written yet.
        self._estimates: dict[_Key, StartForecast] = {}
        #: Outcomes that are not counted in the ledger yet.
        self._ended: list[ForecastOutcome] = []
        #: Claims whose promise is written.
        self._rows = set[str]()
        #: Estimates that are written.
        self._written = set[_Key]()
        self._moves = StartMoves()
        self._waits: Callable[[str], bool] = _waits_never

    def load_records(
        self, connection: sa.Connection, waits: Callable[[str], bool]
    ) -> list[PlannedStart]:
        """Replace everything by what is written.

        Args:
            connection: A read transaction.
            waits: Whether a claim still waits.

        Returns:
            The promises of claims that still wait.
        """
        tallies = dict[str, ForecastTally]()
        for row in connection.execute(sa.select(start_tallies)):
            tallies[row.sort] = ForecastTally.from_totals(row.kept, row.missed)
        self.book = StartForecasts(tallies, LEEWAY_NS)
        self._new = {}
        self._estimates = {}
        self._ended = []
        self._rows = set()
        self._written = set()
        starts = list[PlannedStart]()
        forecasts = list[StartForecast]()
        notices = dict[str, StartNotice]()
        # The row of a claim that no longer waits stays known, so that the next write deletes it.
        for row in connection.execute(sa.select(promises).order_by(promises.c.claim)):
            self._rows.add(row.claim)
            notices[row.claim] = StartNotice(row.notice_ns or row.at_ns, row.moved_ns)
            if waits(row.claim):
                forecasts.append(StartForecast(row.at_ns, row.claim, PROMISE, None))
                starts.append(_decode_start(row.kept))
        by_claim = sa.select(estimates).order_by(estimates.c.claim, estimates.c.sort)
        for row in connection.execute(by_claim):
            self._written.add((row.claim, row.sort))
            if waits(row.claim):
                forecasts.append(StartForecast(row.at_ns, row.claim, row.sort, row.chance_pct))
        self.book.restore_forecasts(forecasts)
        broken = dict[str, StartNotice]()
        for row in connection.execute(sa.select(broken_promises)):
            broken[row.claim] = StartNotice(row.notice_ns, row.moved_ns)
        self._moves.restore(notices, broken)
        self._waits = waits
        return starts

    def copy_tallies(self) -> dict[str, ForecastTally]:
        """Copy the counts of starts that came true, for a forecast. From any thread."""
        return {sort: replace(tally) for sort, tally in self.book.tallies.copy().items()}

    def record_plan(self, plan: Plan, now_ns: int, waits: Callable[[str], bool]) -> None:
        """Take in the starts of a plan, which is the last one from now on."""
        self._waits = waits
        # First, because the chance of a new estimate counts the outcomes until now.
        self._ended += self.book.settle_passed(now_ns, waits)
        firm = {start.claim: start for start in plan.starts.values() if start.firm}
        for forecast in self.book.record_plan(plan.starts, now_ns):
            if forecast.sort == PROMISE:
                self._new[forecast.claim] = forecast, firm[forecast.claim]
            else:
                self._estimates[forecast.claim, forecast.sort] = forecast
        self._moves.note_plan({claim: start.at_ns for claim, start in firm.items()}, now_ns)

    @property
    def is_urgent(self) -> bool:
        """Whether something is to be written that waits for no placement."""
        # An ended estimate may wait: its row stands until it is counted.
        if self._new or self._estimates or self._moves.is_urgent:
            return True
        return any(outcome.told.sort == PROMISE for outcome in self._ended)

    def save_changes(self, write: WriteTransaction, started: Collection[str] = ()) -> None:
        """Write what is new and count what has ended.

        Args:
            write: The transaction; the caller commits it.
            started: Jobs and gangs that start in this transaction.
        """
        # Previewed and not recorded: the transaction may still fail, and is then tried again.
        ended = list(self._ended)
        for claim in started:
            ended += self.book.preview_outcomes(claim, write.now_ns)
        _add_tallies(write, ended)
        new = {claim: one for claim, one in self._new.items() if claim not in started}
        over = set[str]()
        for claim in self._rows:
            if claim in started or not self.book.has_open_promise(claim):
                over.add(claim)
        if over or new:
            # Also of new ones: a claim whose promise was broken may have got another.
            write.execute(sa.delete(promises).where(promises.c.claim.in_(sorted(over | set(new)))))
        rows = (self._rows - over) | set(new)
        at_ns = {claim: forecast.at_ns for claim, (forecast, _) in new.items()}
        notices, moves = self._moves.judge(rows, at_ns, write.now_ns)
        for claim, (forecast, start) in new.items():
            values = {"claim": claim, "at_ns": forecast.at_ns, "kept": asdict(start)}
            write.execute(sa.insert(promises).values(**values, **_build_notice(notices[claim])))
        for move in moves:
            mine = promises.c.claim == move.claim
            write.execute(
                sa.update(promises).where(mine).values(**_build_notice(notices[move.claim]))
            )
        write_moves(write, moves)
        broken = self._list_broken(rows, started)
        self._moves.write_broken(write, broken)
        written = self._save_estimates(write, started)
        # Memory follows only after the commit: with a failed one nothing was written or counted.
        counted = len(self._ended)
        write.note(
            partial(self._confirm_save, tuple(started), write.now_ns, counted, rows, written)
        )
        write.note(partial(self._moves.confirm, notices, broken))

    def _list_broken(
        self, standing: Collection[str], started: Collection[str]
    ) -> dict[str, StartNotice]:
        """Return the last notices of claims that wait and whose promise was broken."""
        over = set[str]()
        for outcome in self._ended:
            if outcome.told.sort == PROMISE and not outcome.kept:
                over.add(outcome.told.claim)

        def waits(claim: str) -> bool:
            return claim not in standing and claim not in started and self._waits(claim)

        return self._moves.list_broken(sorted(over), waits)

    def _save_estimates(self, write: WriteTransaction, started: Collection[str]) -> set[_Key]:
        """Write the estimates that stand; return the keys of all that are written then."""
        new = dict[_Key, StartForecast]()
        for key, forecast in self._estimates.items():
            if self._is_open(key, started):
                new[key] = forecast
        # Another estimate of the same sort may have replaced a written one that has passed.
        over = list[_Key]()
        for key in sorted(self._written):
            if key in new or not self._is_open(key, started):
                over.append(key)
        if over:
            keys = [{"gone": claim, "of_sort": sort} for claim, sort in over]
            write.execute(_DELETE_ESTIMATE, keys)
        if new:
            write.execute(sa.insert(estimates), [forecast._asdict() for forecast in new.values()])
        return self._written.difference(over).union(new)

    def _is_open(self, key: _Key, started: Collection[str]) -> bool:
        return key[0] not in started and self.book.has_open(*key)

    def _confirm_save(
        self, started: Iterable[str], now_ns: int, ended: int, rows: set[str], written: set[_Key]
    ) -> None:
        for claim in started:
            self.book.record_start(claim, now_ns)
        self._ended = self._ended[ended:]
        self._rows = rows
        self._new = {}
        self._written = written
        self._estimates = {}


def _waits_never(_claim: str) -> bool:
    return False


def _build_notice(notice: StartNotice) -> dict[str, int | None]:
    return {"notice_ns": notice.at_ns, "moved_ns": notice.moved_ns}


def _add_tallies(write: WriteTransaction, ended: Iterable[ForecastOutcome]) -> None:
    counts = Counter((outcome.told.sort, outcome.kept) for outcome in ended)
    rows = list[dict[str, Any]]()
    # In one order for every writer, so that equal ledgers have equal rows.
    for sort in sorted({sort for sort, _ in counts}):
        rows.append({"sort": sort, "kept": counts[sort, True], "missed": counts[sort, False]})
    add_rows(write.connection, start_tallies, rows)


def _decode_start(kept: Mapping[str, Any]) -> PlannedStart:
    hosts = tuple((str(node), int(cpu), int(size)) for node, cpu, size in kept["hosts"])
    columns = {name: tuple(kept[name]) for name in ("rows", "milli", "sizes", "devices")}
    return PlannedStart(
        at_ns=kept["at_ns"], reserved=True, claim=kept["claim"], firm=True, hosts=hosts, **columns
    )
