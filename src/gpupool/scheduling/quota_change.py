"""One change of a quota tree that is undone by itself, whatever has changed after it."""

from __future__ import annotations

from dataclasses import dataclass

from gpupool.scheduling.quota_node import Use
from gpupool.scheduling.quota_tree import Tree


@dataclass(frozen=True)
class Change:
    """The tenant holds so much more (`sign` 1) or less (-1)."""

    tenant: str
    use: Use
    sign: int
    firm: bool

    @classmethod
    def made(cls, tree: Tree, tenant: str, use: Use, sign: int, *, firm: bool) -> Change:
        """Make it."""
        change = cls(tenant, use, sign, firm)
        change._apply(tree, sign)
        return change

    def undo(self, tree: Tree) -> None:
        self._apply(tree, -self.sign)

    def _apply(self, tree: Tree, sign: int) -> None:
        if sign > 0:
            tree.take(self.tenant, self.use, firm=self.firm)
        else:
            tree.give(self.tenant, self.use, firm=self.firm)
