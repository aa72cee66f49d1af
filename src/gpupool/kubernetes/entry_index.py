"""In which node's ledger each pod stands. Pure."""

from __future__ import annotations


class EntryIndex:
    """The newest counts where two controllers have written a pod into two ledgers, until one of them is taken back."""

    def __init__(self) -> None:
        self._node: dict[str, str] = {}
        self._elsewhere: dict[str, set[str]] = {}
        """By pod that stands in several ledgers, the other nodes."""

    def __contains__(self, uid: object) -> bool:
        return uid in self._node

    def node(self, uid: str) -> str:
        """Empty where it stands in none."""
        return self._node.get(uid, "")

    def enter(self, uid: str, node: str) -> None:
        before = self._node.get(uid, node)
        if before != node:
            self._elsewhere.setdefault(uid, set()).add(before)
        self._node[uid] = node

    def leave(self, uid: str, node: str) -> None:
        """Nothing happens where it does not stand there."""
        others = self._elsewhere.get(uid, set())
        others.discard(node)
        if self._node.get(uid) == node:
            del self._node[uid]
            if others:
                self._node[uid] = others.pop()
        if not others:
            self._elsewhere.pop(uid, None)
