"""Who else hands out cards is seen by names, and how a plugin is taken off a node by its own
words."""

from __future__ import annotations

import json
from typing import Any

from gpupool.kubernetes.plugin.others import Plugin, plugins_of, stay_away, users, uses
from gpupool.kubernetes.resources import names
from tests.support.kube_builders import pod


def daemonset(name: str, *, owner: str = "", **spec: Any) -> dict[str, Any]:
    owners = [{"kind": owner, "name": "x"}] if owner else []
    meta = {"name": name, "namespace": "kube-system", "ownerReferences": owners}
    return {"metadata": meta, "spec": {"template": {"spec": spec}}}


def using(**limits: str) -> dict[str, Any]:
    made = pod("job", {}, namespace="team")
    made["spec"]["containers"] = [{"name": "main", "resources": {"limits": limits}}]
    return made


def test_a_daemonset_without_cards_is_nobody() -> None:
    assert plugins_of([daemonset("node-exporter"), daemonset("kube-proxy")]) == []


def test_the_operators_own_plugin_is_told_from_the_plain_one() -> None:
    owners = [
        plugin.owner
        for plugin in plugins_of(
            [
                daemonset("nvidia-device-plugin-daemonset"),
                daemonset("nvidia-device-plugin", owner="ClusterPolicy"),
            ]
        )
    ]
    assert owners == ["NVIDIA device plugin", "GPU Operator"]


def test_a_plugin_is_taken_off_by_the_label_that_its_own_selector_names() -> None:
    (operator,) = plugins_of(
        [
            daemonset(
                "nvidia-device-plugin", nodeSelector={"nvidia.com/gpu.deploy.device-plugin": "true"}
            )
        ]
    )
    (hami,) = plugins_of([daemonset("hami-device-plugin", nodeSelector={"gpu": "on"})])
    (plain,) = plugins_of(
        [daemonset("nvidia-device-plugin-daemonset", nodeSelector={"disk": "ssd"})]
    )
    assert operator.switches() == {"nvidia.com/gpu.deploy.device-plugin": "false"}
    assert hami.switches() == {"gpu": None}
    assert plain.switches() == {}
    assert hami.runs_on("n0", {"gpu": "on"})
    assert not hami.runs_on("n0", {})


def test_what_is_told_to_type_takes_a_plugin_off_an_adopted_node() -> None:
    found = daemonset("nvidia-device-plugin-daemonset")
    before = Plugin.of(found)
    assert before is not None
    patch = json.loads(stay_away(before).partition(" -p ")[2].strip("'"))
    after = Plugin.of({**found, "spec": patch["spec"]})
    assert after is not None
    assert before.runs_on("n0", {names.MODE: "slot"})
    assert after.runs_on("n0", {})
    assert not after.runs_on("n0", {names.MODE: "slot"})


def test_a_pod_uses_cards_by_a_resource_or_by_an_annotation_and_not_when_it_is_over() -> None:
    assert uses(using(**{"nvidia.com/gpu": "1", "cpu": "2"})) == ("nvidia.com/gpu",)
    assert uses(using(cpu="2")) == ()
    fraction = using(cpu="2")
    fraction["metadata"]["annotations"] = {"gpu-fraction": "0.5"}
    assert users([fraction]) == ["team/job (gpu-fraction)"]
    over = {**using(**{"nvidia.com/gpu": "1"}), "status": {"phase": "Succeeded"}}
    assert uses(over) == ()


def test_a_pod_that_asks_by_our_names_uses_no_card_of_others() -> None:
    assert uses(pod()) == ()
