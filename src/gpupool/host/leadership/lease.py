"""Renews the lease of a leading server in a thread of its own; a deposed server starts again.

Decision 0023.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from gpupool.base.anew import begin_anew
from gpupool.base.errors import GpupoolError, LostLeadership
from gpupool.base.health import Check, CheckFinding, fail, well
from gpupool.base.silence import mark_busy
from gpupool.base.supervision import SupervisedThread
from gpupool.store.database import Store
from gpupool.store.engines import lease_engine
from gpupool.store.failures import store_errors
from gpupool.store.leadership import LEASE_SECONDS, RENEW_SECONDS, LeaderLease, session_name

logger = logging.getLogger("gpupool")

#: Seconds between two tries of a renewal, where the database does not answer.
LEAST_PAUSE_SECONDS = 0.1


def _begin_anew() -> None:
    begin_anew("leading, which another server has taken over,", counted=False)


class LeaseKeeper:
    """Renews a lease until it is closed or another server has taken it.

    If the database does not answer, the renewal is retried. Once the lease has expired, the server
    answers nothing; if no other server took it meanwhile, it leads again after the next renewal.

    Args:
        on_deposed: ends the process after another server has taken the lease.
    """

    def __init__(
        self, url: str, leading: LeaderLease, on_deposed: Callable[[], None] = _begin_anew
    ) -> None:
        self._leading = leading
        self._on_deposed = on_deposed
        self._engine = lease_engine(url, session_name(leading.holder))
        self._ended = threading.Event()
        self._connection: sa.Connection | None = None
        self._thread = SupervisedThread("lease", self._keep_renewing)
        self._thread.start()

    def close(self) -> None:
        """Stop renewing and give up the lease, so that a standby takes over at once."""
        self._ended.set()
        self._thread.join(2 * LEASE_SECONDS)
        try:
            with store_errors():
                self._leading.give_up(self._connect())
        except GpupoolError as error:
            logger.warning("the lease runs until it expires: %s", error.message)
        self._drop_connection()
        self._engine.dispose()

    def _keep_renewing(self) -> None:
        while not self._ended.wait(self._pause_seconds()):
            try:
                with mark_busy(), store_errors():
                    self._leading.renew(self._connect())
            except LostLeadership:
                self._on_deposed()
                return
            except GpupoolError as error:
                self._drop_connection()
                state = "still leads" if self._leading.holds() else "answers nothing until then"
                logger.error(
                    "the lease could not be renewed, asked again; this server %s: %s",
                    state,
                    error.message,
                )
            else:
                self._thread.mark_well()

    def _pause_seconds(self) -> float:
        # Counted from the begin of the last renewal: a slow one must not delay the next.
        return max(LEAST_PAUSE_SECONDS, RENEW_SECONDS - (self._leading.age_seconds() or 0.0))

    def _connect(self) -> sa.Connection:
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    def _drop_connection(self) -> None:
        if self._connection is not None:
            try:
                self._connection.close()
            except DBAPIError as error:
                logger.info("a broken connection was given up: %s", error.orig)
            self._connection = None


def build_leader_check(store: Store) -> Check:
    """Build the check of the leader that `gpupool doctor` shows."""

    def look() -> CheckFinding:
        leading = store.leading
        if leading is None:
            return well("one server (SQLite)")
        age = leading.age_seconds() or 0.0
        said = (
            f"this server leads (number {leading.number}, {leading.address}), lease renewed {age:.1f} s ago, "
            f"{leading.longest_gap_seconds:.1f} s between two renewals at most"
        )
        if leading.holds():
            return well(said)
        return fail(
            f"{said}: it is over, and nothing is answered",
            "see whether the database answers; server.log",
        )

    return look
