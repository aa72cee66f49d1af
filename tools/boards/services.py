"""The board of services: their requests, their replicas, and what the pool refused."""

from __future__ import annotations

from boards.panels import Board, Panel, Query, Row, Variable
from boards.selectors import JOB, RATE, add_up, select

_FAMILY = ("gpupool_service_desired_replicas",)
_LEGEND = "{{tenant}}/{{service_name}}"
_BY = "tenant, service_name"


def _select(name: str, **exact: str) -> str:
    return select(f"gpupool_service_{name}", "tenant", "service_name", **exact)


def _rate(name: str) -> str:
    return f"rate({_select(name)}{RATE})"


def _errors() -> str:
    matched = _select("requests_total").replace("}", ',status=~"5xx|broken"}')
    return f"rate({matched}{RATE})"


def _quantile(part: str) -> Query:
    rates = f"sum by ({_BY}, le) ({_rate('request_seconds_bucket')})"
    return Query(f"histogram_quantile({part}, {rates})", _LEGEND)


SERVICES = Board(
    "services",
    "Services",
    "What services answer and how fast, how many replicas they have, and what the pool refused.",
    (JOB, Variable("tenant", _FAMILY), Variable("service_name", _FAMILY)),
    (
        Row(
            "Now",
            (
                Panel(
                    "stat",
                    "Requests a second",
                    (Query(f"sum({_rate('requests_total')})"),),
                    "reqps",
                    6,
                ),
                Panel(
                    "stat",
                    "Errors",
                    (Query(f"sum({_errors()}) / sum({_rate('requests_total')})"),),
                    "percentunit",
                    6,
                    "Answers of class 5xx and answers that broke off.",
                    red_from=0.05,
                ),
                Panel("stat", "Under way", (Query(f"sum({_select('in_flight')})"),), width=6),
                Panel(
                    "stat",
                    "Services without a healthy replica",
                    (
                        Query(
                            f"count(({_select('desired_replicas')} > 0) and on (job, instance, {_BY}) "
                            f"({_select('replicas', state='ready')} == 0)) or vector(0)"
                        ),
                    ),
                    width=6,
                    red_from=1,
                ),
            ),
        ),
        Row(
            "Requests",
            (
                Panel(
                    "timeseries",
                    "Requests by service",
                    (Query(add_up(_BY, _rate("requests_total")), _LEGEND),),
                    "reqps",
                    is_stacked=True,
                ),
                Panel(
                    "timeseries",
                    "Requests by status",
                    (Query(add_up("status", _rate("requests_total")), "{{status}}"),),
                    "reqps",
                    description="1xx: WebSockets; broken: the answer broke off; left: the caller did.",
                ),
                Panel(
                    "timeseries",
                    "Errors",
                    (
                        Query(
                            f"{add_up(_BY, _errors())} / {add_up(_BY, _rate('requests_total'))}",
                            _LEGEND,
                        ),
                    ),
                    "percentunit",
                ),
                Panel("timeseries", "Answer time, median", (_quantile("0.5"),), "s"),
                Panel("timeseries", "Answer time, 95th percentile", (_quantile("0.95"),), "s"),
                Panel(
                    "timeseries",
                    "Under way",
                    (Query(add_up(_BY, _select("in_flight")), _LEGEND),),
                    is_stacked=True,
                ),
            ),
        ),
        Row(
            "Replicas",
            (
                Panel(
                    "timeseries",
                    "Replicas by state",
                    (Query(add_up("state", _select("replicas")), "{{state}}"),),
                    is_stacked=True,
                ),
                Panel(
                    "timeseries",
                    "Healthy and desired",
                    (
                        Query(_select("replicas", state="ready"), f"{_LEGEND} healthy"),
                        Query(_select("desired_replicas"), f"{_LEGEND} desired"),
                    ),
                ),
                Panel(
                    "timeseries",
                    "At the maximum",
                    (Query(f"{_select('desired_replicas')} / {_select('max_replicas')}", _LEGEND),),
                    "percentunit",
                ),
            ),
        ),
        Row(
            "Waits and refusals",
            (
                Panel(
                    "timeseries",
                    "Requests that wait for a replica",
                    (Query(add_up(_BY, _select("waiting")), _LEGEND),),
                ),
                Panel(
                    "timeseries",
                    "Cold starts, last hour",
                    (Query(f"increase({_select('cold_starts_total')}[1h])", _LEGEND),),
                ),
                Panel(
                    "timeseries",
                    "Answers of the pool itself, by reason",
                    (Query(add_up("reason", _rate("rejects_total")), "{{reason}}"),),
                    "reqps",
                ),
            ),
        ),
    ),
)
