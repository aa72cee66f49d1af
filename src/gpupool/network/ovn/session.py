"""A connection to an OVSDB server: a copy of some of its tables, and transactions.

The copy is Open vSwitch's own (`ovs.db.idl`). One thread at a time uses a session; `wake` alone may
be called by others. The copy follows the server from the last message that was read on, so
`refresh` comes before a look that must be new.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from gpupool.base.errors import NetworkingUnavailable

#: Milliseconds between two attempts to reach a server: the library's own wait doubles up to 8 s,
#: which is how long changes wait after the leader of a cluster was killed.
_LEAST_BACKOFF_MS: Final = 50
_MOST_BACKOFF_MS: Final = 250
#: Milliseconds between two probes of a server of a cluster: another one answers meanwhile.
_CLUSTER_PROBE_MS: Final = 2000
#: Seconds in which a server answers, from its connection on.
_ANSWER_SECONDS: Final = 5.0


class OvsdbSession:
    """An open session with one database."""

    def __init__(
        self,
        remote: str,
        database: str,
        tables: Mapping[str, Sequence[str]],
        notify: Callable[[str, Any], None] | None = None,
    ) -> None:
        """Connect, and copy the tables.

        Args:
            remote: as `unix:/run/gpupool/ovnnb.sock`, or the servers of a cluster with commas
                between them: `ssl:10.0.0.1:6641,ssl:10.0.0.2:6641`. The leader is used.
            database: as `OVN_Northbound`.
            tables: by table, the columns to copy. What the server's schema lacks is left out.
            notify: called with the event (`create`, `update`, `delete`) and the row.

        Raises:
            NetworkingUnavailable: the library is missing, or the server does not answer in 5 s.
        """
        library = import_ovs()
        schema = _read_schema(library, remote, database)
        helper = library.idl.SchemaHelper(schema_json=schema)
        for table, columns in tables.items():
            known = schema["tables"].get(table, {"columns": {}})["columns"]
            present = [column for column in columns if column in known]
            if present:
                helper.register_columns(table, present)
        self.remote = remote
        self._library = library
        self._wakeup = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        # Without it a late `wake` would write to what has the number of the descriptor by then.
        self._wakeup_lock = threading.Lock()
        self._idl = _make_copy(library, remote, helper, notify)
        # The public interface has no setting for it (ovs 4.0.0), and `set_backoff` raises what is
        # below 1000 to it.
        reconnect = self._idl._session.reconnect
        reconnect.min_backoff = _LEAST_BACKOFF_MS
        reconnect.max_backoff = _MOST_BACKOFF_MS
        if "," in remote:
            reconnect.set_probe_interval(_CLUSTER_PROBE_MS)
        if not self._wait_until(lambda: self._idl.has_ever_connected(), _ANSWER_SECONDS):
            self.close()
            raise NetworkingUnavailable(f"the database at {remote} does not answer within 5 s")

    def close(self) -> None:
        """Close the connection. Idempotent."""
        with self._wakeup_lock:
            wakeup = self._wakeup
            self._wakeup = -1
        if wakeup >= 0:
            self._idl.close()
            os.close(wakeup)

    def get_rows(self, table: str) -> Mapping[Any, Any]:
        """Return the rows of a table by uuid, as the copy has them."""
        found: Mapping[Any, Any] = self._idl.tables[table].rows
        return found

    def get_table(self, table: str) -> Any:
        """Return a table, to insert rows into it."""
        return self._idl.tables[table]

    def refresh(self) -> None:
        """Read what the server has sent. Does not block."""
        while True:
            before = self._idl.change_seqno
            self._idl.run()
            if self._idl.change_seqno == before:
                return

    def wait(self, seconds: float) -> None:
        """Block until the server sends something, `wake` is called, or the time is over."""
        poller = self._library.poller.Poller()
        self._idl.wait(poller)
        poller.fd_wait(self._wakeup, self._library.poller.POLLIN)
        poller.timer_wait(int(seconds * 1000))
        poller.block()
        try:
            os.eventfd_read(self._wakeup)
        except BlockingIOError:
            return

    def wait_for(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Block until a condition of the copy holds; false when the time is over before."""
        return self._wait_until(condition, seconds)

    def wake(self) -> None:
        """End a `wait` of another thread. A session that is closed meanwhile has none."""
        with self._wakeup_lock:
            if self._wakeup >= 0:
                os.eventfd_write(self._wakeup, 1)

    def commit(self, write: Callable[[Any], None], seconds: float = 10.0) -> None:
        """Run one transaction; again where another client was first.

        Args:
            write: called with the transaction, once for each attempt.
            seconds: how long to try.

        Raises:
            NetworkingUnavailable: it was not committed; the message has the server's reason.
                `is_refused` of `details`: the server refused it, and would again.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            transaction = self._library.idl.Transaction(self._idl)
            try:
                write(transaction)
                status = self._drive(transaction, deadline)
            except BaseException:
                transaction.abort()
                raise
            if status in (transaction.SUCCESS, transaction.UNCHANGED):
                return
            if status == transaction.ERROR:
                raise NetworkingUnavailable(
                    f"the database at {self.remote} refused a change: {transaction.get_error()}",
                    is_refused=True,
                )
            self._wait_for_change(deadline)
        raise NetworkingUnavailable(
            f"a change was not committed at {self.remote} within {seconds:g} s"
        )

    def _drive(self, transaction: Any, deadline: float) -> Any:
        """Commit; the status is TRY_AGAIN where the server does not answer until the deadline."""
        while True:
            status = transaction.commit()
            if status != transaction.INCOMPLETE:
                return status
            left = deadline - time.monotonic()
            if left <= 0:
                transaction.abort()
                return transaction.TRY_AGAIN
            self._idl.run()
            poller = self._library.poller.Poller()
            self._idl.wait(poller)
            transaction.wait(poller)
            poller.timer_wait(int(left * 1000))
            poller.block()

    def _wait_for_change(self, deadline: float) -> None:
        before = self._idl.change_seqno
        left = max(0.0, deadline - time.monotonic())
        self._wait_until(lambda: bool(self._idl.change_seqno != before), min(left, 0.5))

    def _wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while True:
            self._idl.run()
            if condition():
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            poller = self._library.poller.Poller()
            self._idl.wait(poller)
            poller.timer_wait(int(left * 1000) + 1)
            poller.block()


class OvsLibrary:
    """The modules of Open vSwitch's Python library that are used here."""

    def __init__(self) -> None:
        import ovs.db.idl
        import ovs.jsonrpc
        import ovs.poller
        import ovs.stream

        self.idl = ovs.db.idl
        self.jsonrpc = ovs.jsonrpc
        self.poller = ovs.poller
        self.stream = ovs.stream


