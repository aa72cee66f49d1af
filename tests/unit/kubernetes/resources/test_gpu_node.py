"""What is written into a GpuNode is read back as it was, and fits its schema."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpupool.kubernetes.ledger.billing_intervals import close_interval
from gpupool.kubernetes.manifests.crds import crds
from gpupool.kubernetes.manifests.gpu_node_crd import ended_schema, entry_schema
from gpupool.kubernetes.resources.closed_intervals import ClosedInterval
from gpupool.kubernetes.resources.gpu_node import Entry, EntryState, GpuNode
from gpupool.kubernetes.resources.gpu_node_status import ForeignUsage, ReportedCard, SlotUse
from gpupool.kubernetes.resources.gpu_time import GpuTime
from gpupool.kubernetes.resources.pod_constraints import AffinityTerm, HostPort, LabelSelector
from gpupool.model.allocation import Seat
from gpupool.model.claim import SharingKind
from gpupool.model.device import DeviceHealth
from gpupool.model.enforcement import FenceLevel
from gpupool.model.partition import ForeignPiece, PartitionSlot
from gpupool.probes.mig_tables import list_mig_profiles
from tests.support.kube_builders import gpu_node

ENTRY = Entry(
    "u1", "team", "a", "main", (Seat("GPU-0", 300, 1 << 30),), "team", SharingKind.BURST, -10, "team/train", "u9/main",
    EntryState.ACTIVE, 7, "default", 5,
)  # fmt: skip


def schema(path: str) -> dict[str, Any]:
    found: dict[str, Any] = crds()[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for part in path.split("."):
        found = found["items"] if part == "[]" else found["properties"][part]
    return found


def check(value: Any, against: dict[str, Any], at: str = "") -> None:
    """Types, words and required names, as far as our schemas go."""
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
    if "type" in against:
        assert isinstance(value, kinds[against["type"]]), at
    assert value in against.get("enum", [value]), at
    if isinstance(value, dict) and "properties" in against:
        assert set(value) <= set(against["properties"]), at
        assert set(against.get("required", ())) <= set(value), at
        for name, part in value.items():
            check(part, against["properties"][name], f"{at}.{name}")
    for part in value if isinstance(value, list) else ():
        check(part, against["items"], f"{at}[]")


def test_entries_are_read_back() -> None:
    assert Entry.from_json(ENTRY.to_json()) == ENTRY
    plain = Entry("u1", "team", "a", "main", ENTRY.seats, "team")
    assert Entry.from_json(plain.to_json()) == plain


def test_all_that_is_written_fits_the_definition() -> None:
    check(ENTRY.to_json(), entry_schema())
    ended = close_interval(ENTRY, 9)
    check(ended.to_json(), ended_schema())
    counted = close_interval(ENTRY, 9, GpuTime(0, 0, 0))
    check(counted.to_json(), ended_schema())
    assert (
        ClosedInterval.from_json(ended.to_json()),
        ClosedInterval.from_json(counted.to_json()),
    ) == (
        ended,
        counted,
    )
    check(
        ReportedCard("GPU-0", 0, "L40S", 1, "NVIDIA L40S", DeviceHealth.OK, "fine", True).to_json(),
        schema("status.cards.[]"),
    )
    cut = ReportedCard("GPU-0", 0, "H200", 1, profiles=list_mig_profiles("H200"))
    check(cut.to_json(), schema("status.cards.[]"))
    read = ReportedCard.from_json(cut.to_json()).profiles
    assert read == tuple(replace(one, profile_id=None) for one in list_mig_profiles("H200"))
    hard = SlotUse("u1", "main", "s1", 3, memory_level=FenceLevel.HARD)
    over = SlotUse("u1", "main", "s1", 3, True, GpuTime(0, 0, 0))
    for use in (over, hard, SlotUse("u1", "main")):
        check(use.to_json(), schema("status.slots.[]"))
        assert SlotUse.from_json(use.to_json()) == use
    rule = AffinityTerm("zone", LabelSelector((("app", "In", ("x",)),)), ("team",), LabelSelector())
    others = ForeignUsage(1, 2, 3, (HostPort(80),), (("ephemeral-storage", 1),), (rule,))
    check(others.to_json(), schema("status.others"))
    assert ForeignUsage.from_json(others.to_json()) == others
    check(gpu_node()["status"], schema("status"))


def test_a_partition_fits_the_definition_and_is_read_back() -> None:
    slot = PartitionSlot(4, 4, "3g.71gb")
    entry = replace(ENTRY, seats=(Seat("GPU-0", 428, 1 << 30, slot),))
    check(entry.to_json(), entry_schema())
    ended = close_interval(entry, 9)
    check(ended.to_json(), ended_schema())
    assert ClosedInterval.from_json(ended.to_json()).seats == entry.seats
    node = GpuNode.from_json(gpu_node(allocations=[entry.to_json(), _on("GPU-0").to_json()]))
    assert node.slots_by_card() == {"GPU-0": (slot,)}


def test_no_field_of_what_the_controller_alone_writes_costs_the_api_server_a_look() -> None:
    for path, of in (("spec.allocations.[]", entry_schema()), ("spec.ended.[]", ended_schema())):
        found = schema(path)
        assert "properties" not in found
        assert found["x-kubernetes-preserve-unknown-fields"] is True
        assert found["description"].startswith(f"fields: {', '.join(of['properties'])}")


def test_entries_may_be_records_or_lines_of_a_text() -> None:
    assert "type" not in schema("spec.allocations.[]")
    lines = GpuNode.from_json(gpu_node(allocations=[f"{ENTRY.text}\n{_on('GPU-1').text}"]))
    records = GpuNode.from_json(gpu_node(allocations=[ENTRY.to_json(), _on("GPU-1").to_json()]))
    assert lines.entries == records.entries == (ENTRY, _on("GPU-1"))


def test_a_card_that_an_agent_names_twice_is_one() -> None:
    made = gpu_node(count=2)
    made["status"]["cards"] *= 2
    assert [card.index for card in GpuNode.from_json(made).cards] == [0, 1]


def test_a_node_is_free_of_what_its_entries_hold() -> None:
    node = GpuNode.from_json(gpu_node("n0", 2, allocations=[Entry.to_json(_on("GPU-n0-1"))]))
    free = node.free_amounts()
    assert (free["GPU-n0-0"].gpu_milli, free["GPU-n0-1"].gpu_milli) == (1000, 700)
    assert free["GPU-n0-1"].memory_bytes == node.cards[1].memory_bytes - (1 << 30)


def test_a_node_of_which_nothing_is_known_yet() -> None:
    node = GpuNode.from_json({"metadata": {"name": "n0"}})
    assert (node.entries, node.cards, node.ready, node.mode.value) == ((), (), False, "observe")


def _on(card: str) -> Entry:
    return Entry("u1", "team", "a", "main", (Seat(card, 300, 1 << 30),), "team")


def test_foreign_piece_fits_the_definition_and_is_read_back() -> None:
    cut = ForeignPiece("made by hand", PartitionSlot(2, 2, "2g.35gb"))
    pieces = (cut, ForeignPiece("2 virtual functions"))
    card = ReportedCard("GPU-0", 0, "H200", 1, foreign=pieces)
    check(card.to_json(), schema("status.cards.[]"))
    assert ReportedCard.from_json(card.to_json()) == replace(card, vendor="nvidia")
    long = replace(card, foreign=(ForeignPiece("x" * 300),))
    check(long.to_json(), schema("status.cards.[]"))
