"""Make reports: the books of a range by tenant, project, user or job, with idle time and costs.

Reads only. Knows no clock: the range comes in, already cut where the books can be cut.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import sqlalchemy as sa

from gpupool.base.units import NANOS_PER_SECOND, format_instant
from gpupool.metering.books import (
    REMAINDER_OF,
    WHOLE_MILLI,
    ZERO,
    UsageAmount,
    compute_remainders,
)
from gpupool.metering.energy.reading import EnergySum, GroupEnergy, read_energy
from gpupool.metering.host_use import read_host_use
from gpupool.metering.prices import round_to_total
from gpupool.metering.reading import (
    GroupHolding,
    NameIndex,
    ReportQuery,
    read_capacity,
    read_delivered,
    read_holdings,
    read_names,
)
from gpupool.metering.report_rows import (
    RowLabel,
    RowSum,
    build_row,
    describe_energy,
    get_sort_key,
    has_content,
    rows_close,
)
from gpupool.metering.reserved_time import (
    ReservedReader,
    UnusedTime,
    limit_to_idle,
    read_no_reserved_time,
)
from gpupool.metering.samples import RunningSums
from gpupool.metering.starts import read_starts
from gpupool.wire.report import ReportOut, ReportRow

OTHERS = "others"


def make_report(
    connection: sa.Connection,
    ask: ReportQuery,
    read_reserved: ReservedReader = read_no_reserved_time,
) -> ReportOut:
    """Make the whole report. The connection must see one instant of the database.

    Raises:
        BadOption: if a model in the report has no price.
    """
    holdings = list(read_holdings(connection, ask))
    used = list(read_delivered(connection, ask)) if "card" not in ask.by else []
    spans = read_capacity(connection, ask) if ask.tenant_id is None else {}
    prices = ask.prices
    hosts = list(read_host_use(connection, ask)) if prices and prices.prices_hosts else []
    energy = _read_energy(connection, ask)
    groups = [ids for ids, _ in (*used, *hosts)] + [group.ids for group in energy]
    # A reservation names no card: by card its time is what the cards were, idle.
    unused = read_reserved(connection, ask) if "card" not in ask.by else ()
    groups += [{"tenant_id": one.tenant_id} for one in unused]
    names = read_names(connection, holdings, groups, spans)
    sums: dict[RowLabel, RowSum] = defaultdict(RowSum)
    for holding in holdings:
        _add_holding(
            sums[_build_label(ask, names, holding.ids, holding.device_id)], ask, names, holding
        )
    for ids, use in used:
        entry = sums[_build_label(ask, names, ids, None)]
        entry.used = RunningSums(*map(_add_known, entry.used, use))
    for ids, host in hosts:
        assert prices is not None
        entry = sums[_build_label(ask, names, ids, None)]
        entry.host = host if entry.host is None else entry.host + host
        entry.cost += prices.compute_host_cost(host)
    if ask.tenant_id is None:
        idle = _add_remainders(sums, ask, names, holdings, spans)
        unused = tuple(limit_to_idle(unused, idle))
    _add_reserved(sums, ask, names, unused)
    total = _add_energy(sums, ask, names, energy)
    beside = {"starts": read_starts(connection), **describe_energy(total)}
    return _build_report(ask, names, sums, spans).model_copy(update=beside)


def _read_energy(connection: sa.Connection, ask: ReportQuery) -> list[GroupEnergy]:
    keys = [key for key in ask.key_columns if key != "job_id"]
    found = read_energy(connection, ask.since_s, ask.until_s, keys, tenant_id=ask.tenant_id)
    return list(found)


def _add_energy(
    sums: dict[RowLabel, RowSum], ask: ReportQuery, names: NameIndex, energy: Iterable[GroupEnergy]
) -> EnergySum | None:
    """Add measured energy to the rows, and return the sum; energy is not kept by job or card."""
    total: EnergySum | None = None
    for group in energy:
        total = group.energy if total is None else total + group.energy
        if "job" in ask.by or "card" in ask.by:
            continue
        label = RowLabel(group.kind)
        if group.kind == "tenant":
            label = _build_label(ask, names, group.ids, None)
        entry = sums[label]
        entry.energy = group.energy if entry.energy is None else entry.energy + group.energy
    return total


def _add_holding(entry: RowSum, ask: ReportQuery, names: NameIndex, holding: GroupHolding) -> None:
    entry.amount += holding.amount
    if ask.prices:
        card = names.cards[holding.device_id]
        entry.cost += ask.prices.get_price(card.model) * ask.prices.count_card_seconds(
            holding.amount, card.memory_mib
        )


def _add_known(one: int | None, other: int | None) -> int | None:
    """Add two figures of which each may be unknown; None only if both are."""
    if one is None or other is None:
        return other if one is None else one
    return one + other


def _build_label(
    ask: ReportQuery, names: NameIndex, ids: Mapping[str, int | None], device_id: int | None
) -> RowLabel:
    card = names.cards[device_id] if "card" in ask.by and device_id is not None else None
    user_id = ids.get("user_id")
    job_id = ids.get("job_id")
    # A user sees itself by name and the rest of its tenant as one row: neither names nor jobs of
    # others, but their sum, so that the rows still add up.
    hidden = ask.named_user_id is not None and user_id is not None and user_id != ask.named_user_id
    job = names.jobs.get(job_id) if job_id and not hidden else None
    unnamed = f"#{job_id}" if job_id and not hidden else None
    project_id = None if hidden and "project" not in ask.by else ids.get("project_id")
    return RowLabel(
        kind="tenant",
        tenant=names.tenants.get(ids.get("tenant_id") or 0),
        project=names.projects.get(project_id or 0),
        user=OTHERS if hidden else names.users.get(user_id or 0),
        job=job.id if job else unnamed,
        job_name=job.name if job else None,
        sharing=job.sharing if job else None,
        device=card.name if card else None,
        model=card.model if card else None,
    )


def _add_remainders(
    sums: dict[RowLabel, RowSum],
    ask: ReportQuery,
    names: NameIndex,
    holdings: Iterable[GroupHolding],
    spans: Mapping[int, Mapping[Any, UsageAmount]],
) -> Mapping[str, UsageAmount]:
    """Add idle, overhead and unmanaged: for each card, its capacity less what was held of it.

    Returns: what was idle of each model.
    """
    idle: dict[str, UsageAmount] = defaultdict(lambda: ZERO)
    taken: dict[int, dict[Any, UsageAmount]] = defaultdict(lambda: defaultdict(lambda: ZERO))
    charged: dict[tuple[int, Any], Fraction] = defaultdict(Fraction)
    for holding in holdings:
        taken[holding.device_id][holding.under] += holding.amount
        if ask.prices:
            memory_mib = names.cards[holding.device_id].memory_mib
            charged[holding.device_id, holding.under] += ask.prices.count_card_seconds(
                holding.amount, memory_mib
            )
    # Rows of zeros too: that nothing was idle is an answer.
    for kind in REMAINDER_OF.values() if "card" not in ask.by else ():
        sums[RowLabel(kind)] = RowSum()
    for device_id, total in spans.items():
        card = names.cards[device_id]
        shown = {"device": card.name, "model": card.model} if "card" in ask.by else {}
        rest = compute_remainders(total, taken[device_id])
        idle[card.model] += rest["idle"]
        for under, kind in REMAINDER_OF.items():
            entry = sums[RowLabel(kind, **shown)]
            entry.amount += rest[kind]
            if ask.prices and under in total:
                seconds = Fraction(total[under].card_milliseconds, WHOLE_MILLI)
                entry.cost += ask.prices.get_price(card.model) * (
                    seconds - charged[device_id, under]
                )
    return idle


def _add_reserved(
    sums: dict[RowLabel, RowSum], ask: ReportQuery, names: NameIndex, unused: Iterable[UnusedTime]
) -> None:
    """Add what tenants reserved and no job used; of the whole pool it is taken from idle."""
    for one in unused:
        cost = Fraction(0)
        if ask.prices:
            seconds = ask.prices.count_card_seconds(one.amount, one.memory_mib)
            cost = ask.prices.get_price(one.model) * seconds
        entry = sums[RowLabel("reserved", tenant=names.tenants.get(one.tenant_id))]
        entry.amount += one.amount
        entry.cost += cost
        if ask.tenant_id is None:
            idle = sums[RowLabel("idle")]
            idle.amount -= one.amount
            idle.cost -= cost


# Writing it out ------------------------------------------------------------------------------


def _build_report(
    ask: ReportQuery,
    names: NameIndex,
    sums: Mapping[RowLabel, RowSum],
    spans: Mapping[int, Mapping[Any, UsageAmount]],
) -> ReportOut:
    entries = [item for item in sums.items() if has_content(ask, *item)]
    entries.sort(key=get_sort_key)
    costs, total_cost = round_to_total([entry.cost for _, entry in entries])
    rows: list[ReportRow] = []
    rows_sum = ZERO
    for (label, entry), cost in zip(entries, costs, strict=True):
        rows_sum += entry.amount
        rows.append(build_row(label, entry, cost if ask.prices else None))
    # A tenant's report has no capacity of its own: its rows are the whole.
    capacity = rows_sum
    if ask.tenant_id is None:
        capacity = ZERO
        for total in spans.values():
            capacity = sum(total.values(), capacity)
    return ReportOut(
        since_ns=ask.since_s * NANOS_PER_SECOND,
        until_ns=ask.until_s * NANOS_PER_SECOND,
        by=list(ask.by),
        capacity_card_milliseconds=capacity.card_milliseconds,
        capacity_memory_mib_seconds=capacity.memory_mib_seconds,
        rows=rows,
        closes=rows_close(rows, capacity),
        simulated=_is_simulated(names),
        currency=ask.prices.currency if ask.prices else None,
        total_cost=total_cost if ask.prices else None,
        rule=_describe_rule(ask),
        resolution_seconds=ask.marks.get_resolution(ask.since_s)
        if ask.since_s < ask.until_s
        else 1,
    )


def _is_simulated(names: NameIndex) -> bool | None:
    kinds = {card.simulated for card in names.cards.values()}
    return kinds.pop() if len(kinds) == 1 else None


def _describe_rule(ask: ReportQuery) -> str:
    """Describe how the report was counted, in sentences for people."""
    parts = ["whole seconds of the ledger's clock, times thousandths of a card"]
    if ask.since_s < ask.marks.fine_s:
        parts.append(
            f"kept by the hour before {format_instant(ask.marks.fine_s * NANOS_PER_SECOND)}"
        )
    if ask.since_s < ask.marks.coarse_s:
        without = " and without jobs" if "job" in ask.by else ""
        parts.append(
            f"by the day{without} before {format_instant(ask.marks.coarse_s * NANOS_PER_SECOND)}"
        )
    if ask.tenant_id is not None:
        parts.append("one tenant's part of the books, whose sum stands for the capacity")
    if ask.prices:
        parts.append(ask.prices.description)
    return "; ".join(parts)
