"""Which objects count as in force, by what Kube-OVN writes into them."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.kubernetes.networks.evidence import list_unready
from gpupool.kubernetes.networks.kube_ovn import KINDS

IN_FORCE: dict[str, dict[str, Any]] = {
    "Vpc": {"standby": True},
    "Subnet": {"conditions": [{"type": "Ready", "status": "True"}]},
    "QoSPolicy": {"bindingType": "EIP"},
    "VpcNatGateway": {"lanIp": "10.1.0.254"},
    "IptablesEIP": {"ready": True},
    "IptablesSnatRule": {"ready": True},
    "IptablesFIPRule": {"ready": True},
    "IptablesDnatRule": {"ready": True},
    "SwitchLBRule": {"service": "a/slr-x"},
}


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS])
def test_an_object_is_in_force_once_its_status_says_so(kind: str) -> None:
    one = {"kind": kind, "metadata": {"name": "x"}}
    key = (kind, "x")
    assert list_unready([one], {}) == [f"{kind} x"]
    assert list_unready([one], {key: one}) == [f"{kind} x"]
    assert list_unready([one], {key: {**one, "status": IN_FORCE[kind]}}) == []


def test_a_subnet_with_another_condition_is_not_in_force() -> None:
    one = {"kind": "Subnet", "metadata": {"name": "x"}}
    for condition in (
        {"type": "Ready", "status": "False"},
        {"type": "Validated", "status": "True"},
    ):
        live = {("Subnet", "x"): {**one, "status": {"conditions": [condition]}}}
        assert list_unready([one], live) == ["Subnet x"]
