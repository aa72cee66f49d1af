"""A ledger follows its pods, and a card is free only when its agent says so."""

from __future__ import annotations

from dataclasses import replace

from gpupool.kubernetes.ledger.entry_lifecycle import reconcile_entries
from gpupool.kubernetes.resources.gpu_node import Entry, EntryState, EvictionOrder, GpuNode, Mode
from gpupool.kubernetes.resources.gpu_node_status import SlotUse
from gpupool.kubernetes.resources.pod import Pod, read_pod
from gpupool.model.allocation import Seat
from tests.support.kube_builders import pod

ENTRY = Entry(
    "uid-a", "default", "a", "main", (Seat("GPU-0", 300, 1 << 30),), "default", generation=2
)
NODE = GpuNode("n0", Mode.SLOT, (ENTRY,), version=2, observed=2)
POD = read_pod(pod())
PODS = {"uid-a": POD}


def states(node: GpuNode, pods: dict[str, Pod], **more: bool) -> list[EntryState]:
    return [entry.state for entry in reconcile_entries(node, pods, **more)]


def in_use(node: GpuNode, *, released: bool = False) -> GpuNode:
    return replace(node, slots=(SlotUse("uid-a", "main", "s1", 2, released),))


def test_nothing_is_written_while_nothing_changed() -> None:
    assert reconcile_entries(NODE, PODS) == NODE.entries


def test_an_entry_is_active_once_its_agent_has_prepared_it() -> None:
    assert states(in_use(NODE), PODS) == [EntryState.ACTIVE]


def test_an_entry_drains_when_its_pod_is_gone_over_or_elsewhere() -> None:
    for pods in ({}, {"uid-a": replace(POD, ended=True)}, {"uid-a": replace(POD, node="n9")}):
        assert states(NODE, pods) == [EntryState.DRAINING]


def test_a_draining_entry_goes_when_the_agent_has_read_that_and_holds_nothing() -> None:
    (draining,) = reconcile_entries(in_use(NODE), {})
    assert draining.generation == 3
    written = replace(in_use(NODE), entries=(draining,), version=3)
    assert states(written, {}) == [EntryState.DRAINING], "the agent has not seen it yet"
    assert states(replace(written, observed=3), {}) == [EntryState.DRAINING], (
        "the card is still in use"
    )
    assert states(replace(in_use(written, released=True), observed=3), {}) == []
    assert states(replace(written, slots=(), observed=3), {}) == []


def test_a_reserved_entry_whose_pod_vanished_before_it_came_goes_the_same_way() -> None:
    (draining,) = reconcile_entries(NODE, {})
    assert states(replace(NODE, entries=(draining,), version=3), {}) == [EntryState.DRAINING]
    assert states(replace(NODE, entries=(draining,), version=3, observed=3), {}) == []


def test_a_node_that_is_no_more_holds_nothing() -> None:
    assert states(NODE, PODS, node_exists=False) == []


def test_an_order_to_leave_stands_with_the_version_of_the_pod_and_goes_when_it_is_not_given_any_more() -> (
    None
):
    order = {"uid-a/main": EvictionOrder("new/main", "7")}
    (told,) = reconcile_entries(NODE, PODS, leaving=order)
    assert (told.order, told.generation) == (EvictionOrder("new/main", "7"), 3)
    written = replace(NODE, entries=(told,), version=3)
    assert reconcile_entries(written, PODS, leaving=order) == written.entries
    assert [one.order for one in reconcile_entries(written, PODS)] == [EvictionOrder()]
    going = {"uid-a": replace(POD, deleting=True)}
    assert reconcile_entries(written, going) == written.entries, (
        "it was asked and goes: who needed it is told by the ledger"
    )
