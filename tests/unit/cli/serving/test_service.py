"""What `gpupool service` prints and asks for."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.errors import BadOption
from gpupool.cli.serving.rule_options import build_new_rule
from gpupool.terminal.parser import parse_command
from gpupool.wire.serving.services import (
    ReplicaOut,
    ServiceOut,
    ServicePlanOut,
    ServiceRecent,
    ServiceRule,
)
from tests.unit.cli.golden import AnswerWith, GoldenLine, TypedLine


def make_replica(number: int, **more: Any) -> ReplicaOut:
    usual: dict[str, Any] = {
        "number": number,
        "state": "ready",
        "job": f"j-00000000{number:02}",
        "job_state": "running",
        "port": 7999 + number,
        "requests": 3,
        "created_ns": 10**18,
        "ready_ns": 10**18,
    }
    return ReplicaOut(**{**usual, **more})


def make_recent() -> ServiceRecent:
    return ServiceRecent(
        seconds=300, requests=126, errors=2, per_second=0.42, p50_seconds=0.84, p95_seconds=4.75
    )


def make_service() -> dict[str, Any]:
    replicas = [
        make_replica(3, state="starting", job_state="pending", ready_ns=None, requests=0, reason="waits: no room yet"),
        make_replica(2),
        make_replica(1, state="ended", job_state="failed", requests=0, reason="its job ended"),
    ]  # fmt: skip
    return ServiceOut(
        id="v-0000000001",
        name="web",
        tenant="default",
        user="ada",
        template=None,
        state="active",
        explain="1 of 2 healthy; replica 3 waits: no room yet",
        path="/services/web/",
        rule=ServiceRule(min_replicas=1, max_replicas=4, check_path="/health"),
        port=8000,
        desired=2,
        ready=1,
        live=2,
        load=17.25,
        waiting=2,
        recent=make_recent(),
        gpu_milli=500,
        cost_per_hour_micro=1_250_000,
        currency="EUR",
        replicas=replicas,
        scaled_ns=None,
        created_ns=10**18,
    ).model_dump(mode="json")


def test_a_service_is_shown_with_its_replicas(
    golden_line: GoldenLine, answer_with: AnswerWith
) -> None:
    answer_with("GET", "services/web", make_service())
    golden_line("service-show", "service show web")


@pytest.mark.parametrize(
    ("recent", "line"),
    [
        (None, "-- in the last 5m"),
        (
            {"seconds": 40, "per_second": 12.34, "p50_seconds": None, "p95_seconds": None},
            "12.3 requests/s, p50 --, p95 --, 2 errors (1.6 %) in the last 40s",
        ),
        (
            {"per_second": 0.0033, "requests": 1, "errors": 0, "p50_seconds": 42.3},
            "0.0033 requests/s, p50 42 s, p95 4.8 s, 0 errors (0.0 %) in the last 5m",
        ),
    ],
    ids=["no-request", "web-sockets-alone", "one-request"],
)
def test_a_figure_that_is_not_known_is_a_dash(
    type_line: TypedLine, answer_with: AnswerWith, recent: dict[str, Any] | None, line: str
) -> None:
    usual = make_recent().model_dump(mode="json")
    told = None if recent is None else usual | recent
    answer_with("GET", "services/web", make_service() | {"recent": told})
    code, out, _ = type_line("service show web")
    assert code == 0
    assert f"  answers    {line}\n" in out


def test_a_server_of_an_earlier_release_tells_no_answers(
    type_line: TypedLine, answer_with: AnswerWith
) -> None:
    earlier = make_service()
    for name in ("recent", "gpu_milli", "cost_per_hour_micro", "currency"):
        del earlier[name]
    answer_with("GET", "services/web", earlier)
    _, out, _ = type_line("service show web")
    assert "-- in the last 5m" in out
    assert "  holds      --\n" in out


def test_what_is_held_without_a_price_costs_a_dash(
    type_line: TypedLine, answer_with: AnswerWith
) -> None:
    answer_with("GET", "services/web", make_service() | {"cost_per_hour_micro": None})
    _, out, _ = type_line("service show web")
    assert "  holds      0.50 GPU, -- an hour\n" in out


@pytest.mark.parametrize(
    ("part", "lines"),
    [
        (
            {
                "ends": [
                    {"number": 2, "job": "j-2", "requests": 3},
                    {"number": 1, "job": None, "requests": 0},
                ]
            },
            (
                "would end replica 2 (j-2, requests under way: 3)\n"
                "would end replica 1 (--, requests under way: 0)\n"
            ),
        ),
        ({"starts": 2}, "would start 2 more\n"),
        ({}, "would start and end no replica\n"),
    ],
    ids=["ends", "starts", "nothing"],
)
def test_a_dry_run_prints_the_plan_and_changes_nothing(
    type_line: TypedLine, answer_with: AnswerWith, part: dict[str, Any], lines: str
) -> None:
    rule = ServiceRule(min_replicas=1, max_replicas=1)
    plan = ServicePlanOut(rule=rule, desired_before=2, desired=1, starts=0, ends=[])
    answer_with("POST", "services/web/plan", plan.model_dump(mode="json") | part)
    code, out, _ = type_line("service scale web 1 --dry-run")
    assert code == 0
    assert out == f"{lines}web: 1 to 1 replicas, 2 -> 1 now\n"


def test_services_are_listed(golden_line: GoldenLine, answer_with: AnswerWith) -> None:
    answer_with("GET", "services", {"items": [make_service() | {"load": None}], "next": None})
    golden_line("service-list", "service list")


def test_an_update_without_an_option_is_refused(type_line: TypedLine) -> None:
    code, _, err = type_line("service update web")
    assert code == 2
    assert "gpupool service update --help" in err


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ("", {}),
        ("--min 2", {"min_replicas": 2, "max_replicas": 2}),
        ("--min 0", {"min_replicas": 0, "max_replicas": 1}),
        ("--max 3", {"min_replicas": 1, "max_replicas": 3}),
        (
            "--min 1 --max 3 --measure gpu --target 60 --down-after 1m --check-path /h",
            {
                "min_replicas": 1,
                "max_replicas": 3,
                "measure": "gpu",
                "target": 60,
                "down_seconds": 60,
                "check_path": "/h",
            },
        ),
    ],
)
def test_options_make_a_rule(words: str, rule: dict[str, Any]) -> None:
    typed = ["create", "web", *words.split(), "--", "--gpu", "0.5", "--", "serve", "{port}"]
    assert build_new_rule(parse_command("service", typed)) == rule
    ServiceRule.model_validate(rule)


def test_a_number_out_of_bounds_is_refused() -> None:
    with pytest.raises(BadOption, match="from 0 to 64"):
        parse_command("service", ["update", "web", "--min", "65"])
