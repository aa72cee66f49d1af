"""Does to leavers' jobs what was chosen: a row for each leaver, and a thread that works them off.

The row commits with the disabling of its user. What follows is idempotent, so a crash between two
steps, or in the middle of one, loses nothing: the next look goes on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Hashable
from functools import partial
from typing import Any, Final

import sqlalchemy as sa

from gpupool.allocations.handover.leaver_rows import (
    LEAVER,
    TOPIC,
    close_leaver,
    count_handed,
    forget_former_users,
    note_leaver,
)
from gpupool.allocations.handover.policies import check_choice, find_policy
from gpupool.allocations.handover.service import (
    HandoverService,
    check_heir_of_tenant,
    find_enabled,
)
from gpupool.allocations.handover.stopping import LeaverStops
from gpupool.allocations.handover.tables import IS_OPEN, leavers
from gpupool.allocations.handover.writing import HandoverAuthor
from gpupool.base.errors import GpupoolError
from gpupool.base.silence import mark_busy
from gpupool.base.supervision import SupervisedThread
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.tenant import Principal
from gpupool.signon.leaver_facts import LeaverChoice, LeaverCounts, LeaverFacts
from gpupool.store.database import Store, WriteTransaction
from gpupool.tenancy.tables import users
from gpupool.tenancy.users import find_user
from gpupool.wire.leavers.policies import LeaverChoiceIn

logger = logging.getLogger(__name__)
Row = Any
#: Seconds between two looks: a kept job is stopped so late at most.
LOOK_SECONDS: Final = 60.0


class LeaverSettlement:
    """Records leavers and settles their jobs. Thread-safe; `settle` may be called at any time."""

    def __init__(self, store: Store, handovers: HandoverService, stops: LeaverStops) -> None:
        self._store = store
        self._handovers = handovers
        self._stops = stops
        self._settling = threading.Lock()
        self._wake = threading.Event()
        self._closing = False
        self._thread = SupervisedThread("leavers", self._run)
        store.commit_steps["leavers"] = forget_former_users
        store.notifier.add_listener(self._listen)

    def start(self) -> None:
        """Start the thread; it looks at once."""
        self._thread.start()
        self._wake.set()

    def close(self) -> None:
        """Stop the thread after the look in progress."""
        self._closing = True
        self._thread.stop()
        self._wake.set()
        self._thread.join()

    def check(self, caller: Principal, choice: LeaverChoice, *, keep_seconds: int | None) -> None:
        """Refuse a choice that cannot be.

        Raises:
            LeaverPolicyContradicts: What is given does not go together.
            NotFound: There is no such heir.
            HandoverRefused: The heir cannot take jobs over.
        """
        check_choice(
            LeaverChoiceIn(
                act=choice.act,
                heir=choice.heir,
                keep_seconds=keep_seconds,
                until_ns=None if keep_seconds is not None else choice.until_ns,
            )
        )
        if choice.heir is not None:
            with self._store.read() as connection:
                check_heir_of_tenant(find_user(connection, caller, choice.heir), None)

    def choose(self, connection: sa.Connection, leaver: LeaverFacts, now_ns: int) -> LeaverChoice:
        """Return what becomes of a leaver's jobs: what the request says, else its policy."""
        if leaver.choice is not None:
            return leaver.choice
        return find_policy(connection, leaver.provider, leaver.tenant_id, now_ns)

    def record(self, write: WriteTransaction, leaver: LeaverFacts) -> None:
        """Write down a leaver in the transaction that disables it."""
        chosen = self.choose(write.connection, leaver, write.now_ns)
        is_open = chosen.act != "keep" or chosen.until_ns is not None
        due_ns = None
        if leaver.grace_seconds:
            due_ns = write.now_ns + leaver.grace_seconds * NANOS_PER_SECOND
        # An earlier row says when an earlier grace ends, and the user was enabled in between.
        mine = sa.and_(leavers.c.user_id == leaver.user_id, IS_OPEN)
        for row in write.execute(LEAVER.where(mine)).all():
            close_leaver(write, row, f"{row.user} was enabled again")
        heir = sa.select(users.c.id).where(users.c.name == chosen.heir)
        write.insert(
            leavers,
            user_id=leaver.user_id,
            tenant_id=leaver.tenant_id,
            provider=leaver.provider,
            reason=leaver.reason[:400],
            act=chosen.act,
            until_ns=chosen.until_ns,
            heir_id=None if chosen.heir is None else write.execute(heir).scalar_one(),
            state="open" if is_open else "done",
            note="",
            stopped=0,
            handed=0,
            made_by=leaver.by,
            made_ns=write.now_ns,
            ended_ns=None if is_open else write.now_ns,
            due_ns=due_ns,
            by_pool=chosen.by_pool,
        )
        write.announce(TOPIC)

    def settle(self, user_ids: Collection[int] = ()) -> LeaverCounts:
        """Do what is due of every open leaver; count what was done for these users. Idempotent."""
        with self._settling:
            with self._store.read() as connection:
                rows = connection.execute(LEAVER.where(IS_OPEN).order_by(leavers.c.id)).all()
            for row in rows:
                self._settle_one(row)
            counted = sa.select(
                sa.func.coalesce(sa.func.sum(leavers.c.stopped), 0).label("stopped"),
                sa.func.coalesce(sa.func.sum(leavers.c.handed), 0).label("handed"),
            ).where(leavers.c.id.in_(_select_latest(user_ids)))
            with self._store.read() as connection:
                found = connection.execute(counted).one()
        return LeaverCounts(int(found.stopped), int(found.handed))

    def _settle_one(self, row: Row) -> None:
        if row.disabled_ns is None and row.retired_ns is None:
            self._close(row, f"{row.user} is enabled again")
            return
        if row.due_ns is not None and row.due_ns > self._store.clock.now_ns():
            return
        if row.act == "hand-over":
            self._hand_over(row)
            return
        if row.act == "keep" and row.until_ns > self._store.clock.now_ns():
            return
        self._stops.stop_jobs(row, self._stops.list_jobs(row))
        with self._store.write() as write:
            close_leaver(write, row, "")

    def _hand_over(self, row: Row) -> None:
        with self._store.read() as connection:
            heir = None if row.heir_id is None else find_enabled(connection, row.heir_id)
            owner = connection.execute(sa.select(users).where(users.c.id == row.user_id)).one()
        if heir is None or heir.tenant_id != row.tenant_id:
            lacks = "has left" if heir is None else f"is not of the tenant {row.tenant}"
            named = row.heir or "its new owner"
            self._note(row, f"{named} {lacks}: gpupool user handover {row.user} --to USER")
            return
        # A tenant's admin passes on only what the heir may run itself: it could name itself.
        plan = self._handovers.plan_units(owner, heir, takes_accounts=row.by_pool)
        author = HandoverAuthor(row.made_by, None, row.tenant, row.reason)
        wanted = [unit for unit, refusal in plan if refusal is None]
        note = partial(count_handed, row=row)
        self._handovers.write_units(owner, heir, author, wanted, note)
        left = [(unit, refusal) for unit, refusal in plan if refusal is not None]
        if left:
            unit, refusal = left[0]
            more = "" if len(left) == 1 else f"; {len(left) - 1} more stay"
            self._note(row, f"{unit.kind} {unit.name} stays: {refusal}{more}")
            return
        with self._store.write() as write:
            close_leaver(write, row, "")

    def _close(self, row: Row, note: str) -> None:
        with self._store.write() as write:
            close_leaver(write, row, note)

    def _note(self, row: Row, note: str) -> None:
        # What was noted before costs no write.
        if note[:400] == row.note:
            return
        with self._store.write() as write:
            note_leaver(write, row, note)

    def _listen(self, topics: frozenset[Hashable]) -> None:
        if TOPIC in topics:
            self._wake.set()

    def _run(self) -> None:
        while not self._closing:
            self._wake.wait(LOOK_SECONDS)
            self._wake.clear()
            if not self._closing:
                with mark_busy():
                    self._look()
                self._thread.mark_well()

    def _look(self) -> None:
        try:
            self.settle()
        except GpupoolError as error:
            # As a store that takes no changes now: the next look repeats it.
            logger.warning("leavers wait: %s", error.message)


def _select_latest(user_ids: Collection[int]) -> sa.Select[tuple[int]]:
    """Select the latest row of each of these users."""
    return (
        sa.select(sa.func.max(leavers.c.id))
        .where(leavers.c.user_id.in_(list(user_ids)))
        .group_by(leavers.c.user_id)
    )
