"""Serves advice on shares: reads what the caller may see, and holds the policies. Thread-safe."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.idleness.costs import SharePrices
from gpupool.allocations.placement.placer import Placer
from gpupool.allocations.rightsizing.advice_book import AdviceBook
from gpupool.allocations.rightsizing.policies import AdvicePolicyService
from gpupool.allocations.rightsizing.policy_watch import PolicyWatch
from gpupool.allocations.rightsizing.reading import (
    Families,
    add_live_runs,
    count_partition_cards,
    find_job_family,
    list_runs,
    read_card_offers,
    read_families,
)
from gpupool.allocations.rightsizing.summaries import plan_layouts, sum_tenants
from gpupool.allocations.rightsizing.views import (
    AdviceContext,
    describe_backtest,
    describe_family,
)
from gpupool.allocations.store.tables import jobs
from gpupool.allocations.views import list as job_lookup
from gpupool.base.errors import BadOption
from gpupool.base.errors.people import UnknownFamily
from gpupool.billing.prices.service import read_price_lists
from gpupool.metering.scope import find_scope
from gpupool.metering.service import MeteringService
from gpupool.model.tenant import Principal
from gpupool.rightsizing.backtest import run_backtest
from gpupool.store.database import Store
from gpupool.wire.rightsizing.advice import (
    AdviceOut,
    BacktestOut,
    LayoutAdviceOut,
    TenantAdviceOut,
)


class RightsizingService:
    """What routes call."""

    def __init__(
        self, store: Store, metering: MeteringService, cache: LedgerCache, placer: Placer
    ) -> None:
        self._store = store
        self.policies = AdvicePolicyService(store)
        self.book = AdviceBook(store)
        self.watch = PolicyWatch(store, metering, cache, placer, self.book)

    def list_advice(
        self,
        caller: Principal,
        since_ns: int,
        *,
        family: str | None = None,
        job: str | None = None,
        tenant: str | None = None,
    ) -> list[AdviceOut]:
        """List the advice for families, those that would free most first.

        Args:
            caller: sees families of its scope.
            since_ns: runs that were measured, or began, from then on.
            family: whole name or pattern: only such ones.
            job: only the family of this job.
            tenant: only this tenant's families.

        Raises:
            UnknownFamily: The caller's scope has no such family with a run in this time.
            NotFound: The caller's scope has no such job.
            UnknownTenant: The caller's scope has no such tenant.
        """
        if family is not None and job is not None:
            raise BadOption("a family or a job, not both", hint="leave out --family or --job")
        now_ns = self._check_since(since_ns)
        with self._store.read() as connection:
            condition = _match_tenant(connection, caller, tenant)
            wanted = None
            if job is not None:
                row = job_lookup.find_job(connection, caller, job)
                wanted = find_job_family(connection, row.id)
            found = read_families(connection, condition, since_ns)
            if wanted is not None:
                found = {key: runs for key, runs in found.items() if key == wanted}
            if family is not None:
                found = {key: runs for key, runs in found.items() if key.matches(family)}
            if not found and (family is not None or wanted is not None):
                raise _build_unknown(family or job or "")
            add_live_runs(connection, condition, found)
            prices = SharePrices(read_price_lists(connection))
            context = AdviceContext(read_card_offers(connection), prices, since_ns, now_ns)
        rows = [describe_family(key, runs, context) for key, runs in found.items()]
        return sorted(rows, key=lambda row: (-(row.saved_milli or 0), row.family))

    def list_tenants(self, caller: Principal, since_ns: int) -> list[TenantAdviceOut]:
        """Sum the advice for each tenant of the caller's scope."""
        return sum_tenants(self.list_advice(caller, since_ns))

    def list_layouts(
        self, caller: Principal, since_ns: int, tenant: str | None = None
    ) -> list[LayoutAdviceOut]:
        """Plan how cards would be cut for what families need. Raises UnknownTenant."""
        self._check_since(since_ns)
        with self._store.read() as connection:
            condition = _match_tenant(connection, caller, tenant)
            found = read_families(connection, condition, since_ns)
            offers = read_card_offers(connection)
            cards = count_partition_cards(connection)
        return plan_layouts(found, offers, cards)

    def run_backtest(
        self, caller: Principal, since_ns: int, tenant: str | None = None
    ) -> BacktestOut:
        """Judge every measured run by the runs that had ended before it. Raises UnknownTenant."""
        now_ns = self._check_since(since_ns)
        found: Families
        with self._store.read() as connection:
            condition = _match_tenant(connection, caller, tenant)
            found = read_families(connection, condition, since_ns)
        measured = [runs for runs in list_runs(found.values()) if runs]
        return describe_backtest(run_backtest(measured), since_ns, now_ns)

    def _check_since(self, since_ns: int) -> int:
        now_ns = self._store.clock.now_ns()
        if since_ns >= now_ns:
            raise BadOption("the time begins after it ends", hint="--since 30d")
        return now_ns


def _match_tenant(
    connection: sa.Connection, caller: Principal, tenant: str | None
) -> sa.ColumnElement[bool]:
    """Return the condition on `jobs`: the caller's scope, or one tenant of it."""
    tenant_id, _ = find_scope(connection, caller, tenant)
    return sa.true() if tenant_id is None else jobs.c.tenant_id == tenant_id


def _build_unknown(named: str) -> UnknownFamily:
    return UnknownFamily(
        f"no family {named[:80]!r} had a run in this time",
        hint="gpupool advise  lists the families that you can see; --since 90d looks further back",
    )
