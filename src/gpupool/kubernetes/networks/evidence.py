"""Reads from objects of Kube-OVN whether it has put them in force. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpupool.kubernetes.networks.kube_ovn import Json, Key, key_of


def list_unready(objects: Iterable[Json], live: Mapping[Key, Json]) -> list[str]:
    """Return the objects that Kube-OVN has not reported in force, as `Kind NAME`."""
    unready = []
    for one in objects:
        found = live.get(key_of(one))
        if found is None or not _is_ready(one["kind"], found.get("status") or {}):
            unready.append(" ".join(key_of(one)))
    return unready


def _is_ready(kind: str, status: Mapping[str, Any]) -> bool:
    """Each kind says it in its own field (`status` of pkg/apis/kubeovn/v1)."""
    if kind == "Vpc":
        return bool(status.get("standby"))
    if kind == "Subnet":
        for condition in status.get("conditions") or ():
            if condition.get("type") == "Ready":
                return bool(condition.get("status") == "True")
        return False
    if kind == "SwitchLBRule":
        return bool(status.get("service"))
    if kind == "QoSPolicy":
        return bool(status.get("bindingType"))
    if kind == "VpcNatGateway":
        # Its `ready` is never set (1.17.0). Addresses and rules are ready once its pod runs.
        return bool(status.get("lanIp"))
    return bool(status.get("ready"))
