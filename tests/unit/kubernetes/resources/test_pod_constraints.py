"""What a pod requires beside cards is read from its spec."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.kubernetes.resources.pod_constraints import (
    NOTHING,
    AffinityTerm,
    HostPort,
    LabelSelector,
    read_constraints,
    sum_resources,
)
from tests.support.kube_builders import pod
from tests.support.zoned_pool import (
    ZONE,
)


def test_most_pods_ask_nothing_more_and_share_one_answer() -> None:
    assert read_constraints(pod()) is NOTHING


@pytest.mark.parametrize(
    ("mine", "theirs", "meet"),
    [
        (HostPort(80), HostPort(80), True),
        (HostPort(80), HostPort(81), False),
        (HostPort(80), HostPort(80, "UDP"), False),
        (HostPort(80, "TCP", "10.0.0.1"), HostPort(80, "TCP", "10.0.0.2"), False),
        (HostPort(80, "TCP", "10.0.0.1"), HostPort(80), True),
    ],
)
def test_ports_meet_by_number_protocol_and_address(
    mine: HostPort, theirs: HostPort, meet: bool
) -> None:
    assert mine.meets(theirs) is theirs.meets(mine) is meet


def test_what_else_is_asked_is_added_up_as_for_processors() -> None:
    def one(amount: str, **more: str) -> dict[str, Any]:
        return {"name": "c", "resources": {"requests": {"ephemeral-storage": amount}}, **more}

    spec = {
        "containers": [one("2"), one("3")],
        "initContainers": [one("1", restartPolicy="Always"), one("9")],
    }
    assert sum_resources({**spec, "overhead": {"ephemeral-storage": "5"}}) == (
        ("ephemeral-storage", 15),
    )


def test_namespaces_are_meant_by_name_or_by_label() -> None:
    rule = AffinityTerm(ZONE, LabelSelector(), ("a",), LabelSelector((("team", "In", ("x",)),)))
    assert rule.matches("a", {}, {})
    assert rule.matches("b", {}, {"b": {"team": "x"}})
    assert not rule.matches("b", {}, {"b": {"team": "y"}})
    assert AffinityTerm(ZONE, LabelSelector(), (), LabelSelector()).matches("anything", {}, {})
    assert not AffinityTerm(ZONE, None, ("a",)).matches("a", {}, {})
