"""An agent's report fits the definition of a GpuNode, however much has failed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from gpupool.base.units import GIB
from gpupool.kubernetes.manifests.gpu_node_crd import gpu_node
from gpupool.kubernetes.node.status import build_status
from gpupool.kubernetes.resources.gpu_node import GpuNode
from gpupool.kubernetes.resources.gpu_node_status import ForeignUsage, SlotUse
from gpupool.model.device import Device, DeviceHealth
from gpupool.model.sharing_default import SHARING_LABEL
from gpupool.model.topology import Topology


def build_devices(count: int = 2) -> list[Device]:
    devices = []
    for index in range(count):
        uuid = f"GPU-{index}"
        devices.append(Device(uuid, index, "nvidia", "NVIDIA L40S", "L40S", 48 * GIB))
    return devices


def report(
    devices: list[Device], *uses: SlotUse, labels: dict[str, str] | None = None
) -> dict[str, Any]:
    return build_status(devices, Topology(), uses, [], 8, 3, labels=labels or {})


def condition(status: dict[str, Any], kind: str) -> dict[str, Any]:
    (found,) = (one for one in status["conditions"] if one["type"] == kind)
    return found


def test_report_is_read_back_as_it_was_made() -> None:
    devices = build_devices()
    use = SlotUse("u", "main", "s1", 2)
    made = {"metadata": {"name": "n0"}, "status": report(devices, use)}
    node = GpuNode.from_json(made)
    assert [card.uuid for card in node.cards] == [device.uuid for device in devices]
    assert (node.slots, node.slot_count, node.observed, node.ready) == ((use,), 8, 3, True)
    assert node.reads_text


def test_cards_that_failed_are_named_in_the_condition() -> None:
    well, failed = build_devices()
    assert condition(report([well, failed]), "CardsHealthy")["status"] == "True"
    failed = replace(failed, health=DeviceHealth.FAILED, health_reason="XID 79")
    warned = replace(well, health=DeviceHealth.WARNING, health_reason="hot")
    found = condition(report([warned, failed]), "CardsHealthy")
    assert (found["status"], found["reason"]) == ("False", "CardsFailed")
    assert found["message"] == f"card 1 ({failed.uuid}): XID 79"


def test_reasons_are_cut_to_what_the_definition_holds() -> None:
    devices = []
    for device in build_devices(8):
        devices.append(replace(device, health=DeviceHealth.FAILED, health_reason="x" * 300))
    made = report(devices)
    assert {len(card["healthReason"]) for card in made["cards"]} == {200}
    assert len(condition(made, "CardsHealthy")["message"]) == 1024


def test_default_of_sharing_follows_the_label() -> None:
    assert report(build_devices())["sharingDefault"] == "fixed"
    made = report(build_devices(), labels={SHARING_LABEL: "burst"})
    assert made["sharingDefault"] == "burst"
    assert [one["type"] for one in made["conditions"]] == ["Ready", "CardsHealthy"]


def test_label_that_names_no_default_is_reported_as_ignored() -> None:
    made = report(build_devices(), labels={SHARING_LABEL: "best-effort"})
    assert made["sharingDefault"] == "fixed"
    found = condition(made, "SharingDefault")
    assert (found["status"], found["reason"]) == ("False", "LabelIgnored")
    assert "gpupool.dev/sharing=best-effort is ignored" in found["message"]
    assert "fixed or burst" in found["message"]


def foreign(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "team", "uid": name}, "spec": spec}


def apart(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}
    return {"podAntiAffinity": required}


def in_selector(requirements: list[dict[str, Any]]) -> dict[str, Any]:
    return {"topologyKey": "zone", "labelSelector": {"matchExpressions": requirements}}


def requirement(key: str, count: int = 1) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": [f"v{number}" for number in range(count)]}


def test_report_of_any_foreign_pods_fits_the_definition() -> None:
    """Whoever can create pods chooses these; a refused report frees no card of the node."""
    key = {"topologyKey": "zone"}
    long = {"matchExpressions": [requirement(f"k{number}") for number in range(65)]}
    wide = {"matchExpressions": [requirement("k", 257)]}
    heavy = [{**requirement(f"k{number}"), "values": ["v" * 60] * 250} for number in range(60)]
    many = [f"space-{number}" for number in range(257)]
    ports = [{"hostPort": number} for number in range(1, 1100)]
    plain = {"matchLabels": {"app": "a"}}
    pods = [
        foreign("long", containers=[], affinity=apart({**key, "labelSelector": long})),
        foreign("wide", containers=[], affinity=apart({**key, "labelSelector": wide})),
        foreign("of", containers=[], affinity=apart({**key, "namespaceSelector": long})),
        foreign("many", containers=[], affinity=apart({**key, "namespaces": many})),
        foreign("heavy", containers=[], affinity=apart(in_selector(heavy))),
        foreign("ports", containers=[{"name": "c", "ports": ports}]),
        foreign("plain", containers=[], affinity=apart({**key, "labelSelector": plain})),
        foreign("huge", containers=[{"resources": {"requests": {"cpu": str(2**63 - 1)}}}]),
    ]
    status = build_status([], Topology(), [], pods, 8, 3, labels={})
    check_limits(status["others"], schema("status.others"))
    assert len(json.dumps(status)) < 1 << 20, "etcd refuses more than 1.5 MiB"
    (rule,) = ForeignUsage.from_json(status["others"]).apart
    assert rule.namespaces == ("team",), "a rule that fits is reported"
    for number in range(300):
        one = {**plain["matchLabels"], "number": str(number)}
        term = {**key, "labelSelector": {"matchLabels": one}}
        pods.append(foreign(f"p{number}", containers=[], affinity=apart(term)))
    status = build_status([], Topology(), [], pods, 8, 3, labels={})
    check_limits(status["others"], schema("status.others"))


def schema(path: str) -> dict[str, Any]:
    found: dict[str, Any] = gpu_node()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for part in path.split("."):
        found = found["properties"][part]
    return found


def check_limits(value: Any, against: dict[str, Any], at: str = "") -> None:
    """Lengths and sizes, as the API server checks them."""
    if isinstance(value, int):
        assert value <= against.get("maximum", 2**63 - 1), at
    if isinstance(value, str):
        assert len(value) <= against.get("maxLength", len(value)), at
    if isinstance(value, dict):
        for name, part in value.items():
            inner = against["properties"][name] if "properties" in against else {}
            check_limits(part, inner, f"{at}.{name}")
    if isinstance(value, list):
        assert len(value) <= against.get("maxItems", len(value)), at
        for part in value:
            check_limits(part, against.get("items", {}), f"{at}[]")
