"""The list of changed nodes, from which each cache reads what changed since its last read."""

from __future__ import annotations

import numpy as np

from gpupool.scheduling.filtering.capacity_change import ChangeCursor, ChangedNodes
from gpupool.scheduling.snapshot.columns import Ints

#: Entries of the list, at least; small pools then rarely begin it anew.
_LEAST_KEPT = 4096

_NONE: Ints = np.empty(0, dtype=np.int64)


class ChangedNodeList:
    """Numbers of changed nodes, in the order of the changes; a node may occur several times."""

    def __init__(self, nodes: int) -> None:
        self._all = np.arange(nodes)
        # One array for as long as the pool lives: the native library is given addresses in it.
        self._changes = np.empty(max(_LEAST_KEPT, 4 * nodes), dtype=np.int64)
        self._position = 0
        self._epoch = 0
        self._all_at = self._all.ctypes.data
        self._changes_at = self._changes.ctypes.data
        #: The last answer. In one step all caches of a pool ask from the same cursor.
        self._last: tuple[ChangeCursor, int, Ints] | None = None

    def get_cursor(self) -> ChangeCursor:
        """Return the current end of the list of changes."""
        return ChangeCursor(self._epoch, self._position)

    def list_changed_nodes(self, since: ChangeCursor) -> Ints:
        """Return the nodes that changed since the cursor, each once; all nodes if the list was cut
        since.
        """
        if since.epoch != self._epoch:
            return self._all
        if since.position == self._position:
            return _NONE
        if self._last is not None and self._last[0] == since and self._last[1] == self._position:
            return self._last[2]
        nodes = np.array(
            # In the order of the first change, each once; sorting them would cost more.
            list(dict.fromkeys(self._changes[since.position : self._position].tolist())),
            dtype=np.int64,
        )
        self._last = since, self._position, nodes
        return nodes

    def locate_changed_nodes(self, since: ChangeCursor) -> ChangedNodes:
        """Return where the changed nodes lie in memory; a node may occur several times."""
        # Duplicates are left in: the library checks a node once per call (`looked`), which is
        # cheaper than to remove them here.
        if since.epoch != self._epoch:
            return ChangedNodes(self._all_at, len(self._all))
        return ChangedNodes(self._changes_at + 8 * since.position, self._position - since.position)

    def _append_changed_nodes(self, node: int | Ints) -> None:
        count = len(node) if isinstance(node, np.ndarray) else 1
        # Four times the nodes: a cache that falls further behind reads all nodes at less cost.
        if self._position + count > len(self._changes):
            self._start_new_epoch()
        self._changes[self._position : self._position + count] = node
        self._position += count

    def _start_new_epoch(self) -> None:
        """Empty the list of changes, so that it stays short however long the pool lives.

        Every cache then reads all nodes once.
        """
        self._position = 0
        self._last = None
        self._epoch += 1
