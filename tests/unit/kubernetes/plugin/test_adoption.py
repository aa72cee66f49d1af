"""What adopting changes is known before, refused where two would have one card, and undone
exactly."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpupool.kubernetes.plugin.adoption import adoption, restoring, set_mode, waits_only_for
from gpupool.kubernetes.plugin.others import Plugin
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.gpu_node import GpuNode, Mode
from tests.support.kube_builders import gpu_node, node, pod
from tests.unit.kubernetes.plugin.test_others import daemonset

OPERATOR = "nvidia.com/gpu.deploy.device-plugin"


LEDGER = GpuNode.from_json(gpu_node(mode="observe"))


def plugin(name: str = "nvidia-device-plugin", **spec: Any) -> Plugin:
    found = Plugin.of(daemonset(name, **spec))
    assert found is not None
    return found


def labelled(**labels: str) -> dict[str, Any]:
    found = node("n0")
    found["metadata"] |= {"labels": labels, "resourceVersion": "7"}
    return found


def merged(found: dict[str, Any], patch: dict[str, Any] | None) -> dict[str, Any]:
    """As an API server merges labels and annotations."""
    assert patch is not None
    meta = dict(found["metadata"])
    for part in ("labels", "annotations"):
        values = {**(meta.get(part) or {}), **patch["metadata"].get(part, {})}
        meta[part] = {key: value for key, value in values.items() if value is not None}
    return {**found, "metadata": meta}


def test_on_a_node_without_others_the_changes_are_a_label_and_the_mode() -> None:
    assert adoption(LEDGER, labelled(), [], Mode.SLOT).lines() == [
        "label node n0 gpupool.dev/mode=slot",
        "set spec.mode of GpuNode n0 to slot (now observe)",
        "have the kubelet tell gpupool.dev/slot=512 in its status, by the plugin of its agent",
        "have the controller tell gpupool.dev/gpu-milli=4000, gpupool.dev/memory=192Gi in its status",
    ]


def test_the_operators_plugin_leaves_by_its_own_label() -> None:
    found = labelled(**{OPERATOR: "true"})
    found["status"]["allocatable"]["nvidia.com/gpu"] = "4"
    plan = adoption(LEDGER, found, [plugin(nodeSelector={OPERATOR: "true"})], Mode.SLOT)
    assert [one.name for one in plan.leaving] == ["nvidia-device-plugin"]
    assert plan.staying == ()
    assert f"label node n0 {OPERATOR}=false (now true)" in plan.lines()
    assert "wait until it offers no nvidia.com/gpu (4 now) any more" in plan.lines()


def test_a_plugin_that_no_label_takes_away_stays_and_one_elsewhere_is_nobodys_business() -> None:
    everywhere, elsewhere = plugin(), plugin(nodeSelector={"zone": "b"})
    plan = adoption(LEDGER, labelled(zone="a"), [everywhere, elsewhere], Mode.SLOT)
    assert plan.staying == (everywhere,)
    assert plan.leaving == ()


def test_what_was_kept_the_first_time_is_not_lost_by_adopting_again() -> None:
    found = labelled(**{OPERATOR: "true"})
    plan = adoption(LEDGER, found, [plugin(nodeSelector={OPERATOR: "true"})], Mode.SLOT)
    once = merged(found, plan.node_patch(found))
    other = adoption(LEDGER, once, [], Mode.WHOLE)
    twice = merged(once, other.node_patch(once))
    assert json.loads(twice["metadata"]["annotations"][names.BEFORE])[OPERATOR] == "true"
    assert twice["metadata"]["labels"][names.MODE] == "whole"


@given(
    st.dictionaries(
        st.sampled_from([OPERATOR, "gpu", "zone", "rack"]), st.sampled_from(["true", "on", "a"])
    )
)
def test_the_way_back_leaves_a_node_as_it_was(labels: dict[str, str]) -> None:
    found = labelled(**labels)
    plugins = [
        plugin(nodeSelector={OPERATOR: "true"}),
        plugin("hami-device-plugin", nodeSelector={"gpu": "on"}),
    ]
    plan = adoption(LEDGER, found, plugins, Mode.SLOT)
    assert plan.staying == ()
    adopted = merged(found, plan.node_patch(found))
    back = merged(adopted, restoring(adopted))
    assert back["metadata"]["labels"] == labels
    assert restoring(back) is None


def test_the_mode_is_written_only_over_the_ledger_that_was_read() -> None:
    assert set_mode(LEDGER, Mode.SLOT)[0] == {
        "op": "test",
        "path": "/metadata/generation",
        "value": LEDGER.version,
    }


def test_a_pod_waits_only_for_a_node_when_no_other_could_take_it() -> None:
    nodes = [node("n0", disk="ssd"), node("n1")]
    assert waits_only_for("n0", pod(spec={"nodeSelector": {"disk": "ssd"}}), nodes)
    assert not waits_only_for("n0", pod(), nodes)
    assert not waits_only_for("n0", pod(spec={"nodeSelector": {"disk": "none"}}), nodes)
