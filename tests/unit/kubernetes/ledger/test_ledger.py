"""What a write of a ledger names, so that it is refused where somebody else wrote since."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gpupool.kubernetes.client.api import METADATA, KubeApi
from gpupool.kubernetes.ledger.billing_intervals import plan_update
from gpupool.kubernetes.ledger.ledger import build_swap_patch, reuse_entries, write_entries
from gpupool.kubernetes.resources.gpu_node import Entry, EntryState, GpuNode
from gpupool.model.allocation import Seat
from tests.support.kube_builders import gpu_node

ENTRY = Entry("u1", "team", "a", "main", (Seat("GPU-0", 300, 1 << 30),), "team", held_ns=5)


def named(node: GpuNode) -> dict[str, int]:
    patch = build_swap_patch(node, plan_update(node, (), now_ns=9))
    return {step["path"]: step["value"] for step in patch if step["op"] == "test"}


def paths(node: GpuNode, *, metered: bool = False, forget: bool = False) -> set[str]:
    return {
        step["path"]
        for step in build_swap_patch(
            node, plan_update(node, (), now_ns=9), metered=metered, forget=forget
        )
    }


def test_a_write_names_the_generation_and_the_clock_of_what_was_read() -> None:
    assert named(GpuNode("n", version=3, ledger_ns=7)) == {
        "/metadata/generation": 3,
        "/spec/ledgerNs": 7,
    }


def test_a_ledger_that_was_never_written_has_no_clock() -> None:
    assert named(GpuNode("n", version=1)) == {"/metadata/generation": 1}


def test_a_ledger_that_is_metered_does_not_go_with_its_node() -> None:
    owners = "/metadata/ownerReferences"
    assert owners in paths(GpuNode("n", owned=True), metered=True)
    assert owners not in paths(GpuNode("n", owned=True), metered=False) | paths(
        GpuNode("n"), metered=True
    )


@pytest.mark.parametrize(
    ("operations", "forgotten"), [((), False), (("Update",), True), (("Update", "Apply"), False)]
)
def test_who_wrote_which_field_is_forgotten_on_request_unless_somebody_applied_the_ledger(
    operations: tuple[str, ...], forgotten: bool
) -> None:
    made = gpu_node()
    made["metadata"]["managedFields"] = [{"manager": "m", "operation": one} for one in operations]
    node = GpuNode.from_json(made)
    assert "/metadata/managedFields" not in paths(node)
    assert ("/metadata/managedFields" in paths(node, forget=True)) is forgotten


def test_entries_are_read_again_only_where_generation_or_clock_is_another() -> None:
    made = gpu_node(version=3, allocations=[ENTRY.to_json()], ledgerNs=7)
    known = GpuNode.from_json(made)
    reported = {**made, "status": {**made["status"], "observedGeneration": 3}}
    assert reuse_entries(reported, known) is known.entries
    restored = {**made, "spec": {**made["spec"], "ledgerNs": 6}}
    written = {**made, "metadata": {**made["metadata"], "generation": 4}}
    assert [reuse_entries(one, known) for one in (restored, written)] == [None, None]
    assert reuse_entries(made, None) is None


def test_the_answer_to_a_write_tells_its_version_and_the_entries_are_those_that_were_written() -> (
    None
):
    known = GpuNode("n0", version=1, entries=(ENTRY,), ledger_ns=7)
    api = Answers({"metadata": {"name": "n0", "generation": 2, "resourceVersion": "9"}})
    now = asyncio.run(write_entries(api, known, known.entries, 8))
    assert now is not None
    assert now.entries[0] is ENTRY
    assert (now.version, now.written, now.ledger_ns, now.assumed) == (2, "9", 8, True)
    assert api.accept == METADATA


def test_what_the_watch_tells_of_our_own_write_is_read_where_somebody_has_changed_it() -> None:
    known = replace(
        GpuNode.from_json(gpu_node(version=2, allocations=[ENTRY.text], ledgerNs=8)), assumed=True
    )
    assert (
        reuse_entries(gpu_node(version=2, allocations=[ENTRY.text], ledgerNs=8), known)
        is known.entries
    )
    changed = replace(ENTRY, state=EntryState.DRAINING)
    assert reuse_entries(gpu_node(version=2, allocations=[changed.text], ledgerNs=8), known) is None


def test_entries_are_written_as_lines_once_the_nodes_agent_reads_them() -> None:
    made = gpu_node(allocations=[ENTRY.to_json()])
    lines = GpuNode.from_json(made)
    assert lines.format_entries([ENTRY, ENTRY]) == [f"{ENTRY.text}\n{ENTRY.text}"]
    assert lines.format_entries([]) == []
    del made["status"]["readsText"]
    assert GpuNode.from_json(made).format_entries([ENTRY]) == [ENTRY.to_json()]


class Answers(KubeApi):
    """One answer to every patch."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer = answer
        self.accept = ""

    async def patch(self, path: str, body: Any, kind: str = "", accept: str = "") -> dict[str, Any]:
        self.accept = accept
        return self.answer
