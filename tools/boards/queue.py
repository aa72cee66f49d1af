"""The board of the queue, the scheduler and the server."""

from __future__ import annotations

from boards.panels import Board, Panel, Query, Row
from boards.selectors import JOB, add_up, join_either, measure_rate, select


def _quantile(part: str, family: str) -> str:
    return f"histogram_quantile({part}, sum by (le) ({measure_rate(f'{family}_bucket')}))"


def _outcomes(family: str) -> str:
    return f"sum by (outcome) (increase({select(family)}[1d]))"


QUEUE = Board(
    "queue",
    "Queue",
    "What waits, why and for how long, and whether the scheduler and the server keep up.",
    (JOB,),
    (
        Row(
            "Now",
            (
                Panel(
                    "stat",
                    "Waiting",
                    (
                        Query(
                            join_either(
                                f"sum({select('gpupool_jobs', state='pending')})",
                                f"sum({select('gpupool_controller_waiting_pods')})",
                            )
                        ),
                    ),
                    width=6,
                ),
                Panel(
                    "stat",
                    "Running",
                    (Query(f"sum({select('gpupool_jobs', state='running')})"),),
                    width=6,
                ),
                Panel(
                    "stat",
                    "Oldest waits",
                    (Query(f"max({select('gpupool_queue_oldest_seconds')})"),),
                    "s",
                    6,
                    red_from=4 * 3600,
                ),
                Panel(
                    "stat",
                    "Broken promises, last day",
                    (
                        Query(
                            "sum(increase("
                            f"{select('gpupool_starts_promised_total', outcome='broken')}[1d]))"
                        ),
                    ),
                    width=6,
                    red_from=1,
                ),
            ),
        ),
        Row(
            "Jobs",
            (
                Panel(
                    "timeseries",
                    "Jobs by state",
                    (Query(add_up("state", select("gpupool_jobs")), "{{state}}"),),
                    is_stacked=True,
                ),
                Panel(
                    "timeseries",
                    "Kinds of waiting jobs, by reason",
                    (Query(add_up("reason", select("gpupool_queue_kinds")), "{{reason}}"),),
                ),
                Panel(
                    "timeseries",
                    "How long the oldest waits",
                    (Query(f"max({select('gpupool_queue_oldest_seconds')})", "oldest"),),
                    "s",
                ),
                Panel(
                    "timeseries",
                    "Promised starts, last day",
                    (Query(_outcomes("gpupool_starts_promised_total"), "{{outcome}}"),),
                ),
                Panel(
                    "timeseries",
                    "Estimated starts, last day",
                    (Query(_outcomes("gpupool_starts_estimated_total"), "{{outcome}}"),),
                ),
            ),
        ),
        Row(
            "Scheduler and server",
            (
                Panel(
                    "timeseries",
                    "Placements",
                    (
                        Query(
                            join_either(
                                f"sum({measure_rate('gpupool_scheduler_placements_total')})",
                                f"sum({measure_rate('gpupool_controller_releases_total')})",
                            ),
                            "placements",
                        ),
                    ),
                    "cps",
                ),
                Panel(
                    "timeseries",
                    "Time of a cycle",
                    (
                        Query(_quantile("0.5", "gpupool_scheduler_cycle_seconds"), "median"),
                        Query(_quantile("0.99", "gpupool_scheduler_cycle_seconds"), "99 %"),
                    ),
                    "s",
                ),
                Panel(
                    "timeseries",
                    "Stale plans",
                    (
                        Query(
                            f"sum({measure_rate('gpupool_scheduler_conflicts_total')})", "conflicts"
                        ),
                    ),
                    "cps",
                ),
                Panel(
                    "timeseries",
                    "Requests by status",
                    (
                        Query(
                            add_up("status", measure_rate("gpupool_api_requests_total")),
                            "{{status}}",
                        ),
                    ),
                    "reqps",
                ),
                Panel(
                    "timeseries",
                    "Time of a write",
                    (
                        Query(_quantile("0.5", "gpupool_store_write_seconds"), "median"),
                        Query(_quantile("0.99", "gpupool_store_write_seconds"), "99 %"),
                    ),
                    "s",
                ),
                Panel(
                    "timeseries",
                    "Checks that do not find all well",
                    (
                        Query(
                            add_up(
                                "check",
                                select("gpupool_check", state="warn")
                                + " or "
                                + select("gpupool_check", state="fail"),
                            ),
                            "{{check}}",
                        ),
                    ),
                    red_from=1,
                ),
            ),
        ),
    ),
)
