"""What claims were told of their starts, kept over restarts: the promises that stand, and how many words came true.

A row for each promise and each estimate, from its first word until its claim starts or its instant has passed; one for
each sort of words, counted up in the transaction that deletes the row. So each word counts once, whenever the process
dies. New words and broken promises are written at once. An estimate whose instant has passed is counted with the next
write: until then its row stands, and a restart finds it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.tables import estimates, promises
from gpupool.metering.tables import add_rows, start_tallies
from gpupool.scheduling.foretold import PROMISE, Ended, Foretold, Tally, Told
from gpupool.scheduling.snapshot import LEEWAY_NS, Plan, Start
from gpupool.store.database import Write

_Key = tuple[str, str]
"""A claim, and the sort of what it was told."""


class ToldStarts:
    """Used by one thread at a time, as plans are."""

    def __init__(self) -> None:
        self.book = Foretold(leeway_ns=LEEWAY_NS)
        self._new: dict[str, tuple[Told, Start]] = {}
        self._estimates: dict[_Key, Told] = {}
        """Those that are not written yet."""
        self._ended: list[Ended] = []
        self._rows = set[str]()
        """Claims whose promise is written."""
        self._written = set[_Key]()
        """Estimates that are."""

    def load(self, connection: sa.Connection, waits: Callable[[str], bool]) -> list[Start]:
        """Begin with what was written; the promises of claims that still wait."""
        counted = connection.execute(sa.select(start_tallies)).all()
        self.book = Foretold({row.sort: Tally.of(row.kept, row.missed) for row in counted}, LEEWAY_NS)
        rows = connection.execute(sa.select(promises).order_by(promises.c.claim)).all()
        standing = [row for row in rows if waits(row.claim)]
        self._new, self._ended, self._rows = {}, [], {row.claim for row in rows}
        self.book.remember(Told(row.at_ns, row.claim, PROMISE, None) for row in standing)
        guesses = connection.execute(sa.select(estimates).order_by(estimates.c.claim, estimates.c.sort)).all()
        self._estimates, self._written = {}, {(row.claim, row.sort) for row in guesses}
        open_ = [row for row in guesses if waits(row.claim)]
        self.book.remember(Told(row.at_ns, row.claim, row.sort, row.chance_pct) for row in open_)
        return [_start(row.kept) for row in standing]

    def tallies(self) -> dict[str, Tally]:
        """How often starts that were told came true, for whoever counts on with a copy; from any thread."""
        return {sort: replace(tally) for sort, tally in self.book.tallies.copy().items()}

    def note(self, plan: Plan, now_ns: int, waits: Callable[[str], bool]) -> None:
        """The plan is the last one from now on."""
        self._ended += self.book.passed(now_ns, waits)  # first: what is told next is told with it
        firm = {start.claim: start for start in plan.starts.values() if start.firm}
        for told in self.book.plan(plan.starts, now_ns):
            if told.sort == PROMISE:
                self._new[told.claim] = told, firm[told.claim]
            else:
                self._estimates[told.claim, told.sort] = told

    @property
    def is_urgent(self) -> bool:
        """Whether something is to be written that waits for no placement."""
        new = self._new or self._estimates
        return bool(new) or any(one.told.sort == PROMISE for one in self._ended)

    def save(self, write: Write, started: Collection[str] = ()) -> None:
        """Write what is new; these jobs and gangs start in the same transaction."""
        ended = [*self._ended, *(one for claim in started for one in self.book.words_of(claim, write.now_ns))]
        tallies = Counter((one.told.sort, one.kept) for one in ended)
        sorts = sorted({sort for sort, _ in tallies})
        counted = [{"sort": sort, "kept": tallies[sort, True], "missed": tallies[sort, False]} for sort in sorts]
        add_rows(write.connection, start_tallies, counted)
        new = {claim: one for claim, one in self._new.items() if claim not in started}
        over = {claim for claim in self._rows if claim in started or not self.book.stands(claim)}
        if over or new:
            write.execute(sa.delete(promises).where(promises.c.claim.in_(sorted(over | set(new)))))
        for claim, (told, start) in new.items():
            write.execute(sa.insert(promises).values(claim=claim, at_ns=told.at_ns, kept=asdict(start)))
        rows = (self._rows - over) | set(new)
        written = self._save_estimates(write, started)
        write.note(partial(self._saved, tuple(started), write.now_ns, len(self._ended), rows, written))

    def _save_estimates(self, write: Write, started: Collection[str]) -> set[_Key]:
        """Those that are written from then on."""

        def stands(key: _Key) -> bool:
            return key[0] not in started and self.book.is_open(*key)

        new = {key: told for key, told in self._estimates.items() if stands(key)}
        # One that has passed may have been followed by another of its sort before anything was written.
        over = sorted(key for key in self._written if key in new or not stands(key))
        if over:
            gone = estimates.c.claim == sa.bindparam("gone"), estimates.c.sort == sa.bindparam("of_sort")
            write.execute(sa.delete(estimates).where(*gone), [{"gone": claim, "of_sort": sort} for claim, sort in over])
        if new:
            write.execute(sa.insert(estimates), [told._asdict() for told in new.values()])
        return (self._written - set(over)) | set(new)

    def _saved(self, started: Iterable[str], now_ns: int, ended: int, rows: set[str], written: set[_Key]) -> None:
        for claim in started:
            self.book.started(claim, now_ns)
        self._ended, self._rows, self._new = self._ended[ended:], rows, {}
        self._written, self._estimates = written, {}


def _start(kept: Mapping[str, Any]) -> Start:
    hosts = tuple((str(node), int(cpu), int(size)) for node, cpu, size in kept["hosts"])
    columns = {name: tuple(kept[name]) for name in ("rows", "milli", "sizes", "devices")}
    return Start(at_ns=kept["at_ns"], reserved=True, claim=kept["claim"], firm=True, hosts=hosts, **columns)
