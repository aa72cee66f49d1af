"""Each check says what it found, and what to type where that is not well."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gpupool.kubernetes.manifests import install
from gpupool.kubernetes.plugin import doctor
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.closed_intervals import ClosedInterval
from gpupool.kubernetes.resources.gpu_node import GpuNode
from gpupool.kubernetes.resources.gpu_node_status import SlotUse
from gpupool.kubernetes.resources.pod import read_pod
from gpupool.model.allocation import Seat
from gpupool.model.sharing_default import SHARING_LABEL
from tests.support.kube_builders import gpu_node, node, pod

NOW = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.mark.parametrize(
    ("major", "minor", "state"),
    [("1", "30", "fail"), ("1", "31+", "ok"), ("2", "0", "ok"), ("", "", "fail")],
)
def test_a_server_is_new_enough_or_not(major: str, minor: str, state: str) -> None:
    assert (
        doctor.check_server({"major": major, "minor": minor, "gitVersion": "v"})["state"] == state
    )


def test_objects_are_the_same_when_the_server_only_added_defaults() -> None:
    made = install.objects()
    there = [(one, {**one, "status": {"x": 1}}) for one in made]
    assert doctor.check_installed(there)["state"] == "ok"
    assert (
        "missing: Namespace gpupool"
        in doctor.check_installed([(made[0], None), *there[1:]])["text"]
    )
    (role,) = [
        one
        for one in made
        if one["kind"] == "ClusterRole" and one["metadata"]["name"] == install.AGENT
    ]
    weaker = {**role, "rules": role["rules"][:1]}
    assert doctor.check_installed([(role, weaker)])["state"] == "warn"


def test_who_admits_plain_native_pods() -> None:
    there = [(one, one) for one in install.native()]
    (policy, binding) = install.native()
    assert "1.36" in doctor.check_native(False, [])["text"]
    assert (
        "can admit them itself"
        in doctor.check_native(True, [(policy, policy), (binding, None)])["text"]
    )
    assert doctor.check_native(True, there)["text"] == "admitted by the server itself"
    older = {**policy, "spec": {**policy["spec"], "variables": []}}
    assert doctor.check_native(True, [(policy, older), (binding, binding)])["state"] == "warn"


def test_a_controller_leads_as_long_as_its_lease_is_fresh() -> None:
    def lease(seconds: float) -> dict[str, object]:
        at = (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {"spec": {"holderIdentity": "c0", "renewTime": at, "leaseDurationSeconds": 15}}

    assert doctor.check_leader(lease(2), NOW)["text"] == "c0 leads, seen 2 s ago"
    assert doctor.check_leader(lease(40), NOW)["text"] == "c0 is silent for 40 s"
    assert doctor.check_leader(None, NOW)["state"] == "fail"
    assert doctor.check_leader({"spec": {"holderIdentity": ""}}, NOW)["state"] == "fail"


def test_agents_are_there_silent_or_behind() -> None:
    well = GpuNode.from_json(gpu_node())
    assert doctor.check_agents([well])["text"] == "1 node reported of, 1 adopted"
    assert doctor.check_agents([replace(well, ready=False)])["state"] == "fail"
    assert doctor.check_agents([replace(well, version=9)])["state"] == "warn"
    assert doctor.check_agents([])["state"] == "warn"


def test_an_adopted_node_without_slots_or_with_a_second_owner_is_wrong() -> None:
    ledger, found = GpuNode.from_json(gpu_node()), node()
    assert doctor.check_slots([ledger], {"n0": found})["state"] == "fail"
    found["status"]["allocatable"][names.SLOT] = "512"
    assert doctor.check_slots([ledger], {"n0": found})["state"] == "ok"
    assert not list(doctor.check_double_offers([ledger], {"n0": found}))
    found["status"]["allocatable"]["nvidia.com/gpu"] = "8"
    (wrong,) = doctor.check_double_offers([ledger], {"n0": found})
    assert "nvidia.com/gpu=8" in wrong["text"]


def test_cards_that_containers_hold_without_an_entry_are_wrong() -> None:
    well = GpuNode.from_json(gpu_node())
    assert not list(
        doctor.check_unaccounted(
            [well, replace(well, slots=(SlotUse("u", "main", released=True),))]
        )
    )
    (wrong,) = doctor.check_unaccounted([replace(well, slots=(SlotUse("u", "main"),))])
    assert (wrong["state"], wrong["name"]) == ("fail", "node n0")
    assert "1 container hold cards and are not in its ledger" in wrong["text"]


def test_a_ledger_whose_node_is_gone_says_what_it_waits_for() -> None:
    seat = Seat("GPU-0", 300, 1 << 30)
    kept = replace(
        GpuNode(
            "n0",
            ended=(ClosedInterval("u", "space", "a", "main", (seat,), "team", "", 5, 9),),
            metered_ns=8,
        ),
        ready=True,
    )
    (waits,) = doctor.check_orphans([kept], {})
    assert (waits["state"], waits["name"]) == ("warn", "node n0")
    assert "1 left" in waits["text"]
    assert not list(doctor.check_orphans([kept], {"n0": node()}))
    assert not list(doctor.check_orphans([replace(kept, metered_ns=9)], {}))


def test_who_else_is_here_is_told_by_plugins_and_by_kinds() -> None:
    told = doctor.check_others(["HAMi"], ["apps", "scheduling.run.ai"], {})
    assert told["text"] == "HAMi, KAI"


def test_pods_that_were_let_go_without_cards_are_named() -> None:
    made = pod("a", spec={"schedulingGates": [], "nodeName": "n0"})
    made["metadata"]["annotations"][names.PLACED] = "n0: main"
    there = read_pod(made)
    ledger = GpuNode.from_json(gpu_node("n0"))
    (wrong,) = doctor.check_lost([there], [ledger])
    assert (wrong["state"], "default/a" in wrong["text"]) == ("warn", True)
    runs = replace(ledger, slots=(SlotUse(there.uid, "main"),))
    for well, ledgers in (
        (read_pod(pod("a")), [ledger]),
        (replace(there, ended=True), [ledger]),
        (there, [runs]),
    ):
        assert not list(doctor.check_lost([well], ledgers))


def test_label_that_names_no_default_of_sharing_is_a_warning() -> None:
    labels = {"n0": "best-effort", "n1": "burst"}
    nodes = {name: node(name, **{SHARING_LABEL: kind}) for name, kind in labels.items()}
    (check,) = doctor.check_sharing_labels({**nodes, "n2": node("n2")})
    assert (check["name"], check["state"]) == ("node n0", "warn")
    assert "gpupool.dev/sharing=best-effort is ignored" in check["text"]
