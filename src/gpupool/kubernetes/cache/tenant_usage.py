"""Accounts for what each tenant holds and has held, under its quota tree.

An entry counts for the tenant written in it, even if its namespace belongs to another tenant by
now. Past usage is in memory, from the first snapshot of this leader on, and serves the fair share
alone: the books read ledgers and the journal.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.kubernetes.resources.gpu_node import Entry
from gpupool.kubernetes.resources.tenant import TenantTree
from gpupool.model.quota import UNLIMITED, QuotaBranch, ResourceAmount, list_cohorts_above
from gpupool.scheduling import (
    CardTable,
    DecayedUsage,
    TenantView,
    compute_dominant_micro,
    measure_pool,
)

#: Tenants that hold nothing and whose past usage is kept, the most used ones. Namespaces of one
#: pipeline run each would add up for as long as the leader lives.
MOST_PAST = 10_000
_ALONE = QuotaBranch(None, UNLIMITED)


class TenantUsage:
    """Accounts of all tenants. `tree` is the quota tree in force."""

    def __init__(self) -> None:
        self.tree = TenantTree()
        self._held: defaultdict[str, ResourceAmount] = defaultdict(ResourceAmount)
        self._entries = Counter[str]()
        self._usage = DecayedUsage()
        self._rates: dict[str, int] = {}

    def tenant_of(self, namespace: str) -> str:
        """The tenant of the namespace."""
        return self.tree.tenant_of.get(namespace, namespace)

    def note_entries(self, gone: Iterable[Entry], come: Iterable[Entry]) -> None:
        """Note entries that left a ledger and entries that came."""
        for entry in come:
            self._held[entry.tenant] += _sum_seats(entry)
            self._entries[entry.tenant] += 1
        for entry in gone:
            self._held[entry.tenant] -= _sum_seats(entry)
            self._entries[entry.tenant] -= 1
            if not self._entries[entry.tenant]:
                del self._entries[entry.tenant]
                del self._held[entry.tenant]

    def tenant_views(
        self, named: Iterable[str], cards: CardTable, now_ns: int
    ) -> dict[str, TenantView]:
        """Accounts for a snapshot: every tenant of the tree, those that hold, and the named ones."""
        tenants = sorted({*named, *self._held, *self.tree.tenants})
        self._update_rates({*tenants, *self._rates}, cards, now_ns)
        return {name: self._view_tenant(name, now_ns) for name in tenants}

    def held_amounts(self) -> Mapping[str, ResourceAmount]:
        """By name of a Tenant object, what it and its descendants hold."""
        found: defaultdict[str, ResourceAmount] = defaultdict(ResourceAmount)
        for tenant, amount in list(self._held.items()):
            for name in self._list_lineage(tenant):
                found[name] += amount
        return found

    def sum_with_descendants(self, counts: Mapping[str, int]) -> Mapping[str, int]:
        """By name of a Tenant object, the sum of the counts of it and its descendants."""
        found: Counter[str] = Counter()
        for tenant, count in counts.items():
            found.update(dict.fromkeys(self._list_lineage(tenant), count))
        return found

    def _list_lineage(self, tenant: str) -> set[str]:
        return {tenant, *list_cohorts_above(self._find_branch(tenant).parent, self.tree.cohorts)}

    def _view_tenant(self, name: str, now_ns: int) -> TenantView:
        branch = self._find_branch(name)
        past = self._usage.get_past_use(name, now_ns / NANOS_PER_SECOND)
        held = self._held.get(name, ResourceAmount())
        return TenantView(branch.quota, held, branch.parent, branch.weight_milli, past)

    def _find_branch(self, tenant: str) -> QuotaBranch:
        # A namespace that no Tenant object names is a tenant of its own, without limits.
        return self.tree.tenants.get(tenant, _ALONE)

    def _update_rates(self, tenants: Iterable[str], cards: CardTable, now_ns: int) -> None:
        """Give past usage the rates of now."""
        # A rate is a part of the pool, so it changes with the pool's size as well as with what the
        # tenant holds.
        size = measure_pool(cards)
        for name in tenants:
            held = self._held.get(name, ResourceAmount())
            rate = compute_dominant_micro(held, size.cards, size.memory_bytes)
            if rate != self._rates.get(name, 0):
                self._usage.set_rate(name, rate, now_ns / NANOS_PER_SECOND)
                self._rates[name] = rate
            if not rate:
                self._rates.pop(name, None)
        self._usage.drop_least(MOST_PAST, now_ns / NANOS_PER_SECOND)


def _sum_seats(entry: Entry) -> ResourceAmount:
    gpu_milli = sum(seat.gpu_milli for seat in entry.seats)
    return ResourceAmount(gpu_milli, sum(seat.memory_bytes for seat in entry.seats))
