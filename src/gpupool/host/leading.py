"""Keeping the lease of a server that leads, in a thread of its own; one that is deposed begins anew. Decision 0023."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from gpupool.base.anew import begin_anew
from gpupool.base.errors import Deposed, GpupoolError
from gpupool.base.health import Check, Finding, fail, well
from gpupool.base.silence import busy
from gpupool.base.supervised import SupervisedThread
from gpupool.store.database import Store
from gpupool.store.engines import lease_engine
from gpupool.store.failures import store_errors
from gpupool.store.leadership import LEASE_SECONDS, RENEW_SECONDS, Leadership, session_name

logger = logging.getLogger("gpupool")

#: Seconds between two tries of a renewal, where the database does not answer.
LEAST_PAUSE_SECONDS = 0.1


def _begin_anew() -> None:
    begin_anew("leading, which another server has taken over,", counted=False)


class LeaseKeeper:
    """Renews a lease until it is closed or another server has it; `on_deposed` ends the process then.

    A database that does not answer is asked again: until the lease is renewed the server answers nothing, and where no
    other has taken it meanwhile it goes on.
    """

    def __init__(self, url: str, leading: Leadership, on_deposed: Callable[[], None] = _begin_anew) -> None:
        self._leading, self._on_deposed = leading, on_deposed
        self._engine = lease_engine(url, session_name(leading.holder))
        self._ended = threading.Event()
        self._connection: sa.Connection | None = None
        self._thread = SupervisedThread("lease", self._run)
        self._thread.start()

    def close(self) -> None:
        """Stop renewing and give the lease up, so that a standby takes over at once."""
        self._ended.set()
        self._thread.join(2 * LEASE_SECONDS)
        try:
            with store_errors():
                self._leading.give_up(self._connected())
        except GpupoolError as error:
            logger.warning("the lease runs until it expires: %s", error.message)
        self._drop()
        self._engine.dispose()

    def _run(self) -> None:
        while not self._ended.wait(self._pause_seconds()):
            try:
                with busy(), store_errors():
                    self._leading.renew(self._connected())
            except Deposed:
                self._on_deposed()
                return
            except GpupoolError as error:
                self._drop()
                state = "still leads" if self._leading.holds() else "answers nothing until then"
                logger.error("the lease could not be renewed, asked again; this server %s: %s", state, error.message)
            else:
                self._thread.well()

    def _pause_seconds(self) -> float:
        """Until the next renewal is due: counted from the last one, so that a slow one does not put off the next."""
        return max(LEAST_PAUSE_SECONDS, RENEW_SECONDS - (self._leading.age_seconds() or 0.0))

    def _connected(self) -> sa.Connection:
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            try:
                self._connection.close()
            except DBAPIError as error:
                logger.info("a broken connection was given up: %s", error.orig)
            self._connection = None


def leader_check(store: Store) -> Check:
    """Who leads, by this server; what `gpupool doctor` shows."""

    def look() -> Finding:
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
        return fail(f"{said}: it is over, and nothing is answered", "see whether the database answers; server.log")

    return look
