"""Compiles bandwidth limits to rows of an OVN northbound database (ovn-nb(5), QoS). Pure.

What leaves a port goes through a meter in the switch, which drops what is above the limit. Nothing
a job does on its side of the cable reaches it. What comes to a port is shaped by the agent on the
port's interface. A gateway has a meter for each direction: its packets are those of many ports.
"""

from __future__ import annotations

from typing import Final

from gpupool.network.limiting.model import Bandwidth
from gpupool.network.rows import NorthboundRow

#: Thousandths of the limit at which a meter drops. It counts Ethernet headers, and TCP backs off
#: at each drop: at the limit itself TCP got 92 %, UDP 97 % (OVS 3.1.0, 100 Mbit/s).
_METER_MILLI: Final = 1040
_PRIORITY: Final = 1000


def compile_port_limit(port: str, name: str, bandwidth: Bandwidth) -> tuple[NorthboundRow, ...]:
    """Compile what leaves a port.

    Args:
        port: public id of the port.
        name: of its logical switch port.
    """
    if bandwidth.out_kbit is None:
        return ()
    match = f'inport == "{name}"'
    return (_make_row(key_port_limit(port), "from-lport", match, bandwidth.out_kbit),)


def compile_gateway_limit(
    network: str, cable: str, bandwidth: Bandwidth
) -> tuple[NorthboundRow, ...]:
    """Compile both directions of a gateway.

    Args:
        network: public id of its network.
        cable: name of the logical switch port that leads to the machine.
    """
    rows = list[NorthboundRow]()
    if bandwidth.in_kbit is not None:
        match = f'inport == "{cable}"'
        key = f"gateway-limit/{network}/in"
        rows.append(_make_row(key, "from-lport", match, bandwidth.in_kbit))
    if bandwidth.out_kbit is not None:
        match = f'outport == "{cable}"'
        key = f"gateway-limit/{network}/out"
        rows.append(_make_row(key, "to-lport", match, bandwidth.out_kbit))
    return tuple(rows)


def key_port_limit(port: str) -> str:
    return f"port-limit/{port}"


def find_meter_rate(limit_kbit: int) -> int:
    """Find the rate of the meter of a limit, in kbit/s."""
    return limit_kbit * _METER_MILLI // 1000


def _make_row(key: str, direction: str, match: str, limit_kbit: int) -> NorthboundRow:
    rate = find_meter_rate(limit_kbit)
    return NorthboundRow(
        "QoS",
        key,
        {
            "direction": direction,
            "priority": _PRIORITY,
            "match": match,
            # A burst of 1 s: with 0.1 s TCP got half of its limit.
            "bandwidth": {"rate": rate, "burst": rate},
        },
    )
