"""The reason why a pod waits or does not start is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpupool.kubernetes.plugin import why
from gpupool.kubernetes.resources import names
from gpupool.model.partition import ForeignPiece, PartitionSlot
from gpupool.probes.mig_tables import list_mig_profiles
from tests.support.kube_builders import asking, pod
from tests.support.plugin_ledgers import entry, ledger


def test_why_says_where_a_pod_is_on_its_way() -> None:
    def stands(found: dict[str, Any], *entries: dict[str, Any]) -> str:
        return why._stands(why.facts(found, [ledger(*entries)]))

    waiting = pod(namespace="team")
    assert "has not said why yet" in stands(waiting)
    told = {
        "type": names.CONDITION,
        "status": "False",
        "reason": "SchedulingGated",
        "message": "needs a whole card",
    }
    assert stands({**waiting, "status": {"conditions": [told]}}) == "needs a whole card"
    assert stands(waiting, entry(state="reserved")) == "its cards are reserved; it is released next"
    bound = pod(namespace="team", spec={"nodeName": "n0", "schedulingGates": []})
    assert stands(bound, entry()) == "it is on n0"
    assert stands(bound) == "it is on n0, and no ledger knows of it"
    plain = pod(namespace="team")
    plain["metadata"]["labels"] = {}
    assert stands(plain) == "it asks no cards of gpupool, and gpupool does nothing with it"


def test_a_claim_that_was_changed_is_told_as_the_reason() -> None:
    changed = pod()
    changed["metadata"]["annotations"][names.CLAIM] = "{}"
    assert names.CLAIM in why._stands(why.facts(changed, []))


def status(**states: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "main", **states}]}


STARTS = (
    "OCI runtime create failed: hook: exit status 1, stdout: , stderr: GP-2018: the image has musl"
)


@pytest.mark.parametrize(
    "states",
    [
        {"state": {"waiting": {"reason": "RunContainerError", "message": STARTS}}},
        {"state": {"terminated": {"reason": "StartError", "message": STARTS}}},
        {
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
            "lastState": {"terminated": {"reason": "StartError", "message": STARTS}},
        },
    ],
    ids=["refused now", "never again", "tried again later"],
)
def test_a_container_that_is_refused_on_its_node_is_told_with_the_reason(
    states: dict[str, Any],
) -> None:
    found = {
        **pod(namespace="team", spec={"nodeName": "n0", "schedulingGates": []}),
        "status": status(**states),
    }
    told = why.facts(found, [ledger(entry())])
    assert told["refused"] == {"main": "GP-2018: the image has musl"}
    assert ("main does not start", "GP-2018: the image has musl") in why._lines(told)


@pytest.mark.parametrize(
    "states",
    [
        {
            "state": {"running": {}},
            "lastState": {"terminated": {"reason": "StartError", "message": STARTS}},
        },
        {
            "state": {
                "terminated": {"reason": "Error", "message": "GP-2018: a program's own last words"}
            }
        },
        {"state": {"waiting": {"reason": "ContainerCreating"}}},
        {},
    ],
    ids=["runs since", "a program's words", "on its way", "nothing yet"],
)
def test_a_container_that_nobody_refuses_is_not_told(states: dict[str, Any]) -> None:
    assert why.facts({**pod(), "status": status(**states)}, [])["refused"] == {}


def test_why_lists_pieces_of_other_tools_for_a_pod_that_waits_for_a_profile() -> None:
    piece = ForeignPiece("an instance", PartitionSlot(4, 4, "3g.71gb"))
    profiles = list_mig_profiles("H200")
    made = ledger()
    cut = replace(made.cards[0], profiles=profiles, foreign=(piece,))
    plain = replace(made.cards[1], foreign=(ForeignPiece("an MPS process"),))
    nodes = [replace(made, cards=(cut, plain))]
    waits = pod(containers={"main": asking(profile="3g.71gb")})
    assert why.facts(waits, nodes)["foreign"] == ["n0/0: slot 4 to 7: an instance"]
    assert ("foreign", "n0/0: slot 4 to 7: an instance") in why._lines(why.facts(waits, nodes))
    assert why.facts(pod(), nodes)["foreign"] == []


def test_why_names_the_sharing_that_a_pod_got() -> None:
    lines = {}
    for kind in ("fixed", "burst"):
        found = why.facts(pod(namespace="team"), [ledger(entry(sharing=kind))])
        lines[kind] = dict(why._lines(found))["main has"]
    assert str(lines["burst"]).endswith("(active, burst)")
    assert str(lines["fixed"]).endswith("(active)")
