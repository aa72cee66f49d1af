"""`gpupool whatif`: what is asked of the server, and before and after side by side."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import pytest

from gpupool.base.errors import BadFraction, BadOption, UnknownModel
from gpupool.base.units import MIB
from gpupool.cli.planning.whatif import format_answer, make_request, parse_policy
from tests.unit.cli.golden import compare


def options(**given: Any) -> Namespace:
    return Namespace(
        **{"add": [], "remove": [], "policy": None, "quota": [], "horizon": "24h", **given}
    )


def side(**other: Any) -> dict[str, Any]:
    queue = {
        "waiting": 9,
        "start_now": 0,
        "start_later": 5,
        "wait_p50_seconds": 5400.0,
        "wait_p95_seconds": None,
    }
    queue |= {"promised": 1, "estimated": 3, "estimate_chance_pct": 68}
    return {
        "nodes": 2,
        "cards": 16,
        "queue": queue,
        "tenants": {"nlp": {**queue, "waiting": 4}},
        "allocation_now_pct": 98.4,
        "allocation_pct": 91.25,
        "largest_milli": 300,
        "whole_nodes": 0,
        "evictions": 0,
        "no_end": 3,
        "moved": 0,
        "horizon_seconds": 86400.0,
        **other,
    }


def test_what_is_typed_becomes_a_request() -> None:
    body = make_request(
        options(
            add=["2x8xH200", "4xL40S"],
            remove=["node-3"],
            policy="fgd",
            quota=["nlp=1.5"],
            horizon="7d",
        )
    )
    assert body == {
        "horizon_seconds": 7 * 86400,
        "add": [
            {"model": "H200", "memory_bytes": 143771 * MIB, "cards": 8, "nodes": 2},
            {"model": "L40S", "memory_bytes": 46068 * MIB, "cards": 4, "nodes": 1},
        ],
        "remove": ["node-3"],
        "policy": "fgd",
        "nominal_milli": {"nlp": 1500},
    }
    assert make_request(options()) == {"horizon_seconds": 86400}


def test_a_policy_is_of_placement_or_a_kind_of_sharing() -> None:
    assert parse_policy("fgd") == {"policy": "fgd"}
    assert parse_policy("burst") == {"sharing": "burst"}
    assert parse_policy("best-effort,fgd") == {"sharing": "best-effort", "policy": "fgd"}
    with pytest.raises(BadOption, match="fixed and burst exclude each other"):
        parse_policy("fixed,burst")
    with pytest.raises(BadOption, match="--policy mps"):
        parse_policy("mps")


def test_what_cannot_be_meant_is_refused_before_anybody_is_asked() -> None:
    with pytest.raises(UnknownModel):
        make_request(options(add=["4xL40X"]))
    with pytest.raises(BadOption, match="are alike"):
        make_request(options(add=["4xL40S+2xT4"]))
    with pytest.raises(BadOption, match="TENANT=CARDS"):
        make_request(options(quota=["nlp"]))
    with pytest.raises(BadFraction):
        make_request(options(quota=["nlp=-1"]))


def test_before_and_after_stand_side_by_side() -> None:
    queue = {
        "waiting": 11,
        "start_now": 6,
        "start_later": 5,
        "wait_p50_seconds": 0.0,
        "wait_p95_seconds": 7200.0,
    }
    after = side(
        cards=20,
        nodes=3,
        queue=queue,
        tenants={},
        moved=2,
        largest_milli=4000,
        horizon_seconds=3600.0,
        policy="default",
        sharing="burst",
        sharing_changed=3,
        sharing_unchanged=1,
        stranded_memory_bytes=80 << 30,
        currency="EUR",
        cost_month_micro=51_100_000_000,
    )
    compare("whatif", format_answer({"before": side(), "after": after}) + "\n")
