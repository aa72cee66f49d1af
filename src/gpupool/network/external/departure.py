"""What the reconciler asks while the engine does not run: rows that the pool leaves in an OVN of
others.

The reconciler deletes them, so it cannot write them again meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable

from gpupool.network.engine_row import read_engine_row
from gpupool.network.external.membership import note_departure, read_ovn, show_ovn_certificate
from gpupool.store.database import Store, WriteTransaction
from gpupool.store.secrets.vault import SECRET_ERRORS


class Departure:
    """Where the rows are, and whether they are deleted."""

    def __init__(self, store: Store, settle_end: Callable[[WriteTransaction], None]) -> None:
        """Make the object.

        Args:
            settle_end: ends the engine once nothing of it is left.
        """
        self._store = store
        self._settle_end = settle_end

    def read_remote(self) -> str | None:
        """Return where rows of the pool are to be deleted; None: nowhere."""
        with self._store.read() as connection:
            row = read_engine_row(connection)
            ovn = read_ovn(connection)
        if row is None or row.state != "stopping" or ovn is None or not ovn.has_rows:
            return None
        try:
            show_ovn_certificate(ovn, self._store.secrets)
        except SECRET_ERRORS as error:
            self.note(f"the pool's rows are not deleted yet: {error.message}")
            return None
        return str(ovn.northbound)

    def note(self, reason: str) -> None:
        """Note why the rows are not deleted yet; empty: they are. Idempotent."""
        with self._store.write() as write:
            row = read_engine_row(write.connection)
            # It may have been enabled again meanwhile.
            if row is not None and row.state == "stopping":
                note_departure(write, reason)
                self._settle_end(write)
