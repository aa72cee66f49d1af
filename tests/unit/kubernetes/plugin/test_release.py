"""A node is released with its changes printed first, and not while pods have its cards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpupool.kubernetes.plugin import release
from gpupool.kubernetes.resources.gpu_node import Mode
from tests.support.kube_builders import node, pod
from tests.support.plugin_ledgers import entry, ledger


def test_pod_with_several_containers_is_named_once_and_a_future_member_by_its_gang() -> None:
    held = ledger(
        entry("a"),
        entry("a", container="side"),
        entry("b", uid="gang/team/train/0", pod="", gang="team/train"),
    )
    assert release.held_pods(held) == ["team/a", "team/team/train"]


def test_node_with_held_cards_is_refused_with_the_names_and_the_way_on() -> None:
    assert release._refusal(ledger()) is None
    refusal = release._refusal(ledger(entry("a"), entry("b")))
    assert refusal is not None
    assert refusal.message == "2 pods have cards of n0: team/a, team/b"
    assert refusal.hint == "kubectl gpupool release n0 --drain  evicts them"


def test_changes_are_listed_in_the_order_in_which_they_are_made() -> None:
    waiting: dict[str, Any] = pod("w", namespace="team")
    lines = release._lines(ledger(entry("a")), node("n0"), [waiting])
    assert lines == [
        "set spec.mode of GpuNode n0 to observe (now slot)",
        "evict team/a",
        "open the gate of team/w, which waits for n0 alone",
    ]
    assert release._lines(replace(ledger(), mode=Mode.OBSERVE), node("n0"), []) == []


def test_direct_pods_that_stay_are_named_with_what_frees_them() -> None:
    assert release._still_wait([]) == ""
    said = release._still_wait(["team/a", "team/b"])
    assert said.startswith("; team/a, team/b cannot go elsewhere")
    assert "kubectl delete pod -n NAMESPACE NAME" in said
