"""A lease in a row of its own: which of several servers on one PostgreSQL database leads.

The database's clock decides when a lease has expired; the leader measures its own end from before
each renewal, so it stops answering before another may begin. Taking the lease and becoming the
pool's only writer is one transaction. Must not import the server or the host. Decision 0023.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from gpupool.base.errors import ExpiredLease, LostLeadership, PoolHeldElsewhere, StandbyServer
from gpupool.store.tables import leader

#: Seconds that a lease holds without a renewal, and between two renewals. Decision 0024 has the
#: delays of renewals.
LEASE_SECONDS: Final = 2.0
RENEW_SECONDS: Final = 0.5
#: Seconds by which the leader ends its own lease earlier: more than two clocks drift apart in a
#: lease.
MARGIN_SECONDS: Final = 0.2
#: Seconds after which PostgreSQL ends a takeover whose server stopped in its middle, and gives its
#: locks back.
_TAKEOVER_SECONDS: Final = 2
_NAME: Final = "gpupool "

_NOW_US = sa.cast(sa.func.extract("epoch", sa.func.clock_timestamp()) * 1_000_000, sa.BigInteger)
_LOOK = sa.select(leader, (leader.c.expires_us - _NOW_US).label("left_us"))


def seconds_since_boot() -> float:
    """Read a clock that goes on while the machine is suspended, unlike time.monotonic()."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def session_name(holder: str) -> str:
    """Return `application_name` of a server's sessions, by which its successor ends them."""
    return _NAME + holder


@dataclass(frozen=True)
class LeaderRecord:
    """What the database says of the server that leads or led last."""

    holder: str
    instance: str
    number: int
    address: str
    #: Of its lease, by the database's clock; 0 or less: expired.
    left_seconds: float


def find_leader(connection: sa.Connection) -> LeaderRecord | None:
    """Return the leader that the database names; None if there never was one.

    Also None for a database that is not prepared.
    """
    if connection.dialect.name != "postgresql" or not sa.inspect(connection).has_table(leader.name):
        return None
    return read_leader(connection)


def read_leader(connection: sa.Connection) -> LeaderRecord | None:
    """Read the leader by one statement, in a database that is known to be prepared."""
    row = connection.execute(_LOOK).one_or_none()
    return None if row is None else _make_record(row)


def _make_record(row: sa.Row[tuple[object, ...]]) -> LeaderRecord:
    found = row._mapping
    left = found["left_us"] / 1e6
    return LeaderRecord(found["holder"], found["instance"], found["number"], found["address"], left)


