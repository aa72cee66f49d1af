"""What claims were told of their starts, kept over restarts: the promises that stand, and how many words came true.

A row for each promise, from its first word until its claim starts; one for each sort of words, counted up in the
transaction that places the claim. What a plan finds out besides is written with the next placement; a new promise
and a broken one are written at once. Estimates that stand are not written: after a restart nothing comes of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.tables import promises
from gpupool.metering.tables import add_rows, start_tallies
from gpupool.scheduling.foretold import FADES, PROMISE, Ended, Foretold, Tally, Told
from gpupool.scheduling.snapshot import LEEWAY_NS, Plan, Start
from gpupool.store.database import Write


class ToldStarts:
    """Used by one thread at a time, as plans are."""

    def __init__(self) -> None:
        self.book = Foretold(leeway_ns=LEEWAY_NS)
        self._new: dict[str, tuple[Told, Start]] = {}
        self._ended: list[Ended] = []
        self._rows = set[str]()
        """Claims whose promise is written."""

    def load(self, connection: sa.Connection, waits: Callable[[str], bool]) -> list[Start]:
        """Begin with what was written; the promises of claims that still wait."""
        counted = connection.execute(sa.select(start_tallies)).all()
        self.book = Foretold({row.sort: _tally(row.kept, row.missed) for row in counted}, LEEWAY_NS)
        rows = connection.execute(sa.select(promises).order_by(promises.c.claim)).all()
        standing = [row for row in rows if waits(row.claim)]
        self._new, self._ended, self._rows = {}, [], {row.claim for row in rows}
        self.book.remember(Told(row.at_ns, row.claim, PROMISE, None) for row in standing)
        return [_start(row.kept) for row in standing]

    def note(self, plan: Plan, now_ns: int, waits: Callable[[str], bool]) -> None:
        """The plan is the last one from now on."""
        firm = {start.claim: start for start in plan.starts.values() if start.firm}
        for told in self.book.plan(plan.starts, now_ns):
            if told.sort == PROMISE:
                self._new[told.claim] = told, firm[told.claim]
        self._ended += self.book.passed(now_ns, waits)

    @property
    def is_urgent(self) -> bool:
        """Whether something is to be written that waits for no placement."""
        return bool(self._new) or any(one.told.sort == PROMISE for one in self._ended)

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
        write.note(partial(self._saved, tuple(started), write.now_ns, len(self._ended), rows))

    def _saved(self, started: Iterable[str], now_ns: int, ended: int, rows: set[str]) -> None:
        for claim in started:
            self.book.started(claim, now_ns)
        self._ended, self._rows, self._new = self._ended[ended:], rows, {}


def _tally(kept: int, missed: int) -> Tally:
    """With as much of the past as counts."""
    part = min(1.0, FADES / max(1, kept + missed))
    return Tally(kept, missed, round(kept * part), round(missed * part))


def _start(kept: Mapping[str, Any]) -> Start:
    hosts = tuple((str(node), int(cpu), int(size)) for node, cpu, size in kept["hosts"])
    columns = {name: tuple(kept[name]) for name in ("rows", "milli", "sizes", "devices")}
    return Start(at_ns=kept["at_ns"], reserved=True, claim=kept["claim"], firm=True, hosts=hosts, **columns)
