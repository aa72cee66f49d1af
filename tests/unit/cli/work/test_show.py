"""`gpupool show`: the thing that a name means, and every fact of it."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.cli.work import show
from gpupool.model.partition import ForeignPiece, PartitionSlot, write_foreign_pieces
from tests.unit.cli.golden import AnswerWith, GoldenLine, TypedLine
from tests.unit.cli.sample import NOON, card, job
from tests.unit.cli.sample import pool as sample_answer
from tests.unit.client.scripted_pool import ScriptedPool


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("show-job", "show train"),
        ("show-card", "show node-1:0"),
        ("show-node", "show node-1"),
        ("show-pool", "show"),
        ("show-nothing", "show nothing"),
        ("show-strange", "show ../../x"),
    ],
)
def test_show_prints_the_recorded_output(name: str, line: str, golden_line: GoldenLine) -> None:
    golden_line(name, line)


def array(**changes: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"name": "sweep", "id": "a-1", "size": 9, "first": 0, "last": 8}
    facts |= {
        "states": {"done": 2, "pending": 7},
        "next": "a-1.2",
        "reason": "full",
        "share": "1.00 GPU",
    }
    facts |= {"user": "alice", "tenant": "nlp", "project": "default", "priority": 0, "model": None}
    facts |= {"max_seconds": None, "reservation": None, "preemptible": False, "requeue": False}
    facts |= {"submitted_ns": NOON, "stopped_ns": None, "command": ["echo", "a b"]}
    return {**facts, **changes}


def test_a_name_of_several_jobs_is_looked_for_among_arrays(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("GET", "jobs/sweep", {"code": "GP-2045", "detail": "several", "hint": ""}, 409)
    answer_with("GET", "arrays/sweep", array())
    code, out, _ = type_line("show sweep")
    assert code == 0
    assert out.splitlines()[:4] == [
        "array          sweep  a-1",
        "jobs           9, 0 to 8",
        "states         2 done, 7 pending",
        "next           sweep.2",
    ]


def test_a_name_with_a_colon_is_asked_for_among_cards_alone(
    pool: ScriptedPool, type_line: TypedLine
) -> None:
    assert type_line("show node-9:0")[0] == 5
    assert [one.target for one in pool.requests] == ["/api/v1/devices/node-9:0"]


@pytest.mark.parametrize(
    ("changes", "again"),
    [
        ({"preemptible": True, "preemptions": 2}, "yes, 2 times so far"),
        ({"requeue": True}, "only when it is lost"),
        ({"preemptions": 1}, "1 time so far"),
        ({}, None),
    ],
)
def test_requeue_says_when_it_may_happen_and_how_often_it_did(
    changes: dict[str, Any], again: str | None
) -> None:
    facts = dict(show.job_facts({**job(), **changes}))
    assert facts.get("may be preempted") == again


def test_numa_parts_are_named_with_amounts_where_there_are_several() -> None:
    parts = [{"numa": n, "cpu_milli": 1500, "host_bytes": 1 << 30} for n in (0, 1)]
    both = {**job(), "cpu_milli": 3000, "host_bytes": 2 << 30, "numa": parts}
    assert dict(show.job_facts(both))["of its node"] == (
        "3 processors + 2048 MiB: 1.5 processors + 1024 MiB of NUMA node 0, "
        "1.5 processors + 1024 MiB of NUMA node 1"
    )
    one = {**both, "numa": parts[:1]}
    assert dict(show.job_facts(one))["of its node"].endswith("MiB, of NUMA node 0")


def test_what_a_node_says_of_itself_is_written_for_people() -> None:
    fence = {"level": "soft", "way": "a private cache", "missing": [], "unclassified_count": 0}
    node: dict[str, Any] = {
        **dict.fromkeys(("cpu_milli", "host_bytes")),
        "name": "node-1",
        "simulated": False,
        "ready": True,
        "devices": 2,
        "last_seen_ns": 0,
        "labels": {},
        "numa": [],
        "facts": {"fence": fence, "cgroups": "v2"},
    }
    facts = dict(show.node_facts(node))
    assert facts["fence"] == "level: soft; way: a private cache"
    assert facts["cgroups"] == "v2"


def test_fence_is_unknown_until_the_node_has_said_it() -> None:
    assert show.describe_fence(job(state="pending", fence="none")) == "--"
    assert show.describe_fence(job(fence="none")) == "none"
    assert show.describe_fence(job(fence="soft", fence_why="no root")) == "soft: no root"


def test_a_private_command_is_not_shown() -> None:
    facts = dict(show.array_facts(array(private=True)))
    assert facts["command"] == "not shown: it is alice's"
    assert dict(show.array_facts(array()))["command"] == "echo 'a b'"


def test_a_pool_of_both_kinds_of_cards_is_partly_simulated() -> None:
    mixed = {**sample_answer(), "simulated": None}
    assert dict(show.pool_facts(mixed))["pool"].endswith("   partly SIMULATED")
    assert dict(show.pool_facts({**mixed, "devices": 0}))["pool"] == "p-0000000001"


def test_a_card_is_shown_with_what_other_tools_made_of_it() -> None:
    pieces = [
        ForeignPiece("an instance that gpupool did not create", PartitionSlot(4, 2, "2g")),
        ForeignPiece("2 virtual functions that gpupool did not create"),
    ]
    shown = show.device_facts({**card(), "facts": {"foreign": write_foreign_pieces(pieces)}})
    assert [value for key, value in shown if key == "foreign"] == [
        "slot 4 to 5: an instance that gpupool did not create",
        "2 virtual functions that gpupool did not create",
    ]


def test_a_card_that_serves_mps_clients_names_their_owner() -> None:
    facts = dict(show.device_facts({**card(), "mps_owner": "alice"}))
    assert facts["serves MPS of"] == "alice"
    assert facts["largest placeable"] == "MPS of alice alone"
    assert "serves MPS of" not in dict(show.device_facts(card()))


def test_a_job_without_a_card_says_its_node_and_nothing_of_a_fence() -> None:
    found = {**job(), "count": 0, "seats": [], "node": "node-1", "holds": {"memory": "none"}}
    facts = dict(show.job_facts(found))
    assert facts["cards"] == "none; it is on node-1"
    assert (facts["fence"], facts["enforced"]) == ("--", None)
