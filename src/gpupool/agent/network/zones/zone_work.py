"""Divides the work of an engine among its zones. Pure."""

from __future__ import annotations

from gpupool.wire.network.engine import NetworkEngineWork


def select_zone(work: NetworkEngineWork, zone: int) -> NetworkEngineWork:
    """Return what the engine of a zone has to do.

    Dedicated lines, a pair of gateways and the machine's rules are zone 0's.
    """
    if work.want == "stop":
        return work
    ours = {
        "proxies": [one for one in work.proxies if one.port.zone == zone],
        "limits": [one for one in work.limits if one.zone == zone],
    }
    if zone == 0:
        return work.model_copy(update=ours)
    return work.model_copy(
        update={
            **ours,
            "zones": [],
            "forwards": [],
            "firewall": [],
            "floating_ips": [],
            "line_interface": "",
            "lines": [],
            "gateway": None,
            "drill": None,
            "verification": None,
        }
    )
