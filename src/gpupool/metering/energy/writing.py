"""Write measured energy into its slots, and widen old slots to hours and days.

Idempotent: a batch has a name, and the same batch changes nothing the second time.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.fleet.tables import device_spans, devices
from gpupool.metering.books import DAY_S, HOUR_S, REMAINDER_OF
from gpupool.metering.energy.division import EnergyPart, HeldShare, PowerSpan, cut_span, divide_span
from gpupool.metering.energy.meter import LATE_S, EnergyMeter, SpanBatch, index_by_card
from gpupool.metering.energy.tables import energy_factors, energy_marks, energy_slots
from gpupool.metering.samples import SLOT_S
from gpupool.metering.tables import add_rows, insert_or_add, intervals, jobs_view
from gpupool.store.database import Store, WriteTransaction

#: Millijoules of one milliwatt-hour.
MILLIJOULES: Final = 3600
#: Days longer than hours of the books stay: a month that is not sealed yet is read by the hour.
_HOURS_KEPT_MORE_S: Final = 65 * DAY_S
#: Ids in one `IN (...)`: SQLite takes 32,766 variables in a statement.
_IDS_AT_ONCE: Final = 5000


class EnergyOwner(NamedTuple):
    """Whose energy it is; ids are 0 where no share held it."""

    kind: str
    tenant_id: int = 0
    project_id: int = 0
    user_id: int = 0


class SlotKey(NamedTuple):
    """The key of a slot of 300 s."""

    slot_s: int
    owner: EnergyOwner
    model: str


class _CardHistory(NamedTuple):
    """What the books say of one card around a batch."""

    model: str
    kinds: Sequence[tuple[int, int | None, str]]
    shares: Sequence[HeldShare[EnergyOwner]]


class EnergyWriter:
    """Writes what an `EnergyMeter` has. Thread-safe.

    Less than a milliwatt-hour of an owner waits in memory for the rest of it.
    """

    def __init__(self, store: Store, meter: EnergyMeter) -> None:
        self._store = store
        self._meter = meter
        self._writing = threading.Lock()
        self._rests: dict[tuple[EnergyOwner, str], int] = {}
        self._joules: Counter[tuple[str, int]] = Counter()

    def write_due(self) -> None:
        """Write what is due. Another thread that writes already is left to it."""
        if not self._writing.acquire(blocking=False):
            return
        try:
            batch = self._meter.take_batch(self._store.clock.now_ns())
            if batch is not None:
                self._write(batch)
        finally:
            self._writing.release()

    def get_millijoules(self) -> Mapping[tuple[str, int], int]:
        """Return what was measured since this server began, by kind and tenant id."""
        return dict(self._joules)

    def _write(self, batch: SpanBatch) -> None:
        # Divided before the write: with a thousand cards it takes longer than others should wait.
        # The intervals of a span that is over change no more.
        with self._store.read() as connection:
            parts = divide_batch(connection, batch.spans, self._store.clock.now_ns())
        rows, rests = make_rows(parts, self._rests)
        with self._store.write() as write:
            if _mark_batch(write, batch.name):
                add_rows(write.connection, energy_slots, rows)
        self._rests = rests
        joules = self._joules.copy()
        for key, part in parts.items():
            joules[key.owner.kind, key.owner.tenant_id] += part.millijoules
        self._joules = joules
        self._meter.drop_batch(batch)


def make_rows(
    parts: Mapping[SlotKey, EnergyPart], rests: Mapping[tuple[EnergyOwner, str], int]
) -> tuple[list[dict[str, Any]], dict[tuple[EnergyOwner, str], int]]:
    """Make rows of whole milliwatt-hours, and the millijoules of each owner that are less."""
    left = dict(rests)
    rows = []
    for key in sorted(parts):
        part = parts[key]
        whole, rest = divmod(part.millijoules + left.get((key.owner, key.model), 0), MILLIJOULES)
        left[key.owner, key.model] = rest
        rows.append(
            {
                "width_s": SLOT_S,
                "slot_s": key.slot_s,
                **key.owner._asdict(),
                "model": key.model,
                "milliwatt_hours": whole,
                "measured_milliseconds": part.measured_milliseconds,
            }
        )
    return rows, left


def divide_batch(
    connection: sa.Connection, spans: Collection[PowerSpan], now_ns: int
) -> dict[SlotKey, EnergyPart]:
    """Divide spans by what the books say of their cards; a card that no book knows is left out."""
    oldest_ns = now_ns - LATE_S * NANOS_PER_SECOND
    by_card = index_by_card(span for span in spans if span.end_ns > oldest_ns)
    parts: dict[SlotKey, EnergyPart] = defaultdict(EnergyPart)
    histories = _read_histories(connection, by_card)
    for device_id, mine in by_card.items():
        history = histories.get(device_id)
        if history is None:
            continue
        for span in mine:
            for piece in cut_span(span, SLOT_S):
                _add_piece(parts, piece, history)
    return dict(parts)


def _add_piece(parts: dict[SlotKey, EnergyPart], piece: PowerSpan, history: _CardHistory) -> None:
    kind = _find_kind(history.kinds, piece.start_ns // NANOS_PER_SECOND)
    if kind is None:
        return
    start_s = piece.start_ns // NANOS_PER_SECOND
    slot_s = start_s - start_s % SLOT_S
    owned, left = divide_span(piece, history.shares)
    # What is left is a row also where it is 0: that nothing was idle is an answer.
    found = [(EnergyOwner(kind), left)]
    # A share without a promise, whose use is unknown, has no part: its energy is unknown.
    found += [(owner, part) for owner, part in owned.items() if part != EnergyPart()]
    for owner, part in found:
        key = SlotKey(slot_s, owner, history.model)
        parts[key] = parts[key].plus(part)


def _find_kind(kinds: Iterable[tuple[int, int | None, str]], second: int) -> str | None:
    found = None
    for start_s, end_s, kind in kinds:
        if start_s <= second and (end_s is None or second < end_s):
            found = kind
    return found


def _read_histories(
    connection: sa.Connection, by_card: Mapping[int, Sequence[PowerSpan]]
) -> dict[int, _CardHistory]:
    """Read model, kinds and shares of cards, as far as their spans reach."""
    found: dict[int, _CardHistory] = {}
    ids = sorted(by_card)
    for start in range(0, len(ids), _IDS_AT_ONCE):
        chunk = ids[start : start + _IDS_AT_ONCE]
        since_s = min(by_card[device_id][0].start_ns for device_id in chunk) // NANOS_PER_SECOND
        models = connection.execute(
            sa.select(devices.c.id, devices.c.model).where(devices.c.id.in_(chunk))
        ).all()
        kinds = _read_kinds(connection, chunk, since_s)
        shares = _read_shares(connection, chunk, since_s)
        for row in models:
            found[row.id] = _CardHistory(row.model, kinds.get(row.id, ()), shares.get(row.id, ()))
    return found


def _read_kinds(
    connection: sa.Connection, ids: Sequence[int], since_s: int
) -> dict[int, list[tuple[int, int | None, str]]]:
    s = device_spans.c
    query = sa.select(s.device_id, s.kind, s.start_s, s.end_s).where(
        s.device_id.in_(ids), sa.or_(s.end_s.is_(None), s.end_s >= since_s)
    )
    found: dict[int, list[tuple[int, int | None, str]]] = defaultdict(list)
    for row in connection.execute(query.order_by(s.start_s)):
        found[row.device_id].append((row.start_s, row.end_s, REMAINDER_OF[row.kind]))
    return found


def _read_shares(
    connection: sa.Connection, ids: Sequence[int], since_s: int
) -> dict[int, list[HeldShare[EnergyOwner]]]:
    i = intervals.c
    query = (
        sa.select(
            i.device_id,
            i.tenant_id,
            i.project_id,
            i.user_id,
            i.job_id,
            i.gpu_milli,
            i.start_s,
            i.end_s,
            jobs_view.c.public_id,
        )
        .outerjoin_from(intervals, jobs_view, jobs_view.c.id == i.job_id)
        .where(i.device_id.in_(ids), sa.or_(i.end_s.is_(None), i.end_s >= since_s))
    )
    found: dict[int, list[HeldShare[EnergyOwner]]] = defaultdict(list)
    for row in connection.execute(query):
        owner = EnergyOwner("tenant", row.tenant_id, row.project_id, row.user_id)
        # Pods have no job in the ledger; their number tells their shares apart.
        job = row.public_id or str(row.job_id)
        end_ns = None if row.end_s is None else row.end_s * NANOS_PER_SECOND
        share = HeldShare(owner, job, row.gpu_milli, row.start_s * NANOS_PER_SECOND, end_ns)
        found[row.device_id].append(share)
    return found


def _mark_batch(write: WriteTransaction, batch: str) -> bool:
    """Note that a batch is written; False if it was already, by a commit without an answer."""
    last = write.execute(sa.select(energy_marks.c.batch)).scalar_one_or_none()
    if last == batch:
        return False
    write.execute(energy_marks.delete())
    write.execute(energy_marks.insert().values(id=1, batch=batch))
    return True


def fold_energy(write: WriteTransaction, fine_s: int, coarse_s: int) -> bool:
    """Widen the oldest slots to hours, and hours to days; False without any."""
    if _widen(write, SLOT_S, HOUR_S, fine_s, ()):
        return True
    # Hours of a day in which a factor begins stay: a day has one factor.
    begins = write.execute(sa.select(energy_factors.c.from_s)).scalars().all()
    days = sorted({second - second % DAY_S for second in begins if second % DAY_S})
    return _widen(write, HOUR_S, DAY_S, coarse_s - _HOURS_KEPT_MORE_S, days)


def _widen(
    write: WriteTransaction, width_s: int, wider_s: int, before_s: int, but: Sequence[int]
) -> bool:
    e = energy_slots.c
    wider = e.slot_s - e.slot_s % sa.literal_column(str(wider_s))
    old = sa.and_(e.width_s == width_s, e.slot_s < before_s - before_s % wider_s)
    if but:
        old = sa.and_(old, wider.not_in(list(but)))
    first = write.execute(sa.select(sa.func.min(e.slot_s)).where(old)).scalar_one()
    if first is None:
        return False
    start_s = first - first % wider_s
    these = sa.and_(e.width_s == width_s, e.slot_s >= start_s, e.slot_s < start_s + wider_s)
    keys = [e.kind, e.tenant_id, e.project_id, e.user_id, e.model]
    sums = [e.milliwatt_hours, e.measured_milliseconds]
    moved = (
        sa.select(
            sa.literal(wider_s, sa.Integer),
            sa.literal(start_s, sa.BigInteger),
            *keys,
            *(sa.cast(sa.func.sum(column), sa.BigInteger) for column in sums),
        )
        .where(these)
        .group_by(*keys)
    )
    names = [column.name for column in energy_slots.c]
    write.execute(insert_or_add(write.connection, energy_slots).from_select(names, moved))
    write.execute(energy_slots.delete().where(these))
    return True
