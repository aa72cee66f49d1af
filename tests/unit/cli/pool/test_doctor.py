"""`gpupool doctor`: rows about a pool, its machine and its fence."""

from __future__ import annotations

import pytest

from gpupool import __version__
from gpupool.cli.pool import doctor
from tests.unit.cli.sample import pool


def test_the_doctor_says_what_the_running_pool_is(capsys: pytest.CaptureFixture[str]) -> None:
    checks = list(
        doctor._describe_pool(
            {**pool(), "version": "9.9.9", "ready": False}, [{"name": "n", "ready": False}], "/s"
        )
    )
    assert [(check["name"], check["state"], check["text"]) for check in checks] == [
        ("pool", "warn", "answers at /s, pid 1234, still taking its jobs back"),
        ("versions", "warn", f"client {__version__}, server 9.9.9"),
        ("cards", "warn", "of these nodes nothing is known now: n"),
    ]


def test_the_doctor_says_how_well_a_share_is_held_and_what_is_missing() -> None:
    fence = {
        "level": "soft",
        "why": "w",
        "way": "by name",
        "missing": [],
        "unclassified": [],
        "unclassified_count": 0,
    }
    known = {"fence": {**fence, "reaction": "kill"}}
    held = doctor._check_fence(known, False)
    assert (held["state"], held["text"]) == (
        "ok",
        "shares of its cards: soft: w; by name; who leaves it: kill",
    )
    newer = {
        **known["fence"],
        "level": "advisory",
        "unclassified": ["cuA", "cuB", "cuC", "cuD"],
        "unclassified_count": 9,
    }
    assert (
        "unknown to this fence: cuA, cuB, cuC, …"
        in doctor._check_fence({"fence": newer}, False)["text"]
    )
    alone = {**known["fence"], "missing": ["gpupool-arbiter"]}
    assert doctor._check_fence({"fence": alone}, True)["state"] == "warn"
    assert (
        doctor._check_fence({"fence": {**known["fence"], "level": "none"}}, True)["state"] == "warn"
    )
    assert doctor._check_fence({}, False)["state"] == "warn"


def test_what_the_host_found_is_taken_as_it_is() -> None:
    said = {
        "checks": [
            {"name": "driver", "state": "ok", "text": "none", "next": "gpupool up --sim 4xL40S"}
        ]
    }
    assert doctor._check_facts(said, simulated=False) == said["checks"]


def test_accounting_that_is_off_is_a_row_of_information_and_no_row_elsewhere() -> None:
    known = {"driver_version": "580", "cgroups": "v2", "accounting": "off on 1 of 2 cards"}
    rows = doctor._check_facts(known, simulated=False)
    assert [(one["state"], one["text"]) for one in rows if one["name"] == "accounting"] == [
        ("ok", known["accounting"])
    ]
    del known["accounting"]
    assert [one["name"] for one in doctor._check_facts(known, simulated=False)] == [
        "driver",
        "cgroups",
        "fence",
    ]
