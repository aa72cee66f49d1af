"""What the watches tell is noted once, and only news lets the controller reconcile."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from gpupool.kubernetes.controller.controller import PoolController
from gpupool.kubernetes.resources.gpu_node import Entry
from gpupool.kubernetes.resources.pool_settings import NAME
from gpupool.model.allocation import Seat
from tests.support.kube_builders import gpu_node, node, pod, tenant
from tests.support.kube_memory import MemoryApi

REJECTED = {"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough cpu"}


class Intake:
    """The intake of a controller that does not run; counts what it requests."""

    def __init__(self) -> None:
        self.controller = PoolController(MemoryApi(), lambda: 0)
        self.intake = self.controller.intake
        self.cluster = self.controller.cluster
        trigger = self.controller._trigger
        self.requests: list[str] = []
        trigger.request_now = lambda: self.requests.append("now")  # type: ignore[method-assign]
        trigger.request_soon = lambda: self.requests.append("soon")  # type: ignore[method-assign]

    def taken(self) -> list[str]:
        """What was requested since the last call."""
        found = list(self.requests)
        self.requests.clear()
        return found

    def reasons(self) -> list[str]:
        return [event.reason for event in self.controller.events.pending_events]


def build_ledger(version: int = 1, **spec: Any) -> dict[str, Any]:
    made = gpu_node("n0", version=version, **spec)
    made["metadata"]["resourceVersion"] = str(version)
    return made


def test_node_that_did_not_change_requests_nothing() -> None:
    intake = Intake()
    for expected in (["now"], []):
        intake.intake.note_node(node("n0"), False)
        assert intake.taken() == expected
    intake.intake.note_node(node("n0"), True)
    assert (intake.taken(), intake.cluster.hosts) == (["now"], {})


def test_ledger_of_a_known_version_is_not_read_again() -> None:
    intake = Intake()
    intake.intake.note_ledger(build_ledger(), False)
    assert intake.taken() == ["now"]
    changed = build_ledger(mode="whole")
    intake.intake.note_ledger(changed, False)
    assert intake.taken() == []
    assert intake.cluster.ledgers["n0"].mode.value == "slot"
    known = intake.cluster.ledgers["n0"]
    intake.cluster.note_ledger("n0", replace(known, assumed=True))
    intake.intake.note_ledger(changed, False)
    assert intake.cluster.ledgers["n0"].mode.value == "whole", "it was known by an answer alone"


def test_every_object_may_be_gone_by_its_name_alone() -> None:
    """So a list tells of what was deleted while no watch was there."""
    intake = Intake()
    intake.intake.note_node(node("n0"), False)
    intake.intake._note_listed_ledger(build_ledger(), False)
    waiting = pod("a")
    intake.intake.note_pod(waiting, False)
    intake.intake.note_tenant(tenant("team"), False)
    take = intake.intake
    for name, note in {
        "n0": take._note_listed_ledger,
        "team": take.note_tenant,
        "night": take.note_reservation,
        NAME: take.note_settings,
    }.items():
        note({"metadata": {"name": name, "namespace": None, "uid": f"uid-{name}"}}, True)
    take.note_node({"metadata": {"name": "n0", "namespace": None, "uid": "uid-n0"}}, True)
    take.note_pod({"metadata": {"name": "a", "namespace": "default", "uid": "uid-a"}}, True)
    assert (intake.cluster.ledgers, intake.cluster.hosts, intake.cluster.pods) == ({}, {}, {})
    assert intake.controller.tenants.known == {}


def test_card_that_failed_is_told_when_its_ledger_is_noted() -> None:
    intake = Intake()
    intake.intake.note_ledger(build_ledger(), False)
    failed = build_ledger(2)
    failed["metadata"]["generation"] = 1
    failed["status"]["cards"][0]["health"] = "failed"
    intake.intake.note_ledger(failed, False)
    assert intake.reasons() == ["CardLost"]


def test_rejected_pod_is_told_at_the_change_and_not_by_a_new_leader() -> None:
    intake = Intake()
    running = pod("a", spec={"nodeName": "n0", "schedulingGates": []})
    rejected = copy.deepcopy(running)
    rejected["status"] = dict(REJECTED)
    rejected["metadata"]["resourceVersion"] = "2"
    new_leader = Intake()
    new_leader.intake.note_pod(rejected, False)
    assert new_leader.reasons() == []
    intake.intake.note_pod(running, False)
    intake.intake.note_pod(rejected, False)
    assert intake.reasons() == ["TurnedAway"]


def test_version_of_a_pod_that_is_known_is_skipped() -> None:
    intake = Intake()
    intake.intake.note_pod(pod("a"), False)
    assert intake.taken() == ["now"]
    intake.intake.note_pod(pod("a"), False)
    assert intake.taken() == []
    intake.intake.note_pod(pod("a"), True)
    assert (intake.taken(), intake.cluster.pods) == (["now"], {})


def test_released_pod_is_noted_without_a_plan_and_its_wait_counted() -> None:
    intake = Intake()
    intake.intake.note_pod(pod("a"), False)
    intake.controller.wait_stages.note_written(["uid-a"], intake.controller.wait_stages.clock())
    intake.taken()
    released = replace(intake.cluster.pods["uid-a"], gated=False, version="2")
    intake.intake.note_release(released)
    assert intake.taken() == ["soon"]
    assert not intake.cluster.pods["uid-a"].gated
    assert intake.controller.wait_stages.seconds["released"] > 0


def test_settings_take_effect_and_wake_their_status() -> None:
    intake = Intake()
    made = {
        "metadata": {"name": NAME, "generation": 1},
        "spec": {"policy": "binpack", "replaceSeconds": 7},
    }
    intake.intake.note_settings(made, False)
    assert intake.cluster.policy == "binpack"
    assert intake.controller._unschedulable.grace == 7
    assert intake.controller._settings_status.wake.is_set()
    assert intake.taken() == ["now"]
    intake.intake.note_settings(made, False)
    assert intake.taken() == []


def test_tenant_that_says_the_same_requests_nothing() -> None:
    intake = Intake()
    made = tenant("nlp", namespaces=["team"])
    made["metadata"] |= {
        "uid": "uid-nlp",
        "generation": 1,
        "creationTimestamp": "2026-11-22T00:00:00Z",
    }
    for expected in (["now"], []):
        intake.intake.note_tenant(copy.deepcopy(made), False)
        assert intake.taken() == expected


def test_restored_entry_is_counted_and_named_with_its_cards() -> None:
    intake = Intake()
    seat = Seat("GPU-n0-0", 300, 8 << 30)
    entry = Entry("uid-a", "default", "a", "main", (seat,), "default")
    intake.intake.note_ledger(build_ledger(allocations=[entry.to_json()]), False)
    intake.intake.note_pod(pod("a"), False)
    intake.intake.note_restored_entry(intake.cluster.pods["uid-a"], "n0")
    assert intake.controller.counts.restorations == 1
    (event,) = intake.controller.events.pending_events
    assert (event.reason, event.warning) == ("EntryRestored", True)
    assert "n0: main: GPU-n0-0 0.30 GPU" in event.note
