"""Keeps a copy of the node's ledger on disk, for containers that start while no API server answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpupool.base.durable import write_durably
from gpupool.base.errors import CardNotReady
from gpupool.kubernetes.resources.gpu_node import GpuNode


class LedgerCopy:
    """The copy of one node's ledger. `place` is the file."""

    def __init__(self, place: Path, node: str) -> None:
        self._place = place
        self._node = node
        #: The ledger that is not on disk yet. The event loop notes it, and a thread writes it,
        #: because a write waits for the disk.
        self._pending: dict[str, Any] | None = None

    def read_ledger(self) -> GpuNode:
        """Return the ledger as it was stored last; an empty one if there is none."""
        try:
            return GpuNode.from_json(json.loads(self._place.read_text()))
        except (FileNotFoundError, ValueError, KeyError):
            return GpuNode(self._node)

    def note_ledger(self, found: dict[str, Any]) -> None:
        """Have this ledger written by the next `store_ledger`."""
        self._pending = found

    def store_ledger(self) -> None:
        """Write the noted ledger; called before a container relies on it. Blocks for the disk.

        Raises:
            CardNotReady: the disk is full or does not answer. The next call tries again.
        """
        found = self._pending
        self._pending = None
        if found is None:
            return
        try:
            write_durably(self._place, json.dumps(found).encode())
        except OSError as error:
            # A newer ledger may have been noted meanwhile; it must not be replaced by this one.
            self._pending = self._pending or found
            raise CardNotReady(
                f"the copy of the ledger of {self._node} cannot be written: {error.strerror}",
                hint=f"free space below {self._place.parent}",
            ) from None