class LeaderLease:
    """One server's claim to lead.

    Thread-safe: what is asked for each answer is one attribute and one clock.
    """

    def __init__(
        self,
        holder: str,
        instance: str,
        address: str,
        *,
        clock: Callable[[], float] = seconds_since_boot,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        self.holder = holder
        self.instance = instance
        self.address = address
        self.number = 0
        self._clock = clock
        self._lease_seconds = lease_seconds
        self._renewed: float | None = None
        self._deposed = False
        self.longest_gap_seconds = 0.0
        """The longest time between two renewals so far, each as of before it was sent."""

    def claim(self, connection: sa.Connection) -> None:
        """Take the lease in an open transaction, before the pool's row.

        A state directory is held by one process at a time, so a lease of our own instance is that
        of a dead one. Raises PoolHeldElsewhere while another leads.
        """
        # Before the statement is sent: our own end of the lease is never later than the database's.
        began = self._clock()
        connection.exec_driver_sql(
            f"SET LOCAL idle_in_transaction_session_timeout = '{_TAKEOVER_SECONDS}s'"
        )
        row = connection.execute(_LOOK.with_for_update()).one_or_none()
        before = None if row is None else _make_record(row)
        if before is not None and before.left_seconds > 0 and before.instance != self.instance:
            raise describe_leader(before)
        self.number = 1 if before is None else before.number + 1
        values = {
            "holder": self.holder,
            "instance": self.instance,
            "number": self.number,
            "address": self.address,
            "expires_us": self._expiry_column(),
        }
        if before is None:
            connection.execute(leader.insert().values(id=1, **values))
        else:
            connection.execute(leader.update().values(values))
            # One that is stopped or cut off in the middle of a write holds the pool's row until its
            # session ends.
            _end_sessions(connection, before.holder)
        self._renewed = began

    def renew(self, connection: sa.Connection) -> None:
        """Hold the lease for another term.

        One statement, so that no lock outlives a server that stops in it. Raises LostLeadership
        once another has taken it; from then on `check` refuses for good.
        """
        began = self._clock()
        mine = sa.and_(leader.c.holder == self.holder, leader.c.number == self.number)
        if (
            connection.execute(
                leader.update().where(mine).values(expires_us=self._expiry_column())
            ).rowcount
            == 0
        ):
            self._deposed = True
            raise LostLeadership(
                "another server has taken this pool", hint="gpupool doctor  tells which one leads"
            )
        if self._renewed is not None:
            self.longest_gap_seconds = max(self.longest_gap_seconds, began - self._renewed)
        self._renewed = began

    def give_up(self, connection: sa.Connection) -> None:
        """End the lease at once, so that a standby need not wait; nothing where another has it."""
        self._deposed = True
        mine = sa.and_(leader.c.holder == self.holder, leader.c.number == self.number)
        connection.execute(leader.update().where(mine).values(expires_us=0))

    def age_seconds(self) -> float | None:
        """Return the seconds since the last renewal; None before the first."""
        return None if self._renewed is None else self._clock() - self._renewed

    def holds(self) -> bool:
        """Return whether no other server can lead now, by our own clock."""
        age = self.age_seconds()
        return not self._deposed and age is not None and age < self._lease_seconds - MARGIN_SECONDS

    def check_begin(self) -> None:
        """Raise StandbyServer where a request must not be begun here."""
        if not self.holds():
            raise StandbyServer(
                f"this server does not lead now: {self._describe_lapse()}; nothing was done",
                hint=_ELSEWHERE,
            )

    def check_answer(self) -> None:
        """Raise ExpiredLease where an answer may be out of date.

        Another server may have written.
        """
        if not self.holds():
            raise ExpiredLease(
                f"{self._describe_lapse()} before this request was answered; it may have been "
                "carried out",
                hint=_ELSEWHERE,
            )

    def _describe_lapse(self) -> str:
        age = self.age_seconds()
        if self._deposed or age is None:
            return "its lease has been given to another"
        return f"its lease of {self._lease_seconds:g} s was renewed {age:.1f} s ago"

    def _expiry_column(self) -> sa.ColumnElement[int]:
        return _NOW_US + int(self._lease_seconds * 1e6)


_ELSEWHERE: Final = (
    "ask again; clients that are given every server's address find the leader themselves"
)


def describe_leader(found: LeaderRecord) -> PoolHeldElsewhere:
    return PoolHeldElsewhere(
        f"another server holds this database: {found.address} leads for "
        f"{max(0.0, found.left_seconds):.1f} s more",
        hint="gpupool up --standby  waits to take over;  gpupool down  at that server stops it",
        leader=found.address,
    )


def _end_sessions(connection: sa.Connection, holder: str) -> None:
    """End what is open of a server that leads no longer: transactions roll back, locks are free."""
    sessions = sa.table(
        "pg_stat_activity", sa.column("pid"), sa.column("datname"), sa.column("application_name")
    )
    its = sa.and_(
        sessions.c.datname == sa.func.current_database(),
        sessions.c.application_name == session_name(holder),
        sessions.c.pid != sa.func.pg_backend_pid(),
    )
    connection.execute(sa.select(sa.func.pg_terminate_backend(sessions.c.pid)).where(its)).all()
