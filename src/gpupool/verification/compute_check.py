"""Checks the compute of shares that run beside each other: fixed, mixed and burst."""

from __future__ import annotations

from typing import Final

from gpupool.base.fairness import compute_jain_index
from gpupool.base.units import NANOS_PER_MILLISECOND, NANOS_PER_SECOND
from gpupool.verification.check_run import (
    CHANGE_NS,
    SETTLE_NS,
    CheckRun,
    find_overlap,
    format_error,
    format_percent,
)
from gpupool.verification.findings import PromiseFinding, RateLine, RateTimeline, ShareBar, TimeMark
from gpupool.verification.statistics import (
    RateEstimate,
    RateStretch,
    compute_mean_rate,
    estimate_mean,
    find_change,
    list_window_rates,
)
from gpupool.verification.verification_job import VerificationJob

#: Jain's index of the parts that equal claims get; 1 is perfectly fair.
FAIRNESS: Final = 0.98
#: Thousandths of the card; together they fill it.
SHARES: Final = (100, 300, 600)


def check_fixed(run: CheckRun) -> None:
    """Check that three fixed shares beside each other get what they asked for."""
    # One second more than is measured: the jobs do not start at one instant.
    seconds = f"{run.scale.split + 1:g}"
    words = ("--kernel-us", "500", "--seconds", seconds, "--interval-ms", "100")
    tasks: list[VerificationJob] = []
    for number, milli in enumerate(SHARES):
        # The first share is another tenant's: two ratios, within a tenant and between two.
        tenant = run.second_tenant if number else run.first_tenant
        tasks.append(run.submit_burn(f"fixed-{milli}", *words, milli=milli, tenant=tenant))
    rates = _measure_rates(run, "fixed", tasks, [f"fixed {milli / 1000:g}" for milli in SHARES])
    _judge_fixed(run, rates)


def check_mixed(run: CheckRun) -> None:
    """Check that graphs and long kernels beside each other get equal parts."""
    loads = (
        ("graphs", ("--graph", "20", "--kernel-us", "100")),
        ("20-ms", ("--long-kernel", "20")),
    )
    seconds = ("--seconds", f"{run.scale.mixed + 1:g}", "--interval-ms", "100")
    tasks = [run.submit_burn(name, *words, *seconds, milli=500) for name, words in loads]
    _measure_rates(run, "mixed", tasks, [f"{name} 0.5" for name, _ in loads], [500, 500])


def _measure_rates(
    run: CheckRun,
    key: str,
    tasks: list[VerificationJob],
    names: list[str],
    shares: list[int] | tuple[int, ...] = SHARES,
) -> list[RateEstimate]:
    """Measure the rate of each job while all of them ran, and add a finding for each."""
    for task in tasks:
        task.await_end()
    series = [task.record.list_stretches() for task in tasks]
    begin, end = find_overlap(series)
    found = []
    for name, milli, one in zip(names, shares, series, strict=True):
        got = estimate_mean(list_window_rates(one, begin, end, run.scale.window_ns))
        found.append(got)
        run.found.bars.append(ShareBar(name, milli / 1000, got.mean, got.error))
        run.add_findings(
            _judge_share(
                run,
                f"{key}-{milli}-{name.split()[0]}",
                name,
                milli,
                got,
                (end - begin) / NANOS_PER_SECOND,
            )
        )
    lines = [RateLine(name, one) for name, one in zip(names, series, strict=True)]
    levels = sorted({milli / 1000 for milli in shares})
    run.found.timelines.append(RateTimeline(f"{', '.join(names)} on one card", lines, (), levels))
    return found


def _judge_share(
    run: CheckRun, key: str, name: str, milli: int, got: RateEstimate, seconds: float
) -> PromiseFinding:
    asked = milli / 1000
    points = run.scale.points
    wrong = abs(got.mean - asked) * 100
    least = format_percent(run.scale.delivered)
    return PromiseFinding(
        key,
        f"{name}: the part of the card it asked for, over {seconds:.0f} s",
        f"{format_percent(asked, 1)} ± {points:g} points, at least {least} of it delivered",
        f"{format_percent(got.mean, 1)} ± {format_error(got)}, {format_percent(got.mean / asked, 1)} delivered",
        wrong <= points and got.mean >= run.scale.delivered * asked,
        {
            "asked": asked,
            "measured": got.mean,
            "error95": got.error,
            "windows": got.count,
            "delivered": got.mean / asked,
        },
    )


