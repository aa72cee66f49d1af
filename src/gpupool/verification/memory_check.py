"""Checks the memory limit of a share, and that a neighbour keeps its memory."""

from __future__ import annotations

from typing import Any

from gpupool.base.units import MIB, NANOS_PER_SECOND, format_mib
from gpupool.verification.check_run import (
    TOUCHED_BYTES,
    CheckRun,
)
from gpupool.verification.findings import PromiseFinding
from gpupool.verification.verification_job import VerificationJob


def check_memory(run: CheckRun) -> None:
    """Check that a job sees its share as the card, and is refused more memory.

    A job of the second tenant runs beside it; it must keep all of its memory.
    """
    touched = min(TOUCHED_BYTES, run.share_bytes // 2)
    words = (
        "--memory",
        f"{touched // MIB}MiB",
        "--seconds",
        "120",
        "--interval-ms",
        "100",
        "--watch-memory",
    )
    near = run.submit_burn("near", *words, milli=200, tenant=run.second_tenant)
    near.await_line(lambda record: record.find_first("stretch"), "its first stretch")
    over = run.submit_burn("over", "--over-allocate", milli=200)
    over.await_end()
    refused = over.record.find_first("refused")
    if refused is None:
        raise over.build_silence_error("being refused")
    # All that it has written by now: what counts is that it goes on after the refusal.
    near.read_log(0)
    so_far = near.record.list_stretches()
    near.await_load((so_far[-1].end_ns - so_far[0].begin_ns) / NANOS_PER_SECOND + 0.5)
    state = near.fetch_job()["state"]
    _judge_memory(run, over.get_card(), refused, near, state)
    run.stop_job(near)


def _judge_memory(
    run: CheckRun, card: dict[str, Any], refused: dict[str, Any], near: VerificationJob, state: str
) -> None:
    share = run.share_bytes
    granted = near.job["seats"][0]["uuid"]
    run.add_findings(
        PromiseFinding(
            "card-seen",
            "A program sees the card that was granted, by its uuid",
            granted,
            card["uuid"],
            card["uuid"] == granted,
            {"granted": granted, "seen": card["uuid"]},
        ),
        PromiseFinding(
            "limit-seen",
            "A program sees its share as the card",
            format_mib(share),
            format_mib(card["total_bytes"]),
            card["total_bytes"] == share,
            {
                "share_bytes": share,
                "seen_bytes": card["total_bytes"],
                "free_bytes": card["free_bytes"],
            },
        ),
    )
    given = refused["given_bytes"]
    most = share
    # The driver gives memory in pages: up to 4 MiB of the free memory may be lost to rounding.
    least = card["free_bytes"] - 4 * MIB
    run.add_findings(
        PromiseFinding(
            "limit-held",
            "More is refused with CUDA_ERROR_OUT_OF_MEMORY, and not before",
            f"{format_mib(least)} to {format_mib(most)}",
            f"{format_mib(given)} were given",
            least <= given <= most,
            {
                "given_bytes": given,
                "share_bytes": share,
                "free_at_start_bytes": card["free_bytes"],
            },
        )
    )
    totals: set[int] = set()
    for line in (*near.record.list_lines("memory"), *near.record.list_lines("card")):
        totals.add(line["total_bytes"])
    still = state == "running" and totals == {share}
    run.add_findings(
        PromiseFinding(
            "neighbour-memory",
            "A neighbour of another tenant meanwhile has all of its own",
            f"{format_mib(share)}, running",
            f"{', '.join(map(format_mib, sorted(totals)))}, {state}",
            still,
            {"seen_bytes": sorted(totals), "state": state},
        )
    )
