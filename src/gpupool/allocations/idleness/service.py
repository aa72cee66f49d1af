"""Idle policies, the list of idle jobs, keeps and the report, put together. Thread-safe."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import Any, Final

import sqlalchemy as sa

from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.idleness.costs import SharePrices
from gpupool.allocations.idleness.keeps import KeepBook
from gpupool.allocations.idleness.policies import IdlePolicyService, read_policies
from gpupool.allocations.idleness.policy import find_rule
from gpupool.allocations.idleness.tables import idle_spans
from gpupool.allocations.idleness.units import IdleUnit, read_units
from gpupool.allocations.idleness.views import describe_unit
from gpupool.allocations.idleness.watch import IdleWatch
from gpupool.allocations.placement.placer import Placer
from gpupool.allocations.stop import check_ownership
from gpupool.allocations.store.tables import jobs
from gpupool.allocations.views import list as job_lookup
from gpupool.base.errors import BadOption, WrongState
from gpupool.base.units import NANOS_PER_MILLISECOND
from gpupool.billing.prices.price_list import ShareFacts
from gpupool.billing.prices.service import read_price_lists
from gpupool.metering.service import MeteringService
from gpupool.model.tenant import Principal
from gpupool.store.database import Store
from gpupool.tenancy.access import match_visible
from gpupool.tenancy.tables import tenants
from gpupool.wire.idleness.jobs import IdleJobOut, IdleReportOut, IdleSavingOut

#: Rows of spans that one report reads at most.
MOST_SPANS: Final = 200_000


class IdleService:
    """What routes call."""

    def __init__(
        self, store: Store, metering: MeteringService, cache: LedgerCache, placer: Placer
    ) -> None:
        self._store = store
        self.policies = IdlePolicyService(store)
        self.watch = IdleWatch(store, metering, cache, placer)
        self._keeps = KeepBook(store)

    def list_jobs(
        self, caller: Principal, *, idle_alone: bool, job: str | None = None
    ) -> list[IdleJobOut]:
        """List running jobs with cards, those that are idle for longest first.

        Args:
            caller: sees those of its scope.
            idle_alone: leave out what is active, or not known.
            job: the id of one job: of it or its gang alone, nothing where it runs no more.
        """
        wanted = match_visible(caller, jobs.c.tenant_id)
        if job is not None:
            its_gang = sa.select(jobs.c.gang_id).where(jobs.c.public_id == job)
            wanted = sa.and_(wanted, sa.or_(jobs.c.public_id == job, jobs.c.gang_id.in_(its_gang)))
        with self._store.read() as connection:
            found = self._describe(connection, wanted)
        if idle_alone:
            found = [one for one in found if one.state in ("idle", "kept")]
        return sorted(found, key=lambda one: (-(one.idle_seconds or 0), one.job))

    def describe_job(self, caller: Principal, named: str) -> IdleJobOut:
        """Describe one running job. Raises NotFound, WrongState."""
        with self._store.read() as connection:
            row = job_lookup.find_job(connection, caller, named)
            return self._find_unit_view(connection, row)

    def keep_job(self, caller: Principal, named: str, seconds: int | None) -> IdleJobOut:
        """Leave an idle job alone for a while. What it gave back it gets again where there is room.

        Raises:
            NotFound: The caller's scope has no such job.
            NoPermission: It is another user's, and the caller manages no tenant.
            WrongState: It does not run, or holds no card.
            NoIdleRule: No policy is about it.
            KeepTooLong, KeepsSpent: The rule does not allow that.
        """
        with self._store.read() as connection:
            row = job_lookup.find_job(connection, caller, named)
        check_ownership([row], caller, "keep")
        with self._store.write() as write:
            unit = _find_unit(write.connection, row)
            rule = find_rule(read_policies(write.connection), unit.facts)
            self._keeps.keep_unit(write, unit, rule, caller, seconds)
            out = self._find_unit_view(write.connection, row)
            write.answer(200, out.model_dump(mode="json"))
        return out

    def report(
        self, caller: Principal, since_ns: int, until_ns: int, tenant: str | None
    ) -> IdleReportOut:
        """Sum what was given back, or would have been, by tenant and kind of step."""
        if until_ns <= since_ns:
            raise BadOption("the report ends before it begins", hint="--since 7d")
        query = (
            sa.select(
                idle_spans,
                tenants.c.name.label("tenant"),
                jobs.c.ended_ns,
            )
            .join(tenants, tenants.c.id == idle_spans.c.tenant_id)
            .join(jobs, jobs.c.id == idle_spans.c.job_id)
            .where(
                match_visible(caller, idle_spans.c.tenant_id),
                idle_spans.c.start_ns < until_ns,
                sa.or_(idle_spans.c.end_ns.is_(None), idle_spans.c.end_ns >= since_ns),
            )
        )
        if tenant is not None:
            query = query.where(tenants.c.name == tenant)
        groups = defaultdict[tuple[str, str, bool], list[Any]](list)
        with self._store.read() as connection:
            prices = SharePrices(read_price_lists(connection))
            for row in connection.execute(query.order_by(idle_spans.c.id).limit(MOST_SPANS)):
                groups[row.tenant, row.act, row.dry_run].append(row)
            read = sum(map(len, groups.values()))
            left_out = _count_rows(connection, query) - read if read == MOST_SPANS else 0
        rows = [
            _sum_spans(key, spans, prices, since_ns, until_ns)
            for key, spans in sorted(groups.items())
        ]
        currency = prices.find_currency(until_ns)
        return IdleReportOut(
            since_ns=since_ns,
            until_ns=until_ns,
            currency=currency,
            rows=rows,
            left_out=left_out,
        )

    def _find_unit_view(self, connection: sa.Connection, row: Any) -> IdleJobOut:
        unit = _find_unit(connection, row)
        found = self._describe(connection, jobs.c.id.in_(unit.members))
        return found[0]

    def _describe(
        self, connection: sa.Connection, condition: sa.ColumnElement[bool]
    ) -> list[IdleJobOut]:
        policies = read_policies(connection)
        prices = SharePrices(read_price_lists(connection))
        now_ns = self._store.clock.now_ns()
        return [
            describe_unit(
                unit,
                find_rule(policies, unit.facts),
                self.watch.measure(unit),
                self._keeps.count_today(connection, unit.row_id, now_ns),
                prices,
                now_ns,
            )
            for unit in read_units(connection, condition)
        ]


def _find_unit(connection: sa.Connection, row: Any) -> IdleUnit:
    """Find the unit of a job. Raises WrongState where it runs on no card."""
    mine = jobs.c.id == row.id if row.gang_id is None else jobs.c.gang_id == row.gang_id
    units = read_units(connection, mine)
    if not units:
        raise WrongState(
            f"job {row.name} is {row.state}, or runs without a card: it cannot be idle",
            hint="gpupool idle list  shows the jobs that can",
        )
    return units[0]


def _count_rows(connection: sa.Connection, query: sa.Select[Any]) -> int:
    count = sa.select(sa.func.count()).select_from(query.subquery())
    return int(connection.execute(count).scalar_one())


def _sum_spans(
    key: tuple[str, str, bool], spans: list[Any], prices: SharePrices, since_ns: int, until_ns: int
) -> IdleSavingOut:
    tenant, act, dry_run = key
    milli_ns = 0
    cost: Fraction | None = Fraction(0)
    for span in spans:
        start_ns = max(since_ns, span.start_ns)
        ends = [until_ns, *(one for one in (span.end_ns, span.ended_ns) if one is not None)]
        end_ns = max(start_ns, min(ends))
        milli_ns += span.gpu_milli * (end_ns - start_ns)
        facts = ShareFacts(span.model, "", span.sharing, span.preemptible)
        price = prices.price_span(facts, span.gpu_milli, start_ns, end_ns)
        cost = None if cost is None or price is None else cost + price
    is_known = dry_run or act != "stop"
    return IdleSavingOut(
        tenant=tenant,
        act=act,
        dry_run=dry_run,
        steps=len(spans),
        jobs=len({span.job_id for span in spans}),
        card_milliseconds=milli_ns // 1000 // NANOS_PER_MILLISECOND if is_known else None,
        cost_micro=round(cost) if is_known and cost is not None else None,
    )
