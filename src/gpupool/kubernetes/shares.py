"""What tenants hold, have held and may hold: the ledgers' sums, their faded past, and the quota tree above them.

What stands in a ledger counts for the tenant that is written there, also when the namespace has another one by now. The
past lives in memory, from the first look of this leader on.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from gpupool.kubernetes.objects import Entry
from gpupool.kubernetes.tenants import TenantTree
from gpupool.model.quota import UNLIMITED, Amount, Branch, lineage
from gpupool.scheduling.pool_size import pool_size
from gpupool.scheduling.snapshot import Cards, TenantView
from gpupool.scheduling.usage import Usage, dominant_micro

NS = 10**9
_ALONE = Branch(None, UNLIMITED)


class Shares:
    """One leader's."""

    def __init__(self) -> None:
        self.tree = TenantTree()
        self._held: defaultdict[str, Amount] = defaultdict(Amount)
        self._usage = Usage()
        self._rates: dict[str, int] = {}

    def tenant(self, namespace: str) -> str:
        return self.tree.tenant_of.get(namespace, namespace)

    def note(self, gone: Iterable[Entry], come: Iterable[Entry]) -> None:
        """These entries left a ledger, those stand there now."""
        for entry in gone:
            self._held[entry.tenant] -= _amount(entry)
        for entry in come:
            self._held[entry.tenant] += _amount(entry)

    def views(self, waiting: Iterable[str], cards: Cards, now_ns: int) -> dict[str, TenantView]:
        """Everybody who is in the tree, holds, held or waits."""
        everybody = sorted({*waiting, *self._held, *self.tree.tenants})
        self._carry(everybody, cards, now_ns)
        return {name: self._view(name, now_ns) for name in everybody}

    def held(self) -> Mapping[str, Amount]:
        """By name of an object, what it and all below it hold."""
        found: defaultdict[str, Amount] = defaultdict(Amount)
        for tenant, amount in list(self._held.items()):
            for name in self._path(tenant):
                found[name] += amount
        return found

    def summed(self, counts: Mapping[str, int]) -> Mapping[str, int]:
        """Counts by tenant, with those of all below."""
        found: Counter[str] = Counter()
        for tenant, count in counts.items():
            found.update(dict.fromkeys(self._path(tenant), count))
        return found

    def _path(self, tenant: str) -> set[str]:
        return {tenant, *lineage(self._branch(tenant).parent, self.tree.cohorts)}

    def _view(self, name: str, now_ns: int) -> TenantView:
        branch = self._branch(name)
        past = self._usage.past(name, now_ns / NS)
        return TenantView(branch.quota, self._held[name], branch.parent, branch.weight_milli, past)

    def _branch(self, tenant: str) -> Branch:
        return self.tree.tenants.get(tenant, _ALONE)

    def _carry(self, tenants: Iterable[str], cards: Cards, now_ns: int) -> None:
        """Carry the past along: what is held, or the pool's size, may have changed since the last look."""
        size = pool_size(cards)
        for name in tenants:
            rate = dominant_micro(self._held[name], size.cards, size.memory_bytes)
            if rate != self._rates.get(name, 0):
                self._usage.hold(name, rate, now_ns / NS)
                self._rates[name] = rate


def _amount(entry: Entry) -> Amount:
    return Amount(sum(s.gpu_milli for s in entry.seats), sum(s.memory_bytes for s in entry.seats))
