"""Checks a fixed share beside neighbours that are busy, crash and are killed."""

from __future__ import annotations

import time
from typing import Any, Final

from gpupool.base.units import MIB, NANOS_PER_SECOND, format_mib
from gpupool.verification.check_run import (
    SETTLE_NS,
    TOUCHED_BYTES,
    CheckRun,
    find_overlap,
    format_percent,
)
from gpupool.verification.findings import PromiseFinding, RateLine, RateTimeline, TimeMark
from gpupool.verification.statistics import RateStretch, compute_mean_rate
from gpupool.verification.verification_job import VerificationJob

#: CUDA_ERROR_ILLEGAL_ADDRESS.
ILLEGAL_ADDRESS: Final = 700


def check_neighbours(run: CheckRun) -> None:
    """Check that neighbours do not slow a fixed share, nor harm it."""
    scale = run.scale
    words = ("--kernel-us", "500", "--interval-ms", "100", "--seconds", "120")
    victim = run.submit_burn("quiet", *words, milli=300)
    victim.await_load(scale.alone + SETTLE_NS / NANOS_PER_SECOND)
    heavy = ("--long-kernel", "5", "--streams", "2", "--seconds", f"{scale.beside:g}")
    busy = run.submit_burn("busy", *heavy, milli=500, sharing="burst", tenant=run.second_tenant)
    busy.await_end()
    crash = run.submit_burn(
        "crash", "--seconds", "0.5", "--crash", milli=300, tenant=run.second_tenant
    )
    crashed = crash.await_end()
    touched = f"{min(TOUCHED_BYTES, run.share_bytes // 2) // MIB}MiB"
    shell = (
        '"$@" --memory '
        + touched
        + ' --seconds 60 & p=$!; sleep 1; kill -9 $p; wait $p; exec "$@" --over-allocate'
    )
    killed = run.submit_burn("killed", milli=300, tenant=run.second_tenant, shell=shell)
    killed.await_end()
    length = (
        (time.monotonic_ns() - victim.record.list_stretches()[0].begin_ns) / NANOS_PER_SECOND
        if run.bench.api.local
        else 0.0
    )
    victim.await_load(length + 0.5)
    state = victim.fetch_job()["state"]
    run.stop_job(victim)
    _judge_neighbours(run, victim, busy, crash, crashed, killed, state)


def _judge_neighbours(
    run: CheckRun,
    victim: VerificationJob,
    busy: VerificationJob,
    crash: VerificationJob,
    crashed: dict[str, Any],
    killed: VerificationJob,
    state: str,
) -> None:
    mine = victim.record.list_stretches()
    theirs = busy.record.list_stretches()
    came, went = find_overlap([mine, theirs], settle=False)
    alone = compute_mean_rate(mine, mine[0].begin_ns + SETTLE_NS, came - SETTLE_NS) or 0.0
    marks = [TimeMark(came, "busy neighbour"), TimeMark(went, "gone")]
    points = max(run.scale.points, 1.0)
    run.add_findings(
        PromiseFinding(
            "fixed-alone",
            "A fixed share of 0.3 alone on the card has its part and no more",
            f"30.0 % ± {points:g} points",
            format_percent(alone, 1),
            abs(alone - 0.3) * 100 <= points,
            {"measured": alone},
        )
    )
    run.add_findings(
        _judge_beside(
            run, "beside-busy", "a busy neighbour", alone, compute_mean_rate(mine, came, went)
        )
    )
    fell = crash.record.find_first("crashed")
    if fell is not None:
        marks.append(TimeMark(fell["at_ns"], "crash"))
        after = compute_mean_rate(mine, fell["at_ns"] - SETTLE_NS, fell["at_ns"] + NANOS_PER_SECOND)
        run.add_findings(
            _judge_beside(
                run, "beside-crash", "one that writes to an illegal address", alone, after
            )
        )
    result = fell["result"] if fell else None
    run.add_findings(
        PromiseFinding(
            "crash-contained",
            "A crash is the crashing program's alone",
            "CUDA_ERROR_ILLEGAL_ADDRESS there, the neighbour runs on",
            f"{result if result is not None else 'no error'} there, the neighbour is {state}",
            result == ILLEGAL_ADDRESS and crashed["exit_code"] == 1 and state == "running",
            {"result": result, "exit_code": crashed["exit_code"], "neighbour": state},
        )
    )
    _judge_killed(run, killed, mine, alone, marks)
    lines = (RateLine("fixed 0.3", mine), RateLine("busy, burst 0.5", theirs))
    run.found.timelines.append(
        RateTimeline("A share beside neighbours", lines, tuple(marks), (0.3,))
    )


def _judge_killed(
    run: CheckRun,
    killed: VerificationJob,
    mine: list[RateStretch],
    alone: float,
    marks: list[TimeMark],
) -> None:
    cards = killed.record.list_lines("card")
    refused = killed.record.find_first("refused")
    if len(cards) == 2:
        marks.append(TimeMark(cards[1]["at_ns"], "kill -9"))
        rate = compute_mean_rate(
            mine,
            cards[1]["at_ns"] - NANOS_PER_SECOND // 2,
            cards[1]["at_ns"] + NANOS_PER_SECOND // 2,
        )
        run.add_findings(
            _judge_beside(run, "beside-killed", "one that is killed with -9", alone, rate)
        )
    given = (refused or {}).get("given_bytes", 0)
    least = cards[0]["free_bytes"] - 4 * MIB if cards else 0
    run.add_findings(
        PromiseFinding(
            "killed-gives-back",
            "What a killed process held is its job's again at once",
            f"{format_mib(least)} to {format_mib(run.share_bytes)}",
            f"{format_mib(given)} were given after it",
            least <= given <= run.share_bytes and bool(cards),
            {"given_bytes": given, "free_before_bytes": least},
        )
    )


def _judge_beside(
    run: CheckRun, key: str, neighbour: str, alone: float, beside: float | None
) -> PromiseFinding:
    got = beside or 0.0
    slower = (1 - got / alone) * 100 if alone else 100.0
    most = max((1 - run.scale.delivered) * 100, run.scale.points / 0.3)
    return PromiseFinding(
        key,
        f"A fixed share of 0.3 beside {neighbour}: how much slower",
        f"at most {most:.0f} %",
        f"{slower:+.1f} % ({format_percent(alone, 1)} before, {format_percent(got, 1)} then)",
        slower <= most,
        {"before": alone, "then": got, "slower_percent": slower},
    )
