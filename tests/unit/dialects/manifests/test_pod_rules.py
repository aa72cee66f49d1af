"""Pods that cannot have a share, whichever words they ask in."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.dialects.pods import claim_of, pod, said

SHARE = {"gpupool.dev/gpu-milli": 300}
WHOLE = {"nvidia.com/gpu": 1}


@pytest.mark.parametrize("runtime", ["gvisor", "runsc", "kata-qemu", "Kata"])
def test_a_share_in_a_sandbox_is_refused_and_a_whole_card_is_not(runtime: str) -> None:
    assert said(pod(SHARE, runtimeClassName=runtime)).startswith(
        f"GP-2017: runtimeClassName: {runtime}: a share is not"
    )
    assert said(pod(WHOLE, runtimeClassName=runtime)).startswith("1.00 GPU")
    assert said(pod(SHARE, runtimeClassName="nvidia")).startswith("0.30 GPU")


def privileged(limits: dict[str, Any]) -> dict[str, Any]:
    given = pod(limits)
    given["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    return given


def test_a_privileged_container_may_have_whole_cards_alone() -> None:
    assert said(privileged(SHARE)).startswith(
        "GP-2017: container main is privileged and asks for a share"
    )
    assert said(privileged(WHOLE)).startswith("1.00 GPU")
    assert said(privileged({"nvidia.com/mig-1g.5gb": 1})).startswith("partition")


def test_a_privileged_neighbour_without_cards_is_nobodys_business() -> None:
    given = pod(SHARE)
    given["spec"]["containers"].append({"name": "agent", "securityContext": {"privileged": True}})
    assert said(given).startswith("0.30 GPU")


def test_a_node_by_name_is_refused_with_what_to_write_instead() -> None:
    assert said(pod(WHOLE, nodeName="n1")).startswith(
        "GP-2017: nodeName: n1: the pod would pass no scheduler"
    )


def test_the_dialects_own_schedulers_are_replaced_and_others_are_refused() -> None:
    assert said(pod(WHOLE, schedulerName="my-scheduler")).startswith(
        "GP-2017: schedulerName: my-scheduler is no scheduler"
    )
    assert claim_of(pod(WHOLE, schedulerName="default-scheduler")).notes == ()
    assert (
        claim_of(pod(WHOLE, schedulerName="my-scheduler"), {"schedulers": ["my-scheduler"]}).notes
        == ()
    )
    assert "kai's own" in claim_of(pod(WHOLE, schedulerName="kai-scheduler")).notes[0]


def test_a_pod_without_cards_may_be_anything() -> None:
    assert (
        claim_of(
            pod(nodeName="n1", schedulerName="my-scheduler", runtimeClassName="gvisor")
        ).containers
        == ()
    )
