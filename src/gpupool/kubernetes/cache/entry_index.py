"""Finds the node whose ledger has an entry of a pod. Pure."""

from __future__ import annotations


class EntryIndex:
    """By uid of a pod or future member, the node of its entries.

    Two controllers may have written one pod into two ledgers. The newest counts until one is
    removed.
    """

    def __init__(self) -> None:
        self._node: dict[str, str] = {}
        #: By pod that stands in several ledgers, the other nodes.
        self._elsewhere: dict[str, set[str]] = {}

    def __contains__(self, uid: object) -> bool:
        return uid in self._node

    def node_of(self, uid: str) -> str:
        """The node; empty if no ledger has an entry."""
        return self._node.get(uid, "")

    def add_entry(self, uid: str, node_of: str) -> None:
        """The node's ledger has an entry of the pod."""
        before = self._node.get(uid, node_of)
        # The node of the older entry is remembered: if the newer one is removed, the pod still has
        # cards there.
        if before != node_of:
            self._elsewhere.setdefault(uid, set()).add(before)
        self._node[uid] = node_of

    def remove_entry(self, uid: str, node: str) -> None:
        """The node's ledger has no entry of the pod any more; idempotent."""
        others = self._elsewhere.get(uid, set())
        others.discard(node)
        if self._node.get(uid) == node:
            del self._node[uid]
            if others:
                self._node[uid] = others.pop()
        if not others:
            self._elsewhere.pop(uid, None)