def _judge_fixed(run: CheckRun, rates: list[RateEstimate]) -> None:
    parts = [rate.mean / (milli / 1000) for rate, milli in zip(rates, SHARES, strict=True)]
    fair = compute_jain_index(parts)
    run.add_findings(
        PromiseFinding(
            "fairness",
            "Each has the same part of what it asked for (Jain's index)",
            f"at least {FAIRNESS:g}",
            f"{fair:.4f}",
            fair >= FAIRNESS,
            {"jain": fair},
        )
    )
    asked = SHARES[2] / SHARES[1]
    got = rates[2].mean / max(rates[1].mean, 1e-9)
    two = run.second_tenant is not None
    run.add_findings(
        PromiseFinding(
            "ratio",
            f"{'Two jobs of one tenant' if two else 'Two jobs'}: the ratio of what they asked for",
            f"{asked:.2f} ± {format_percent(run.scale.ratio)}",
            f"{got:.3f}",
            abs(got / asked - 1) <= run.scale.ratio,
            {"asked": asked, "measured": got},
        )
    )
    asked = SHARES[1] / SHARES[0]
    got = rates[1].mean / max(rates[0].mean, 1e-9)
    text = f"{got:.3f}" if two else "not shown: only an admin can make tenants"
    run.add_findings(
        PromiseFinding(
            "tenants",
            "Two tenants: the ratio of what they asked for",
            f"{asked:.2f} ± {format_percent(run.scale.ratio)}",
            text,
            abs(got / asked - 1) <= run.scale.ratio if two else None,
            {"asked": asked, "measured": got},
        )
    )


def check_burst(run: CheckRun) -> None:
    """Check that a burst share uses an idle card and gives back what a neighbour needs."""
    scale = run.scale
    words = ("--kernel-us", "1000", "--interval-ms", "50")
    lender = run.submit_burn("burst", *words, "--seconds", "60", milli=300, sharing="burst")
    lender.await_load(scale.alone)
    guest = run.submit_burn(
        "comes", *words, "--seconds", f"{scale.beside:g}", milli=500, tenant=run.second_tenant
    )
    guest.await_end()
    theirs = guest.record.list_stretches()
    since = (
        (theirs[-1].end_ns - lender.record.list_stretches()[0].begin_ns) / NANOS_PER_SECOND
        if theirs
        else 0.0
    )
    lender.await_load(since + scale.alone)
    run.stop_job(lender)
    _judge_burst(run, lender.record.list_stretches(), theirs)


def _judge_burst(run: CheckRun, mine: list[RateStretch], theirs: list[RateStretch]) -> None:
    came, went = find_overlap([mine, theirs], settle=False)
    alone = compute_mean_rate(mine, mine[0].begin_ns + SETTLE_NS, came - SETTLE_NS)
    after = compute_mean_rate(mine, went + 2 * SETTLE_NS, mine[-1].end_ns)
    beside = compute_mean_rate(mine, came + 2 * SETTLE_NS, went)
    delay = find_change(theirs, came, 0.0, 0.5)
    marks = (TimeMark(came, "a neighbour comes"), TimeMark(went, "and goes"))
    lines = (RateLine("burst 0.3", mine), RateLine("fixed 0.5", theirs))
    run.found.timelines.append(
        RateTimeline("What is idle is lent, and given back", lines, marks, (0.5, 1.0))
    )
    lone = min(alone or 0.0, after or 0.0)
    run.add_findings(
        PromiseFinding(
            "burst-alone",
            "A lone burst share of 0.3 has the card, also when a neighbour has gone",
            f"at least {format_percent(run.scale.delivered)}",
            f"{format_percent(alone or 0, 1)} before, {format_percent(after or 0, 1)} after",
            lone >= run.scale.delivered,
            {"before": alone, "after": after},
        ),
        PromiseFinding(
            "burst-given-back",
            "It gives back what a fixed neighbour of 0.5 is promised",
            f"within {CHANGE_NS // NANOS_PER_MILLISECOND} ms",
            "never" if delay is None else f"after {delay / NANOS_PER_MILLISECOND:.0f} ms",
            delay is not None and delay <= CHANGE_NS,
            {"milliseconds": None if delay is None else delay / NANOS_PER_MILLISECOND},
        ),
        PromiseFinding(
            "burst-guaranteed",
            "It keeps what it is promised itself",
            f"at least {format_percent(0.3 * run.scale.delivered, 1)}",
            f"{format_percent(beside or 0, 1)}",
            (beside or 0.0) >= 0.3 * run.scale.delivered,
            {"measured": beside},
        ),
    )
