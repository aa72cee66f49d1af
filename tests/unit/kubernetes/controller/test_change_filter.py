"""Which changes nobody's plan depends on."""

from dataclasses import replace

import pytest

from gpupool.kubernetes.controller.change_filter import is_agent_progress, is_expected_progress
from gpupool.kubernetes.resources.gpu_node import Entry, EntryState, GpuNode
from gpupool.kubernetes.resources.gpu_node_status import SlotUse
from gpupool.kubernetes.resources.pod import read_pod
from gpupool.model.allocation import Seat
from tests.support import kube_builders

GATED = read_pod(kube_builders.pod())
FREE = replace(GATED, gated=False, version="2")
BOUND = replace(FREE, node="n0", version="3")
ENTRY = Entry("uid-a", "default", "a", "main", (Seat("GPU-n0-0", 300, 1),), "default")
NODE = GpuNode("n0", entries=(ENTRY,), version=2)
STARTED = replace(NODE, slots=(SlotUse("uid-a", "main", "s0001", 1),), observed=2)


@pytest.mark.parametrize(
    ("before", "now"), [(GATED, FREE), (FREE, BOUND), (BOUND, replace(BOUND, started_ns=1))]
)
def test_a_pod_that_is_let_go_bound_and_started_on_its_node_changes_no_plan(before, now) -> None:
    assert is_expected_progress(before, now, "n0")


@pytest.mark.parametrize(
    ("before", "now", "node"),
    [
        (None, GATED, ""),
        (GATED, GATED, "n0"),
        (GATED, FREE, ""),
        (FREE, replace(BOUND, node="n1"), "n0"),
        (BOUND, None, "n0"),
        (BOUND, replace(BOUND, ended=True), "n0"),
        (BOUND, replace(BOUND, deleting=True), "n0"),
        (BOUND, replace(BOUND, priority=1), "n0"),
    ],
)
def test_whatever_else_happens_to_a_pod_is_planned_at_once(before, now, node) -> None:
    assert not is_expected_progress(before, now, node)


def test_an_agent_that_has_made_cards_ready_changes_no_plan() -> None:
    assert is_agent_progress(NODE, STARTED)


@pytest.mark.parametrize(
    "now",
    [
        None,
        replace(STARTED, ready=True),
        replace(STARTED, entries=()),
        replace(STARTED, entries=(replace(ENTRY, state=EntryState.DRAINING),)),
    ],
)
def test_cards_that_come_back_are_planned_at_once(now) -> None:
    assert not is_agent_progress(NODE, now)
