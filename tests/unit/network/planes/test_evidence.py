"""Compiled files and reports of what targets have."""

from __future__ import annotations

import pytest

from gpupool.base.errors import BadInput, UnknownPlane, WrongState
from gpupool.wire.network.planes import PlaneReportIn
from tests.unit.network.planes.conftest import PlaneHouse


def report(house: PlaneHouse, target: str, **body: str) -> None:
    house.allocations.plane_evidence.report(house.admin, target, PlaneReportIn(**body))


def test_a_reported_hash_is_evidence_of_the_compiled_file(house: PlaneHouse) -> None:
    house.demand("infiniband")
    evidence = house.allocations.plane_evidence
    (file,) = evidence.list_files()
    assert (file.name, file.is_applied) == ("partitions.conf", False)
    report(house, file.name, hash=file.hash)
    (made,) = evidence.list_evidence()
    assert (made.source, made.hash, made.reporter) == ("hash", file.hash, "root")
    assert [one.is_applied for one in evidence.list_files()] == [True]
    (state,) = house.allocations.planes.get_plane(house.manager, "infiniband").nodes
    assert (state.in_force, state.seen_ns) == (True, made.seen_ns)
    house.give("node-1", "node-2")
    assert [one.is_applied for one in evidence.list_files()] == [False]
    states = house.allocations.planes.get_plane(house.manager, "infiniband").nodes
    assert [one.in_force for one in states] == [True, False]


def test_the_hash_of_an_older_file_is_refused(house: PlaneHouse) -> None:
    house.demand("infiniband")
    (old,) = house.allocations.plane_evidence.list_files()
    house.give("node-1", "node-2")
    with pytest.raises(WrongState, match="was compiled again since"):
        report(house, "partitions.conf", hash=old.hash)
    assert house.allocations.plane_evidence.list_evidence() == []


def test_what_was_read_replaces_what_was_applied(house: PlaneHouse) -> None:
    house.demand("infiniband")
    house.apply_files()
    report(house, "partitions.conf", text="Default=0x7fff : ALL=full ;\n")
    (state,) = house.allocations.planes.get_plane(house.manager, "infiniband").nodes
    assert not state.in_force
    (made,) = house.allocations.plane_evidence.list_evidence()
    assert made.source == "text"


def test_a_report_of_nothing_is_refused(house: PlaneHouse) -> None:
    house.demand("infiniband")
    cases: tuple[tuple[str, dict[str, str], type[Exception], str], ...] = (
        ("leaf-9.frr.conf", {"text": "!"}, UnknownPlane, "has no target 'leaf-9.frr.conf'"),
        ("partitions.conf", {}, BadInput, "either a hash or a text"),
        ("partitions.conf", {"text": "x", "hash": "0" * 64}, BadInput, "either a hash or a text"),
        ("leaf-1.frr.conf", {"hash": "0" * 64}, WrongState, "was compiled again"),
        ("node-1.pkeys", {"text": "none"}, BadInput, "there is no partition key"),
        ("disks.nvmet.sh", {"text": "[{}]"}, BadInput, "the text cannot be read"),
        ("disks.nvmet.sh", {"text": '{"subsystems": 3}'}, BadInput, "the text cannot be read"),
    )
    for target, body, error, message in cases:
        with pytest.raises(error, match=message):
            report(house, target, **body)
    assert house.allocations.plane_evidence.list_evidence() == []