def import_ovs() -> OvsLibrary:
    """Import the library. Raises NetworkingUnavailable with the command that installs it."""
    try:
        return OvsLibrary()
    except ImportError as error:
        raise NetworkingUnavailable(
            f"networks need Open vSwitch's Python library: {error}",
            hint="pip install 'gpupool[network]'",
        ) from error


def _make_copy(
    library: OvsLibrary, remote: str, helper: Any, notify: Callable[[str, Any], None] | None
) -> Any:
    base: Any = library.idl.Idl

    class Copy(base):  # type: ignore[misc]  # the library has no types
        def notify(self, event: str, row: Any, updates: Any = None) -> None:
            if notify is not None:
                notify(event, row)

        def _Idl__clear(self) -> None:  # noqa: N802  # the library's own name
            # After a new connection to a server that cannot say what has changed, the library forgets
            # all rows without a word (ovs 4.0.0), and those that are gone never come again.
            forgotten = [row for table in self.tables.values() for row in table.rows.values()]
            super()._Idl__clear()
            for row in forgotten:
                self.notify(library.idl.ROW_DELETE, row)

    return Copy(remote, helper)


def _read_schema(library: OvsLibrary, remote: str, database: str) -> Any:
    """Read the schema of a database from the first of its servers that answers."""
    failure: NetworkingUnavailable | None = None
    for server in remote.split(","):
        try:
            return _ask_schema(library, server, database)
        except NetworkingUnavailable as error:
            failure = error
    assert failure is not None
    raise failure


def _ask_schema(library: OvsLibrary, remote: str, database: str) -> Any:
    """Read the schema of a database from its server (RFC 7047 section 4.1.2)."""
    error, stream = library.stream.Stream.open_block(library.stream.Stream.open(remote), 5000)
    if error:
        raise NetworkingUnavailable(f"no database answers at {remote}: {os.strerror(error)}")
    connection = library.jsonrpc.Connection(stream)
    try:
        request = library.jsonrpc.Message.create_request("get_schema", [database])
        connection.send(request)
        error, reply = _await_reply(library, connection, time.monotonic() + _ANSWER_SECONDS)
    finally:
        connection.close()
    if error == errno.ETIMEDOUT:
        raise NetworkingUnavailable(f"the database at {remote} does not answer within 5 s")
    if error or reply.error:
        reason = os.strerror(error) if error else str(reply.error)
        raise NetworkingUnavailable(f"{remote} has no database {database}: {reason}")
    return reply.result


def _await_reply(library: OvsLibrary, connection: Any, deadline: float) -> tuple[int, Any]:
    """Return the reply to the only request of a connection, or an error.

    The library's own wait has no end: a server that is stopped accepts connections and says nothing.
    """
    while True:
        connection.run()
        error, message = connection.recv()
        if message is not None:
            if message.type in (library.jsonrpc.Message.T_REPLY, library.jsonrpc.Message.T_ERROR):
                return 0, message
            continue
        if error != errno.EAGAIN:
            return error, None
        left = deadline - time.monotonic()
        if left <= 0:
            return errno.ETIMEDOUT, None
        poller = library.poller.Poller()
        connection.wait(poller)
        connection.recv_wait(poller)
        poller.timer_wait(int(left * 1000) + 1)
        poller.block()
