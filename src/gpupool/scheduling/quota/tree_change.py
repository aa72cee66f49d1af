"""One change of a quota tree that can be undone by itself, whatever has changed after it."""

from __future__ import annotations

from dataclasses import dataclass

from gpupool.scheduling.quota.tree import QuotaTree
from gpupool.scheduling.quota.tree_node import Use


@dataclass(frozen=True)
class QuotaChange:
    """The tenant holds so much more (`sign` 1) or less (-1)."""

    tenant: str
    use: Use
    sign: int
    firm: bool

    @classmethod
    def apply_to(
        cls, tree: QuotaTree, tenant: str, use: Use, sign: int, *, firm: bool
    ) -> QuotaChange:
        """Apply a new change to the tree and return it."""
        change = cls(tenant, use, sign, firm)
        change._apply(tree, sign)
        return change

    def undo(self, tree: QuotaTree) -> None:
        """Undo the change on the tree."""
        self._apply(tree, -self.sign)

    def _apply(self, tree: QuotaTree, sign: int) -> None:
        if sign > 0:
            tree.add_use(self.tenant, self.use, firm=self.firm)
        else:
            tree.remove_use(self.tenant, self.use, firm=self.firm)
